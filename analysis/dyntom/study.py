"""The study of DynToM: which states are understood, and whether their changes are followed from scene to scene.

    tomserve analyze dyntom-mymodel --study dyntom

Two ways to count, by `--intervals`: *recommended* (the default) has intervals over stories, and a failure counts as
wrong; *published* takes every question as independent of the others. `notes` says what each table means.

accuracy            all questions, by model and strategy, beside the best rule that follows nobody's mind
states              belief, emotion, intention and action by understanding, influence and transformation
forms               what, how, whether, how a course goes, why
scenes              by the scene asked about
options             by the number of different options
consistency         states whose questions are right in all scenes
changes             whether a change is told by who knows both its ends
understanding_minus_transformation      within the same stories
prompting_effects   each strategy against vanilla, on the same questions
baselines           every rule that follows nobody's mind
published_states    what the authors printed for people and GPT-4o, quoted
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from tomserve.studies import Context, Excerpt, Figure, Study, baselines
from tomserve.studies.contrasts import Record, matched, prompting_effects, share
from tomserve.studies.rows import REQUIRED, prepared, with_columns
from tomserve.studies.showing import Tables, in_brief

from . import published
from .notes import NOTES, PUBLISHED
from .verdicts import verdicts

FACTORS: Mapping[str, Any] = {
    **dict.fromkeys(("task", "form", "state", "cause"), pl.String),
    **dict.fromkeys(("scene", "until_scene", "scenes", "options"), pl.Int64),
}
"""The factors of the design that the tables need, with their types."""

ALL = "all"
CONTROLS = ("dyntom_vanilla", "vanilla")
"""What other strategies are compared with: the first of these that was asked."""


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study, by name; those without rows are left out.

    scores: a score table. intervals: the way to count, recommended or published. Raises ConfigError for a table that
    lacks a column.
    """
    kinds = baselines.Kinds.of(scores)
    rows = prepared(with_columns(scores, FACTORS), (*REQUIRED, *FACTORS, *kinds.columns)).collect()
    every = rows.with_columns(state=pl.lit(ALL))
    made: dict[str, list[Record]] = {
        "accuracy": [*_by(rows, (), kinds, intervals, brief=False)],
        baselines.TABLE: [
            *baselines.table(rows.with_columns(form=pl.lit(ALL)), kinds, ("model", "form")),
            *baselines.table(rows, kinds, ("model", "form")),
        ],
        "states": [
            *_by(every, ("state", "task"), kinds, intervals),
            *_by(rows, ("state", "task"), kinds, intervals),
        ],
        "forms": list(_by(rows, ("task", "form"), kinds, intervals, brief=False)),
        "scenes": list(_by(rows.drop_nulls("scene"), ("form", "scene"), kinds, intervals)),
        "options": [
            {**row, "corrected": corrected(row["accuracy"], row["chance"])}
            for row in _by(rows, ("options",), kinds, intervals)
        ],
    }
    if intervals == "recommended":
        made |= {
            "consistency": list(_consistency(rows)),
            "changes": list(_by(_with_ends(rows), ("ends_right",), kinds, intervals)),
            "understanding_minus_transformation": list(_understanding_minus_transformation(rows)),
            "prompting_effects": list(_prompting_effects(rows)),
        }
    found = {name: pl.DataFrame(records, infer_schema_length=None) for name, records in made.items() if records}
    return {**found, "published_states": published.table()}


def corrected(accuracy: float, chance: float) -> float:
    """What is above chance, as a share of what could be: from 0 to 1."""
    return min(1.0, max(0.0, (accuracy - chance) / (1 - chance)))


def _by(
    rows: pl.DataFrame, keys: Sequence[str], kinds: baselines.Kinds, intervals: str, *, brief: bool = True
) -> Iterator[Record]:
    """A share for each model, strategy and value of the keys, with the chance of a blind guess among the options.

    brief: whether the interval of the difference to the best rule is left out.
    """
    named = ["model", "strategy", *keys]
    for key, part in rows.sort(named, maintain_order=True).group_by(named, maintain_order=True):
        chance = part.select((1 / pl.col("options")).mean()).item()
        found = baselines.accuracy(part, kinds, intervals, brief=brief)
        yield {**dict(zip(named, key, strict=True)), "chance": chance, **found}


