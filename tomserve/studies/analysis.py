"""Computes a study from checked score tables, in memory or file by file, with all that belongs to its tables.

Where the study can be counted file by file (Study.counted), and no question of a model has rows in two files, only
one file and the sums of all clusters are in memory. Both ways give the same tables.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import polars as pl

from tomserve.benchmarks import Benchmark
from tomserve.errors import ConfigError, MachineError, StoppedError, one_of
from tomserve.scoring.score import PEOPLE
from tomserve.scoring.table import check_status
from tomserve.status import OK
from tomserve.studies import baselines, breakdowns, noise, people
from tomserve.studies.answer_rows import KIND, ORIGINAL, SplitScores, has_variants, originals, split_scores
from tomserve.studies.baselines import EFFECTIVE
from tomserve.studies.breakdowns import Rows, Tally, count_files
from tomserve.studies.contrasts import Record
from tomserve.studies.presentation import Context, Excerpt, Verdict, percent
from tomserve.studies.study import (
    ANSWER_COLUMNS,
    Study,
    default_study,
    load_study,
    measured_studies,
    studies_of_both,
    study_error,
)

# The columns that together are different in every row of a score table.
ANSWER_KEY = ("run", "model", "strategy", "item")
UNNAMED = "(without a name)"  # a run, in messages

MOST_NAMES = 5000
"""A table of more models, benchmarks or strategies is refused: each of them has numbers of its own, which take time."""


def check_scores(
    scores: pl.DataFrame, required: Sequence[str], values: Mapping[str, Sequence[str]], across: bool = False
) -> None:
    """Refuse a score table that lacks columns, holds unknown values or has an answer twice. Raises ConfigError. values:
    by column the texts that it may hold. across: whether runs of one model may ask different benchmarks."""
    _check_columns(scores, (*required, *(name for name in values if name not in required)))
    for name in ("model", "benchmark", "strategy"):
        if name in scores.columns and (count := scores[name].n_unique()) > MOST_NAMES:
            reason = f"column {name!r} has {count:,} values; expected at most {MOST_NAMES:,}"
            raise ConfigError(f"score table: {reason}, so analyze a part of it")
    _check_outcomes(scores)
    for name, known in values.items():
        _check_values(scores, name, known)
    keys = [name for name in ANSWER_KEY if name in scores.columns]
    double = scores.filter(pl.struct(keys).is_duplicated())
    if double.height:
        row = ", ".join(f"{name} {value!r}" for name, value in zip(keys, double.select(keys).row(0), strict=True))
        raise ConfigError(f"score table: more than one row for {row}")
    _check_runs(scores, across)


def check_measurement(scores: pl.DataFrame, study: Study) -> pl.DataFrame:
    """The table of a measurement as its study reads it: the columns that it names, in their types. Raises ConfigError
    where the table lacks one or holds values that do not fit, and where two runs of one model would be counted as one.
    """
    required = study.needed if study.together else study.required
    if lacking := [name for name in required if name not in scores.columns]:
        what = "holds answers" if not ANSWER_COLUMNS.isdisjoint(scores.columns) else "is another one"
        raise ConfigError(
            f"score table: column {lacking[0]!r} is missing; the study {study.name!r} reads a measurement, and this "
            f"table {what}; give a measured run, or leave out --study"
        )
    there = [name for name in study.columns if name in scores.columns]
    more = [name for name in required if name not in there]
    for name in there:
        try:
            scores = scores.with_columns(pl.col(name).cast(study.columns[name]))
        except pl.exceptions.PolarsError:
            raise ConfigError(
                f"score table: column {name!r} is {scores.schema[name]} and cannot be read as {study.columns[name]}, "
                f"which the study {study.name!r} expects"
            ) from None
    for name, known in study.values.items():
        found = scores[name].drop_nulls().cast(pl.String) if name in scores.columns else pl.Series(dtype=pl.String)
        if (strange := found.filter(~found.is_in(list(known)))).len():
            raise ConfigError(f"score table: {one_of(name, strange[0], known)}")
    if "model" in scores.columns:
        _check_measured_runs(scores, study)
    return scores.select(*there, *more)


def _check_measured_runs(scores: pl.DataFrame, study: Study) -> None:
    """Refuse a table in which a row names no model, or in which two runs are of one model."""
    if scores["model"].null_count():
        raise ConfigError("score table: column 'model' has empty cells")
    if "run" not in scores.columns or study.across:
        return
    for model, runs, hint in _several_runs(scores):
        raise ConfigError(f"runs {', '.join(runs)} measured one model, {model!r}; {hint}")


def _several_runs(scores: pl.DataFrame) -> Iterator[tuple[str, list[str], str]]:
    """Each model of which there are several runs, with these, and how to tell them apart. Rows that name no run, as
    those of another tool, are a run without a name."""
    runs_of = scores.group_by("model").agg(pl.col("run").fill_null("").unique().sort())
    for model, runs in runs_of.filter(pl.col("run").list.len() > 1).sort("model").iter_rows():
        told = "tell them apart by " + " ".join(f"--label {run}=NAME" for run in runs if run)
        yield model, [run or UNNAMED for run in runs], told


def _check_columns(scores: pl.DataFrame, required: Sequence[str]) -> None:
    for name in required:
        if name not in scores.columns:
            raise ConfigError(f"score table: column {name!r} is missing; required: {', '.join(required)}")
    for name in dict.fromkeys((*required, "model", "strategy", "item")):
        if name in scores.columns and name != "correct" and scores[name].null_count():
            raise ConfigError(f"score table: column {name!r} has empty cells")


_BESIDE = frozenset(("item", "perturbation", "deception"))
"""Columns of tables in which each strategy has a column of its own."""


def _check_outcomes(scores: pl.DataFrame) -> None:
    """Every answer has to be right or wrong. Any text may be a status; one that is not known counts as a failure."""
    if "correct" in scores.columns and scores.schema["correct"] != pl.Boolean:
        raise ConfigError(f"score table: column 'correct' is {scores.schema['correct']}; expected true or false")
    if "status" not in scores.columns:
        return
    check_status(scores)
    if "strategy" in scores.columns and (taken := _BESIDE.intersection(scores["strategy"].unique())):
        raise ConfigError(f"score table: a strategy is called {min(taken)!r}, as a column beside it is; rename it")
    if "correct" in scores.columns:
        empty = scores.filter(pl.col("correct").is_null() & (pl.col("status") == OK))
        if empty.height:
            raise ConfigError(f"score table: item {empty['item'][0]!r}: correct is empty; expected true or false")


def _check_values(scores: pl.DataFrame, name: str, known: Sequence[str]) -> None:
    if scores.schema[name] != pl.String:
        raise ConfigError(f"score table: column {name!r} is {scores.schema[name]}; expected one of {', '.join(known)}")
    strange = scores.filter(pl.col(name).is_null() | ~pl.col(name).is_in(list(known)))
    if strange.height:
        item, value = strange.select("item", name).row(0)
        raise ConfigError(f"score table: item {item!r}: {one_of(name, str(value), known)}")


def _check_runs(scores: pl.DataFrame, across: bool) -> None:
    """Refuse two runs of one model where both answer a question by the same strategy, since tables by model would count
    both, and where they ask different benchmarks."""
    if not {"run", "model", "strategy", "item"} <= set(scores.columns):
        return
    for model, runs, hint in _several_runs(scores):
        rows = scores.filter(pl.col("model") == model)
        twice = rows.filter(pl.struct("strategy", "item").is_duplicated()).sort("strategy", "item", "run")
        if twice.height:
            strategy, item = twice.select("strategy", "item").row(0)
            both = ", ".join(sorted(set(twice["run"].fill_null(UNNAMED))))
            raise ConfigError(
                f"runs {both} are of one model, {model!r}, and answer the same questions by the same strategy (first: "
                f"strategy {strategy!r}, item {item!r}); {hint}"
            )
        asked = sorted(rows["benchmark"].drop_nulls().unique()) if "benchmark" in rows.columns else []
        if len(asked) > 1 and not across:
            raise ConfigError(
                f"runs {', '.join(runs)} are of one model, {model!r}, but ask different benchmarks "
                f"({', '.join(asked)}); analyze each alone, set them side by side (--study behaviour), or {hint}"
            )


def _warn_benchmarks(tables: Sequence[pl.LazyFrame], *, apart: bool) -> Iterator[str]:
    """A warning where questions of several benchmarks are counted together, and where models were asked different ones,
    as nothing else says that beside their numbers. apart: whether tables tell the benchmarks apart."""
    if {"model", "benchmark"} <= set(tables[0].collect_schema().names()):
        asked = pl.concat([one.select("model", "benchmark").unique().collect(engine="streaming") for one in tables])
        named = asked.group_by("model").agg(pl.col("benchmark").drop_nulls().unique().sort())
        known = named.filter(pl.col("benchmark").list.len() > 0).sort("model")
        first = known.with_columns(pl.col("benchmark").list.join(", ")).unique("benchmark", maintain_order=True)
        for model, benchmarks in known.filter(pl.col("benchmark").list.len() > 1).iter_rows() if not apart else ():
            yield (
                f"{model}: questions of several benchmarks are counted together ({', '.join(benchmarks)}); "
                "--by benchmark tells them apart"
            )
        if first.height > 1:
            told = "; ".join(f"{model}: {benchmarks}" for model, benchmarks in first.iter_rows())
            yield f"not all models were asked the same benchmark ({told}): do not compare their numbers"


# How far apart the shares right of two values of a factor are before a reader of one share for all is told of it.
WIDE = 0.3
MOST_FACTORS = 3  # How many factors a reader is told of at most


def _describe_spread(tables: Sequence[pl.LazyFrame]) -> list[str]:
    """A sentence on the factors by whose values accuracy differs most, where one share for all questions would hide it;
    none where no two values differ clearly and by WIDE or more."""
    names = _factors(tables)
    if not names:
        return []
    rows = _rows_of(tables, names, baselines.RuleKinds({}))
    tallies = {name: Tally((own,), baselines.RuleKinds({})) for name, own in breakdowns.inner_names(names).items()}
    count_files(rows, list(tallies.values()))
    found: list[tuple[float, str]] = []
    for name, tally in tallies.items():
        arms: dict[tuple[str, str], list[tuple[Record, str]]] = {}
        for (model, strategy, value), one in tally.shares():
            arms.setdefault((model, strategy), []).append((one, breakdowns.value_text(value)))
        widest: tuple[float, str] | None = None
        for values in arms.values():
            low, high = (pick(values, key=lambda one: one[0]["accuracy"]) for pick in (min, max))
            gap = high[0]["accuracy"] - low[0]["accuracy"]
            if gap >= WIDE and low[0]["ci_high"] < high[0]["ci_low"] and (widest is None or gap > widest[0]):
                shares = (percent(low[0]["accuracy"]), low[1], percent(high[0]["accuracy"]), high[1])
                widest = gap, "{} (from {} where it is {} to {} where it is {})".format(name, *shares)
        if widest is not None:
            found.append(widest)
    told = [said for _, said in sorted(found, key=lambda one: -one[0])[:MOST_FACTORS]]
    if not told:
        return []
    return [f"one share for all questions hides how far it differs by {'; '.join(told)}: --by FACTOR shows it"]


# The study of variants, whose tables stand beside those of any other study where variants were asked.
BESIDE = "stability"


@dataclass(frozen=True)
class Analysis:
    """What a study makes of a score table."""

    study: Study
    intervals: str  # The way to count
    # By name, with the noise floor (how far the server's batching could move an effect) beside every effect.
    tables: Mapping[str, pl.DataFrame]
    notes: Mapping[str, str]  # What a reader must know of a table, by its name
    warnings: tuple[str, ...]  # A line for each reason to doubt the numbers
    by_default: bool = False  # Whether neither the study nor the way to count was chosen by the caller
    # The same of the study of variants, whose tables are among the tables, where variants were asked.
    variant_analysis: Analysis | None = None
    # The names of the tables by factors that the caller asked for, which are among the tables, too.
    by: tuple[str, ...] = ()

    def summary(self) -> list[Excerpt]:
        """The study's own summary, tables by factors, people, variants, and the noise floor."""
        if not self.study.answers:
            return [one for one in self.study.summary(self.tables) if one.frame.height]
        own = (
            noise.TABLE,
            people.TABLE,
            people.EFFECTS,
            *(self.variant_analysis.tables if self.variant_analysis else ()),
            *self.by,
        )
        tables = {name: frame for name, frame in self.tables.items() if name not in own}
        excerpts = [one for one in self.study.summary(tables) if one.frame.height]
        for name in self.by:
            title, frame, reading = breakdowns.factor_excerpt(name, self.tables[name])
            excerpts.append(Excerpt(title, frame, (name,), reading))
        excerpts += people.excerpts(self.tables)
        if self.variant_analysis is not None:
            excerpts += self.variant_analysis.summary()
        if noise.TABLE in self.tables:
            excerpts.append(Excerpt(noise.TITLE, self.tables[noise.TABLE], ("noise", noise.TABLE)))
        return excerpts

    def summary_notes(self) -> dict[str, str]:
        """The notes of the tables that the summary shows without saying how to read them (Excerpt.reading), by name."""
        own = {**self.study.notes(self.intervals)}
        if self.variant_analysis is not None:
            own |= self.variant_analysis.study.notes(self.variant_analysis.intervals)
        noted = {name: note for name, note in self.notes.items() if name not in self.tables or name == noise.TABLE}
        names = dict.fromkeys(name for one in self.summary() if not one.reading for name in one.notes)
        return {name: known[name] for name in names for known in (own, noted) if name in known}

    def verdicts(self) -> Sequence[Verdict]:
        """The study's verdicts, without what a guesser scores (which only the items tell). Raises ContentError where it
        fails."""
        return tuple(self.verdicts_with(Context()))

    def verdicts_with(self, context: Context) -> list[Verdict]:
        """The study's verdicts, each with the cards that the study of variants has for the same model. Raises
        ContentError where the study fails."""
        own = call_study(self.study, lambda: self.study.verdicts(self.tables, context))
        more = (
            {one.model: one.cards for one in self.variant_analysis.verdicts_with(context)}
            if self.variant_analysis is not None
            else {}
        )
        return [replace(one, cards=(*one.cards, *more.get(one.model, ()))) for one in own]


