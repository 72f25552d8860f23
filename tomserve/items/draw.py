"""Draw a part of the items by a seed: those that `--limit` asks, or the noise check asks again.

What belongs together is drawn together, such as all questions about one story, and the parts of the design get equally
many: a `Draw` says what is drawn whole and over what it is spread.

>>> from tomserve.items import Item
>>> def about(jar, number):
...     told = {"story": [f"The {jar} jar holds tea."], "question": "What is in it?", "choices": ["tea", "salt"]}
...     return Item(id=f"{jar}{number}", answer="tea", cluster=jar, factors={"size": len(jar)}, **told)
>>> items = [about(jar, number) for jar in ("red", "blue", "tan", "grey") for number in range(5)]
>>> found = limit_items(items, 11, Draw(over=("size",)))
>>> len(found), len({item.cluster for item in found}), sorted({item.factors["size"] for item in found})
(10, 2, [3, 4])
>>> describe(found, items, Draw(over=("size",), unit=("story", "stories")))
'10 of 20 questions: 2 stories'
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tomserve.content.text import count_noun
from tomserve.items.item import HasFactors, Item

Option = TypeVar("Option", bound=str | int)

LIMIT_SEED = 0
"""The seed of the order in which items are drawn; it never changes, so that a draw can be repeated."""


@dataclass(frozen=True)
class Draw:
    """How a part of a benchmark's items is drawn.

    Items are drawn in units. A unit is all items of one cluster or, where `whole` names factors, all items of one
    cluster that agree in these factors. Units come from all groups in turn. Which are drawn depends on the names of
    clusters and factors and on the seed only, never on the order of the items.
    """

    over: tuple[str, ...] = ()
    """Factors over which the draw is spread: every combination of their values is a group, and all groups get equally
    many units, as far as they go."""
    whole: tuple[str, ...] = ()
    """Factors that tell the units of one cluster apart; it is one unit without them, or for items that lack one."""
    alike: tuple[str, ...] = ()
    """Factors of `over`: groups that agree in them get units with the same values of `whole` in the same order, so that
    they are compared on the same ones, and each value of `whole` comes up equally often overall."""
    first: str | None = None
    """The value of the groups that come first among those that are alike, with which all others are compared."""
    unit: tuple[str, str] = ("cluster", "clusters")
    group: tuple[str, str] | None = None
    """What one and several units and groups are called in messages; None where these name no groups."""


WHOLE_CLUSTERS = Draw()
"""Draws whole clusters, spread over nothing."""


class Drawable(HasFactors, Protocol):
    """What a draw needs to know of an item."""

    @property
    def id(self) -> str:
        """The item's id."""

    @property
    def cluster(self) -> str:
        """The task or story that the item comes from."""


Names = tuple[str, ...]
"""Values of factors as text, or the name of a unit."""


@dataclass(slots=True)
class _Unit:
    """What is drawn as a whole."""

    name: Names  # its cluster, and its values of `Draw.whole`
    groups: set[Names]  # the values of `Draw.over` that its items have
    block: Names | None  # its values of `Draw.alike`; None where it is to be like no other
    places: list[int]  # of its items

    @property
    def group(self) -> Names:
        """The group that the unit belongs to: a unit whose items are of several groups is of all of them."""
        return tuple(value for one in sorted(self.groups) for value in one)

    @property
    def version(self) -> Names:
        """What tells the units of one cluster apart: the values of `Draw.whole`."""
        return self.name[1:]


def limit_items(items: Sequence[Item], limit: int | None, draw: Draw | None = None) -> list[Item]:
    """At most `limit` items, in the order of the file; None keeps all. draw: None draws whole clusters.

    A rest that is too small for a whole unit is left out, unless nothing would be drawn: then a part of the first unit
    is. A larger limit contains a smaller one's items.
    """
    return list(items) if limit is None else [items[place] for place in draw_places(items, limit, draw)]


def share_of(count: int, share: float) -> int:
    """How many of `count` items this share is, rounded; at least one."""
    return max(1, round(share * count))


def draw_places(
    items: Iterable[Drawable], limit: int, draw: Draw | None = None, asked: Collection[str] = frozenset()
) -> list[int]:
    """The places of the items that are drawn, in the order of the file; see `limit_items`. asked: ids of items that a
    run asks already, which come first, so that what was begun is finished before it grows."""
    draw = draw or WHOLE_CLUSTERS
    ids: list[str] = []
    units: dict[Names, _Unit] = {}
    for place, item in enumerate(items):
        ids.append(item.id)
        name = _name(item, draw)
        if (unit := units.get(name)) is None:
            # the values by which the unit is like others; None where it is like none
            alike = draw.alike and len(name) > 1 and _has(item, draw.alike)
            block = _values(item, draw.alike) if alike else None
            unit = units[name] = _Unit(name, set(), block, [])
        unit.groups.add(_values(item, draw.over))
        unit.places.append(place)
    if limit >= len(ids):
        return list(range(len(ids)))
    order = [unit.places for unit in _in_order(list(units.values()), draw)]
    begun = [[place for place in places if ids[place] in asked] for places in order] if asked else []
    new = [[place for place in places if ids[place] not in asked] for places in order] if asked else order
    taken: list[int] = []
    for places in filter(None, (*begun, *new)):
        if len(taken) + len(places) > limit:
            taken = taken or sorted(places, key=lambda place: _rank(ids[place]))[:limit]
            break
        taken += places
    return sorted(taken)


