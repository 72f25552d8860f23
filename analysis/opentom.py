"""The OpenToM study: macro-averaged F1 by genre of question, as the paper has it, and what stands behind it.

    tomserve analyze opentom-mymodel --study opentom
    tomserve analyze opentom-mymodel --study opentom --intervals published

Two ways to count, by `--intervals`: *recommended* (the default) has our reading of replies, a failure as a wrong answer
and intervals over narratives; *published* the authors' reading, which leaves out what it cannot read. NOTES says what
each table means.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl

from tomserve.stats.accuracy import constant_f1, guessed_f1, macro_f1, macro_f1_interval
from tomserve.stats.effects import FEW
from tomserve.studies import Excerpt, Study, baselines
from tomserve.studies.answer_rows import split_by
from tomserve.studies.contrasts import Record, integer_codes, prompting_effects, share
from tomserve.studies.presentation import Tables
from tomserve.studies.study import frames_of
from tomserve.studies.texts import Texts

TEXTS = Texts(__file__)

# The classes of each task's answers
CLASSES = {
    "location_coarse": ("Yes", "No"),
    "location_fine": ("original", "new"),
    "fullness": ("less full", "equally full", "more full"),
    "accessibility": ("less accessible", "equally accessible", "more accessible"),
    "attitude": ("positive", "neutral", "negative"),
}

# Which classes the authors' program takes together for both multihop tasks: by their numbers, and so "less full" with
# "more accessible"
MULTIHOP = {
    **{"less full": "1", "more full": "2", "equally full": "3"},
    **{"more accessible": "1", "less accessible": "2", "equally accessible": "3"},
}

UNREAD = "unread"  # what the column metric_official says of a reply that the authors leave out


def f1_records(rows: pl.DataFrame, keys: Sequence[str]) -> Iterator[Record]:
    """A record for each value of the keys, `task` among them: the macro-averaged F1 with its 95% interval over
    narratives; every failure counts as no class. rows: prepared rows."""
    for named, part in split_by(rows, keys):
        classes = CLASSES[str(named["task"])]
        right = [classes.index(label) for label in part["label"]]
        said = part.select(pl.when(~pl.col("faulty")).then("metric_class"))["metric_class"]
        given = [classes.index(one) if one in classes else None for one in said]
        interval = macro_f1_interval(right, given, integer_codes(part["cluster"]))
        best, constant = constant_f1(right)
        narratives = part["cluster"].n_unique()
        yield {
            **named,
            **{"questions": part.height, "f1": interval.estimate, "f1_low": interval.low, "f1_high": interval.high},
            **{"accuracy": part.select(pl.col("correct").mean()).item(), "unread": int(part["unread"].sum())},
            **{"constant": classes[best], "constant_f1": constant, "guess_f1": guessed_f1(right, len(classes))},
            **{"narratives": narratives, "few_narratives": narratives < FEW, "method": interval.method},
        }


def official(rows: pl.DataFrame, arms: Sequence[str]) -> Iterator[Record]:
    """The rows that the authors' program prints, by its reading of all replies: for each arm and order the locations,
    both multihop tasks and the two together, and the attitude. Fine locations are with those that the narrator is asked
    about. rows: prepared rows; of a reply without text, as of one that it cannot read, nothing is counted."""
    known = rows.with_columns(
        order=pl.when(pl.col("order") == 0).then(1).otherwise("order"), said=pl.col("metric_official").fill_null(UNREAD)
    )
    both = known.filter(pl.col("task").is_in(["fullness", "accessibility"])).with_columns(
        task=pl.lit("multihop"), label=pl.col("label").replace(MULTIHOP), said=pl.col("said").replace(MULTIHOP)
    )
    for key, part in split_by(pl.concat([known, both]), [*arms, "task", "order"]):
        read = part.filter(pl.col("said") != UNREAD)
        names = sorted({*read["label"], *read["said"]})
        right, given = ([names.index(one) for one in read[column]] for column in ("label", "said"))
        f1 = macro_f1(right, given) if right else None
        accuracy = sum(map(int.__eq__, right, given)) / len(right) if right else None
        yield {
            **{
                **key,
                "questions": part.height,
                "left_out": 1 - read.height / part.height,
                "f1": f1,
                "accuracy": accuracy,
            }
        }


# The columns that the tables need beside the required ones, with their types
FACTORS: Mapping[str, Any] = {
    **dict.fromkeys(("length", "task", "perspective", "label"), pl.String),
    **dict.fromkeys(("metric_class", "metric_official"), pl.String),
    **{"order": pl.Int64, "observed": pl.Boolean, "label_agrees": pl.Boolean},
}


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study that has rows, by name. Raises ConfigError for a table that lacks a column."""
    rows, kinds = baselines.rows_with_rules(scores, FACTORS)
    rows = rows.with_columns(pl.col("length").fill_null("unknown"))
    asked = rows.filter(pl.col("task").is_in(list(CLASSES)) & pl.col("label").is_not_null())
    arms = ["model", "strategy", "length"]
    shares = partial(baselines.shares_by, rows, kinds=kinds, intervals=intervals, brief=False)
    made: dict[str, Iterable[Record]] = {
        "accuracy": shares(()),
        "lengths": shares(("length",)),
        baselines.TABLE: baselines.rule_records(rows, kinds, ("model",)),
    }
    if intervals == "published":
        made["macro_f1"] = official(asked, arms)
    else:
        followed = asked.filter(pl.col("label_agrees").ne_missing(False))
        made |= {
            "macro_f1": f1_records(asked, (*arms, "task", "order")),
            "perspectives": f1_records(asked, (*arms, "task", "order", "perspective", "observed")),
            "coarse_and_fine": _coarse_and_fine(asked, arms),
            "labels": _labels(asked, followed, arms),
            "prompting_effects": prompting_effects(rows),
        }
    return frames_of(made)


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
    for key, part in split_by(pairs, [*arms, "order"]):
        both = part.with_columns(
            correct=pl.col("correct") & pl.col("fine_right"), faulty=pl.col("faulty") | pl.col("fine_faulty")
        )
        found, read = share(both), part.filter("said")
        single = [part.select(pl.col(name).mean()).item() for name in ("correct", "fine_right")]
        yield {
            **{**key, "pairs": part.height, "coarse": single[0], "fine": single[1], "product": single[0] * single[1]},
            **{"both": found["accuracy"], "both_low": found["ci_low"], "both_high": found["ci_high"], "chance": 0.25},
            **{"contradict": read.select(pl.col("differs").mean()).item(), "both_read": read.height},
        }


