"""The noise floor of a score table: how many answers change where nothing changed but what else was in flight.

From the columns noise_* of a score table (see tomserve.scoring.score), which a run has that was asked with
`--noise-check`; other tables lack them, or hold nulls. `noise_floor` counts, `beside` puts the share beside every
effect of a study's tables, `line` says it in one line.

    >>> column = pl.Series("noise_answer", [None, [64]], dtype=pl.List(pl.Int64))
    >>> rows = {"model": "m", "strategy": "cot", "correct": [True, False], "noise_compared": [[1, 64], [1, 64]]}
    >>> scores = pl.DataFrame(rows).with_columns(column)
    >>> noise_floor(scores).select("in_flight", "compared", "answers_changed", "noise").rows()
    [('1', 2, 0, 0.0), ('64', 2, 1, 0.5), ('any', 2, 1, 0.5)]
    >>> beside({"effects": pl.DataFrame({"model": "m", "strategy": "cot", "risk_difference": 0.1})}, scores)[
    ...     "effects"].to_dicts()
    [{'model': 'm', 'strategy': 'cot', 'risk_difference': 0.1, 'noise': 1.0, 'noise_high': 1.0}]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tomserve.stats.proportions import exact

TABLE, TITLE = "noise_floor", "noise floor: what changes where only the batches do"
ANY = "any"
EFFECTS = frozenset(("risk_difference", "minus_vanilla"))
"""Columns that hold an effect: a difference of shares of right answers."""

COLUMNS = ("noise", "noise_high")
"""What stands beside an effect: how far flips by batching alone could move it, and the upper bound of that."""

LISTS = tuple(f"noise_{name}" for name in ("compared", "failed", "text", "answer", "chain", "correct"))

NOTE = (
    "the same requests, asked again with other numbers in flight: what changed did so by the server's batches alone; "
    "any: at one of them at least; not_compared: no answer came; where compared is below the number in flight, so few "
    "were there to be; with replicas, another of them may have answered; Clopper and Pearson's interval, answers to "
    "one story counted as independent"
)
BESIDE = (
    "how far batching alone could move the effect: the shares of answers that flip, of both its sides, added "
    "(noise_high: with their upper bounds); an effect (risk difference) not larger than it cannot be told from "
    "batching noise"
)
UNMEASURED = "not measured (eval --noise-check)"


def noise_floor(scores: pl.DataFrame) -> pl.DataFrame:
    """A row a model, strategy and number of requests in flight, and one for `any` of them; none where nothing was
    measured. `noise`: share of the compared answers that changed, with its exact interval; chains null where none
    are written."""
    records = []
    if "noise_compared" in scores.columns:
        kinds: dict[str, Any] = {
            **dict.fromkeys(LISTS, pl.List(pl.Int64)),
            "chain": pl.List(pl.String),
            "correct": pl.Boolean,
        }
        there = [(pl.col(n) if n in scores.columns else pl.lit(None)).cast(kind).alias(n) for n, kind in kinds.items()]
        rows = scores.select("model", "strategy", *there)
        known = rows.filter((pl.col("noise_compared").list.len() > 0) | (pl.col("noise_failed").list.len() > 0))
        for (model, strategy), part in known.sort("model", pl.col("strategy") != "vanilla", "strategy").group_by(
            ["model", "strategy"], maintain_order=True
        ):
            found = set(part["noise_compared"].explode()) | set(part["noise_failed"].explode())
            for level in (*sorted(found - {None}), None):
                records.append({"model": model, "strategy": strategy, **_counts(part, level)})
    return pl.DataFrame(records, schema=SCHEMA)


SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("model", "strategy", "in_flight"), pl.String),
    **dict.fromkeys(("compared", "not_compared", "texts_changed", "answers_changed", "chains_changed"), pl.Int64),
    **dict.fromkeys(("right_to_wrong", "wrong_to_right"), pl.Int64),
    **dict.fromkeys(("noise", "ci_low", "ci_high"), pl.Float64),
}


def _counts(rows: pl.DataFrame, level: int | None) -> dict[str, Any]:
    """Counts at that number of requests in flight, or where None at any of them."""

    def at(name: str) -> pl.Expr:
        column = pl.col(f"noise_{name}")
        return (column.list.len() > 0 if level is None else column.list.contains(level)).fill_null(False)

    right = pl.col("correct").fill_null(False)
    counted = rows.select(
        compared=at("compared").sum(),
        not_compared=(at("failed") & ~at("compared")).sum(),
        texts_changed=at("text").sum(),
        answers_changed=at("answer").sum(),
        chains_changed=pl.when(pl.col("chain").is_not_null().any() | at("chain").any()).then(at("chain").sum()),
        right_to_wrong=(at("correct") & right).sum(),
        wrong_to_right=(at("correct") & ~right).sum(),
    ).row(0, named=True)
    share = exact(counted["answers_changed"], counted["compared"])
    known = counted["compared"] > 0
    return {
        "in_flight": ANY if level is None else str(level),
        **counted,
        "noise": share.estimate if known else None,
        "ci_low": share.low if known else None,
        "ci_high": share.high if known else None,
    }


def beside(tables: Mapping[str, pl.DataFrame], scores: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The tables, with COLUMNS where they hold effects of a model, and `noise_floor` where it was measured.

    The sides of an effect are the strategies in its columns strategy, treatment and control, or one strategy on both
    sides; null where any of them was not measured.
    """
    floor = noise_floor(scores)
    found = {name: _with_noise(frame, floor, scores) for name, frame in tables.items()}
    return {**found, **({TABLE: floor} if floor.height and TABLE not in found else {})}


