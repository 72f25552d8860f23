"""Which of several models is ahead: how probable each rank is, and for which weights of the score's parts a ranking
holds. Weights are not negative and sum to 1: a triangle, which a line divides into where either of two entries is
ahead. Shares of areas are exact, by clipping polygons (Sutherland and Hodgman, Commun ACM 17:32, 1974)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt

from tomserve.stats.distributions import normal_cdf, normal_quantile
from tomserve.stats.functional import correlation
from tomserve.stats.proportions import Interval

Floats = npt.NDArray[np.float64]
# With more than MOST entries rankings are searched at points in so many strips to a side, so that one that holds for
# less than about 1/3,600 of the weights may not be found; with fewer all are. Their shares are exact in any case.
STEPS, MOST = 60, 12
SMALL = 1e-12  # Differences below this count as none


@dataclass(frozen=True)
class Ranking:
    """The entries from the first to the last, and for which share of all weights they are ranked so."""

    order: tuple[int, ...]
    share: float


@dataclass(frozen=True)
class Swap:
    """For which share of all weights the first of two entries is above the second; the weights closest to given ones at
    which they are equal (None where there are none), and how far these are."""

    first: int
    second: int
    share: float
    nearest: tuple[float, ...] | None
    distance: float


def order_share(first: Sequence[float], second: Sequence[float]) -> float:
    """The share of all weights for which the first has the larger weighted sum; one half for equal parts [2 or 3].
    Raises ValueError for other shapes and parts that are not finite."""
    pair = _parts([list(first), list(second)])
    gap = np.asarray(pair[0] - pair[1], dtype=np.float64)
    return _area(_clip_polygon(_simplex(gap.size), gap)) if np.abs(gap).max() > SMALL else 0.5


def ranking_share(parts: npt.ArrayLike, order: Sequence[int]) -> float:
    """The share of all weights for which entries [entries, 2 or 3] are ranked so; equal ones count either way."""
    values = _parts(parts)
    left = _simplex(values.shape[1])
    for above, below in pairwise(order):
        gap = values[above] - values[below]
        if np.abs(gap).max() > SMALL:
            left = _clip_polygon(left, gap)
    return _area(left)


def rankings(parts: npt.ArrayLike) -> list[Ranking]:
    """Every ranking that holds for some weights, those that hold for most first; of equal entries the first given is
    first."""
    values = _parts(parts)
    points = _grid(values.shape[1]) if len(values) > MOST else _centres(values)
    sums = np.round(points @ values.T, 12)
    found = {tuple(int(k) for k in row) for row in np.argsort(-sums, axis=1, kind="stable")}
    named = [Ranking(order, ranking_share(values, order)) for order in found]
    return sorted((one for one in named if one.share > SMALL), key=lambda one: (-one.share, one.order))


def swap(parts: npt.ArrayLike, first: int, second: int, weights: Sequence[float]) -> Swap:
    """For which weights two of the entries [entries, 2 or 3] swap places, and how near to given weights that is."""
    values, at = _parts(parts), np.asarray(weights, dtype=float)
    gap = values[first] - values[second]
    share = order_share(values[first].tolist(), values[second].tolist())
    edge = _edge(_simplex(gap.size), gap)
    if not edge:
        return Swap(first, second, share, None, math.nan)
    ends = np.array(edge)
    start, way = ends[0], ends[-1] - ends[0]
    length = float(way @ way)
    along = 0.0 if length < SMALL else float(np.clip((at - start) @ way / length, 0, 1))
    near = start + along * way
    return Swap(first, second, share, tuple(near.tolist()), float(np.linalg.norm(near - at)))


def _parts(parts: npt.ArrayLike) -> Floats:
    values = np.asarray(parts, dtype=float)
    if values.ndim != 2 or values.shape[1] not in (2, 3) or not np.isfinite(values).all():
        raise ValueError(f"parts of shape {values.shape}: expected finite numbers [entries, 2 or 3]")
    return values


def _simplex(width: int) -> list[Floats]:
    return list(np.eye(width))


def _clip_polygon(polygon: list[Floats], gap: Floats) -> list[Floats]:
    """The part of a convex polygon (or of a segment) where w . gap is not negative."""
    sides = [float(corner @ gap) for corner in polygon]
    kept: list[Floats] = []
    for place, (corner, side) in enumerate(zip(polygon, sides, strict=True)):
        after, then = polygon[(place + 1) % len(polygon)], sides[(place + 1) % len(polygon)]
        if side >= 0:
            kept.append(corner)
        if side * then < 0:
            kept.append(corner + (after - corner) * (side / (side - then)))
    return kept


def _edge(polygon: list[Floats], gap: Floats) -> list[Floats]:
    """The points of the border of the triangle at which w . gap is 0: one or two, none where its sign never changes."""
    sides = [float(corner @ gap) for corner in polygon]
    if np.abs(gap).max() <= SMALL or min(sides) > -SMALL or max(sides) < SMALL:
        return []
    found = [corner for corner, side in zip(polygon, sides, strict=True) if abs(side) <= SMALL]
    for place, side in enumerate(sides):
        after = (place + 1) % len(polygon)
        if side * sides[after] < -SMALL * SMALL and after != place:
            found.append(polygon[place] + (polygon[after] - polygon[place]) * (side / (side - sides[after])))
    return found


def _area(polygon: list[Floats]) -> float:
    """The share of the triangle (of the segment, with two parts) that a convex polygon in it covers."""
    if len(polygon) < 2:
        return 0.0
    points = np.array(polygon)
    if points.shape[1] == 2:
        return float(points[:, 0].max() - points[:, 0].min())
    x, y = points[:, 0], points[:, 1]  # the projection onto two weights, where the triangle has the area 1/2
    return abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1)))


def _centres(values: Floats) -> Floats:
    """A point within each part of the triangle in which the ranking stays the same [parts, width]."""
    cells = [_simplex(values.shape[1])]
    for first, second in combinations(values, 2):
        gap = first - second
        if np.abs(gap).max() > SMALL:
            halves = [_clip_polygon(cell, side) for cell in cells for side in (gap, -gap)]
            cells = [half for half in halves if _area(half) > SMALL]
    return np.array([np.mean(cell, axis=0) for cell in cells])


def _grid(width: int) -> Floats:
    """Weights spread over the triangle, none on its border: the centroids of small triangles."""
    if width == 2:
        first = (np.arange(STEPS * STEPS) + 0.5) / (STEPS * STEPS)
        return np.column_stack([first, 1 - first])
    i, j = (axis.ravel() for axis in np.meshgrid(np.arange(STEPS), np.arange(STEPS), indexing="ij"))
    up, down = i + j < STEPS, i + j < STEPS - 1
    first = np.concatenate([(i[up] + 1 / 3) / STEPS, (i[down] + 2 / 3) / STEPS])
    second = np.concatenate([(j[up] + 1 / 3) / STEPS, (j[down] + 2 / 3) / STEPS])
    return np.column_stack([first, second, 1 - first - second])


# How many times the differences are drawn for the probabilities of ranks; half of them mirror the others.
DRAWS = 20_000
EQUAL = 1e-12  # Scores that differ by no more are equal, and share their rank
_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class ScoreComparison:
    """The scores of k models, each against each: ends of the 95% interval of row minus column, and the standard
    deviation of this difference, towards 0, that agrees with it [k, k]."""

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
        """How probable each rank of each model is [k]: normal scores are drawn whose differences have the spread of
        each pair (classical scaling, Torgerson, Psychometrika 17:401, 1952), or a little more where none have exactly
        that."""
        count = len(self.names)
        centre = np.eye(count) - 1 / count
        sizes, vectors = np.linalg.eigh(-0.5 * centre @ self.spread**2 @ centre)
        half = np.random.default_rng(seed).normal(size=(DRAWS // 2, count))
        drawn = np.concatenate([half, -half]) * np.sqrt(np.clip(sizes, 0, None)) @ vectors.T + self.estimates
        return rank_probabilities(dict(zip(self.names, drawn.T, strict=True)))


def compare_scores(scores: Mapping[str, Interval], draws: Mapping[str, npt.ArrayLike]) -> ScoreComparison:
    """The scores of models with square-and-add intervals of their differences, correlated as over the same draws of
    scenarios [draws]; percentiles had no width where scores hardly vary (bench/functional_coverage.py). Raises
    ValueError for an undefined interval."""
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
    return ScoreComparison(tuple(scores), values, low, high, wide / normal_quantile(0.975))


def rank_probabilities(draws: Mapping[str, npt.ArrayLike]) -> dict[str, Floats]:
    """The share of the draws in which each model has each rank [ranks]; equal scores share theirs evenly. Raises
    ValueError for draws of unequal length."""
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
