"""The OpenToM study: macro-averaged F1 by genre of question, as the paper has it, and what stands behind it.

    tomserve analyze opentom-mymodel --study opentom
    tomserve analyze opentom-mymodel --study opentom --intervals published

Two ways to count, by `--intervals`. *recommended* (the default): our reading of replies; a failure is a wrong answer;
intervals over narratives. *published*: the authors' reading, which leaves out what it cannot read. The tables:

accuracy            all questions, beside the best rule that follows nobody's mind
lengths             the same for normal and long narratives apart
macro_f1            by task and order of belief, beside the best constant answer and a blind guess
perspectives        the same by whose belief is asked about, and whether the observer saw what happened
coarse_and_fine     whether coarse and fine answers about the same belief are both right, and whether they agree
labels              the macro-averaged F1 without the labels that contradict others
prompting_effects   each strategy against vanilla, on the same questions
baselines           every rule that follows nobody's mind
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from tomserve.studies import Excerpt, Study, baselines
from tomserve.studies.contrasts import Record, prompting_effects, share
from tomserve.studies.rows import REQUIRED, prepared, with_columns
from tomserve.studies.showing import Tables, in_brief

from .macro import CLASSES, official, scored
from .notes import NOTES, PUBLISHED

FACTORS: Mapping[str, Any] = {
    **dict.fromkeys(("length", "task", "perspective", "label"), pl.String),
    **dict.fromkeys(("metric_class", "metric_official"), pl.String),
    **{"order": pl.Int64, "observed": pl.Boolean, "label_agrees": pl.Boolean},
}
"""The columns that the tables need beside the required ones, with their types."""


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study, by name; those without rows are left out.

    scores: a score table. intervals: the way to count, recommended or published. Raises ConfigError for a table that
    lacks a column.
    """
    kinds = baselines.Kinds.of(scores)
    rows = prepared(with_columns(scores, FACTORS), (*REQUIRED, *FACTORS, *kinds.columns)).collect()
    rows = rows.with_columns(pl.col("length").fill_null("unknown"))
    asked = rows.filter(pl.col("task").is_in(list(CLASSES)) & pl.col("label").is_not_null())
    arms = ["model", "strategy", "length"]
    made: dict[str, list[Record]] = {
        "accuracy": list(_accuracy(rows, arms[:2], kinds, intervals)),
        "lengths": list(_accuracy(rows, arms, kinds, intervals)),
        baselines.TABLE: list(baselines.table(rows, kinds, ("model",))),
    }
    if intervals == "published":
        made["macro_f1"] = list(official(asked, arms))
    else:
        followed = asked.filter(pl.col("label_agrees").ne_missing(False))
        made |= {
            "macro_f1": list(scored(asked, (*arms, "task", "order"))),
            "perspectives": list(scored(asked, (*arms, "task", "order", "perspective", "observed"))),
            "coarse_and_fine": list(_coarse_and_fine(asked, arms)),
            "labels": list(_labels(asked, followed, arms)),
            "prompting_effects": list(prompting_effects(rows)),
        }
    return {name: pl.DataFrame(records, infer_schema_length=None) for name, records in made.items() if records}


def _accuracy(rows: pl.DataFrame, keys: Sequence[str], kinds: baselines.Kinds, intervals: str) -> Iterator[Record]:
    for key, part in rows.sort(keys, maintain_order=True).group_by(list(keys), maintain_order=True):
        yield {**dict(zip(keys, key, strict=True)), **baselines.accuracy(part, kinds, intervals)}


def _coarse_and_fine(rows: pl.DataFrame, arms: Sequence[str]) -> Iterator[Record]:
    """How often the coarse and the fine answer about one belief are both right, and how often they contradict each
    other: whoever says that a thing is where it was says so of its place, too."""
    keys = [*arms, "cluster", "order", "perspective"]
    coarse = rows.filter(task="location_coarse").unique(keys, keep="first", maintain_order=True)
    fine = rows.filter(pl.col("task") == "location_fine", pl.col("order") > 0)
    fine = fine.unique(keys, keep="first", maintain_order=True)
    other = fine.select(*keys, fine_right="correct", fine_class="metric_class", fine_faulty="faulty")
    pairs = coarse.join(other, on=keys, maintain_order="left").with_columns(
        said=pl.col("metric_class").is_not_null() & pl.col("fine_class").is_not_null(),
        differs=(pl.col("metric_class") == "Yes") != (pl.col("fine_class") == "original"),
    )
    named = [*arms, "order"]
    for key, part in pairs.sort(named, maintain_order=True).group_by(named, maintain_order=True):
        both = part.with_columns(
            correct=pl.col("correct") & pl.col("fine_right"), faulty=pl.col("faulty") | pl.col("fine_faulty")
        )
        found, read = share(both), part.filter("said")
        single = [part.select(pl.col(name).mean()).item() for name in ("correct", "fine_right")]
        yield {
            **dict(zip(named, key, strict=True)),
            **{"pairs": part.height, "coarse": single[0], "fine": single[1], "product": single[0] * single[1]},
            **{"both": found["accuracy"], "both_low": found["ci_low"], "both_high": found["ci_high"], "chance": 0.25},
            **{"contradict": read.select(pl.col("differs").mean()).item(), "both_read": read.height},
        }


def _labels(asked: pl.DataFrame, followed: pl.DataFrame, arms: Sequence[str]) -> Iterator[Record]:
    """The macro-averaged F1 of tasks that have contradicted labels, of all questions and of those without them."""
    keys = (*arms, "task", "order")
    without = {tuple(one[name] for name in keys): one for one in scored(followed, keys)}
    for one in scored(asked, keys):
        other = without.get(tuple(one[name] for name in keys))
        if other is not None and other["questions"] < one["questions"]:
            yield {
                **{name: one[name] for name in keys},
                **{"questions": one["questions"], "contradicted": one["questions"] - other["questions"]},
                **{"f1": one["f1"], "f1_without": other["f1"]},
                **{"without_low": other["f1_low"], "without_high": other["f1_high"]},
            }


def notes(intervals: str) -> Mapping[str, str]:
    """What each table means, by its name. intervals: the way to count, recommended or published."""
    return PUBLISHED if intervals == "published" else NOTES


SHOWN = {
    "accuracy": "model strategy total accuracy ci_low ci_high unread best_rule best_rule_accuracy",
    "lengths": "model strategy length total accuracy ci_low ci_high unread best_rule best_rule_accuracy",
    "macro_f1": "model strategy length task order questions f1 f1_low f1_high left_out constant_f1 guess_f1 accuracy",
    "coarse_and_fine": "model strategy length order pairs both both_low both_high product contradict",
    "labels": "model strategy length task order questions contradicted f1 f1_without",
    "prompting_effects": "model treatment share_treated share_control risk_difference rd_low rd_high p",
}
"""The columns of each table that the terminal prints."""


def summary(tables: Tables) -> list[Excerpt]:
    """What the terminal prints: of each table the columns that a reader needs first."""
    told = PUBLISHED if "left_out" in tables.get("macro_f1", pl.DataFrame()).columns else NOTES
    return in_brief(
        tables, SHOWN, {name: told[name] for name in ("macro_f1", "coarse_and_fine", "labels") if name in told}
    )


STUDY = Study(
    name="opentom",
    tables=tables,
    notes=notes,
    warnings=baselines.missing,
    summary=summary,
    labels={"task": "task", "order": "order", "perspective": "perspective", "length": "length"},
)
"""The value by which tomserve knows the study."""
