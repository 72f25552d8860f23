"""The leaderboard of several models: measures one after the other, ranks what can be compared, shows and writes the
tables.

Models are ranked by FToM among those that have all three layers, and by FToM_BS among all with behaviour and stability;
each time those that may stand side by side (tomserve.studies.comparability). What is left out is listed with the
reason. Names of models and
messages of errors come from strangers: they are escaped in the page, and inert elsewhere.
"""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import polars as pl
from rich.console import Console

from tomserve._version import __version__
from tomserve.causal.settings import ITEMS
from tomserve.causal.table import ANSWER
from tomserve.content import files, pages
from tomserve.content.files import one_line
from tomserve.content.paths import run_name
from tomserve.content.text import count_noun
from tomserve.engine.records import utc_now
from tomserve.errors import ConfigError, StoppedError, TomserveError
from tomserve.reporting import tables
from tomserve.reporting.overview import print_overview
from tomserve.reporting.table_layout import print_prose, print_table
from tomserve.runs.manifest import Manifest
from tomserve.runs.scores import load_scored_run, scores_of
from tomserve.stats.functional import FEW_SCENARIOS, FTOM_1, Formula
from tomserve.status import UNANSWERED
from tomserve.studies import Analysis, Excerpt, load_study, missing_data
from tomserve.studies.answer_rows import is_answered, is_unreadable, originals, split_scores
from tomserve.studies.comparability import Comparable, Conditions, group_comparable
from tomserve.studies.comparison import combine_scores
from tomserve.studies.contrasts import Record
from tomserve.studies.presentation import Row, cell
from tomserve.studies.presentation import one_line as shorten_line
from tomserve.workflows.functional import (
    REPORT,
    STUDY,
    FunctionalPlan,
    FunctionalResult,
    PartRunner,
    analyze_layers,
    check_plan,
    combine_parts,
    measure_layers,
)

LONGEST = 160  # how many characters of an error a table tells at most; the whole of it was said when it happened


@dataclass(frozen=True)
class ModelFacts:
    """What a leaderboard has to know of one measured model."""

    told: FunctionalResult  # its runs and tables
    scores: pl.DataFrame  # all of its rows, by which it is compared with others
    row: Row  # its row of the table `score`
    conditions: Conditions  # what it was asked and measured on, and how
    questions: int  # how many questions it was asked, without their variants
    scenarios: int  # how many scenarios the questions are about
    cases: int  # how many cases were measured inside the model
    inner: int  # how many scenarios these cases are about
    weights: str  # the weights in which C was measured, "" for none
    replies: int  # how many replies came
    unread: int  # how many replies hold no answer that could be read
    failed: int  # how many replies did not come
    many_unread: bool  # whether more than one in ten replies to a benchmark could not be read
    spoiled: str  # why the model cannot be ranked at all, "" where it can
    warnings: tuple[str, ...]  # the reasons to doubt its numbers

    @property
    def model(self) -> str:
        """The name in the tables."""
        return self.told.model

    def fewest(self, *, cases: bool) -> int:
        """The scenarios of that part of a score which has fewest. cases: whether the score counts cases."""
        return min(self.scenarios, self.inner) if cases else self.scenarios