def compute(
    scores: pl.DataFrame | pl.LazyFrame,
    study: Study | str | None = None,
    intervals: str | None = None,
    by: Sequence[str] = (),
    *,
    named: str | None = None,
) -> Analysis:
    """Check the score table against what the study needs, then compute everything that the study has to say of it.

    study: a study, its name, or its path; None for the one that the benchmark of the answers names. intervals: one of
    the study's ways to count; None for its first. by: factors, such as "kind" or, crossed, "kind,order", by whose
    values answers are counted besides. named: the study that measured runs name. Raises ConfigError for a table that
    does not fit and for an unknown factor, ContentError where the study fails."""
    by_default = study is None and intervals is None and not by
    frame = scores.collect() if isinstance(scores, pl.LazyFrame) else scores
    parts = split_scores(frame)
    if study is None and parts.mixed:
        raise ConfigError(_no_reader_of_both("", studies_of_both()))
    if not isinstance(study, Study):
        study = load_study((named or default_study(frame)) if study is None else study)
    if study.together:
        return _compute_both(parts, study, intervals, by)
    if parts.mixed:
        raise ConfigError(_no_reader_of_both(f", and the study {study.name!r} counts one kind", studies_of_both()))
    if not study.answers:
        return _compute_measurement(frame, study, intervals, by, by_default)
    if readers := measured_studies(frame):
        raise ConfigError(
            f"score table: holds a measurement, and the study {study.name!r} counts answers; leave out --study, "
            f"or choose one that reads it: {', '.join(readers)}"
        )
    asked = originals(frame)
    if study.variants or not has_variants(frame):
        # By a factor the questions themselves are counted, and variants only by what they are.
        counted = frame if "variant" in _asked_names(by) else asked
        return _with_factors(_compute_answers(frame, study, intervals, by_default), [counted.lazy()], counted, by)
    own = _with_factors(_compute_answers(asked, study, intervals, by_default), [asked.lazy()], asked, by)
    beside = _compute_answers(frame, load_study(BESIDE), None, False)
    more = {name: table for name, table in beside.tables.items() if name not in own.tables}
    return replace(
        own,
        tables={**own.tables, **more},
        notes={**{name: note for name, note in beside.notes.items() if name in more}, **own.notes},
        warnings=tuple(dict.fromkeys((*own.warnings, *beside.warnings))),
        variant_analysis=replace(beside, tables=more),
    )


