"""A linear map of low rank, and the state nearest to a given one that it takes to a target.

Vectors are columns where formulas are written (W x is close to y) and rows where arrays are stored: a stack of n
states is [n, d]. No array is ever d x d.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Map:
    """W = left diag(gains) right', a map of rank k from states of width d to states of width d.

    left: float64 [d, k] and right: float64 [d, k], both with orthonormal columns. gains: float64 [k], the singular
    values, above zero, the largest first.
    """

    left: Floats
    gains: Floats
    right: Floats

    @property
    def rank(self) -> int:
        """How many directions it does not take to zero."""
        return int(self.gains.size)

    def apply(self, x: Floats) -> Floats:
        """W x of every state [n, d]. x: states [n, d]."""
        return np.asarray((x @ self.right * self.gains) @ self.left.T)

    def move(self, x: Floats, target: Floats, alphas: Sequence[float]) -> Floats:
        """The state z nearest to x that W takes near the target, for every strength [alphas, n, d].

        z = argmin |W z - target|^2 + a |z - x|^2, which is x + R diag(g / (g^2 + a)) (P' target - g * R' x) with
        W = P diag(g) R' (Aoki and Kawahara 2025, the intervention; the closed form follows from its normal equations,
        (W'W + a I)(z - x) = W' (target - W x), whose solution lies in the span of R). A large a leaves x where it is;
        with a = 0 all of the target that W reaches is reached.

        x: states [n, d]. target: where W should take them [n, d]. alphas: each at least 0.
        """
        return np.asarray(x + self.displacements(x, target, alphas))

    def displacements(self, x: Floats, target: Floats, alphas: Sequence[float]) -> Floats:
        """z - x of `move` [alphas, n, d], without the rounding that taking x off again would add."""
        wanted = target @ self.left - (x @ self.right) * self.gains
        strengths = np.asarray(alphas, dtype=np.float64)[:, None]
        factors = self.gains / (self.gains**2 + strengths)
        inside = wanted * factors[:, None, :]
        rows = inside.reshape(strengths.size * x.shape[0], self.rank)  # one product is quicker than one a strength
        return np.asarray((rows @ self.right.T).reshape(strengths.size, *x.shape))
