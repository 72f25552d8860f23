"""The study of BigToM: who follows a belief where it differs from the world, forward and backward.

    tomserve analyze bigtom-mymodel --study bigtom

Two ways to count, by `--intervals`: *recommended* (the default) has intervals over templates, and a failure counts as
wrong; *published* takes every question as independent of the others.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl

from tomserve.reporting.html.charts import Axis, Draw, Line, chance_lines, draw_figures, rows_of, small_multiples
from tomserve.studies import Figure, Study, baselines
from tomserve.studies.answer_rows import split_by
from tomserve.studies.contrasts import Record, contrast, pair_rows, prompting_effects, share
from tomserve.studies.presentation import (
    BAD,
    GOOD,
    OPEN,
    Card,
    Context,
    Row,
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

PLAIN = ("vanilla", "bigtom_0shot")  # strategies that ask for the answer alone

DESIRE = "backward_desire"  # the task that is not usable, and on which no verdict rests


def verdicts(tables: Tables, context: Context) -> Sequence[Verdict]:
    """For each model: its shares beside chance and the best rule, whether both beliefs of a template are followed, what
    a false belief costs, and whether step-by-step reasoning helps."""
    return model_verdicts(tables, context, lambda own: (*_both(own), *_harder(own)), "condition", PLAIN)


def _usual(own: dict[str, pl.DataFrame], name: str) -> pl.DataFrame:
    """The rows of a table that the paper reports: of usable tasks, without the initial belief where that was asked."""
    rows = own.get(name, pl.DataFrame())
    if rows.is_empty():
        return rows
    rows = rows.filter(pl.col("task") != DESIRE)
    without = rows.filter(init_belief=0)
    return without if without.height else rows


def _task(row: dict[str, object]) -> str:
    said = ", with the first belief told" if row["init_belief"] else ""
    return f"{readable_name(row['strategy'])}, {readable_name(row['task'])}{said}"


# The verdict by where all intervals lie: above chance (1), below it (-1), or holding it (0)
_BOTH = {
    frozenset({1}): ("Yes, above chance", GOOD),
    frozenset({-1}): ("No: below chance", BAD),
    frozenset({0}): ("Not shown: no significant difference from chance", OPEN),
    frozenset({-1, 0}): ("Not shown: nowhere above chance", OPEN),
}


def _both(own: dict[str, pl.DataFrame]) -> Iterator[Card]:
    """Whether templates are right with both beliefs, more often than two blind guesses are."""
    grounds, places = [], set[int]()
    for row in _usual(own, "joint").iter_rows(named=True):
        low, high, chance = row["joint_low"], row["joint_high"], row["chance"]
        places.add(1 if low > chance else -1 if high < chance else 0)
        text = (
            f"{percent(row['joint'])} of {row['templates']:,} templates right with both, 95% interval "
            f"{percent(low)} to {percent(high)}; two blind guesses: {percent(chance)}; true beliefs "
            f"{percent(row['true_belief'])}, false ones {percent(row['false_belief'])} right."
        )
        grounds.append((_task(row), text))
    if not grounds:
        return
    verdict, tone = _BOTH.get(frozenset(places), ("Depends on the task or the strategy", OPEN))
    yield Card(
        "Are the true and the false belief of a template both followed?", verdict, tone, tuple(grounds), TEXTS["both"]
    )


# The verdict by the signs of all differences, false minus true
_HARDER = {
    frozenset({-1}): ("Yes: it answers with reality more readily than with the belief", BAD),
    frozenset({1}): ("No, true ones are: it favours the state before the event", BAD),
    frozenset({0}): ("No significant difference", OPEN),
    frozenset({-1, 0}): ("In some tasks or strategies", OPEN),
    frozenset({1, 0}): ("No; in some tasks or strategies true ones are", OPEN),
}


def _harder(own: dict[str, pl.DataFrame]) -> Iterator[Card]:
    """Whether false beliefs are right less often than true ones, in the same templates."""
    frame = _usual(own, "false_minus_true")
    if frame.is_empty():
        return
    signs = [sign(row) for row in frame.iter_rows(named=True)]
    grounds = tuple((_task(row), f"{points(row)}.") for row in frame.iter_rows(named=True))
    verdict, tone = _HARDER.get(frozenset(signs), ("Depends on the task or the strategy", OPEN))
    yield Card("Are false beliefs harder than true ones?", verdict, tone, grounds, TEXTS["harder"])


# The columns that the tables need besides those of every score table, with their types
COLUMNS: Mapping[str, Any] = {
    **dict.fromkeys(("task", "condition"), pl.String),
    **dict.fromkeys(("init_belief", "answer_place"), pl.Int64),
    **dict.fromkeys(
        ("named_first", "usable", "metric_official", "metric_official_after_answer", "metric_both_keys"), pl.Boolean
    ),
}

ARMS = ("model", "strategy")
# The conditions that have the right answer of a false belief, without a misleading event
CONTROLS = ("false_control", "control")

OFFICIAL = ("bigtom_0shot", "bigtom_cot")  # the authors' strategies: the answer alone, and reasoning first

# What two conditions of a template have in common that are compared with each other
PLACE = ("cluster", "task", "init_belief")


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study that has rows, by name. Raises ConfigError for a table that lacks a column."""
    rows, kinds = baselines.rows_with_rules(scores, COLUMNS)
    shares = partial(baselines.shares_by, rows, kinds=kinds, intervals=intervals)
    made: dict[str, Iterable[Record]] = {
        "accuracy": shares((), brief=False),
        baselines.TABLE: baselines.records_by(rows, kinds, "condition"),
        "conditions": shares(("task", "condition", "init_belief")),
        "order": _order(rows),
        "official": _official(rows),
    }
    if intervals == "recommended":
        false, true = rows.filter(condition="false_belief"), rows.filter(condition="true_belief")
        control = rows.filter(pl.col("condition").is_in(CONTROLS))
        said, unsaid = rows.filter(init_belief=1), rows.filter(init_belief=0)
        beliefs, told = pair_rows(false, true, on=(*ARMS, *PLACE)), (*ARMS, "cluster", "task", "condition")
        made |= {
            "joint": _joint(beliefs),
            "false_minus_true": _effects(beliefs, ("task", "init_belief")),
            "controls": _effects(pair_rows(false, control, on=(*ARMS, *PLACE)), ("task", "init_belief")),
            "initial_belief": _effects(pair_rows(said, unsaid, on=told), ("task", "condition")),
            "prompting_effects": _prompting(rows),
        }
    return {name: frame.fill_nan(None) for name, frame in frames_of(made).items()}


