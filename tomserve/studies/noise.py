"""The noise floor: how many answers change when the same request is sent again among other numbers of requests.

A server computes several requests in one batch, and the batch can change an answer although nothing else has changed.
A run that was asked with ``--noise-check`` has measured this: its score table has columns noise_* (see
tomserve.scoring.score), which are missing or empty in other tables.

    >>> column = pl.Series("noise_answer", [None, [64]], dtype=pl.List(pl.Int64))
    >>> rows = {"model": "m", "strategy": "cot", "correct": [True, False], "noise_compared": [[1, 64], [1, 64]]}
    >>> scores = pl.DataFrame(rows).with_columns(column)
    >>> noise_floor(scores).select("in_flight", "compared", "answers_changed", "noise").rows()
    [('1', 2, 0, 0.0), ('64', 2, 1, 0.5), ('any', 2, 1, 0.5)]
    >>> with_noise({"effects": pl.DataFrame({"model": "m", "strategy": "cot", "risk_difference": 0.1})}, scores)[
    ...     "effects"].to_dicts()
    [{'model': 'm', 'strategy': 'cot', 'risk_difference': 0.1, 'noise': 1.0, 'noise_high': 1.0}]
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tomserve.content.text import count_noun
from tomserve.stats.proportions import exact
from tomserve.studies.phrases import PHRASES

# The name of the table that `noise_floor` makes, and its title in the terminal.
TABLE, TITLE = "noise_floor", "noise floor: what changes where only the batches do"
ANY = "any"  # In the column `in_flight`: the answer changed at one or more of the numbers of requests that were tried
# The names of columns that hold an effect, which is a difference between two shares of right answers.
EFFECTS = frozenset(("risk_difference", "minus_vanilla"))
# The columns added to a table of effects: how far answers that change by batching alone could move the effect, and the
# upper end of the 95% interval of that (see `noise_reach`).
COLUMNS = ("noise", "noise_high")
LISTS = tuple(f"noise_{name}" for name in ("compared", "failed", "text", "answer", "chain", "correct"))
UNMEASURED = "What batching does to the answers (noise, noise_high) was not measured (eval --noise-check)."


def noise_floor(scores: pl.DataFrame) -> pl.DataFrame:
    """Count what changed, in a row for each model, strategy and number of requests in flight, and one for all of these
    (`in_flight` "any"); no rows where nothing was measured. `noise`: the share of compared answers that changed, with
    its exact 95% interval; `chains_changed`: null for a strategy that writes no chains."""
    records = []
    if "noise_compared" in scores.columns:
        kinds: dict[str, Any] = {**dict.fromkeys(LISTS, pl.List(pl.Int64)), "correct": pl.Boolean}
        kinds["chain"] = pl.List(pl.String)
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
    """Counts of what changed at that number of requests in flight; at one or more of the numbers where it is None."""

    def at(name: str) -> pl.Expr:
        column = pl.col(f"noise_{name}")
        return (column.list.len() > 0 if level is None else column.list.contains(level)).fill_null(False)

    right = pl.col("correct").fill_null(False)
    found = rows.select(
        compared=at("compared").sum(),
        not_compared=(at("failed") & ~at("compared")).sum(),
        texts_changed=at("text").sum(),
        answers_changed=at("answer").sum(),
        chains_changed=pl.when(pl.col("chain").is_not_null().any() | at("chain").any()).then(at("chain").sum()),
        right_to_wrong=(at("correct") & right).sum(),
        wrong_to_right=(at("correct") & ~right).sum(),
    ).row(0, named=True)
    share = exact(found["answers_changed"], found["compared"])
    known = found["compared"] > 0
    return {
        "in_flight": ANY if level is None else str(level),
        **found,
        "noise": share.estimate if known else None,
        "ci_low": share.low if known else None,
        "ci_high": share.high if known else None,
    }


def with_noise(tables: Mapping[str, pl.DataFrame], scores: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The tables, those that hold effects of a model with COLUMNS, and the table `noise_floor` where it was measured.
    Tables that have COLUMNS already stay as they are (`noise_of_sums`); in others the shares are those of the
    strategies in the columns strategy, treatment and control, null where one was not measured."""
    floor = noise_floor(scores)
    extended = {name: _with_columns(frame, floor, scores) for name, frame in tables.items()}
    return {**extended, **({TABLE: floor} if floor.height and TABLE not in extended else {})}


def _with_columns(frame: pl.DataFrame, floor: pl.DataFrame, scores: pl.DataFrame) -> pl.DataFrame:
    if not EFFECTS & set(frame.columns) or "model" not in frame.columns or "noise" in frame.columns:
        return frame
    strategies = set(scores["strategy"].cast(pl.String)) if "strategy" in scores.columns else set()
    named = [name for name in ("strategy", "treatment", "control") if name in frame.columns]
    rows = floor.filter(in_flight=ANY).select("model", "strategy", "compared", "answers_changed").iter_rows()
    counts = {(model, strategy): (compared, changed) for model, strategy, compared, changed in rows}
    values = []
    for model, *names in frame.select("model", *named).iter_rows():
        arms = {name for name in names if name in strategies}  # of twins, treatment and control are kinds of stories
        values.append(noise_reach([counts.get((model, name), (0, 0)) for name in sorted(arms)]))
    columns = [pl.Series(name, [value[name] for value in values], dtype=pl.Float64) for name in COLUMNS]
    return frame.with_columns(columns)


