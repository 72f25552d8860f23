"""Computes a study once, with all that belongs to its tables, for the terminal, for files and for the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import polars as pl

from tomserve.benchmarks import Benchmark
from tomserve.errors import ConfigError, StoppedError, one_of
from tomserve.studies import baselines, noise, people, spreading
from tomserve.studies import by as factors
from tomserve.studies.checking import check, measured
from tomserve.studies.loading import default_study, failure, load_study, measured_studies, readers_of_both
from tomserve.studies.rows import has_variants, originals
from tomserve.studies.ruled import EFFECTIVE
from tomserve.studies.showing import Context, Excerpt, Verdict
from tomserve.studies.study import Study
from tomserve.studies.together import KIND, Parts, split

BESIDE = "stability"
"""The study of variants, whose tables stand beside those of any other study where variants were asked."""


@dataclass(frozen=True)
class Analysis:
    """What a study makes of a score table.

    `intervals`: the way to count. `tables`: by name, with the noise floor (how far the server's batching could move an
    effect) beside every effect. `notes`: what a reader must know of a table, by its name. `warnings`: a line for each
    reason to doubt the numbers. `by_default`: neither the study nor the way to count was chosen by the caller.
    `beside`: the same of the study of variants, whose tables are among the tables, where variants were asked. `by`: the
    names of the tables by factors that the caller asked for, which are among the tables, too.
    """

    study: Study
    intervals: str
    tables: Mapping[str, pl.DataFrame]
    notes: Mapping[str, str]
    warnings: tuple[str, ...]
    by_default: bool = False
    beside: Analysis | None = None
    by: tuple[str, ...] = ()

    def summary(self) -> list[Excerpt]:
        """What the terminal prints: the study's own summary, and the noise floor where it was measured."""
        if not self.study.answers:
            return list(self.study.summary(self.tables))
        own = (noise.TABLE, people.TABLE, people.EFFECTS, *(self.beside.tables if self.beside else ()), *self.by)
        tables = {name: frame for name, frame in self.tables.items() if name not in own}
        excerpts = list(self.study.summary(tables))
        for name in self.by:
            title, frame, reading = factors.shown(name, self.tables[name])
            excerpts.append(Excerpt(title, frame, (name,), reading))
        excerpts += people.excerpts(self.tables)
        if self.beside is not None:
            excerpts += self.beside.summary()
        if noise.TABLE in self.tables:
            excerpts.append(Excerpt(noise.TITLE, self.tables[noise.TABLE], ("noise", noise.TABLE)))
        return excerpts

    def summary_notes(self) -> dict[str, str]:
        """The notes of the tables that the summary shows without saying how to read them (Excerpt.reading), by name;
        what noise is stands there once, where it was measured."""
        own = {**self.study.notes(self.intervals)}
        if self.beside is not None:
            own |= self.beside.study.notes(self.beside.intervals)
        noted = {name: note for name, note in self.notes.items() if name not in self.tables or name == noise.TABLE}
        names = dict.fromkeys(name for one in self.summary() if not one.reading for name in one.notes)
        return {name: known[name] for name in names for known in (own, noted) if name in known}

    def verdicts(self) -> Sequence[Verdict]:
        """The study's verdicts in words, one for each model, without what a guesser scores (which only the items tell).

        Raises ContentError where the study fails.
        """
        return tuple(self.told(Context()))

    def told(self, context: Context) -> list[Verdict]:
        """The study's verdicts, each with the cards that the study of variants has for the same model.

        context: what a guesser scores. Raises ContentError where the study fails.
        """
        own = guarded(self.study, lambda: self.study.verdicts(self.tables, context))
        more = {one.model: one.cards for one in self.beside.told(context)} if self.beside is not None else {}
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

    scores: a score table. study: a study, its name, or its path; None for the one that the benchmark of the answers
    names. intervals: one of the study's ways to count; None for its first. by: factors, such as "kind" or, crossed,
    "kind,order", by whose values answers are counted besides (see tomserve.studies.by). named: the study that measured
    runs name (see tomserve.studies.loading.named_by), which reads them where no other is given. Raises ConfigError for
    a table that does not fit and for an unknown factor, ContentError where the study fails.
    """
    by_default = study is None and intervals is None and not by
    frame = scores.collect() if isinstance(scores, pl.LazyFrame) else scores
    parts = split(frame)
    if study is None and parts.mixed:
        raise ConfigError(_both("", readers_of_both()))
    if not isinstance(study, Study):
        study = load_study((named or default_study(frame)) if study is None else study)
    if study.together:
        return _together(parts, study, intervals, by)
    if parts.mixed:
        raise ConfigError(_both(f", and the study {study.name!r} counts one kind", readers_of_both()))
    if not study.answers:
        return _of_measurement(frame, study, intervals, by, by_default)
    if readers := measured_studies(frame):
        raise ConfigError(
            f"score table: holds a measurement, and the study {study.name!r} counts answers; leave out --study, "
            f"or choose one that reads it: {', '.join(readers)}"
        )
    if study.variants or not has_variants(frame):
        return _with_factors(_computed(frame, study, intervals, by_default), frame, by)
    own = _with_factors(_computed(originals(frame), study, intervals, by_default), originals(frame), by)
    beside = _computed(frame, load_study(BESIDE), None, False)
    more = {name: table for name, table in beside.tables.items() if name not in own.tables}
    return replace(
        own,
        tables={**own.tables, **more},
        notes={**{name: note for name, note in beside.notes.items() if name in more}, **own.notes},
        warnings=tuple(dict.fromkeys((*own.warnings, *beside.warnings))),
        beside=replace(beside, tables=more),
    )


def _both(why: str, readers: Sequence[str]) -> str:
    """What is said of answers and measurements that are given to a study that does not read both."""
    named = f"; for a study of both choose --study {' or '.join(readers)}, or give one kind" if readers else ""
    return f"some of these hold answers and some a measurement{why}{named or '; give one kind'}"


def _together(parts: Parts, study: Study, intervals: str | None, by: Sequence[str]) -> Analysis:
    """What a study of answers and measurements says of both; either may be missing."""
    answers, chosen = parts.answers, way_of(study, intervals)
    if answers.height:
        check(answers, study.required, study.values, study.across)
    elif by:
        raise ConfigError("--by counts answers by a factor, and there are only measurements; leave it out")
    moved = measured(parts.measured, study) if parts.measured.height else parts.measured.clear()
    there = [part for part in (answers.drop(KIND, strict=False), moved) if part.height]
    table = pl.concat(there, how="diagonal_relaxed") if there else answers

    def made() -> tuple[Mapping[str, pl.DataFrame], dict[str, str], tuple[str, ...]]:
        tables = study.tables(table.lazy(), chosen)
        if answers.height:
            tables = people.with_people(noise.with_noise(tables, answers), answers)
        return tables, {**study.notes(chosen)}, (*study.warnings(tables), *people.warnings(tables))

    return _with_factors(noted(study, chosen, guarded(study, made), False), originals(answers), by)


def _of_measurement(
    frame: pl.DataFrame, study: Study, intervals: str | None, by: Sequence[str], by_default: bool
) -> Analysis:
    """What a study of measurements says of a measured table; nothing that only answers have stands beside it."""
    if by:
        raise ConfigError(
            f"--by counts answers by a factor, and the study {study.name!r} reads a measurement; leave it out"
        )
    table, chosen = measured(frame, study), way_of(study, intervals)

    def made() -> Analysis:
        tables = study.tables(table.lazy(), chosen)
        return Analysis(study, chosen, tables, {**study.notes(chosen)}, tuple(study.warnings(tables)), by_default)

    return guarded(study, made)


def _with_factors(analysis: Analysis, frame: pl.DataFrame, by: Sequence[str]) -> Analysis:
    """The analysis with the tables by these factors. Raises ConfigError for a factor that cannot be counted by."""
    if not by:
        told = spreading.spread(frame) if analysis.study.name == Benchmark.study else []
        return replace(analysis, warnings=(*analysis.warnings, *told))
    chosen = factors.wanted(by, frame)
    made = factors.tables(frame, chosen, analysis.intervals, analysis.tables)
    return with_tables(analysis, noise.with_noise(made, frame), factors.left_out(frame, chosen))


def with_tables(analysis: Analysis, made: Mapping[str, pl.DataFrame], left_out: Sequence[str]) -> Analysis:
    """The analysis with tables by factors, which have the noise floor beside their effects, and with what is said of
    the questions that these tables leave out."""
    made = {name: table for name, table in made.items() if name != noise.TABLE}
    more = {name: f"{note} {noise.notes({name: made[name]}).get(name, '')}".strip()
            for name, note in baselines.noted(factors.notes(made, analysis.intervals), made).items()}  # fmt: skip
    return replace(
        analysis,
        tables={**analysis.tables, **made},
        notes={**analysis.notes, **more},
        warnings=(*analysis.warnings, *left_out),
        by=tuple(made),
    )


def _computed(frame: pl.DataFrame, study: Study, intervals: str | None, by_default: bool) -> Analysis:
    """What one study says of a score table, as `compute` does."""
    check(frame, study.required, study.values, study.across)
    chosen = way_of(study, intervals)

    def made() -> tuple[Mapping[str, pl.DataFrame], dict[str, str], tuple[str, ...]]:
        tables = people.with_people(noise.with_noise(study.tables(frame.lazy(), chosen), frame), frame)
        told = baselines.said_of(study.warnings(tables), frame.columns)
        return tables, {**study.notes(chosen)}, (*told, *people.warnings(tables))

    return noted(study, chosen, guarded(study, made), by_default)


def noted(
    study: Study,
    chosen: str,
    made: tuple[Mapping[str, pl.DataFrame], dict[str, str], tuple[str, ...]],
    by_default: bool,
) -> Analysis:
    """The analysis of these tables, notes and warnings, with the notes of what stands beside any study's tables."""
    tables, notes, warnings = made[0], baselines.noted(made[1], made[0]), made[2]
    for name, more in noise.notes(tables).items():
        notes[name] = f"{notes[name]} {more}" if name in notes else more
    notes |= people.notes(tables)
    return Analysis(study, chosen, tables, notes, warnings, by_default)


