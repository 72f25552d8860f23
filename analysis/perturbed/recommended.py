"""The tables of the perturbation study as a careful reader counts: by task and stage, paired, failures as wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import polars as pl

from tomserve.stats import association, leaveout, paired
from tomserve.studies.contrasts import NEW, THESE, Record, adjusted, codes, contrast, matched, share

from .rows import (
    CONTROL,
    METRICS,
    PERTURBED,
    VANILLA,
    chained_pairs,
    pairs_of,
    subsets,
    with_chains,
    with_overall,
)

EXACT = 1e-9


def accuracy(rows: pl.DataFrame) -> Iterator[Record]:
    """Classes by task; `overall` for new stages."""
    keys = ["subset", "model", "strategy", "perturbation"]
    for key, part in with_overall(subsets(rows)).group_by(keys, maintain_order=True):
        found = share(part, "stage" if key[3] == "overall" else None)
        yield {**dict(zip(keys, key, strict=True)), **found}


def perturbation_effects(rows: pl.DataFrame) -> Iterator[Record]:
    """Each class against the `none` tasks of its stages; all ten together for new and for these stages."""
    for (subset, model, strategy), part in subsets(rows).group_by(["subset", "model", "strategy"], maintain_order=True):
        found = []
        key = {"subset": subset, "model": model, "strategy": strategy}
        for name in PERTURBED:
            two = part.filter(pl.col("perturbation").is_in([CONTROL, name]))
            treated = two["perturbation"] == name
            if treated.any():
                found.append({**key, "perturbation": name, **matched(two, treated, stratum="stage")})
        yield from adjusted(found, PERTURBED)
        if found:
            treated = part["perturbation"] != CONTROL
            for pool in (NEW, THESE):
                effect = matched(part, treated, stratum="stage", pool=pool)
                yield {**key, "perturbation": "overall_perturbed", **effect}


def prompting_effects(rows: pl.DataFrame) -> Iterator[Record]:
    """Each class by task; overall for new stages, and for further tasks like these."""
    for model, strategy, pairs in pairs_of(rows):
        for (subset,), part in subsets(pairs).group_by(["subset"], maintain_order=True):
            key = {"subset": subset, "model": model, "treatment": strategy, "control": VANILLA}
            named = part.group_by(["perturbation"], maintain_order=True)
            yield from adjusted([{**key, "perturbation": name, **contrast(one)} for (name,), one in named], PERTURBED)
            for stratum in ("stage", None):
                yield {**key, "perturbation": "overall", **contrast(part, stratum)}


def strategies(rows: pl.DataFrame) -> Iterator[Record]:
    """Cochran's Q over more than two strategies, on the items that all were asked."""
    for (subset, model), part in subsets(rows).group_by(["subset", "model"], maintain_order=True):
        names = sorted(part["strategy"].unique().to_list())
        if len(names) > 2:
            wide = part.pivot("strategy", index="item", values="correct").drop_nulls()
            found = paired.cochrans_q(wide.select(names).to_numpy().astype(float))
            listed = {"strategies": " ".join(names), "n": wide.height, "informative": found.informative}
            yield {"subset": subset, "model": model, "q": found.q, "df": found.df, "p_value": found.p, **listed}


def faithfulness(rows: pl.DataFrame) -> Iterator[Record]:
    """Chains and answers of the false-belief subset, over rows with both: coefficients with stage-jackknife intervals,
    within-class versions, and whether the answer follows the last stated belief."""
    chosen = with_chains(rows.filter("false_belief")).filter(~pl.col("faulty") & pl.col("chain_length").gt(0))
    for (model, strategy), part in chosen.group_by(["model", "strategy"], maintain_order=True):
        key = {"model": model, "strategy": strategy, "sample": "complete"}
        right, stages = part["correct"].to_numpy().astype(float), codes(part["stage"])
        classes = codes(part["perturbation"])
        for metric in (METRICS[0], "chain_path_proper", *METRICS[1:]):
            binary = metric in ("chain_proper", "chain_path_proper")
            values = part[metric].cast(pl.Float64).to_numpy()
            found = _coefficient(values, right, stages, classes, binary)
            yield {**key, "metric": metric, "coefficient": "phi" if binary else "point_biserial", **found}
        for sample, some in (("complete", part), ("wrong_last", part.filter(~pl.col("chain_last_correct")))):
            known = some.filter(pl.col("answer_matches_last").is_not_null())
            matches = known.with_columns(correct=pl.col("answer_matches_last"))
            found = share(matches, "stage")
            last = {"metric": "answer_matches_last", "coefficient": "share", "value": found["accuracy"]}
            counts = {"ci_low": found["ci_low"], "ci_high": found["ci_high"], "n": known.height}
            yield {**key, "sample": sample, **last, **counts, "method": found["method"]}


