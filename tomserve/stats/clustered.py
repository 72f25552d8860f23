"""Shares and effects where answers come in clusters (tasks, stories) and clusters in strata (stages, families).

Inputs are parallel columns with one row for each answer: outcome (1 right, 0 wrong, nan = left out), treated
(true/false), cluster and, where there is one, stratum. Effects are differences of probability in [-1, 1]. There are two
populations to generalise to, which are never mixed:

- *New strata*: stages not yet written, of which the stages at hand are taken to be a sample. The independent unit is
  the stratum; the functions here that take a `stratum` are of this kind.
- *These strata*: further tasks of the same stages only. The independent unit is the cluster; see
  `tomserve.stats.marginal`, and the functions here without a stratum.

Analysing one mean a cluster (Hayes and Moulton, "Cluster Randomised Trials", 2009, chapter 10) needs no model of how
answers within a cluster depend on each other.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tomserve.stats.cells import Cells, Codes, cluster_means, matched_cells, same_length, unit_means
from tomserve.stats.distributions import t_interval, t_quantile
from tomserve.stats.effects import (
    FEW,
    FEW_CHANGES,
    Design,
    Effect,
    independent_score,
    inverted_p,
    undefined,
    unit_effect,
)
from tomserve.stats.intraclass import effective_n
from tomserve.stats.paired import varies
from tomserve.stats.pairs import paired_effect, paired_estimate
from tomserve.stats.proportions import Interval, wilson
from tomserve.stats.ratios import fieller, from_difference

__all__ = [
    "cells_effect",
    "clustered_mean",
    "clustered_share",
    "counted_share",
    "effective_share",
    "matched_effect",
    "new_units_share",
    "paired_effect",
    "paired_estimate",
    "sizes_share",
    "sums_mean",
    "units_share",
    "unmatched_effect",
    "unmatched_means",
]

Floats = npt.NDArray[np.float64]


def matched_effect(
    outcome: npt.ArrayLike,
    treated: npt.ArrayLike,
    cluster: npt.ArrayLike,
    stratum: npt.ArrayLike,
    level: float = 0.95,
) -> Effect:
    """Effect for new strata: the mean over strata of treated - control, each arm's probability a mean of cluster means.

    It suits one class against the `none` tasks of the same stages, with about one task a stage in either arm; for all
    classes together see `pooled.pooled_effect`. It assumes that the strata are independent draws of the stages to come.
    The t interval and t test (strata - 1 df) assume further that the mean difference is about normal, the sign-flip
    test that differences are symmetric around zero. Where the differences do not vary, or there is one stratum, the
    interval is Newcombe's for an effective number of answers (one, for one stratum), which assumes that they are
    correlated by .1 within a stratum and arm; with fewer than five right or fewer than five wrong answers it is the
    smallest interval that holds both. The ratio is `ratios.inverted_ratio`.

    outcome, treated, cluster, stratum: columns as the module describes [answers]; strata without both arms are left
        out.
    level: of confidence, .95 by default.

    Raises ValueError for columns of unequal length.
    """
    return cells_effect(matched_cells(outcome, treated, cluster, stratum), level)


def cells_effect(cells: Cells, level: float = 0.95) -> Effect:
    """The effect of `matched_effect` from the cells of strata and arms, which are all that it is made of."""
    arms = tuple(int(count) for count in cells.counts.sum(axis=0))
    method = f", {len(cells.means)} strata matched" + (f", {cells.dropped} unmatched left out" if cells.dropped else "")
    t, c, right = cells.means[:, 1], cells.means[:, 0], float(cells.right.sum())
    few = min(right, int(cells.answers.sum()) - right) < FEW_CHANGES

    def score(of: float) -> Interval:
        return independent_score(float(t.mean()), cells.answers[:, 1], float(c.mean()), cells.answers[:, 0], of)

    return unit_effect(t, c, Design(sum(arms), min(arms), few, score, method), level)


def unmatched_effect(
    outcome: npt.ArrayLike, treated: npt.ArrayLike, cluster: npt.ArrayLike, level: float = 0.95
) -> Effect:
    """Effect between two sets of different clusters: the difference of the means of their cluster means.

    The population is further clusters of both kinds. Interval and p are Welch's t test (Biometrika 34:28, 1947; scipy's
    `ttest_ind`), which assumes independent clusters and means that are about normal, but no equal variances. With zero
    variance in both arms, or an arm of one cluster, the interval is Newcombe's for an effective number of answers, as
    in `matched_effect`. Without pairs there is no sign to flip, so p_sign_flip and p_smallest are nan.

    outcome, treated, cluster: columns as the module describes [answers].
    level: of confidence, .95 by default.

    Raises ValueError for columns of unequal length.
    """
    y, arm, clusters = np.asarray(outcome, dtype=float), np.asarray(treated, dtype=bool), np.asarray(cluster)
    same_length(y, arm, clusters)
    known = ~np.isnan(y)
    return unmatched_means(*cluster_means(y[known], clusters[known], arm[known].astype(np.intp)), level)


def unmatched_means(means: Floats, of_arm: Codes, sizes: npt.NDArray[np.integer], level: float = 0.95) -> Effect:
    """The effect of `unmatched_effect` from the clusters' means, which are all that it is made of.

    means, of_arm, sizes: of each cluster its mean outcome, 1 where it is treated and 0 where not, and its number of
    answers [clusters].
    """
    t, c = means[of_arm == 1], means[of_arm == 0]
    n1, n0 = t.size, c.size
    if not n1 or not n0:
        return undefined("undefined: an arm has no clusters", n1 + n0)
    share1, share0, few = float(t.mean()), float(c.mean()), min(n1, n0) < FEW
    if min(n1, n0) < 2 or not (varies(t) or varies(c)):

        def score(of: float) -> tuple[float, float]:
            found = independent_score(share1, sizes[of_arm == 1], share0, sizes[of_arm == 0], of)
            return found.low, found.high

        (low, high), p = score(level), inverted_p(score)
        low, high = min(low, share1 - share0), max(high, share1 - share0)
        method = "Newcombe, effective numbers of answers (zero variance or one cluster)"
        ratio = from_difference(share1, share0, low, high)
    else:
        v1, v0 = float(t.var(ddof=1)) / n1, float(c.var(ddof=1)) / n0  # one arm may be constant, with a variance of 0
        df = (v1 + v0) ** 2 / (v1**2 / (n1 - 1) + v0**2 / (n0 - 1))
        low, high, p = t_interval(share1 - share0, math.sqrt(v1 + v0), df, level)
        low, high = max(-1.0, low), min(1.0, high)
        method = f"Welch t, {df:.1f} df, unmatched clusters"
        ratio = fieller(share1, share0, np.diag([v1, v0]), t_quantile(0.5 + level / 2, df), round(df))
    flips = (math.nan, math.nan)
    return Effect(share1 - share0, low, high, p, *flips, share1, share0, ratio, n1 + n0, n1 + n0, method, few)


def clustered_share(outcome: npt.ArrayLike, cluster: npt.ArrayLike, level: float = 0.95) -> Interval:
    """Share k/n of right answers with Wilson's interval for n = clusters, for further clusters drawn as these were.

    It assumes that clusters are independent, and is conservative (as if all answers of a cluster were equal), which
    suits a class with few tasks.

    outcome, cluster: columns as the module describes [answers].
    level: of confidence, .95 by default.

    nan where there is no answer. Raises ValueError for columns of unequal length.
    """
    y, clusters = np.asarray(outcome, dtype=float), np.asarray(cluster)
    same_length(y, clusters)
    known = ~np.isnan(y)
    return sizes_share(float(y[known].sum()), np.unique(clusters[known], return_counts=True)[1], level=level)


def effective_share(outcome: npt.ArrayLike, cluster: npt.ArrayLike, icc: float, level: float = 0.95) -> Interval:
    """Share k/n of right answers with Wilson's interval for an effective number of answers, for further clusters.

    n in Wilson's interval is `intraclass.effective_n`: the answers divided by the design effect that the intra-class
    correlation implies. It assumes independent clusters and that the correlation, which is best pooled over classes
    (`intraclass.intraclass`), holds for this class. With a correlation of 1, or an unknown one (nan), it is
    `clustered_share`, which is preferred where clusters have two or three answers and little is to be gained.

    outcome, cluster: columns as the module describes [answers]. icc: in [0, 1], or nan. level: of confidence.

    nan where there is no answer. Raises ValueError for columns of unequal length, or an icc outside [0, 1].
    """
    y, clusters = np.asarray(outcome, dtype=float), np.asarray(cluster)
    same_length(y, clusters)
    known = ~np.isnan(y)
    sizes = np.unique(clusters[known], return_counts=True)[1]
    return sizes_share(float(y[known].sum()), sizes, icc, level)


def sizes_share(
    right: float, sizes: npt.NDArray[np.integer], icc: float | None = None, level: float = 0.95
) -> Interval:
    """The share of `effective_share` or, without an intra-class correlation, that of `clustered_share`, from the number
    of right answers and the numbers of answers of all clusters [clusters], which are all that they are made of."""
    total = int(sizes.sum())
    if icc is None or not total:
        return counted_share(right, total, sizes.size, level)
    n = effective_n(sizes, icc)
    found = wilson(right / total * n, n, level)
    return Interval(found.estimate, found.low, found.high, f"Wilson, effective n = {n:.1f} of {total}")


def counted_share(right: float, total: int, clusters: int, level: float = 0.95) -> Interval:
    """The share of `clustered_share` from the numbers of right answers, of answers and of clusters."""
    return wilson(right / total * clusters, clusters, level) if total else wilson(0, 0, level)


def clustered_mean(values: npt.ArrayLike, cluster: npt.ArrayLike, level: float = 0.95) -> Interval:
    """Mean of any numbers, such as chain scores, with a t interval for further clusters drawn as these were.

    The error is cluster-robust, from the sums of residuals within each of the m clusters, with the factor m / (m - 1)
    and m - 1 df (Cameron and Miller, J Hum Resour 50:317, 2015). It assumes independent clusters, and enough of them
    for the mean to be about normal.

    values: one number an answer [answers], on any scale; nan values are left out.
    cluster: cluster of each answer [answers].
    level: of confidence, .95 by default.

    The bounds are nan where they are undefined: with fewer than two clusters, or no spread between them, where a width
    of zero would claim certainty. Raises ValueError for columns of unequal length.
    """
    y, clusters = np.asarray(values, dtype=float), np.asarray(cluster)
    same_length(y, clusters)
    known = ~np.isnan(y)
    _, codes, sizes = np.unique(clusters[known], return_inverse=True, return_counts=True)
    return sums_mean(np.asarray(np.bincount(codes, weights=y[known]), dtype=float), sizes, level)


def sums_mean(sums: Floats, sizes: npt.NDArray[np.integer], level: float = 0.95) -> Interval:
    """The mean of `clustered_mean` from the sum of the values of each cluster and their number, which is above zero
    [clusters]."""
    total, m = int(sizes.sum()), sums.size
    if not total:
        return Interval(math.nan, math.nan, math.nan, "undefined: no values")
    mean = float(sums.sum()) / total
    sums = sums - sizes * mean
    if m < 2 or not varies(sums):
        return Interval(mean, math.nan, math.nan, f"undefined: {'one cluster' if m < 2 else 'zero variance'}")
    spread = math.sqrt(m / (m - 1) * float(sums @ sums)) / total
    half = t_quantile(0.5 + level / 2, m - 1) * spread
    return Interval(mean, mean - half, mean + half, f"t, {m - 1} df, clusters")


def new_units_share(
    outcome: npt.ArrayLike, cluster: npt.ArrayLike, stratum: npt.ArrayLike | None = None, level: float = 0.95
) -> Interval:
    """Share of right answers to expect in new strata (without `stratum`, in new clusters): the mean of the units'
    means.

    The t interval on the logit scale with units - 1 df (Rust and Rao, Stat Methods Med Res 5:283, 1996) stays in [0, 1]
    and covers better near 0 and 1 than t on the share itself (bench/coverage.py prints both). It assumes that the units
    are independent draws of those to come. With zero variance, or one unit, the interval is Wilson's with n = units.

    outcome, cluster, stratum: columns as the module describes [answers].
    level: of confidence, .95 by default.

    nan where there is no answer. Raises ValueError for columns of unequal length.
    """
    y, clusters = np.asarray(outcome, dtype=float), np.asarray(cluster)
    strata = clusters if stratum is None else np.asarray(stratum)
    same_length(y, clusters, strata)
    known = ~np.isnan(y)
    means, _, _ = unit_means(y[known], clusters[known], strata[known])
    return units_share(means, level)


def units_share(means: npt.ArrayLike, level: float = 0.95) -> Interval:
    """The interval of `new_units_share` from the units' own means, each in [0, 1] [units]; assumptions as there."""
    means = np.asarray(means, dtype=float)
    m = means.size
    if not m:
        return wilson(0, 0, level)
    if m < 2 or not varies(means):
        fallback = wilson(float(means.sum()), m, level)
        return Interval(
            fallback.estimate, fallback.low, fallback.high, f"{fallback.method} units (zero variance or one unit)"
        )
    share = float(means.mean())
    spread = t_quantile(0.5 + level / 2, m - 1) * float(means.std(ddof=1)) / math.sqrt(m)
    half, logit = spread / (share * (1 - share)), math.log(share / (1 - share))
    return Interval(share, _expit(logit - half), _expit(logit + half), f"t on the logit scale, {m - 1} df")


def _expit(x: float) -> float:
    """The probability of a logit, 0 where it is too small to be computed."""
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0