def noise_reach(counts: Sequence[tuple[int, int]]) -> dict[str, float | None]:
    """`noise` and `noise_high` of an effect, each at most 1: the shares of changed answers of both sides added, since
    all may have turned right on one and wrong on the other. counts: the answers compared and changed of each side, or
    once where one strategy stands on both. None where a side was not measured."""
    if not counts or not all(compared for compared, _ in counts):
        return dict.fromkeys(COLUMNS)
    sides = [exact(changed, compared) for compared, changed in counts] * (2 if len(counts) == 1 else 1)
    sums = (sum(side.estimate for side in sides), sum(side.high for side in sides))
    return {name: min(1.0, value) for name, value in zip(COLUMNS, sums, strict=True)}


def noise_of_sums(
    sides: Sequence[tuple[npt.NDArray[np.generic], npt.NDArray[np.generic], npt.NDArray[np.float64]]],
) -> dict[str, float | None]:
    """`noise` and `noise_high` of one effect from its own answers, with their weights; the upper end for Kish's
    effective number of answers. sides: of each three columns [groups of answers]: how many were asked again, how many
    of these changed, and the weight of each. None where no answer of a side was asked again.

    >>> ones = np.ones(3)
    >>> noise_of_sums([(ones[:2], np.array([1, 0]), ones[:2]), (ones[:1], np.array([0]), ones[:1])])["noise"]
    0.5
    """
    found = []
    for re_asked, changed, weight in sides:
        again, moved = np.asarray(re_asked, dtype=float), np.asarray(changed, dtype=float)
        whole = float(again @ weight)
        if not whole > 0:
            return dict.fromkeys(COLUMNS)
        effective = whole**2 / float(again @ weight**2)
        found.append(exact(float(moved @ weight) / whole * effective, effective))
    sums = (sum(side.estimate for side in found), sum(side.high for side in found))
    return {name: min(1.0, value) for name, value in zip(COLUMNS, sums, strict=True)}


def noise_columns(frame: pl.DataFrame) -> list[str]:
    """The column noise_high where the table of effects has a measured value, else nothing: what an effect has to
    exceed."""
    return [COLUMNS[1]] if "noise" in frame.columns and frame["noise"].is_not_null().any() else []


def notes(tables: Mapping[str, pl.DataFrame]) -> dict[str, str]:
    """What the column `noise` means, for every table of effects, and what `noise_floor` is; under "noise" for an
    excerpt."""
    was_measured, beside = TABLE in tables, PHRASES["noise_beside"]
    of_effects = {
        name: beside if was_measured else UNMEASURED
        for name, frame in tables.items()
        if "noise" in frame.columns and EFFECTS & set(frame.columns)
    }
    return {**of_effects, **({"noise": beside, TABLE: PHRASES["about_noise"]} if was_measured else {})}


def noise_line(scores: pl.DataFrame) -> str | None:
    """The noise floor of a score table in one line for the terminal; None where it was not measured."""
    floor = noise_floor(scores)
    if floor.is_empty():
        return None
    whole, numbers = floor.filter(in_flight=ANY), floor.filter(pl.col("in_flight") != ANY)
    compared, changed, chains = (int(whole[name].sum()) for name in ("compared", "answers_changed", "chains_changed"))
    failed = int(numbers["not_compared"].sum())
    levels = sorted(map(int, numbers["in_flight"].unique())) or [0]
    text = f"noise floor: {count_noun(compared, 'answer')} re-asked at {' and '.join(map(str, levels))} in flight"
    if compared:
        found = exact(changed, compared)
        text += f": {count_noun(changed, 'answer')} ({found.estimate:.1%}, {found.low:.1%} to {found.high:.1%})"
        text += f" and {count_noun(chains, 'chain')}" if whole["chains_changed"].null_count() < whole.height else ""
        text += " changed"
    text += f"; not compared: {failed:,} without an answer" if failed else ""
    if (there := _most(numbers)) < levels[-1]:
        text += f"; only {there} were there to be in flight at {levels[-1]}, a larger share fills it"
    return text


def _most(numbers: pl.DataFrame) -> int:
    """How many requests were sent again at the highest number in flight, of the model for which it were the fewest."""
    highest = numbers.filter(pl.col("in_flight").cast(pl.Int64) == pl.col("in_flight").cast(pl.Int64).max())
    asked = highest.group_by("model").agg((pl.col("compared") + pl.col("not_compared")).sum())["compared"]
    return min(map(int, asked), default=0)
