"""Shares and contrasts of score rows as records: what every study and comparison prints, however its items cluster.

Rows are a Polars frame with `correct` (failures false), `faulty` (no answer), `cluster` (task, story) and, where the
design has one, `stage`. A failure counts as wrong; what it may hide is given as bounds. nan means undefined.

    >>> rows = pl.DataFrame({"correct": [True, True, False], "faulty": [False] * 3, "cluster": ["a", "b", "c"]})
    >>> found = share(rows)
    >>> round(found["accuracy"], 3), found["tasks"], found["few_tasks"]
    (0.667, 3, True)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tomserve.stats import clustered, marginal, paired, pooled, proportions
from tomserve.stats.cells import matched_cells
from tomserve.stats.clustered import Effect
from tomserve.stats.planning import detectable_sd

Record = dict[str, Any]
NEW, THESE = "new stages", "these stages"


def codes(names: pl.Series) -> npt.NDArray[np.int64]:
    """Names as numbers in the order of the names: sorting a million texts again and again takes minutes."""
    return names.rank("dense").cast(pl.Int64).to_numpy()


def share(rows: pl.DataFrame, stratum: str | None = None) -> Record:
    """Accuracy with its interval: by `stratum` for new strata (t over their means), else Wilson with n = clusters.

    `estimate` is what the interval is about: with strata the mean of their means, else the accuracy.
    """
    outcome, total = rows["correct"].cast(pl.Float64).to_numpy(), rows.height
    clusters = codes(rows["cluster"])
    if stratum is None:
        found = clustered.clustered_share(outcome, clusters)
    else:
        found = clustered.new_units_share(outcome, clusters, codes(rows[stratum]))
    correct, failed = int(rows["correct"].sum()), int(rows["faulty"].sum())
    tasks = rows["cluster"].n_unique()
    return {
        "correct": correct,
        "total": total,
        "accuracy": correct / total if total else math.nan,
        "ci_low": found.low,
        "ci_high": found.high,
        "failed": failed,
        "accuracy_dropped": correct / (total - failed) if total > failed else math.nan,
        "accuracy_high": (correct + failed) / total if total else math.nan,
        "tasks": tasks,
        "few_tasks": tasks < clustered.FEW,
        "estimate": found.estimate,
        "target": NEW if stratum else "new tasks",
        "method": found.method,
    }


def matched(rows: pl.DataFrame, treated: pl.Series, *, stratum: str, pool: str | None = None) -> Record:
    """Treated against control clusters of the same strata: for one class (pool None), or pooled over all classes for
    "new stages" or "these stages"."""
    arm = treated.to_numpy().astype(bool)
    outcome = rows["correct"].cast(pl.Float64).to_numpy()
    clusters, strata = codes(rows["cluster"]), codes(rows[stratum])
    columns = (outcome, arm, clusters, strata)
    extra: Record = {}
    if pool is None:
        effect = clustered.matched_effect(*columns)
    elif pool == NEW:
        effect = pooled.pooled_effect(*columns)
        extra["p_permutation"] = pooled.permutation_p(*columns)
    else:
        effect = marginal.these_strata_effect(*columns)
        haenszel = marginal.mantel_haenszel(outcome, arm, strata)
        extra |= {"mh_risk_difference": haenszel.risk_difference, "mh_risk_ratio": haenszel.risk_ratio}

    def estimate(t: Any, c: Any) -> float:
        means = matched_cells(np.where(arm, t, c), *columns[1:]).means
        return float((means[:, 1] - means[:, 0]).mean()) if len(means) else math.nan

    unknown = np.where(rows["faulty"].to_numpy(), np.nan, outcome)
    bounds = paired.missing_bounds(unknown, unknown, estimate)
    known = matched_cells(*columns)
    ratio, zeros = _ratio(known.means[:, 1], known.means[:, 0], *(int(n) for n in known.counts.sum(axis=0)[::-1]))
    return {**_effect(effect, pool or NEW), **ratio, **_rest(effect, bounds), **extra, "zeros": zeros}


def pair(rows: pl.DataFrame, control: pl.DataFrame, on: Iterable[str] = ("item",)) -> pl.DataFrame:
    """Rows of one condition with `control` and `control_faulty` of another on the same items."""
    keys = list(on)
    other = control.select(*keys, pl.col("correct").alias("control"), pl.col("faulty").alias("control_faulty"))
    return rows.join(other, on=keys, how="inner", maintain_order="left")


def contrast(pairs: pl.DataFrame, stratum: str | None = None) -> Record:
    """Two conditions on the same items (see `pair`): effect by cluster, or by stratum for new strata, with sign flips.

    McNemar's tests, gained, lost and Tango's interval take the items as independent: descriptive.
    """
    treated, control = (pairs[name].cast(pl.Float64).to_numpy() for name in ("correct", "control"))
    clusters = codes(pairs["cluster"])
    strata = codes(pairs[stratum]) if stratum else None
    effect = clustered.paired_effect(treated, control, clusters, strata)
    failed = pairs["faulty"].to_numpy(), pairs["control_faulty"].to_numpy()

    def estimate(t: Any, c: Any) -> float:
        return clustered.paired_estimate(t, c, clusters, strata)

    unknown = np.where(failed[0], np.nan, treated), np.where(failed[1], np.nan, control)
    bounds = paired.missing_bounds(*unknown, estimate)
    mcnemar = paired.mcnemar(treated, control)
    tango = proportions.tango(mcnemar.gained, mcnemar.lost, pairs.height)
    failure = paired.differential_failure(failed[0], failed[1], clusters)
    ratio, zeros = _ratio(treated, control, pairs["cluster"].n_unique(), pairs["cluster"].n_unique())
    return {
        **_effect(effect, NEW if stratum else "new tasks"),
        **ratio,
        **_rest(effect, bounds),
        "gained": mcnemar.gained,
        "lost": mcnemar.lost,
        "both": mcnemar.both,
        "neither": mcnemar.neither,
        "mcnemar_exact": mcnemar.p_exact,
        "mcnemar_mid_p": mcnemar.p_mid,
        "tango_low": tango.low,
        "tango_high": tango.high,
        "p_failure": failure.p_clustered,
        "n": pairs.height,
        "zeros": zeros,
    }


def _effect(effect: Effect, target: str) -> Record:
    return {"risk_difference": effect.estimate, "rd_low": effect.low, "rd_high": effect.high, "target": target}


def _ratio(treated: Any, control: Any, n1: int, n0: int) -> tuple[Record, str | None]:
    """Score interval of the ratio of two means with n = clusters, and which arm has none right."""
    p1 = float(np.mean(treated)) if len(treated) else math.nan
    p0 = float(np.mean(control)) if len(control) else math.nan
    if math.isnan(p1) or math.isnan(p0):
        return {"relative_risk": math.nan, "rr_low": math.nan, "rr_high": math.nan}, None
    found = proportions.risk_ratio(p1 * n1, n1, p0 * n0, n0)
    none = [name for name, p in (("treated", p1), ("control", p0)) if p == 0]
    return {"relative_risk": found.estimate, "rr_low": found.low, "rr_high": found.high}, (
        f"none right: {' and '.join(none)}" if none else None
    )


def _rest(effect: Effect, bounds: tuple[float, float]) -> Record:
    return {
        "p_sign_flip": effect.p_sign_flip,
        "p_smallest": effect.p_smallest,
        "p_t": effect.p_t,
        "bound_low": bounds[0],
        "bound_high": bounds[1],
        "detectable_sd": detectable_sd(effect.units) if effect.units else math.nan,
        "units": effect.units,
        "tasks": effect.tasks,
        "few_tasks": effect.few_tasks,
        "method": effect.method,
    }


def adjusted(records: list[Record], family: Iterable[str], name: str = "perturbation") -> list[Record]:
    """Add `p_adjusted`: the sign-flip p, Benjamini-Yekutieli over the members of the family (which share their control
    and so depend on each other); nan for the others. `p_adjusted_smallest`: the least it could be, were every class as
    extreme as its few units allow."""
    members = set(family)
    inside = [record for record in records if record[name] in members]
    for source, target in (("p_sign_flip", "p_adjusted"), ("p_smallest", "p_adjusted_smallest")):
        for record in records:
            record[target] = math.nan
        for record, p in zip(inside, paired.adjust([record[source] for record in inside]), strict=True):
            record[target] = p
    return records
