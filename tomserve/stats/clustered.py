"""Shares and effects with intervals where answers come in clusters (tasks, stories) and clusters in strata (stages).

Inputs are parallel columns [answers] (an outcome of nan is left out), or sums over clusters. Effects are differences of
probability. What takes a stratum speaks for new strata; what takes none, and `tomserve.stats.strata`, for further
clusters of these strata. One mean a cluster is analysed (Hayes and Moulton, "Cluster Randomised Trials", 2009, ch. 10).
"""

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
from tomserve.stats.proportions import (
    Interval,
    fieller,
    logit_bounds,
    ratio_from_difference,
    tango,
    tango_excludes_zero,
    wilson,
)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PairSums:
    """Sums over the items of each cluster, sorted by unit (itself, or its stratum), coded from 0 without gaps
    [clusters]."""

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
        """By unit the mean of its clusters' means. sums: over each cluster's items [clusters]."""
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
    """The sums of the outcomes of two conditions on the same items, for `pairs_effect`. treated_outcome,
    control_outcome: [items], nan left out. cluster: [items]. stratum: whose units are strata; None for clusters. Raises
    ValueError for columns of unequal length."""
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


def pairs_effect(pairs: PairSums, *, strata: bool = False) -> Effect:
    """Effect of two conditions on the same items: the mean of the units' differences.

    Units that are clusters speak for further clusters of these strata; strata, each a mean of its clusters' means, for
    new strata. t interval and test, units - 1 df, for independent units; the sign-flip test needs symmetric differences
    only. Where differences do not vary the interval is Tango's for an effective number of pairs (correlated by .1
    within a unit); where fewer than five answers changed, the smallest that holds both. strata: whether units are
    strata, which only the method's words need."""
    t, c = pairs.by_unit(pairs.treated), pairs.by_unit(pairs.control)
    return unit_effect(t, c, _design(pairs, t - c, strata=strata))


def pairs_intervals(pairs: PairSums, *, strata: bool = False) -> Callable[[float], Interval]:
    """The interval of `pairs_effect` as a function of the level alone."""
    d = pairs.by_unit(pairs.treated) - pairs.by_unit(pairs.control)
    design = _design(pairs, d, strata=strata)
    return lambda level: unit_interval(d, design, level)


def margin_intervals(pairs: PairSums, *, strata: bool = False) -> Callable[[float], Interval]:
    """Intervals for tests against a margin, as a function of the level: the smallest that hold that of `pairs_effect`
    and Tango's for the number of independent pairs with the same error.

    With few clusters and rare, large differences a t interval ends too near to the mean (bench/margin_coverage.py); a
    score interval measures by the spread that there would be at the bound. Its pairs are those whose mean would have
    the units' error, at most all pairs, times the squared ratio of the normal to the t quantile."""
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
    """The estimate of `pairs_effect` alone; nan where there is no unit."""
    t, c = pairs.by_unit(pairs.treated), pairs.by_unit(pairs.control)
    return float((t - c).mean()) if t.size else math.nan


def bounds(pairs: PairSums, failed_treated: npt.ArrayLike, failed_control: npt.ArrayLike) -> tuple[float, float]:
    """The least and the greatest estimate that failures leave possible (`paired.missing_bounds`). pairs: sums of what
    did not fail. failed_treated, failed_control: numbers of failures [clusters]."""
    t, c = pairs.treated + np.asarray(failed_treated), pairs.control + np.asarray(failed_control)
    return pairs_estimate(replace(pairs, control=c)), pairs_estimate(replace(pairs, treated=t))


def cells_effect(cells: Cells) -> Effect:
    """Effect for new strata: the mean over strata with both arms of treated - control, each a mean of cluster means.

    For one class against the `none` tasks of the same stages; for all together see `strata.pooled_effect`. t interval
    and test, strata - 1 df, for independent strata; sign flips need symmetric differences only. Where differences do
    not vary, the interval is Newcombe's for an effective number of answers (correlated by .1 within a stratum and arm);
    with fewer than five right or wrong answers the smallest that holds both. The ratio is `inverted_ratio`."""
    arms = tuple(int(count) for count in cells.counts.sum(axis=0))
    method = f", {len(cells.means)} strata matched" + (f", {cells.dropped} unmatched left out" if cells.dropped else "")
    t, c, right = cells.means[:, 1], cells.means[:, 0], float(cells.right.sum())
    few = min(right, int(cells.answers.sum()) - right) < FEW_CHANGES

    def score(of: float) -> Interval:
        return independent_score(float(t.mean()), cells.answers[:, 1], float(c.mean()), cells.answers[:, 0], of)

    return unit_effect(t, c, Design(sum(arms), min(arms), few, score, method))


