"""The ToMi study: accuracy on ToMi or the fixed ToMi by type of question, and what explains it.

    tomserve analyze tomi-mymodel --study tomi
    tomserve analyze tomi-mymodel --study tomi --intervals published

Intervals are over stories.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import polars as pl

from tomserve.studies import Study, baselines
from tomserve.studies.answer_rows import split_by
from tomserve.studies.contrasts import Record, prompting_effects, share
from tomserve.studies.study import frames_of
from tomserve.studies.texts import Texts

TEXTS = Texts(__file__)

# The factors of the design and the metrics that the tables need, with their types
FACTORS: Mapping[str, Any] = {
    **dict.fromkeys(("version", "task", "condition", "question_type", "story_type"), pl.String),
    **dict.fromkeys(("tracked", "released"), pl.String),
    **dict.fromkeys(("label_agrees", "metric_official", "metric_both_places"), pl.Boolean),
}

SIX = 6  # how many questions a story has; joint figures count stories that were asked all of them


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study that has rows, by name. Raises ConfigError for a table that lacks a column."""
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


STUDY = Study(
    name="tomi",
    tables=tables,
    notes=TEXTS.notes,
    warnings=baselines.missing_warnings,
    summary=TEXTS.excerpts,
    labels={"task": "task", "condition": "condition", "story_type": "type of story", "label_agrees": "label follows"},
)
