"""Random sign flips of many units, in batches of bounded memory.

Two ways to draw the same distribution. Units are flipped one by one up to SINGLY of them: the null means are those of
scipy's `permutation_test`, to the bit and whatever the size of a batch. Of more units, those whose differences have the
same size are flipped together: how many of m of them are positive is binomial (m, 1/2), so that a draw costs as much as
there are different sizes (shares of eight questions have eight) and not as there are units.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
CELLS = 2**18
"""Random numbers held at once, of a million units as of twenty: 2 MB, a few times over."""

SINGLY = 1024
"""Units that are always flipped one by one."""

ROUNDED = 1e-11
"""Differences of means that come of twelve decimals; sums of shares are further apart unless they are equal."""

_WORTH = 32
"""A binomial draw takes as long as flipping so many units."""


def flipped_p(differences: Floats, draws: int, seed: int) -> float:
    """Two-sided p of a mean of zero by `draws` random flips: twice the smaller tail, (1 + as extreme) / (1 + draws).

    differences: nonzero, none missing. Means that differ by rounding from the observed one are ties.
    """
    observed, rng = float(np.mean(differences)), np.random.default_rng(seed)
    sizes, counts = _sizes(differences)
    if sizes.size * _WORTH <= differences.size:
        nulls, tie = _by_size(sizes, counts, draws, rng), ROUNDED
    else:
        nulls, tie = _singly(differences, draws, rng), abs(100 * float(np.finfo(np.float64).eps) * observed)
    less = more = 0
    for means in nulls:
        less += int(np.count_nonzero(means <= observed + tie))
        more += int(np.count_nonzero(means >= observed - tie))
    return min(1.0, 2 * min((1 + less) / (1 + draws), (1 + more) / (1 + draws)))


def batch_size(width: int) -> int:
    """Draws of `width` random numbers each that are held at once: at most CELLS numbers, at least one draw."""
    return max(1, CELLS // max(1, width))


def batches(draws: int, width: int) -> Iterator[int]:
    """Sizes of the batches in which so many draws of `width` random numbers each are made."""
    size = batch_size(width)
    for start in range(0, draws, size):
        yield min(size, draws - start)


def _sizes(differences: Floats) -> tuple[Floats, npt.NDArray[np.int64]]:
    """The sizes of differences, each once, and how many units have it; all units by themselves where they are few."""
    if differences.size <= SINGLY:
        return differences, np.ones(differences.size, dtype=np.int64)
    # twelve decimals: shares that are equal but for rounding are of one size
    return np.unique(np.abs(differences).round(12), return_counts=True)


def _singly(differences: Floats, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """The last bit of a random word a unit, which is what scipy makes of the same generator."""
    for rows in batches(draws, differences.size):
        keep = rng.integers(0, 2**32, size=(rows, differences.size), dtype=np.uint32) & 1
        signed = np.ascontiguousarray(np.where(keep, differences, -differences).T)
        yield np.add.reduce(signed, axis=0) / differences.size  # unit after unit, the order in which scipy adds


def _by_size(sizes: Floats, counts: npt.NDArray[np.int64], draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    units = int(counts.sum())
    for rows in batches(draws, sizes.size):
        positive = rng.binomial(counts, 0.5, size=(rows, sizes.size))
        yield (2 * positive - counts) @ sizes / units
