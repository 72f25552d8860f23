"""Which of several models is ahead, and how probable each rank is, for further scenarios like these.

The interval of a difference is that of square-and-add (Zou and Donner, Stat Med 27:1693, 2008): distances of both
scores to their own bounds are added in squares, with the correlation of the scores over the same draws of scenarios. A
percentile interval of the drawn differences has no width where the scores hardly vary, such as those of two models that
are nearly always right, and it called one of two equal models better in a third of the simulations
(bench/functional_coverage.py). How probable it is to be ahead, and each rank, follows from normal differences whose
spread is that of these intervals, so that all of them say the same: a model is ahead with more than .975 exactly where
the 95% interval leaves out 0.

>>> found = compared({"x": Interval(0.9, 0.8, 0.95, ""), "y": Interval(0.5, 0.4, 0.6, "")}, {"x": [0.0], "y": [0.0]})
>>> [round(float(end[0, 1]), 3) for end in (found.low, found.high)], round(found.ahead("x", "y"), 3)
([0.259, 0.512], 1.0)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tomserve.stats.distributions import normal_cdf, normal_quantile
from tomserve.stats.functional import correlation
from tomserve.stats.proportions import Interval

Floats = npt.NDArray[np.float64]

DRAWS = 20_000
"""How many times the differences are drawn for the probabilities of ranks; half of them mirror the others."""
EQUAL = 1e-12
"""Scores that differ by no more are equal, and share their rank."""
_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class Compared:
    """The scores of k models, each against each.

    names: of the models [k]. estimates: their scores [k]. low, high: the ends of the 95% interval of the score of the
    row minus that of the column, in [-1, 1] [k, k]. spread: the standard deviation of this difference, towards 0, that
    agrees with the interval [k, k].
    """

    names: tuple[str, ...]
    estimates: Floats
    low: Floats
    high: Floats
    spread: Floats

    def ahead(self, first: str, second: str) -> float:
        """The probability that the first is above the second; one half where both are equal."""
        i, j = self.names.index(first), self.names.index(second)
        gap, spread = float(self.estimates[i] - self.estimates[j]), float(self.spread[i, j])
        if abs(gap) <= EQUAL:
            return 0.5
        return normal_cdf(gap / spread) if spread > 0 else float(gap > 0)

    def rank_probabilities(self, seed: int = 0) -> dict[str, Floats]:
        """How probable each rank of each model is [k], the first one first; equal models share them evenly.

        Normal scores are drawn whose differences have the spread of each pair (classical scaling, Torgerson,
        Psychometrika 17:401, 1952). Where no scores have exactly these, because intervals are not symmetric, those that
        are drawn differ by a little more and never by less. seed: of these draws.
        """
        count = len(self.names)
        centre = np.eye(count) - 1 / count
        sizes, vectors = np.linalg.eigh(-0.5 * centre @ self.spread**2 @ centre)
        half = np.random.default_rng(seed).normal(size=(DRAWS // 2, count))
        drawn = np.concatenate([half, -half]) * np.sqrt(np.clip(sizes, 0, None)) @ vectors.T + self.estimates
        return rank_probabilities(dict(zip(self.names, drawn.T, strict=True)))


def compared(scores: Mapping[str, Interval], draws: Mapping[str, npt.ArrayLike]) -> Compared:
    """The scores of models with the intervals of their differences.

    scores: each with its 95% interval, by the model's name. draws: of each score, over the same draws [draws]. Raises
    ValueError for an interval that is undefined, and for draws of unequal length.
    """
    if not all(math.isfinite(end) for one in scores.values() for end in (one.estimate, one.low, one.high)):
        raise ValueError("a model without an interval cannot be compared with others")
    values = np.array([one.estimate for one in scores.values()])
    down, up = (np.array(ends) - values for ends in ([one.low for one in scores.values()],
                                                     [one.high for one in scores.values()]))  # fmt: skip
    shared = correlation([np.asarray(draws[name], dtype=float) for name in scores])
    gap = values[:, None] - values[None]
    below = np.sqrt(np.clip(down[:, None] ** 2 + up[None] ** 2 + 2 * shared * down[:, None] * up[None], 0, None))
    above = below.T  # what is below the difference of two is above that of the same two turned around
    wide = np.where(np.abs(gap) <= EQUAL, np.maximum(below, above), np.where(gap > 0, below, above))
    np.fill_diagonal(wide, 0.0)
    low, high = np.clip(gap - below, -1, 1), np.clip(gap + above, -1, 1)
    return Compared(tuple(scores), values, low, high, wide / normal_quantile(0.975))


def rank_probabilities(draws: Mapping[str, npt.ArrayLike]) -> dict[str, Floats]:
    """The share of the draws in which each model has each rank [ranks], the first one first.

    draws: the score of each model, over the same draws [draws]. Equal scores share their ranks evenly. Raises
    ValueError for draws of unequal length.
    """
    values = np.array([np.asarray(one, dtype=float) for one in draws.values()])
    if values.ndim != 2:
        raise ValueError("the draws of models are of unequal length, or there are none")
    count = len(values)
    found, step = np.zeros((count, count)), max(1, _AT_ONCE // count**2)
    for start in range(0, values.shape[1], step):
        part = values[:, start : start + step]
        above = (part[None] > part[:, None] + EQUAL).sum(axis=1)
        equal = (np.abs(part[None] - part[:, None]) <= EQUAL).sum(axis=1)
        for rank in range(count):
            found[:, rank] += (((above <= rank) & (rank < above + equal)) / equal).sum(axis=1)
    return dict(zip(draws, found / values.shape[1], strict=True))