def _no_reader_of_both(why: str, readers: Sequence[str]) -> str:
    """What is said of answers and measurements that are given to a study that does not read both."""
    named = f"; for a study of both choose --study {' or '.join(readers)}, or give one kind" if readers else ""
    return f"some of these hold answers and some a measurement{why}{named or '; give one kind'}"


def _compute_both(parts: SplitScores, study: Study, intervals: str | None, by: Sequence[str]) -> Analysis:
    """What a study of answers and measurements says of both; either may be missing."""
    answers, chosen = parts.answers, choose_intervals(study, intervals)
    if answers.height:
        check_scores(answers, study.required, study.values, study.across)
    elif by:
        raise ConfigError("--by counts answers by a factor, and there are only measurements; leave it out")
    moved = check_measurement(parts.measured, study) if parts.measured.height else parts.measured.clear()
    there = [part for part in (answers.drop(KIND, strict=False), moved) if part.height]
    table = pl.concat(there, how="diagonal_relaxed") if there else answers

    found = _count(study, chosen, lambda: study.tables(table.lazy(), chosen), answers)
    asked = originals(answers)
    return _with_factors(found, [asked.lazy()], asked, by)


def _compute_measurement(
    frame: pl.DataFrame, study: Study, intervals: str | None, by: Sequence[str], by_default: bool
) -> Analysis:
    """What a study of measurements says of a measured table; nothing that only answers have stands beside it."""
    if by:
        raise ConfigError(
            f"--by counts answers by a factor, and the study {study.name!r} reads a measurement; leave it out"
        )
    table, chosen = check_measurement(frame, study), choose_intervals(study, intervals)

    def made() -> Analysis:
        tables = study.tables(table.lazy(), chosen)
        warnings = tuple(dict.fromkeys(study.warnings(tables)))
        return Analysis(study, chosen, tables, {**study.notes(chosen)}, warnings, by_default)

    return call_study(study, made)


