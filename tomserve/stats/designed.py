"""The share of answers of a kind, such as right or changed ones, where answers come in clusters: Wilson's interval for
the number of independent answers that have the same error.

>>> changed = [1, 0, 0, 0] * 30
>>> alone, together = range(120), [n // 40 for n in range(120)]
>>> found = designed_share(changed, alone)
>>> round(found.low, 3), round(found.high, 3), found.method
(0.18, 0.336, 'Wilson, effective n = 116.6 of 120')
>>> designed_share([1] * 40 + [0] * 80, together).method
'Wilson, effective n = 0.4 of 120'
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tomserve.stats.cells import same_length
from tomserve.stats.distributions import freedom
from tomserve.stats.effects import CORRELATION, FEW_CHANGES
from tomserve.stats.intraclass import effective_n_of
from tomserve.stats.proportions import Interval, wilson


@dataclass(frozen=True, slots=True)
class Summed:
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
    same_length(y, clusters)
    known = ~np.isnan(y)
    y = y[known]
    if not y.size:
        return wilson(0, 0, level)
    _, index, sizes = np.unique(clusters[known], return_inverse=True, return_counts=True)
    n, right = sizes.astype(float), np.bincount(index, weights=y)
    sums = (float(one) for one in (y.size, y.sum(), right @ right, right @ n, n @ n))
    return summed_share(Summed(sizes.size, *sums), level)


def summed_share(sums: Summed, level: float = 0.95) -> Interval:
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
