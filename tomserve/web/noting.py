"""Changes what the workbench keeps of a run besides what it asked: notes, tags, and who may see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fastapi import HTTPException

from tomserve.web import cards
from tomserve.web.people import Person
from tomserve.web.register import Line


def change(
    line: Line,
    person: Person,
    *,
    notes: str | None = None,
    tags: Sequence[str] | None = None,
    private: bool | None = None,
) -> Line:
    """Change the card of a run, and return its line as it is then; what is None stays.

    Raises HTTPException where the person may not change that run, or nobody could be kept from seeing it, ConfigError
    where the card is broken, and OSError where it cannot be written.
    """
    if not person.may_change(line.card.owner):
        raise HTTPException(403, f"the run {line.name!r} belongs to {line.card.owner or 'somebody else'}")
    if private and not person.name:
        raise HTTPException(
            409, "nobody signs in here, so that a run cannot be private; start the workbench with --auth"
        )
    card = cards.read(line.folder)
    wanted = {"notes": notes, "tags": None if tags is None else tuple(dict.fromkeys(tags)), "private": private}
    changes = {name: value for name, value in wanted.items() if value is not None}
    if private and not card.owner:
        changes["owner"] = person.name
    card = card.model_copy(update=changes)
    cards.write(line.folder, card)
    return replace(line, card=card)
