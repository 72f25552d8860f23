"""Counts answers file by file, so that the tables of any number of answers take the memory of one file and of the
clusters' sums.

A counter looks at the prepared rows of every file twice: once to know what there is (which rule is best, which clusters
lie in several files), and once to count. `take` leads several counters over the same files. Rows that are in memory are
one file, so that both ways make their tables with the same code from the same sums.

>>> rows = pl.DataFrame({"model": "m", "strategy": "s", "item": list("abc"), "cluster": list("xxy"), "faulty": False,
...                      "unread": False, "correct": [True, False, True]})
>>> tally = Tally((), Kinds({}))
>>> take(lambda: [rows[:1], rows[1:]], [tally])
>>> [(found["correct"], found["total"], found["tasks"]) for _, found in tally.shares()]
[(2, 3, 2)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import polars as pl

from tomserve.studies import asking, ruled, summed
from tomserve.studies.baselines import Kinds
from tomserve.studies.contrasts import pair
from tomserve.studies.rows import BASELINE
from tomserve.studies.summed import Record

Rows = Callable[[], Iterable[pl.DataFrame]]
"""Gives the prepared rows (tomserve.studies.rows) of every file, as often as it is called. No question of a model may
have rows in two files."""

Key = tuple[Any, ...]
ARM = ("model", "strategy")


class Counter(Protocol):
    """What `take` leads over files."""

    def first(self, rows: pl.DataFrame) -> None:
        """Look at the rows of a file for the first time."""

    def second(self, rows: pl.DataFrame, spanning: pl.Series) -> None:
        """Look at them again. spanning: the hashes of the names of clusters that lie in several files."""


def take(rows: Rows, counters: Sequence[Counter]) -> None:
    """Lead the counters over all files twice."""
    seen: list[pl.Series] = []
    for part in rows():
        seen.append(part["cluster"].unique().hash())
        for counter in counters:
            counter.first(part)
    hashes = pl.concat(seen) if seen else pl.Series(dtype=pl.UInt64)
    spanning = hashes.filter(hashes.is_duplicated()).unique() if len(seen) > 1 else hashes.clear()
    for part in rows():
        for counter in counters:
            counter.second(part, spanning)


class Tally:
    """Counts of answers by model, strategy and the values of some columns.

    by: the columns; rows without a value are left out. kinds: the rules whose best stands beside each share; none for
    no rules. effects: whether pairs of strategies are counted: each with vanilla ("baseline"), or with the one that
    asks for the answer alone ("within"; see contrasts.effects_within). differences: whether the clusters of every cell
    are kept, so that cells can be compared. guess: whether the column floor_guess is counted.
    """

    def __init__(
        self,
        by: tuple[str, ...],
        kinds: Kinds,
        *,
        effects: Literal["baseline", "within"] | None = None,
        differences: bool = False,
        guess: bool = False,
    ) -> None:
        self.by, self.kinds, self.guess = by, kinds, guess
        self.differences, self._effects = differences, effects
        self._keys = [*ARM, *by]
        self._rules: list[pl.DataFrame] = []
        self._best: dict[Key, Record] | None = None
        self._totals: list[pl.DataFrame] = []
        self._open: list[pl.DataFrame] = []
        self._cells: list[pl.DataFrame] = []
        self._guesses: list[pl.DataFrame] = []
        self._beside: dict[Key, list[pl.DataFrame]] = {}
        self._pairs: dict[Key, list[pl.DataFrame]] = {}

    def first(self, rows: pl.DataFrame) -> None:
        """Count how many answers of each cell every rule has right."""
        if self.kinds.columns:
            self._rules.append(_ruled(self._valued(rows), self._keys, self.kinds))

    def second(self, rows: pl.DataFrame, spanning: pl.Series) -> None:
        """Count the answers of each cell and cluster."""
        rows = self._valued(rows)
        if rows.is_empty():
            return
        sums = summed.of_answers(rows, self._keys)
        apart = sums["cluster"].hash().is_in(spanning.implode()) if spanning.len() else None
        if apart is not None:
            self._open.append(sums.filter(apart))
        self._totals.append(_totals(sums if apart is None else sums.filter(~apart), self._keys))
        if self.differences:
            self._cells.append(sums)
        if self.guess:
            self._guesses.append(rows.group_by(*self._keys, "floor_guess").len())
        if self.kinds.columns:
            self._count_beside(rows)
        if self._effects is not None:
            for key, pairs in _pairs(rows, self.by, self._effects):
                self._pairs.setdefault(key, []).append(pairs)

    def _valued(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.drop_nulls(list(self.by)) if self.by else rows

    def _count_beside(self, rows: pl.DataFrame) -> None:
        for key, part in rows.group_by(self._keys, maintain_order=True):
            if (best := self.best(key)) is not None:
                found = summed.of_pairs(ruled.pairs_with(part, best["column"]))
                self._beside.setdefault(key, []).append(found)

    def best(self, key: Key) -> Record | None:
        """The best rule of a cell (see baselines.counted); None where no rule says anything of it."""
        if self._best is None:
            self._best = {}
            for row in _added(self._rules, self._keys).iter_rows(named=True) if self._rules else ():
                if ranked := ruled.ranked(row, self.kinds.by_column):
                    self._best[tuple(row[name] for name in self._keys)] = ranked[0]
        return self._best.get(key)

    def cells(self) -> pl.DataFrame:
        """The totals of all cells, sorted by keys: answers, right, failed, unread, clusters and summed.SQUARES."""
        whole = list(self._totals)
        if self._open:
            whole.append(_totals(summed.add(self._open), self._keys))
        return _added(whole, self._keys) if whole else pl.DataFrame()

    def clusters(self) -> pl.DataFrame:
        """The sums of all cells by cluster (summed.of_answers), where `differences` are wanted."""
        return summed.add(self._cells) if self._cells else pl.DataFrame()

    def shares(self, intervals: str = "recommended", *, brief: bool = False) -> Iterator[tuple[Key, Record]]:
        """For each cell its key and what baselines.accuracy says of its rows. brief: without the interval of the
        difference to the best rule. `chance` stands there where guesses are counted."""
        chances = _chances(self._guesses, self._keys) if self._guesses else {}
        for row in self.cells().iter_rows(named=True):
            key = tuple(row[name] for name in self._keys)
            found = ruled.counted_share(row, intervals)
            if intervals in ("recommended", ruled.EFFECTIVE):
                sums = self._beside.get(key)
                found |= ruled.beside_of(self.best(key), summed.add(sums) if sums and not brief else None, brief)
            yield key, {**found, **({"chance": chances.get(key)} if self.guess else {})}

    def effects(self) -> Iterator[Record]:
        """The records of contrasts.prompting_effects or, with "within", of contrasts.effects_within."""
        names = ["model", *self.by]
        cells = self.cells()
        for key, part in cells.group_by(names, maintain_order=True) if cells.height else ():
            asked = part["strategy"].to_list()
            for treatment, controls in _controls(asked, self._effects or "baseline"):
                for control in controls:
                    if (found := self._pairs.get((*key, treatment, control))) is not None:
                        named = dict(zip(names, key, strict=True)) | {"treatment": treatment, "control": control}
                        yield {**named, **summed.contrast(summed.add(found))}
                        break


class Once:
    """Counts how many questions of a model each rule has right, of which each counts once, whatever it was asked by."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self._rules: list[pl.DataFrame] = []

    def first(self, rows: pl.DataFrame) -> None:
        """Count the questions of a file."""
        if self.kinds.columns:
            read = rows.select("model", "item", *self.kinds.columns)
            once = read.unique(["model", "item"], keep="first", maintain_order=True)
            self._rules.append(_ruled(once, ["model"], self.kinds))

    def second(self, rows: pl.DataFrame, spanning: pl.Series) -> None:
        """Everything was counted at the first look."""

    def records(self) -> Iterator[Record]:
        """The records of baselines.table by model."""
        for row in _added(self._rules, ["model"]).iter_rows(named=True) if self._rules else ():
            for record in ruled.ranked(row, self.kinds.by_column):
                del record["column"]
                yield {"model": row["model"], **record}


