"""Sign-flip tests with random flips for many units, computed in batches so that memory stays bounded.

The test asks whether differences are symmetric around zero: under that hypothesis each difference is as likely with its
sign reversed (Fisher, "The Design of Experiments", 1935, section 21). The null distribution can be drawn in two ways,
which give the same distribution. Up to SINGLY units are flipped one by one; the null means are then those of scipy's
`permutation_test`, bit for bit and whatever the size of a batch. With more units, those whose differences have the same
size are flipped together: how many of m such units are positive is binomial with m trials and probability 1/2. A draw
then costs as much as there are different sizes (differences between shares of eight questions have few) and not as
there are units.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
CELLS = 2**18
"""The most random numbers held at once: 2 MB, a few times over, for a million units as for twenty."""

SINGLY = 1024
"""Up to so many units, every unit is flipped by itself."""

ROUNDED = 1e-11
"""Means closer than this are ties: differences are rounded to twelve decimals, while means of shares that are not equal
are further apart.
"""

_WORTH = 32
"""One binomial draw takes about as long as flipping this many units one by one."""


def flipped_p(differences: Floats, draws: int, seed: int) -> float:
    """Two-sided p of the hypothesis that the differences are symmetric around zero, by random sign flips of their mean.

    It is twice the smaller tail, where a tail is (1 + draws at least as extreme) / (1 + draws), so that it is never 0
    and the test keeps its level with any number of draws (Phipson and Smyth, Stat Appl Genet Mol Biol 9:39, 2010). It
    assumes that the units are independent. Means that differ from the observed one by rounding only count as ties.

    differences: one number a unit [units], none of them zero or missing.
    draws: number of random sign patterns.
    seed: of the random numbers; the same seed gives the same p.
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
    """How many draws of `width` random numbers each are held at once: at most CELLS numbers, at least one draw."""
    return max(1, CELLS // max(1, width))


def batches(draws: int, width: int) -> Iterator[int]:
    """Yield the sizes of the batches in which `draws` draws of `width` random numbers each are made; they add up to
    `draws`.
    """
    size = batch_size(width)
    for start in range(0, draws, size):
        yield min(size, draws - start)


def _sizes(differences: Floats) -> tuple[Floats, npt.NDArray[np.int64]]:
    """The absolute sizes of the differences, each once, and how many units have it. Few units are returned as they are,
    each with a count of one.
    """
    if differences.size <= SINGLY:
        return differences, np.ones(differences.size, dtype=np.int64)
    # rounded to twelve decimals, so that shares that differ by rounding only fall together
    return np.unique(np.abs(differences).round(12), return_counts=True)


def _singly(differences: Floats, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Null means in batches, every unit flipped by itself: the last bit of a random word decides its sign, which is
    what scipy does with the same generator.
    """
    for rows in batches(draws, differences.size):
        keep = rng.integers(0, 2**32, size=(rows, differences.size), dtype=np.uint32) & 1
        signed = np.ascontiguousarray(np.where(keep, differences, -differences).T)
        yield (
            np.add.reduce(signed, axis=0) / differences.size
        )  # added unit after unit, as scipy does, for equal rounding


def _by_size(sizes: Floats, counts: npt.NDArray[np.int64], draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Null means in batches, units of the same size flipped together by one binomial draw."""
    units = int(counts.sum())
    for rows in batches(draws, sizes.size):
        positive = rng.binomial(counts, 0.5, size=(rows, sizes.size))
        yield (2 * positive - counts) @ sizes / units
