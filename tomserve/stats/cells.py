"""Mean outcomes by cluster, by stratum and arm: the numbers that the estimators for clustered answers are made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Cells:
    """Mean outcome of each stratum and arm, a mean of its clusters' means, for the strata that have both arms.

    `means`, `counts` (of clusters), `answers` and `right` (numbers of answers, and of right ones): [strata, 2], columns
    control and treated. `dropped`: number of strata without one of the arms, which say nothing about the contrast.
    """

    means: Floats
    counts: npt.NDArray[np.int64]
    answers: npt.NDArray[np.int64]
    right: Floats
    dropped: int


def matched_cells(
    outcome: npt.ArrayLike, treated: npt.ArrayLike, cluster: npt.ArrayLike, stratum: npt.ArrayLike
) -> Cells:
    """Mean outcome by stratum and arm, for the strata that have both arms (see `Cells`).

    outcome, treated, cluster, stratum: columns as `tomserve.stats.clustered` describes [answers].

    Raises ValueError for columns of unequal length.
    """
    y, arm = np.asarray(outcome, dtype=float), np.asarray(treated, dtype=bool)
    clusters, strata = np.asarray(cluster), np.asarray(stratum)
    same_length(y, arm, clusters, strata)
    known = ~np.isnan(y)
    if not known.any():
        none = np.empty((0, 2), dtype=np.int64)
        return Cells(np.empty((0, 2)), none, none, np.empty((0, 2)), 0)
    _, codes = np.unique(strata[known], return_inverse=True)
    return cells_of(*cluster_means(y[known], clusters[known], codes * 2 + arm[known]))


def cells_of(means: Floats, of_cell: Codes, sizes: npt.NDArray[np.number]) -> Cells:
    """The same from the means of clusters, at least one, which is all that a cell is made of.

    means, of_cell, sizes: of each cluster within an arm its mean outcome, twice the code of its stratum (from 0) plus 1
    where it is treated, and its number of answers [clusters].
    """
    size = 2 * (int(of_cell.max()) // 2 + 1)
    counts = np.bincount(of_cell, minlength=size).reshape(-1, 2)
    sums, answers, right = (
        np.bincount(of_cell, weights=weights, minlength=size).reshape(-1, 2)
        for weights in (means, sizes, means * sizes)
    )
    full = (counts > 0).all(axis=1)
    return Cells(
        sums[full] / counts[full],
        counts[full].astype(np.int64),
        answers[full].round().astype(np.int64),
        np.asarray(right[full], dtype=float),
        int((~full).sum()),
    )


def cluster_means(y: Floats, clusters: npt.NDArray[np.generic], group: Codes) -> tuple[Floats, Codes, Codes]:
    """Mean outcome of each cluster within each group, where a cluster may have answers in several groups.

    Returns parallel arrays: the means, the groups they belong to, and the numbers of answers. `group`: codes from 0.
    """
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
    """By unit the mean of its clusters' means. means, of_unit: of each cluster [clusters]; units: how many there are,
    coded from 0."""
    counts = np.bincount(of_unit, minlength=units)
    return np.asarray(np.bincount(of_unit, weights=means, minlength=units) / np.maximum(counts, 1), dtype=float)


def same_length(*columns: npt.NDArray[np.generic]) -> None:
    """Raise ValueError where the columns have different numbers of rows."""
    if len({column.shape[0] for column in columns}) != 1:
        raise ValueError(f"columns of {[column.shape[0] for column in columns]} rows: expected equal lengths")
