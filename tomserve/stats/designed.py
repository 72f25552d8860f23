"""The share of answers of a kind, such as changed ones, where answers come in clusters: Wilson's interval for the
number of independent answers that have the same error.

>>> changed = [1, 0, 0, 0] * 30
>>> alone, together = range(120), [n // 40 for n in range(120)]
>>> found = designed_share(changed, alone)
>>> round(found.low, 3), round(found.high, 3), found.method
(0.18, 0.336, 'Wilson, effective n = 116.6 of 120')
>>> designed_share([1] * 40 + [0] * 80, together).method
'Wilson, effective n = 0.4 of 120'
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tomserve.stats.cells import same_length
from tomserve.stats.distributions import freedom
from tomserve.stats.effects import FEW_CHANGES, effective_answers
from tomserve.stats.proportions import Interval, wilson


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
    total, m, right = int(y.size), sizes.size, float(y.sum())
    share, counted = right / total, float(effective_answers(sizes))
    if m > 1:
        sums = np.bincount(index, weights=y - share)
        variance = m / (m - 1) * float(sums @ sums) / total**2
        few = min(right, total - right) < FEW_CHANGES
        if variance > 1e-12 and 0 < right < total:
            by_error = min(share * (1 - share) / variance, float(total))
            counted = min(by_error, counted) if few else by_error
        counted *= freedom(level, m - 1)
    found = wilson(share * counted, counted, level)
    return Interval(share, found.low, found.high, f"Wilson, effective n = {counted:.1f} of {total}")
