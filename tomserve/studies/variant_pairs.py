"""Pairs of an original item and its variant, with both answers as choices of the original: what the tables of
stability count.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tomserve.errors import ConfigError
from tomserve.items import UNKNOWN
from tomserve.scoring.metrics import BEGINNING
from tomserve.scoring.table import COLUMNS
from tomserve.studies import baselines
from tomserve.studies.answer_rows import ORIGINAL, REQUIRED, prepare_rows, with_columns
from tomserve.studies.answer_rows import READ as PREPARED
from tomserve.studies.study import default_study, load_study
from tomserve.variants import AGAIN, KINDS

ARM = ("model", "strategy", "benchmark")  # The columns that tell apart who was asked what
SHORT = {kind.name: kind.short for kind in KINDS}  # The short names of the kinds, in their order
MOST_KINDS = 20  # Kinds of others, by name, that are told apart; further ones are "other"
UNREADABLE = "unreadable"  # The category of an answer that could not be read, or did not come
# What a table calls the choice that names what is really so, where the items say which it is.
TRUE_ANSWER = "what is so"
RULES = ("original_rules_same", "original_rules_other")
# The columns of a score table that are read beside the required ones, with their types.
OWN: Mapping[str, Any] = {
    **dict.fromkeys(("benchmark", ORIGINAL, "original_answer", "variant", "variant_by", "reality"), pl.String),
    "original_place": pl.Int64,
}

# Every column of a score table that decides what is counted here and how, factors left out.
READ = (*PREPARED, *OWN, *RULES)
# So many factors are shown where no study names them, and so many values a factor may have to be shown.
MOST_FACTORS, MOST_VALUES = 8, 12
MISSING = (
    "score table: no variants of questions are in it, so there is nothing to compare; ask them with "
    "tomserve eval --variants all (which adds them to a run that exists)"
)


class VariantPairs(NamedTuple):
    """`originals`, a row for each answer to an original; `pairs`, for each original with one of its variants;
    `variants`, for each answer to a variant, paired or not; the columns of factors; the rules of the score table."""

    originals: pl.DataFrame
    pairs: pl.DataFrame
    variants: pl.DataFrame
    factors: Sequence[str]
    rules: baselines.RuleKinds


def pair_variants(scores: pl.LazyFrame) -> VariantPairs:
    """Pair every variant with its original, of the same model and strategy. Raises ConfigError where there are neither
    variants nor originals that were asked again."""
    rules = baselines.RuleKinds.of(scores)
    factors = factors_of(scores)
    schema = scores.collect_schema()
    if "people" in schema:  # people are asked no variants
        scores = scores.filter(pl.col("people").is_null())
    levels = {f"levels_{name}": f"noise_{name}" for name in ("compared", "answer")}
    lists = dict.fromkeys(levels.values(), pl.List(pl.Int64))
    scores = with_columns(_with_lists(scores, schema), {**OWN, **lists})
    scores = scores.with_columns(pl.col(name).list.len().fill_null(0).alias(new) for new, name in levels.items())
    kept = dict.fromkeys((*REQUIRED, *levels, *RULES, *rules.columns, *factors))
    rows = prepare_rows(scores, [name for name in kept if name not in OWN], OWN).collect()
    if rows.filter(pl.col(ORIGINAL).is_null() & pl.col("original_place").is_not_null()).is_empty():
        # A table of another tool may know no places of the originals' answers: then the answers' words are compared.
        rows = rows.with_columns(original_place=pl.lit(None, pl.Int64))
    rows = rows.with_columns(pl.col("benchmark").fill_null(""), said=_answer_category())
    originals = rows.filter(pl.col(ORIGINAL).is_null())
    variants = rows.filter(pl.col(ORIGINAL).is_not_null()).with_columns(pl.col("variant").fill_null("other"))
    others = sorted({*variants["variant"].unique()} - {*SHORT})[MOST_KINDS:]
    if others:
        merged = pl.when(pl.col("variant").is_in(others)).then(pl.lit("other")).otherwise("variant")
        variants = variants.with_columns(merged.alias("variant"))
    if variants.is_empty() and not originals["levels_compared"].sum():
        raise ConfigError(MISSING)
    return VariantPairs(originals, _join_originals(variants, originals, factors), variants, factors, rules)


def _with_lists(scores: pl.LazyFrame, schema: Mapping[str, Any]) -> pl.LazyFrame:
    """The table with the columns of rules as lists; a CSV file holds them as JSON text, and other tools not at all."""
    kind = pl.List(pl.String)
    return scores.with_columns(
        pl.lit(None, kind).alias(name)
        if name not in schema
        else (pl.col(name).str.json_decode(kind) if schema[name] == pl.String else pl.col(name).cast(kind)).alias(name)
        for name in RULES
    )


def _answer_category() -> pl.Expr:
    """The category of an answer: its place among the original's choices, "unknown", or that it could not be read."""
    own = pl.coalesce("original_answer", "answer")
    answer = pl.when(pl.col(ORIGINAL).is_null()).then(own).otherwise(pl.col("original_answer"))
    return (
        pl.when(pl.col("faulty") | answer.is_null())
        .then(pl.lit(UNREADABLE))
        .when(answer == UNKNOWN)
        .then(pl.lit(UNKNOWN))
        .when(pl.col("original_place").is_not_null())
        .then(pl.format("choice {}", pl.col("original_place") + 1))
        .otherwise(answer)
    )


