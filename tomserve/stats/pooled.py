"""All treated clusters against few controls, for new strata: where a t test of stratum differences falls short.

With ten perturbed tasks and one control task a stage, the control arm carries the variance. Where it is nearly all
right or all wrong (7 stages x 2 subtasks, rates .05 and .95), t intervals of the stage differences covered .63-.73 and
t tests rejected a true null in .08-.17; sign flips in .04-.08, as unequal arms make the differences asymmetric.
bench/coverage.py prints those beside what stands here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tomserve.stats.clustered import FEW, Effect, matched_cells, undefined, units_share
from tomserve.stats.flips import SINGLY, batches
from tomserve.stats.paired import sign_flip, smallest_p, varies
from tomserve.stats.proportions import square_and_add

Floats = npt.NDArray[np.float64]


def pooled_effect(
    outcome: npt.ArrayLike,
    treated: npt.ArrayLike,
    cluster: npt.ArrayLike,
    stratum: npt.ArrayLike,
    level: float = 0.95,
) -> Effect:
    """Effect for new strata: mean over strata of (treated - control), as `clustered.matched_effect` estimates it.

    Interval: square-and-add of the arms' `units_share` intervals (t on the logit scale, strata - 1 df; Wilson with n =
    strata where an arm does not vary) with the correlation of their stratum means. p_t inverts this interval.
    The sign-flip p assumes symmetric differences; believe `permutation_p` first. Strata without both arms are left out.
    Raises ValueError for columns of unequal length.
    """
    cells = matched_cells(outcome, treated, cluster, stratum)
    m, tasks = len(cells.means), int(cells.counts.sum())
    if not m:
        return undefined("undefined: no stratum with both arms", tasks)
    c, t = cells.means[:, 0], cells.means[:, 1]
    estimate, (low, high) = float(np.mean(t - c)), _bounds(t, c, level)
    method = f"square-and-add of logit t, {m - 1} df, {m} strata matched"
    method += f", {cells.dropped} unmatched left out" if cells.dropped else ""
    few, flips = bool(cells.counts.sum(axis=0).min() < FEW), sign_flip(t - c)
    low, high = min(low, estimate), max(high, estimate)
    return Effect(estimate, low, high, _p(t, c), flips.p, smallest_p(m), m, tasks, method, few)


def permutation_p(
    outcome: npt.ArrayLike,
    treated: npt.ArrayLike,
    cluster: npt.ArrayLike,
    stratum: npt.ArrayLike,
    draws: int = 9999,
    seed: int = 0,
) -> float:
    """Two-sided p of "within its stratum a control cluster is like any treated one": clusters change arms in strata.

    Exact in level whatever the arms' sizes or the answers' distribution; (1 + as extreme) / (1 + draws), so at least
    1/10000 by default. Clusters belong to one arm. nan where no stratum has both arms. Of more than SINGLY clusters,
    one that is alone in its arm is drawn, and the others are not shuffled.
    Raises ValueError for columns of unequal length, and for a cluster with answers in both arms.
    """
    y, arm = np.asarray(outcome, dtype=float), np.asarray(treated, dtype=bool)
    clusters, strata = np.asarray(cluster), np.asarray(stratum)
    cells = matched_cells(y, arm, clusters, strata)
    observed = cells.means
    if not len(observed):
        return math.nan
    rng, known = np.random.default_rng(seed), ~np.isnan(y)
    moved = np.zeros(draws)
    many = int(cells.counts.sum()) > SINGLY
    for means, n1 in _strata(y[known], arm[known], clusters[known], strata[known]):
        if 0 < n1 < means.size:
            start = 0
            for part in (_alone if many and n1 in (1, means.size - 1) else _moves)(means, n1, draws, rng):
                moved[start : start + part.size] += part
                start += part.size
    total = abs(float(np.sum(observed[:, 1] - observed[:, 0])))
    return (1 + int(np.sum(np.abs(moved) >= total - 1e-9))) / (1 + draws)


def _strata(
    y: Floats, arm: npt.NDArray[np.bool_], clusters: npt.NDArray[np.generic], strata: npt.NDArray[np.generic]
) -> Iterator[tuple[Floats, int]]:
    """Stratum by stratum the means of its clusters, by cluster, and how many of them are treated."""
    names, codes = np.unique(strata, return_inverse=True)
    _, index = np.unique(clusters, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes))
    for name, here in zip(names, np.split(order, ends[:-1]), strict=True):
        _, inside = np.unique(index[here], return_inverse=True)
        sizes, answers = np.bincount(inside), np.bincount(inside, weights=arm[here])
        if np.any((answers > 0) & (answers < sizes)):
            raise ValueError(f"stratum {name}: a cluster is in both arms; use clustered.paired_effect")
        yield np.bincount(inside, weights=y[here]) / sizes, int(np.sum(answers > 0))


def _moves(means: Floats, n1: int, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Treated less control mean of shuffled clusters, in batches of bounded memory; the same whatever their size."""
    for rows in batches(draws, means.size):
        shuffled = rng.permuted(np.broadcast_to(means, (rows, means.size)), axis=1)
        yield shuffled[:, :n1].mean(axis=1) - shuffled[:, n1:].mean(axis=1)


def _alone(means: Floats, n1: int, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """The same where an arm is one cluster: which one it is, is all that shuffling decides, and a tenth of the time."""
    rest = (means.sum() - means) / (means.size - 1)
    moves = means - rest if n1 == 1 else rest - means
    yield moves[rng.integers(means.size, size=draws)]


def _bounds(t: Floats, c: Floats, level: float) -> tuple[float, float]:
    correlated = t.size > 1 and varies(t) and varies(c)
    correlation = float(np.corrcoef(t, c)[0, 1]) if correlated else 0.0
    return square_and_add(units_share(t, level), units_share(c, level), correlation)


def _p(t: Floats, c: Floats) -> float:
    """1 - the level at which the interval starts to hold 0, by bisection; 1 where the estimate is 0."""
    if t.size < 2 or not (varies(t) or varies(c)):
        return math.nan
    if abs(float(np.mean(t - c))) < 1e-12:
        return 1.0
    least, most = 0.0, 1.0
    for _ in range(30):
        p = (least + most) / 2
        low, high = _bounds(t, c, 1 - p)
        least, most = (p, most) if low <= 0 <= high else (least, p)
    return most