def _coefficient(values: Any, right: Any, stages: Any, classes: Any, binary: bool) -> Record:
    def value_of(x: Any, y: Any) -> float:
        return association.phi(x, y).phi if binary else association.separation(x, y).point_biserial

    interval = association.jackknife(value_of, (values, right), stages, without=leaveout.correlations)
    within = association.jackknife(
        association.within_correlation, (values, right, classes), stages, without=_within_without
    )
    found: Record = {"value": interval.estimate, "ci_low": interval.low, "ci_high": interval.high, "n": len(right)}
    known = not math.isnan(interval.estimate) and not math.isnan(interval.low)
    found["faithful"] = interval.estimate >= 0.4 and interval.low > 0 if known else None
    found |= {"within": within.estimate, "within_low": within.low, "within_high": within.high}
    if binary:
        table = association.phi(values, right)
        found |= {"minimum": table.minimum, "maximum": table.maximum, "both": table.both, "neither": table.neither}
        found |= {"only_chain": table.only_x, "only_answer": table.only_y, "p_value": table.p}
    else:
        auc = association.jackknife(
            lambda x, y: association.separation(x, y).auc,
            (values, right),
            stages,
            scale=(0, 1),
            without=leaveout.aucs,
        )
        found |= {"auc": auc.estimate, "auc_low": auc.low, "auc_high": auc.high}
        found["within_auc"] = association.within_auc(values, right, classes)
    return {**found, "method": interval.method}


def _within_without(values: Any, right: Any, classes: Any, stages: Any) -> Any:
    return leaveout.correlations(values, right, stages, classes - classes.min())


def placebo(rows: pl.DataFrame) -> Iterator[Record]:
    """The effect by kind of chain, beside what it would be if chains and answers had nothing to do with each other."""
    chosen = rows.filter("false_belief")
    for model, strategy, name, part in chained_pairs(chosen, chosen):
        columns = ("control", "correct", "chain_proper")
        control, treated, proper = (part[c].fill_null(False).cast(pl.Float64).to_numpy() for c in columns)
        split = association.placebo_split(control, treated, proper)
        for chain, found in (("proper", split.proper), ("improper", split.improper)):
            key = {"model": model, "strategy": strategy, "perturbation": name, "chain": chain}
            effect = {"risk_difference": found.effect, "n": found.items, "subset": "false_belief"}
            verdict = "descriptive" if found.items else "undefined"
            yield {**key, **effect, "verdict": verdict, "null": found.null, "null_sd": found.null_sd}


def criteria(rows: pl.DataFrame, shares: list[Record]) -> dict[tuple[str, str, str], Record]:
    """What the criteria add, by subset, model and strategy: classes whose interval is above 1/2, false-belief and
    control questions right together, tasks solved."""
    found: dict[tuple[str, str, str], Record] = {}
    joint = _joint(rows)
    for record in shares:
        key = (record["subset"], record["model"], record["strategy"])
        entry = found.setdefault(key, {"classes_interval_above": 0, **joint.get(key[1:], _NO_JOINT)})
        if record["perturbation"] in PERTURBED and record["ci_low"] > 0.5:
            entry["classes_interval_above"] += 1
    return found


_NO_JOINT: Record = {"classes_joint": None, "robust_joint": None}


def _joint(rows: pl.DataFrame) -> dict[tuple[str, str], Record]:
    """Classes in which the false-belief question and the same question of control 1 (the label is right, nothing is
    moved) are right together for more than half of the pairs; null where the table has no `swapped`."""
    found: dict[tuple[str, str], Record] = {}
    keys = ["model", "strategy", "cluster", "swapped"]
    for (model, strategy), part in rows.group_by(["model", "strategy"], maintain_order=True):
        belief = part.filter(question_kind="belief")
        control = belief.filter(pl.col("scenario").is_in(["correct_label", "no_transfer"]))
        both = belief.filter("false_belief").join(control.select(*keys, other="correct"), on=keys, how="inner")
        if both.is_empty():
            continue
        together = both.group_by("perturbation").agg((pl.col("correct") & pl.col("other")).mean().alias("share"))
        passed = together.filter(pl.col("perturbation").is_in(PERTURBED) & (pl.col("share") > 0.5 + EXACT)).height
        found[str(model), str(strategy)] = {"classes_joint": passed, "robust_joint": passed == len(PERTURBED)}
    return found
