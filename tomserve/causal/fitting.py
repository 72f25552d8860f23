"""Ridge regression from states to states, with a penalty chosen by exactly leaving out one scenario after another.

Everything comes from one thin singular value decomposition of the states x and one QR decomposition of the states y,
in float64; what depends on the penalty has as many rows and columns as there are items, never as many as a state is
wide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tomserve.causal.projection import Map

Floats = NDArray[np.float64]

PENALTIES = 31
"""How many penalties are tried, in equal ratios."""
BELOW, ABOVE = 1e-6, 100.0
"""The smallest penalty tried is the least squared singular value times BELOW, the largest the greatest times ABOVE:
from hardly any shrinking of what varies least to hardly any map."""
FLOOR = 1e-12
"""No penalty is tried below this part of the greatest squared singular value: it would be lost in rounding."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted map. map: W. penalty: the lambda that was chosen. error: with this lambda, |Y - Y^| / |Y| where each row
    of Y^ is predicted by a W fitted without all items of its scenario; 1 is no better than a map to zero."""

    map: Map
    penalty: float
    error: float


class Ridge:
    """The states x of some items, decomposed once for every penalty and every y.

    W minimises |X W' - Y|^2 + lambda |W|^2 over all W, without an intercept (Hoerl and Kennard, Technometrics 12:55,
    1970). With X = U diag(s) V' that is W = Y' U diag(s / (s^2 + lambda)) V'.

    The penalty is the one of a grid with the least error of leaving out one scenario at a time. Leaving out a whole
    scenario is as cheap as leaving out an item, and is what the folds do: the items of a scenario tell nearly the same
    story, so that an item left out alone is predicted from its siblings and lambda comes out too small. With
    A = I - H, where H is the hat matrix X (X'X + lambda I)^-1 X', the residuals of scenario B predicted without B are
    exactly A_BB^-1 (A Y)_B (Cook and Weisberg, "Residuals and Influence in Regression", 1982, section 3.6, for
    deleting several rows). A is put together from positive terms only (lambda / (s^2 + lambda), and 1 where X has no
    component), since 1 minus a diagonal of H near 1 would have no correct digit.
    """

    def __init__(self, x: Floats, clusters: ArrayLike, *, intercept: bool = False) -> None:
        """Decompose the states.

        x: [n, d], whatever n and d are to each other, of any rank. clusters: the scenario of each item [n]. intercept:
        whether the mean is fitted without a penalty, too (for probes; a map W has none).

        Raises ValueError for no items, states that are not finite, or clusters of another length.
        """
        x, clusters = np.asarray(x, dtype=np.float64), np.asarray(clusters)
        if x.ndim != 2 or not x.size or clusters.shape != x.shape[:1] or not np.isfinite(x).all():
            raise ValueError(f"a map is fitted on finite states [n, d] of n scenarios: {x.shape}, {clusters.shape}")
        self.centre = x.mean(axis=0) if intercept else np.zeros(x.shape[1])
        left, s, right = np.linalg.svd(x - self.centre, full_matrices=False)
        rank = int((s > s[0] * max(x.shape) * np.finfo(np.float64).eps).sum()) if s[0] > 0 else 0
        self.left, self.s, self.right = left[:, :rank], s[:rank], right[:rank].T
        fixed = np.full((x.shape[0], int(intercept)), x.shape[0] ** -0.5)
        rest = np.linalg.qr(np.hstack([fixed, self.left]), mode="complete")[0][:, fixed.shape[1] + rank :]
        self._basis = np.hstack([self.left, rest])  # what A is diagonal in; the intercept's direction has no part in A
        self._blocks = _blocks(clusters)

    def penalties(self) -> Floats:
        """The penalties that are tried [PENALTIES], the smallest first, scaled by the squared singular values of x."""
        if not self.s.size:
            return np.ones(1)
        top, least = float(self.s[0] ** 2), float(self.s[-1] ** 2)
        return np.geomspace(max(least * BELOW, top * FLOOR), top * ABOVE, PENALTIES)

    def errors(self, y: Floats, penalties: ArrayLike) -> Floats:
        """For every penalty |Y - Y^|, each scenario predicted without itself [penalties].

        y: [n, e], or anything with the same inner products of rows, such as the transpose of R of Y' = Q R.
        """
        rotated = self._basis.T @ y
        found = []
        for penalty in np.asarray(penalties, dtype=np.float64):
            weights = np.ones(self._basis.shape[1])
            weights[: self.s.size] = penalty / (self.s**2 + penalty)
            residuals = self._basis @ (weights[:, None] * rotated)
            total = 0.0
            for rows in self._blocks:
                part = self._basis[rows]
                hat = (part * weights) @ part.transpose(0, 2, 1)
                total += float((np.linalg.solve(hat, residuals[rows]) ** 2).sum())
            found.append(np.sqrt(total))
        return np.array(found)

    def chosen(self, y: Floats) -> tuple[float, float]:
        """The penalty with the least error, and that error over |y| (infinite where y is zero). y: as in `errors`."""
        penalties = self.penalties()
        errors = self.errors(y, penalties)
        best, size = int(errors.argmin()), float(np.linalg.norm(y))
        return float(penalties[best]), float(errors[best]) / size if size else float("inf")

    def shrunk(self, penalty: float) -> Floats:
        """s / (s^2 + penalty), what the components of x are multiplied by [rank]."""
        return np.asarray(self.s / (self.s**2 + penalty))

    def fit(self, y: Floats, penalty: float | None = None) -> Fit:
        """The map to y, with the penalty given, or the one that is chosen.

        y: [n, d]. Raises ValueError for another number of rows, or states that are not finite.
        """
        y = np.asarray(y, dtype=np.float64)
        if y.ndim != 2 or y.shape[0] != self.left.shape[0] or not np.isfinite(y).all():
            raise ValueError(f"a map is fitted to finite states [n, d] of the {self.left.shape[0]} items: {y.shape}")
        frame, small = np.linalg.qr(y.T)  # Y = small' frame'; what follows needs only `small`
        if penalty is None:
            penalty, error = self.chosen(small.T)
        else:
            size = float(np.linalg.norm(small))
            error = float(self.errors(small.T, [penalty])[0]) / size if size else float("inf")
        core = (small @ self.left) * self.shrunk(penalty)
        if not core.size:
            return Fit(Map(np.zeros((y.shape[1], 0)), np.zeros(0), np.zeros((self.right.shape[0], 0))), penalty, error)
        p, gains, q = np.linalg.svd(core, full_matrices=False)
        kept = gains > gains[0] * max(core.shape) * np.finfo(np.float64).eps
        return Fit(Map(frame @ p[:, kept], gains[kept], self.right @ q[kept].T), penalty, error)


def fit(x: Floats, y: Floats, clusters: ArrayLike, penalty: float | None = None) -> Fit:
    """The ridge map W with W x close to y; see `Ridge`.

    x, y: states [n, d]. clusters: the scenario of each [n]. penalty: lambda, chosen by leaving out scenarios if None.
    """
    return Ridge(x, clusters).fit(y, penalty)


def _blocks(clusters: NDArray[np.generic]) -> list[NDArray[np.intp]]:
    """The rows of all scenarios that have q items, for every q [scenarios, q]."""
    _, index, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    rows = np.split(np.argsort(index, kind="stable"), np.cumsum(sizes)[:-1])
    return [np.stack([one for one in rows if one.size == size]) for size in np.unique(sizes)]
