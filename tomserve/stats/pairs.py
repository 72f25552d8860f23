"""The effect of two conditions on the same items, such as two strategies of asking, from sums over clusters.

All that the effect needs of a cluster of items is how many items it has, how many of them are right under either
condition, and how many changed. So a hundred million pairs are counted cluster by cluster, wherever they lie, and the
effect is that of all pairs.

>>> rows = [1, 1, 0, 1], [0, 1, 0, 0], ["a", "a", "b", "b"]
>>> summed = pair_sums(*rows)
>>> summed.items.tolist(), summed.treated.tolist(), summed.control.tolist(), summed.changed.tolist()
([2, 2], [2.0, 1.0], [1.0, 0.0], [1.0, 1.0])
>>> pairs_effect(summed) == paired_effect(*rows)
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tomserve.stats.cells import Codes, means_of_units, same_length
from tomserve.stats.distributions import freedom
from tomserve.stats.effects import FEW_CHANGES, Design, Effect, effective_answers, unit_effect, unit_interval
from tomserve.stats.paired import varies
from tomserve.stats.proportions import Interval, tango, tango_excludes_zero

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
    same_length(t, c, clusters, strata)
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
    `ratios.inverted_ratio`.

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
    to the t quantile, as for `tomserve.stats.designed`.

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


def paired_estimate(
    treated_outcome: npt.ArrayLike,
    control_outcome: npt.ArrayLike,
    cluster: npt.ArrayLike,
    stratum: npt.ArrayLike | None = None,
) -> float:
    """The estimate of `paired_effect` alone, without interval and tests; nan where there is no unit.

    Parameters as there. Raises ValueError for columns of unequal length.
    """
    return pairs_estimate(pair_sums(treated_outcome, control_outcome, cluster, stratum))


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
