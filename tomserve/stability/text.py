"""Telling an item otherwise by rules where nothing but its text is known."""

from __future__ import annotations

from tomserve.errors import InapplicableError
from tomserve.items import Item
from tomserve.stability.kinds import Kind


def retell(item: Item, kind: Kind) -> Item:
    """The variant of that kind. Raises InapplicableError where no rule is sure of it."""
    raise InapplicableError("no rule tells a text alone otherwise")
