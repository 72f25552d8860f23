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
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tomserve.stats.cells import cluster_means, matched_cells, same_length, unit_means
from tomserve.stats.distributions import t_interval, t_quantile
from tomserve.stats.effects import (
    FEW,
    FEW_CHANGES,
    Design,
    Effect,
    effective_answers,
    independent_score,
    inverted_p,
    undefined,
    unit_effect,
)
from tomserve.stats.intraclass import effective_n
from tomserve.stats.paired import varies
from tomserve.stats.proportions import Interval, tango, tango_excludes_zero, wilson
from tomserve.stats.ratios import fieller, from_difference

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
    cells = matched_cells(outcome, treated, cluster, stratum)
    arms = tuple(int(count) for count in cells.counts.sum(axis=0))
    method = f", {len(cells.means)} strata matched" + (f", {cells.dropped} unmatched left out" if cells.dropped else "")
    t, c, right = cells.means[:, 1], cells.means[:, 0], float(cells.right.sum())
    few = min(right, int(cells.answers.sum()) - right) < FEW_CHANGES

    def score(of: float) -> Interval:
        return independent_score(float(t.mean()), cells.answers[:, 1], float(c.mean()), cells.answers[:, 0], of)

    return unit_effect(t, c, Design(sum(arms), min(arms), few, score, method), level)


def paired_effect(
    treated_outcome: npt.ArrayLike,
    control_outcome: npt.ArrayLike,
    cluster: npt.ArrayLike,
    stratum: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> Effect:
    """Effect of two conditions on the same items, such as two prompting strategies: the mean of the units' differences.

    Without `stratum` the units are clusters, and the population is further clusters of these strata. With it they are
    strata, each a mean of its clusters' means, and the population is new strata. Units are assumed independent, and the
    mean of their differences about normal (t interval and t test, units - 1 df); the sign-flip test needs symmetric
    differences only. Where the differences do not vary, above all where no answer changed, the interval is Tango's
    score interval for an effective number of pairs (one, for one unit), which assumes that changes are correlated by .1
    within a unit; where fewer than five answers changed it is the smallest interval that holds both. The ratio is
    `ratios.inverted_ratio`.

    treated_outcome, control_outcome: of the same items in the same order [items]; an item with a nan in either is left
        out.
    cluster: cluster of each item [items].
    stratum: stratum of each item [items], or None.
    level: of confidence, .95 by default.

    Raises ValueError for columns of unequal length.
    """
    pairs = _paired_means(treated_outcome, control_outcome, cluster, stratum)
    t, c, m = pairs.treated, pairs.control, pairs.treated.size
    what = f", {m} {'clusters' if stratum is None else 'strata'} paired"
    n = effective_answers(pairs.sizes)
    changed, moved = (float(values.mean()) if m else math.nan for values in (pairs.changed, t - c))
    gained, lost = (n * max(0.0, changed + by) / 2 for by in (moved, -moved))

    def score(of: float) -> Interval:
        found = tango(gained, lost, n, of)
        return Interval(found.estimate, found.low, found.high, f"Tango, n = {n:.1f} of {pairs.sizes.sum()} pairs")

    def excludes(of: float) -> bool:
        return tango_excludes_zero(gained, lost, n, of)

    few = pairs.changes < FEW_CHANGES
    return unit_effect(t, c, Design(pairs.tasks, pairs.tasks, few, score, what, excludes), level)


def paired_estimate(
    treated_outcome: npt.ArrayLike,
    control_outcome: npt.ArrayLike,
    cluster: npt.ArrayLike,
    stratum: npt.ArrayLike | None = None,
) -> float:
    """The estimate of `paired_effect` alone, without interval and tests; nan where there is no unit.

    Parameters as there. Raises ValueError for columns of unequal length.
    """
    pairs = _paired_means(treated_outcome, control_outcome, cluster, stratum)
    return float((pairs.treated - pairs.control).mean()) if pairs.treated.size else math.nan


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
    means, of_arm, sizes = cluster_means(y[known], clusters[known], arm[known].astype(np.intp))
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
    m = len(np.unique(clusters[known]))
    return wilson(float(y[known].mean()) * m, m, level) if m else wilson(0, 0, level)


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
    if not known.any():
        return wilson(0, 0, level)
    _, sizes = np.unique(clusters[known], return_counts=True)
    n = effective_n(sizes, icc)
    found = wilson(float(y[known].mean()) * n, n, level)
    return Interval(found.estimate, found.low, found.high, f"Wilson, effective n = {n:.1f} of {int(known.sum())}")


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
    if not known.any():
        return Interval(math.nan, math.nan, math.nan, "undefined: no values")
    mean = float(y[known].mean())
    names, codes = np.unique(clusters[known], return_inverse=True)
    sums = np.asarray(np.bincount(codes, weights=y[known] - mean), dtype=float)
    m = len(names)
    if m < 2 or not varies(sums):
        return Interval(mean, math.nan, math.nan, f"undefined: {'one cluster' if m < 2 else 'zero variance'}")
    spread = math.sqrt(m / (m - 1) * float(sums @ sums)) / int(known.sum())
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


@dataclass(frozen=True)
class _Pairs:
    """Units of a paired comparison: their mean outcomes under treatment and control, the share of their answers that
    changed, the numbers of their pairs [units]; then the number of changed answers and of clusters.
    """

    treated: Floats
    control: Floats
    changed: Floats
    sizes: npt.NDArray[np.intp]
    changes: float
    tasks: int


def _paired_means(
    treated: npt.ArrayLike, control: npt.ArrayLike, cluster: npt.ArrayLike, stratum: npt.ArrayLike | None
) -> _Pairs:
    """The units of the items with both outcomes."""
    t, c, clusters = np.asarray(treated, dtype=float), np.asarray(control, dtype=float), np.asarray(cluster)
    strata = clusters if stratum is None else np.asarray(stratum)
    same_length(t, c, clusters, strata)
    known = ~(np.isnan(t) | np.isnan(c))
    t, c, clusters, strata = t[known], c[known], clusters[known], strata[known]
    changed = np.abs(t - c)
    (t1, _, tasks), (t0, _, _), (share, _, _) = (unit_means(y, clusters, strata) for y in (t, c, changed))
    return _Pairs(t1, t0, share, np.unique(strata, return_counts=True)[1], float(changed.sum()), tasks)


def _expit(x: float) -> float:
    """The probability of a logit, 0 where it is too small to be computed."""
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0
