"""The OpenToM study: macro-averaged F1 by genre of question, as the paper has it, and what stands behind it.

    tomserve analyze opentom-mymodel --study opentom
    tomserve analyze opentom-mymodel --study opentom --intervals published

Two ways to count, by `--intervals`: *recommended* (the default) has our reading of replies, a failure as a wrong answer
and intervals over narratives; *published* the authors' reading, which leaves out what it cannot read. NOTES says what
each table means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl

from tomserve.stats.accuracy import constant_f1, guessed_f1, macro_f1, macro_f1_interval
from tomserve.stats.effects import FEW
from tomserve.studies import Excerpt, Study, baselines
from tomserve.studies.answer_rows import split_by
from tomserve.studies.contrasts import Record, integer_codes, prompting_effects, share
from tomserve.studies.presentation import ABOUT_EFFECT, ABOUT_TESTS, ABOUT_WORST, SHARE_INDEPENDENT, Tables, excerpts_of
from tomserve.studies.study import frames_of

CLASSES = {
    "location_coarse": ("Yes", "No"),
    "location_fine": ("original", "new"),
    "fullness": ("less full", "equally full", "more full"),
    "accessibility": ("less accessible", "equally accessible", "more accessible"),
    "attitude": ("positive", "neutral", "negative"),
}
"""The classes of each task's answers."""

MULTIHOP = {
    **{"less full": "1", "more full": "2", "equally full": "3"},
    **{"more accessible": "1", "less accessible": "2", "equally accessible": "3"},
}
"""Which classes the authors' program takes together for both multihop tasks: by their numbers, and so "less full" with
"more accessible"."""

UNREAD = "unread"
"""What the column metric_official says of a reply that the authors leave out."""


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
        task=pl.lit("multihop"),
        label=pl.col("label").replace(MULTIHOP),
        said=pl.col("said").replace(MULTIHOP),
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
            },
        }


_F1 = (
    "f1 is the macro-averaged F1: for each class of answers (such as Yes and No) the harmonic mean of precision and "
    "recall, and then the mean over the classes, so that a class counts the same however rare it is. Of fine locations "
    "the classes are the first place and the new one. A failure (no answer, or none that can be read) is given to no "
    "class. f1_low and f1_high are the ends of the 95% interval, by drawing narratives anew"
)
_BESIDE = "constant_f1 is what the best constant answer earns, guess_f1 what a blind guess earns"

NOTES = {
    "accuracy": "All questions: the share of right answers with its 95% interval over "
    f"narratives; a failure counts as wrong. {baselines.ABOUT}",
    "lengths": "The same by length of the narratives. The long ones are about plots of the normal ones.",
    "macro_f1": f"By task and order of belief (0: the narrator's, that is what is so): {_F1}; {_BESIDE}.",
    "perspectives": f"By task, order, whose perspective is asked for and whether the observer saw the move: {_F1}. "
    "An observer who saw nothing believes what is no longer so. Where all right answers are of one class, f1 is 1 only "
    "if no other class is ever given.",
    "coarse_and_fine": "Questions about one belief, asked coarsely (is it where it was?) and finely (where is it?): "
    "both is the share of pairs with both answers right, with its 95% interval; product is what it would be if the two "
    "were independent; contradict is the share of pairs, of those with both replies read (both_read), whose answers "
    "cannot both be so.",
    "labels": "Tasks in which some labels contradict the plot, or what the same person is said to believe in coarse "
    "ones (contradicted: how many). f1 is that of all questions, f1_without that of the rest, with its 95% "
    "interval.",
    "prompting_effects": "Each strategy (way of asking) against vanilla, which asks for the answer alone, on the same "
    f"questions: differences of the share of right answers. {ABOUT_EFFECT} {ABOUT_TESTS} {ABOUT_WORST}",
    baselines.TABLE: baselines.NOTE,
}
"""The notes of recommended intervals, by the table's name."""

PUBLISHED = {
    "accuracy": SHARE_INDEPENDENT,
    "lengths": "The same by length of the narratives.",
    "macro_f1": "The macro-averaged F1 and the accuracy by the authors' reading of replies, which looks for words "
    "anywhere in them and leaves out those in which it finds none or too many (left_out: their share). The authors ask "
    "five samples of 50 narratives and print the mean; here it is all that was asked. multihop takes fullness and "
    'accessibility together by the numbers of their classes, and so "less full" with "more accessible", as their '
    "program does.",
    baselines.TABLE: baselines.NOTE,
}
"""The notes of published intervals, by the table's name."""


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
    return excerpts_of(
        tables, SHOWN, {name: told[name] for name in ("macro_f1", "coarse_and_fine", "labels") if name in told}
    )


STUDY = Study(
    name="opentom",
    tables=tables,
    notes=lambda intervals: PUBLISHED if intervals == "published" else NOTES,
    warnings=baselines.missing_warnings,
    summary=summary,
    labels={"task": "task", "order": "order", "perspective": "perspective", "length": "length"},
)
"""The value by which tomserve knows the study."""
