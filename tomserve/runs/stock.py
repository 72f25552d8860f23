"""Many items in little memory: each is kept as a line of JSON and made an Item again when it is needed.

An Item takes about 5 kB of memory, its line of JSON a tenth of that, and the lines of many or long items lie in a
temporary file (see tomserve.runs.lines). So some tens of bytes an item are held: its id, two sizes, and where its line
is. When a run of half a million questions is resumed, few of its items are ever needed again.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, overload

import orjson

from tomserve.content import digest_of
from tomserve.items import Factor, Item, is_variant, where
from tomserve.items.draw import WHOLE_CLUSTERS, Draw, describe, draw_places, share_of
from tomserve.runs.lines import Lines, Texts
from tomserve.runs.sorting import places_in_order


class Entry(NamedTuple):
    """What a draw needs to know of an item, read from its line without making the whole item; the id of its original,
    where it is a variant; and its place among the items."""

    id: str
    cluster: str
    factors: Mapping[str, Factor]
    base: str | None = None
    place: int = 0

    @property
    def kind(self) -> str:
        """The kind of variant that it is; empty for what is none, or does not say."""
        return str(self.factors.get("variant") or "") if self.base is not None else ""


class Stock(Sequence[Item]):
    """A sequence of items, each kept as its line of JSON; reading an item makes it anew.

    items: the items in their order.
    draw: how a part of the items is drawn; None draws whole clusters.
    ids: the items' ids. lines: their lines of JSON.
    characters: how many characters of text each item has.
    parts: how many sentences and choices each item has.
    benchmarks: the names of the benchmarks that the given items name.
    """

    def __init__(self, items: Iterable[Item] = (), draw: Draw | None = None) -> None:
        self.ids = Texts()
        self.lines = Lines()
        self.characters = array("I")
        self.parts = array("I")
        self.draw = draw or WHOLE_CLUSTERS
        self.benchmarks: set[str] = set()
        self._digest: str | None = None
        for item in items:
            self.benchmarks.add(item.benchmark)
            self.lines.append(item.to_json())
            self.ids.append(item.id)
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
        if self._digest is not None:
            return self._digest
        # The id comes first in a line and no two items have the same, so that its JSON alone tells the lines' order.
        # It is copied, because the bytes that orjson returns occupy the whole buffer in which they were written.
        ids = (bytes(bytearray(orjson.dumps(one))) for one in self.ids)
        self._digest = digest_of(self.lines[place] for place in places_in_order(ids))
        return self._digest

    @property
    def size(self) -> int:
        """How many bytes a file of these items has, with one on each line."""
        return self.lines.size + len(self)

    def where(self, conditions: Sequence[str]) -> Stock:
        """The items that meet all these conditions (see items.where); raises ConfigError where none does."""
        if not conditions:
            return self
        return self.part(array("Q", (entry.place for entry in where(self.entries(), conditions))))

    def limited(self, limit: int | None, asked: Collection[str] = frozenset()) -> Stock:
        """At most `limit` items, chosen by `items.draw.chosen` and in their order; all of them for None.

        asked: ids of items that a run asks already, which come first.
        """
        if limit is None or limit >= len(self):
            return self
        return self.part(draw_places(self.entries(), limit, self.draw, asked))

    def part(self, places: Sequence[int]) -> Stock:
        """The items at these places."""
        part = Stock(draw=self.draw)
        part.ids = self.ids.part(places)
        part.lines = self.lines.part(places)
        part.characters = array("I", (self.characters[place] for place in places))
        part.parts = array("I", (self.parts[place] for place in places))
        return part

    def joined(self, other: Stock) -> Stock:
        """These items and then the others, drawn as these are."""
        joined = Stock(draw=self.draw)
        joined.ids, joined.lines = self.ids + other.ids, self.lines.joined(other.lines)
        joined.characters, joined.parts = self.characters + other.characters, self.parts + other.parts
        return joined

    def apart(self) -> tuple[Stock, Stock]:
        """The items that are no variants, and those that are."""
        variants, others = array("Q"), array("Q")
        for place, line in enumerate(self.lines):
            (variants if is_variant(line) else others).append(place)
        if not variants:
            return self, Stock(draw=self.draw)
        return self.part(others), self.part(variants)

    def drawn(self, share: float, asked: Collection[str] = frozenset()) -> Stock:
        """That share of the items, from above 0 to 1, chosen in the same way as `limited` does."""
        return self.limited(share_of(len(self), share), asked)

    def described(self, every: Stock) -> str:
        """In words, which of all items these are (see items.draw.describe)."""
        return describe(self.entries(), every.entries(), self.draw)

    def entries(self) -> Iterator[Entry]:
        """What a draw needs to know of each item."""
        for place, line in enumerate(self.lines):
            data = orjson.loads(line)
            yield Entry(data["id"], data["cluster"], data["factors"], data.get("base"), place)
