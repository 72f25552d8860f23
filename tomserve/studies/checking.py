"""Refuses score tables that a study cannot count, before anything is computed, and names the column, value and item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from tomserve.errors import ConfigError, one_of
from tomserve.scoring.table import check_status
from tomserve.status import OK
from tomserve.studies.loading import ANSWERED
from tomserve.studies.study import Study

KEY = ("run", "model", "strategy", "item")
"""The columns that together are different in every row of a score table."""


def check(
    scores: pl.DataFrame, required: Sequence[str], values: Mapping[str, Sequence[str]], across: bool = False
) -> None:
    """Refuse a score table that lacks columns, holds unknown values or has an answer twice. Raises ConfigError.

    scores: the score table. required: names of the columns that it has to have. values: for columns of text the values
    that they may hold.
    across: whether runs of one model may ask different benchmarks.
    """
    _check_columns(scores, (*required, *(name for name in values if name not in required)))
    _check_outcomes(scores)
    for name, known in values.items():
        _check_values(scores, name, known)
    keys = [name for name in KEY if name in scores.columns]
    double = scores.filter(pl.struct(keys).is_duplicated())
    if double.height:
        row = ", ".join(f"{name} {value!r}" for name, value in zip(keys, double.select(keys).row(0), strict=True))
        raise ConfigError(f"score table: more than one row for {row}")
    _check_runs(scores, across)


def measured(scores: pl.DataFrame, study: Study) -> pl.DataFrame:
    """The table of a measurement as its study reads it: the columns that it names, in their types.

    scores: the table, perhaps read from a format that knows no types. Raises ConfigError by column where the table
    lacks one, or holds values that do not fit, and where two runs of one model would be counted as one.
    """
    required = tuple(study.columns) if study.together else study.required
    if lacking := [name for name in required if name not in scores.columns]:
        what = "holds answers" if not ANSWERED.isdisjoint(scores.columns) else "is another one"
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
    runs_of = scores.group_by("model").agg(pl.col("run").drop_nulls().unique().sort())
    for model, runs in runs_of.filter(pl.col("run").list.len() > 1).sort("model").iter_rows():
        hint = " ".join(f"--label {run}=NAME" for run in runs)
        raise ConfigError(f"runs {', '.join(runs)} measured one model, {model!r}; tell them apart by {hint}")


def _check_columns(scores: pl.DataFrame, required: Sequence[str]) -> None:
    for name in required:
        if name not in scores.columns:
            raise ConfigError(f"score table: column {name!r} is missing; required: {', '.join(required)}")
    for name in dict.fromkeys((*required, "model", "strategy", "item")):
        if name in scores.columns and name != "correct" and scores[name].null_count():
            raise ConfigError(f"score table: column {name!r} has empty cells")


def _check_outcomes(scores: pl.DataFrame) -> None:
    """Every answer has to be right or wrong. Any text may be a status; one that is not known counts as a failure."""
    if "correct" in scores.columns and scores.schema["correct"] != pl.Boolean:
        raise ConfigError(f"score table: column 'correct' is {scores.schema['correct']}; expected true or false")
    if "status" not in scores.columns:
        return
    check_status(scores)
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
    both, and where they ask different benchmarks. Runs that share no strategy are one model with all their
    strategies."""
    if not {"run", "model", "strategy", "item"} <= set(scores.columns):
        return
    runs_of = scores.group_by("model").agg(pl.col("run").drop_nulls().unique().sort())
    for model, runs in runs_of.filter(pl.col("run").list.len() > 1).sort("model").iter_rows():
        hint = "tell them apart by " + " ".join(f"--label {run}=NAME" for run in runs)
        rows = scores.filter(pl.col("model") == model)
        twice = rows.filter(pl.struct("strategy", "item").is_duplicated()).sort("strategy", "item", "run")
        if twice.height:
            strategy, item = twice.select("strategy", "item").row(0)
            both = ", ".join(sorted(set(twice["run"])))
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