def unmatched_effect(means: Floats, of_arm: Codes, sizes: npt.NDArray[np.integer]) -> Effect:
    """Effect between two sets of different clusters, for further clusters of both kinds: Welch's t (Biometrika 34:28,
    1947) over their means, or Newcombe's interval for effective numbers of answers without variance. There is no sign
    to flip.

    means, of_arm (1 treated, 0 not), sizes: of each cluster [clusters]."""
    t, c = means[of_arm == 1], means[of_arm == 0]
    n1, n0 = t.size, c.size
    if not n1 or not n0:
        return undefined_effect("undefined: an arm has no clusters", n1 + n0)
    share1, share0, few = float(t.mean()), float(c.mean()), min(n1, n0) < FEW
    if min(n1, n0) < 2 or not (varies(t) or varies(c)):

        def score(of: float) -> Interval:
            return independent_score(share1, sizes[of_arm == 1], share0, sizes[of_arm == 0], of)

        found, p = score(0.95), inverted_p(lambda level: score(level).bounds)
        low, high = min(found.low, share1 - share0), max(found.high, share1 - share0)
        method = "Newcombe, effective numbers of answers (zero variance or one cluster)"
        ratio = ratio_from_difference(share1, share0, low, high)
    else:
        v1, v0 = float(t.var(ddof=1)) / n1, float(c.var(ddof=1)) / n0  # one arm may be constant, with a variance of 0
        df = (v1 + v0) ** 2 / (v1**2 / (n1 - 1) + v0**2 / (n0 - 1))
        low, high, p = t_interval(share1 - share0, math.sqrt(v1 + v0), df)
        low, high = max(-1.0, low), min(1.0, high)
        method = f"Welch t, {df:.1f} df, unmatched clusters"
        ratio = fieller(share1, share0, np.diag([v1, v0]), t_quantile(0.975, df), round(df))
    flips = (math.nan, math.nan)
    return Effect(share1 - share0, low, high, p, *flips, share1, share0, ratio, n1 + n0, n1 + n0, method, few)


def clustered_share(right: float, sizes: npt.NDArray[np.integer], icc: float | None = None) -> Interval:
    """Share of right answers with Wilson's interval for further independent clusters. n is the number of clusters,
    which is conservative, or with `icc` (best pooled over classes) `clusters.effective_n`.

    right: their number. sizes: answers of each cluster [clusters]. icc: in [0, 1], nan counts as 1, None to count
    clusters. nan without answers. Raises ValueError for another icc."""
    total = int(sizes.sum())
    if icc is None or not total:
        return counted_share(right, total, sizes.size)
    n = effective_n(sizes, icc)
    found = wilson(right / total * n, n)
    return Interval(found.estimate, found.low, found.high, f"Wilson, effective n = {n:.1f} of {total}")


def counted_share(right: float, total: int, clusters: int) -> Interval:
    """The share of `clustered_share` without an icc, from the numbers of right answers, of answers and of clusters."""
    return wilson(right / total * clusters, clusters) if total else wilson(0, 0)


def clustered_mean(values: npt.ArrayLike, cluster: npt.ArrayLike, level: float = 0.95) -> Interval:
    """Mean of any numbers with a cluster-robust t interval, m / (m - 1) and m - 1 df (Cameron and Miller, J Hum Resour
    50:317, 2015), for further independent clusters. values: nan left out [answers]. The bounds are nan with one cluster
    or no spread. Raises ValueError for columns of unequal length."""
    y, clusters = np.asarray(values, dtype=float), np.asarray(cluster)
    check_same_length(y, clusters)
    known = ~np.isnan(y)
    _, codes, sizes = np.unique(clusters[known], return_inverse=True, return_counts=True)
    return sums_mean(np.asarray(np.bincount(codes, weights=y[known]), dtype=float), sizes, level)


