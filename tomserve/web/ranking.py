"""Puts the leaderboard together from what is known of each run: rows, columns, and what cannot be ranked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tomserve.content.files import one_line
from tomserve.web.register import Line
from tomserve.web.tallying import Asked, Layers, Share, Tally

UNFINISHED = "not everything was asked yet, so that it cannot be ranked"

LAYERED = "three layers"
"""What stands for the benchmark where a row is about the three layers of a model."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What of the board is wanted; "" for all of it.

    benchmark, strategy, model: names. sort: the key of the column by which models stand in order, "" for the column
    that has most models. down: whether the highest share stands first.
    """

    benchmark: str = ""
    strategy: str = ""
    model: str = ""
    sort: str = ""
    down: bool = True


@dataclass(frozen=True, slots=True)
class Column:
    """A column. asked: what was asked, and how. number: 1, 2, ... where several columns have the same benchmark and
    strategy, 0 where only one does. differs: in what this one differs from the first of these, in words. chance, rule,
    rule_share: what a guesser and the best rule score; None or "" where that is not known, or differs."""

    asked: Asked
    number: int = 0
    differs: str = ""
    chance: float | None = None
    rule: str = ""
    rule_share: float | None = None

    @property
    def key(self) -> str:
        """The name of the column in addresses."""
        return self.asked.key


@dataclass(frozen=True, slots=True)
class Cell:
    """What one model has in one column. run: the run that counts, the newest complete one. others: names of further
    complete runs of the same. share: its numbers."""

    run: str
    share: Share
    others: tuple[str, ...] = ()
    best: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A model, or people. note: what tells it from another row of the same name. cells: by the keys of the columns."""

    model: str
    note: str = ""
    people: bool = False
    cells: dict[str, Cell] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Apart:
    """A run that is not on the board, and why."""

    run: str
    model: str
    benchmark: str
    why: str


@dataclass(frozen=True, slots=True)
class LayersRow:
    """The three layers of one model. run: the folder of its parts, of which `part` is a run to link to."""

    run: str
    part: str
    model: str
    layers: Layers


Found = dict[tuple[str, str, str, bool], dict[str, list[tuple[str, str, Share]]]]
"""Of each row (model, revision, how it is served, whether people) and column the runs: when made, name, share."""


