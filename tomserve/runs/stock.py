"""Many items in little memory: each is kept as a line of JSON and made an Item again when it is needed.

An Item takes about 5 kB of memory, its line of JSON a tenth of that. When a run of half a million questions is resumed,
few of its items are ever needed again.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, overload

import orjson

from tomserve.content import digest
from tomserve.items import Factor, Item
from tomserve.items.draw import WHOLE_CLUSTERS, Draw, chosen, describe, share_of


class _Entry(NamedTuple):
    """What a draw needs to know of an item, read from its line without making the whole item."""

    id: str
    cluster: str
    factors: Mapping[str, Factor]


class Stock(Sequence[Item]):
    """A sequence of items, each kept as its line of JSON; reading an item makes it anew.

    items: the items in their order.
    draw: how a part of the items is drawn; None draws whole clusters.
    ids: the items' ids. lines: their lines of JSON.
    characters: how many characters of text each item has.
    parts: how many sentences and choices each item has.
    """

    def __init__(self, items: Iterable[Item] = (), draw: Draw | None = None) -> None:
        self.ids: list[str] = []
        self.lines: list[bytes] = []
        self.characters = array("L")
        self.parts = array("L")
        self.draw = draw or WHOLE_CLUSTERS
        for item in items:
            self.ids.append(item.id)
            # Copied, because the bytes that orjson returns occupy the whole buffer of 8 kB in which they were written.
            self.lines.append(bytes(bytearray(item.to_json())))
            self.characters.append(sum(map(len, (*item.story, item.question, *item.choices))))
            self.parts.append(len(item.story) + len(item.choices))

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> list[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | list[Item]:
        if isinstance(place, slice):
            return [Item.from_json(line) for line in self.lines[place]]
        return Item.from_json(self.lines[place])

    def __iter__(self) -> Iterator[Item]:
        return map(Item.from_json, self.lines)

    def digest(self) -> str:
        """A digest of the items that does not depend on their order; the same as that of `items.items_digest`."""
        return digest(*sorted(self.lines))

    def limited(self, limit: int | None, asked: Collection[str] = frozenset()) -> Stock:
        """At most `limit` items, chosen by `items.draw.chosen` and in their order; all of them for None.

        asked: ids of items that a run asks already, which come first.
        """
        if limit is None or limit >= len(self):
            return self
        places = chosen(self._entries(), limit, self.draw, asked)
        part = Stock(draw=self.draw)
        part.ids = [self.ids[place] for place in places]
        part.lines = [self.lines[place] for place in places]
        part.characters = array("L", (self.characters[place] for place in places))
        part.parts = array("L", (self.parts[place] for place in places))
        return part

    def drawn(self, share: float, asked: Collection[str] = frozenset()) -> Stock:
        """That share of the items, from above 0 to 1, chosen in the same way as `limited` does."""
        return self.limited(share_of(len(self), share), asked)

    def described(self, every: Stock) -> str:
        """In words, which of all items these are (see items.draw.describe)."""
        return describe(self._entries(), every._entries(), self.draw)

    def _entries(self) -> Iterator[_Entry]:
        for line in self.lines:
            data = orjson.loads(line)
            yield _Entry(data["id"], data["cluster"], data["factors"])