def collect_facts(told: FunctionalResult) -> ModelFacts:
    """What a leaderboard has to know of a measured model, from the folders of its parts."""
    _, frame, _ = combine_parts(told.runs, told.inside)
    answers, moved = split_scores(frame)
    inside = Manifest.read(told.inside) if told.inside is not None else None
    cases = moved.filter(pl.col("kind").cast(pl.String) == ANSWER) if moved.height else moved
    weights = inside.model if inside is not None else ""  # a folder is called by its own name alone
    lacking = list(_lacking(told))
    prefix = f"{told.model}: "  # stands above the warnings of a model anyway
    return ModelFacts(
        told=told,
        scores=frame,
        row=told.analysis.tables["score"].row(0, named=True),
        conditions=_read_conditions(told, frame, inside),
        questions=originals(answers).select("benchmark", "item").n_unique(),
        scenarios=originals(answers).select("benchmark", pl.coalesce("cluster", "item")).n_unique(),
        cases=cases["item"].n_unique() if cases.height else 0,
        inner=cases["cluster"].n_unique() if cases.height else 0,
        weights=weights if not weights.startswith(("/", ".", "~")) else Path(weights).name or weights,
        replies=sum(gap.replies for gap in lacking),
        unread=sum(gap.unread for gap in lacking),
        failed=sum(sum(gap.failed.values()) for gap in lacking),
        many_unread=any(gap.many_unread for gap in lacking),
        spoiled=_explain_spoiled(answers, told.analysis.tables.get("inputs", pl.DataFrame())),
        warnings=(
            *missing_data.gap_sentences(lacking),
            *(said.removeprefix(prefix) for said in told.analysis.warnings),
        ),
    )


def _read_conditions(told: FunctionalResult, scores: pl.DataFrame, inside: Manifest | None) -> Conditions:
    """What the study counts of a model, with what its runs have recorded. inside: the manifest of the measurement."""
    study = load_study(STUDY)
    assert study.conditions is not None
    found = study.conditions(scores.lazy())[told.model]
    runs = {}
    for one in told.answers:
        if (manifest := Manifest.read(one.folder)) is not None:
            runs[manifest.benchmark] = manifest, load_scored_run(one.folder).record
    answers = tuple(one.record(*runs[one.benchmark]) if one.benchmark in runs else one for one in found.answers)
    measured = found.measurement
    return Conditions(answers, measured.record(inside) if measured is not None and inside is not None else measured)


def _lacking(told: FunctionalResult) -> Iterator[missing_data.Gaps]:
    """What is lacking of the answers to each benchmark; that a limit was set is no lack."""
    for one in told.answers:
        for gap in missing_data.gaps_of_scores(scores_of(one.folder), one.folder, one.folder.name):
            yield replace(gap, expected=None, source_argument=missing_data.shell_argument(run_name(one.folder)))


def _explain_spoiled(answers: pl.DataFrame, inputs: pl.DataFrame) -> str:
    """Why a model cannot be ranked: most of its replies, or of those that the score counts, hold no answer."""
    counted = inputs.filter((pl.col("holds") == "answers") & pl.col("counted")) if inputs.height else inputs
    plain = answers.join(counted.select("benchmark", "strategy"), on=["benchmark", "strategy"], how="semi")
    names = ", ".join(counted["strategy"].unique(maintain_order=True))
    return explain_lost(answers) or explain_lost(plain, f" by {names}")


def explain_lost(rows: pl.DataFrame, by: str = "") -> str:
    """Why these answers cannot be ranked, where more than half of them did not come or hold no answer; else "". rows:
    of a score table. by: words that say which replies these are."""
    rows = rows.filter(pl.col("status").cast(pl.String).fill_null("") != UNANSWERED)
    lost = rows.filter(~is_answered()).height
    if 2 * lost <= rows.height:
        return ""
    unread = rows.filter(is_unreadable()).height
    of = f"of {rows.height:,} replies{by}"
    if lost in (unread, lost - unread):
        return f"{lost:,} {of} {'could not be read' if unread else 'did not come'}, more than half"
    return f"{unread:,} {of} could not be read and {lost - unread:,} did not come, together more than half"


def explain_missing(one: ModelFacts, layers: Iterable[str]) -> str:
    """Which layers a model lacks, and why."""
    named = {"b": "behaviour", "c": "mechanism", "s": "stability"}
    why = {name: str(one.row[f"no_{name}"]) for name in layers if one.row[f"no_{name}"]}
    if "c" in why and one.told.failed is not None:
        why["c"] = shorten_error(str(one.told.failed))
    return "; ".join(f"no {name.upper()} ({named[name]}): {said}" for name, said in why.items())