def _with_factors(
    analysis: Analysis, tables: Sequence[pl.LazyFrame], re_asked: pl.DataFrame, by: Sequence[str]
) -> Analysis:
    """The analysis with the tables by these factors, counted table by table, which have the noise floor beside their
    effects. re_asked: with the rows that a noise check asked again. Raises ConfigError for an unknown factor."""
    if not analysis.study.across:
        apart = any(breakdowns.ITEMS in frame.columns for frame in analysis.tables.values())
        named = apart or breakdowns.ITEMS in _asked_names(by)
        analysis = replace(analysis, warnings=(*_warn_benchmarks(tables, apart=named), *analysis.warnings))
    if not by:
        told = _describe_spread(tables) if analysis.study.name == Benchmark.study else []
        return replace(analysis, warnings=(*analysis.warnings, *told))
    every, wanted = pl.concat(tables), breakdowns.parse_factors(by, _values(tables, by))
    kinds, guess = baselines.RuleKinds.of(every), breakdowns.GUESS in every.collect_schema()
    rows = _rows_of(tables, [name for one in wanted for name in one], kinds)
    made = breakdowns.count_by_factors(rows, wanted, analysis.intervals, kinds, guess=guess, taken=analysis.tables)
    made = {name: table for name, table in noise.with_noise(made, re_asked).items() if name != noise.TABLE}
    about = baselines.drop_rule_notes(breakdowns.factor_notes(made, analysis.intervals), made)
    more = {name: f"{note} {noise.notes({name: made[name]}).get(name, '')}".strip() for name, note in about.items()}
    return replace(
        analysis,
        tables={**analysis.tables, **made},
        notes={**analysis.notes, **more},
        warnings=(*analysis.warnings, *breakdowns.left_out_lines(tables, wanted)),
        by=tuple(made),
    )


