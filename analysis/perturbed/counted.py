"""The tables of the perturbation study that need no statistics, the same for both ways to count.

They are `subtasks`, `tasks`, `chains` and `failures`. All functions take rows as rows.prepared makes them.
"""

from __future__ import annotations

import polars as pl

from .rows import MORE_METRICS, in_order, with_chains, with_overall

SUBTASKS = 16
"""How many questions a whole task of the first edition has: four scenarios, two kinds of question, two versions. Items
of the second edition say how many theirs has (the factor `task_questions`)."""


def subtasks(rows: pl.DataFrame) -> pl.DataFrame:
    """The table `subtasks`: accuracy by class, scenario and kind of question, without intervals."""
    keys = ["model", "strategy", "perturbation", "scenario", "question_kind"]
    counted = rows.group_by(keys, maintain_order=True)
    counts = counted.agg(pl.col("correct").sum().cast(pl.Int64), pl.len().cast(pl.Int64).alias("total"))
    return in_order(counts.sort("question_kind").with_columns((pl.col("correct") / pl.col("total")).alias("accuracy")))


def tasks(rows: pl.DataFrame) -> pl.DataFrame:
    """The table `tasks`: how many of a task's questions are right, and whether it is solved.

    It is solved if all its questions were asked and all are right, and null if all asked ones are right but some were
    not asked.
    """
    right, asked = pl.col("subtasks_right"), pl.col("subtasks")
    counted = rows.group_by("model", "strategy", "stage", "perturbation", maintain_order=True).agg(
        pl.col("correct").sum().cast(pl.Int64).alias("subtasks_right"),
        pl.len().cast(pl.Int64).alias("subtasks"),
        whole=pl.col("task_questions").max().fill_null(SUBTASKS),
    )
    # The questions that were not asked might have been answered wrongly.
    solved = pl.when(right < asked).then(False).when(asked == pl.col("whole")).then(True).otherwise(None)
    return in_order(counted.with_columns(solved.alias("solved"))).select(pl.exclude("subtasks", "whole"), "subtasks")


def chains(rows: pl.DataFrame) -> pl.DataFrame:
    """The table `chains`: means of the chain metrics by class, and where improper chains most often leave the gold
    path.

    Of several sentences at which equally many chains leave it, the first is given. A missing chain scores 0.
    """
    keys = ["model", "strategy", "perturbation"]
    every = with_overall(with_chains(rows))
    means = [pl.col(f"chain_{name}").mean().alias(name) for name in ("lcs", "lcps", "transitions")]
    more = [pl.col(f"chain_{name}").mean().alias(name) for name in MORE_METRICS]
    floors = [pl.col(name).mean() for name in rows.columns if name.startswith("floor_")]
    proper = pl.col("chain_proper")
    summed = every.group_by(keys, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("total"),
        proper.sum().cast(pl.Int64).alias("proper"),
        proper.mean().alias("proper_share"),
        *means,
        *more,
        pl.col("answer_matches_last").mean(),
        *floors,
    )
    places = every.filter(pl.col("chain_break_kind").is_not_null())
    breaks = (
        places.group_by(
            *keys, pl.col("chain_break").alias("break_sentence"), pl.col("chain_break_kind").alias("break_kind")
        )
        .agg(pl.len().cast(pl.Int64).alias("breaks"))
        .sort("breaks", "break_sentence", "break_kind", descending=[True, False, False])
        .unique(keys, keep="first", maintain_order=True)
    )
    joined = summed.join(breaks, on=keys, how="left").with_columns(pl.col("breaks").fill_null(0))
    first = [*keys, "total", "proper", "proper_share", "lcs", "lcps", "transitions"]
    return in_order(joined).select(
        *first, "break_sentence", "break_kind", "breaks", pl.exclude(*first, *breaks.columns)
    )


def failures(rows: pl.DataFrame) -> pl.DataFrame:
    """The table `failures`: rows without an answer by class and status.

    accuracy_low and accuracy_high are the accuracy of the class if all its failures were wrong, or all were right.
    """
    keys = ["model", "strategy", "perturbation"]
    every = with_overall(rows)
    cells = every.group_by(keys, maintain_order=True).agg(
        pl.len().alias("asked"), pl.col("correct").sum().alias("right"), pl.col("faulty").sum().alias("failed")
    )
    counted = (
        every.filter("faulty")
        .group_by(*keys, "status", maintain_order=True)
        .agg(pl.len().cast(pl.Int64).alias("count"))
    )
    joined = counted.join(cells, on=keys).with_columns(
        (pl.col("count") / pl.col("asked")).alias("share"),
        (pl.col("right") / pl.col("asked")).alias("accuracy_low"),
        ((pl.col("right") + pl.col("failed")) / pl.col("asked")).alias("accuracy_high"),
    )
    return in_order(joined.select(*keys, "status", "count", "share", "accuracy_low", "accuracy_high"))
