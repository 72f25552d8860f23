"""The study of bundles (after Kosinski 2024): tasks of which all sixteen questions are right.

    tomserve analyze bundles-mymodel --study bundles
    tomserve analyze perturbed-mymodel --study bundles

A bundle is a false belief and its three true-belief controls, each as written and with the labels exchanged, each with
a question about reality and one about a belief. It counts only if all sixteen answers are right, so that no preference
for a word, an order or the truth can solve it.

bundles       by class: how many bundles are solved, beside chance and the rule that solves most
all           the same over all classes
right         how many bundles have 0, 1, ... 16 questions right
false_belief  in how many bundles only the false beliefs are missed, only controls, or both
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from tomserve.errors import ConfigError
from tomserve.scoring.rules import name_of
from tomserve.stats.published import accuracy_interval
from tomserve.studies import Excerpt, Study, baselines
from tomserve.studies.contrasts import Record, share
from tomserve.studies.rows import REQUIRED, prepared
from tomserve.studies.showing import Tables

SIZE = 16
"""How many questions a bundle has."""

DESIGN = ("stage", "perturbation", "scenario", "question_kind")
_ARM = ["model", "strategy"]


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study, by name; those without rows are left out.

    scores: a score table. intervals: the way to count, recommended (Wilson's interval over bundles) or published (the
    interval of normal theory). Bundles of which a question was not asked are left out, as they cannot be judged. Raises
    ConfigError for a table that lacks a column, and where no bundle was asked whole.
    """
    kinds = baselines.Kinds.of(scores)
    rows = prepared(scores, (*REQUIRED, *DESIGN, *kinds.columns), {"options": pl.Int64}).collect()
    bundles = _bundles(rows, kinds)
    if not bundles.height:
        raise ConfigError(
            f"no bundle of {SIZE} questions was asked whole; ask the benchmark 'bundles', whose --limit draws whole "
            "bundles, or all items of 'perturbed'"
        )
    classes = bundles.group_by([*_ARM, "perturbation"], maintain_order=True)
    every = bundles.group_by(_ARM, maintain_order=True)
    made: dict[str, list[Record]] = {
        "all": [dict(zip(_ARM, key, strict=True)) | _solved(part, kinds, intervals) for key, part in every],
        "bundles": [
            dict(zip((*_ARM, "perturbation"), key, strict=True)) | _solved(part, kinds, intervals)
            for key, part in classes
        ],
        "right": list(_right(bundles)),
        "false_belief": list(_missed(bundles)),
    }
    return {name: pl.DataFrame(records, infer_schema_length=None) for name, records in made.items() if records}


def _bundles(rows: pl.DataFrame, kinds: baselines.Kinds) -> pl.DataFrame:
    """One row for each model, strategy and bundle that was asked whole: its right answers, by kind of question too."""
    mind = (pl.col("scenario") == "false_belief") & (pl.col("question_kind") == "belief")
    return (
        rows.group_by([*_ARM, "stage", "perturbation"], maintain_order=True)
        .agg(
            pl.col("correct").sum().cast(pl.Int64).alias("right"),
            pl.len().alias("questions"),
            pl.col("correct").all(),
            pl.col("faulty").any(),
            pl.col("correct").filter(mind).all().alias("beliefs"),
            pl.col("correct").filter(~mind).all().alias("controls"),
            (1 / pl.col("options")).product().alias("chance"),
            pl.col("options").null_count().alias("unknown"),
            *(pl.col(column).fill_null(False).all() for column in kinds.columns),
        )
        .filter(pl.col("questions") == SIZE)
        .with_columns(
            cluster=pl.col("stage") + "/" + pl.col("perturbation"),
            unread=pl.lit(False),
            chance=pl.when(pl.col("unknown") == 0).then("chance"),
        )
        .sort(*_ARM, "perturbation", "stage")
    )


