"""The leaderboard of the workbench: models in rows, what they were asked in columns, the tally of each run, and the
board as files.

A tally is computed once and kept; the board is put together from tallies each time somebody looks. What may stand in
one column, or in one table of layers, tomserve.studies.comparability decides.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pydantic

from tomserve._version import __version__
from tomserve.causal.settings import ITEMS
from tomserve.content import digest
from tomserve.content.files import one_line
from tomserve.content.text import sanitize
from tomserve.engine.records import utc_now
from tomserve.errors import ConfigError, TomserveError, one_of
from tomserve.reporting import tables
from tomserve.runs.manifest import Manifest
from tomserve.runs.scores import load_scored_run
from tomserve.stats.functional import FTOM_1
from tomserve.studies import analyze, breakdowns, people
from tomserve.studies.answer_rows import originals
from tomserve.studies.comparability import (
    AnswerConditions,
    Conditions,
    answer_conditions,
    describe_difference,
    group_comparable,
)
from tomserve.studies.presentation import cell as two_digits
from tomserve.studies.presentation import finite_or_none
from tomserve.web import background
from tomserve.web.accounts import Person
from tomserve.web.background import Computation, Result, without_paths
from tomserve.web.page_templates import render_template
from tomserve.web.run_index import RunEntry, RunIndex
from tomserve.workflows import leaderboard
from tomserve.workflows.functional import INSIDE, find_measurement, read_layers

MANIFEST = "manifest.json"


class Part(pydantic.BaseModel):
    """A part of a tally."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class Share(Part):
    """The share of right answers by one strategy.

    estimate, low, high: the accuracy and its interval, as the study of accuracies computes it. correct, total: counts.
    failed: how many requests got no reply; unread: how many replies could not be read. chance: what a guesser scores on
    these questions. rule, rule_share: the best rule that follows nobody's belief, and its share of right answers.
    spoiled: why the share cannot be ranked, "" where it can. people: how many people answered, 0 for a model.
    """

    asked: AnswerConditions
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    correct: int = 0
    total: int = 0
    failed: int = 0
    unread: int = 0
    chance: float | None = None
    rule: str = ""
    rule_share: float | None = None
    spoiled: str = ""
    people: int = 0


class Layers(Part):
    """The three layers of one model. conditions: what it was asked and measured on. ftom, ftom_bs, b, c, s: each with
    its interval. cases, scenarios, questions: counts."""

    conditions: Conditions
    formula: str = ""
    ftom: tuple[float | None, ...] = ()
    ftom_bs: tuple[float | None, ...] = ()
    b: tuple[float | None, ...] = ()
    c: tuple[float | None, ...] = ()
    s: tuple[float | None, ...] = ()
    questions: int = 0
    scenarios: int = 0
    cases: int = 0
    unread: int = 0
    failed: int = 0
    spoiled: str = ""


class Tally(Part):
    """What a leaderboard knows of one run."""

    model: str = ""
    revision: str = ""
    served: str = ""  # further fields of every request that say how the model was to think
    created: str = ""
    complete: bool = False  # whether all was asked
    shares: tuple[Share, ...] = ()
    layers: Layers | None = None
    broken: str = ""  # why it cannot be read


def tally_computation(folder: Path, *, layers: bool = False) -> Computation:
    """What makes the tally of a run, or of a folder of runs with all three layers. The content of their files
    decides."""
    if not layers:
        return Computation("tally", (folder,))
    inside = sorted(path for path in folder.iterdir() if (path / MANIFEST).exists())
    return Computation("layers", tuple(inside), {"folder": str(folder)})