def shorten_error(text: str) -> str:
    """The first sentence of an error, in at most LONGEST characters that are safe to print."""
    return shorten_line(re.split(r"(?<=[.;!?])\s", text.strip(), maxsplit=1)[0].rstrip(".;"), LONGEST)


def list_names(names: Iterable[str], most: int = 5) -> str:
    """The names in a row; of many only the first ones, and how many others there are."""
    known = [one_line(name) for name in names]
    more = f" and {len(known) - most} others" if len(known) > most else ""
    return ", ".join(known[:most]) + more


# The names of the tables, and of their files
ALL, BS, NOT_COMPARED, APART = "leaderboard_ftom", "leaderboard_ftom_bs", "not_compared", "not_ranked"

# The score by which each table ranks, and the layers that this score is made of
SCORES = {ALL: ("ftom", ("b", "c", "s")), BS: ("ftom_bs", ("b", "s"))}

# Scores and layers as readers call them
CALLED = {"ftom": "FToM", "ftom_bs": "FToM_BS", "b": "B", "c": "C", "s": "S"}

# Under this name stand the warnings of a comparison, which belong to no single model
TOGETHER = "all ranked models together"

_EQUAL = 1e-9  # scores that differ by no more share a rank


@dataclass(frozen=True)
class MeasuredModels:
    """What came of several plans. done: of those that could be measured. failed: why not, by the name of the model."""

    done: tuple[FunctionalResult, ...]
    failed: Mapping[str, TomserveError]


@dataclass(frozen=True)
class Leaderboard:
    """The tables of a leaderboard, with what a reader must know of them."""

    # The tables by name (ALL, BS, NOT_COMPARED and APART), those without rows left out
    tables: Mapping[str, pl.DataFrame]
    formula: str  # the name of the score
    sentences: tuple[str, ...]  # what a reader must know of the tables that are there, and of those that are not
    warnings: Mapping[str, tuple[str, ...]]  # the reasons to doubt the numbers, by model
    reports: Mapping[str, Path]  # the report of each model, where there is one
    unread: tuple[str, ...] = ()  # the models of which more than one in ten replies could not be read


def measure_models(plans: Mapping[str, FunctionalPlan], runner: PartRunner, *, report: bool = True) -> MeasuredModels:
    """Carry out the plans one after the other; one that fails does not stop the others. plans: by the name of the
    model. Raises StoppedError where somebody stops it; repeated, it goes on. Raises ConfigError, before anything is
    asked, for what cannot be wished of one of them."""
    for name, plan in plans.items():
        try:
            check_plan(plan)
        except ConfigError as error:
            raise ConfigError(f"{one_line(name)}: {error}") from None
    done, failed = [], {}
    for number, (name, plan) in enumerate(plans.items(), 1):
        runner.announce(f"model {number} of {len(plans)}: {one_line(name)}")
        try:
            done.append(measure_layers(plan, runner, report=report))
        except StoppedError:
            raise
        except TomserveError as error:
            failed[name] = error
            runner.warn(f"{name} is left out: {error}")
    return MeasuredModels(tuple(done), failed)