def _joint(pairs: pl.DataFrame) -> Iterator[Record]:
    """How often both beliefs of a template are right, by task and initial belief. pairs: `correct` is that of the false
    belief, `control` that of the true one."""
    both = pairs.with_columns(
        false_right=pl.col("correct"),
        correct=pl.col("correct") & pl.col("control"),
        faulty=pl.col("faulty") | pl.col("control_faulty"),
    )
    for key, part in split_by(both, (*ARMS, "task", "init_belief")):
        found = share(part)
        false, true = (part.select(pl.col(name).mean()).item() for name in ("false_right", "control"))
        yield {
            **key,
            **{"templates": part["cluster"].n_unique(), "joint": found["accuracy"]},
            **{"joint_low": found["ci_low"], "joint_high": found["ci_high"]},
            **{"false_belief": false, "true_belief": true, "product": false * true, "chance": 0.25},
        }


def _effects(pairs: pl.DataFrame, keys: Sequence[str]) -> Iterator[Record]:
    for key, part in split_by(pairs, (*ARMS, *keys)):
        yield {**key, **contrast(part, target="new templates")}


def _order(rows: pl.DataFrame) -> Iterator[Record]:
    """Accuracy by the place of the right answer among the choices, and in the question, by task and condition."""
    shown = rows.with_columns(shown=pl.col("answer_place") == 1, named=pl.col("named_first"))
    for by in ("shown", "named"):
        for key, part in split_by(shown.drop_nulls(by), (*ARMS, "task", "condition")):
            readable = part.filter(~pl.col("faulty"))
            chosen = readable.select((pl.col("correct") == pl.col(by)).mean()).item()
            for first in (True, False):
                here = part.filter(pl.col(by) == first)
                if here.height:
                    found = {"by": by, "first": first, "right_first": part.select(pl.col(by).mean()).item()}
                    counts = {"correct": int(here["correct"].sum()), "total": here.height}
                    mean = here.select(pl.col("correct").mean()).item()
                    yield {**key, **found, **counts, "accuracy": mean, "chose_first": chosen}


