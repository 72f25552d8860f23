"""The perturbation study (arXiv 2602.22072), from a score table to every table of the paper.

    tomserve analyze perturbed-reference --study perturbed --out tables --format csv
    tomserve analyze perturbed-reference --intervals published

Two ways to count, by `--intervals`. *recommended* (the default): a failure is a wrong answer, what it may hide is
given as bounds; the unit is the task or the stage, effects are matched by stage, tests flip signs, p is adjusted over
the ten classes; undefined is empty. *published*: an item is left out of a model's tables where the output of any of its
strategies was faulty (`dropped`), every question counts as independent, which it is not; undefined is nan. Shares are
compared with 1/2 as fractions in both. `notes` says what each interval means and for whom.

accuracy              by class; `overall` pools all eleven classes
perturbation_effects  class against class "none"; published: same model and strategy, `overall` has its own control
                      among the treated, which understates it; recommended: tasks of the same stages
prompting_effects     strategy against vanilla on the same items
strategies            Cochran's Q where there are more than two strategies (recommended)
faithfulness          how chains go with right answers on the false-belief subset; sample published = all rows, faulty
                      ones as wrong with chain metrics 0, which inflates phi; complete = answered rows
criteria              ostensible: class none above 1/2; limited_robust: five of the ten classes; robust: all ten
challenging           the classes among a model's five lowest effects (all that tie with the fifth are in; an effect of
                      0 or more, or of five classes or fewer, is not among them), for at least two thirds of the models
placebo               effect of the strategy where its chain was proper or not (false-belief subset)
subtasks, tasks       accuracy by scenario and question; how many of a task's 16 questions are right
chains                means of the chain metrics; break_sentence, break_kind: where improper chains most often leave the
                      gold paths, `breaks`: how many do so there; floor_*: what knowing nothing scores
failures              by status, with the accuracy if all failures were wrong or all right
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import _perturbed_notes
import _perturbed_published as published
import _perturbed_recommended as recommended
import polars as pl
from _perturbed_rows import (
    CONTROL,
    MORE_METRICS,
    PERTURBED,
    REQUIRED,
    in_order,
    ordered,
    prepared,
    with_chains,
    with_overall,
)

from tomserve.benchmarks.perturbed.stagefile import PERTURBATIONS, SCENARIOS
from tomserve.reporting.layout import Layout
from tomserve.studies.noise import shown as shown_noise

__all__ = ["INTERVALS", "LAYOUTS", "REQUIRED", "VALUES", "notes", "summary", "tables", "warnings"]
VALUES = {
    "perturbation": PERTURBATIONS,
    "scenario": tuple(dict.fromkeys(name for names in SCENARIOS.values() for name in names)),
    "question_kind": ("reality", "belief"),
}
INTERVALS = ("recommended", "published")
SUBTASKS = 16
NEW_STAGES = "new stages"
LAYOUTS = {
    "accuracy": Layout("accuracy", ("ci_low", "ci_high"), columns=("model", "strategy"), above=0.5),
    "perturbation_effects": Layout("risk_difference", ("rd_low", "rd_high"), columns=("model", "strategy")),
    "prompting_effects": Layout("risk_difference", ("rd_low", "rd_high"), columns=("model", "treatment")),
}
CONTRAST = "risk_difference rd_low rd_high relative_risk rr_low rr_high"
TESTS = (
    "p_sign_flip p_smallest p_adjusted p_adjusted_smallest p_t bound_low bound_high detectable_sd "
    "units tasks few_tasks target method zeros"
)
COLUMNS = {
    "accuracy": "subset model strategy perturbation correct total accuracy ci_low ci_high",
    "perturbation_effects": f"subset model strategy perturbation {CONTRAST}",
    "prompting_effects": f"subset model perturbation treatment control {CONTRAST}",
    "strategies": "subset model q df p_value strategies n informative",
    "faithfulness": "model strategy sample metric coefficient value ci_low ci_high p_value n faithful",
    "criteria": "subset model strategy rule ostensible classes_above limited_robust robust classes_tested",
    "challenging": "subset strategy perturbation models_in_top_five models challenging",
    "placebo": "model strategy perturbation chain risk_difference rd_low rd_high n verdict subset",
}
MORE = {
    "accuracy": "failed accuracy_dropped accuracy_high tasks few_tasks estimate target method",
    "perturbation_effects": f"{TESTS} p_permutation mh_risk_difference mh_risk_ratio",
    "prompting_effects": f"{TESTS} gained lost both neither mcnemar_exact mcnemar_mid_p tango_low tango_high "
    "p_failure n",
    "faithfulness": "within within_low within_high minimum maximum both only_chain only_answer neither "
    "auc auc_low auc_high within_auc method",
    "criteria": "classes_interval_above classes_joint robust_joint tasks_solved tasks",
    "placebo": "null null_sd",
}
"""What recommended tables have beyond COLUMNS."""

Arm = tuple[str, str, str]


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study, by name. scores: a score table; intervals: one of INTERVALS."""
    rows = prepared(scores)
    if intervals == "published":
        shares = published.accuracy(rows)
        counts = _counts(shares)
        effects = ordered(published.perturbation_effects(counts), f"{COLUMNS['perturbation_effects']} note")
        found = {
            "accuracy": shares,
            "perturbation_effects": effects,
            "prompting_effects": ordered(published.prompting_effects(rows), f"{COLUMNS['prompting_effects']} n note"),
            "faithfulness": ordered(published.faithfulness(rows), COLUMNS["faithfulness"]),
            "criteria": ordered(_criteria(counts, {}), COLUMNS["criteria"]),
            "challenging": ordered(_challenging(_exact_effects(counts)), COLUMNS["challenging"]),
            "placebo": ordered(published.placebo(rows), COLUMNS["placebo"]),
        }
        return {**found, **_shared(rows, rows.filter("complete"))}
    records = list(recommended.accuracy(rows))
    effects = list(recommended.perturbation_effects(rows))
    shared = _shared(rows, rows)
    more = _solved(shared["tasks"], recommended.criteria(rows, records))
    counts = {
        tuple(r[name] for name in ("subset", "model", "strategy", "perturbation")): (r["correct"], r["total"])
        for r in records
    }
    by_name = {
        "accuracy": iter(records),
        "perturbation_effects": iter(effects),
        "prompting_effects": recommended.prompting_effects(rows),
        "strategies": recommended.strategies(rows),
        "faithfulness": recommended.faithfulness(rows),
        "criteria": _criteria(counts, more),
        "challenging": _challenging(_estimated_effects(effects)),
        "placebo": recommended.placebo(rows),
    }
    found = {name: ordered(made, f"{COLUMNS[name]} {MORE.get(name, '')}") for name, made in by_name.items()}
    return {name: _undefined_empty(frame) for name, frame in {**found, **shared}.items()}


