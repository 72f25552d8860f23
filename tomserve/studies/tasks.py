"""Where questions belong, for studies that count across benchmarks: by benchmark, type of task and dimension of mind.

Published benchmarks give their items the factors `task` and `dimension`. Those of tomserve's own that lack them are
placed here by their own factors, so that their items stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from tomserve.studies import baselines
from tomserve.studies.rows import READ as PREPARED
from tomserve.studies.rows import REQUIRED, prepared, with_columns

DIMENSIONS = ("belief", "desire", "intention", "emotion", "action", "knowledge")
"""The dimensions in the order of the tables; others follow by their names."""

WORLD = ("reality", "memory", "fact")
"""Dimensions of questions about the world and the story, whose answers need nobody's mind: they are shown, and not
counted in B."""

MACRO = "mean of {} benchmarks"
"""What stands in the column `benchmark` of a mean over benchmarks."""

UNTOLD = "not said"
"""The task and the dimension of items that do not say theirs."""

FACTORS: Mapping[str, Any] = {
    **dict.fromkeys(("benchmark", "task", "dimension", "question_kind", "answer_role"), pl.String),
    **dict.fromkeys(("belief_is_false", "usable"), pl.Boolean),
    **dict.fromkeys(("order", "options"), pl.Int64),
    "floor_guess": pl.Float64,
}
"""Factors that place a question, and what a guess scores; a table may lack any of them."""

READ = (*PREPARED, *FACTORS)
"""Every column of a score table that decides what is counted here and how; rules stand beside it and decide nothing."""

STAGES = ("perturbed", "perturbed-2", "bundles")
NESTED = "hitom"
"""Benchmarks whose items have neither task nor dimension."""


@dataclass(frozen=True)
class Asked:
    """What is counted: the rows, the kinds of the rules beside them, and how many rows are left out because their
    benchmark marks them as unusable, by benchmark."""

    rows: pl.DataFrame
    kinds: baselines.Kinds
    unusable: Mapping[str, int]


def asked(scores: pl.LazyFrame) -> Asked:
    """The rows of a score table with `benchmark`, `task`, `dimension` (none of them null), `chance` (what a guess among
    the question's own choices scores, null where nobody knows) and `mind` (whether the question is counted in B)."""
    kinds = baselines.Kinds.of(scores)
    typed = with_columns(scores, FACTORS)
    rows = prepared(typed, (*REQUIRED, *FACTORS, *kinds.columns)).with_columns(*_placed()).collect()
    usable = rows["usable"].fill_null(True)
    left = rows.filter(~usable).group_by("benchmark").len().sort("benchmark")
    kept = rows.filter(usable).with_columns(
        chance=pl.coalesce("floor_guess", 1 / pl.col("options")), mind=~pl.col("dimension").is_in(WORLD)
    )
    return Asked(kept, kinds, dict(left.iter_rows()))


def _placed() -> tuple[pl.Expr, ...]:
    """Where each question belongs, from its factors."""
    stage = pl.col("benchmark").is_in(STAGES)
    nested = (pl.col("benchmark") == NESTED) & pl.col("order").is_not_null()
    world = (stage & (pl.col("question_kind") == "reality")) | (nested & (pl.col("order") == 0))
    belief = (
        pl.when(pl.col("belief_is_false"))
        .then(pl.lit("false_belief"))
        .when(pl.col("answer_role") == "unknown")
        .then(pl.lit("no_belief"))
        .otherwise(pl.lit("true_belief"))
    )
    task = (
        pl.when(world)
        .then(pl.lit("reality"))
        .when(stage)
        .then(belief)
        .when(nested)
        .then(pl.format("order_{}", "order"))
        .otherwise(pl.lit(UNTOLD))
    )
    dimension = pl.when(world).then(pl.lit("reality")).when(stage | nested).then(pl.lit("belief"))
    return (
        pl.col("benchmark").fill_null("items"),
        pl.coalesce("task", task).alias("task"),
        pl.coalesce("dimension", dimension, pl.lit(UNTOLD)).alias("dimension"),
    )


def is_mean(benchmark: object) -> bool:
    """Whether a value of the column `benchmark` stands for a mean over benchmarks."""
    return str(benchmark).startswith(MACRO.partition("{")[0])


def in_order(names: list[str]) -> list[str]:
    """Dimensions in the order of DIMENSIONS, then others by their names."""
    return sorted(names, key=lambda name: (DIMENSIONS.index(name) if name in DIMENSIONS else len(DIMENSIONS), name))