OTHER = " in this study; `--study accuracy` has effective ones"
"""Where a user finds the way to count that most studies do not have."""


def way_of(study: Study, intervals: str | None) -> str:
    """The way to count that was chosen, or the study's first. Raises ConfigError for one that it does not have."""
    chosen = study.intervals[0] if intervals is None else intervals
    if chosen not in study.intervals:
        said = one_of("intervals", chosen, study.intervals)
        raise ConfigError(f"{said}{OTHER if chosen == EFFECTIVE else ''}")
    return chosen


Made = TypeVar("Made")


def guarded(study: Study, compute: Callable[[], Made]) -> Made:
    """What a function of a study returns. A study is the user's code: an error of it says where it failed rather than
    how it was called."""
    try:
        return compute()
    except (ConfigError, StoppedError):
        raise
    except Exception as error:
        if study.path is None:
            raise
        raise failure(error, study.path, "failed") from None


def analyze(
    scores: pl.DataFrame | pl.LazyFrame, study: Study | str, intervals: str | None = None, by: Sequence[str] = ()
) -> dict[str, pl.DataFrame]:
    """The tables of a study by name; see `compute` for what may be given and what is raised.

    >>> rows = {"model": "m", "strategy": "vanilla", "item": ["a", "b"], "status": "ok", "correct": [True, False]}
    >>> analyze(pl.DataFrame(rows), "accuracy")["accuracy"].select("correct", "total").rows()
    [(1, 2)]
    """
    return dict(compute(scores, study, intervals, by).tables)


def labelled(scores: pl.DataFrame, labels: Sequence[str]) -> pl.DataFrame:
    """The scores with the model of single runs renamed.

    labels: texts ``RUN=NAME``. Raises ConfigError for another text, and for a run that is not in the table.
    """
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