def _solved(part: pl.DataFrame, kinds: baselines.Kinds, intervals: str) -> Record:
    """How many bundles are solved, with an interval, chance, and the rule that solves most of the same bundles."""
    solved, total = int(part["correct"].sum()), part.height
    if intervals == "published":
        low, high = accuracy_interval(solved, total)
    else:
        found = share(part)
        low, high = found["ci_low"], found["ci_high"]
    by_rule = {name_of(column): int(part[column].sum()) for column in kinds.columns}
    best = max(by_rule, key=lambda name: by_rule[name], default=None)
    return {
        **{"solved": solved, "bundles": total, "share": solved / total, "ci_low": low, "ci_high": high},
        "questions_right": int(part["right"].sum()) / (SIZE * total),
        "chance": part["chance"].mean(),
        "best_rule": best if best and by_rule[best] else None,
        "best_rule_solved": by_rule[best] if best else None,
    }


def _right(bundles: pl.DataFrame) -> Iterator[Record]:
    """For each model and strategy and each number of right answers, how many bundles have so many."""
    for key, part in bundles.group_by(_ARM, maintain_order=True):
        for right in range(SIZE + 1):
            count = part.filter(right=right).height
            if count:
                yield {**dict(zip(_ARM, key, strict=True)), "right": right, "bundles": count}


def _missed(bundles: pl.DataFrame) -> Iterator[Record]:
    """For each model and strategy, which part of a bundle is what keeps it from being solved."""
    for key, part in bundles.group_by(_ARM, maintain_order=True):
        beliefs, controls = part["beliefs"], part["controls"]
        yield {
            **dict(zip(_ARM, key, strict=True)),
            **{"bundles": part.height, "solved": int(part["correct"].sum())},
            "only_false_beliefs_missed": int((controls & ~beliefs).sum()),
            "only_controls_missed": int((beliefs & ~controls).sum()),
            "both_missed": int((~beliefs & ~controls).sum()),
        }


_SOLVED = (
    "solved counts the bundles of which all sixteen questions are right; share is theirs of all bundles that were "
    "asked whole, ci_low and ci_high the ends of its 95% interval, which says what to expect of further bundles like "
    "these. questions_right is the share of single questions. chance is what blind guesses among the choices solve; "
    "where only two words are possible, as in the paper, it is 1 in 65,536. best_rule is the rule that solves most of "
    "the same bundles without following anybody's belief (in some classes a changed story makes the belief true, so "
    "that a rule such as always reality solves it); it is empty where none solves any"
)
NOTES = {
    "all": f"Over all classes: {_SOLVED}.",
    "bundles": f"By class of changed stories (none are the unchanged ones): {_SOLVED}.",
    "right": "How many bundles have so many of their sixteen questions right: whether the unsolved ones fail by one "
    "question or by many.",
    "false_belief": "Of the bundles: those in which only a false-belief question is missed, those in which only a "
    "control is missed (a question about reality or about a true belief), and those in which both are.",
}


def notes(intervals: str) -> Mapping[str, str]:
    """What each table means, by its name. intervals: the way to count, recommended or published."""
    del intervals
    return NOTES


def summary(tables: Tables) -> list[Excerpt]:
    """What the terminal prints: all tables, the first with its explanation."""
    titles = {
        "all": "bundles solved: all sixteen questions right",
        "bundles": "bundles by class",
        "false_belief": "what unsolved bundles miss",
    }
    return [
        Excerpt(title, _plain(tables[name]), (name,), NOTES[name] if name != "bundles" else "")
        for name, title in titles.items()
    ]


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with chances so written that they do not read as zero."""
    if "chance" not in frame.columns or frame["chance"].dtype != pl.Float64:
        return frame
    return frame.with_columns(pl.col("chance").map_elements(_one_in, pl.String))


def _one_in(chance: Any) -> str:
    return f"1 in {round(1 / chance):,}"


STUDY = Study(
    name="bundles",
    tables=tables,
    required=(*REQUIRED, *DESIGN),
    notes=notes,
    summary=summary,
    strata=("scenario", "question_kind"),
    labels={"perturbation": "Class", "stage": "Stage", "scenario": "Scenario", "question_kind": "Question"},
)
"""The value by which tomserve knows the study."""
