"""Many items in little memory: each as its line of JSON, read again where it is needed.

An Item of pydantic takes some 5 kB, its line a tenth of that; of half a million questions of a run that is resumed few
are ever needed again.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from tomserve.content import digest
from tomserve.items import Item
from tomserve.items.draw import share_of, spread


class Stock(Sequence[Item]):
    """Items in their order, each kept as its line of JSON. Reading one by its place makes the Item anew.

    stratum: the factor over whose values draws are spread; None for no spreading. `ids` are the items' ids;
    `characters` and `parts` say of each how much text it has, and in how many sentences and choices.
    """

    def __init__(self, items: Iterable[Item] = (), stratum: str | None = None) -> None:
        self.ids: list[str] = []
        self.lines: list[bytes] = []
        self.characters = array("L")
        self.parts = array("L")
        self._strata: list[object] = []
        strata: dict[object, object] = {}  # a million of the same few texts are not kept one by one
        for item in items:
            self.ids.append(item.id)
            # copied, because what orjson returns keeps the room of the buffer in which it was written: 8 kB
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
        """Content digest, whatever the order; that of `items.items_digest`."""
        return digest(*sorted(self.lines))

    def limited(self, limit: int | None) -> Stock:
        """The first `limit` of them as `draw.limited` chooses."""
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
        """That share of them as `draw.drawn` chooses."""
        return self.limited(share_of(len(self), share))
