"""The perturbation study (arXiv 2602.22072), from a score table to every table of the paper.

    tomserve analyze perturbed-2-reference --study perturbed --out tables --format csv
    tomserve analyze perturbed-2-reference --intervals published

Two ways to count, by `--intervals`. *recommended* (the default): a failure is a wrong answer, and bounds say what it
may hide; intervals count tasks or stages, effects compare stories of the same stage, p is that of the test to which the
interval belongs, and is adjusted for ten classes; an undefined number is an empty cell. *published*: an item is left
out of a model's tables where the output of any of its strategies was faulty (`dropped`), every question counts as
independent, which it is not; an undefined number is nan. Shares are compared with one half as exact fractions in both.
`notes` says what each interval means and for whom.

accuracy              by class; `overall` pools all eleven classes
perturbation_effects  class against class "none"; published: same model and strategy, `overall` has its own control
                      among the treated, which understates it; recommended: tasks of the same stages
prompting_effects     strategy against vanilla on the same items
strategies            Cochran's Q where there are more than two strategies (recommended)
faithfulness          how chains go with right answers on the false-belief subset; sample published = all rows, faulty
                      ones as wrong with chain metrics 0, which inflates phi; complete = answered rows
criteria              ostensible: class none above 1/2; limited_robust: five of the ten classes; robust: all ten;
                      rules_robust, rules_limited_robust: the baselines that meet the same criterion
baselines             what rules that follow nobody's belief score on the same questions, by class
challenging           the classes among a model's five lowest effects (all that tie with the fifth are in; an effect of
                      0 or more, or of five classes or fewer, is not among them), for at least two thirds of the models
placebo               effect of the strategy where its chain was proper or not (false-belief subset)
subtasks, tasks       accuracy by scenario and question; how many of a task's questions are right
chains                means of the chain metrics; break_sentence, break_kind: where improper chains most often leave the
                      gold paths, `breaks`: how many do so there; floor_*: what knowing nothing scores
failures              by status, with the accuracy if all failures were wrong or all right

and, of a dataset whose stories come in several versions (recommended, on the false-belief subset):

roles                 accuracy by what the right answer is: the cue, the opposite, or unknown
pairs                 minimal pairs of stories: how many have both questions right
ground                stories that leave unstated what settles the belief, against those that state it
awareness             stories in which the person knows of the change, against those in which she does not
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from tomserve.benchmarks.perturbed.stages_1 import PERTURBATIONS, SCENARIOS
from tomserve.studies import Asked, Context, Figure, Layout, Study, Versions, baselines
from tomserve.studies.rows import REQUIRED
from tomserve.studies.showing import Chance, Tables, by_choices, mean_of

from . import notes, published, recommended, versions
from .counted import chains, failures, subtasks, tasks
from .criteria import challenging, counts_of, criteria, estimated_effects, exact_effects, with_rules, with_solved
from .doubts import warnings
from .rows import CONTROL, DESIGN, ordered, prepared, subsets, with_overall
from .summary import summary
from .verdicts import verdicts

LAYOUTS = {
    "accuracy": Layout("accuracy", ("ci_low", "ci_high"), "perturbation", "subset", above=0.5),
    "perturbation_effects": Layout("risk_difference", ("rd_low", "rd_high"), "perturbation", "subset"),
    "prompting_effects": Layout(
        "risk_difference", ("rd_low", "rd_high"), "perturbation", "subset", columns=("model", "treatment")
    ),
}
CONTRAST = "risk_difference rd_low rd_high relative_risk rr_low rr_high"
TESTS = (
    "share_treated share_control p p_adjusted verdict p_moderated p_moderated_adjusted p_sign_flip p_smallest "
    "p_failure failed_treated failed_control worst_low worst_high noise noise_high minimum_detectable_effect "
    "units_needed sd units tasks few_tasks target method zeros"
)
WITHIN = (
    "right_treated asked_treated right_control asked_control share_treated share_control risk_difference rd_low "
    "rd_high p stages target method"
)
COLUMNS = {
    "accuracy": "subset model strategy perturbation correct total accuracy ci_low ci_high",
    "perturbation_effects": f"subset model strategy perturbation {CONTRAST}",
    "prompting_effects": f"subset model perturbation treatment control {CONTRAST}",
    "strategies": "subset model q df p_value strategies n informative",
    "faithfulness": "model strategy sample metric coefficient value ci_low ci_high p_value n correlated",
    "criteria": "subset model strategy rule ostensible classes_above limited_robust robust classes_tested "
    "rules_robust rules_limited_robust",
    "challenging": "subset strategy perturbation models_in_top_five models challenging",
    "placebo": "model strategy perturbation chain risk_difference rd_low rd_high n verdict subset",
    baselines.TABLE: "subset model perturbation rule kind right total accuracy said",
    "roles": "model strategy perturbation role correct total accuracy ci_low ci_high",
    "pairs": "model strategy perturbation solved pairs share ci_low ci_high only_cue only_other neither",
    "ground": f"model strategy perturbation {WITHIN}",
    "awareness": f"model strategy {WITHIN}",
}
MORE = {
    "accuracy": "failed unread accuracy_dropped accuracy_high tasks few_tasks estimate target method "
    + baselines.COLUMNS,
    "perturbation_effects": f"{TESTS} p_permutation mh_risk_difference mh_risk_ratio",
    "prompting_effects": f"{TESTS} gained lost both neither mcnemar_exact mcnemar_mid_p tango_low tango_high n",
    "faithfulness": "within within_low within_high minimum maximum both only_chain only_answer neither "
    "auc auc_low auc_high within_auc method",
    "criteria": "classes_interval_above classes_joint robust_joint tasks_solved tasks",
    "placebo": "null null_sd",
    "roles": f"failed tasks few_tasks estimate target method {baselines.COLUMNS}",
    "pairs": f"failed tasks few_tasks estimate target method {baselines.COLUMNS}",
}
"""The columns that tables with recommended intervals have in addition to COLUMNS."""


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study, by name. scores: a score table; intervals: the way to count."""
    kinds = baselines.Kinds.of(scores)
    rows = prepared(scores, kinds.columns)
    return _published(rows, kinds) if intervals == "published" else _recommended(rows, kinds)


