"""The rows that studies count: one for each answer of a score table, apart from measurements, and which strategies
reason.

A failure is a wrong answer: a row without an answer has `correct` false and `faulty` true. Only a question that a
person left open (status "unanswered") is no row.

>>> plain_strategies(["cot", "vanilla"]), plain_strategies(["letters", "letters_cot"]), plain_strategies(["cot_free"])
(['vanilla'], ['letters'], [])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from tomserve.status import ANSWERS, INVALID, LENGTH, OK, UNANSWERED

# Columns that every score table has to have before anything can be counted.
REQUIRED = ("model", "strategy", "item", "status", "correct")
_NOISE = ("noise_compared", "noise_answer")
# Columns that `prepare_rows` reads; a table may lack those that are not required.
READ = (*REQUIRED, "answer", "cluster", *_NOISE)
BASELINE = "vanilla"  # The strategy that asks for the answer alone: what other strategies are compared with


def prepare_rows(
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
            correct=pl.col("correct").fill_null(False) & is_answered(),
            faulty=~is_answered(),
            unread=is_unreadable(),
            cluster=pl.coalesce("cluster", "item"),
            re_asked=_any("noise_compared"),
            changed=_any("noise_compared") & _any("noise_answer"),
        )
        .drop(again)
        .sort("model", "strategy", "item")
    )


def split_by(rows: pl.DataFrame, keys: Sequence[str]) -> Iterator[tuple[dict[str, Any], pl.DataFrame]]:
    """The rows of each combination of values of the keys, after these values by name, in the order of the values."""
    for values, part in rows.sort(keys, maintain_order=True).group_by(list(keys), maintain_order=True):
        yield dict(zip(keys, values, strict=True)), part


# The column of a score table that names the original of a variant; it is null for what is no variant, and a table
# without variants lacks it.
ORIGINAL = "original_item"


def originals(scores: pl.DataFrame) -> pl.DataFrame:
    """The rows of questions that are no variants of others: what every study counts that does not ask for variants."""
    return scores.filter(pl.col(ORIGINAL).is_null()) if has_variants(scores) else scores


def has_variants(scores: pl.DataFrame) -> bool:
    """Whether some of the questions are variants of others."""
    return ORIGINAL in scores.columns and bool(scores[ORIGINAL].is_not_null().any())


def _any(name: str) -> pl.Expr:
    """Whether a column of lists holds something in this row."""
    return (pl.col(name).list.len() > 0).fill_null(False)


def is_answered() -> pl.Expr:
    """Whether a row of a score table holds an answer, be it right or wrong."""
    cut_off = pl.col("answer").is_not_null() | pl.col("correct").fill_null(False)
    return (pl.col("status") == OK) | ((pl.col("status") == LENGTH) & cut_off)


# The statuses of replies; where such a row holds no answer, the reply could not be read.
UNREADABLE = frozenset({INVALID, *ANSWERS})


def is_unreadable() -> pl.Expr:
    """Whether a row of a score table is a reply that came and in which no answer could be read."""
    return ~is_answered() & pl.col("status").cast(pl.String).is_in(UNREADABLE)


def count_unread(rows: pl.DataFrame) -> int | None:
    """How many rows of `prepare_rows` are replies that could not be read; None where the rows are made in another way
    and do not say so."""
    return int(rows["unread"].sum()) if "unread" in rows.columns else None


def with_columns(scores: pl.LazyFrame, wanted: Mapping[str, Any]) -> pl.LazyFrame:
    """The table with these columns in these types, empty where it lacks them, as the table of another tool may.

    wanted: types by the names of the columns.
    """
    there = scores.collect_schema().names()
    return scores.with_columns(
        (pl.col(name) if name in there else pl.lit(None)).cast(kind).alias(name) for name, kind in wanted.items()
    )


KIND, STRATEGY = "kind", "strategy"


class SplitScores(NamedTuple):
    """The rows of a table that are answers, and those that are measured; either may be empty. Where there are both, the
    answers lack the columns in which only rows of the measurement hold something."""

    answers: pl.DataFrame
    measured: pl.DataFrame

    @property
    def mixed(self) -> bool:
        """Whether there are rows of both sorts."""
        return bool(self.answers.height and self.measured.height)


def split_scores(scores: pl.DataFrame) -> SplitScores:
    """The rows of answers and those of a measurement.

    scores: a score table, the table of a measurement, or both in one table.
    """
    if STRATEGY not in scores.columns:
        return SplitScores(scores.clear(), scores) if KIND in scores.columns else SplitScores(scores, scores.clear())
    if KIND not in scores.columns:
        return SplitScores(scores, scores.clear())
    is_measured = pl.col(STRATEGY).is_null() & pl.col(KIND).is_not_null()
    measured = scores.filter(is_measured)
    if not measured.height:
        return SplitScores(scores, measured)
    answers = scores.filter(~is_measured)
    theirs = [one.name for one in answers if one.null_count() == answers.height and measured[one.name].count()]
    return SplitScores(answers.drop(theirs) if answers.height else answers, measured)


COT = "cot"
REASONING_STRATEGIES = frozenset(
    ("decompose", "hitom_chain", "narrator", "perceptom", "reason_native", "simtom", "simtom_oracle")
)  # fmt: skip
"""Strategies that work something out before the answer, or are told it, and do not say so by the word cot."""


def is_cot(strategy: str) -> bool:
    """Whether a strategy asks for reasoning step by step: cot is a word of its name, as in cot_free and letters_cot."""
    return COT in strategy.split("_")


def reasons(strategy: str) -> bool:
    """Whether a strategy asks for, or is given, more than the answer alone."""
    return is_cot(strategy) or strategy in REASONING_STRATEGIES


def cot_partner(strategy: str) -> str:
    """The strategy that asks the same with reasoning.

    >>> cot_partner("vanilla"), cot_partner("dyntom_vanilla"), cot_partner("letters")
    ('cot', 'dyntom_cot', 'letters_cot')
    """
    stem = strategy.removesuffix(BASELINE).rstrip("_")
    return f"{stem}_{COT}" if stem else COT


def plain_strategies(strategies: Iterable[str]) -> list[str]:
    """Those of the strategies that ask for the answer alone, the one to count first.

    These are vanilla, what ends so, such as bigtom_vanilla, and what has its partner beside it, such as letters beside
    letters_cot; or, where there are none of these, the only one that does not reason. Of several others nobody knows
    which is to count, and none is returned.
    """
    direct = sorted({name for name in strategies if not reasons(name)}, key=lambda name: (name != BASELINE, name))
    named = [name for name in direct if name.endswith(BASELINE)]
    named += [name for name in direct if name not in named and cot_partner(name) in set(strategies)]
    return named or (direct if len(direct) == 1 else [])
