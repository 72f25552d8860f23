"""Shares and effects with intervals where answers come in clusters (tasks, stories) and clusters in strata (stages,
families).

Inputs are parallel columns with one row for each answer (outcome, treated, cluster, stratum; an outcome of nan is left
out), or sums over clusters, which are all that the estimates need. Effects are differences of probability in [-1, 1].
What takes a stratum speaks for *new strata*, of which those at hand are a sample; what takes none, and
`tomserve.stats.strata`, for further clusters of *these strata*. The two are never mixed. Analysing one mean a cluster
(Hayes and Moulton, "Cluster Randomised Trials", 2009, chapter 10) needs no model of how answers within a cluster depend
on each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tomserve.stats.clusters import (
    Cells,
    Codes,
    check_same_length,
    effective_n,
    effective_n_of,
    matched_cells,
    means_of_units,
    unit_means,
)
from tomserve.stats.distributions import freedom, t_interval, t_quantile
from tomserve.stats.effects import (
    CORRELATION,
    FEW,
    FEW_CHANGES,
    Design,
    Effect,
    effective_answers,
    independent_score,
    inverted_p,
    undefined_effect,
    unit_effect,
    unit_interval,
)
from tomserve.stats.paired import varies
from tomserve.stats.proportions import Interval, fieller, ratio_from_difference, tango, tango_excludes_zero, wilson

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PairSums:
    """Sums over the items of each cluster, sorted by unit [clusters].

    unit: the unit of the cluster (itself, or the stratum that it lies in), coded from 0 without gaps; a cluster that
    lies in two strata is one in each. items: how many it has. treated, control: the sums of their outcomes under both
    conditions. changed: the sum of the differences without their signs.
    """

    unit: Codes
    items: npt.NDArray[np.int64]
    treated: Floats
    control: Floats
    changed: Floats

    @property
    def units(self) -> int:
        """How many units there are."""
        return int(self.unit[-1]) + 1 if self.unit.size else 0

    def by_unit(self, sums: Floats) -> Floats:
        """By unit the mean of its clusters' means. sums: of each cluster, over its items [clusters]."""
        return means_of_units(sums / self.items, self.unit, self.units)

    def sizes(self) -> npt.NDArray[np.int64]:
        """How many items each unit has [units]."""
        return np.asarray(np.bincount(self.unit, weights=self.items, minlength=self.units), dtype=np.int64)


