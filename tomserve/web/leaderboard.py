"""The leaderboard of the workbench: models in rows, what they were asked in columns, and the board as files.

The board is put together from the tallies of runs each time somebody looks. What may stand in one column, or in one
table of layers, tomserve.studies.comparability decides.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
import polars as pl
import pydantic
from pydantic import Field

from tomserve._version import __version__
from tomserve.causal.settings import ITEMS
from tomserve.content import digest
from tomserve.content.files import one_line
from tomserve.engine.records import utc_now
from tomserve.errors import ConfigError, one_of
from tomserve.reporting import tables
from tomserve.runs.manifest import ANSWERS
from tomserve.studies.comparability import AnswerConditions, Conditions, describe_difference, group_comparable
from tomserve.studies.presentation import cell as two_digits
from tomserve.web.accounts import Person
from tomserve.web.background import Computation
from tomserve.web.page_templates import render_template
from tomserve.web.run_index import MANIFEST, RunEntry, RunIndex
from tomserve.web.tally import Interval, Layers, Share, Tally, read_tallies
from tomserve.workflows import leaderboard

UNFINISHED = "incomplete, therefore not ranked"
ADAPTIVE = "its questions followed from its answers, therefore not ranked"
LAYERED = "three layers"  # what stands for the benchmark where a row is about the three layers of a model


Word = Annotated[str, Field(max_length=300)]


class Filters(pydantic.BaseModel):
    """What of the leaderboard is wanted; what is left out leaves all of it."""

    model_config = pydantic.ConfigDict(frozen=True)

    benchmark: Word = ""
    strategy: Word = ""
    model: Word = ""
    sort: Annotated[Word, Field(description="The key of the column by which models stand in order.")] = ""
    order: Literal["up", "down"] = "down"

    @property
    def down(self) -> bool:
        """Whether the highest share stands first."""
        return self.order == "down"

    def passes(self, asked: AnswerConditions, model: str) -> bool:
        """Whether a share is wanted."""
        told = ((self.benchmark, asked.benchmark), (self.strategy, asked.strategy), (self.model, model))
        return all(wanted in ("", found) for wanted, found in told)


@dataclass(frozen=True, slots=True)
class Column:
    """A column."""

    asked: AnswerConditions  # what was asked, and how
    number: int = 0  # 1, 2, ... where several columns have the same benchmark and strategy
    differs: str = ""  # in what this one differs from the first of these
    chance: float | None = None  # what a guesser and the best rule score, where that is known and the same
    rule: str = ""
    rule_share: float | None = None

    @property
    def key(self) -> str:
        """The name of the column in addresses."""
        return column_key(self.asked)


def column_key(asked: AnswerConditions) -> str:
    """A short name of all that was asked, and how."""
    return digest(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)).removeprefix("sha256:")[:16]


@dataclass(frozen=True, slots=True)
class Cell:
    """What one model has in one column."""

    run: str  # the run that counts, the newest complete one
    share: Share
    others: tuple[str, ...] = ()  # further complete runs of the same
    best: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A model, or people."""

    model: str
    note: str = ""  # what tells it from another row of the same name
    people: bool = False
    cells: dict[str, Cell] = field(default_factory=dict)  # by the keys of the columns


@dataclass(frozen=True, slots=True)
class UnrankedRun:
    """A run that is not on the board, and why."""

    run: str
    model: str
    benchmark: str
    why: str


@dataclass(frozen=True, slots=True)
class LayersEntry:
    """The three layers of one model."""

    run: str  # the folder of its parts
    part: str  # a run among them to link to
    model: str
    layers: Layers


@dataclass(frozen=True, slots=True)
class NotCompared:
    """A model with a score by which it may not stand beside the largest group of models, and why."""

    part: str
    model: str
    score: str
    why: str


