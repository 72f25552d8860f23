"""Shares of right answers and differences between them, as the records that studies and comparisons print.

The rows are a Polars frame with one row for each answer (see rows.prepared): `correct`, which is false for a failure;
`faulty`, which says that no answer came or could be read; `cluster`, the task or story of the question; and, where the
design has stages, `stage`. A failure counts as wrong, and how far all failures could move a number is given as bounds.
A number that is undefined is nan.

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
    """Whole numbers that stand for the names, in the order of the names.

    The estimators sort their groups again and again, which takes minutes where a million names are texts.
    """
    return names.rank("dense").cast(pl.Int64).to_numpy()


def share(rows: pl.DataFrame, stratum: str | None = None) -> Record:
    """The share of right answers with its 95% interval.

    rows: one row for each answer. stratum: a column such as "stage"; with it the interval speaks for strata not yet
    written and is a t interval over their means. Without it the interval speaks for further clusters like these and is
    Wilson's with the number of clusters in place of the number of questions. `estimate` in the record is the number
    that the interval is about: the mean of the strata's means, or the accuracy itself.
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
    """Treated against control clusters that share a stratum, such as perturbed against unperturbed tasks of a stage.

    rows: one row for each answer, of both arms. treated: for each row whether it is of the treated arm. stratum: the
    column within which arms are compared. pool: None for the rows of one class; NEW or THESE where the rows of all
    classes are pooled, and the interval is to speak for stages not yet written or for the stages at hand.
    """
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
    """The rows of one condition that have a partner in another, beside what the partner scored.

    on: the columns that make two rows partners. The partner's columns `correct` and `faulty` are called `control` and
    `control_faulty`.
    """
    keys = list(on)
    other = control.select(*keys, pl.col("correct").alias("control"), pl.col("faulty").alias("control_faulty"))
    return rows.join(other, on=keys, how="inner", maintain_order="left")


def contrast(pairs: pl.DataFrame, stratum: str | None = None) -> Record:
    """The difference between two conditions that were asked the same items.

    pairs: what `pair` makes. stratum: a column such as "stage", so that the interval speaks for strata not yet written;
    without it the interval is over clusters. Both are t intervals, and p is that of a sign-flip test over the same
    units. McNemar's tests, the counts gained and lost, and Tango's interval take the items as independent, which they
    are not, and only describe.
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
    """The ratio of two shares with a score interval in which clusters count as questions, and which arm has none right.

    n1, n0: the numbers of clusters of the treated and of the control arm.
    """
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
    """The records with p-values that are corrected for the number of classes tested at once.

    family: the values of column `name` that are tested together. `p_adjusted` corrects the sign-flip p by Benjamini and
    Yekutieli's method, which allows for tests that depend on each other, as these do by their common control.
    `p_adjusted_smallest` is the least that it could be if every class were as extreme as its few units allow. Both are
    nan for records outside the family.
    """
    members = set(family)
    inside = [record for record in records if record[name] in members]
    for source, target in (("p_sign_flip", "p_adjusted"), ("p_smallest", "p_adjusted_smallest")):
        for record in records:
            record[target] = math.nan
        for record, p in zip(inside, paired.adjust([record[source] for record in inside], "by"), strict=True):
            record[target] = p
    return records
