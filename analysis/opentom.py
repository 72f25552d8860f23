"""The OpenToM study: macro-averaged F1 by genre of question, as the paper has it, and what stands behind it.

    tomserve analyze opentom-mymodel --study opentom
    tomserve analyze opentom-mymodel --study opentom --intervals published

Two ways to count, by `--intervals`. *recommended* (the default): our reading of replies; a failure is a wrong answer;
intervals over narratives. *published*: the authors' reading, which leaves out what it cannot read. The tables:

accuracy            all questions, beside the best rule that follows nobody's mind lengths             the same for
normal and long narratives apart macro_f1            by task and order of belief, beside the best constant answer and
a blind guess perspectives        the same by whose belief is asked about, and whether the observer saw what happened
coarse_and_fine     whether coarse and fine answers about the same belief are both right, and whether they agree
labels              the macro-averaged F1 without the labels that contradict others prompting_effects   each strategy
against vanilla, on the same questions baselines           every rule that follows nobody's mind
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from tomserve.stats.accuracy import constant_f1, guessed_f1, macro_f1, macro_f1_interval
from tomserve.stats.effects import FEW
from tomserve.studies import Excerpt, Study, baselines
from tomserve.studies.answer_rows import REQUIRED, prepare_rows, with_columns
from tomserve.studies.contrasts import Record, integer_codes, prompting_effects, share
from tomserve.studies.presentation import ABOUT_EFFECT, ABOUT_TESTS, ABOUT_WORST, Tables, excerpts_of

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


def scored(rows: pl.DataFrame, keys: Sequence[str]) -> Iterator[Record]:
    """A record for each value of the keys, `task` among them: the macro-averaged F1 with its 95% interval over
    narratives; every failure counts as no class. rows: prepared rows."""
    for key, part in rows.sort(keys, maintain_order=True).group_by(list(keys), maintain_order=True):
        named = dict(zip(keys, key, strict=True))
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
    keys = [*arms, "task", "order"]
    every = pl.concat([known, both]).sort(keys, maintain_order=True)
    for key, part in every.group_by(keys, maintain_order=True):
        read = part.filter(pl.col("said") != UNREAD)
        names = sorted({*read["label"], *read["said"]})
        right, given = ([names.index(one) for one in read[column]] for column in ("label", "said"))
        f1 = macro_f1(right, given) if right else None
        accuracy = sum(map(int.__eq__, right, given)) / len(right) if right else None
        yield {
            **dict(zip(keys, key, strict=True)),
            **{"questions": part.height, "left_out": 1 - read.height / part.height, "f1": f1, "accuracy": accuracy},
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
    "accuracy": "The share of right answers; its 95% interval takes the questions as independent of each other: "
    "(k + 2)/(n + 4) with the normal distribution.",
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
    kinds = baselines.RuleKinds.of(scores)
    rows = prepare_rows(with_columns(scores, FACTORS), (*REQUIRED, *FACTORS, *kinds.columns)).collect()
    rows = rows.with_columns(pl.col("length").fill_null("unknown"))
    asked = rows.filter(pl.col("task").is_in(list(CLASSES)) & pl.col("label").is_not_null())
    arms = ["model", "strategy", "length"]
    made: dict[str, list[Record]] = {
        "accuracy": list(_accuracy(rows, arms[:2], kinds, intervals)),
        "lengths": list(_accuracy(rows, arms, kinds, intervals)),
        baselines.TABLE: list(baselines.rule_records(rows, kinds, ("model",))),
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


def _accuracy(rows: pl.DataFrame, keys: Sequence[str], kinds: baselines.RuleKinds, intervals: str) -> Iterator[Record]:
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
    return excerpts_of(
        tables, SHOWN, {name: told[name] for name in ("macro_f1", "coarse_and_fine", "labels") if name in told}
    )


STUDY = Study(
    name="opentom",
    tables=tables,
    notes=notes,
    warnings=baselines.missing_warnings,
    summary=summary,
    labels={"task": "task", "order": "order", "perspective": "perspective", "length": "length"},
)
"""The value by which tomserve knows the study."""