def describe(part: Iterable[Drawable], every: Iterable[Drawable], draw: Draw) -> str:
    """What was drawn, in words, such as "176 of 1,088 questions: 88 stories of 68 tasks". part: the drawn items."""
    sizes = Counter(_name(item, draw) for item in every)
    found: Counter[Names] = Counter()
    groups = set()
    for item in part:
        found[_name(item, draw)] += 1
        groups.add(_values(item, draw.over))
    words = f"{found.total():,} of {sizes.total():,} questions"
    if found.total() == sizes.total() or max(sizes.values()) == 1:
        return words
    broken = sum(count < sizes[name] for name, count in found.items())
    if broken == len(found) == 1:
        words += f": part of one {draw.unit[0]}"
    else:
        words += f": {count_noun(len(found), *draw.unit)}"
        words += f" ({broken:,} of them in part)" if broken else ""
    if draw.group is not None:
        words += f" of {count_noun(len(groups), *draw.group)}"
    return words


def draw_from_strata(members: Iterable[tuple[str, object]], limit: int) -> set[str]:
    """At most `limit` of the names, drawn from all strata in turn, whatever their order. members: pairs of a name and
    its stratum."""
    strata: dict[object, list[str]] = defaultdict(list)
    for name, stratum in sorted(members, key=lambda one: _rank(one[0])):
        strata[stratum].append(name)
    ranked = sorted(
        ((place, stratum, name) for stratum, names in strata.items() for place, name in enumerate(names)),
        key=lambda entry: (entry[0], str(entry[1])),
    )
    return {name for _, _, name in ranked[:limit]}


def _in_order(units: Sequence[_Unit], draw: Draw) -> list[_Unit]:
    """The units in the order in which they are drawn: in each round, one of every group."""
    rounds = _rounds_alike([unit for unit in units if unit.block is not None])
    so_far: Counter[Names] = Counter()
    for unit in sorted((unit for unit in units if unit.block is None), key=lambda unit: _rank(*unit.name)):
        rounds[unit.name] = so_far[unit.group]
        so_far[unit.group] += 1

    def key(unit: _Unit) -> tuple[int, bytes, bool, bytes, bytes]:
        follows = draw.first is None or repr(draw.first) not in unit.group
        block = unit.group if unit.block is None else unit.block
        return rounds[unit.name], _rank(*block), follows, _rank(*unit.group), _rank(*unit.name)

    return sorted(units, key=key)


def _rounds_alike(units: Sequence[_Unit]) -> dict[Names, int]:
    """The round in which each unit is drawn, by its name: the same for units of one block that are of one version."""
    # In each round every block takes, of the versions that it has left, the one whose values were drawn least so far,
    # as a share of the items that have them.
    left: dict[Names, Counter[Names]] = defaultdict(Counter)
    every: Counter[tuple[int, str]] = Counter()
    for unit in units:
        left[unit.block or ()][unit.version] += len(unit.places)
        for value in enumerate(unit.version):
            every[value] += len(unit.places)
    used: Counter[tuple[int, str]] = Counter()
    rounds: dict[tuple[Names, Names], int] = {}
    blocks = sorted(left, key=lambda block: _rank(*block))
    for number in range(max(map(len, left.values()), default=0)):
        for block in (block for block in blocks if left[block]):
            shares = {one: sum(used[value] / every[value] for value in enumerate(one)) for one in left[block]}
            version = min(shares, key=lambda one: (shares[one], _rank(*block, *one)))
            count = left[block].pop(version)
            used.update(dict.fromkeys(enumerate(version), count))
            rounds[block, version] = number
    return {unit.name: rounds[unit.block or (), unit.version] for unit in units}


def _name(item: Drawable, draw: Draw) -> Names:
    """The name of the item's unit: its cluster, and its values of `whole` where it has all of these factors."""
    return (item.cluster, *(_values(item, draw.whole) if _has(item, draw.whole) else ()))


def _has(item: Drawable, names: Iterable[str]) -> bool:
    return all(name in item.factors for name in names)


def _values(item: Drawable, names: Iterable[str]) -> Names:
    """The item's values of these factors, as text that tells true from "true" and 1 from "1"."""
    return tuple(repr(item.factors.get(name)) for name in names)


def _rank(*names: str) -> bytes:
    """Where something of that name stands in the seeded order."""
    return seeded_rank(LIMIT_SEED, *names, separator=":")


def seeded_rank(*parts: str | int, separator: str = "\0") -> bytes:
    """Where something stands in an order that looks random and is the same everywhere: the digest of these parts."""
    return hashlib.sha256(separator.join(map(str, parts)).encode()).digest()


def seeded_order(options: Iterable[Option], *seed: str | int, separator: str = "\0") -> list[Option]:
    """The options in an order that looks random, and that follows from each of them and the seed alone."""
    return sorted(options, key=lambda option: seeded_rank(*seed, option, separator=separator))
