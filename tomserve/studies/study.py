"""Studies: scripts in ``analysis/`` that turn scored records into a paper's tables.

A study has ``tables(scores, intervals) -> {name: frame}``, ``REQUIRED`` columns, allowed ``VALUES`` and ``INTERVALS``,
and may have ``summary(tables) -> {title: frame}``, what the terminal shows. It is found by name, or given by path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

import polars as pl

from tomserve import benchmarks, content
from tomserve.content.pyfile import failed, load_module
from tomserve.errors import ConfigError, ContentError, one_of
from tomserve.scoring.outcomes import check_status
from tomserve.status import LENGTH, OK
from tomserve.studies import noise

KEY = ["run", "model", "strategy", "item"]


def names() -> list[str]:
    """Every study that can be found."""
    return [name for name in content.names("analysis", ".py") if not name.startswith("_")]


def load_study(name: str) -> ModuleType:
    """The study of that name, or at that path (``*.py``). Raises ConfigError, ContentError."""
    path = Path(name).expanduser() if name.endswith(".py") else content.names("analysis", ".py").get(name)
    if path is None:
        raise ConfigError(f"{one_of('study', name, names())}; a path must end in .py")
    module = load_module(path, "study")
    if not callable(getattr(module, "tables", None)):
        raise ContentError("has no function tables(scores, intervals)", path=path)
    return module


def analyze(scores: pl.DataFrame, study: ModuleType, intervals: str | None = None) -> dict[str, pl.DataFrame]:
    """Check the table against what the study needs, then compute its tables, the noise floor beside their effects.
    Raises ConfigError by name.

    intervals: one of the study's INTERVALS (where it lists none, whatever it understands); None for its first.
    """
    check(scores, getattr(study, "REQUIRED", ()), getattr(study, "VALUES", {}))
    offered = getattr(study, "INTERVALS", (intervals or "published",))
    intervals = intervals or offered[0]
    if intervals not in offered:
        raise ConfigError(one_of("intervals", intervals, offered))
    try:
        found: dict[str, pl.DataFrame] = study.tables(scores.lazy(), intervals)
        return noise.beside(found, scores)
    except Exception as error:  # a study is the user's code: say where it failed rather than how we called it
        raise failed(error, Path(str(study.__file__)), "failed") from None


def notes(
    study: ModuleType, intervals: str | None = None, found: Mapping[str, pl.DataFrame] | None = None
) -> dict[str, str]:
    """What the study says of its tables, a line each: what an interval means, and for which population. With the tables
    found also what the noise floor beside their effects is."""
    offered = getattr(study, "INTERVALS", ("published",))
    said: dict[str, str] = dict(study.notes(intervals or offered[0])) if hasattr(study, "notes") else {}
    for name, more in noise.notes(found or {}).items():
        said[name] = f"{said[name]}; {more}" if name in said else more
    return said


def warnings(study: ModuleType, found: dict[str, pl.DataFrame]) -> list[str]:
    """What the study finds doubtful in its tables, a line each."""
    return list(study.warnings(found)) if hasattr(study, "warnings") else []


def printable(study: ModuleType, found: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """What the terminal shows of a study's tables: its own summary and the noise floor, or all of them."""
    if not hasattr(study, "summary"):
        return found
    floor = {noise.TITLE: found[noise.TABLE]} if noise.TABLE in found else {}
    return {**study.summary(found), **floor}


def check(scores: pl.DataFrame, required: Sequence[str], values: dict[str, Sequence[str]]) -> None:
    """Refuse missing columns, unknown values and duplicate rows."""
    for name in required:
        if name not in scores.columns:
            raise ConfigError(f"score table: column {name!r} is missing; required: {', '.join(required)}")
    for name in dict.fromkeys((*required, "model", "strategy", "item")):
        if name in scores.columns and name != "correct" and scores[name].null_count():
            raise ConfigError(f"score table: column {name!r} has empty cells")
    if "correct" in scores.columns and scores.schema["correct"] != pl.Boolean:
        raise ConfigError(f"score table: column 'correct' is {scores.schema['correct']}; expected true or false")
    if "status" in scores.columns:
        check_status(scores)
        empty = scores.filter(pl.col("correct").is_null() & (pl.col("status") == OK))
        if empty.height:
            raise ConfigError(f"score table: item {empty['item'][0]!r}: correct is empty; expected true or false")
    for name, known in values.items():
        if scores.schema[name] != pl.String:
            raise ConfigError(
                f"score table: column {name!r} is {scores.schema[name]}; expected one of {', '.join(known)}"
            )
        strange = scores.filter(pl.col(name).is_null() | ~pl.col(name).is_in(list(known)))
        if strange.height:
            item, found = strange.select("item", name).row(0)
            raise ConfigError(f"score table: item {item!r}: {one_of(name, str(found), known)}")
    if "run" in scores.columns:
        several = (
            scores.group_by("model")
            .agg(pl.col("run").drop_nulls().unique().sort())
            .filter(pl.col("run").list.len() > 1)
        )
        if several.height:
            model, runs = several.sort("model").row(0)
            hint = " ".join(f"--label {run}=NAME" for run in runs)
            raise ConfigError(f"runs {', '.join(runs)} are of one model, {model!r}; tell them apart by {hint}")
    keys = [name for name in KEY if name in scores.columns]
    double = scores.filter(pl.struct(keys).is_duplicated())
    if double.height:
        shown = ", ".join(f"{name} {value!r}" for name, value in zip(keys, double.select(keys).row(0), strict=True))
        raise ConfigError(f"score table: more than one row for {shown}")


def answered() -> pl.Expr:
    """Whether a row of a score table holds an answer, be it right or wrong."""
    cut_off = pl.col("answer").is_not_null() | pl.col("correct").fill_null(False)
    return (pl.col("status") == OK) | ((pl.col("status") == LENGTH) & cut_off)


def with_columns(scores: pl.LazyFrame, wanted: Mapping[str, type[pl.DataType]]) -> pl.LazyFrame:
    """The table with these columns of these types: a foreign one may lack what is not required, or hold only nulls."""
    there = scores.collect_schema().names()
    return scores.with_columns(
        (pl.col(name) if name in there else pl.lit(None)).cast(kind).alias(name) for name, kind in wanted.items()
    )


def labelled(scores: pl.DataFrame, labels: Sequence[str]) -> pl.DataFrame:
    """Rename the model of single runs, by ``RUN=NAME``. Raises ConfigError for a run that is not in the table."""
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


def default_study(scores: pl.DataFrame) -> str:
    """The study of the items' benchmark where all are of one that has its own, else "accuracy"."""
    names = scores["benchmark"].drop_nulls().unique().to_list() if "benchmark" in scores.columns else []
    found = benchmarks.known(names[0]) if len(names) == 1 else None
    return found.study if found is not None else "accuracy"