def _category_name(answer: str, said: str) -> pl.Expr:
    """What a table calls an answer: its category, or that it is what is so, where the original says what that is."""
    return (
        pl.when((pl.col(said) != UNREADABLE) & (pl.col(answer) == pl.col("reality")))
        .then(pl.lit(TRUE_ANSWER))
        .otherwise(said)
    )


def _join_originals(variants: pl.DataFrame, originals: pl.DataFrame, factors: Sequence[str]) -> pl.DataFrame:
    """Variants beside their originals; `correct`, `faulty` and `said` are the variant's, with control_ the original's,
    and cluster and factors the original's. `from` and `to` name the two answers, `same` says whether they agree."""
    control = originals.select(
        *ARM,
        pl.col("item").alias(ORIGINAL),
        "cluster",
        "reality",
        pl.coalesce("original_answer", "answer").alias("control_answer"),
        *(pl.col(name).alias(f"control_{name}") for name in ("correct", "faulty", "said")),
        *(name for name in factors if name != "reality"),
    )
    own = variants.select(*ARM, ORIGINAL, "item", "variant", "variant_by", "original_answer", *RULES,
                          "correct", "faulty", "said")  # fmt: skip
    pairs = own.join(control, on=[*ARM, ORIGINAL], how="inner", maintain_order="left")
    return pairs.with_columns(
        pl.col("control_correct").alias("control"),
        same=(pl.col("said") == pl.col("control_said")) & (pl.col("said") != UNREADABLE),
        **{"from": _category_name("control_answer", "control_said"), "to": _category_name("original_answer", "said")},
    )


def factors_of(scores: pl.LazyFrame) -> list[str]:
    """The factors by which stability is shown: those by which the study of this benchmark sorts its questions or, where
    it names none, the first few with few values."""
    schema = scores.collect_schema()
    if ORIGINAL in schema:
        scores = scores.filter(pl.col(ORIGINAL).is_null())
    known = [name for name, kind in schema.items() if kind in (pl.String, pl.Boolean, pl.Int64)]
    made = ("rule_", BEGINNING, "original_", "noise_", "chain", "samples")  # what rules, metrics and variants bring
    known = [name for name in known if name not in {*COLUMNS, *OWN, "variant"} and not name.startswith(made)]
    named: list[str] = []
    if "benchmark" in schema:
        column = scores.select(pl.col("benchmark").drop_nulls().unique()).collect()
        column = column.with_columns(correct=pl.lit(True))  # of answers, so that nobody looks for who measured them
        study = load_study(default_study(column))
        named = [name for name in dict.fromkeys((*study.labels, *study.strata)) if name in known]
    counts = scores.select(pl.col(name).drop_nulls().n_unique() for name in named or known).collect()
    few = [name for name in counts.columns if 1 < counts[name][0] <= (30 if named else MOST_VALUES)]
    return few[:MOST_FACTORS]


def paired_codes(part: pl.DataFrame) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Whole numbers that stand for the categories of the originals' answers and of the variants', negative for what
    could not be read [pairs]."""
    said = pl.concat([part["control_said"], part["said"].alias("control_said")])
    numbers = np.where((said == UNREADABLE).to_numpy(), -1, said.rank("dense").cast(pl.Int64).to_numpy())
    return numbers[: part.height], numbers[part.height :]


def order_kinds(names: pl.Series) -> list[str]:
    """The kinds of variants that occur, in the order T1 to T6, then others by name."""
    there = set(names.drop_nulls())
    return [*(name for name in SHORT if name in there and name != AGAIN.name), *sorted(there - set(SHORT))]


def by_arm(frame: pl.DataFrame) -> Iterator[tuple[dict[str, str], pl.DataFrame]]:
    """Each model, strategy and benchmark with its rows; the plain strategy first."""
    ordered = frame.sort("model", pl.col("strategy") != "vanilla", "strategy", "benchmark", maintain_order=True)
    for key, part in ordered.group_by(list(ARM), maintain_order=True):
        yield dict(zip(ARM, map(str, key), strict=True)), part