def _shared(rows: pl.DataFrame, sample: pl.DataFrame) -> dict[str, pl.DataFrame]:
    return {"subtasks": _subtasks(sample), "tasks": _tasks(rows), "chains": _chains(rows), "failures": _failures(rows)}


def _undefined_empty(frame: pl.DataFrame) -> pl.DataFrame:
    floats = [name for name, kind in frame.schema.items() if kind.is_float()]
    return frame.with_columns(pl.when(pl.col(name).is_finite()).then(pl.col(name)).alias(name) for name in floats)


def _counts(shares: pl.DataFrame) -> published.Counts:
    rows = shares.select("subset", "model", "strategy", "perturbation", "correct", "total").iter_rows()
    return {(row[0], row[1], row[2], row[3]): (row[4], row[5]) for row in rows}


def _criteria(counts: published.Counts, more: dict[Arm, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for (subset, model, strategy), cells in published.arms(counts):
        for rule in ("strict", "lenient"):

            def above(name: str, cells: dict[str, tuple[int, int]] = cells, rule: str = rule) -> bool:
                correct, total = cells.get(name, (0, 0))
                return total > 0 and (2 * correct > total if rule == "strict" else 2 * correct >= total)

            passed = sum(map(above, PERTURBED))
            key = {"subset": subset, "model": model, "strategy": strategy, "rule": rule}
            verdicts = {"limited_robust": passed >= 5, "robust": passed == len(PERTURBED)}
            tested = sum(cells.get(name, (0, 0))[1] > 0 for name in PERTURBED)
            found = {**key, "ostensible": above(CONTROL), "classes_above": passed, **verdicts, "classes_tested": tested}
            yield {**found, **more.get((subset, model, strategy), {})}


def _solved(tasks: pl.DataFrame, more: dict[Arm, dict[str, Any]]) -> dict[Arm, dict[str, Any]]:
    for (model, strategy), part in tasks.group_by(["model", "strategy"]):
        for subset in ("all", "false_belief"):
            if (entry := more.get((subset, str(model), str(strategy)))) is not None:
                entry |= {"tasks_solved": int(part["solved"].fill_null(False).sum()), "tasks": part.height}
    return more


def _exact_effects(counts: published.Counts) -> dict[Arm, dict[str, Fraction]]:
    found = {}
    for arm, cells in published.arms(counts):
        k0, n0 = cells.get(CONTROL, (0, 0))
        counted = {name: cells[name] for name in PERTURBED if name in cells and cells[name][1] and n0}
        found[arm] = {name: Fraction(k, n) - Fraction(k0, n0) for name, (k, n) in counted.items()}
    return found


def _estimated_effects(records: list[dict[str, Any]]) -> dict[Arm, dict[str, Fraction]]:
    found: dict[Arm, dict[str, Fraction]] = {}
    for r in records:
        if r["perturbation"] in PERTURBED and math.isfinite(r["risk_difference"]):
            # Means of shares of few questions: the nearest such fraction undoes the rounding, so that ties are ties.
            effect = Fraction(r["risk_difference"]).limit_denominator(100_000)
            found.setdefault((r["subset"], r["model"], r["strategy"]), {})[r["perturbation"]] = effect
    return found


def _challenging(effects: dict[Arm, dict[str, Fraction]]) -> Iterator[dict[str, Any]]:
    low: dict[tuple[str, str, str], int] = {}
    models: dict[tuple[str, str, str], int] = {}
    for (subset, _, strategy), by_class in effects.items():
        fifth = sorted(by_class.values())[:5][-1:]
        for name, effect in by_class.items():
            key = (subset, strategy, name)
            models[key] = models.get(key, 0) + 1
            low[key] = low.get(key, 0) + (effect <= fifth[0] and effect < 0 and len(by_class) > 5)
    for (subset, strategy, name), total in models.items():
        count = low[subset, strategy, name]
        found = {"subset": subset, "strategy": strategy, "perturbation": name}
        yield {**found, "models_in_top_five": count, "models": total, "challenging": 3 * count >= 2 * total}


def warnings(found: dict[str, pl.DataFrame]) -> list[str]:
    """What makes an effect doubtful: strategies that failed on different items, which looks like an effect, or that
    were not asked the same."""
    effects = found["prompting_effects"]
    if "p_failure" not in effects.columns or effects.is_empty():
        return []
    totals = found["accuracy"].filter(perturbation="overall").select("subset", "model", "strategy", "total")
    asked = {tuple(row[:3]): row[3] for row in totals.iter_rows()}
    said = {}
    for row in effects.filter(perturbation="overall").iter_rows(named=True):
        subset, model, treatment, control = (row[name] for name in ("subset", "model", "treatment", "control"))
        most = max(asked.get((subset, model, strategy), 0) for strategy in (treatment, control))
        if row["n"] < most:
            both = f"({subset}): {row['n']} of {most} compare"
            said[f"{model}: {treatment} and {control} were asked different items {both}"] = 1
        if row["p_failure"] is not None and row["p_failure"] < 0.05:
            p = f"p {row['p_failure']:.3f}, {subset}"
            said[f"{model}: {treatment} and {control} failed on different items ({p}); read the effect's bounds"] = 1
    return list(said)


def notes(intervals: str) -> dict[str, str]:
    """One line a table: what its interval means, and for which population."""
    return _perturbed_notes.RECOMMENDED if intervals == "recommended" else _perturbed_notes.PUBLISHED


def _subtasks(rows: pl.DataFrame) -> pl.DataFrame:
    keys = ["model", "strategy", "perturbation", "scenario", "question_kind"]
    counted = rows.group_by(keys, maintain_order=True)
    counts = counted.agg(pl.col("correct").sum().cast(pl.Int64), pl.len().cast(pl.Int64).alias("total"))
    return in_order(counts.sort("question_kind").with_columns((pl.col("correct") / pl.col("total")).alias("accuracy")))


def _tasks(rows: pl.DataFrame) -> pl.DataFrame:
    right, asked = pl.col("subtasks_right"), pl.col("subtasks")
    counted = rows.group_by("model", "strategy", "stage", "perturbation", maintain_order=True).agg(
        pl.col("correct").sum().cast(pl.Int64).alias("subtasks_right"), pl.len().cast(pl.Int64).alias("subtasks")
    )
    # All right but not all asked: nobody knows.
    solved = pl.when(right < asked).then(False).when(asked == SUBTASKS).then(True).otherwise(None)
    return in_order(counted.with_columns(solved.alias("solved"))).select(pl.exclude("subtasks"), "subtasks")


def _chains(rows: pl.DataFrame) -> pl.DataFrame:
    keys = ["model", "strategy", "perturbation"]
    every = with_overall(with_chains(rows))
    means = [pl.col(f"chain_{name}").mean().alias(name) for name in ("lcs", "lcps", "transitions")]
    more = [pl.col(f"chain_{name}").mean().alias(name) for name in MORE_METRICS]
    floors = [pl.col(name).mean() for name in rows.columns if name.startswith("floor_")]
    proper = pl.col("chain_proper")
    summed = every.group_by(keys, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("total"),
        proper.sum().cast(pl.Int64).alias("proper"),
        proper.mean().alias("proper_share"),
        *means,
        *more,
        pl.col("answer_matches_last").mean(),
        *floors,
    )
    places = every.filter(pl.col("chain_break_kind").is_not_null())
    breaks = (
        places.group_by(
            *keys, pl.col("chain_break").alias("break_sentence"), pl.col("chain_break_kind").alias("break_kind")
        )
        .agg(pl.len().cast(pl.Int64).alias("breaks"))
        .sort("breaks", "break_sentence", "break_kind", descending=[True, False, False])
        .unique(keys, keep="first", maintain_order=True)
    )
    joined = summed.join(breaks, on=keys, how="left").with_columns(pl.col("breaks").fill_null(0))
    first = [*keys, "total", "proper", "proper_share", "lcs", "lcps", "transitions"]
    return in_order(joined).select(
        *first, "break_sentence", "break_kind", "breaks", pl.exclude(*first, *breaks.columns)
    )


def _failures(rows: pl.DataFrame) -> pl.DataFrame:
    keys = ["model", "strategy", "perturbation"]
    every = with_overall(rows)
    cells = every.group_by(keys, maintain_order=True).agg(
        pl.len().alias("asked"), pl.col("correct").sum().alias("right"), pl.col("faulty").sum().alias("failed")
    )
    counted = (
        every.filter("faulty")
        .group_by(*keys, "status", maintain_order=True)
        .agg(pl.len().cast(pl.Int64).alias("count"))
    )
    joined = counted.join(cells, on=keys).with_columns(
        (pl.col("count") / pl.col("asked")).alias("share"),
        (pl.col("right") / pl.col("asked")).alias("accuracy_low"),
        ((pl.col("right") + pl.col("failed")) / pl.col("asked")).alias("accuracy_high"),
    )
    return in_order(joined.select(*keys, "status", "count", "share", "accuracy_low", "accuracy_high"))


def summary(found: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables to print: classes down, strategies across, ``k/n share [interval]``; two strategies fit 80 columns."""
    cell = pl.format("{}/{} {}", "correct", "total", _shown("accuracy", "ci_low", "ci_high"))
    shown = {}
    titles = {"all": "all questions", "false_belief": "false-belief subset"}
    by_task = "method" in found["accuracy"].columns
    kind = "intervals by task" if by_task else "published intervals"
    for (subset, model), part in found["accuracy"].group_by(["subset", "model"], maintain_order=True):
        wide = part.with_columns(cell.alias("cell")).pivot("strategy", index="perturbation", values="cell")
        shown[f"{model}: accuracy, {titles[str(subset)]} ({kind})"] = wide
    if by_task:
        effects = []
        for name, what in (("perturbation_effects", "perturbed"), ("prompting_effects", None)):
            part = found[name].filter(target=NEW_STAGES).filter(pl.col("perturbation").str.starts_with("overall"))
            if not part.is_empty():
                contrast = (
                    pl.format("{} against none, {}", pl.lit(what), "strategy")
                    if what
                    else pl.format("{} against {}", "treatment", "control")
                )
                effect = _shown("risk_difference", "rd_low", "rd_high").alias("effect [95%]")
                p = pl.col("p_permutation" if what else "p_sign_flip").round(3).alias("p")
                effects.append(
                    part.select("subset", "model", contrast.alias("contrast"), effect, p, *shown_noise(part))
                )
        if effects:
            shown["effects for new stages, matched or paired: read these, not whether intervals overlap"] = pl.concat(
                effects, how="diagonal_relaxed"
            )
    kept = ["ostensible", "classes_above", "limited_robust", "robust", *(["tasks_solved"] if by_task else [])]
    verdicts = found["criteria"].filter(rule="strict").select("subset", "model", "strategy", *kept)
    shown["theory of mind by the paper's criteria (more than half right)"] = verdicts
    return shown


def _shown(value: str, low: str, high: str) -> pl.Expr:
    columns = [pl.col(name).map_elements(_share, pl.String, skip_nulls=False) for name in (value, low, high)]
    return pl.format("{} [{}, {}]", *columns)


def _share(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return "?"
    return f"{value:.2f}".replace("0.", ".", 1)
