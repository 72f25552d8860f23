"""Make an item of what a file of others says, or say where that file asks for what no item can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tomserve.errors import ContentError
from tomserve.items import Item


def made(path: Path, line: int | None, place: str, **fields: Any) -> Item:
    """The item with these fields.

    path, line, place: the file, and the line and the field in it that the item is of. Raises ContentError with them
    where the fields make no item, such as where an option is too long or holds a control character.
    """
    try:
        return Item(**fields)
    except ValidationError as error:
        wrong = error.errors()[0]
        what = ".".join(map(str, wrong["loc"])) or "item"
        reason = f"makes no item ({what}: {wrong['msg']}); take the official file, or mend this"
        raise ContentError(reason, path=path, line=line, field=place) from None
