"""The effect of all treated clusters against few control clusters, for new strata (stages not yet written).

With ten perturbed tasks and one control task a stage, the control arm has most of the variance, and a t test of the
stage differences falls short where that arm is nearly all right or all wrong: with 7 stages, 2 subtasks and rates of
.05 and .95, t intervals of the stage differences covered only .63 to .73 of the time, and t tests rejected a true null
hypothesis in .08 to .17; sign flips in .04 to .08, because arms of unequal size make the differences asymmetric.
bench/coverage.py simulates those beside the methods of this module.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tomserve.stats.cells import matched_cells
from tomserve.stats.clustered import units_share
from tomserve.stats.effects import FEW, Effect, inverted_p, undefined
from tomserve.stats.flips import SINGLY, batches
from tomserve.stats.paired import sign_flip, smallest_p, varies
from tomserve.stats.proportions import square_and_add
from tomserve.stats.ratios import mover_ratio

Floats = npt.NDArray[np.float64]


def pooled_effect(
    outcome: npt.ArrayLike,
    treated: npt.ArrayLike,
    cluster: npt.ArrayLike,
    stratum: npt.ArrayLike,
    level: float = 0.95,
) -> Effect:
    """Effect for new strata: the mean over strata of treated - control, the quantity that `clustered.matched_effect`
    estimates.

    The interval combines those of both arms (`clustered.units_share`: t on the logit scale with strata - 1 df, or
    Wilson with n = strata where an arm does not vary) by square-and-add (Zou and Donner, Stat Med 27:1693, 2008), with
    the correlation of their stratum means. p is that of the test which this interval inverts, and the ratio is read off
    the same intervals (`ratios.mover_ratio`). Strata are assumed to be independent draws of those to come. The
    sign-flip p assumes symmetric differences, which arms of unequal size do not give; `permutation_p` needs no such
    assumption, but asks about these strata only, so that it may differ from p.

    outcome, treated, cluster, stratum: columns as `tomserve.stats.clustered` describes [answers]; strata without both
        arms are left out.
    level: of confidence, .95 by default.

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
    return Effect(
        estimate,
        min(low, estimate),
        max(high, estimate),
        inverted_p(lambda of: _bounds(t, c, of)),
        flips.p,
        smallest_p(m),
        float(t.mean()),
        float(c.mean()),
        mover_ratio(units_share(t, level), units_share(c, level), _correlation(t, c)),
        m,
        tasks,
        method,
        few,
    )


def permutation_p(
    outcome: npt.ArrayLike,
    treated: npt.ArrayLike,
    cluster: npt.ArrayLike,
    stratum: npt.ArrayLike,
    draws: int = 9999,
    seed: int = 0,
) -> float:
    """Two-sided p of the hypothesis that, within its stratum, a control cluster is like any treated one.

    Clusters are shuffled between the arms of their stratum. The test keeps its level whatever the sizes of the arms or
    the distribution of the answers; it assumes only that the clusters of a stratum are exchangeable under the
    hypothesis. p is (1 + draws at least as extreme) / (1 + draws) (Phipson and Smyth, Stat Appl Genet Mol Biol 9:39,
    2010), so by default at least 1/10000. It is nan where no stratum has both arms.

    outcome, treated, cluster, stratum: columns as `tomserve.stats.clustered` describes [answers].
    draws: number of random shuffles, 9,999 by default.
    seed: of the shuffles, 0 by default.

    Where a stratum has more than SINGLY clusters and an arm has only one of them, that one is drawn at random instead
    of shuffling all, which gives the same distribution. Raises ValueError for columns of unequal length, and for a
    cluster with answers in both arms.
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
    """Yield for each stratum the means of its clusters [clusters] and how many of them are treated. Raises ValueError
    for a cluster in both arms.
    """
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
    """Difference of means between n1 shuffled clusters and the others, in batches of bounded memory; the numbers do not
    depend on the batches.
    """
    for rows in batches(draws, means.size):
        shuffled = rng.permuted(np.broadcast_to(means, (rows, means.size)), axis=1)
        yield shuffled[:, :n1].mean(axis=1) - shuffled[:, n1:].mean(axis=1)


def _alone(means: Floats, n1: int, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """The same where one arm is a single cluster: which cluster that is decides all, and drawing it takes a tenth of
    the time.
    """
    rest = (means.sum() - means) / (means.size - 1)
    moves = means - rest if n1 == 1 else rest - means
    yield moves[rng.integers(means.size, size=draws)]


def _bounds(t: Floats, c: Floats, level: float) -> tuple[float, float]:
    """Square-and-add bounds of the mean of t - c, from the strata's means in both arms."""
    return square_and_add(units_share(t, level), units_share(c, level), _correlation(t, c))


def _correlation(t: Floats, c: Floats) -> float:
    """Correlation of the strata's means in both arms; 0 where one arm does not vary, and for two strata, whose means
    always lie on a line: the interval would be far too narrow in half of all cases."""
    return float(np.corrcoef(t, c)[0, 1]) if t.size > 2 and varies(t) and varies(c) else 0.0
