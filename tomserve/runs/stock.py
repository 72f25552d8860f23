"""Many items in little memory: each is kept as a line of JSON and made an Item again when it is needed.

An Item takes about 5 kB of memory, its line of JSON a tenth of that. When a run of half a million questions is resumed,
few of its items are ever needed again.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from tomserve.content import digest
from tomserve.items import Item
from tomserve.items.draw import share_of, spread


class Stock(Sequence[Item]):
    """A sequence of items, each kept as its line of JSON; reading an item makes it anew.

    items: the items in their order.
    stratum: the factor over whose values a draw of items is spread; None for none.
    ids: the items' ids. lines: their lines of JSON.
    characters: how many characters of text each item has.
    parts: how many sentences and choices each item has.
    """

    def __init__(self, items: Iterable[Item] = (), stratum: str | None = None) -> None:
        self.ids: list[str] = []
        self.lines: list[bytes] = []
        self.characters = array("L")
        self.parts = array("L")
        self._strata: list[object] = []
        strata: dict[object, object] = {}  # keeps each value once, however many items have an equal one
        for item in items:
            self.ids.append(item.id)
            # Copied, because the bytes that orjson returns occupy the whole buffer of 8 kB in which they were written.
            self.lines.append(bytes(bytearray(item.to_json())))
            self.characters.append(sum(map(len, (*item.story, item.question, *item.choices))))
            self.parts.append(len(item.story) + len(item.choices))
            value = item.factors.get(stratum) if stratum else None
            self._strata.append(strata.setdefault((type(value), value), value))

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

    def limited(self, limit: int | None) -> Stock:
        """The `limit` items that `items.draw.spread` chooses, in their order; all of them for None."""
        if limit is None or limit >= len(self):
            return self
        chosen = spread(zip(self.ids, self._strata, strict=True), limit)
        places = [place for place, identifier in enumerate(self.ids) if identifier in chosen]
        part = Stock()
        part.ids = [self.ids[place] for place in places]
        part.lines = [self.lines[place] for place in places]
        part.characters = array("L", (self.characters[place] for place in places))
        part.parts = array("L", (self.parts[place] for place in places))
        part._strata = [self._strata[place] for place in places]
        return part

    def drawn(self, share: float) -> Stock:
        """That share of the items, from above 0 to 1, chosen in the same way as `limited` does."""
        return self.limited(share_of(len(self), share))