def tally(out: Path, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """The tally of a run; one that says so where it cannot be read. out: stays empty. options: none."""
    del out, options
    return _dump_tally(of_run, Path(runs[0]))


def layers(out: Path, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """The tally of the three layers of a model; one that says so where they cannot be read. out: stays empty. runs:
    those in the folder, whose files decide. options: folder."""
    del out, runs
    return _dump_tally(of_layers, Path(options["folder"]))


def _dump_tally(made: Callable[[Path], Tally], folder: Path) -> dict[str, Any]:
    try:
        found = made(folder)
    except TomserveError as error:
        found = Tally(broken=sanitize(without_paths(str(error))))
    return found.model_dump(mode="json")


def of_run(folder: Path) -> Tally:
    """The tally of one run. Raises ConfigError where it cannot be read."""
    manifest = Manifest.read(folder)
    if manifest is None:
        raise ConfigError(f"{folder}: no run there (manifest.json is missing)")
    known = Tally(
        model=manifest.model,
        revision=manifest.revision or "",
        served=_served_fields(manifest.sampling),
        created=manifest.created or "",
        complete=manifest.complete,
    )
    if manifest.measured or not manifest.complete:
        return known
    table, record, _ = load_scored_run(folder)
    rows = originals(table)
    return known.model_copy(update={"shares": tuple(_shares(rows, manifest, record))})


_SAMPLING = ("temperature", "seed", "repeats")


def _served_fields(sampling: Mapping[str, Any]) -> str:
    """Fields of every request that belong to the model rather than to the question, such as whether it is to think."""
    own = {name: value for name, value in sampling.items() if name not in _SAMPLING}
    return orjson.dumps(own, option=orjson.OPT_SORT_KEYS).decode() if own else ""


def _shares(rows: pl.DataFrame, manifest: Manifest, record: Mapping[str, Any]) -> Iterator[Share]:
    """The share of each strategy and, where items of several benchmarks were asked, of each benchmark."""
    if rows.is_empty():
        return
    rows = rows.with_columns(pl.col("benchmark").fill_null(manifest.benchmark))
    for _, part in rows.group_by(["benchmark", "strategy"], maintain_order=True):
        (asked,) = answer_conditions(part)
        yield _share(part, asked.record(manifest, record))


def _share(part: pl.DataFrame, asked: AnswerConditions) -> Share:
    tables = analyze(part, "accuracy")
    row = tables["accuracy"].row(0, named=True)
    chances = breakdowns.task_rows(part.lazy()).rows["chance"]
    failed, unread = int(row["failed"] or 0), int(row["unread"] or 0)
    estimate, low, high, crowd = row["estimate"], row["ci_low"], row["ci_high"], 0
    if people.TABLE in tables:
        each = tables[people.TABLE].filter(factor=people.OVERALL).row(0, named=True)
        estimate, low, high, crowd = each["share"], each["ci_low"], each["ci_high"], int(each["people"])
    return Share(
        asked=asked,
        correct=int(row["correct"]),
        total=int(row["total"]),
        failed=max(0, failed - unread),
        unread=unread,
        chance=finite_or_none(chances.mean()) if chances.len() and not chances.null_count() else None,
        rule=str(row.get("best_rule") or ""),
        rule_share=finite_or_none(row.get("best_rule_accuracy")),
        spoiled=leaderboard.explain_lost(part),
        estimate=finite_or_none(estimate),
        low=finite_or_none(low),
        high=finite_or_none(high),
        people=crowd,
    )


def has_layers(folder: Path) -> bool:
    """Whether a folder of runs holds the layers of one model, as `tomserve functional` makes it."""
    return (folder / ITEMS / MANIFEST).is_file()


def of_layers(folder: Path) -> Tally:
    """The tally of the three layers of one model. Raises ConfigError where they cannot be read."""
    inside = find_measurement(folder)
    places = sorted(path for path in folder.iterdir() if (path / MANIFEST).is_file() and not path.is_symlink())
    parts = [path for path in places if not path.name.startswith(INSIDE)]
    manifests = [manifest for path in parts if (manifest := Manifest.read(path)) is not None]
    first = Manifest.read(folder / ITEMS)
    assert first is not None  # or `has_layers` would have said so
    complete = all(one.complete for one in manifests)
    known = Tally(model=first.model, revision=first.revision or "", created=first.created or "", complete=complete)
    if not complete:
        return known
    told = read_layers(folder, parts, inside)
    return known.model_copy(update={"layers": _layers_of(leaderboard.collect_facts(told))})


def _layers_of(one: leaderboard.ModelFacts) -> Layers:
    def ends(name: str) -> tuple[float | None, ...]:
        return tuple(finite_or_none(one.row.get(f"{name}{end}")) for end in ("", "_low", "_high"))

    return Layers(
        conditions=one.conditions,
        formula=FTOM_1.name,
        **{name: ends(name) for name in ("ftom", "ftom_bs", "b", "c", "s")},
        questions=one.questions,
        scenarios=one.scenarios,
        cases=one.cases,
        unread=one.unread,
        failed=one.failed,
        spoiled=one.spoiled,
    )


UNFINISHED = "not everything was asked yet, so that it cannot be ranked"

LAYERED = "three layers"  # what stands for the benchmark where a row is about the three layers of a model


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

    asked: AnswerConditions
    number: int = 0
    differs: str = ""
    chance: float | None = None
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
class UnrankedRun:
    """A run that is not on the board, and why."""

    run: str
    model: str
    benchmark: str
    why: str


@dataclass(frozen=True, slots=True)
class LayersEntry:
    """The three layers of one model. run: the folder of its parts, of which `part` is a run to link to."""

    run: str
    part: str
    model: str
    layers: Layers


@dataclass(frozen=True, slots=True)
class NotCompared:
    """A model with a score by which it may not stand beside the largest group of models, and why. part: as above."""

    part: str
    model: str
    score: str
    why: str


Found = dict[tuple[str, str, str, bool], dict[str, list[tuple[str, str, Share]]]]
"""Of each row (model, revision, how it is served, whether people) and column the runs: when made, name, share."""


@dataclass(frozen=True, slots=True)
class Board:
    """The leaderboard as somebody may see it.

    columns, rows: see there. apart: runs that are not ranked. layers: groups of models whose three layers can be
    compared, the highest score first; then those that can only be compared without the mechanism. not_compared: who
    does not stand beside the largest group, by each score. pending: how many runs are still being counted, of `total`.
    benchmarks, strategies, models: what can be chosen.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    apart: tuple[UnrankedRun, ...]
    layers: tuple[tuple[LayersEntry, ...], ...]
    not_compared: tuple[NotCompared, ...]
    pending: int
    total: int
    filters: Filters
    benchmarks: tuple[str, ...] = ()
    strategies: tuple[str, ...] = ()
    models: tuple[str, ...] = ()


@dataclass
class BoardBuilder:
    """Puts a board together.

    pending, total: as in Board.
    """

    filters: Filters
    found: Sequence[tuple[RunEntry, Tally]]  # complete runs with their tallies
    layered: Sequence[tuple[str, str, Tally]]
    """Of the folders with all three layers of a model, the name, that of one of its runs, and the tally."""
    apart: list[UnrankedRun]  # what is not ranked already
    pending: int
    total: int
    names: tuple[set[str], set[str], set[str]] = field(default_factory=lambda: (set(), set(), set()))
    """Of benchmarks, strategies and models that are known of already."""

    def board(self) -> Board:
        """The board."""
        rows: Found = {}
        asked: dict[str, tuple[AnswerConditions, Share]] = {}
        crowds: list[tuple[RunEntry, Tally, Share]] = []
        benchmarks, strategies, models = self.names
        for line, tally in self.found:
            if tally.broken:
                self.apart.append(UnrankedRun(line.name, line.model, line.benchmark, tally.broken))
            for share in tally.shares:
                one = share.asked
                benchmarks.add(one.benchmark)
                strategies.add(one.strategy)
                models.add(tally.model)
                if not self._passes(one, tally.model):
                    continue
                if share.spoiled:
                    self.apart.append(
                        UnrankedRun(line.name, tally.model, f"{one.benchmark} by {one.strategy}", share.spoiled)
                    )
                elif share.people:
                    crowds.append((line, tally, share))
                else:
                    cells = rows.setdefault((tally.model, tally.revision, tally.served, False), {})
                    cells.setdefault(column_key(one), []).append((tally.created, line.name, share))
                    asked.setdefault(column_key(one), (one, share))
        for line, tally, share in crowds:
            keys = [key for key, (one, _) in asked.items() if one.ground == share.asked.ground]
            if not keys:
                asked.setdefault(column_key(share.asked), (share.asked, share))
            for key in keys or [column_key(share.asked)]:
                cells = rows.setdefault((tally.model, tally.revision, share.asked.strategy, True), {})
                cells.setdefault(key, []).append((tally.created, line.name, share))
        columns = _columns(asked, rows)
        layers, not_compared = _group_layers(self._layers())
        return Board(
            columns,
            self._rows(rows, columns),
            tuple(self.apart),
            layers,
            not_compared,
            self.pending,
            self.total,
            self.filters,
            *(tuple(sorted(names)) for names in (benchmarks, strategies, models)),
        )

    def _passes(self, asked: AnswerConditions, model: str) -> bool:
        wanted = self.filters
        return (
            wanted.benchmark in ("", asked.benchmark)
            and wanted.strategy in ("", asked.strategy)
            and wanted.model in ("", model)
        )

    def _rows(self, found: Found, columns: Sequence[Column]) -> tuple[Row, ...]:
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

    def _layers(self) -> Iterator[LayersEntry]:
        """The models that are shown with their layers; why others are not goes to `apart`."""
        for folder, part, tally in self.layered:
            layers = tally.layers
            if tally.broken or layers is None:
                self.apart.append(UnrankedRun(part, tally.model, LAYERED, tally.broken or UNFINISHED))
            elif self.filters.model in ("", tally.model):
                if layers.spoiled:
                    self.apart.append(UnrankedRun(part, tally.model, LAYERED, layers.spoiled))
                else:
                    yield LayersEntry(folder, part, tally.model, layers)


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
        having = {key: one.layers for key, one in known.items() if _estimate(one.layers, score) is not None}
        rest = {key: one.conditions for key, one in having.items()}
        found = group_comparable(rest, measured="c" in layers)
        called = leaderboard.CALLED[score]
        apart += [NotCompared(part, model, called, why) for (model, part), why in found.others.items()]
        while found.largest:
            group = [known[key] for key in found.largest]
            if found.largest not in shown:
                if "c" not in layers:
                    group = [replace(one, layers=one.layers.model_copy(update=without)) for one in group]
                tables.append(tuple(sorted(group, key=lambda row: (-(_score(row.layers) or 0), row.model))))
            shown.append(found.largest)
            rest = {key: one for key, one in rest.items() if key not in found.largest}
            found = group_comparable(rest, measured="c" in layers)
    tables += [(one,) for key, one in known.items() if not any(key in group for group in shown)]
    return tuple(tables), tuple(apart)


def _score(layers: Layers) -> float | None:
    """The score that ranks a model: FToM where all layers were measured, else FToM_BS."""
    first = _estimate(layers, "ftom")
    return first if first is not None else _estimate(layers, "ftom_bs")


def _estimate(layers: Layers, score: str) -> float | None:
    found: tuple[float | None, ...] = getattr(layers, score)
    return found[0] if found else None


def _best(found: Found, key: str) -> float | None:
    """The highest share of a column; None where no model has less."""
    newest = [max(cells[key])[2].estimate for row, cells in found.items() if key in cells and not row[3]]
    known = [value for value in newest if value is not None]
    return max(known) if len(set(known)) > 1 else None


def _columns(asked: Mapping[str, tuple[AnswerConditions, Share]], rows: Found) -> tuple[Column, ...]:
    """The columns: benchmarks with most models first, and in each the columns with most models."""
    models = {key: sum(key in cells for cells in rows.values()) for key in asked}
    of_benchmark: dict[str, int] = {}
    for key, (one, _) in asked.items():
        of_benchmark[one.benchmark] = max(of_benchmark.get(one.benchmark, 0), models[key])

    def place(entry: tuple[str, tuple[AnswerConditions, Share]]) -> tuple[int, str, int, str, int, str]:
        key, (one, _) = entry
        return -of_benchmark[one.benchmark], one.benchmark, -models[key], one.strategy, -one.count, key

    ordered = [pair for _, pair in sorted(asked.items(), key=place)]
    made = []
    for one, share in ordered:
        alike = [other for other, _ in ordered if (other.benchmark, other.strategy) == (one.benchmark, one.strategy)]
        number = alike.index(one) + 1 if len(alike) > 1 else 0
        differs = describe_difference(Conditions((one,)), Conditions((alike[0],))) if number > 1 else ""
        made.append(Column(one, number, differs, share.chance, share.rule, share.rule_share))
    return tuple(made)


REMEMBERED = 4096  # how many tallies are kept in memory

_known: OrderedDict[Path, Tally] = OrderedDict()
_lock = threading.Lock()


def find_board(register: RunIndex, person: Person, filters: Filters) -> Board:
    """The leaderboard of the runs that a person may see. What is not counted yet is begun to be counted, and said.

    A run of which nothing can be kept is said to be broken.
    """
    lines = [line for line in register.lines(person) if line.kind != "measured"]
    apart = [one for line in lines if line.broken or not line.complete for one in _unranked_run(line)]
    ranked = [line for line in lines if not line.broken and line.complete]
    folders = list(_layer_folders(lines, register, person))
    computations = [tally_computation(line.folder) for line in ranked]
    computations += [tally_computation(folder, layers=True) for folder, _ in folders]
    tallies = [None if made is None else _tally(made) for made in background.find_all(computations)]
    found = [(line, tally) for line, tally in zip(ranked, tallies, strict=False) if tally is not None]
    layered = [
        (folder.name if "/" not in name else name.rpartition("/")[0], name, tally)
        for (folder, name), tally in zip(folders, tallies[len(ranked) :], strict=True)
        if tally is not None
    ]
    pending = sum(tally is None for tally in tallies)
    named = ({line.benchmark for line in lines}, {one for line in lines for one in line.strategies},
             {line.model for line in lines})  # fmt: skip
    for names, chosen in zip(named, (filters.benchmark, filters.strategy, filters.model), strict=True):
        names.add(chosen)
        names.discard("")
    return BoardBuilder(filters, found, layered, apart, pending, len(lines), named).board()


def _tally(made: Result) -> Tally:
    if made.error:
        return Tally(broken=made.error)
    with _lock:
        if made.folder in _known:
            _known.move_to_end(made.folder)
            return _known[made.folder]
    try:
        tally = Tally.model_validate(made.facts)
    except pydantic.ValidationError:
        return Tally(broken="what was kept of it is no tally; delete runs/.web/cache, and it is made anew")
    with _lock:
        _known[made.folder] = tally
        while len(_known) > REMEMBERED:
            _known.popitem(last=False)
    return tally


def _unranked_run(line: RunEntry) -> Iterable[UnrankedRun]:
    """A run that cannot be ranked, and why; nothing of one that has only been queued."""
    if line.broken:
        yield UnrankedRun(line.name, line.model, line.benchmark, line.broken)
    elif line.kind:
        why = "it is running" if line.running else UNFINISHED
        yield UnrankedRun(line.name, line.model, line.benchmark, why)


def _layer_folders(lines: Sequence[RunEntry], register: RunIndex, person: Person) -> Iterable[tuple[Path, str]]:
    """The folders with the layers of one model, each with the name of one of its runs; those of which somebody may see
    every run."""
    names = {line.name for line in register.lines(person)}
    for line in lines:
        folder = line.folder.parent
        if line.folder.name != ITEMS or not line.complete or not has_layers(folder):
            continue
        parent = line.name.rpartition("/")[0]
        runs = [path.name for path in folder.iterdir() if (path / MANIFEST).exists()]
        if parent and all(f"{parent}/{name}" in names for name in runs):
            yield folder, line.name


FORMS = {"csv": "CSV", "tex": "LaTeX", "html": "HTML"}
"""The files that a leaderboard is downloaded as, and what they are called."""


def board_file(found: Board, form: str) -> tuple[str, str]:
    """The board as the text of a file, and the kind of file in words of HTTP. Raises ConfigError for another form."""
    if form == "csv":
        return tables.render(board_frame(found), "csv"), "text/csv; charset=utf-8"
    if form == "tex":
        return f"% {board_notes()}\n" + tables.render(board_table(found), "latex"), "text/x-tex; charset=utf-8"
    if form == "html":
        shown = {"board": found, "notes": board_notes(), "layered": LAYERED.capitalize(), "line": one_line}
        shown |= {"share": share_text, "interval": interval_text, "digits": two_digits, "heading": column_heading}
        return render_template("leaderboard_file.html.j2", **shown), "text/html; charset=utf-8"
    raise ConfigError(one_of("format", form, FORMS))


def board_notes() -> str:
    """By what and when a file was made, and what a reader of it must know."""
    return (
        f"Made by tomserve {__version__} at {utc_now()}. Shares of right answers with 95% intervals over stories "
        "or tasks; a failure counts as wrong. Only what was asked and scored alike stands in one column."
    )


def board_frame(found: Board) -> pl.DataFrame:
    """The board as a table with a row for each cell."""
    rows = list(_cells(found)) + list(_layer_records(found))
    return pl.DataFrame(rows, infer_schema_length=None)


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
            named = {"FToM": layers.ftom, "FToM_BS": layers.ftom_bs, "B": layers.b, "C": layers.c, "S": layers.s}
            for called, value in named.items():
                if not value or value[0] is None:
                    continue
                yield {
                    **{"model": one.model, "benchmark": LAYERED, "strategy": called, "column": f"{LAYERED} {number}"},
                    **{"questions": layers.questions, "estimate": value[0], "ci_low": value[1], "ci_high": value[2]},
                    **{"unread": layers.unread, "failed": layers.failed, "run": one.run},
                    "not_compared": why.get((one.part, called)),
                }


def board_table(found: Board) -> pl.DataFrame:
    """The board as a table for a paper: a row for each model, a share with its interval for each column."""
    rows = []
    for row in found.rows:
        cells = {"model": f"{row.model} ({row.note})" if row.note else row.model}
        for column in found.columns:
            cells[column_heading(column)] = share_text(row.cells[column.key].share) if column.key in row.cells else ""
        rows.append(cells)
    return pl.DataFrame(rows, infer_schema_length=None)


def column_heading(column: Column) -> str:
    """The name of a column in one line."""
    number = f" ({column.number})" if column.number else ""
    return f"{column.asked.benchmark} {column.asked.strategy}{number}"


def share_text(share: Share) -> str:
    """A share with its interval, such as .77 [.65, .85]."""
    bounds = f" [{two_digits(share.low)}, {two_digits(share.high)}]" if share.low is not None else ""
    return f"{two_digits(share.estimate)}{bounds}"


def interval_text(value: tuple[float | None, ...]) -> str:
    """A score with its interval, "" where it is not known."""
    if not value or value[0] is None:
        return ""
    bounds = f" [{two_digits(value[1])}, {two_digits(value[2])}]" if value[1] is not None else ""
    return f"{two_digits(value[0])}{bounds}"
