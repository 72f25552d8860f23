"""Says in sentences how many questions of a report have no answer.

A failure is a question to which no answer came, or none that could be read.
"""

from __future__ import annotations

import polars as pl

from tomserve.status import UNANSWERED
from tomserve.studies.answer_rows import is_answered


def sentences(scores: pl.DataFrame) -> list[str]:
    """Sentences on how many questions have no answer, by model and strategy, and on strategies that fail unequally
    often, which can look like an effect. What people left open is no failure."""
    left_open = pl.col("status").cast(pl.String).fill_null("") == UNANSWERED
    opened = scores.filter(left_open).group_by("model", "strategy", maintain_order=True).len()
    free = [
        f"{model}, {strategy}: {count:,} left open by everybody who was asked, which is no failure and counts nowhere."
        for model, strategy, count in opened.sort("model", "strategy").iter_rows()
    ]
    return [*_failed(scores.filter(~left_open)), *free]


def _failed(scores: pl.DataFrame) -> list[str]:
    """The same on questions to which an answer was due."""
    counted = (
        scores.with_columns(failed=~is_answered())
        .group_by("model", "strategy", maintain_order=True)
        .agg(pl.len().alias("asked"), pl.col("failed").sum())
        .sort("model", "strategy")
    )
    if not counted["failed"].sum():
        return [f"None: all {scores.height:,} answers could be read."]
    lines = [
        f"{row['model']}, {row['strategy']}: {row['failed']:,} of {row['asked']:,} without an answer "
        f"({100 * row['failed'] / row['asked']:.1f}%)."
        for row in counted.iter_rows(named=True)
        if row["failed"]
    ]
    shares = counted.with_columns(share=pl.col("failed") / pl.col("asked")).group_by("model", maintain_order=True)
    for row in shares.agg((pl.col("share").max() - pl.col("share").min()).alias("gap")).iter_rows(named=True):
        if row["gap"] >= 0.02:
            lines.append(
                f"{row['model']}: strategies differ by {100 * row['gap']:.0f} points in how often they fail, which can "
                "look like an effect of the prompt; read the bounds in the table of failures."
            )
    return lines