def _compute_answers(frame: pl.DataFrame, study: Study, intervals: str | None, by_default: bool) -> Analysis:
    check_scores(frame, study.required, study.values, study.across)
    chosen = choose_intervals(study, intervals)
    return _count(study, chosen, lambda: study.tables(frame.lazy(), chosen), frame, frame.columns, by_default)


def _count(
    study: Study,
    chosen: str,
    make: Callable[[], Mapping[str, pl.DataFrame]],
    answers: pl.DataFrame,
    columns: Iterable[str] = (),
    by_default: bool = False,
) -> Analysis:
    """The analysis of the tables that `make` gives, with all that stands beside any study's: noise, people, notes.

    answers: those that people gave, and those that a noise check asked again; perhaps all. columns: of the score table.
    """

    def made() -> Analysis:
        tables = make()
        if answers.height:
            tables = people.with_people(noise.with_noise(tables, answers), answers)
        told = baselines.drop_missing_warnings(study.warnings(tables), columns)
        notes = baselines.drop_rule_notes(study.notes(chosen), tables)
        for name, more in noise.notes(tables).items():
            notes[name] = f"{notes[name]} {more}" if name in notes else more
        warnings = (*told, *people.warnings(tables))
        return Analysis(study, chosen, tables, notes | people.notes(tables), warnings, by_default)

    return call_study(study, made)


