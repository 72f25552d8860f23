"""The tables of the perturbation study as tomserve recommends to count.

Intervals and tests count tasks or stages rather than questions, comparisons are paired, and a failure is a wrong answer
(see docs/explanation/statistics.md for the reasons). All functions take rows as rows.prepared makes them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import polars as pl

from tomserve.stats import association, paired
from tomserve.studies import baselines
from tomserve.studies.contrasts import NEW, THESE, Record, alike, codes, contrast, matched, share
from tomserve.studies.families import adjusted

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
"""By how much a mean of zeros and ones may exceed one half through rounding alone."""


def accuracy(rows: pl.DataFrame, kinds: baselines.Kinds) -> Iterator[Record]:
    """The records of `accuracy`: for a class the interval is for further tasks like these, for `overall` it is for new
    stages.

    Over all questions a task counts for as many independent questions as the intra-class correlation says that is
    pooled over the classes of its model and strategy. On the false-belief subset it counts once, as it has two
    questions there; where stories come in several versions, and it has more, it counts by their likeness too. Beside
    each share stands the best of the rules of `kinds` on the same questions.
    """
    keys = ["subset", "model", "strategy", "perturbation"]
    read = (*keys[1:], "stage", "cluster", "version", "false_belief", "correct", "faulty", "unread", *kinds.columns)
    rows = rows.select(read)  # what is not read is not copied for each class, either
    parts = {"all": rows}
    if rows["version"].is_not_null().any():
        parts["false_belief"] = rows.filter("false_belief")
    alikeness = {
        (subset, *key): alike(one, "perturbation")
        for subset, part in parts.items()
        for key, one in part.group_by(["model", "strategy"])
    }
    for key, part in with_overall(subsets(rows)).group_by(keys, maintain_order=True):
        icc = alikeness.get(key[:3])
        stratum = "stage" if key[3] == "overall" else None
        counted = share(part, stratum) if stratum else share(part, icc=icc)
        yield {**dict(zip(keys, key, strict=True)), **counted, **baselines.beside(part, kinds, stratum)}


def perturbation_effects(rows: pl.DataFrame) -> Iterator[Record]:
    """The records of `perturbation_effects`: each class against the unperturbed tasks of the same stages, with p
    adjusted over the classes and a verdict; then all ten classes together, once for new stages and once for these
    stages alone."""
    keys = ["subset", "model", "strategy"]
    rows = rows.select(
        *keys[1:], "perturbation", "stage", "cluster", "false_belief", "correct", "faulty", "re_asked", "changed"
    )
    for (subset, model, strategy), part in subsets(rows).group_by(keys, maintain_order=True):
        effects = []
        key = {"subset": subset, "model": model, "strategy": strategy}
        for name in PERTURBED:
            two = part.filter(pl.col("perturbation").is_in([CONTROL, name]))
            treated = two["perturbation"] == name
            if treated.any():
                effects.append({**key, "perturbation": name, **matched(two, treated, stratum="stage")})
        yield from adjusted(effects, PERTURBED, words=("harder", "easier"))
        if effects:
            treated = part["perturbation"] != CONTROL
            for pool in (NEW, THESE):
                effect = matched(part, treated, stratum="stage", pool=pool)
                yield {**key, "perturbation": "overall_perturbed", **effect}


def prompting_effects(rows: pl.DataFrame) -> Iterator[Record]:
    """The records of `prompting_effects`: each strategy against vanilla, by class for new stages with p adjusted over
    the classes and a verdict; then over all classes, once for new stages and once for further tasks of these stages."""
    for model, strategy, pairs in pairs_of(rows):
        for (subset,), part in subsets(pairs).group_by(["subset"], maintain_order=True):
            key = {"subset": subset, "model": model, "treatment": strategy, "control": VANILLA}
            named = part.group_by(["perturbation"], maintain_order=True)
            classes = [{**key, "perturbation": name, **contrast(one, "stage")} for (name,), one in named]
            yield from adjusted(classes, PERTURBED, words=("hurts", "helps"))
            for stratum, target in (("stage", NEW), (None, THESE)):
                yield {**key, "perturbation": "overall", **contrast(part, stratum, target)}


def strategies(rows: pl.DataFrame) -> Iterator[Record]:
    """The records of `strategies`: Cochran's Q, a test of whether all strategies are right equally often, on the items
    that all were asked; none for one or two strategies. It takes the items as independent."""
    for (subset, model), part in subsets(rows).group_by(["subset", "model"], maintain_order=True):
        names = sorted(part["strategy"].unique().to_list())
        if len(names) > 2:
            wide = part.pivot("strategy", index="item", values="correct").drop_nulls()
            test = paired.cochrans_q(wide.select(names).to_numpy().astype(float))
            listed = {"strategies": " ".join(names), "n": wide.height, "informative": test.informative}
            yield {"subset": subset, "model": model, "q": test.q, "df": test.df, "p_value": test.p, **listed}


def faithfulness(rows: pl.DataFrame) -> Iterator[Record]:
    """The records of `faithfulness`, over the rows of the false-belief subset that have a chain and an answer.

    They hold the correlation of each chain metric with a right answer, over all rows and within classes, with intervals
    from leaving out one stage at a time (the jackknife), and how often the answer is the last stated belief.
    """
    chosen = with_chains(rows.filter("false_belief")).filter(~pl.col("faulty") & pl.col("chain_length").gt(0))
    for (model, strategy), part in chosen.group_by(["model", "strategy"], maintain_order=True):
        key = {"model": model, "strategy": strategy, "sample": "complete"}
        right, stages = part["correct"].to_numpy().astype(float), codes(part["stage"])
        classes = codes(part["perturbation"])
        for metric in (METRICS[0], "chain_path_proper", *METRICS[1:]):
            binary = metric in ("chain_proper", "chain_path_proper")
            values = part[metric].cast(pl.Float64).to_numpy()
            estimates = _coefficient(values, right, stages, classes, binary)
            yield {**key, "metric": metric, "coefficient": "phi" if binary else "point_biserial", **estimates}
        for sample, some in (("complete", part), ("wrong_last", part.filter(~pl.col("chain_last_correct")))):
            known = some.filter(pl.col("answer_matches_last").is_not_null())
            matches = known.with_columns(correct=pl.col("answer_matches_last"))
            following = share(matches, "stage")
            last = {"metric": "answer_matches_last", "coefficient": "share", "value": following["accuracy"]}
            counts = {"ci_low": following["ci_low"], "ci_high": following["ci_high"], "n": known.height}
            yield {**key, "sample": sample, **last, **counts, "method": following["method"]}


def _coefficient(values: Any, right: Any, stages: Any, classes: Any, binary: bool) -> Record:
    def value_of(x: Any, y: Any) -> float:
        return association.phi(x, y).phi if binary else association.separation(x, y).point_biserial

    interval = association.jackknife(value_of, (values, right), stages, without=association.correlations)
    within = association.jackknife(
        association.within_correlation, (values, right, classes), stages, without=_within_without
    )
    found: Record = {"value": interval.estimate, "ci_low": interval.low, "ci_high": interval.high, "n": len(right)}
    known = not math.isnan(interval.estimate) and not math.isnan(interval.low)
    found["correlated"] = interval.estimate >= 0.4 and interval.low > 0 if known else None
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
            without=association.aucs,
        )
        found |= {"auc": auc.estimate, "auc_low": auc.low, "auc_high": auc.high}
        found["within_auc"] = association.within_auc(values, right, classes)
    return {**found, "method": interval.method}


def _within_without(values: Any, right: Any, classes: Any, stages: Any) -> Any:
    return association.correlations(values, right, stages, classes - classes.min())


def placebo(rows: pl.DataFrame) -> Iterator[Record]:
    """The records of `placebo`: the effect against vanilla where the chain was proper and where it was not, each beside
    what it would be if chains and answers had nothing to do with each other (`null`)."""
    chosen = rows.filter("false_belief")
    for model, strategy, name, part in chained_pairs(chosen, chosen):
        columns = ("control", "correct", "chain_proper")
        control, treated, proper = (part[c].fill_null(False).cast(pl.Float64).to_numpy() for c in columns)
        split = association.placebo_split(control, treated, proper)
        for chain, half in (("proper", split.proper), ("improper", split.improper)):
            key = {"model": model, "strategy": strategy, "perturbation": name, "chain": chain}
            effect = {"risk_difference": half.effect, "n": half.items, "subset": "false_belief"}
            verdict = "descriptive" if half.items else "undefined"
            yield {**key, **effect, "verdict": verdict, "null": half.null, "null_sd": half.null_sd}


def criteria(rows: pl.DataFrame, shares: list[Record]) -> dict[tuple[str, str, str], Record]:
    """Further columns of the table `criteria`, by subset, model and strategy: in how many classes the whole interval
    lies above one half, and in how many the false-belief question and its control are right together.

    shares: the records of the table `accuracy`.
    """
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
    moved) are right together for more than half of the pairs, by model and strategy.

    There is no entry where the questions cannot be paired, as in a table without the column `swapped`.
    """
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
