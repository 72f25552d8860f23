"""Accuracy by model and strategy, for any items: the study of benchmarks that have none of their own.

tomserve analyze items-mymodel --study accuracy
"""

from __future__ import annotations

import polars as pl

from tomserve.stats.published import accuracy_interval

REQUIRED = ("model", "strategy", "item", "status", "correct")
VALUES: dict[str, tuple[str, ...]] = {}
INTERVALS = ("published",)


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """`accuracy`: model, strategy, correct, total, accuracy, ci_low, ci_high."""
    del intervals
    counts = (
        scores.group_by("model", "strategy")
        .agg(pl.col("correct").fill_null(False).sum().cast(pl.Int64), pl.len().cast(pl.Int64).alias("total"))
        .collect()
        .sort("model", "strategy")
    )
    bounds = [accuracy_interval(correct, total) for correct, total in counts.select("correct", "total").iter_rows()]
    return {
        "accuracy": counts.with_columns(
            (pl.col("correct") / pl.col("total")).alias("accuracy"),
            pl.Series("ci_low", [low for low, _ in bounds], pl.Float64),
            pl.Series("ci_high", [high for _, high in bounds], pl.Float64),
        )
    }