# Where a user finds the way to count that most studies do not have.
OTHER = " in this study; `--study accuracy` has effective ones"


def choose_intervals(study: Study, intervals: str | None) -> str:
    """The way to count that was chosen, or the study's first. Raises ConfigError for one that it does not have."""
    chosen = study.intervals[0] if intervals is None else intervals
    if chosen not in study.intervals:
        said = one_of("intervals", chosen, study.intervals)
        raise ConfigError(f"{said}{OTHER if chosen == EFFECTIVE else ''}")
    return chosen


Result = TypeVar("Result")


def call_study(study: Study, compute: Callable[[], Result]) -> Result:
    """What a function of a study returns. A study is the user's code: an error of it says where it failed."""
    try:
        return compute()
    except (ConfigError, StoppedError):
        raise
    except Exception as error:
        if study.path is None:
            raise
        raise study_error(error, study.path, "failed") from None


def analyze(
    scores: pl.DataFrame | pl.LazyFrame, study: Study | str, intervals: str | None = None, by: Sequence[str] = ()
) -> dict[str, pl.DataFrame]:
    """The tables of a study by name; see `compute` for what may be given and what is raised.

    >>> rows = {"model": "m", "strategy": "vanilla", "item": ["a", "b"], "status": "ok", "correct": [True, False]}
    >>> analyze(pl.DataFrame(rows), "accuracy")["accuracy"].select("correct", "total").rows()
    [(1, 2)]
    """
    return dict(compute(scores, study, intervals, by).tables)


def relabel(scores: pl.DataFrame, labels: Sequence[str]) -> pl.DataFrame:
    """The scores with the model of single runs renamed, by texts ``RUN=NAME``. Raises ConfigError for another text, and
    for a run that is not in the table."""
    for label in labels:
        run, equals, name = label.partition("=")
        if not equals or not name:
            raise ConfigError(f"--label {label!r}: expected RUN=NAME")
        known = scores["run"].unique().drop_nulls().to_list() if "run" in scores.columns else []
        if run not in known:
            raise ConfigError(f"--label: {one_of('run', run, known)}")
        model = pl.when(pl.col("run") == run).then(pl.lit(name)).otherwise(pl.col("model"))
        scores = scores.with_columns(model.alias("model"))
    return scores


