"""Telling an item otherwise by rules where nothing but its text is known."""

from __future__ import annotations

from tomserve.items import Item
from tomserve.stability.kinds import Kind
from tomserve.stability.making import Inapplicable


def retell(item: Item, kind: Kind) -> Item:
    """The variant of that kind. Raises Inapplicable where no rule is sure of it."""
    raise Inapplicable("no rule tells a text alone otherwise")
