"""Shares and effects where answers come in clusters (tasks, stories) and clusters in strata (stages, families).

Inputs are parallel columns, one row an answer: outcome (0/1, nan = left out), treated (true/false), cluster and, where
there is one, stratum. Estimates are differences of probability in [-1, 1]. Two targets, never mixed:
*new strata* generalises to stages not yet written (the unit is the stratum), *these strata* only to further tasks
of the same stages (`tomserve.stats.marginal`).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tomserve.stats.paired import mean_interval, sign_flip, smallest_p, t_p, varies
from tomserve.stats.proportions import Interval, newcombe, wilson

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
FEW = 20
"""Below this many clusters an arm, "few tasks" is flagged: asymptotic and bootstrap intervals are not to be trusted."""


@dataclass(frozen=True)
class Effect:
    """A difference of probabilities with its interval and tests; nan where undefined.

    `units`: independent units of the inference (stages, or tasks); `tasks`: clusters that contributed, both arms
    together; `p_smallest`: least p a sign-flip test over these units can give; `few_tasks`: an arm has under 20.
    """

    estimate: float
    low: float
    high: float
    p_t: float
    p_sign_flip: float
    p_smallest: float
    units: int
    tasks: int
    method: str
    few_tasks: bool


@dataclass(frozen=True)
class Cells:
    """Means of cluster means by stratum (rows, those with both arms) and arm (columns control, treated), and counts.

    `dropped`: strata without one of the arms; they say nothing about the contrast.
    """

    means: Floats
    counts: npt.NDArray[np.int64]
    dropped: int


def matched_effect(
    outcome: npt.ArrayLike,
    treated: npt.ArrayLike,
    cluster: npt.ArrayLike,
    stratum: npt.ArrayLike,
    level: float = 0.95,
) -> Effect:
    """Effect matched by stratum, for new strata: mean over strata of (treated - control), each a mean of cluster means.

    For one class against `none` of the same stages, arms of about one task a stage (`pooled.pooled_effect` for all
    classes together). Interval: t with strata - 1 df; tests: t and sign flips over strata. Strata without both arms are
    left out. Zero variance or one stratum: Newcombe with n = strata in both arms, and no t test.
    Raises ValueError for columns of unequal length.
    """
    cells = matched_cells(outcome, treated, cluster, stratum)
    arms = tuple(int(count) for count in cells.counts.sum(axis=0))
    method = f", {len(cells.means)} strata matched" + (f", {cells.dropped} unmatched left out" if cells.dropped else "")
    return _unit_effect(cells.means[:, 1], cells.means[:, 0], sum(arms), min(arms), level, method)


def paired_effect(
    treated_outcome: npt.ArrayLike,
    control_outcome: npt.ArrayLike,
    cluster: npt.ArrayLike,
    stratum: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> Effect:
    """Effect of two conditions on the same items (two strategies). Items with a nan in either are left out.

    Without `stratum` the unit is the cluster (further tasks like these); with it the unit is the stratum, a mean of its
    clusters' means (new strata). The sign-flip test is primary. Zero variance: Newcombe with n = units, which ignores
    the pairing and so is wide. Raises ValueError for columns of unequal length.
    """
    t1, t0, tasks = _paired_means(treated_outcome, control_outcome, cluster, stratum)
    what = "clusters" if stratum is None else "strata"
    return _unit_effect(t1, t0, tasks, tasks, level, f", {t1.size} {what} paired")


def paired_estimate(
    treated_outcome: npt.ArrayLike,
    control_outcome: npt.ArrayLike,
    cluster: npt.ArrayLike,
    stratum: npt.ArrayLike | None = None,
) -> float:
    """The estimate of `paired_effect` alone, without interval and tests; nan where there is no unit."""
    t1, t0, _ = _paired_means(treated_outcome, control_outcome, cluster, stratum)
    return float((t1 - t0).mean()) if t1.size else math.nan


def unmatched_effect(
    outcome: npt.ArrayLike, treated: npt.ArrayLike, cluster: npt.ArrayLike, level: float = 0.95
) -> Effect:
    """Effect between two sets of different clusters: Welch's t on cluster means (scipy's `ttest_ind`).

    Zero variance in both arms, or an arm of one cluster: Newcombe with n = clusters. There is no sign to flip
    (p_sign_flip, p_smallest are nan). Raises ValueError for columns of unequal length.
    """
    y, arm, clusters = np.asarray(outcome, dtype=float), np.asarray(treated, dtype=bool), np.asarray(cluster)
    _same_length(y, arm, clusters)
    known = ~np.isnan(y)
    means, of_arm, _ = _cluster_means(y[known], clusters[known], arm[known].astype(np.intp))
    t, c = means[of_arm == 1], means[of_arm == 0]
    n1, n0 = t.size, c.size
    if not n1 or not n0:
        return undefined("undefined: an arm has no clusters", n1 + n0)
    estimate, few = float(t.mean() - c.mean()), min(n1, n0) < FEW
    if min(n1, n0) < 2 or not (varies(t) or varies(c)):
        found = newcombe(float(t.sum()), n1, float(c.sum()), n0, level)
        method = f"{found.method} clusters (zero variance or one cluster)"
        p, low, high = math.nan, min(found.low, estimate), max(found.high, estimate)
    else:
        from scipy.stats import ttest_ind

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # one arm may be constant; its variance of 0 is meant
            test = ttest_ind(t, c, equal_var=False)
        bounds = test.confidence_interval(level)
        low, high, p = max(-1.0, float(bounds.low)), min(1.0, float(bounds.high)), float(test.pvalue)
        method = f"Welch t, {float(test.df):.1f} df, unmatched clusters"
    return Effect(estimate, low, high, p, math.nan, math.nan, n1 + n0, n1 + n0, method, few)


def clustered_share(outcome: npt.ArrayLike, cluster: npt.ArrayLike, level: float = 0.95) -> Interval:
    """Share of right answers k/n with Wilson's interval for n = clusters: conservative, for few clusters (a class).

    Raises ValueError for columns of unequal length.
    """
    y, clusters = np.asarray(outcome, dtype=float), np.asarray(cluster)
    _same_length(y, clusters)
    known = ~np.isnan(y)
    m = len(np.unique(clusters[known]))
    return wilson(float(y[known].mean()) * m, m, level) if m else wilson(0, 0, level)


def clustered_mean(values: npt.ArrayLike, cluster: npt.ArrayLike, level: float = 0.95) -> Interval:
    """Mean of any numbers with the t interval (m - 1 df) of m clusters, by the sums of residuals within each.

    nan values are left out. The bounds are nan where they are undefined: fewer than two clusters, or no spread between
    them (a width of zero would claim certainty). Raises ValueError for columns of unequal length.
    """
    y, clusters = np.asarray(values, dtype=float), np.asarray(cluster)
    _same_length(y, clusters)
    known = ~np.isnan(y)
    if not known.any():
        return Interval(math.nan, math.nan, math.nan, "undefined: no values")
    mean = float(y[known].mean())
    names, codes = np.unique(clusters[known], return_inverse=True)
    sums = np.asarray(np.bincount(codes, weights=y[known] - mean), dtype=float)
    m = len(names)
    if m < 2 or not varies(sums):
        return Interval(mean, math.nan, math.nan, f"undefined: {'one cluster' if m < 2 else 'zero variance'}")
    from scipy.stats import t as student

    spread = math.sqrt(m / (m - 1) * float(sums @ sums)) / int(known.sum())
    half = float(student.ppf(0.5 + level / 2, m - 1)) * spread
    return Interval(mean, mean - half, mean + half, f"t, {m - 1} df, clusters")


def new_units_share(
    outcome: npt.ArrayLike, cluster: npt.ArrayLike, stratum: npt.ArrayLike | None = None, level: float = 0.95
) -> Interval:
    """Share of right answers expected in new strata (new clusters, without `stratum`): mean of the units' means.

    t interval on the logit scale with units - 1 df (Rust and Rao, Stat Methods Med Res 5:283, 1996), which stays in
    [0, 1] and covers better near 0 and 1 than t on the share itself (bench/coverage.py prints both). Zero variance or
    one unit: Wilson with n = units. Raises ValueError for columns of unequal length.
    """
    y, clusters = np.asarray(outcome, dtype=float), np.asarray(cluster)
    strata = clusters if stratum is None else np.asarray(stratum)
    _same_length(y, clusters, strata)
    known = ~np.isnan(y)
    means, _, _ = _unit_means(y[known], clusters[known], strata[known])
    return units_share(means, level)


def units_share(means: npt.ArrayLike, level: float = 0.95) -> Interval:
    """The interval of `new_units_share` from the units' means (each in [0, 1]) themselves."""
    means = np.asarray(means, dtype=float)
    m = means.size
    if not m:
        return wilson(0, 0, level)
    if m < 2 or not varies(means):
        found = wilson(float(means.sum()), m, level)
        return Interval(found.estimate, found.low, found.high, f"{found.method} units (zero variance or one unit)")
    from scipy.stats import t as student

    share = float(means.mean())
    spread = float(student.ppf(0.5 + level / 2, m - 1)) * float(means.std(ddof=1)) / math.sqrt(m)
    half, logit = spread / (share * (1 - share)), math.log(share / (1 - share))
    return Interval(share, _expit(logit - half), _expit(logit + half), f"t on the logit scale, {m - 1} df")