# How many times the memory of all columns a study takes that is computed from rows, as was measured of several.
LOADED_COLUMNS = 4.5
LARGE_MEMORY = 2e9  # From so many bytes on it is said how much memory a study takes
# Bytes of a value in memory; a text takes 16 and, where it is long and no other has it, as many more.
_WIDTHS: dict[type[pl.DataType], float] = {pl.Boolean: 0.25, pl.Float64: 8, pl.Int64: 8, pl.List: 8, pl.Null: 0}
Note = Callable[[str], None]


@dataclass(frozen=True)
class Facts:
    """What has to be known of tables in many files before anything is counted."""

    rows: int
    disjoint: bool
    variants: bool
    people: bool

    @property
    def countable(self) -> bool:
        return self.disjoint and not self.variants and not self.people


def compute_files(
    tables: Sequence[pl.LazyFrame],
    study: Study | str | None = None,
    intervals: str | None = None,
    by: Sequence[str] = (),
    *,
    note: Note | None = None,
) -> Analysis:
    """What `compute` says of all rows of these tables, each of which fits into memory by itself. note: told how much
    memory the study takes. Raises what `compute` raises, and MachineError where this machine cannot hold what the study
    needs."""
    sample = _sample(tables)
    if measured_studies(sample.clear()) or "strategy" not in sample.columns:
        return compute(pl.concat(tables), study, intervals, by)
    chosen = study if isinstance(study, Study) else load_study(study or default_study(sample))
    facts = _facts(tables, chosen)
    if chosen.counted is None or not facts.countable:
        _report_memory(tables, facts, chosen, note)
    if not facts.countable or chosen.together or not chosen.answers:
        return compute(pl.concat(tables), study, intervals, by)
    return _one_by_one(tables, chosen, intervals, by, by_default=study is None and intervals is None and not by)


def _sample(tables: Sequence[pl.LazyFrame]) -> pl.DataFrame:
    """The columns of the tables, with a row for each of their benchmarks."""
    schema = tables[0].collect_schema()
    empty = pl.DataFrame(schema=schema)
    if "benchmark" not in schema:
        return empty
    found = [table.select(pl.col("benchmark").unique()).collect(engine="streaming") for table in tables]
    return pl.concat([empty, pl.concat(found).unique().sort("benchmark")], how="diagonal_relaxed")


def _facts(tables: Sequence[pl.LazyFrame], study: Study) -> Facts:
    """Check the tables one after the other, and see what they hold. Raises ConfigError as `check_scores` does."""
    there = tables[0].collect_schema().names()
    wanted = dict.fromkeys((*ANSWER_KEY, *study.required, *study.values, "benchmark", ORIGINAL, *PEOPLE))
    names = [name for name in wanted if name in there]
    rows, variants, people = 0, False, False
    questions: list[pl.Series] = []
    runs: set[tuple[object, ...]] = set()
    for table in tables:
        part = table.select(names).collect(engine="streaming")
        check_scores(part, study.required, study.values, study.across)
        rows += part.height
        variants = variants or (ORIGINAL in names and bool(part[ORIGINAL].is_not_null().any()))
        people = people or (next(iter(PEOPLE)) in names and bool((part[next(iter(PEOPLE))].list.len() > 0).any()))
        once = part.select("model", "item").unique()
        questions.append(once.select(pl.struct("model", "item").hash().alias("hash"))["hash"])
        told = [name for name in ("model", "run", "benchmark") if name in names]
        runs |= set(part.select(told).unique().iter_rows())
    hashes = pl.concat(questions)
    alone = len({row[0] for row in runs}) == len(runs)  # one run of one benchmark for each model
    return Facts(rows, alone and not hashes.is_duplicated().any(), variants, people)