def sums_mean(sums: Floats, sizes: npt.NDArray[np.integer], level: float = 0.95) -> Interval:
    """The mean of `clustered_mean` from the sum and the number, above zero, of the values of each cluster."""
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


def new_units_share(outcome: npt.ArrayLike, cluster: npt.ArrayLike, stratum: npt.ArrayLike | None = None) -> Interval:
    """Share of right answers to expect in new strata (without `stratum`, new clusters): `units_share` of the units'
    means. Raises ValueError for columns of unequal length."""
    y, clusters = np.asarray(outcome, dtype=float), np.asarray(cluster)
    strata = clusters if stratum is None else np.asarray(stratum)
    check_same_length(y, clusters, strata)
    known = ~np.isnan(y)
    means, _, _ = unit_means(y[known], clusters[known], strata[known])
    return units_share(means)


def units_share(means: npt.ArrayLike, level: float = 0.95) -> Interval:
    """The mean of the units' means, in [0, 1] [units], with a t interval on the logit scale (Rust and Rao, Stat Methods
    Med Res 5:283, 1996), units - 1 df, for independent units; Wilson's with n = units without variance. nan without
    units."""
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
    return Interval(share, *logit_bounds(share, spread), f"t on the logit scale, {m - 1} df")


@dataclass(frozen=True, slots=True)
class ClusterSums:
    """Sums over the clusters of their numbers of answers and right answers, of the squares of both, and of their
    products."""

    clusters: int
    answers: float
    right: float
    right_squares: float
    products: float
    squares: float


def designed_share(outcome: npt.ArrayLike, cluster: npt.ArrayLike) -> Interval:
    """The share of a 0/1 outcome over answers in clusters, each answer counted once.

    Wilson's interval for the number of independent answers with the same cluster-robust error, times the squared ratio
    of the normal to the t quantile (Korn and Graubard, Surv Methodol 24:193, 1998; Franco et al., J Surv Stat Methodol
    7:334, 2019). With fewer than five of a kind they count at most as a correlation of .1 within clusters says.
    outcome, cluster: [answers]. nan without answers. Raises ValueError for columns of unequal length."""
    y, clusters = np.asarray(outcome, dtype=float), np.asarray(cluster)
    check_same_length(y, clusters)
    known = ~np.isnan(y)
    y = y[known]
    if not y.size:
        return wilson(0, 0)
    _, index, sizes = np.unique(clusters[known], return_inverse=True, return_counts=True)
    n, right = sizes.astype(float), np.bincount(index, weights=y)
    sums = (float(one) for one in (y.size, y.sum(), right @ right, right @ n, n @ n))
    return summed_share(ClusterSums(sizes.size, *sums))


def summed_share(sums: ClusterSums) -> Interval:
    """The share of `designed_share` from sums over the clusters."""
    total, m = sums.answers, sums.clusters
    if not total:
        return wilson(0, 0)
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
        counted *= freedom(0.95, m - 1)
    found = wilson(share * counted, counted)
    return Interval(share, found.low, found.high, f"Wilson, effective n = {counted:.1f} of {total:.0f}")


def repeated_share(sums: npt.NDArray[np.float64], sizes: npt.NDArray[np.integer]) -> Interval:
    """The mean of shares, one for each item, for further items of further clusters, sampled anew: cluster-robust
    (`sums_mean`) on the logit scale with clusters - 1 df; the spread between clusters holds the chance of clusters,
    items and samples. Wilson's with n = clusters where all have the same share.

    sums: of each cluster over its items of the share of samples right, or of 0 and 1. sizes: numbers of items
    [clusters]."""
    found, clusters = sums_mean(sums, sizes), sums.size
    share = found.estimate
    if math.isnan(share):
        return found
    if math.isnan(found.low) or not 0 < share < 1:
        return wilson(share * clusters, clusters)
    low, high = logit_bounds(share, found.high - share)
    return Interval(share, low, high, f"cluster-robust t on the logit scale, {clusters - 1} df, items and samples")