def matched_cells(
    outcome: npt.ArrayLike, treated: npt.ArrayLike, cluster: npt.ArrayLike, stratum: npt.ArrayLike
) -> Cells:
    """Cell means of the strata that have both arms. Raises ValueError for columns of unequal length."""
    y, arm = np.asarray(outcome, dtype=float), np.asarray(treated, dtype=bool)
    clusters, strata = np.asarray(cluster), np.asarray(stratum)
    _same_length(y, arm, clusters, strata)
    known = ~np.isnan(y)
    if not known.any():
        return Cells(np.empty((0, 2)), np.empty((0, 2), dtype=np.int64), 0)
    _, codes = np.unique(strata[known], return_inverse=True)
    means, of_cell, _ = _cluster_means(y[known], clusters[known], codes * 2 + arm[known])
    size = 2 * (int(codes.max()) + 1)
    counts = np.bincount(of_cell, minlength=size).reshape(-1, 2)
    sums = np.bincount(of_cell, weights=means, minlength=size).reshape(-1, 2)
    full = (counts > 0).all(axis=1)
    return Cells(sums[full] / counts[full], counts[full].astype(np.int64), int((~full).sum()))


def _unit_effect(t: Floats, c: Floats, tasks: int, tasks_an_arm: int, level: float, what: str) -> Effect:
    """Inference on the mean of t - c over units, with its fallback."""
    m = t.size
    if not m:
        return undefined("undefined: no units with both arms", tasks)
    d = t - c
    fallback = newcombe(float(t.sum()), m, float(c.sum()), m, level)
    found, flips = mean_interval(d, level, fallback), sign_flip(d)
    few = tasks_an_arm < FEW
    return Effect(
        found.estimate, found.low, found.high, t_p(d), flips.p, smallest_p(m), m, tasks, found.method + what, few
    )


