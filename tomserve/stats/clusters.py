"""Means by cluster, stratum and arm, the intra-class correlation, and the effective number of answers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Cells:
    """Mean outcome of each stratum and arm, a mean of its clusters' means, for the strata with both arms; each [strata,
    2], control and treated."""

    means: Floats
    counts: npt.NDArray[np.int64]
    answers: npt.NDArray[np.int64]
    right: Floats
    dropped: int


@dataclass(frozen=True)
class ArmSums:
    """Sums over the answers, each 0 or 1, of every cluster within a stratum and arm, sorted by stratum, then cluster
    [clusters]; strata and clusters as codes from 0."""

    stratum: Codes
    cluster: Codes
    treated: npt.NDArray[np.bool_]
    answers: npt.NDArray[np.int64]
    right: Floats

    @classmethod
    def of(
        cls, outcome: npt.ArrayLike, treated: npt.ArrayLike, cluster: npt.ArrayLike, stratum: npt.ArrayLike
    ) -> ArmSums:
        """The sums of columns [answers]; an outcome of nan is left out. Raises ValueError for unequal lengths."""
        y, arm = np.asarray(outcome, dtype=float), np.asarray(treated, dtype=bool)
        clusters, strata = np.asarray(cluster), np.asarray(stratum)
        check_same_length(y, arm, clusters, strata)
        known = ~np.isnan(y)
        _, s = np.unique(strata[known], return_inverse=True)
        names, c = np.unique(clusters[known], return_inverse=True)
        rows = (s * max(1, len(names)) + c) * 2 + arm[known]
        cells, index, sizes = np.unique(rows, return_inverse=True, return_counts=True)
        right: Floats = np.bincount(index, weights=y[known], minlength=cells.size).astype(float)
        both = cells // 2
        return cls(both // max(1, len(names)), both % max(1, len(names)), cells % 2 > 0, sizes, right)

    @property
    def of_cell(self) -> Codes:
        """Twice the code of the stratum, plus 1 where treated."""
        return self.stratum * 2 + self.treated

    def with_right(self, right: Floats) -> ArmSums:
        """The same clusters with other numbers of right answers [clusters]."""
        return replace(self, right=right)

    def matched(self) -> ArmSums:
        """The clusters of strata with both arms, which are coded anew."""
        both = np.isin(self.stratum, np.intersect1d(self.stratum[self.treated], self.stratum[~self.treated]))
        stratum = np.unique(self.stratum[both], return_inverse=True)[1]
        return ArmSums(stratum, self.cluster[both], self.treated[both], self.answers[both], self.right[both])

    def cells(self) -> Cells:
        """Mean outcome by stratum and arm, for the strata that have both arms."""
        size = 2 * (int(self.stratum.max(initial=-1)) + 1)
        counts, sums, answers, right = (
            np.bincount(self.of_cell, weights, minlength=size).reshape(-1, 2)
            for weights in (None, self.right / self.answers, self.answers, self.right)
        )
        full = (counts > 0).all(axis=1)
        clusters, whole = (one[full].round().astype(np.int64) for one in (counts, answers))
        means, sums_right = (np.asarray(one, dtype=float) for one in (sums[full] / counts[full], right[full]))
        return Cells(means, clusters, whole, sums_right, int((~full).sum()))


def cluster_means(y: Floats, clusters: npt.NDArray[np.generic], group: Codes) -> tuple[Floats, Codes, Codes]:
    """Means of each cluster within each group (codes from 0), with their groups and numbers of answers."""
    if not y.size:
        return np.empty(0), np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
    names, codes = np.unique(clusters, return_inverse=True)
    pairs, index, sizes = np.unique(group * len(names) + codes, return_inverse=True, return_counts=True)
    return np.bincount(index, weights=y) / sizes, pairs // len(names), sizes


def unit_means(
    y: Floats, clusters: npt.NDArray[np.generic], strata: npt.NDArray[np.generic]
) -> tuple[Floats, npt.NDArray[np.generic], int]:
    """By stratum the mean of its clusters' means; then the strata, and the number of clusters."""
    names, codes = np.unique(strata, return_inverse=True)
    means, of_stratum, _ = cluster_means(y, clusters, codes)
    return means_of_units(means, of_stratum, len(names)), names, means.size


