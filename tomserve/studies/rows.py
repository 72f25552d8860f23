"""Makes the rows that studies and comparisons count from a score table.

A failure is a wrong answer in all of them: a row without an answer has `correct` false and `faulty` true. Only a
question that a person left open (status "unanswered") is no failure: it is no row here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tomserve.status import ANSWERS, INVALID, LENGTH, OK, UNANSWERED

REQUIRED = ("model", "strategy", "item", "status", "correct")
"""Columns that every score table has to have before anything can be counted."""

_NOISE = ("noise_compared", "noise_answer")
READ = (*REQUIRED, "answer", "cluster", *_NOISE)
"""Columns that `prepared` reads; a table may lack those that are not required."""

BASELINE = "vanilla"
"""The strategy that asks for the answer alone: what other strategies are compared with."""


def prepared(
    scores: pl.LazyFrame, kept: Sequence[str] = REQUIRED, wanted: Mapping[str, Any] | None = None
) -> pl.LazyFrame:
    """One row for each answer, sorted by model, strategy and item, so that sums do not depend on the order of the rows.

    scores: a score table. kept: columns of it to keep as they are. wanted: further columns with their types, which are
    empty where the table lacks them. Besides these there are `answer`; `correct`: right, and answered; `faulty`: no
    answer came, or none that could be read; `unread`: a reply came that could not be read; `cluster`: the story or task
    that the item shares with others, the item itself where it names none; `re_asked`: the noise check has a second
    answer to the same request; `changed`: that answer is another one, for any number of requests in flight.
    """
    types = {"answer": pl.String, "cluster": pl.String, **(wanted or {})}
    again = dict.fromkeys(_NOISE, pl.List(pl.Int64))
    return (
        with_columns(scores, {**types, **again})
        .filter(pl.col("status").cast(pl.String).fill_null("") != UNANSWERED)
        .select(*(name for name in kept if name not in types), *types, *again)
        .with_columns(
            correct=pl.col("correct").fill_null(False) & answered(),
            faulty=~answered(),
            unread=unreadable(),
            cluster=pl.coalesce("cluster", "item"),
            re_asked=_any("noise_compared"),
            changed=_any("noise_compared") & _any("noise_answer"),
        )
        .drop(again)
        .sort("model", "strategy", "item")
    )


ORIGINAL = "original_item"
"""The column of a score table that names the original of a variant; it is null for what is no variant, and a table
without variants lacks it."""


def originals(scores: pl.DataFrame) -> pl.DataFrame:
    """The rows of questions that are no variants of others: what every study counts that does not ask for variants."""
    return scores.filter(pl.col(ORIGINAL).is_null()) if has_variants(scores) else scores


def has_variants(scores: pl.DataFrame) -> bool:
    """Whether some of the questions are variants of others."""
    return ORIGINAL in scores.columns and bool(scores[ORIGINAL].is_not_null().any())


def _any(name: str) -> pl.Expr:
    """Whether a column of lists holds something in this row."""
    return (pl.col(name).list.len() > 0).fill_null(False)


def answered() -> pl.Expr:
    """Whether a row of a score table holds an answer, be it right or wrong."""
    cut_off = pl.col("answer").is_not_null() | pl.col("correct").fill_null(False)
    return (pl.col("status") == OK) | ((pl.col("status") == LENGTH) & cut_off)


UNREADABLE = frozenset({INVALID, *ANSWERS})
"""The statuses of replies; where such a row holds no answer, the reply could not be read."""


def unreadable() -> pl.Expr:
    """Whether a row of a score table is a reply that came and in which no answer could be read."""
    return ~answered() & pl.col("status").cast(pl.String).is_in(UNREADABLE)


def counted_unread(rows: pl.DataFrame) -> int | None:
    """How many rows of `prepared` are replies that could not be read; None where the rows are made in another way and
    do not say so."""
    return int(rows["unread"].sum()) if "unread" in rows.columns else None


def with_columns(scores: pl.LazyFrame, wanted: Mapping[str, Any]) -> pl.LazyFrame:
    """The table with these columns in these types, empty where it lacks them, as the table of another tool may.

    wanted: types by the names of the columns.
    """
    there = scores.collect_schema().names()
    return scores.with_columns(
        (pl.col(name) if name in there else pl.lit(None)).cast(kind).alias(name) for name, kind in wanted.items()
    )