def undefined(method: str, tasks: int) -> Effect:
    """The effect that cannot be given, with the reason as its method."""
    return Effect(math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, 0, tasks, method, True)


def _paired_means(
    treated: npt.ArrayLike, control: npt.ArrayLike, cluster: npt.ArrayLike, stratum: npt.ArrayLike | None
) -> tuple[Floats, Floats, int]:
    """Means of the units in both arms, over the items with both outcomes, and the number of clusters."""
    t, c, clusters = np.asarray(treated, dtype=float), np.asarray(control, dtype=float), np.asarray(cluster)
    strata = clusters if stratum is None else np.asarray(stratum)
    _same_length(t, c, clusters, strata)
    known = ~(np.isnan(t) | np.isnan(c))
    t1, _, tasks = _unit_means(t[known], clusters[known], strata[known])
    t0, _, _ = _unit_means(c[known], clusters[known], strata[known])
    return t1, t0, tasks


def _cluster_means(y: Floats, clusters: npt.NDArray[np.generic], group: Codes) -> tuple[Floats, Codes, Codes]:
    """Mean outcome of each cluster within each group (a cluster may be in several): means, their groups, sizes."""
    if not y.size:
        return np.empty(0), np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
    names, codes = np.unique(clusters, return_inverse=True)
    pairs, index, sizes = np.unique(group * len(names) + codes, return_inverse=True, return_counts=True)
    return np.bincount(index, weights=y) / sizes, pairs // len(names), sizes


def _unit_means(
    y: Floats, clusters: npt.NDArray[np.generic], strata: npt.NDArray[np.generic]
) -> tuple[Floats, npt.NDArray[np.generic], int]:
    """Means of cluster means by stratum, the strata, and the number of clusters."""
    names, codes = np.unique(strata, return_inverse=True)
    means, of_stratum, _ = _cluster_means(y, clusters, codes)
    counts = np.bincount(of_stratum, minlength=len(names))
    return np.bincount(of_stratum, weights=means, minlength=len(names)) / np.maximum(counts, 1), names, means.size


def _same_length(*columns: npt.NDArray[np.generic]) -> None:
    if len({column.shape[0] for column in columns}) != 1:
        raise ValueError(f"columns of {[column.shape[0] for column in columns]} rows: expected equal lengths")


def _expit(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0
