"""The study of BigToM: who follows a belief where it differs from the world, forward and backward.

    tomserve analyze bigtom-mymodel --study bigtom

Two ways to count, by `--intervals`: *recommended* (the default) has intervals over templates, and a failure counts as
wrong; *published* takes every question as independent of the others. `notes` says what each table means.

accuracy            all questions, by model and strategy, beside the best rule that follows nobody's mind
conditions          by task, condition and initial belief, as in the paper
joint               templates of which the question with the true and that with the false belief are both right
false_minus_true    questions with a false belief minus those with a true one, by task
controls            questions with a false belief minus those with an event that changes nothing
initial_belief      with the sentence on what the person believed at first, minus without
order               by which answer is shown first, and which the question names first
official            our reading of the replies beside the authors' scoring
prompting_effects   each strategy against vanilla, the authors' reasoning against their direct question
baselines           every rule that follows nobody's mind
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from tomserve.studies import Context, Excerpt, Figure, Study, baselines
from tomserve.studies.contrasts import Record, contrast, pair, prompting_effects, share
from tomserve.studies.rows import REQUIRED, prepared, with_columns
from tomserve.studies.showing import Tables, in_brief

from .notes import NOTES, PUBLISHED
from .verdicts import verdicts

COLUMNS: Mapping[str, Any] = {
    **dict.fromkeys(("task", "condition"), pl.String),
    **dict.fromkeys(("init_belief", "answer_place"), pl.Int64),
    **dict.fromkeys(
        ("named_first", "usable", "metric_official", "metric_official_after_answer", "metric_both_keys"), pl.Boolean
    ),
}
"""The columns that the tables need besides those of every score table, with their types."""

ARMS = ("model", "strategy")
CONTROLS = ("false_control", "control")
"""The conditions that have the right answer of a false belief, without a misleading event."""

OFFICIAL = ("bigtom_0shot", "bigtom_cot")
"""The authors' strategies: the answer alone, and reasoning first."""