def _ruled(rows: pl.DataFrame, keys: Sequence[str], kinds: Kinds) -> pl.DataFrame:
    """By the keys the number of rows, and by rule how many it has right and of how many it says something."""
    right = [pl.col(name).sum().cast(pl.Int64) for name in kinds.columns]
    said = [pl.col(name).count().cast(pl.Int64).alias(f"said {name}") for name in kinds.columns]
    return rows.group_by(keys).agg(pl.len().cast(pl.Int64).alias("total"), *right, *said)


def _added(frames: Sequence[pl.DataFrame], keys: Sequence[str]) -> pl.DataFrame:
    return pl.concat(frames).group_by(keys).agg(pl.all().sum()).sort(keys)


def _totals(sums: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    counted = summed.counts_of(sums)
    clusters = pl.len().cast(pl.Int64).alias("clusters")
    return sums.group_by(keys).agg(pl.col(counted).sum(), clusters, *summed.squares())


def _chances(guesses: Sequence[pl.DataFrame], keys: Sequence[str]) -> Mapping[Key, float | None]:
    """By cell the mean of floor_guess, added up in the order of its values, so that it is the same for any files."""
    whole = pl.concat(guesses).drop_nulls("floor_guess").group_by(*keys, "floor_guess").agg(pl.col("len").sum())
    found = {}
    for key, part in whole.sort(*keys, "floor_guess").group_by(keys, maintain_order=True):
        found[key] = float((part["floor_guess"] * part["len"]).sum()) / int(part["len"].sum())
    return found


def _controls(asked: Sequence[str], effects: str) -> Iterator[tuple[str, list[str]]]:
    """Each strategy with those that it is compared with, the first that was asked the same coming first."""
    if effects == "baseline":
        yield from ((name, [BASELINE]) for name in asked if name != BASELINE)
        return
    named = sorted(asked, key=lambda name: (name != BASELINE, name))
    plain = asking.plain(named)
    for name in named:
        controls = plain[: plain.index(name)] if name in plain else plain
        yield name, sorted(controls, key=lambda control: asking.partner(control) != name)


def _pairs(rows: pl.DataFrame, by: Sequence[str], effects: str) -> Iterator[tuple[Key, pl.DataFrame]]:
    """By cell, treatment and control the sums of their pairs, for every control that may be wanted in the end."""
    for key, part in rows.group_by("model", *by, maintain_order=True):
        arms = {str(name): arm for (name,), arm in part.group_by("strategy", maintain_order=True)}
        plain = [name for name in arms if (name == BASELINE if effects == "baseline" else not asking.reasons(name))]
        for treatment, treated in arms.items():
            for control in plain:
                if control == treatment:
                    continue
                pairs = pair(treated, arms[control])
                if pairs.height:
                    yield (*key, treatment, control), summed.of_pairs(pairs)
