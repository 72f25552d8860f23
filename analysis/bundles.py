"""The study of bundles (after Kosinski 2024): tasks of which all sixteen questions are right.

    tomserve analyze bundles-mymodel --study bundles
    tomserve analyze perturbed-mymodel --study bundles

A bundle is a false belief and its three true-belief controls, each as written and with the labels exchanged, each with
a question about reality and one about a belief. It counts only if all sixteen answers are right, so that no preference
for a word, an order or the truth can solve it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from tomserve.errors import ConfigError
from tomserve.scoring.baselines import baseline_name
from tomserve.stats.paper_formulas import accuracy_interval
from tomserve.studies import Context, Excerpt, Figure, Study, baselines
from tomserve.studies.answer_rows import REQUIRED, prepare_rows, split_by
from tomserve.studies.contrasts import Record, share
from tomserve.studies.presentation import BAD, GOOD, OPEN, Card, Tables, Verdict, interval, percent, readable_name
from tomserve.studies.study import frames_of
from tomserve.studies.texts import Texts

TEXTS = Texts(__file__)

SIZE = 16  # how many questions a bundle has

DESIGN = ("stage", "perturbation", "scenario", "question_kind")
_ARM = ["model", "strategy"]


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study that has rows, by name. Raises ConfigError for a table that lacks a column."""
    kinds = baselines.RuleKinds.of(scores)
    more = dict.fromkeys(("options", "task_questions"), pl.Int64)
    rows = prepare_rows(scores, (*REQUIRED, *DESIGN, *kinds.columns), more).collect()
    bundles = _bundles(rows, kinds)
    if not bundles.height:
        raise ConfigError(
            f"no bundle of {SIZE} questions was asked whole; ask the benchmark 'bundles', whose --limit draws whole "
            "bundles, or all items of 'perturbed'"
        )
    made: dict[str, Iterable[Record]] = {
        "all": ({**key, **_count_solved(part, kinds, intervals)} for key, part in split_by(bundles, _ARM)),
        "bundles": (
            {**key, **_count_solved(part, kinds, intervals)} for key, part in split_by(bundles, (*_ARM, "perturbation"))
        ),
        "right": _right(bundles),
        "false_belief": _count_misses(bundles),
    }
    return frames_of(made)


def _bundles(rows: pl.DataFrame, kinds: baselines.RuleKinds) -> pl.DataFrame:
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
            pl.col("task_questions").max().fill_null(SIZE).alias("whole"),  # a task of the second edition has more
            *(pl.col(column).fill_null(False).all() for column in kinds.columns),
        )
        .filter(pl.col("questions") == SIZE, pl.col("whole") == SIZE)
        .with_columns(
            cluster=pl.col("stage") + "/" + pl.col("perturbation"),
            unread=pl.lit(False),
            chance=pl.when(pl.col("unknown") == 0).then("chance"),
        )
        .sort(*_ARM, "perturbation", "stage")
    )


def _count_solved(part: pl.DataFrame, kinds: baselines.RuleKinds, intervals: str) -> Record:
    """How many bundles are solved, with an interval, chance, and the rule that solves most of the same bundles."""
    solved, total = int(part["correct"].sum()), part.height
    if intervals == "published":
        low, high = accuracy_interval(solved, total)
    else:
        found = share(part)
        low, high = found["ci_low"], found["ci_high"]
    by_rule = {baseline_name(column): int(part[column].sum()) for column in kinds.columns}
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
    for key, part in split_by(bundles, _ARM):
        for right in range(SIZE + 1):
            count = part.filter(right=right).height
            if count:
                yield {**key, "right": right, "bundles": count}


def _count_misses(bundles: pl.DataFrame) -> Iterator[Record]:
    """For each model and strategy, which part of a bundle is what keeps it from being solved."""
    for key, part in split_by(bundles, _ARM):
        beliefs, controls = part["beliefs"], part["controls"]
        yield {
            **{**key, "bundles": part.height, "solved": int(part["correct"].sum())},
            "only_false_beliefs_missed": int((controls & ~beliefs).sum()),
            "only_controls_missed": int((beliefs & ~controls).sum()),
            "both_missed": int((~beliefs & ~controls).sum()),
        }


