"""Whether the largest of many means is larger than the largest of as many means of nothing."""

from __future__ import annotations

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
    values, names = np.asarray(effects, dtype=float), np.asarray(clusters)
    same_length(values, names)
    if values.ndim != 2 or not values.size or not np.isfinite(values).all():
        raise ValueError(f"effects of shape {values.shape}: expected finite numbers [items, cells], at least one")
    _, index = np.unique(names, return_inverse=True)
    sums = np.zeros((int(index.max()) + 1, values.shape[1]))
    np.add.at(sums, index, values)
    means = sums.sum(axis=0) / len(values)
    cell = int(means.argmax())
    rng = np.random.default_rng(seed)
    null = np.empty(draws)
    step = max(1, CHUNK // values.shape[1])
    for start in range(0, draws, step):
        signs = 1 - 2 * rng.integers(0, 2, (min(step, draws - start), len(sums)))
        null[start : start + step] = (signs @ sums).max(axis=1) / len(values)
    value = float(means[cell])
    reached = int((null >= value - TIES * float(np.abs(sums).sum(axis=0).max())).sum())
    return Maximum(value, cell, (1 + reached) / (1 + draws), float(np.quantile(null, 0.95)))