@dataclass(frozen=True, slots=True)
class Board:
    """The leaderboard as somebody may see it.

    columns, rows: see there. apart: runs that are not ranked. layers: groups of models whose three layers can be
    compared, the highest score first. pending: how many runs are still being counted, of `total`. benchmarks,
    strategies, models: what can be chosen.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    apart: tuple[Apart, ...]
    layers: tuple[tuple[LayersRow, ...], ...]
    pending: int
    total: int
    filters: Filters
    benchmarks: tuple[str, ...] = ()
    strategies: tuple[str, ...] = ()
    models: tuple[str, ...] = ()


@dataclass
class Making:
    """Puts a board together.

    found: complete runs with their tallies. layered: of the folders with all three layers of a model, the name, that of
    one of its runs, and the tally. apart: what is not ranked already. pending, total: as in Board. names: of
    benchmarks, strategies and models that are known of already.
    """

    filters: Filters
    found: Sequence[tuple[Line, Tally]]
    layered: Sequence[tuple[str, str, Tally]]
    apart: list[Apart]
    pending: int
    total: int
    names: tuple[set[str], set[str], set[str]] = field(default_factory=lambda: (set(), set(), set()))

    def board(self) -> Board:
        """The board."""
        rows: Found = {}
        asked: dict[str, list[tuple[Asked, Share]]] = {}
        crowds: list[tuple[Line, Tally, Share]] = []
        benchmarks, strategies, models = self.names
        for line, tally in self.found:
            if tally.broken:
                self.apart.append(Apart(line.name, line.model, line.benchmark, tally.broken))
            for share in tally.shares:
                one = share.asked
                benchmarks.add(one.benchmark)
                strategies.add(one.strategy)
                models.add(tally.model)
                if not self._wanted(one, tally.model):
                    continue
                if share.spoiled:
                    self.apart.append(
                        Apart(line.name, tally.model, f"{one.benchmark} by {one.strategy}", share.spoiled)
                    )
                elif share.people:
                    crowds.append((line, tally, share))
                else:
                    cells = rows.setdefault((tally.model, tally.revision, tally.served, False), {})
                    cells.setdefault(one.key, []).append((tally.created, line.name, share))
                    asked.setdefault(one.key, []).append((one, share))
        for line, tally, share in crowds:
            keys = [key for key, shares in asked.items() if shares[0][0].ground == share.asked.ground]
            if not keys:
                asked.setdefault(share.asked.key, []).append((share.asked, share))
                keys = [share.asked.key]
            for key in keys:
                cells = rows.setdefault((tally.model, tally.revision, share.asked.strategy, True), {})
                cells.setdefault(key, []).append((tally.created, line.name, share))
        columns = _columns(asked, rows)
        return Board(
            columns,
            self._rows(rows, columns),
            tuple(self.apart),
            self._layers(),
            self.pending,
            self.total,
            self.filters,
            *(tuple(sorted(names)) for names in (benchmarks, strategies, models)),
        )

    def _wanted(self, asked: Asked, model: str) -> bool:
        wished = self.filters
        return all(
            wanted in ("", found)
            for wanted, found in (
                (wished.benchmark, asked.benchmark),
                (wished.strategy, asked.strategy),
                (wished.model, model),
            )
        )

    def _rows(
        self,
        found: Found,
        columns: Sequence[Column],
    ) -> tuple[Row, ...]:
        best = {column.key: _best(found, column.key) for column in columns}
        names = [key[0] for key in found]
        rows = []
        for (model, revision, served, crowd), cells in found.items():
            told = [served] if served else []
            told += [f"revision {one_line(revision)[:24]}"] if names.count(model) > 1 and revision else []
            made: dict[str, Cell] = {}
            for key, runs in cells.items():
                (_, name, share), *others = sorted(runs, key=lambda one: (one[0], one[1]), reverse=True)
                first = not crowd and share.estimate is not None and share.estimate == best[key]
                made[key] = Cell(name, share, tuple(one[1] for one in others), first)
            rows.append(Row(model, "; ".join(told), crowd, made))
        sort = self.filters.sort or (columns[0].key if columns else "")

        def place(row: Row) -> tuple[bool, float, str, str]:
            cell = row.cells.get(sort)
            value = None if cell is None else cell.share.estimate
            return value is None, (-(value or 0) if self.filters.down else (value or 0)), row.model, row.note

        by_name = sorted(rows, key=lambda row: (row.model, row.note), reverse=not self.filters.down)
        return tuple(by_name if sort == "model" else sorted(rows, key=place))

    def _layers(self) -> tuple[tuple[LayersRow, ...], ...]:
        groups: dict[tuple[str, str, str], list[LayersRow]] = {}
        for folder, part, tally in self.layered:
            layers = tally.layers
            if tally.broken or layers is None:
                why = tally.broken or UNFINISHED
                self.apart.append(Apart(part, tally.model, LAYERED, why))
            elif self.filters.model in ("", tally.model):
                if layers.spoiled:
                    self.apart.append(Apart(part, tally.model, LAYERED, layers.spoiled))
                    continue
                group = groups.setdefault((layers.asked, layers.inside, layers.formula), [])
                group.append(LayersRow(folder, part, tally.model, layers))
        ordered = [
            tuple(sorted(group, key=lambda row: (-(_score(row.layers) or 0), row.model))) for group in groups.values()
        ]
        return tuple(sorted(ordered, key=len, reverse=True))


def _score(layers: Layers) -> float | None:
    """The score that ranks a model: FToM where all layers were measured, else FToM_BS."""
    first = layers.ftom[0] if layers.ftom else None
    return first if first is not None else layers.ftom_bs[0] if layers.ftom_bs else None


def _best(found: Found, key: str) -> float | None:
    """The highest share of a column; None where no model has less."""
    newest = [max(cells[key])[2].estimate for row, cells in found.items() if key in cells and not row[3]]
    known = [value for value in newest if value is not None]
    return max(known) if len(set(known)) > 1 else None


def _columns(
    asked: dict[str, list[tuple[Asked, Share]]],
    rows: Found,
) -> tuple[Column, ...]:
    """The columns: benchmarks with most models first, and in each the columns with most models."""
    models = {key: sum(key in cells for cells in rows.values()) for key in asked}
    of_benchmark: dict[str, int] = {}
    for key, shares in asked.items():
        name = shares[0][0].benchmark
        of_benchmark[name] = max(of_benchmark.get(name, 0), models[key])
    ordered = sorted(
        asked,
        key=lambda key: (
            -of_benchmark[asked[key][0][0].benchmark],
            asked[key][0][0].benchmark,
            -models[key],
            asked[key][0][0].strategy,
            -asked[key][0][0].count,
            key,
        ),
    )
    first: dict[tuple[str, str], list[Asked]] = {}
    for key in ordered:
        one = asked[key][0][0]
        first.setdefault((one.benchmark, one.strategy), []).append(one)
    made = []
    for key in ordered:
        one, share = asked[key][0]
        alike = first[one.benchmark, one.strategy]
        number = alike.index(one) + 1 if len(alike) > 1 else 0
        differs = difference(alike[0], one) if number > 1 else ""
        made.append(Column(one, number, differs, share.chance, share.rule, share.rule_share))
    return tuple(made)


_CALLED = {
    "digest": "another version of the benchmark",
    "gold": "other right answers",
    "questions": "other questions",
    "prompt": "other prompts or another limit of tokens",
    "temperature": "another temperature",
    "repeats": "another number of samples",
    "seed": "another seed",
    "scoring": "replies read by other rules",
}


def difference(first: Asked, other: Asked) -> str:
    """In what two columns of the same benchmark and strategy differ, in words."""
    return ", ".join(said for name, said in _CALLED.items() if getattr(first, name) != getattr(other, name))
