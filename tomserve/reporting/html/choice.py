"""Chooses the answers that a page holds: all of them, or, of a run too large for a page, those to some of the
questions.

The questions are drawn at random by a fixed seed, so that the same run gives the same page.

Half of the room is for questions of which an answer failed. A question is drawn with all its answers and, where the
design has versions of questions, with all its versions, so that the page can still compare them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from tomserve.items.draw import draw_from_strata
from tomserve.studies import Versions
from tomserve.studies.answer_rows import ORIGINAL, has_variants, is_answered

ANSWERS = 20_000
"""How many answers a page may hold; it holds a few more where the last question drawn has more."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The ids of the items that a page holds, None for all; and what the page says of the choice, None where there is
    none."""

    items: frozenset[str] | None = None
    said: str | None = None


def choose(
    scores: pl.DataFrame, most: int = ANSWERS, *, versions: Versions | None = None, strata: Sequence[str] = ()
) -> Choice:
    """What a page of these scores holds; it is the same for the same scores, whatever the order of their rows.

    most: how many answers it may hold. versions: how versions of a question are found. strata: factors over which the
    questions are spread, where their versions share them.
    """
    if scores.height <= most:
        return Choice()
    if versions is not None and not {versions.factor, *versions.matched} <= set(scores.columns):
        versions = None
    told = has_variants(scores)
    names = [n for n in strata if n in scores.columns and (versions is None or n in versions.matched)]
    asked = (
        scores.lazy()
        .with_columns(failed=~is_answered())
        .select(
            "item",
            "failed",
            pl.concat_str(pl.col(versions.matched).cast(pl.String).fill_null(""), separator="/").alias("question")
            if versions is not None
            else (pl.coalesce(ORIGINAL, "item") if told else pl.col("item")).alias("question"),
            pl.concat_str(pl.lit(""), *(pl.col(name).cast(pl.String).fill_null("") for name in names)).alias("stratum"),
        )
        .collect()
    )
    questions = asked.group_by("question").agg(pl.col("stratum").min(), pl.col("failed").any(), pl.len())
    room = max(2, int(most / (scores.height / questions.height)))
    failed, others = (_members(questions.filter(pl.col("failed") == flag)) for flag in (True, False))
    drawn = draw_from_strata(failed.items(), max(room // 2, room - len(others)))
    drawn |= draw_from_strata(others.items(), room - len(drawn))
    kept = asked.filter(pl.col("question").is_in(list(drawn)))
    what = (
        "questions, each with all its versions and answers"
        if versions is not None or told
        else "questions, each with all its answers"
    )
    among = f"{len(drawn & failed.keys()):,} of the {len(failed):,} of which an answer failed"
    said = (
        f"This page holds {kept.height:,} of {scores.height:,} answers: {len(drawn):,} of {questions.height:,} {what}, "
        f"drawn by a fixed seed, among them {among}. All answers are in each run's responses.jsonl; figures and tables "
        "count all of them."
    )
    return Choice(frozenset(kept["item"]), said)


def _members(questions: pl.DataFrame) -> Mapping[str, str]:
    return dict(questions.select("question", "stratum").iter_rows())
