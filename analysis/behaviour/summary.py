"""What the terminal shows of the study of behaviour, and what it warns of."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tomserve.studies import Excerpt, baselines
from tomserve.studies.showing import Tables
from tomserve.studies.words import cell

_READING = (
    "B: mean over types of task of the share right, corrected for chance (0: chance, 1: always right), with its 95% "
    "interval over stories or templates. constant, other: B of the best rule that always gives one sort of answer, and "
    "of the best other rule that follows nobody's mind. B - rule: the difference to the better of the two; where its "
    "interval does not lie above 0, nothing is shown that the rule could not do. human: quoted from the authors, raw."
)
_TASKS = (
    "right: share right; corrected: the same corrected for chance, with its 95% interval. constant, other: shares that "
    "the best rules have right of the same questions. Questions about the world are shown, and not counted in B."
)
_PLAIN = "Raw shares with intervals that take questions as independent, as the source counts."
_PAPER = (
    "Printed cells of a source whose items and answers are not public; they cannot be computed again, and are raw "
    "accuracies on other items than those above."
)
_QUOTED = "What authors print for people on their own benchmarks: quoted, not measured here."

_STRATEGIES = (
    "difference: the strategy's share right minus that of the strategy that asks for the answer alone (control), on "
    "the same questions, with its 95% interval; p is at most .05 exactly where that does not hold 0. Many tests stand "
    "here, which are not adjusted for that."
)

FEW, SMALL = 20, 10
"""Below so many clusters, and below so many questions of a type of task, a reader is warned."""


def summary(tables: Tables) -> list[Excerpt]:
    """What the terminal prints: the table across benchmarks, its dimensions and tasks, quoted and published figures."""
    return [excerpt for excerpt in _excerpts(tables) if excerpt.frame.height]


def _excerpts(tables: Tables) -> Iterator[Excerpt]:
    if (frame := tables.get("behaviour")) is not None:
        yield Excerpt("behaviour: one table across benchmarks", _behaviour(frame), ("behaviour",), _READING)
    for name, title in (("dimensions", "by dimension of mind"), ("task_types", "by benchmark and type of task")):
        if (frame := tables.get(name)) is not None:
            corrected = "corrected" in frame.columns
            yield Excerpt(title, _cells(frame, corrected), (name,), _TASKS if corrected else _PLAIN)
    if (frame := tables.get("prompting_effects")) is not None:
        yield Excerpt("strategies: what a way of asking changes", _effects(frame), ("prompting_effects",), _STRATEGIES)
    if (frame := tables.get("human_figures")) is not None:
        shown = frame.select("benchmark", "part", "measure", _cell("quoted"), "source")
        yield Excerpt("people, as quoted", shown, ("human_figures",), _QUOTED)
    if (frame := tables.get("published_behaviour")) is not None:
        cells = [_cell(name) for name in frame.columns[1:]]
        yield Excerpt(
            "published: table 3 of the source", frame.select("model", *cells), ("published_behaviour",), _PAPER
        )


def _cell(name: str, new: str = "") -> pl.Expr:
    shown = pl.col(name).map_elements(cell, pl.String, skip_nulls=False)
    return pl.when(pl.col(name).is_null()).then(pl.lit("")).otherwise(shown).alias(new or name)


def _with(value: str, low: str, high: str, name: str) -> pl.Expr:
    bounds = pl.format("{} [{}, {}]", _cell(value), _cell(low), _cell(high))
    return pl.when(pl.col(low).is_null()).then(_cell(value)).otherwise(bounds).alias(name)


def _behaviour(frame: pl.DataFrame) -> pl.DataFrame:
    own: list[pl.Expr] = [_with("b", "b_low", "b_high", "B [95%]")]
    if frame["constant_b"].is_not_null().any():
        own += [_cell("constant_b", "constant"), _cell("surface_b", "other")]
        own += [_with("over_rule", "over_low", "over_high", "B - rule [95%]")]
    human = [_cell("human")] if frame["human"].is_not_null().any() else []
    counts = [pl.col("total").alias("questions"), pl.col("tasks")]
    return frame.select(
        "model", "strategy", "benchmark", *counts, _cell("accuracy", "right"), _cell("chance"), *own, *human
    )


def _effects(frame: pl.DataFrame) -> pl.DataFrame:
    named = [pl.col("treatment").alias("strategy"), *(("control",) if frame["control"].n_unique() > 1 else ())]
    shares = [_cell("share_treated", "right"), _cell("share_control", "control's")]
    gap = _with("risk_difference", "rd_low", "rd_high", "difference [95%]")
    return frame.select("model", "benchmark", "task", "dimension", *named, *shares, gap, "p")


def _cells(frame: pl.DataFrame, corrected: bool) -> pl.DataFrame:
    keys = frame.columns[: frame.columns.index("correct" if "correct" in frame.columns else "total")]
    if not corrected:
        return frame.select(*keys, "total", _with("accuracy", "ci_low", "ci_high", "right [95%]"), _cell("chance"))
    rules = [
        _cell(name, new) for name, new in (("constant", "constant"), ("surface", "other")) if name in frame.columns
    ]
    return frame.select(
        *keys,
        "total",
        _cell("accuracy", "right"),
        _cell("chance"),
        _with("corrected", "corrected_low", "corrected_high", "corrected [95%]"),
        *rules,
    )


def warnings(tables: Tables) -> list[str]:
    """One line for each reason to doubt the numbers: no chance, no rules, few clusters, tasks of few questions, and
    questions that are left out."""
    return list(dict.fromkeys(_doubts(tables)))


def _doubts(tables: Tables) -> Iterator[str]:
    yield from baselines.missing(tables)
    frame = tables.get("behaviour", pl.DataFrame())
    for row in frame.iter_rows(named=True):
        who = f"{row['model']}, {row['strategy']}, {row['benchmark']}"
        if row["chance"] is None or row["b"] is None:
            yield (
                f"{row['benchmark']}: its score table does not say how many choices each question has (floor_guess), "
                "so that no share is corrected for chance; score the run again with this version (tomserve score RUN)"
            )
        elif row["clusters"] < FEW:
            yield f"{who}: only {row['clusters']} stories or templates; an interval over so few is rough"
    small = tables.get("task_types", pl.DataFrame())
    if small.height:
        few = small.filter(pl.col("total") < SMALL)
        for benchmark, task in few.select("benchmark", "task").unique(maintain_order=True).iter_rows():
            yield (
                f"{benchmark}, {task}: fewer than {SMALL} questions, which count in B as much as any other type of task"
            )
    for name, count in tables.get("unusable", pl.DataFrame()).iter_rows():
        yield f"{name}: {count:,} answers to questions that the benchmark marks as unusable are left out"