def _official(rows: pl.DataFrame) -> Iterator[Record]:
    """By strategy and way of scoring, what the authors' rule gives beside ours, on the replies that it decides; nothing
    of a strategy of whose replies it decides none, as of those that answer in JSON."""
    if not rows["metric_official"].count():
        return
    for name, column in (("plain", "metric_official"), ("after answer", "metric_official_after_answer")):
        for key, part in split_by(rows, ARMS):
            decided = part.filter(pl.col(column).is_not_null())
            if decided.is_empty():
                continue
            alike = decided.select((pl.col(column) == pl.col("correct")).mean()).item()
            yield {
                **key,
                **{"scoring": name, "replies": part.height, "undecided": part.height - decided.height},
                **{"official": decided[column].mean(), "ours": decided["correct"].mean(), "agree": alike},
                "official_only": decided.filter(pl.col(column) & ~pl.col("correct")).height,
                "ours_only": decided.filter(~pl.col(column) & pl.col("correct")).height,
                "both_keys": int(part["metric_both_keys"].sum()),
            }


def _prompting(rows: pl.DataFrame) -> Iterator[Record]:
    """Each strategy against the one that asks for the answer alone in the same way, where that was asked: the authors'
    reasoning against their direct question, every other one against vanilla."""
    own = rows.filter(pl.col("strategy").is_in(OFFICIAL)) if {*OFFICIAL} <= {*rows["strategy"]} else rows.clear()
    yield from prompting_effects(rows if own.is_empty() else rows.filter(pl.col("strategy") != OFFICIAL[1]))
    yield from prompting_effects(own, OFFICIAL[0])


def warnings(tables: Tables) -> list[str]:
    """One line for each reason to doubt the numbers: questions about wishes, which are not usable, and rules that are
    missing."""
    tasks = tables["conditions"]["task"].to_list() if "conditions" in tables else []
    wishes = [
        "backward_desire was asked: in 93 of BigToM's 200 templates its two answers are the same, and the others "
        "are no sample of them; leave it out of what you report"
    ]
    return [*(wishes if "backward_desire" in tasks else []), *baselines.missing_warnings(tables)]


_ORDER = ("true_belief", "false_belief", "control", "true_control", "false_control", "no_event")


def _conditions_figure(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    """Without the best rule's share, because in a single condition one state of the world is always right."""
    rows = rows_of(tables, "conditions", "model strategy task condition init_belief accuracy ci_low ci_high")
    places = {name: place for place, name in enumerate(_ORDER)}
    ordered = sorted(
        rows, key=lambda row: (row["init_belief"], row["task"], places.get(str(row["condition"]), len(places)))
    )
    named = [{**row, "named": f"{_task_name(row)}, {readable_name(row['condition'])}"} for row in ordered]
    axis = Axis("share right", (0, 1), lambda part: chance_lines(chance, part))
    return small_multiples(figure, named, ("named", "strategy", "accuracy", "ci_low", "ci_high"), axis)


def _joint_figure(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    rows = rows_of(tables, "joint", "model strategy task init_belief joint joint_low joint_high chance")
    axis = Axis("share of templates", (0, 1), lambda part: [Line(0.25, "two guesses 0.25", (5, 3))])
    named = [
        {**row, "named": _task_name(row)} for row in sorted(rows, key=lambda row: (row["init_belief"], row["task"]))
    ]
    return small_multiples(figure, named, ("named", "strategy", "joint", "joint_low", "joint_high"), axis)


def _task_name(row: Row) -> str:
    """The task, and whether the story tells the first belief."""
    return f"{readable_name(row['task'])}{', first belief told' if row['init_belief'] else ''}"


def figures(tables: Tables, context: Context) -> list[Figure]:
    """Both figures, the second where there are templates with both beliefs."""
    makers: dict[str, Draw] = {"conditions": _conditions_figure}
    makers |= {"joint": _joint_figure} if "joint" in tables else {}
    return draw_figures(TEXTS.figure, makers, tables, context)


STUDY = Study(
    name="bigtom",
    tables=tables,
    notes=TEXTS.notes,
    intervals=("recommended", "published"),
    warnings=warnings,
    summary=TEXTS.excerpts,
    figures=figures,
    verdicts=verdicts,
    strata=("task", "condition"),
    labels={"task": "task", "condition": "condition", "init_belief": "initial belief"},
)
