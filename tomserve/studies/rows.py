"""The rows that studies and comparisons count, made from a score table in one place.

A failure is a wrong answer everywhere: a row without an answer has `correct` false and `faulty` true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tomserve.status import LENGTH, OK

REQUIRED = ("model", "strategy", "item", "status", "correct")
"""Columns that every score table has to have before anything can be counted."""

BASELINE = "vanilla"
"""The strategy that asks for the answer alone: what other strategies are compared with."""


def prepared(
    scores: pl.LazyFrame, kept: Sequence[str] = REQUIRED, wanted: Mapping[str, Any] | None = None
) -> pl.LazyFrame:
    """One row an answer, sorted by model, strategy and item, so that sums do not depend on the order of the rows.

    kept: columns of the table to keep as they are. wanted: columns to have of these types, empty where the table lacks
    them. Beside them there are `answer`; `correct`: right, and answered; `faulty`: no answer came or could be read;
    `cluster`: what the item shares with others (a story, a task), the item itself where nothing is said.
    """
    types = {"answer": pl.String, "cluster": pl.String, **(wanted or {})}
    return (
        with_columns(scores, types)
        .select(*(name for name in kept if name not in types), *types)
        .with_columns(
            correct=pl.col("correct").fill_null(False) & answered(),
            faulty=~answered(),
            cluster=pl.coalesce("cluster", "item"),
        )
        .sort("model", "strategy", "item")
    )


def answered() -> pl.Expr:
    """Whether a row of a score table holds an answer, be it right or wrong."""
    cut_off = pl.col("answer").is_not_null() | pl.col("correct").fill_null(False)
    return (pl.col("status") == OK) | ((pl.col("status") == LENGTH) & cut_off)


def with_columns(scores: pl.LazyFrame, wanted: Mapping[str, Any]) -> pl.LazyFrame:
    """The table with these columns of these types: another tool's table may lack them, or hold nothing in them."""
    there = scores.collect_schema().names()
    return scores.with_columns(
        (pl.col(name) if name in there else pl.lit(None)).cast(kind).alias(name) for name, kind in wanted.items()
    )