def pair_sums(
    treated_outcome: npt.ArrayLike,
    control_outcome: npt.ArrayLike,
    cluster: npt.ArrayLike,
    stratum: npt.ArrayLike | None = None,
) -> PairSums:
    """The sums of items with their outcomes; parameters as `paired_effect` has them. Raises ValueError as that does."""
    t, c, clusters = (
        np.asarray(treated_outcome, dtype=float),
        np.asarray(control_outcome, dtype=float),
        np.asarray(cluster),
    )
    strata = clusters if stratum is None else np.asarray(stratum)
    check_same_length(t, c, clusters, strata)
    known = ~(np.isnan(t) | np.isnan(c))
    t, c = t[known], c[known]
    _, of_unit = np.unique(strata[known], return_inverse=True)
    names, of_cluster = np.unique(clusters[known], return_inverse=True)
    cells, index, items = np.unique(of_unit * max(1, len(names)) + of_cluster, return_inverse=True, return_counts=True)
    sums = (np.bincount(index, weights=y, minlength=cells.size) for y in (t, c, np.abs(t - c)))
    treated, control, changed = (np.asarray(one, dtype=float) for one in sums)
    return PairSums(cells // max(1, len(names)), items.astype(np.int64), treated, control, changed)


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
    `inverted_ratio`.

    treated_outcome, control_outcome: of the same items in the same order [items]; an item with a nan in either is left
        out.
    cluster: cluster of each item [items].
    stratum: stratum of each item [items], or None.
    level: of confidence, .95 by default.

    Raises ValueError for columns of unequal length.
    """
    return pairs_effect(
        pair_sums(treated_outcome, control_outcome, cluster, stratum), level, strata=stratum is not None
    )


def pairs_effect(pairs: PairSums, level: float = 0.95, *, strata: bool = False) -> Effect:
    """The effect of `paired_effect` from sums over clusters.

    strata: whether the units are strata rather than clusters, which only the words about the method need.
    """
    t, c = pairs.by_unit(pairs.treated), pairs.by_unit(pairs.control)
    return unit_effect(t, c, _design(pairs, t - c, strata=strata), level)


def pairs_intervals(pairs: PairSums, *, strata: bool = False) -> Callable[[float], Interval]:
    """The interval of `pairs_effect` as a function of the level alone, for whoever wants it at many levels.

    strata: as there.

    >>> summed = pair_sums([1, 1, 0, 1], [0, 1, 0, 0], ["a", "a", "b", "b"])
    >>> interval, effect = pairs_intervals(summed)(0.9), pairs_effect(summed, 0.9)
    >>> (interval.low, interval.high) == (effect.low, effect.high)
    True
    """
    d = pairs.by_unit(pairs.treated) - pairs.by_unit(pairs.control)
    design = _design(pairs, d, strata=strata)
    return lambda level: unit_interval(d, design, level)


def margin_intervals(pairs: PairSums, *, strata: bool = False) -> Callable[[float], Interval]:
    """Intervals for tests against a margin, as a function of the level: the smallest that hold the interval of
    `pairs_effect` and Tango's score interval for the number of independent pairs with the same error.

    Most pairs do not differ, so that the mean of few clusters is skewed, and a t interval ends too near to it on the
    side of the rare, large differences: with 20 unequal clusters and a share of .98 a one-sided test at .025 by the t
    interval alone errs in a tenth of the studies (bench/margin_coverage.py). A score interval measures the distance to
    a bound by the spread that there would be at that bound. Its pairs are those whose mean would have the error that
    the units' differences show, at most as many as if all pairs were independent, times the squared ratio of the normal
    to the t quantile, as for `tomserve.stats.clustered`.

    strata: as for `pairs_effect`.
    """
    plain = pairs_intervals(pairs, strata=strata)
    d, m = pairs.by_unit(pairs.treated) - pairs.by_unit(pairs.control), pairs.units
    if m < 2 or not varies(d):
        return plain
    changed, moved = float(pairs.by_unit(pairs.changed).mean()), float(d.mean())
    of_unit = np.bincount(pairs.unit)[pairs.unit]  # clusters that share the unit's weight
    most = m**2 / float(np.sum(1 / (of_unit**2 * pairs.items)))
    count = min(max(0.0, changed - moved**2) / (float(d.var(ddof=1)) / m), most)

    def interval(level: float) -> Interval:
        n = count * freedom(level, m - 1)
        gained, lost = (n * max(0.0, changed + by) / 2 for by in (moved, -moved))  # sums of rounded numbers
        found, score = plain(level), tango(gained, lost, n, level)
        method = f"{found.method}, or Tango, n = {n:.1f}, where it is wider"
        return Interval(found.estimate, min(found.low, score.low), max(found.high, score.high), method)

    return interval if count > 0 else plain


def _design(pairs: PairSums, d: Floats, *, strata: bool) -> Design:
    """What the effect needs to know beside the units' means. d: their differences [units]."""
    m, share, sizes = pairs.units, pairs.by_unit(pairs.changed), pairs.sizes()
    what = f", {m} {'strata' if strata else 'clusters'} paired"
    n = effective_answers(sizes)
    changed, moved = (float(values.mean()) if m else math.nan for values in (share, d))
    gained, lost = (n * max(0.0, changed + by) / 2 for by in (moved, -moved))

    def score(of: float) -> Interval:
        found = tango(gained, lost, n, of)
        return Interval(found.estimate, found.low, found.high, f"Tango, n = {n:.1f} of {sizes.sum()} pairs")

    def excludes(of: float) -> bool:
        return tango_excludes_zero(gained, lost, n, of)

    few, tasks = float(pairs.changed.sum()) < FEW_CHANGES, pairs.unit.size
    return Design(tasks, tasks, few, score, what, excludes)


def pairs_estimate(pairs: PairSums) -> float:
    """The estimate of `pairs_effect` alone, without interval and tests; nan where there is no unit."""
    t, c = pairs.by_unit(pairs.treated), pairs.by_unit(pairs.control)
    return float((t - c).mean()) if t.size else math.nan


def bounds(pairs: PairSums, failed_treated: npt.ArrayLike, failed_control: npt.ArrayLike) -> tuple[float, float]:
    """The least and the greatest estimate that failures leave possible, as `paired.missing_bounds` has them.

    pairs: with the sums of the outcomes of what did not fail. failed_treated, failed_control: how many items of each
    cluster failed under either condition [clusters].
    """
    t, c = pairs.treated + np.asarray(failed_treated), pairs.control + np.asarray(failed_control)
    return pairs_estimate(replace(pairs, control=c)), pairs_estimate(replace(pairs, treated=t))


def matched_effect(
    outcome: npt.ArrayLike, treated: npt.ArrayLike, cluster: npt.ArrayLike, stratum: npt.ArrayLike, level: float = 0.95
) -> Effect:
    """Effect for new strata: the mean over strata of treated - control, each arm's probability a mean of cluster means.

    It suits one class against the `none` tasks of the same stages, with about one task a stage in either arm; for all
    classes together see `strata.pooled_effect`. It assumes that the strata are independent draws of the stages to come.
    The t interval and t test (strata - 1 df) assume further that the mean difference is about normal, the sign-flip
    test that differences are symmetric around zero. Where the differences do not vary, or there is one stratum, the
    interval is Newcombe's for an effective number of answers (one, for one stratum), which assumes that they are
    correlated by .1 within a stratum and arm; with fewer than five right or fewer than five wrong answers it is the
    smallest interval that holds both. The ratio is `inverted_ratio`.

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


def unmatched_effect(means: Floats, of_arm: Codes, sizes: npt.NDArray[np.integer], level: float = 0.95) -> Effect:
    """Effect between two sets of different clusters: the difference of the means of their cluster means.

    The population is further clusters of both kinds. Interval and p are Welch's t test (Biometrika 34:28, 1947; scipy's
    `ttest_ind`), which assumes independent clusters and means that are about normal, but no equal variances. With zero
    variance in both arms, or an arm of one cluster, the interval is Newcombe's for an effective number of answers, as
    in `matched_effect`. Without pairs there is no sign to flip, so p_sign_flip and p_smallest are nan.

    means, of_arm, sizes: of each cluster its mean outcome, 1 where it is treated and 0 where not, and its number of
    answers [clusters].
    """
    t, c = means[of_arm == 1], means[of_arm == 0]
    n1, n0 = t.size, c.size
    if not n1 or not n0:
        return undefined_effect("undefined: an arm has no clusters", n1 + n0)
    share1, share0, few = float(t.mean()), float(c.mean()), min(n1, n0) < FEW
    if min(n1, n0) < 2 or not (varies(t) or varies(c)):

        def score(of: float) -> tuple[float, float]:
            found = independent_score(share1, sizes[of_arm == 1], share0, sizes[of_arm == 0], of)
            return found.low, found.high

        (low, high), p = score(level), inverted_p(score)
        low, high = min(low, share1 - share0), max(high, share1 - share0)
        method = "Newcombe, effective numbers of answers (zero variance or one cluster)"
        ratio = ratio_from_difference(share1, share0, low, high)
    else:
        v1, v0 = float(t.var(ddof=1)) / n1, float(c.var(ddof=1)) / n0  # one arm may be constant, with a variance of 0
        df = (v1 + v0) ** 2 / (v1**2 / (n1 - 1) + v0**2 / (n0 - 1))
        low, high, p = t_interval(share1 - share0, math.sqrt(v1 + v0), df, level)
        low, high = max(-1.0, low), min(1.0, high)
        method = f"Welch t, {df:.1f} df, unmatched clusters"
        ratio = fieller(share1, share0, np.diag([v1, v0]), t_quantile(0.5 + level / 2, df), round(df))
    flips = (math.nan, math.nan)
    return Effect(share1 - share0, low, high, p, *flips, share1, share0, ratio, n1 + n0, n1 + n0, method, few)


def clustered_share(
    right: float, sizes: npt.NDArray[np.integer], icc: float | None = None, level: float = 0.95
) -> Interval:
    """Share k/n of right answers with Wilson's interval for further clusters drawn as these were.

    It assumes independent clusters. Without `icc` n in Wilson's interval is the number of clusters, which is
    conservative (as if all answers of a cluster were equal) and suits a class with few tasks, or clusters of two or
    three answers. With it n is `clusters.effective_n`: the answers divided by the design effect that the correlation
    implies. The correlation is best pooled over classes (`clusters.intraclass`), and is assumed to hold for this class.

    right: the number of right answers. sizes: the numbers of answers of all clusters [clusters].
    icc: the intra-class correlation, in [0, 1]; nan where it is unknown, which counts as 1; None to count clusters.
    level: of confidence, .95 by default.

    nan where there is no answer. Raises ValueError for an icc outside [0, 1].
    """
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
    check_same_length(y, clusters)
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
    check_same_length(y, clusters, strata)
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


@dataclass(frozen=True, slots=True)
class ClusterSums:
    """What the interval needs of the clusters, so that they can be counted file by file.

    clusters, answers, right: how many there are of each. right_squares: the sum over the clusters of the squared
    numbers of right answers. products: that of right answers times answers. squares: that of the squared numbers of
    answers.
    """

    clusters: int
    answers: float
    right: float
    right_squares: float
    products: float
    squares: float


def designed_share(outcome: npt.ArrayLike, cluster: npt.ArrayLike, level: float = 0.95) -> Interval:
    """The share of a 0/1 outcome over answers that come in clusters, each answer counted once.

    The error of the share is cluster-robust, from the sums of residuals within each of the m clusters. The interval is
    Wilson's for the number of independent answers with the same error, at most that of all answers, which is made
    smaller by the squared ratio of the normal to the t quantile with m - 1 df, as the error is estimated (Korn and
    Graubard, Surv Methodol 24:193, 1998; for Wilson's interval Franco, Little, Louis and Slud, J Surv Stat Methodol
    7:334, 2019). Where fewer than five answers are of the kind, or of the other, the error says hardly anything: then
    they count at most for as many as a correlation of .1 within clusters leaves, and a single cluster counts once.

    outcome: 1 or 0, nan = left out [answers]. cluster: the cluster of each answer [answers]. level: of confidence.

    The interval is nan where there is no answer. Raises ValueError for columns of unequal length.
    """
    y, clusters = np.asarray(outcome, dtype=float), np.asarray(cluster)
    check_same_length(y, clusters)
    known = ~np.isnan(y)
    y = y[known]
    if not y.size:
        return wilson(0, 0, level)
    _, index, sizes = np.unique(clusters[known], return_inverse=True, return_counts=True)
    n, right = sizes.astype(float), np.bincount(index, weights=y)
    sums = (float(one) for one in (y.size, y.sum(), right @ right, right @ n, n @ n))
    return summed_share(ClusterSums(sizes.size, *sums), level)


def summed_share(sums: ClusterSums, level: float = 0.95) -> Interval:
    """The share of `designed_share` from sums over the clusters; nan where there is no answer."""
    total, m = sums.answers, sums.clusters
    if not total:
        return wilson(0, 0, level)
    share = sums.right / total
    counted = effective_n_of(total, m, sums.squares, CORRELATION) if m > 1 else float(m)
    if m > 1:
        # The squared residuals of the clusters, right - share answers, added up.
        residuals = sums.right_squares - 2 * share * sums.products + share**2 * sums.squares
        variance = m / (m - 1) * residuals / total**2
        few = min(sums.right, total - sums.right) < FEW_CHANGES
        if variance > 1e-12 and 0 < sums.right < total:
            by_error = min(share * (1 - share) / variance, total)
            counted = min(by_error, counted) if few else by_error
        counted *= freedom(level, m - 1)
    found = wilson(share * counted, counted, level)
    return Interval(share, found.low, found.high, f"Wilson, effective n = {counted:.1f} of {total:.0f}")


def repeated_share(sums: npt.NDArray[np.float64], sizes: npt.NDArray[np.integer], level: float = 0.95) -> Interval:
    """The mean of shares, one for each item, with an interval for further items of further clusters, sampled anew.

    Samples are nested in items and items in clusters, so that the spread between clusters holds the chance of all
    three, and no correlation has to be estimated. The error is cluster-robust (`clustered_mean`; Cameron and Miller, J
    Hum Resour 50:317, 2015), taken to the logit scale by the delta method as for proportions in surveys (Rust and Rao,
    Stat Methods Med Res 5:283, 1996), with a t quantile of clusters - 1 df: it stays in [0, 1] and covers better near 0
    and 1 (bench/coverage.py, section samples). It assumes independent clusters. Where all clusters have the same share,
    or there is one, the interval is Wilson's with n = clusters.

    sums: of each cluster the sum over its items of the share of samples that are right, in [0, 1]; or of 0 and 1, where
        something is said of all samples of an item together [clusters].
    sizes: the numbers of items, each above zero [clusters]. level: of confidence, .95 by default.

    nan where there is no cluster.
    """
    found, clusters = sums_mean(sums, sizes, level), sums.size
    share = found.estimate
    if math.isnan(share):
        return found
    if math.isnan(found.low) or not 0 < share < 1:
        return wilson(share * clusters, clusters, level)
    half, middle = (found.high - share) / (share * (1 - share)), math.log(share / (1 - share))
    low, high = (
        1 / (1 + math.exp(-bound)) if abs(bound) < 700 else float(bound > 0) for bound in (middle - half, middle + half)
    )
    return Interval(share, low, high, f"cluster-robust t on the logit scale, {clusters - 1} df, items and samples")