def _with_noise(frame: pl.DataFrame, floor: pl.DataFrame, scores: pl.DataFrame) -> pl.DataFrame:
    if not EFFECTS & set(frame.columns) or "model" not in frame.columns or "noise" in frame.columns:
        return frame
    strategies = set(scores["strategy"].cast(pl.String)) if "strategy" in scores.columns else set()
    named = [name for name in ("strategy", "treatment", "control") if name in frame.columns]
    counts = measured(floor)
    values = []
    for model, *names in frame.select("model", *named).iter_rows():
        arms = {name for name in names if name in strategies}  # of twins, treatment and control are kinds of stories
        values.append(reach([counts.get((model, name), (0, 0)) for name in sorted(arms)]))
    columns = [pl.Series(name, [value[name] for value in values], dtype=pl.Float64) for name in COLUMNS]
    return frame.with_columns(columns)


def measured(floor: pl.DataFrame) -> dict[tuple[str, str], tuple[int, int]]:
    """By model and strategy: answers compared, and those that changed at any number of requests in flight."""
    rows = floor.filter(in_flight=ANY).select("model", "strategy", "compared", "answers_changed").iter_rows()
    return {(model, strategy): (compared, changed) for model, strategy, compared, changed in rows}


def reach(counts: Sequence[tuple[int, int]]) -> dict[str, float | None]:
    """`noise` and `noise_high` of an effect, at most 1: the shares of its sides added, since all the flips of one may
    go up and all of the other down. counts: (compared, changed) of each side, or of the one strategy on both sides;
    nulls where one was not measured."""
    if not counts or not all(compared for compared, _ in counts):
        return dict.fromkeys(COLUMNS)
    sides = [exact(changed, compared) for compared, changed in counts] * (2 if len(counts) == 1 else 1)
    sums = (sum(side.estimate for side in sides), sum(side.high for side in sides))
    return {name: min(1.0, value) for name, value in zip(COLUMNS, sums, strict=True)}


def shown(frame: pl.DataFrame) -> list[str]:
    """COLUMNS where they say something: what a summary adds to the columns that it shows of effects."""
    return list(COLUMNS) if "noise" in frame.columns and frame["noise"].is_not_null().any() else []


def notes(tables: Mapping[str, pl.DataFrame]) -> dict[str, str]:
    """What is to be said below each table that has a column `noise`, of that column wherever it is shown, and of the
    table `noise_floor`."""
    measured = TABLE in tables
    said = {
        name: f"noise: {BESIDE if measured else UNMEASURED}"
        for name, frame in tables.items()
        if "noise" in frame.columns and EFFECTS & set(frame.columns)
    }
    return {**said, **({"noise": BESIDE, TABLE: NOTE} if measured else {})}


def line(scores: pl.DataFrame) -> str | None:
    """The noise floor of a score table in one line; None where it was not measured."""
    floor = noise_floor(scores)
    if floor.is_empty():
        return None
    whole, numbers = floor.filter(in_flight=ANY), floor.filter(pl.col("in_flight") != ANY)
    compared, changed, chains = (int(whole[name].sum()) for name in ("compared", "answers_changed", "chains_changed"))
    failed = int(numbers["not_compared"].sum())
    levels = sorted(map(int, numbers["in_flight"].unique())) or [0]
    text = f"noise floor: {_of(compared, 'answer')} re-asked at {' and '.join(map(str, levels))} in flight"
    if compared:
        found = exact(changed, compared)
        text += f": {_of(changed, 'answer')} ({found.estimate:.1%}, {found.low:.1%} to {found.high:.1%})"
        text += f" and {_of(chains, 'chain')}" if whole["chains_changed"].null_count() < whole.height else ""
        text += " changed"
    text += f"; not compared: {failed:,} without an answer" if failed else ""
    if (there := _most(numbers)) < levels[-1]:
        text += f"; only {there} were there to be in flight at {levels[-1]}, a larger share fills it"
    return text


def _of(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _most(numbers: pl.DataFrame) -> int:
    """How many were asked at the highest number in flight, of the model with the fewest."""
    highest = numbers.filter(pl.col("in_flight").cast(pl.Int64) == pl.col("in_flight").cast(pl.Int64).max())
    asked = highest.group_by("model").agg((pl.col("compared") + pl.col("not_compared")).sum())["compared"]
    return min(map(int, asked), default=0)