PLACE = ("cluster", "task", "init_belief")
"""What two conditions of a template have in common that are compared with each other."""


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study, by name; those without rows are left out.

    scores: a score table. intervals: the way to count, recommended or published. Raises ConfigError for a table that
    lacks a column.
    """
    kinds = baselines.Kinds.of(scores)
    rows = prepared(with_columns(scores, COLUMNS), (*REQUIRED, *COLUMNS, *kinds.columns)).collect()
    conditions = ("task", "condition", "init_belief")
    made: dict[str, list[Record]] = {
        "accuracy": [{**key, **baselines.accuracy(part, kinds, intervals)} for key, part in _groups(rows, ())],
        baselines.TABLE: [
            *baselines.table(rows.with_columns(condition=pl.lit("all")), kinds, ("model", "condition")),
            *baselines.table(rows, kinds, ("model", "condition")),
        ],
        "conditions": [
            {**key, **baselines.accuracy(part, kinds, intervals, brief=True)} for key, part in _groups(rows, conditions)
        ],
        "order": list(_order(rows)),
        "official": list(_official(rows)),
    }
    if intervals == "recommended":
        false, true = rows.filter(condition="false_belief"), rows.filter(condition="true_belief")
        control = rows.filter(pl.col("condition").is_in(CONTROLS))
        said, unsaid = rows.filter(init_belief=1), rows.filter(init_belief=0)
        made |= {
            "joint": list(_joint(pair(false, true, on=(*ARMS, *PLACE)))),
            "false_minus_true": list(_effects(pair(false, true, on=(*ARMS, *PLACE)), ("task", "init_belief"))),
            "controls": list(_effects(pair(false, control, on=(*ARMS, *PLACE)), ("task", "init_belief"))),
            "initial_belief": list(
                _effects(pair(said, unsaid, on=(*ARMS, "cluster", "task", "condition")), ("task", "condition"))
            ),
            "prompting_effects": list(_prompting(rows)),
        }
    return {
        name: pl.DataFrame(records, infer_schema_length=None).fill_nan(None)
        for name, records in made.items()
        if records
    }


def _groups(rows: pl.DataFrame, keys: Sequence[str]) -> Iterator[tuple[Record, pl.DataFrame]]:
    """The rows of each model and strategy, and value of the keys, in the order of their names."""
    named = [*ARMS, *keys]
    for values, part in rows.sort(named, maintain_order=True).group_by(named, maintain_order=True):
        yield dict(zip(named, values, strict=True)), part


def _joint(pairs: pl.DataFrame) -> Iterator[Record]:
    """How often both beliefs of a template are right, by task and initial belief. pairs: `correct` is that of the false
    belief, `control` that of the true one."""
    both = pairs.with_columns(
        false_right=pl.col("correct"),
        correct=pl.col("correct") & pl.col("control"),
        faulty=pl.col("faulty") | pl.col("control_faulty"),
    )
    for key, part in _groups(both, ("task", "init_belief")):
        found = share(part)
        false, true = (part.select(pl.col(name).mean()).item() for name in ("false_right", "control"))
        yield {
            **key,
            **{"templates": part["cluster"].n_unique(), "joint": found["accuracy"]},
            **{"joint_low": found["ci_low"], "joint_high": found["ci_high"]},
            **{"false_belief": false, "true_belief": true, "product": false * true, "chance": 0.25},
        }


def _effects(pairs: pl.DataFrame, keys: Sequence[str]) -> Iterator[Record]:
    for key, part in _groups(pairs, keys):
        yield {**key, **contrast(part, target="new templates")}


def _order(rows: pl.DataFrame) -> Iterator[Record]:
    """Accuracy by the place of the right answer among the choices, and in the question, by task and condition."""
    shown = rows.with_columns(shown=pl.col("answer_place") == 1, named=pl.col("named_first"))
    for by in ("shown", "named"):
        for key, part in _groups(shown.filter(pl.col(by).is_not_null()), ("task", "condition")):
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
        for key, part in _groups(rows, ()):
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


def notes(intervals: str) -> Mapping[str, str]:
    """What each table means, by its name. intervals: the way to count, recommended or published."""
    return PUBLISHED if intervals == "published" else NOTES


_EFFECT = "share_treated share_control risk_difference rd_low rd_high p"
SHOWN = {
    "accuracy": "model strategy correct total accuracy ci_low ci_high unread",
    "conditions": "model strategy task condition init_belief total accuracy ci_low ci_high",
    "joint": "model strategy task init_belief templates joint joint_low joint_high product chance",
    "false_minus_true": f"model strategy task init_belief {_EFFECT}",
    "controls": f"model strategy task init_belief {_EFFECT}",
    "initial_belief": f"model strategy task condition {_EFFECT}",
    "official": "model strategy scoring replies undecided official ours agree both_keys",
    "prompting_effects": f"model treatment control {_EFFECT}",
}
"""The columns of each table that the terminal prints."""


def summary(tables: Tables) -> list[Excerpt]:
    """What the terminal prints: of each table the columns that a reader needs first."""
    return in_brief(tables, SHOWN, {name: NOTES[name] for name in ("conditions", "joint", "official")})


def figures(tables: Tables, context: Context) -> Sequence[Figure]:
    """The figures of the report; drawing takes long to import, and only a report draws."""
    from .figures import figures as draw

    return draw(tables, context)


def warnings(tables: Tables) -> list[str]:
    """One line for each reason to doubt the numbers: questions about wishes, which are not usable, and rules that are
    missing."""
    tasks = tables["conditions"]["task"].to_list() if "conditions" in tables else []
    wishes = [
        "backward_desire was asked: in 93 of BigToM's 200 templates its two answers are the same, and the others "
        "are no sample of them; leave it out of what you report"
    ]
    return [*(wishes if "backward_desire" in tasks else []), *baselines.missing(tables)]


STUDY = Study(
    name="bigtom",
    tables=tables,
    notes=notes,
    intervals=("recommended", "published"),
    warnings=warnings,
    summary=summary,
    figures=figures,
    verdicts=verdicts,
    strata=("task", "condition"),
    labels={"task": "task", "condition": "condition", "init_belief": "initial belief"},
)
"""The value by which tomserve knows the study."""