def _one_by_one(
    tables: Sequence[pl.LazyFrame], study: Study, intervals: str | None, by: Sequence[str], *, by_default: bool
) -> Analysis:
    """The tables of a study, with all that `compute` puts beside them: counted file by file or, where the study cannot
    be counted so, from those columns of all files that it reads."""
    every = pl.concat(tables)
    chosen, kinds, re_asked = choose_intervals(study, intervals), baselines.RuleKinds.of(every), _noise(every)

    def make() -> Mapping[str, pl.DataFrame]:
        if (way := study.counted) is None:
            return study.tables(every, chosen)
        return way.tables(lambda: map(way.rows, tables), kinds, chosen)

    return _with_factors(_count(study, chosen, make, re_asked, kinds.columns, by_default), tables, re_asked, by)


def _rows_of(tables: Sequence[pl.LazyFrame], names: Sequence[str], kinds: baselines.RuleKinds) -> Rows:
    return lambda: (breakdowns.factor_rows(table, names, kinds) for table in tables)


def _noise(every: pl.LazyFrame) -> pl.DataFrame:
    """The rows that a noise check asked again, and one without a check for each model and strategy."""
    there = every.collect_schema().names()
    arms = every.select("model", "strategy").unique().collect(engine="streaming").sort("model", "strategy")
    lists = [name for name in noise.LISTS if name in there]
    if not lists:
        return arms
    names = [name for name in ("model", "strategy", "chain", "correct", *lists) if name in there]
    known = every.select(names).filter(pl.any_horizontal(pl.col(name).list.len() > 0 for name in lists))
    return pl.concat([known.collect(engine="streaming"), arms], how="diagonal_relaxed")


def _asked_names(by: Sequence[str]) -> set[str]:
    """What may be the name of a column in ``--by``: each of its texts whole, and its parts between commas."""
    return {*by, *(name.strip() for text in by for name in text.split(","))}


def _values(tables: Sequence[pl.LazyFrame], by: Sequence[str]) -> pl.DataFrame:
    """A table with the columns of the tables, in which each combination of values of the factors `by` stands once."""
    schema = tables[0].collect_schema()
    asked = _asked_names(by)
    names = [name for name in schema if name in asked or name == breakdowns.ITEMS]
    found = [table.select(names).unique().collect(engine="streaming") for table in tables]
    return pl.concat([pl.DataFrame(schema=schema), pl.concat(found).unique()], how="diagonal_relaxed")


def _factors(tables: Sequence[pl.LazyFrame]) -> list[str]:
    """The factors that have several values, and few enough to be set side by side."""
    known = breakdowns.find_factors(_values(tables, ()))
    values: dict[str, set[object]] = {name: set() for name in known}
    for table in tables:
        part = table.select(list(values)).collect(engine="streaming")
        for name in part.columns:
            values[name] |= set(part[name].drop_nulls().unique())
            if len(values[name]) > breakdowns.MOST:
                del values[name]
    return [name for name, found in values.items() if len(found) > 1]


def _report_memory(tables: Sequence[pl.LazyFrame], facts: Facts, study: Study, note: Note | None) -> None:
    """Say how much memory a study takes that is computed from rows. Raises MachineError where there is not as much."""
    needed = memory_needed(tables[0].collect_schema(), facts.rows) * LOADED_COLUMNS
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    said = f"the study {study.name!r} takes about {needed / 1e9:,.1f} GB of memory for {facts.rows:,} answers"
    why = "it is computed from rows" if study.counted is None else _why(facts)
    if needed > there:
        raise MachineError(
            f"{said}, since {why}, and this machine has {there / 1e9:,.1f} GB; analyze fewer files at a time, use a "
            f"machine with more memory, or choose --study {Benchmark.study}, which is counted file by file"
        )
    if needed > LARGE_MEMORY and note is not None:
        note(f"{said}, since {why}")


def _why(facts: Facts) -> str:
    if facts.people:
        return "people answered some of the questions"
    if facts.variants:
        return "some questions are variants of others"
    return "some questions, or several runs of one model, have answers in more than one file"


def memory_needed(schema: pl.Schema, rows: int) -> float:
    """About how many bytes so many rows of these columns take in memory; lists count as if most were empty."""
    return float(rows * sum(_WIDTHS.get(type(kind), 16) for kind in schema.values()))
