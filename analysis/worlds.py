"""The study of generated worlds: who has a mind to follow, by family, dimension, condition and order.

    tomserve analyze worlds-mymodel --study worlds

Two ways to count, by `--intervals`: *recommended* (the default) has intervals over worlds, and a failure counts as
wrong; *published* takes every question as independent of the others.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl

from tomserve.studies import Study, baselines
from tomserve.studies.answer_rows import split_by
from tomserve.studies.contrasts import Record, matched_contrast, pair_rows, prompting_effects, share
from tomserve.studies.presentation import (
    BAD,
    GOOD,
    OPEN,
    Card,
    Context,
    Tables,
    Verdict,
    percent,
    points,
    readable_name,
    sign,
)
from tomserve.studies.study import frames_of, model_verdicts
from tomserve.studies.texts import Texts

TEXTS = Texts(__file__)


def verdicts(tables: Tables, context: Context) -> Sequence[Verdict]:
    """For each model: its shares beside chance and the best rule, whether a belief is followed where it is false, and
    whether step-by-step reasoning helps."""
    return model_verdicts(tables, context, _follows, "family")


def _follows(own: dict[str, pl.DataFrame]) -> Iterator[Card]:
    """Whether what is right with true beliefs is right with false ones, too."""
    frame = own.get("false_minus_true")
    if frame is None or frame.is_empty():
        return
    signs, grounds = [], []
    joint = own.get("joint", pl.DataFrame())
    for row in frame.iter_rows(named=True):
        signs.append(sign(row))
        text = (
            f"{percent(row['share_treated'])} right where the belief is false, {percent(row['share_control'])} where "
            f"it is true; {points(row)}"
        )
        both = joint.filter(strategy=row["strategy"], family="all") if joint.height else joint
        if both.height:
            text += (
                f"; both tellings right: {percent(both['joint'][0])}, by two blind guesses {percent(both['chance'][0])}"
            )
        grounds.append((readable_name(row["strategy"]), f"{text}."))
    verdict, tone = "No significant difference", OPEN
    if all(one < 0 for one in signs):
        verdict, tone = "No, less often", BAD
    elif all(one > 0 for one in signs):
        verdict, tone = "Yes, even more often", GOOD
    elif any(signs):
        verdict = "Depends on the strategy"
    yield Card("Are false beliefs tracked as well as true ones?", verdict, tone, tuple(grounds), TEXTS["follows"])


# The factors of the design that the tables need, with their types
FACTORS: Mapping[str, Any] = {
    **dict.fromkeys(("family", "scenario", "task", "dimension", "condition", "kind", "asked", "answer_key"), pl.String),
    **{"order": pl.Int64, "options": pl.Int64},
}

TWO = ("false_belief", "true_belief")  # the conditions that are compared with each other

# The dimensions in which false-belief and true-belief questions are compared: others are asked in other numbers
MIND = ("belief", "action", "intention")


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study that has rows, by name. Raises ConfigError for a table that lacks a column."""
    rows, kinds = baselines.rows_with_rules(scores, FACTORS)
    shares = partial(baselines.shares_by, kinds=kinds, intervals=intervals, chance=True)
    made: dict[str, Iterable[Record]] = {
        "accuracy": baselines.shares_by(rows, (), kinds, intervals, brief=False),
        baselines.TABLE: baselines.records_by(rows, kinds, "family"),
        "families": shares(rows, ("family", "dimension")),
        "tasks": shares(rows, ("family", "task")),
        "conditions": shares(rows.drop_nulls("condition"), ("condition",)),
        "orders": shares(rows.filter(pl.col("dimension").is_in(["belief", "reality"])), ("order",)),
    }
    if intervals == "recommended":
        made |= {
            "false_minus_true": _false_minus_true(rows),
            "joint": _joint(rows),
            "prompting_effects": prompting_effects(rows),
        }
    return frames_of(made)


def _false_minus_true(rows: pl.DataFrame) -> Iterator[Record]:
    """By model and strategy, the difference between false-belief and true-belief questions of the same worlds."""
    asked = rows.filter(pl.col("condition").is_in(TWO), pl.col("dimension").is_in(MIND), pl.col("order") == 1)
    told = asked.with_columns(world=pl.col("cluster"), cluster=pl.format("{}/{}", "cluster", "condition"))
    shown = ("risk_difference", "rd_low", "rd_high", "share_treated", "share_control", "p", "units", "method")
    for key, part in split_by(told, ("model", "strategy")):
        found = matched_contrast(part, part["condition"] == TWO[0], stratum="world")
        yield {**key, **{name: found[name] for name in shown}}


def pair_tellings(rows: pl.DataFrame) -> pl.DataFrame:
    """Questions in two tellings of a world, in one of which the person believes falsely and in the other truly. rows:
    prepared rows. The two have the same number in the world and ask the same of the same person, and their right
    answers differ; each question is in one pair at most. `correct` is that of the false belief, `control` that of the
    true one."""
    keys = ["model", "strategy", "cluster", "number", "kind", "asked", "task"]
    numbered = rows.with_columns(number=pl.col("item").str.split("/").list.last())
    false, true = (numbered.filter(condition=name).unique(keys, keep="first", maintain_order=True) for name in TWO)
    other = true.select(*keys, pl.col("answer_key").alias("control_key"))
    pairs = pair_rows(false, true, on=keys).join(other, on=keys, maintain_order="left")
    return pairs.filter(pl.col("answer_key").ne_missing(pl.col("control_key")))


def _joint(rows: pl.DataFrame) -> Iterator[Record]:
    """By model, strategy and family (and over all of them), how often both tellings of a question are right."""
    pairs = pair_tellings(rows).with_columns(both=pl.col("correct") & pl.col("control"))
    for key, part in split_by(pairs, ("model", "strategy")):
        families = ((str(name), some) for (name,), some in part.group_by(["family"], maintain_order=True))
        for family, some in (("all", part), *families):
            found = share(some.with_columns(correct=pl.col("both"), faulty=pl.col("faulty") | pl.col("control_faulty")))
            false, true = (some.select(pl.col(name).mean()).item() for name in ("correct", "control"))
            yield {
                **{**key, "family": family, "pairs": some.height},
                **{"joint": found["accuracy"], "joint_low": found["ci_low"], "joint_high": found["ci_high"]},
                **{"false_belief": false, "true_belief": true, "product": false * true, "worlds": found["tasks"]},
                "chance": some.select((1 / pl.col("options") ** 2).mean()).item(),
            }


STUDY = Study(
    name="worlds",
    tables=tables,
    notes=TEXTS.notes,
    warnings=baselines.missing_warnings,
    summary=TEXTS.excerpts,
    verdicts=verdicts,
    labels={"family": "family", "dimension": "dimension", "condition": "condition", "task": "task"},
)