def _consistency(rows: pl.DataFrame) -> Iterator[Record]:
    """By model, strategy and form, how many states of a story are right in all scenes, or at all changes."""
    units = (
        rows.drop_nulls("scene")
        .with_columns(due=pl.col("scenes") - pl.col("until_scene").is_not_null().cast(pl.Int64))
        .group_by("model", "strategy", "form", "cluster", "state", maintain_order=True)
        .agg(
            correct=pl.col("correct").all(),
            faulty=(pl.col("faulty") & ~pl.col("correct")).any(),
            mean=pl.col("correct").mean(),
            chance=(1 / pl.col("options")).product(),
            whole=pl.len() == pl.col("due").first(),
        )
        .filter("whole")
    )
    keys = ("model", "strategy", "form")
    scenes = rows.drop_nulls("scene").group_by(*keys, "scene").agg(pl.col("correct").mean()).sort(*keys, "scene")
    product = scenes.group_by(*keys, maintain_order=True).agg(pl.col("correct").product().alias("product"))
    products = {(m, s, f): value for m, s, f, value in product.iter_rows()}
    for key, part in units.group_by(["model", "strategy", "form"], maintain_order=True):
        found = share(part)
        yield {
            **dict(zip(("model", "strategy", "form"), key, strict=True)),
            **{"states": part.height, "all_right": found["accuracy"]},
            **{"all_low": found["ci_low"], "all_high": found["ci_high"], "mean": part["mean"].mean()},
            **{"product": products[key], "chance": part["chance"].mean(), "stories": found["tasks"]},
        }


def _with_ends(rows: pl.DataFrame) -> pl.DataFrame:
    """Questions whether a state changes, with the number of its two ends that are right as questions of their own."""
    keys = ["model", "strategy", "cluster", "state"]
    known = rows.filter(form="what").select(*keys, "scene", pl.col("correct").cast(pl.Int64).alias("end"))
    asked = rows.filter(form="whether").join(known, on=[*keys, "scene"], how="inner", maintain_order="left")
    until = known.rename({"scene": "until_scene", "end": "other"})
    both = asked.join(until, on=[*keys, "until_scene"], how="inner", maintain_order="left")
    return both.with_columns(ends_right=pl.col("end") + pl.col("other"))


def _understanding_minus_transformation(rows: pl.DataFrame) -> Iterator[Record]:
    """By model, strategy and state, the difference between the two tasks within the same stories."""
    two = rows.filter(pl.col("task").is_in(["understanding", "transformation"]))
    told = two.with_columns(story=pl.col("cluster"), cluster=pl.format("{}/{}", "cluster", "task"))
    for frame in (told.with_columns(state=pl.lit(ALL)), told):
        for key, part in frame.group_by(["model", "strategy", "state"], maintain_order=True):
            if part["task"].n_unique() == 2:
                found = matched(part, part["task"] == "understanding", stratum="story")
                shown = ("share_treated", "share_control", "risk_difference", "rd_low", "rd_high", "p", "units")
                named = dict(zip(("model", "strategy", "state"), key, strict=True))
                yield {**named, **{name: found[name] for name in shown}}


def _prompting_effects(rows: pl.DataFrame) -> Iterator[Record]:
    """Each strategy against the one that asks for the answer alone, on the same questions."""
    for _, part in rows.group_by(["model"], maintain_order=True):
        if (control := next((name for name in CONTROLS if name in part["strategy"]), None)) is not None:
            yield from prompting_effects(part, control)


def notes(intervals: str) -> Mapping[str, str]:
    """What each table means, by its name. intervals: the way to count, recommended or published."""
    return PUBLISHED if intervals == "published" else NOTES


SHOWN = {
    "accuracy": "model strategy correct total accuracy ci_low ci_high chance unread",
    "states": "model strategy state task total accuracy ci_low ci_high chance best_rule best_rule_accuracy",
    "forms": "model strategy form total accuracy ci_low ci_high chance best_rule best_rule_accuracy",
    "options": "model strategy options total accuracy chance corrected",
    "consistency": "model strategy form states all_right all_low all_high mean product chance",
    "changes": "model strategy ends_right total accuracy ci_low ci_high chance best_rule_accuracy",
    "understanding_minus_transformation": "model strategy state share_treated share_control risk_difference rd_low "
    "rd_high",
    "prompting_effects": "model treatment share_treated share_control risk_difference rd_low rd_high p",
    "published_states": "who quoted understanding transformation average",
}
"""The columns of each table that the terminal prints."""


def summary(tables: Tables) -> list[Excerpt]:
    """What the terminal prints: of each table the columns that a reader needs first."""
    said = {name: NOTES[name] for name in ("states", "consistency", "changes", "published_states")}
    first, *others = in_brief(tables, SHOWN, said)
    return [first, *baselines.excerpts(tables["accuracy"], ("strategy",)), *others]


def figures(tables: Tables, context: Context) -> Sequence[Figure]:
    """The figures of the report; drawing takes long to import, and only a report draws."""
    from .figures import figures as draw

    return draw(tables, context)


STUDY = Study(
    name="dyntom",
    tables=tables,
    notes=notes,
    warnings=baselines.missing,
    summary=summary,
    figures=figures,
    verdicts=verdicts,
    strata=("form", "state"),
    labels={"task": "task", "form": "form of the question", "state": "state", "scene": "scene"},
)
"""The value by which tomserve knows the study."""
