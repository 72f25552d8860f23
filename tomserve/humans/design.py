"""Draw which participant is asked about which stories, so that nobody's form and no story is special.

A *unit* is what a participant is asked at once: one question, or all questions about one story. Every unit is asked
equally often or once more (as far as the sizes of clusters allow), no participant gets two units of one cluster (two
versions of one task's story), and the values of every factor of the design are spread over each participant as they are
spread over the units.

>>> from tomserve.items import Item
>>> def about(jar, kind):
...     told = {"story": [f"The {jar} jar holds tea."], "question": f"{kind}?", "choices": ["tea", "salt"]}
...     return Item(id=f"{jar}-{kind}", answer="tea", cluster=jar, factors={"kind": kind}, **told)
>>> found = units([about(jar, kind) for jar in "abcd" for kind in ("belief", "reality")])
>>> drawn = assign(found, 4, 2, seed=1)
>>> sorted(Counter(place for one in drawn for place in one).values())
[1, 1, 1, 1, 1, 1, 1, 1]
>>> [sorted(found[place].values["kind"] for place in one) for one in drawn]
[['belief', 'reality'], ['belief', 'reality'], ['belief', 'reality'], ['belief', 'reality']]
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tomserve.errors import ConfigError
from tomserve.items import Item

MOST_VALUES = 24
"""A factor with more values is a name (of a person, a label, a version) rather than a condition, and is not spread."""

TRIES = 30
"""How many exchanges between two participants are tried for each place of the forms."""


@dataclass(frozen=True)
class Unit:
    """What is asked at once: the questions (items) about one story. `values`: of the factors in which they agree."""

    items: tuple[Item, ...]
    cluster: str
    values: Mapping[str, str]


def units(items: Sequence[Item], together: bool = False) -> list[Unit]:
    """The units of these items, in their order.

    together: whether all questions about one story of one cluster are one unit; otherwise each question is one.
    """
    groups: dict[object, list[Item]] = defaultdict(list)
    for place, item in enumerate(items):
        groups[(item.cluster, item.story) if together else place].append(item)
    found = []
    for group in groups.values():
        values = {
            name: str(group[0].factors[name])
            for name in group[0].factors
            if len({str(item.factors.get(name)) for item in group}) == 1
        }
        found.append(Unit(tuple(group), group[0].cluster, values))
    return found


def spread_over(listed: Sequence[Unit]) -> list[str]:
    """The factors whose values are spread over each participant: those with 2 to MOST_VALUES values."""
    values: dict[str, set[str]] = defaultdict(set)
    for unit in listed:
        for name, value in unit.values.items():
            values[name].add(value)
    return [name for name, found in values.items() if 2 <= len(found) <= MOST_VALUES]


def assign(listed: Sequence[Unit], people: int, stories: int, seed: int) -> list[list[int]]:
    """The places of the units that each participant gets, in the order in which they are asked.

    listed: the units. people: how many participants. stories: how many units each of them gets. seed: of all chance.

    How often each unit is asked differs by at most one, where the sizes of the clusters allow it. Raises ConfigError
    where there are fewer clusters than stories for one participant, since nobody may see two versions of one story.
    """
    clusters = {name: code for code, name in enumerate(dict.fromkeys(unit.cluster for unit in listed))}
    if stories > len(clusters):
        raise ConfigError(
            f"--stories {stories}: there are {len(clusters)} tasks to choose from, and nobody is to see two versions "
            f"of one; ask for at most {len(clusters)} stories, or raise --limit"
        )
    draw = _Draw(listed, [clusters[unit.cluster] for unit in listed], people, stories, np.random.default_rng(seed))
    draw.fill()
    draw.level()
    draw.improve()
    return [[int(place) for place in draw.rng.permutation(one)] for one in draw.given]


class _Draw:
    """The state of a draw. `given`: the units of each participant. `used`: how often each unit is asked. `counts`: how
    many units with each value of each factor a participant has; `codes`: these values of each unit."""

    def __init__(
        self, listed: Sequence[Unit], cluster: Sequence[int], people: int, stories: int, rng: np.random.Generator
    ) -> None:
        self.rng, self.people, self.stories = rng, people, stories
        self.cluster = np.asarray(cluster)
        self.codes, share = _coded(listed)
        self.target = stories * share
        self.counts = np.zeros((people, share.size))
        self.used = np.zeros(len(listed), dtype=int)
        self.of_cluster = np.zeros(self.cluster.max() + 1)
        self.blocked = np.zeros((people, self.of_cluster.size), dtype=bool)
        self.given: list[list[int]] = [[] for _ in range(people)]

    def cost(self, person: int) -> npt.NDArray[np.float64]:
        """How much worse spread the form of a participant would be with each unit [units]."""
        missing = self.counts[person] - self.target
        return np.asarray(missing[self.codes].sum(axis=1), dtype=np.float64)

    def give(self, person: int, unit: int, times: int = 1) -> None:
        """Give a unit to a participant, or take it back (times=-1)."""
        self.given[person].append(unit) if times > 0 else self.given[person].remove(unit)
        np.add.at(self.counts[person], self.codes[unit], times)
        self.used[unit] += times
        self.of_cluster[self.cluster[unit]] += times
        self.blocked[person, self.cluster[unit]] = times > 0

    def fill(self) -> None:
        """Give everybody one unit after another: of those asked least so far, the one that spreads best."""
        for _ in range(self.stories):
            for person in self.rng.permutation(self.people):
                free = ~self.blocked[person][self.cluster]
                worth = self.cost(person) + self.of_cluster[self.cluster] + self.rng.random(self.used.size) / 2
                least = self.used == self.used[free].min()
                self.give(int(person), int(np.where(free & least, worth, np.inf).argmin()))

    def level(self) -> None:
        """Exchange units that are asked too often for some that are asked too seldom."""
        while self.used.max() - self.used.min() > 1:
            many, few = (np.flatnonzero(self.used == end) for end in (self.used.max(), self.used.min()))
            found = next(
                (
                    (person, int(old), int(new))
                    for old in many
                    for person in range(self.people)
                    if int(old) in self.given[person]
                    for new in few
                    if not self.blocked[person, self.cluster[new]] or self.cluster[new] == self.cluster[old]
                ),
                None,
            )
            if found is None:
                return
            person, old, new = found
            self.give(person, old, -1)
            self.give(person, new)

    def improve(self) -> None:
        """Let two participants exchange a unit each wherever both forms together are then better spread."""
        if self.people < 2 or not self.codes.size:
            return
        for _ in range(TRIES * self.people * self.stories):
            a, b = (int(one) for one in self.rng.choice(self.people, 2, replace=False))
            i, j = (self.given[one][int(self.rng.integers(self.stories))] for one in (a, b))
            if i == j or self._clash(a, i, j) or self._clash(b, j, i):
                continue
            before = self._spread(a) + self._spread(b)
            self._swap(a, b, i, j)
            if self._spread(a) + self._spread(b) > before:
                self._swap(a, b, j, i)

    def _clash(self, person: int, old: int, new: int) -> bool:
        """Whether a participant who gives up one unit already has another of the new one's cluster."""
        return bool(self.blocked[person, self.cluster[new]]) and self.cluster[new] != self.cluster[old]

    def _swap(self, a: int, b: int, i: int, j: int) -> None:
        for person, old, new in ((a, i, j), (b, j, i)):
            self.give(person, old, -1)
            self.give(person, new)

    def _spread(self, person: int) -> float:
        missing = self.counts[person] - self.target
        return float(missing @ missing)


def _coded(listed: Sequence[Unit]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The values of the spread factors of each unit as numbers [units, factors], and the share of units that have each
    of these values [values of all factors]."""
    columns, shares, first = [], [], 0
    for name in spread_over(listed):
        values = [unit.values.get(name, "") for unit in listed]
        found = Counter(values)
        code = {value: first + place for place, value in enumerate(sorted(found))}
        columns.append([code[value] for value in values])
        shares += [found[value] / len(listed) for value in sorted(found)]
        first += len(found)
    codes = np.array(columns, dtype=np.int64).T if columns else np.zeros((len(listed), 0), dtype=np.int64)
    return codes, np.array(shares)