def means_of_units(means: Floats, of_unit: Codes, units: int) -> Floats:
    """By unit (coded from 0) the mean of its clusters' means [clusters]."""
    counts = np.bincount(of_unit, minlength=units)
    return np.asarray(np.bincount(of_unit, weights=means, minlength=units) / np.maximum(counts, 1), dtype=float)


def check_same_length(*columns: npt.NDArray[np.generic]) -> None:
    """Raise ValueError where the columns have different numbers of rows."""
    if len({column.shape[0] for column in columns}) != 1:
        raise ValueError(f"columns of {[column.shape[0] for column in columns]} rows: expected equal lengths")


def intraclass(outcome: npt.ArrayLike, cluster: npt.ArrayLike, group: npt.ArrayLike) -> float:
    """Intra-class correlation within clusters, from one analysis of variance pooled over groups, cut to [0, 1]: (MSB -
    MSW) / (MSB + (n0 - 1) MSW) (Donner, Int Stat Rev 54:67, 1986; Ridout et al., Biometrics 55:137, 1999). Groups
    (classes) may differ in level only; a cluster is another one in each.

    outcome (nan left out), cluster, group: [answers]. nan where no group has two clusters, no cluster two answers, or
    nothing varies. Raises ValueError for columns of unequal length.

    >>> round(intraclass([1, 1, 0, 0, 1, 0], ["a", "a", "b", "b", "c", "c"], ["x"] * 6), 3)
    0.5
    """
    y, clusters, groups = np.asarray(outcome, dtype=float), np.asarray(cluster), np.asarray(group)
    check_same_length(y, clusters, groups)
    known = ~np.isnan(y)
    y = y[known]
    _, of_group = np.unique(groups[known], return_inverse=True)
    names, codes = np.unique(clusters[known], return_inverse=True)
    pairs, index, sizes = np.unique(of_group * max(1, len(names)) + codes, return_inverse=True, return_counts=True)
    sums: Floats = np.bincount(index, weights=y, minlength=pairs.size).astype(float)
    apart: Floats = np.bincount(index, weights=(y - (sums / sizes)[index]) ** 2, minlength=pairs.size).astype(float)
    return intraclass_of(sums, apart, sizes, pairs // max(1, len(names)))


def intraclass_of(sums: Floats, apart: Floats, sizes: npt.NDArray[np.integer], group: Codes) -> float:
    """The same from each cluster's sums of the outcomes and of their squared distances from its mean, and the number of
    outcomes [clusters]."""
    means, counts = sums / sizes, np.bincount(group)
    totals, of_group = np.bincount(group, weights=sizes), np.bincount(group, weights=sums)
    between, within = float(sizes.size - counts.size), float(sizes.sum() - sizes.size)
    if between < 1 or within < 1:
        return math.nan
    msb = float(np.sum(sizes * (means - (of_group / totals)[group]) ** 2)) / between
    msw = float(np.sum(apart)) / within
    n0 = float(np.sum(totals - np.bincount(group, weights=sizes.astype(float) ** 2) / totals)) / between
    whole = msb + (n0 - 1) * msw
    return min(1.0, max(0.0, (msb - msw) / whole)) if whole > 1e-12 else math.nan


def effective_n(sizes: npt.ArrayLike, icc: float) -> float:
    """For how many independent answers clusters of these sizes count: n / (1 + (sum of squared sizes / n - 1) icc)
    (Kish, "Survey Sampling", 1965, section 8.2), from the number of clusters (also for an icc of nan) up to n.

    >>> effective_n([16] * 7, 0.2)
    28.0
    """
    n = np.asarray(sizes, dtype=float)
    if not n.size:
        return 0.0
    return effective_n_of(float(n.sum()), n.size, float(np.sum(n**2)), icc)


def effective_n_of(total: float, clusters: int, squares: float, icc: float) -> float:
    """The same from the numbers of answers and clusters, above zero, and the sum of the squared sizes. Raises
    ValueError for an icc outside [0, 1]."""
    if math.isnan(icc):
        return float(clusters)
    if not 0 <= icc <= 1:
        raise ValueError(f"an intra-class correlation of {icc}: expected a number from 0 to 1")
    effect = 1 + (squares / total - 1) * icc
    return min(total, max(float(clusters), total / effect))
