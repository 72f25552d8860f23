"""Layers of a model with random answers, for the tests of the score and of ranks."""

from __future__ import annotations

import numpy as np

from tomserve.stats.layers import Behaviour, Stability

KINDS = ("T1", "T2", "T3", "T4")
M = 60
"""How many scenarios there are unless a test says otherwise."""


def names(count: int = M, each: int = 1) -> np.ndarray:
    """The names of scenarios, each so many times in a row."""
    return np.array([f"s{number:03d}" for number in range(count)]).repeat(each)


def behaviour(share: float = 0.8, seed: int = 0, count: int = M) -> Behaviour:
    """Two questions of two tasks a scenario; chance is 1/2 in one task and 1/4 in the other."""
    right = np.random.default_rng(seed).random(2 * count) < share
    return Behaviour(right, np.tile([0.5, 0.25], count), np.tile(["a", "b"], count), names(count, 2))


def stability(kept: float = 0.9, seed: int = 1, count: int = M, kinds: tuple[str, ...] = KINDS) -> Stability:
    """A variant of each kind a scenario, so large a share of which is answered like the original."""
    same = np.random.default_rng(seed).random(len(kinds) * count) < kept
    return Stability(same, np.tile(kinds, count), names(count, len(kinds)), KINDS)
