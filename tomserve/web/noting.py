"""Changes what the workbench keeps of a run besides what it asked: notes, tags, and who may see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tomserve.errors import ConflictError, NotAllowedError
from tomserve.web import cards
from tomserve.web.cards import Card
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
    """Change the card of a run, and return its line as it is then; what is None stays. A card that is new says what
    was so without one: whose the run is, and whether it is private, as that of a measured run may be.

    Raises NotAllowedError where it is somebody else's, ConflictError where nobody could be kept from seeing it,
    ConfigError where the card is broken, and OSError where it cannot be written.
    """
    if not person.may_change(line.card.owner):
        raise NotAllowedError(f"the run {line.name!r} belongs to {line.card.owner or 'somebody else'}")
    if private and not person.name:
        raise ConflictError("nobody signs in here, so that a run cannot be private; start the workbench with --auth")
    wanted = {"notes": notes, "tags": None if tags is None else tuple(dict.fromkeys(tags)), "private": private}
    changes: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}

    def made(card: Card) -> Card:
        known = {"owner": line.card.owner or (person.name if private else ""), "private": line.card.private}
        return card.model_copy(update={**known, **changes}) if changes else card

    return replace(line, card=cards.change(line.folder, made))
