"""The rows that studies count: one for each answer of a score table, apart from measurements. A failure is a wrong
answer (`correct` false, `faulty` true); only a question that a person left open (status "unanswered") is no row.

>>> plain_strategies(["cot", "vanilla"]), plain_strategies(["letters", "letters_cot"]), plain_strategies(["cot_free"])
(['vanilla'], ['letters'], [])
"""

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

    kept: columns to keep as they are. wanted: further ones with their types, empty where the table lacks them. Besides:
    `answer`; `correct`: right, and answered; `faulty`: no readable answer came; `unread`: a reply came that could not
    be read; `cluster`: the story or task, else the item; `re_asked`, `changed`: whether the noise check has a second
    answer, and another one."""
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


def split_by(
    rows: pl.DataFrame, keys: Sequence[str], *, sort: bool = True
) -> Iterator[tuple[dict[str, Any], pl.DataFrame]]:
    """The rows of each combination of values of the keys, after these values by name, in the order of the values, or
    without `sort` in that of the rows."""
    placed = rows.sort(keys, maintain_order=True) if sort else rows
    for values, part in placed.group_by(list(keys), maintain_order=True):
        yield dict(zip(keys, values, strict=True)), part


def drop_undefined(frame: pl.DataFrame) -> pl.DataFrame:
    """The table with an empty cell for each number that is undefined or infinite."""
    floats = [pl.col(name) for name, kind in frame.schema.items() if kind.is_float()]
    return frame.with_columns(pl.when(one.is_finite()).then(one).name.keep() for one in floats)


# The column of a score table that names the original of a variant; it is null for what is no variant, and a table
# without variants lacks it.
ORIGINAL = "original_item"


def name_benchmarks(scores: pl.DataFrame) -> str:
    """The benchmarks that a score table names, in a row."""
    return ", ".join(sorted(scores["benchmark"].drop_nulls().unique())) if "benchmark" in scores.columns else ""


def count_questions(scores: pl.DataFrame) -> int:
    """How many questions a score table answers; those of two benchmarks that are called alike are two."""
    if "item" not in scores.columns:
        return scores.height
    return scores.select(name for name in ("benchmark", "item") if name in scores.columns).n_unique()


def name_apart(scores: pl.LazyFrame, names: Sequence[str]) -> pl.LazyFrame:
    """The table with the benchmark before these names, of items or clusters, which several benchmarks may share."""
    there = [name for name in ("benchmark", *names) if name in scores.collect_schema()]
    if there[:1] != ["benchmark"]:
        return scores
    before = pl.col("benchmark").cast(pl.String).fill_null("")
    return scores.with_columns(pl.format("{}: {}", before, name).alias(name) for name in there[1:])


def originals(scores: pl.DataFrame) -> pl.DataFrame:
    """The rows of questions that are no variants of others."""
    return scores.filter(pl.col(ORIGINAL).is_null()) if has_variants(scores) else scores


def has_variants(scores: pl.DataFrame) -> bool:
    return ORIGINAL in scores.columns and bool(scores[ORIGINAL].is_not_null().any())


def _any(name: str) -> pl.Expr:
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
    """How many rows of `prepare_rows` could not be read; None where the rows are made in another way."""
    return int(rows["unread"].sum()) if "unread" in rows.columns else None


def with_columns(scores: pl.LazyFrame, wanted: Mapping[str, Any], *, strict: bool = True) -> pl.LazyFrame:
    """The table with these columns in these types, empty where it lacks them, as the table of another tool may. strict:
    whether a value of another kind is an error; else it is left out, as somebody's own factor may have that name."""
    schema = scores.collect_schema()

    def fits(name: str, kind: Any) -> bool:
        own = schema.get(name)
        return own is not None and (strict or kind in (own, pl.String) or (own.is_numeric() and kind.is_numeric()))

    return scores.with_columns(
        (pl.col(name) if fits(name, kind) else pl.lit(None)).cast(kind).alias(name) for name, kind in wanted.items()
    )


KIND, STRATEGY = "kind", "strategy"


class SplitScores(NamedTuple):
    """The rows that are answers, and those that are measured; answers lack the columns of measurements."""

    answers: pl.DataFrame
    measured: pl.DataFrame

    @property
    def mixed(self) -> bool:
        return bool(self.answers.height and self.measured.height)


def split_scores(scores: pl.DataFrame) -> SplitScores:
    """The rows of answers and those of a measurement, in one table or alone."""
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
# Strategies that work something out before the answer, or are told it, and do not say so by the word cot.
REASONING_STRATEGIES = frozenset(
    ("decompose", "hitom_chain", "narrator", "perceptom", "reason_native", "simtom", "simtom_oracle")
)  # fmt: skip


def is_cot(strategy: str) -> bool:
    """Whether cot is a word of a strategy's name, as in cot_free and letters_cot."""
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
    """Those of the strategies that ask for the answer alone, the one to count first: vanilla, what ends so, what has
    its partner beside it; else the only one that does not reason. Of several others nobody knows which is to count:
    none."""
    direct = sorted({name for name in strategies if not reasons(name)}, key=lambda name: (name != BASELINE, name))
    named = [name for name in direct if name.endswith(BASELINE)]
    named += [name for name in direct if name not in named and cot_partner(name) in set(strategies)]
    return named or (direct if len(direct) == 1 else [])