def make_leaderboard(queue: MeasuredModels, formula: Formula, folder: Path | None = None) -> Leaderboard:
    """The leaderboard of what could be measured. folder: that of all models; finished ones in it that are not on the
    board are named."""
    known = [collect_facts(told) for told in queue.done]
    sound = list({one.model: one for one in known if not one.spoiled}.values())
    both = f"{CALLED['ftom']} and {CALLED['ftom_bs']}"
    apart = [(name, f"not measured: {shorten_error(str(error))}") for name, error in queue.failed.items()]
    apart += [(one.model, f"{both}: {one.spoiled}") for one in known if one.spoiled]
    apart += [
        (one.model, f"{both}: another model of this command goes by this name")
        for one in known
        if not one.spoiled and one not in sound
    ]
    tables: dict[str, pl.DataFrame] = {}
    sentences: list[str] = []
    lacking: dict[str, list[tuple[str, str]]] = {}
    differing: list[tuple[str, str, str]] = []
    warnings = {one.model: one.warnings for one in known if one.warnings}
    for name, (score, layers) in SCORES.items():
        having = [one for one in sound if one.row[score] is not None]
        why_none = _explain_none(score, layers, formula)
        reasons = [(one.model, explain_missing(one, layers) or why_none) for one in sound if one not in having]
        if not having:
            sentences += (
                [f"{why_none[0].upper()}{why_none[1:]}, so there is no ranking by {CALLED[score]}."] if sound else []
            )
            lacking[score] = reasons
            continue
        group = group_comparable({one.model: one.conditions for one in having}, measured="c" in layers)
        same = [one for one in having if one.model in group.largest]
        differing += [(model, score, why) for model, why in group.others.items()]
        apart += [(model, f"{CALLED[score]}: {why}") for model, why in reasons]
        ranked = _Ranked(same, score, layers, analyze_layers(combine_scores([one.scores for one in same]), formula))
        tables[name] = ranked.table()
        sentences += ranked.sentences()
        if group.others:
            sentences.append(_describe_choice(score, group))
        warnings |= _more(warnings, ranked.analysis, [one.model for one in known])
    if differing:
        tables[NOT_COMPARED] = pl.DataFrame(differing, schema=["model", "score", "why"], orient="row")
    named = {model for table in tables.values() for model in table["model"]} | {model for model, _ in apart}
    for score, reasons in lacking.items():  # that no model has a score is said once, but no model goes unmentioned
        apart += [(model, f"{CALLED[score]}: {why}") for model, why in reasons if model not in named]
    if apart:
        tables[APART] = pl.DataFrame(apart, schema={"model": pl.String, "why": pl.String}, orient="row")
    if folder is not None:
        sentences += _unnamed_beside(folder, queue)
    reports = {told.model: path for told in queue.done if (path := told.folder / REPORT).is_file()}
    unread = tuple(one.model for one in known if one.many_unread)
    return Leaderboard(tables, formula.name, tuple(sentences), warnings, reports, unread)


def _explain_none(score: str, layers: Sequence[str], formula: Formula) -> str:
    """Why no model has a score."""
    if "c" in layers:
        return "no model has all three layers"
    b, _, s = formula.weights
    return "no model has both B and S" if b + s > 0 else f"the weights of B and S are 0 in {formula.name}"


def _describe_choice(score: str, group: Comparable[str]) -> str:
    """A sentence about which models are ranked, where they were asked different things."""
    largest = "one of the largest groups" if group.tied else "the largest group"
    further = ", that with most questions, and then with most cases" if group.tied else ""
    return (
        f"{CALLED[score]} ranks {largest} of models that were asked and measured alike ({list_names(group.largest)})"
        f"{further}; the others stand under Not compared."
    )