def _published(rows: pl.DataFrame, kinds: baselines.Kinds) -> dict[str, pl.DataFrame]:
    complete = rows.filter("complete")
    shares = published.accuracy(rows)
    counts = counts_of(shares)
    effects = ordered(published.perturbation_effects(counts), f"{COLUMNS['perturbation_effects']} note")
    named: dict[str, pl.DataFrame] = {
        "accuracy": shares,
        "perturbation_effects": effects,
        "prompting_effects": ordered(published.prompting_effects(rows), f"{COLUMNS['prompting_effects']} n note"),
        "faithfulness": ordered(published.faithfulness(rows), COLUMNS["faithfulness"]),
        "criteria": ordered(criteria(counts, with_rules(complete, kinds, {})), COLUMNS["criteria"]),
        "challenging": ordered(challenging(exact_effects(counts)), COLUMNS["challenging"]),
        "placebo": ordered(published.placebo(rows), COLUMNS["placebo"]),
    }
    return {**named, **_shared(rows, complete, kinds)}


def _recommended(rows: pl.DataFrame, kinds: baselines.Kinds) -> dict[str, pl.DataFrame]:
    records = list(recommended.accuracy(rows, kinds))
    effects = list(recommended.perturbation_effects(rows))
    shared = _shared(rows, rows, kinds)
    more = with_rules(rows, kinds, with_solved(shared["tasks"], recommended.criteria(rows, records)))
    counts = {(r["subset"], r["model"], r["strategy"], r["perturbation"]): (r["correct"], r["total"]) for r in records}
    by_name: dict[str, Iterator[dict[str, Any]]] = {
        "accuracy": iter(records),
        "perturbation_effects": iter(effects),
        "prompting_effects": recommended.prompting_effects(rows),
        "strategies": recommended.strategies(rows),
        "faithfulness": recommended.faithfulness(rows),
        "criteria": criteria(counts, more),
        "challenging": challenging(estimated_effects(effects)),
        "placebo": recommended.placebo(rows),
        **versions.tables(rows, kinds),
    }
    frames = {name: ordered(made, f"{COLUMNS[name]} {MORE.get(name, '')}") for name, made in by_name.items()}
    return {name: _undefined_empty(frame) for name, frame in {**frames, **shared}.items()}


def _shared(rows: pl.DataFrame, sample: pl.DataFrame, kinds: baselines.Kinds) -> dict[str, pl.DataFrame]:
    listed = baselines.table(with_overall(subsets(sample)), kinds, ("subset", "model", "perturbation"))
    return {
        baselines.TABLE: ordered(listed, COLUMNS[baselines.TABLE]),
        "subtasks": subtasks(sample),
        "tasks": tasks(rows),
        "chains": chains(rows),
        "failures": failures(rows),
    }


def _undefined_empty(frame: pl.DataFrame) -> pl.DataFrame:
    floats = [name for name, kind in frame.schema.items() if kind.is_float()]
    return frame.with_columns(pl.when(pl.col(name).is_finite()).then(pl.col(name)).alias(name) for name in floats)


def figures(tables: Tables, context: Context) -> Sequence[Figure]:
    """The figures of the report; drawing takes long to import, and only a report draws."""
    from .figures import figures as draw

    return draw(tables, context)


def chance(items: Iterable[Asked]) -> Chance:
    """What a blind guess scores: the mean of 1 / number of choices, over all asked items ("all") and over those of the
    false-belief subset."""
    every: list[float] = []
    belief: list[float] = []
    for item in items:
        every.append(1 / item.choices)
        if (item.factors.get("scenario"), item.factors.get("question_kind")) == ("false_belief", "belief"):
            belief.append(1 / item.choices)
    shares = {"all": mean_of(every), "false_belief": mean_of(belief)}
    return Chance({name: share for name, share in shares.items() if share is not None}, by_choices(()).meaning)


def notes_of(intervals: str) -> Mapping[str, str]:
    """What each table means, by its name. intervals: the way to count, recommended or published."""
    return notes.RECOMMENDED if intervals == "recommended" else notes.PUBLISHED


STUDY = Study(
    name="perturbed",
    tables=tables,
    required=(*REQUIRED, *DESIGN),
    values={
        "perturbation": PERTURBATIONS,
        "scenario": tuple(dict.fromkeys(name for names in SCENARIOS.values() for name in names)),
        "question_kind": ("reality", "belief"),
    },
    intervals=("recommended", "published"),
    notes=notes_of,
    warnings=warnings,
    summary=summary,
    layouts=LAYOUTS,
    figures=figures,
    verdicts=verdicts,
    chance=chance,
    versions=Versions("perturbation", CONTROL, ("stage", "scenario", "question_kind", "swapped")),
    strata=("scenario", "question_kind"),
    labels={"perturbation": "Class", "stage": "Stage", "scenario": "Scenario", "question_kind": "Question"},
)
