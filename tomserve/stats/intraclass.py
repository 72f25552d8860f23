"""How alike the answers within a cluster are, and for how many independent answers they count.

Questions about one story are neither copies of each other nor independent. Their intra-class correlation says where
between the two they lie: with 0 every answer counts, with 1 a story of sixteen questions counts once.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tomserve.stats.cells import same_length

Floats = npt.NDArray[np.float64]


def intraclass(outcome: npt.ArrayLike, cluster: npt.ArrayLike, group: npt.ArrayLike) -> float:
    """Intra-class correlation of the outcomes within clusters, from one analysis of variance pooled over groups.

    (MSB - MSW) / (MSB + (n0 - 1) MSW), where MSB and MSW are the mean squares between clusters of a group and within
    clusters, and n0 the usual mean cluster size for unequal clusters (Donner, Int Stat Rev 54:67, 1986; for binary
    outcomes Ridout, Demetrio and Firth, Biometrics 55:137, 1999). It is cut to [0, 1]. It assumes that the correlation
    is alike in all groups (classes), of which each has too few clusters for an estimate of its own, and that groups
    differ in level only. A cluster is taken as another one in each group in which it has answers.

    outcome: 1 right, 0 wrong, nan left out [answers].
    cluster: the task or story of each answer [answers].
    group: the class of each answer [answers].

    nan where it cannot be estimated: no group has two clusters, no cluster two answers, or nothing varies. Raises
    ValueError for columns of unequal length.

        >>> round(intraclass([1, 1, 0, 0, 1, 0], ["a", "a", "b", "b", "c", "c"], ["x"] * 6), 3)
        0.5
    """
    y, clusters, groups = np.asarray(outcome, dtype=float), np.asarray(cluster), np.asarray(group)
    same_length(y, clusters, groups)
    known = ~np.isnan(y)
    if not known.any():
        return math.nan
    y = y[known]
    _, of_group = np.unique(groups[known], return_inverse=True)
    names, codes = np.unique(clusters[known], return_inverse=True)
    pairs, index = np.unique(of_group * len(names) + codes, return_inverse=True)
    sizes = np.bincount(index).astype(float)
    means = np.bincount(index, weights=y) / sizes
    owner = pairs // len(names)
    totals, counts = np.bincount(owner, weights=sizes), np.bincount(owner)
    levels = np.bincount(owner, weights=means * sizes) / totals
    between, within = float(np.sum(counts - 1)), y.size - float(sizes.size)
    if between < 1 or within < 1:
        return math.nan
    msb = float(np.sum(sizes * (means - levels[owner]) ** 2)) / between
    msw = float(np.sum((y - means[index]) ** 2)) / within
    n0 = float(np.sum(totals - np.bincount(owner, weights=sizes**2) / totals)) / between
    whole = msb + (n0 - 1) * msw
    return min(1.0, max(0.0, (msb - msw) / whole)) if whole > 1e-12 else math.nan


def effective_n(sizes: npt.ArrayLike, icc: float) -> float:
    """For how many independent answers clusters of these sizes count, given the intra-class correlation.

    n / (1 + (sum of squared sizes / n - 1) icc): Kish's design effect for clusters of unequal sizes (Kish, "Survey
    Sampling", 1965, section 8.2; Donner, Birkett and Buck, Am J Epidemiol 114:906, 1981), for a mean in which every
    answer counts the same. It is never fewer than the clusters, nor more than the answers.

    sizes: number of answers of each cluster, above zero [clusters].
    icc: in [0, 1]; where it is unknown (nan) every cluster counts once.

        >>> effective_n([16] * 7, 0.2)
        28.0
    """
    n = np.asarray(sizes, dtype=float)
    if not n.size:
        return 0.0
    return effective_n_of(float(n.sum()), n.size, float(np.sum(n**2)), icc)


def effective_n_of(total: float, clusters: int, squares: float, icc: float) -> float:
    """The number of `effective_n` from the numbers of answers and of clusters, above zero, and the sum of the squared
    numbers of answers of the clusters."""
    if math.isnan(icc):
        return float(clusters)
    if not 0 <= icc <= 1:
        raise ValueError(f"an intra-class correlation of {icc}: expected a number from 0 to 1")
    effect = 1 + (squares / total - 1) * icc
    return min(total, max(float(clusters), total / effect))