def _labels(asked: pl.DataFrame, followed: pl.DataFrame, arms: Sequence[str]) -> Iterator[Record]:
    """The macro-averaged F1 of tasks that have contradicted labels, of all questions and of those without them."""
    keys = (*arms, "task", "order")
    without = {tuple(one[name] for name in keys): one for one in f1_records(followed, keys)}
    for one in f1_records(asked, keys):
        other = without.get(tuple(one[name] for name in keys))
        if other is not None and other["questions"] < one["questions"]:
            yield {
                **{name: one[name] for name in keys},
                **{"questions": one["questions"], "contradicted": one["questions"] - other["questions"]},
                **{"f1": one["f1"], "f1_without": other["f1"]},
                **{"without_low": other["f1_low"], "without_high": other["f1_high"]},
            }


def summary(tables: Tables) -> list[Excerpt]:
    """What the terminal prints: of each table the columns that a reader needs first."""
    published = "left_out" in tables.get("macro_f1", pl.DataFrame()).columns
    return TEXTS.excerpts(tables, "published" if published else "recommended")


STUDY = Study(
    name="opentom",
    tables=tables,
    notes=TEXTS.notes,
    warnings=baselines.missing_warnings,
    summary=summary,
    labels={"task": "task", "order": "order", "perspective": "perspective", "length": "length"},
)