@dataclass(frozen=True, slots=True)
class Board:
    """The leaderboard as somebody may see it."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    apart: tuple[UnrankedRun, ...]
    layers: tuple[tuple[LayersEntry, ...], ...]
    """Groups of models whose three layers can be compared, the highest score first; then those that can only be
    compared without the mechanism."""
    not_compared: tuple[NotCompared, ...]
    pending: int  # results that are still being counted
    filters: Filters
    benchmarks: tuple[str, ...] = ()  # what can be chosen
    strategies: tuple[str, ...] = ()
    models: tuple[str, ...] = ()


def find_board(register: RunIndex, person: Person, filters: Filters) -> Board:
    """The leaderboard of the runs that a person may see. What is not counted yet is begun to be counted, and said."""
    every = register.lines(person)
    lines = [line for line in every if line.kind != "measured"]
    ranked = [line for line in lines if not line.broken and line.complete]
    folders = list(_layer_folders(every))
    computations = [Computation("tally", (line.folder,)) for line in ranked]
    for folder, _ in folders:
        inside = sorted(path for path in folder.iterdir() if (path / MANIFEST).exists())
        computations.append(Computation("tally", tuple(inside), {"folder": str(folder)}))
    tallies = read_tallies(computations)
    builder = _Builder(filters)
    for line in lines:
        builder.add_unranked(line)
    for line, found in zip(ranked, tallies, strict=False):
        if found is not None:
            builder.add_tally(line, found)
    for (folder, name), found in zip(folders, tallies[len(ranked) :], strict=True):
        if found is not None:
            builder.add_layers(folder.name if "/" not in name else name.rpartition("/")[0], name, found)
    return builder.board(sum(found is None for found in tallies))


def _layer_folders(lines: Sequence[RunEntry]) -> Iterable[tuple[Path, str]]:
    """The folders with the layers of one model, each with the name of one of its runs; those of which every run is
    among these lines, so that somebody may see it."""
    names = {line.name for line in lines}
    for line in lines:
        folder, parent = line.folder.parent, line.name.rpartition("/")[0]
        own = line.kind != "measured" and line.folder.name == ITEMS and line.complete
        if own and parent and (folder / ITEMS / MANIFEST).is_file():
            runs = [path.name for path in folder.iterdir() if (path / MANIFEST).exists()]
            if all(f"{parent}/{name}" in names for name in runs):
                yield folder, line.name


_RowKey = tuple[str, str, str, bool]  # model, revision, how it is served, whether these are people
_Runs = dict[str, list[tuple[str, str, Share]]]  # by column: when made, name, share


class _Builder:
    def __init__(self, filters: Filters) -> None:
        self.filters = filters
        self.apart: list[UnrankedRun] = []
        self.rows: dict[_RowKey, _Runs] = {}
        self.asked: dict[str, tuple[AnswerConditions, Share]] = {}
        self.crowds: list[tuple[RunEntry, Tally, Share]] = []
        self.layers: list[LayersEntry] = []
        self.names = tuple({name} - {""} for name in (filters.benchmark, filters.strategy, filters.model))

    def _name(self, benchmark: str, strategies: Iterable[str], model: str) -> None:
        for names, more in zip(self.names, ({benchmark}, set(strategies), {model}), strict=True):
            names |= more - {""}

    def add_unranked(self, line: RunEntry) -> None:
        """Add a run that cannot be ranked, with the reason; one that has only been queued has none."""
        self._name(line.benchmark, line.strategies, line.model)
        why = line.broken or ("still running" if line.running else UNFINISHED)
        if line.broken or (line.kind and not line.complete):
            self.apart.append(UnrankedRun(line.name, line.model, line.benchmark, why))

    def add_tally(self, line: RunEntry, tally: Tally) -> None:
        """Add a complete run."""
        if line.kind == ANSWERS and line.study:
            self.apart.append(UnrankedRun(line.name, line.model, line.benchmark, ADAPTIVE))
            return
        if tally.broken:
            self.apart.append(UnrankedRun(line.name, line.model, line.benchmark, tally.broken))
        for share in tally.shares:
            one = share.asked
            self._name(one.benchmark, {one.strategy}, tally.model)
            if not self.filters.passes(one, tally.model):
                continue
            if share.spoiled:
                asked = f"{one.benchmark} by {one.strategy}"
                self.apart.append(UnrankedRun(line.name, tally.model, asked, share.spoiled))
            elif share.people:
                self.crowds.append((line, tally, share))
            else:
                self._add((tally.model, tally.revision, tally.served, False), column_key(one), tally, line, share)
                self.asked.setdefault(column_key(one), (one, share))

    def add_layers(self, folder: str, part: str, tally: Tally) -> None:
        """Add a folder with the three layers of a model."""
        layers = tally.layers
        if tally.broken or layers is None:
            self.apart.append(UnrankedRun(part, tally.model, LAYERED, tally.broken or UNFINISHED))
        elif self.filters.model in ("", tally.model):
            if layers.spoiled:
                self.apart.append(UnrankedRun(part, tally.model, LAYERED, layers.spoiled))
            else:
                self.layers.append(LayersEntry(folder, part, tally.model, layers))

    def _add(self, row: _RowKey, column: str, tally: Tally, line: RunEntry, share: Share) -> None:
        self.rows.setdefault(row, {}).setdefault(column, []).append((tally.created, line.name, share))

    def board(self, pending: int) -> Board:
        """The board."""
        for line, tally, share in self.crowds:  # people stand in every column of the same questions
            keys = [key for key, (one, _) in self.asked.items() if one.ground == share.asked.ground]
            if not keys:
                keys = [column_key(share.asked)]
                self.asked.setdefault(keys[0], (share.asked, share))
            for key in keys:
                self._add((tally.model, tally.revision, share.asked.strategy, True), key, tally, line, share)
        columns = self._columns()
        layers, not_compared = _group_layers(self.layers)
        names = (tuple(sorted(one)) for one in self.names)
        shown = columns, self._rows(columns), tuple(self.apart), layers, not_compared
        return Board(*shown, pending, self.filters, *names)

    def _columns(self) -> tuple[Column, ...]:
        models = {key: sum(key in cells for cells in self.rows.values()) for key in self.asked}
        most: dict[str, int] = {}
        for key, (one, _) in self.asked.items():
            most[one.benchmark] = max(most.get(one.benchmark, 0), models[key])

        def place(entry: tuple[str, tuple[AnswerConditions, Share]]) -> tuple[int, str, int, str, int, str]:
            key, (one, _) = entry
            return -most[one.benchmark], one.benchmark, -models[key], one.strategy, -one.count, key

        made: list[Column] = []
        alike: dict[tuple[str, str], list[AnswerConditions]] = {}
        for _, (one, share) in sorted(self.asked.items(), key=place):
            same = alike.setdefault((one.benchmark, one.strategy), [])
            same.append(one)
            differs = describe_difference(Conditions((one,)), Conditions((same[0],))) if len(same) > 1 else ""
            made.append(Column(one, len(same), differs, share.chance, share.rule, share.rule_share))
        return tuple(
            column if len(alike[column.asked.benchmark, column.asked.strategy]) > 1 else replace(column, number=0)
            for column in made
        )

    def _rows(self, columns: Sequence[Column]) -> tuple[Row, ...]:
        best = {column.key: self._best(column.key) for column in columns}
        names = [key[0] for key in self.rows]
        rows = []
        for (model, revision, served, crowd), cells in self.rows.items():
            told = [served] if served else []
            told += [f"revision {one_line(revision)[:24]}"] if names.count(model) > 1 and revision else []
            made: dict[str, Cell] = {}
            for key, runs in cells.items():
                (_, name, share), *others = sorted(runs, key=lambda one: (one[0], one[1]), reverse=True)
                first = not crowd and share.estimate is not None and share.estimate == best[key]
                made[key] = Cell(name, share, tuple(one[1] for one in others), first)
            rows.append(Row(model, "; ".join(told), crowd, made))
        return _sorted(rows, self.filters, columns)

    def _best(self, key: str) -> float | None:
        newest = [max(cells[key])[2].estimate for row, cells in self.rows.items() if key in cells and not row[3]]
        known = [value for value in newest if value is not None]
        return max(known) if len(set(known)) > 1 else None


def _sorted(rows: Iterable[Row], filters: Filters, columns: Sequence[Column]) -> tuple[Row, ...]:
    """The rows by the column that was chosen, else by the first of these columns."""
    if filters.sort == "model":
        return tuple(sorted(rows, key=lambda row: (row.model, row.note), reverse=not filters.down))
    keys = [column.key for column in columns]
    sort = filters.sort if filters.sort in keys else next(iter(keys), "")

    def place(row: Row) -> tuple[bool, float, str, str]:
        cell = row.cells.get(sort)
        value = None if cell is None else cell.share.estimate
        return value is None, (-(value or 0) if filters.down else (value or 0)), row.model, row.note

    return tuple(sorted(rows, key=place))


def by_benchmark(found: Board) -> Iterator[tuple[str, tuple[Column, ...], tuple[Row, ...]]]:
    """For each benchmark its name, its columns, and the models that it was asked of, in order."""
    for name in dict.fromkeys(column.asked.benchmark for column in found.columns):
        columns = tuple(column for column in found.columns if column.asked.benchmark == name)
        rows = (row for row in found.rows if any(column.key in row.cells for column in columns))
        yield name, columns, _sorted(rows, found.filters, columns)


def _group_layers(
    entries: Iterable[LayersEntry],
) -> tuple[tuple[tuple[LayersEntry, ...], ...], tuple[NotCompared, ...]]:
    """The tables of layers, and who does not stand in the largest one by each score. A table by FToM_BS that holds the
    same models as one by FToM is left out; others leave out FToM and C, which may not be compared there."""
    known = {(one.model, one.part): one for one in entries}
    tables: list[tuple[LayersEntry, ...]] = []
    apart, shown = [], []
    without = {"ftom": (), "c": (), "cases": 0}
    for score, layers in leaderboard.SCORES.values():
        having = {key: one.layers for key, one in known.items() if one.layers.estimate(score) is not None}
        rest = {key: one.conditions for key, one in having.items()}
        found = group_comparable(rest, measured="c" in layers)
        called = leaderboard.CALLED[score]
        apart += [NotCompared(part, model, called, why) for (model, part), why in found.others.items()]
        while found.largest:
            group = [known[key] for key in found.largest]
            if found.largest not in shown:
                if "c" not in layers:
                    group = [one if one.layers.no_c else replace(one, layers=one.layers.model_copy(update=without))
                             for one in group]  # fmt: skip
                tables.append(tuple(sorted(group, key=_layers_place)))
            shown.append(found.largest)
            rest = {key: one for key, one in rest.items() if key not in found.largest}
            found = group_comparable(rest, measured="c" in layers)
    tables += [(one,) for key, one in known.items() if not any(key in group for group in shown)]
    return tuple(tables), tuple(apart)


def _layers_place(one: LayersEntry) -> tuple[float, str]:
    """By FToM where all layers were measured, else by FToM_BS, the highest first."""
    first = one.layers.estimate("ftom")
    return -((first if first is not None else one.layers.estimate("ftom_bs")) or 0), one.model


FORMS = {"csv": "CSV", "md": "Markdown", "tex": "LaTeX", "html": "HTML"}
"""The files that a leaderboard is downloaded as, and what they are called."""


def board_file(found: Board, form: str) -> tuple[str, str]:
    """The board as the text of a file, and the kind of file in words of HTTP. Raises ConfigError for another form."""
    notes = (
        f"Made by tomserve {__version__} at {utc_now()}. Accuracies with the 95% intervals of the study; failures "
        "count as wrong. A column holds only results of the same questions, prompts, sampling and scoring."
    )
    if form == "csv":
        rows = [*_cells(found), *_layer_records(found)]
        return tables.render(pl.DataFrame(rows, infer_schema_length=None), "csv"), "text/csv; charset=utf-8"
    if form == "md":
        return tables.render(_paper_table(found), "md"), "text/markdown; charset=utf-8"
    if form == "tex":
        return f"% {notes}\n" + tables.render(_paper_table(found), "latex"), "text/x-tex; charset=utf-8"
    if form == "html":
        shown = {"board": found, "notes": notes, "layered": LAYERED.capitalize(), "line": one_line}
        shown |= {"interval": interval_text, "digits": two_digits, "heading": column_heading}
        return render_template("leaderboard_file.html.j2", **shown), "text/html; charset=utf-8"
    raise ConfigError(one_of("format", form, FORMS))


def _cells(found: Board) -> Iterator[dict[str, Any]]:
    for column in found.columns:
        for row in found.rows:
            if (cell := row.cells.get(column.key)) is None:
                continue
            share = cell.share
            yield {
                **{"model": row.model, "note": row.note, "benchmark": column.asked.benchmark},
                **{"strategy": column.asked.strategy, "column": column.key, "questions": column.asked.count},
                **{"estimate": share.estimate, "ci_low": share.low, "ci_high": share.high},
                **{"correct": share.correct, "total": share.total, "unread": share.unread, "failed": share.failed},
                **{"people": share.people, "chance": column.chance, "best_rule": column.rule},
                **{"best_rule_share": column.rule_share, "run": cell.run, "other_runs": len(cell.others)},
            }


def _layer_records(found: Board) -> Iterator[dict[str, Any]]:
    why = {(one.part, one.score): one.why for one in found.not_compared}
    for number, group in enumerate(found.layers, 1):
        for one in group:
            layers = one.layers
            for name, called in leaderboard.CALLED.items():
                value = getattr(layers, name)
                if not value or value[0] is None:
                    continue
                yield {
                    **{"model": one.model, "benchmark": LAYERED, "strategy": called, "column": f"{LAYERED} {number}"},
                    **{"questions": layers.questions, "estimate": value[0], "ci_low": value[1], "ci_high": value[2]},
                    **{"unread": layers.unread, "failed": layers.failed, "run": one.run},
                    "not_compared": why.get((one.part, called)),
                }


def _paper_table(found: Board) -> pl.DataFrame:
    rows = []
    for row in found.rows:
        cells = {"model": f"{row.model} ({row.note})" if row.note else row.model}
        for column in found.columns:
            cell = row.cells.get(column.key)
            value = () if cell is None else (cell.share.estimate, cell.share.low, cell.share.high)
            cells[column_heading(column)] = interval_text(value)
        rows.append(cells)
    return pl.DataFrame(rows, infer_schema_length=None)


def column_heading(column: Column) -> str:
    """The name of a column in one line."""
    number = f" ({column.number})" if column.number else ""
    return f"{column.asked.benchmark} {column.asked.strategy}{number}"


def interval_text(value: Interval) -> str:
    """A share or score with its interval, such as .77 [.65, .85]; "" where it is not known."""
    if not value or value[0] is None:
        return ""
    bounds = f" [{two_digits(value[1])}, {two_digits(value[2])}]" if value[1] is not None else ""
    return f"{two_digits(value[0])}{bounds}"
