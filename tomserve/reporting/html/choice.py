"""Which answers a page holds: all of them, or of a run too large for a page whole questions, drawn by a fixed seed.

Half of the room is for questions of which an answer failed. A question is drawn with all its answers and, where the
design has unperturbed versions, with all its versions, so that the page can still compare them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from tomserve.items.draw import spread
from tomserve.studies import study as studies

ANSWERS = 20_000
"""Answers that a page holds at most, but for what the last question has more."""

MATCHED = ("stage", "scenario", "question_kind", "swapped")
"""Factors that an item and its unperturbed version share."""

STRATA = ("scenario", "question_kind", "perturbation", "order")
"""Factors over which questions are spread, where their versions share them."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The items of a page, and what is to be said of it; `items` is None where it holds all."""

    items: frozenset[str] | None = None
    said: str | None = None


def choose(scores: pl.DataFrame, most: int = ANSWERS) -> Choice:
    """What a page of these scores holds. The same for the same scores, whatever the order of their rows."""
    if scores.height <= most:
        return Choice()
    versions = "perturbation" in scores.columns and set(MATCHED) <= set(scores.columns)
    names = [name for name in STRATA if name in scores.columns and (not versions or name in MATCHED)]
    asked = (
        scores.lazy()
        .with_columns(failed=~studies.answered())
        .select(
            "item",
            "failed",
            pl.concat_str(pl.col(MATCHED).cast(pl.String).fill_null(""), separator="/").alias("question")
            if versions
            else pl.col("item").alias("question"),
            pl.concat_str(pl.lit(""), *(pl.col(name).cast(pl.String).fill_null("") for name in names)).alias("stratum"),
        )
        .collect()
    )
    questions = asked.group_by("question").agg(pl.col("stratum").min(), pl.col("failed").any(), pl.len())
    room = max(2, int(most / (scores.height / questions.height)))
    failed, others = (_members(questions.filter(pl.col("failed") == flag)) for flag in (True, False))
    drawn = spread(failed.items(), max(room // 2, room - len(others)))
    drawn |= spread(others.items(), room - len(drawn))
    kept = asked.filter(pl.col("question").is_in(list(drawn)))
    what = "questions, each with all its versions and answers" if versions else "questions, each with all its answers"
    among = f"{len(drawn & failed.keys()):,} of the {len(failed):,} of which an answer failed"
    said = (
        f"This page holds {kept.height:,} of {scores.height:,} answers: {len(drawn):,} of {questions.height:,} {what}, "
        f"drawn by a fixed seed, among them {among}. All answers are in each run's responses.jsonl; figures and tables "
        "count all of them."
    )
    return Choice(frozenset(kept["item"]), said)


def _members(questions: pl.DataFrame) -> Mapping[str, str]:
    return dict(questions.select("question", "stratum").iter_rows())