def _more(
    warnings: Mapping[str, tuple[str, ...]], analysis: Analysis, models: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """The warnings of a comparison that no model has by itself, beside those of another one."""
    own = [said for said in analysis.warnings if not said.startswith(tuple(f"{model}: " for model in models))]
    return {TOGETHER: tuple(dict.fromkeys((*warnings.get(TOGETHER, ()), *own)))} if own else {}


def _unnamed_beside(folder: Path, queue: MeasuredModels) -> Iterator[str]:
    """A sentence about the models that were asked to the end in the folder, and that this command does not name."""
    known = {told.folder.resolve() for told in queue.done}
    more = []
    for inner in sorted(folder.iterdir()) if folder.is_dir() else []:
        with contextlib.suppress(ConfigError):  # a broken record is no finished model
            manifest = Manifest.read(inner / ITEMS) if inner.is_dir() and inner.resolve() not in known else None
            if manifest is not None and manifest.complete and manifest.model not in queue.failed:
                more.append(manifest.model)
    if more:
        yield (
            f"Finished in the same folder, but not named this time and so not on this board: {list_names(more)}. "
            "Repeat the command with them in --models."
        )


@dataclass(frozen=True)
class _Ranked:
    """Models that were asked alike. score: what ranks them. layers: what it is made of. analysis: of all of them."""

    known: Sequence[ModelFacts]
    score: str
    layers: Sequence[str]
    analysis: Analysis

    @property
    def _rows(self) -> list[Record]:
        """The rows of the table `score`, the highest score first, then by name."""
        rows = list(self.analysis.tables["score"].iter_rows(named=True))
        return sorted(rows, key=lambda row: (-row[self.score], row["model"]))

    @property
    def _few(self) -> int | None:
        """Of how many scenarios the models were asked or measured on, at least, where these are too few."""
        fewest = min(one.fewest(cases="c" in self.layers) for one in self.known)
        return fewest if fewest < FEW_SCENARIOS else None

    @property
    def _open(self) -> list[str]:
        """The models whose score has no interval."""
        return [str(row["model"]) for row in self._rows if row[f"{self.score}_low"] is None]

    def table(self) -> pl.DataFrame:
        """A row for each model, the highest score first. Models of equal scores share a rank, as in 1=."""
        rows = self._rows
        of = {one.model: one for one in self.known}
        chances: dict[str, Record] = {}
        if (found := self.analysis.tables.get("ranking")) is not None and self._few is None and not self._open:
            chances = {row["model"]: row for row in found.filter(score=self.score).iter_rows(named=True)}
        ends = [f"{part}{end}" for part in (self.score, *self.layers) for end in ("", "_low", "_high")]
        made = []
        for row in rows:
            one, chance = of[row["model"]], chances.get(row["model"], {})
            made.append(
                {
                    **{"rank": self._rank(row, rows), "model": row["model"], "formula": row["formula"]},
                    **{name: row[name] for name in ends},
                    **{name: chance.get(name) for name in ("p_first", "rank_low", "rank_high")},
                    **{"questions": one.questions, "scenarios": one.scenarios},
                    **({"cases": one.cases, "c_measured_in": one.weights} if "c" in self.layers else {}),
                    **{"replies": one.replies, "unread": one.unread, "failed": one.failed},
                }
            )
        whole = pl.col("rank_low", "rank_high").cast(pl.Int64)  # they are all null where they are withheld
        return pl.DataFrame(made, infer_schema_length=None).with_columns(
            pl.col("p_first", *ends).cast(pl.Float64), whole
        )

    def _rank(self, row: Record, rows: Sequence[Record]) -> str:
        values = [float(other[self.score]) for other in rows]
        own = float(row[self.score])
        equal = sum(abs(value - own) <= _EQUAL for value in values)
        return f"{1 + sum(value > own + _EQUAL for value in values)}{'=' if equal > 1 else ''}"

    def sentences(self) -> Iterator[str]:
        """What a reader must know of this table alone."""
        called = CALLED[self.score]
        if len(self.known) == 1:
            model = list_names([self.known[0].model])
            yield f"{called}: {model} is the only model that is ranked, so its rank says nothing."
        elif self._few is not None:
            scenarios = f"{self._few} scenario{'s' if self._few > 1 else ''}"
            yield (
                f"{called}: how probable ranks are is withheld (?), as the answers are about {scenarios}, and fewer "
                f"than {FEW_SCENARIOS} say next to nothing of further ones; ask more questions (--limit, --cases)."
            )
        elif self._open:
            yield (
                f"{called}: how probable ranks are is withheld (?), as the score of {list_names(self._open)} has no "
                "interval; without that model in --models they are known."
            )
        if self._open:
            yield f"{called}: where an interval is ?, the scenarios are too few, or too alike, to tell how far it goes."


# The names of the page, and of the file that says in Markdown what is said below its tables
PAGE, NOTES = "leaderboard.html", "notes.md"

# Every file that a leaderboard may have
FILES = (*(f"{name}.{form}" for name in (ALL, BS, NOT_COMPARED, APART) for form in ("csv", "md")), NOTES, PAGE)

_TITLES = {
    ALL: ("All three layers", "Ranked by FToM: only models with behaviour (B), mechanism (C) and stability (S), all of "
          "the same questions and cases; C counts only where its verdict is that a map causes the answer."),
    BS: ("Behaviour and stability", "Ranked by FToM_BS, which holds no mechanism and is the only score that ranks "
         "models with and without weights at hand together, all of the same questions."),
    NOT_COMPARED: ("Not compared", "Models that have a score but were asked or measured otherwise than those that are "
         "ranked by it."),
    APART: ("Not ranked", "What could not be compared or measured, and why."),
}  # fmt: skip

# The columns that say how much stands behind a score
_COUNTS = ("questions", "scenarios", "cases", "replies", "unread", "failed")

_UNKNOWN = "?"


class Cell(NamedTuple):
    """A cell for readers: what it says, and what stands below that in small letters."""

    said: str
    below: str = ""


def show_leaderboard(board: Leaderboard, screen: Console, *, whole: bool = False) -> None:
    """Print a bar for each score, what is not ranked, and the ranks, on one screen. whole: print the warnings under the
    names of their models, then the tables, and below them what a reader must know."""
    if not whole:
        warned = [f"There are warnings of {', '.join(map(one_line, board.warnings))}: --all."] if board.warnings else []
        print_overview(_bars(board), [*warned, *_unranked(board), *board.sentences], excerpt_ranks(board), screen)
        return
    for models, warnings in _warnings(board):
        print_prose(f"warnings: {models}", screen, "bold")
        for line in warnings:
            print_prose(f"- {line}", screen, hanging=2)
        screen.print()
    for excerpt in excerpt_ranks(board):
        print_table(excerpt.title, excerpt.frame, screen)
        print_prose(f"{excerpt.reading}\n", screen, "dim")
    for line in [*_unranked(board), *board.sentences]:
        print_prose(f"- {line}", screen, hanging=2)
    screen.print()


def _bars(board: Leaderboard) -> pl.DataFrame:
    """The scores of the models in the columns of overall_accuracy, the first ranking's first."""
    columns = {"accuracy": "", "ci_low": "_low", "ci_high": "_high"}
    return pl.DataFrame(
        [
            {
                "model": CALLED[score],
                "strategy": row["model"],
                **{name: row[f"{score}{end}"] for name, end in columns.items()},
            }
            for name, (score, _) in SCORES.items()
            for row in board.tables.get(name, pl.DataFrame()).iter_rows(named=True)
        ],
        infer_schema_length=None,
    )


def _unranked(board: Leaderboard) -> Iterator[str]:
    """A sentence for each model that has no rank in a table, with the reason."""
    for name in (NOT_COMPARED, APART):
        for row in board.tables.get(name, pl.DataFrame()).iter_rows(named=True):
            score = f" by {CALLED[row['score']]}" if "score" in row else ""
            yield f"{one_line(row['model'])} is not ranked{score}: {row['why']}"


def _warnings(board: Leaderboard) -> list[tuple[str, tuple[str, ...]]]:
    """The names of models and their warnings; models with the very same ones stand together."""
    found: dict[tuple[str, ...], list[str]] = {}
    for model, warnings in board.warnings.items():
        found.setdefault(warnings, []).append(one_line(model))
    return [(", ".join(models), warnings) for warnings, models in found.items()]


def excerpt_ranks(board: Leaderboard) -> list[Excerpt]:
    """What the terminal shows of the ranks in 80 columns: two lines for each model, the intervals in the second."""
    found = []
    for name, (score, layers) in SCORES.items():
        if (frame := board.tables.get(name)) is None:
            continue
        rows = []
        for row in frame.iter_rows(named=True):
            names = {"score": score, **{CALLED[part]: part for part in layers}}
            cells = {heading: _number(row, part, "-") for heading, part in names.items()}
            first = {name: one.said for name, one in cells.items()}
            lost = {"unread": f"{row['unread']}/{row['replies']}"}
            lost |= {"failed": str(row["failed"])} if frame["failed"].sum() else {}
            chances = {"p(1st)": cell(row["p_first"]), "ranks": _ranks(row)}
            rows.append({"rank": row["rank"], "model": one_line(row["model"]), **first, **chances, **lost})
            rows.append({name: cells[name].below if name in cells else "" for name in rows[-1]})
        row = frame.row(0, named=True)
        asked = f"{count_noun(row['questions'], 'question')} of {count_noun(row['scenarios'], 'scenario')}"
        cases = f", {count_noun(row['cases'], 'case')}" if "cases" in row else ""
        title = f"ranks by {CALLED[score]} ({asked}{cases})"
        found.append(
            Excerpt(title, pl.DataFrame(rows), (name,), " ".join(_reading(name, frame, board.formula, "p(1st)")))
        )
    return found


def _number(row: Row, name: str, to: str = " to ") -> Cell:
    """An estimate, and below it its interval."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    known = isinstance(low, float) and isinstance(high, float)
    return Cell(cell(row[name]), f"{cell(low)}{to}{cell(high)}" if known else _UNKNOWN)  # type: ignore[arg-type]


def _ranks(row: Row) -> str:
    return _UNKNOWN if row["rank_low"] is None else f"{row['rank_low']} to {row['rank_high']}"


def _for_readers(name: str, row: Row) -> dict[str, Cell]:
    """A row of a table as readers see it, by the headings of the columns."""
    if name not in SCORES:
        return {column: Cell(one_line(CALLED.get(str(value), str(value)) if column == "score" else str(value)))
                for column, value in row.items()}  # fmt: skip
    score, layers = SCORES[name]
    inside = f"C measured in {one_line(str(row['c_measured_in']))}" if "c_measured_in" in row else ""
    counts = {what: Cell(f"{row[what]:,}") for what in _COUNTS if what in row}
    return {
        "rank": Cell(str(row["rank"])),
        "model": Cell(one_line(str(row["model"])), inside),
        **{CALLED[part]: _number(row, part) for part in (score, *layers)},
        "chance of rank 1": Cell(cell(row["p_first"])),  # type: ignore[arg-type]
        "likely ranks": Cell(_ranks(row)),
        **counts,
    }


def _reading(name: str, frame: pl.DataFrame, formula: str, first: str) -> Iterator[str]:
    """Sentences that explain the columns of a table which are there. first: the heading of the probability."""
    if name not in SCORES:
        return
    score, _ = SCORES[name]
    c = "C: mechanism, above the largest control and over its ceiling; " if name == ALL else ""
    yield f"B: behaviour, corrected for chance; {c}S: the share of answers that survive the variants T1 to T4."
    sums = {ALL: "FToM = .5 B + .3 C + .2 S.", BS: "FToM_BS = (.5 B + .2 S)/.7."}
    yield sums[name] if formula == FTOM_1.name else f"{CALLED[score]} has the weights of {formula}, and is no ftom-1."
    if name == BS:
        yield "FToM_BS holds no mechanism: it does not say by what a model answers, and one without any may lead it."
    yield "Beside or below each value stands its 95% interval over scenarios."
    if frame["p_first"].count():
        likely = "ranks" if first == "p(1st)" else "likely ranks"
        yield (
            f"{first}: how probable it is that the model is first for further scenarios; {likely}: the middle 95% of "
            "its ranks. 1.00 and .00 are rounded, and no certainties."
        )
    if frame["rank"].str.ends_with("=").any():
        yield "Models with equal scores share a rank (=)."
    yield "unread: replies in which no answer could be read; failed: requests without a reply; both count as wrong."
    if name == ALL and first == "p(1st)":
        inside = (f"{one_line(model)} in {one_line(place)}" for model, place in
                  frame.select("model", "c_measured_in").iter_rows())  # fmt: skip
        yield f"C was measured in these weights: {'; '.join(inside)}."
    yield "Neither the score nor the ranks say anything of other benchmarks."


def write_leaderboard(board: Leaderboard, folder: Path) -> list[Path]:
    """Write the tables as CSV and Markdown, the notes, and one page that opens offline; returns the paths, the page
    last. Files that an earlier leaderboard had and this one has not are removed, so that none of them speaks of others.
    Raises ConfigError where a file cannot be written."""
    texts = {f"{name}.csv": tables.render(frame, "csv") for name, frame in board.tables.items()}
    texts |= {f"{name}.md": _markdown(board, name, frame) for name, frame in board.tables.items()}
    texts |= {NOTES: "".join(_notes(board)), PAGE: _page(board, folder)}
    with files.refuse_os_errors(folder, "cannot be written", "choose another --run"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            files.replace_bytes(folder / name, text.encode())
        for name in FILES:
            if name not in texts:
                (folder / name).unlink(missing_ok=True)
    return [folder / name for name in texts]


def _markdown(board: Leaderboard, name: str, frame: pl.DataFrame) -> str:
    """A table for readers, under its title, with what is needed to read it."""
    title, note = _TITLES[name]
    rows = [{column: f"{one.said} ({one.below})" if one.below else one.said for column, one in _for_readers(name, row)
             .items()} for row in frame.iter_rows(named=True)]  # fmt: skip
    told = " ".join(_reading(name, frame, board.formula, "chance of rank 1"))
    return f"# {title}\n\n{note}\n\n{tables.render(pl.DataFrame(rows), 'md')}" + (f"\n{told}\n" if told else "")


def _notes(board: Leaderboard) -> Iterator[str]:
    yield f"# Functional Theory of Mind\n\n{_describe_origin(board)}\n"
    if board.sentences:
        yield "\n" + "".join(f"- {tables.markdown(line)}\n" for line in board.sentences)
    if board.warnings:
        yield "\n## Warnings\n"
    for models, warnings in _warnings(board):
        yield f"\n### {tables.markdown(models)}\n\n"
        yield "".join(f"- {tables.markdown(line)}\n" for line in warnings)


def _describe_origin(board: Leaderboard) -> str:
    """By what and when the leaderboard was made."""
    day, _, time = utc_now().partition("T")
    return f"Made by tomserve {__version__} on {day} at {time[:5]} UTC; the score is {board.formula}."


def _page(board: Leaderboard, folder: Path) -> str:
    """The page: one table after the other, without any script. folder: where it will stand."""
    links = {model: _link(path, folder) for model, path in board.reports.items()}
    shown = []
    for name, frame in board.tables.items():
        rows = [(links.get(row["model"]), _for_readers(name, row)) for row in frame.iter_rows(named=True)]
        reading = " ".join(_reading(name, frame, board.formula, "chance of rank 1"))
        shown.append((*_TITLES[name], rows, reading))
    text: str = (
        pages.templates(Path(__file__).parent)
        .get_template("leaderboard.html.j2")
        .render(
            origin=_describe_origin(board),
            sentences=map(one_line, board.sentences),
            tables=shown,
            warnings=[(models, list(map(one_line, lines))) for models, lines in _warnings(board)],
        )
    )
    return text


def _link(path: Path, folder: Path) -> str:
    """The address of a file as seen from the page; one that begins with ./ is never taken for another scheme."""
    return "./" + quote(Path(os.path.relpath(path.absolute(), folder.absolute())).as_posix())
