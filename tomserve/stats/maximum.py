"""Whether the largest of many means is larger than the largest of as many means of nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tomserve.stats.cells import same_length

CHUNK = 1 << 22
"""About how many means are held at a time."""
TIES = 1e-12
"""Sums of the same numbers in another order differ by less than this, relative to the largest, and count as equal."""


@dataclass(frozen=True)
class Maximum:
    """The largest mean and what it is worth.

    value: the largest mean over the cells. cell: its index, the first of equal ones. p: the probability of a maximum
    at least as large where nothing works. null_95: what the maximum stays below in 95% of such draws.
    """

    value: float
    cell: int
    p: float
    null_95: float


def sign_flips(effects: npt.ArrayLike, clusters: npt.ArrayLike, draws: int = 2000, seed: int = 0) -> Maximum:
    """Test the largest mean over all cells by the distribution of the largest mean under random signs of clusters.

    Where nothing works, a cluster's effects are as likely as their opposites, in all cells together. So the signs of
    whole clusters are drawn anew, and the maximum over all cells is taken each time; p is (1 + those at least as large)
    / (1 + draws). That is valid for any dependence between cells, and answers for all of them at once (Westfall and
    Young, "Resampling-based multiple testing", 1993; Nichols and Holmes, Hum Brain Mapp 15:1, 2002). One-sided: only
    large means count. It assumes independent clusters.

    effects: one number for each item and cell [n, c]. clusters: of each item [n]. draws: how many. seed: of the signs.

    Raises ValueError for columns of unequal length, no items or no cells, and effects that are not finite.
    """
    values, sums = _sums(effects, clusters)
    return _tested(sums, sums.sum(axis=0), len(values), draws, seed)


def above_all(
    effects: npt.ArrayLike, others: Sequence[npt.ArrayLike], clusters: npt.ArrayLike, draws: int = 2000, seed: int = 0
) -> Maximum:
    """Test whether there is a cell in which the effects are above 0 and above those of every other measure.

    The value is the largest, over the cells, of the smallest mean difference between the effects and any of the others,
    where nothing (0) is one of them. It is compared with the largest difference of all cells and all others together
    under random signs of whole clusters. In each cell at least one of the others does as much where nothing is to be
    found, and which one that is may change from cell to cell; the largest of those differences is at most the largest
    of all, so that p errs at most as often as it says, whichever they are. (To take the largest p of a test against
    each other measure would not do: the effects may exceed one of them here and another one there, and never both.)

    effects: one number for each item and cell [n, c]. others: of the other measures, in the same cells, each [n, c].
    clusters, draws, seed: as in `sign_flips`. Raises ValueError as `sign_flips` does, and for others of another shape.
    """
    values, own = _sums(effects, clusters)
    sums = [own]
    for one in others:
        if np.shape(one) != values.shape:
            raise ValueError(f"effects to compare with of shape {np.shape(one)}: expected {values.shape}")
        sums.append(own - _sums(one, clusters)[1])
    least = np.min([one.sum(axis=0) for one in sums], axis=0)
    return _tested(np.hstack(sums), least, len(values), draws, seed)


def _sums(effects: npt.ArrayLike, clusters: npt.ArrayLike) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The effects as numbers, checked [n, c], and their sums over clusters [clusters, c]."""
    values, names = np.asarray(effects, dtype=float), np.asarray(clusters)
    same_length(values, names)
    if values.ndim != 2 or not values.size or not np.isfinite(values).all():
        raise ValueError(f"effects of shape {values.shape}: expected finite numbers [items, cells], at least one")
    _, index = np.unique(names, return_inverse=True)
    sums = np.zeros((int(index.max()) + 1, values.shape[1]))
    np.add.at(sums, index, values)
    return values, sums


def _tested(sums: npt.NDArray[np.float64], totals: npt.NDArray[np.float64], n: int, draws: int, seed: int) -> Maximum:
    """The largest of the totals [c], over n items, against the largest of the sums [clusters, columns] under random
    signs of the clusters."""
    means = totals / n
    cell = int(means.argmax())
    rng = np.random.default_rng(seed)
    null = np.empty(draws)
    step = max(1, CHUNK // sums.shape[1])
    for start in range(0, draws, step):
        signs = 1 - 2 * rng.integers(0, 2, (min(step, draws - start), len(sums)))
        null[start : start + step] = (signs @ sums).max(axis=1) / n
    value = float(means[cell])
    reached = int((null >= value - TIES * float(np.abs(sums).sum(axis=0).max())).sum())
    return Maximum(value, cell, (1 + reached) / (1 + draws), float(np.quantile(null, 0.95)))
