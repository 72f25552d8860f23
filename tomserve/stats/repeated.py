"""Shares over questions that were asked several times each, with intervals over items and samples.

>>> found = repeated_share([1.0, 0.8, 0.2, 0.6, 1.0, 0.4], ["a", "a", "b", "b", "c", "c"])
>>> round(found.estimate, 3), round(found.low, 3), round(found.high, 3)
(0.667, 0.107, 0.971)
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tomserve.stats.cells import same_length
from tomserve.stats.clustered import sums_mean
from tomserve.stats.proportions import Interval, wilson


def repeated_share(values: npt.ArrayLike, cluster: npt.ArrayLike, level: float = 0.95) -> Interval:
    """The mean of shares, one for each item, with an interval for further items of further clusters, sampled anew.

    Samples are nested in items and items in clusters, so that the spread between clusters holds the chance of all
    three, and no correlation has to be estimated. The error is cluster-robust (`clustered.clustered_mean`; Cameron and
    Miller, J Hum Resour 50:317, 2015), taken to the logit scale by the delta method as for proportions in surveys (Rust
    and Rao, Stat Methods Med Res 5:283, 1996), with a t quantile of clusters - 1 df: it stays in [0, 1] and covers
    better near 0 and 1 (bench/coverage.py, section samples). It assumes independent clusters. Where all clusters have
    the same share, or there is one, the interval is Wilson's with n = clusters.

    values: of each item the share of its samples that are right, in [0, 1]; or 0 and 1, where something is said of all
    samples of an item together [items]. nan values are left out. cluster: the cluster of each item [items]. level: of
    confidence.

    nan where there is no value. Raises ValueError for columns of unequal length.
    """
    y, names = np.asarray(values, dtype=float), np.asarray(cluster)
    same_length(y, names)
    known = ~np.isnan(y)
    _, codes, sizes = np.unique(names[known], return_inverse=True, return_counts=True)
    return repeated_of_sums(np.asarray(np.bincount(codes, weights=y[known]), dtype=float), sizes, level)


def repeated_of_sums(sums: npt.NDArray[np.float64], sizes: npt.NDArray[np.integer], level: float = 0.95) -> Interval:
    """The share of `repeated_share` from the sum of the values of each cluster and their number, which is above zero
    [clusters]."""
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
