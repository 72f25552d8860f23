"""Files of items: read with errors that name file, line and field, and replaced in one step."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, Literal, TypeVar

import orjson
import pydantic
from pydantic import BaseModel, Field

from tomserve.content import files
from tomserve.content.validation import choose_error, dot_path, explain, load_yaml, place_of, validate
from tomserve.errors import ContentError, JournalError
from tomserve.items.item import SCHEMA, Item, nfc

T = TypeVar("T")

Writing = Callable[[Path], AbstractContextManager[IO[bytes]]]
"""A way to write a file: what it yields takes the place of the path when the block ends."""


def read_items(path: str | Path) -> Iterator[Item]:
    """Yield the items of a file in order: JSONL, or, where the name ends in .yaml or .yml, YAML with the list `items`.

    Raises ContentError, with line and field, for an entry that is no item, an id that is given twice, and a file that
    holds no items or cannot be read.
    """
    return (item for _, item in numbered_items(path))


def numbered_items(path: str | Path) -> Iterator[tuple[int, Item]]:
    """Yield the items of a file as `read_items` does, each with the line where it begins. Raises as that does."""
    path = Path(path).expanduser()
    seen: dict[str, int] = {}
    factors: set[str] = set()
    for number, item in _yaml_items(path) if path.suffix in (".yaml", ".yml") else _json_lines(path, read_line):
        if (first := seen.setdefault(item.id, number)) != number:
            raise ContentError(f"{item.id!r} was already given in line {first}", path=path, line=number, field="id")
        factors.update(item.factors)
        refuse_factors(factors, path, number)
        yield number, item
    if not len(seen):
        raise ContentError("holds no items", path=path)


MOST_FACTORS, USUAL_FACTORS, MOST_CELLS = 1000, 100, 30_000_000
"""How many factors the items of a file may have together, as each becomes a column of the tables; and, of more than a
usual number of them, how many cells these columns may have, each of which takes some bytes even where it is empty."""


def refuse_factors(names: Collection[str], path: Path, number: int) -> None:
    """Raise ContentError by line where the items of a file, up to there, have more factors than tables can hold."""
    count = len(names)
    if count > MOST_FACTORS or (count > USUAL_FACTORS and count * number > MOST_CELLS):
        most = f"{MOST_FACTORS:,} in a file, and {USUAL_FACTORS} in one of very many items"
        reason = f"with this item there are {count:,} factors; expected at most {most}"
        raise ContentError(reason, path=path, line=number, field="factors")


def _json_lines(path: Path, read: Callable[[Path, int, bytes], T]) -> Iterator[tuple[int, T]]:
    """Yield what is read from the lines of a JSONL file, each with its number."""
    with files.refuse_os_errors(path), files.open_own(path) as file:
        for number, line in enumerate(files.read_lines(file, path), 1):
            if line.strip():
                yield number, read(path, number, line)


class _ItemsFile(BaseModel, extra="forbid", defer_build=True):
    """A YAML file of items."""

    schema_: Literal[1] = Field(alias="schema")
    items: list[Item]


def _yaml_items(path: Path) -> Iterator[tuple[int, Item]]:
    """Yield the items of a YAML file, each with the line where it begins."""
    data, lines = load_yaml(path)
    content = validate(data, _ItemsFile, path=path, lines=lines)
    for place, item in enumerate(content.items):
        yield lines[("items", place)], item


def read_ids(path: Path) -> Iterator[str]:
    """Yield the ids of a file of items that was checked when it was written. Raises ContentError for a line that is no
    item, as `read_items` does."""
    return (identifier for _, identifier in _json_lines(path, line_id))


def read_written_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file that `write_items` wrote, without their ends. Raises ContentError where it cannot be read."""
    return (line for _, line in _json_lines(path, lambda path, number, line: line.removesuffix(b"\n")))


def line_id(path: Path, number: int, line: bytes) -> str:
    """The id of the item on a line of a file that was checked when it was written. Raises as `read_line` does."""
    data = _json(line)
    identifier = data.get("id") if data.get("schema") == SCHEMA else None  # of a line written by tomserve
    return nfc(identifier) if isinstance(identifier, str) else read_line(path, number, line).id


def _json(line: bytes) -> dict[str, Any]:
    try:
        data = files.load_json(line)
    except orjson.JSONDecodeError:
        return {}
    return data if isinstance(data, dict) else {}


def is_variant(line: bytes) -> bool:
    """Whether a line of a file of items is a variant of another item; also False for a line that is no item."""
    return b'"base":' in line and _json(line).get("base") is not None  # most lines need not be parsed


def read_line(path: Path, number: int, line: bytes) -> Item:
    """The item of one line of a file. Raises ContentError with file, line and field where it is none."""
    try:
        return Item.from_json(line)
    except orjson.JSONDecodeError as error:
        raise ContentError(f"not JSON: {error.msg} (column {error.colno})", path=path, line=number) from None
    except pydantic.ValidationError as error:
        first, data = choose_error(error), orjson.loads(line)
        field = dot_path(place_of(first, data))
        raise ContentError(explain(first, data, Item), path=path, line=number, field=field) from None
    except ValueError as error:
        raise ContentError(str(error), path=path, line=number) from None


def write_items(path: Path, items: Iterable[Item], writing: Writing = files.replace_file) -> int:
    """Replace `path` by a file with these items as `write_chunks` does; returns how many items there are."""
    count = 0

    def lines() -> Iterator[bytes]:
        nonlocal count
        for count, item in enumerate(items, 1):  # noqa: B007  # the number of the last one is the count
            yield item.to_json() + b"\n"

    write_chunks(path, lines(), writing)
    return count


def write_chunks(path: Path, chunks: Iterable[bytes], writing: Writing = files.replace_file) -> None:
    """Replace `path` by a file with these bytes in one step; where making the chunks fails nothing is left behind.

    writing: how the file is written; for one that the user names, tomserve.content.output_path.open_output.

    Raises JournalError where the file cannot be written, ConfigError where `path` is a folder, a device or the like.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with writing(path) as file:
            for chunk in chunks:
                file.write(chunk)
    except OSError as error:
        raise JournalError(
            f"{path}: cannot be written ({error.strerror}); free space or choose another place"
        ) from None
