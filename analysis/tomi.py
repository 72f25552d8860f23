"""The ToMi study: accuracy on ToMi or the fixed ToMi by type of question, and what explains it.

    tomserve analyze tomi-mymodel --study tomi
    tomserve analyze tomi-mymodel --study tomi --intervals published

Intervals are over stories. NOTES says what each table means.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import polars as pl

from tomserve.studies import Excerpt, Study, baselines
from tomserve.studies.answer_rows import split_by
from tomserve.studies.contrasts import Record, prompting_effects, share
from tomserve.studies.presentation import ABOUT_PROMPTING, SHARE_INDEPENDENT, Tables, excerpts_of
from tomserve.studies.study import frames_of

FACTORS: Mapping[str, Any] = {
    **dict.fromkeys(("version", "task", "condition", "question_type", "story_type"), pl.String),
    **dict.fromkeys(("tracked", "released"), pl.String),
    **dict.fromkeys(("label_agrees", "metric_official", "metric_both_places"), pl.Boolean),
}
"""The factors of the design and the metrics that the tables need, with their types."""

SIX = 6
"""How many questions a story has; joint figures count stories that were asked all of them."""

_SHARE = (
    "accuracy is the share of right answers, ci_low and ci_high the ends of its 95% interval over stories; a failure "
    "(no answer, or none that can be read) counts as wrong"
)
NOTES = {
    "accuracy": f"All questions: {_SHARE}. {baselines.ABOUT}",
    "versions": f"By version of the file: {_SHARE}.",
    "question_types": f"By the types of questions that the file names: {_SHARE}. In the original file some questions "
    "of a type second_order_..._no_tom are about false beliefs (see labels). A blind guess has half of them right.",
    "conditions": f"By task, and by whether what the person believes is really so (true_belief) or not (false_belief), "
    f"as it follows from the story, whatever the file says: {_SHARE}.",
    "joint": "The share of stories of which all six questions are right, with its 95% interval; product is what that "
    "share would be if the six were independent of each other; chance is that of six blind guesses.",
    "labels": "Questions whose label in the file follows from the events of the story (agrees: true), and those whose "
    "label does not (false). follows: the share of answers that are what follows from the story; label: the share that "
    "are the file's label. Whoever has the second high and the first low where the two differ answers as the file was "
    "written, not as people in the story would.",
    "official": "SimToM's grade beside tomserve's, on the same replies: official_accuracy is the share in which the "
    "file's label stands anywhere, accuracy the share that tomserve takes for right (where `--gold released` was asked "
    "for, by the same labels). both_places is the share of replies that name both places, of which that grade says "
    "nothing.",
    "prompting_effects": ABOUT_PROMPTING.format("vanilla"),
    baselines.TABLE: baselines.NOTE,
}
PUBLISHED = dict.fromkeys(("accuracy", "versions", "question_types", "conditions"), SHARE_INDEPENDENT) | {
    name: NOTES[name] for name in ("labels", "official", baselines.TABLE)
}


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study, by name; those without rows are left out.

    scores: a score table. intervals: the way to count, recommended or published. Raises ConfigError for a table that
    lacks a column.
    """
    rows, kinds = baselines.rows_with_rules(scores, FACTORS)
    rows = rows.with_columns(pl.col("version").fill_null("unknown"))
    shares = partial(baselines.shares_by, rows, kinds=kinds, intervals=intervals)
    made: dict[str, Iterable[Record]] = {
        "accuracy": shares((), brief=False),
        "versions": shares(("version",)),
        "question_types": shares(("version", "question_type")),
        "conditions": shares(("version", "task", "condition")),
        "labels": _labels(rows),
        "official": _official(rows),
        baselines.TABLE: baselines.rule_records(rows, kinds, ("model",)),
    }
    if intervals == "recommended":
        made |= {"joint": _joint(rows), "prompting_effects": prompting_effects(rows)}
    return frames_of(made)


def _joint(rows: pl.DataFrame) -> Iterator[Record]:
    """By model, strategy, version and type of story, how often all six questions of a story are right."""
    keys = ["model", "strategy", "version"]
    order = pl.col("question_type").str.replace("_(no_)?tom$", "")
    whole = rows.with_columns(number=order).filter(pl.col("number").n_unique().over([*keys, "cluster"]) == SIX)
    for key, part in split_by(whole, keys):
        types = [("all", part), *((str(name), some) for (name,), some in part.group_by("story_type"))]
        for name, some in sorted(types, key=lambda one: one[0]):
            stories = some.group_by("cluster", maintain_order=True).agg(
                pl.col("correct").all(), pl.col("faulty").any(), pl.col("unread").any()
            )
            found = share(stories)
            single = some.group_by("number", maintain_order=True).agg(pl.col("correct").mean())["correct"].to_list()
            yield {
                **{**key, "story_type": name, "stories": stories.height, "joint": found["accuracy"]},
                **{"joint_low": found["ci_low"], "joint_high": found["ci_high"]},
                **{"product": math.prod(single), "chance": 0.5**SIX},
            }


def _labels(rows: pl.DataFrame) -> Iterator[Record]:
    """By model, strategy, version and whether the file's label follows from the story: what the answers are."""
    known = rows.drop_nulls("label_agrees").rename({"label_agrees": "agrees"})
    for key, part in split_by(known, ("model", "strategy", "version", "agrees")):
        record: Record = {**key, "questions": part.height}
        for name, column in (("follows", "tracked"), ("label", "released")):
            right = pl.col("answer").eq(pl.col(column)).fill_null(False) & ~pl.col("faulty")
            found = share(part.with_columns(correct=right))
            record |= {name: found["accuracy"], f"{name}_low": found["ci_low"], f"{name}_high": found["ci_high"]}
        yield record


def _official(rows: pl.DataFrame) -> Iterator[Record]:
    """By model, strategy, version and type of question, how often the grade of SimToM's program counts a reply."""
    for key, part in split_by(rows.drop_nulls("metric_official"), ("model", "strategy", "version", "question_type")):
        yield {
            **{**key, "replies": part.height, "accuracy": part["correct"].mean()},
            **{"official_accuracy": part["metric_official"].mean(), "both_places": part["metric_both_places"].mean()},
        }


SHOWN = {
    "accuracy": "model strategy total accuracy ci_low ci_high unread best_rule best_rule_accuracy",
    "question_types": "model strategy version question_type total accuracy ci_low ci_high",
    "conditions": "model strategy version task condition total accuracy ci_low ci_high",
    "joint": "model strategy version story_type stories joint joint_low joint_high product",
    "labels": "model strategy version agrees questions follows follows_low follows_high label",
    "official": "model strategy version question_type replies accuracy official_accuracy both_places",
    "prompting_effects": "model treatment share_treated share_control risk_difference rd_low rd_high p",
}
"""The columns of each table that the terminal prints."""


def summary(tables: Tables) -> list[Excerpt]:
    """What the terminal prints: of each table the columns that a reader needs first."""
    return excerpts_of(tables, SHOWN, {name: NOTES[name] for name in ("conditions", "joint", "labels")})


STUDY = Study(
    name="tomi",
    tables=tables,
    notes=lambda intervals: PUBLISHED if intervals == "published" else NOTES,
    warnings=baselines.missing_warnings,
    summary=summary,
    labels={"task": "task", "condition": "condition", "story_type": "type of story", "label_agrees": "label follows"},
)
"""The value by which tomserve knows the study."""