def summary(tables: Tables) -> list[Excerpt]:
    """What the terminal prints: all tables, the first with its explanation."""
    titles = {
        "all": "bundles solved: all sixteen questions right",
        "bundles": "bundles by class",
        "false_belief": "what unsolved bundles miss",
    }
    return [
        Excerpt(title, _plain(tables[name]), (name,), TEXTS.notes()[name] if name != "bundles" else "")
        for name, title in titles.items()
    ]


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with chances so written that they do not read as zero."""
    if "chance" not in frame.columns or frame["chance"].dtype != pl.Float64:
        return frame
    return frame.with_columns(pl.col("chance").map_elements(_one_in, pl.String))


def _one_in(chance: Any) -> str:
    return f"1 in {round(1 / chance):,}"


def verdicts(tables: Tables, context: Context) -> Sequence[Verdict]:
    """For each model: how many bundles each strategy solves, beside the simple rule that solves most, and what the
    others miss. tables: by name. context: not used, as chance stands in the tables."""
    found = []
    for model in tables["all"]["model"].unique(maintain_order=True):
        own = tables["all"].filter(model=model)
        lines = tuple(f"{readable_name(row['strategy'])}: {_strategy_line(row)}" for row in own.iter_rows(named=True))
        missed = tables["false_belief"].filter(model=model)
        found.append(Verdict(str(model), lines, (_whole(own, tables["bundles"].filter(model=model)), *_misses(missed))))
    return found


def _strategy_line(row: Mapping[str, Any]) -> str:
    chance = "" if row["chance"] is None else f"; blind guesses solve {_one_in(row['chance'])}"
    return (
        f"{row['solved']:,} of {row['bundles']:,} bundles solved ({percent(row['share'])}{interval(dict(row))}), "
        f"{percent(row['questions_right'])} of their questions right{chance}"
    )


def _whole(own: pl.DataFrame, classes: pl.DataFrame) -> Card:
    """Whether more bundles are solved than a rule solves that follows nobody's belief."""
    places, grounds = set[str](), []
    for row in own.iter_rows(named=True):
        by_rule = (row["best_rule_solved"] or 0) / row["bundles"]
        places.add(
            "none" if not row["solved"] else
            "above" if row["ci_low"] > by_rule else "below" if row["ci_high"] < by_rule else "alike"
        )  # fmt: skip
        rule = "no rule solves any"
        if row["best_rule"]:
            rule = f'the rule "{row["best_rule"]}" solves {row["best_rule_solved"]:,}'
        text = f"{row['solved']:,} of {row['bundles']:,}; {rule}"
        for plain in classes.filter(strategy=row["strategy"], perturbation="none").iter_rows(named=True):
            best = f", {plain['best_rule_solved']:,} by a rule" if plain["best_rule"] else ""
            text += f"; of the {plain['bundles']:,} unchanged ones {plain['solved']:,}{best}"
        grounds.append((readable_name(row["strategy"]), f"{text}."))
    verdict, tone = {
        "none": ("No, none", BAD),
        "above": ("Yes, more than by any shortcut baseline", GOOD),
        "below": ("Fewer than by a shortcut baseline", BAD),
        "alike": ("Not shown: no significant difference from the best shortcut baseline", OPEN),
    }[places.pop()] if len(places) == 1 else ("Depends on the strategy", OPEN)  # fmt: skip
    return Card("Are whole bundles solved?", verdict, tone, tuple(grounds), TEXTS["whole"])


def _misses(frame: pl.DataFrame) -> Iterator[Card]:
    """Which questions keep bundles from being solved; nothing where all are solved."""
    kinds = {"only_false_beliefs_missed": "false beliefs alone", "only_controls_missed": "controls alone",
             "both_missed": "both"}  # fmt: skip
    unsolved = frame.filter(pl.col("solved") < pl.col("bundles"))
    if unsolved.is_empty():
        return
    most, grounds = set[str](), []
    for row in unsolved.iter_rows(named=True):
        most.add(max(kinds, key=lambda kind: row[kind]))
        told = ", ".join(f"{name} in {row[kind]:,}" for kind, name in kinds.items())
        grounds.append((readable_name(row["strategy"]), f"{row['bundles'] - row['solved']:,} unsolved: {told}."))
    verdict = {
        "only_false_beliefs_missed": "Mostly false beliefs alone",
        "only_controls_missed": "Mostly controls alone: reality and true beliefs",
        "both_missed": "Mostly false beliefs and controls both",
    }[most.pop()] if len(most) == 1 else "Depends on the strategy"  # fmt: skip
    yield Card("What do the unsolved bundles miss?", verdict, OPEN, tuple(grounds), TEXTS["misses"])


def figures(tables: Tables, context: Context) -> Sequence[Figure]:
    """The figure of solved bundles by class. tables: by name. context: not used, as chance is next to nothing."""
    from tomserve.reporting.html.charts import Axis, draw_figure, rows_of, small_multiples  # only a report draws

    def make() -> Figure:
        frame = tables["bundles"].with_columns(other=pl.col("best_rule_solved") / pl.col("bundles"))
        rows = rows_of({"bundles": frame}, "bundles", "model strategy perturbation share ci_low ci_high")
        columns = ("perturbation", "strategy", "share", "ci_low", "ci_high")
        return small_multiples(CLASSES, rows, columns, Axis("share solved", (0, 1)))

    return [draw_figure(CLASSES, make)]


CLASSES = TEXTS.figure("bundles")


STUDY = Study(
    name="bundles",
    tables=tables,
    required=(*REQUIRED, *DESIGN),
    notes=TEXTS.notes,
    summary=summary,
    verdicts=verdicts,
    figures=figures,
    strata=("scenario", "question_kind"),
    labels={"perturbation": "Class", "stage": "Stage", "scenario": "Scenario", "question_kind": "Question"},
)
