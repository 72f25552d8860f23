"""How often an answer survives a change that should not matter. Columns are parallel [pairs]: the categories of the
original's and the variant's answer, as whole numbers, negative where unreadable, which agrees with nothing; and the
cluster.

>>> found = stability([0, 0, 1, 1], [0, 0, 1, 0], ["a", "b", "c", "d"])
>>> found.share.estimate, found.expected, found.kappa.estimate
(0.75, 0.5, 0.5)
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tomserve.stats.clusters import check_same_length, intraclass
from tomserve.stats.distributions import t_quantile
from tomserve.stats.effects import CORRELATION, FEW_CHANGES
from tomserve.stats.paired import varies
from tomserve.stats.proportions import UNDEFINED, Interval, mover_ratio, square_and_add, wilson

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
CONSTANT = 1 - 1e-9  # From this expected agreement on, all answers are one answer, and nothing can be said beyond it


@dataclass(frozen=True)
class Stability:
    """S, the share of pairs with the same answer; S0, that of two answerers who share only how often they give each
    category; kappa, (S - S0) / (1 - S0); nan where undefined."""

    share: Interval
    expected: float
    kappa: Interval


def agreement(original: npt.ArrayLike, variant: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """For each pair whether both answers could be read and are the same. Raises ValueError for columns of unequal
    length."""
    o, v = _codes(original), _codes(variant)
    check_same_length(o, v)
    return np.asarray((o == v) & (o >= 0))


def stability(original: npt.ArrayLike, variant: npt.ArrayLike, cluster: npt.ArrayLike) -> Stability:
    """S, S0 and kappa (Cohen, Educ Psychol Meas 20:37, 1960) with intervals for further independent clusters:
    `weighted_share` of S; of kappa that of the ratio of 1 - S and 1 - S0 (`mover_ratio`), whose errors are summed over
    clusters (m - 1 df). bench/stability_coverage.py simulates them. kappa is nan where S0 is 1. Raises ValueError for
    columns of unequal length."""
    o, v, clusters = _codes(original), _codes(variant), np.asarray(cluster)
    check_same_length(o, v, clusters)
    if not o.size:
        nothing = Interval(*UNDEFINED, method="undefined: no pairs")
        return Stability(nothing, math.nan, nothing)
    _, index = np.unique(clusters, return_inverse=True)
    same = agreement(o, v).astype(float)
    share = weighted_share(same, index, np.zeros(o.size, dtype=int))
    influence, expected = _expected_agreement(o, v)
    if expected > CONSTANT:
        kappa = Interval(*UNDEFINED, method="undefined: all answers are one and the same")
        return Stability(share, expected, kappa)
    lost = Interval(1 - share.estimate, 1 - share.high, 1 - share.low, share.method)
    moved, kept = _sums(share.estimate - same, index), _sums(-influence, index)
    chance = _linear(1 - expected, kept, o.size)
    size = math.sqrt(float(moved @ moved) * float(kept @ kept))
    ratio = mover_ratio(lost, chance, float(moved @ kept) / size if size > 1e-12 else 0.0)
    low = max(-1.0, 1 - ratio.high) if math.isfinite(ratio.high) else -1.0
    kappa = Interval(1 - ratio.estimate, low, min(1.0, 1 - ratio.low), f"square-and-add, {len(moved)} clusters")
    return Stability(share, expected, kappa)


def weighted_share(outcome: npt.ArrayLike, cluster: npt.ArrayLike, part: npt.ArrayLike) -> Interval:
    """The mean over parts of the share of successes in each, for further clusters: Wilson's for as many independent
    answers as give the mean the same variance, if answers of a cluster are correlated as `clusters.intraclass` says, at
    least by `effects.CORRELATION` where fewer than five differ. One cluster counts once.

    outcome (0 to 1), cluster, part: [answers]. nan without answers. Raises ValueError for columns of unequal length."""
    y, clusters, parts = np.asarray(outcome, dtype=float), np.asarray(cluster), np.asarray(part)
    check_same_length(y, clusters, parts)
    if not y.size:
        return wilson(0, 0)
    _, index = np.unique(clusters, return_inverse=True)
    _, of_part, sizes = np.unique(parts, return_inverse=True, return_counts=True)
    weights = 1 / (sizes[of_part] * len(sizes))
    estimate = float((np.bincount(of_part, weights=y) / sizes).mean())
    alone, together = float(weights @ weights), float((np.bincount(index, weights=weights) ** 2).sum())
    n = 1 / (alone + _answer_correlation(y, index) * max(0.0, together - alone))
    found = wilson(estimate * n, n)
    return Interval(estimate, found.low, found.high, f"Wilson, effective n = {n:.1f} of {y.size}")


def _answer_correlation(outcome: Floats, index: npt.NDArray[np.intp]) -> float:
    """How much the answers of a cluster are correlated, from 0 to 1."""
    if index.max() == 0:
        return 1.0
    found = intraclass(outcome, index, np.zeros(outcome.size, dtype=int))
    if math.isnan(found):
        return CORRELATION
    few = min(float(outcome.sum()), float((1 - outcome).sum())) < FEW_CHANGES
    return max(found, CORRELATION) if few else found


def difference_to_floor(share: Interval, floor: Interval) -> Interval:
    """S minus the S of the noise floor over the same clusters, by square-and-add without a correlation, which is above
    zero, so that the interval covers at least as often as it says."""
    low, high = square_and_add(share, floor)
    return Interval(share.estimate - floor.estimate, low, high, "square-and-add")


def _expected_agreement(o: Codes, v: Codes) -> tuple[Floats, float]:
    """How much each pair moves the expected agreement [pairs], and the expected agreement."""
    kinds = int(max(o.max(), v.max(), 0)) + 1
    first, second = (np.bincount(side[side >= 0], minlength=kinds) / o.size for side in (o, v))
    expected = min(1.0, float(first @ second))
    moved = np.where(o >= 0, second[o], 0.0) + np.where(v >= 0, first[v], 0.0)
    return moved - 2 * expected, expected


def _sums(values: Floats, index: npt.NDArray[np.intp]) -> Floats:
    return np.asarray(np.bincount(index, weights=values), dtype=float)


def _linear(estimate: float, sums: Floats, answers: int) -> Interval:
    """A t interval from the sums over clusters of what each answer moves the estimate [clusters]; of no width where
    there is one cluster, or no spread between them, since the other part of a ratio then says what is not known."""
    m = sums.size
    if m < 2 or not varies(sums):
        return Interval(estimate, estimate, estimate, "no spread")
    half = t_quantile(0.975, m - 1) * math.sqrt(m / (m - 1) * float(sums @ sums)) / answers
    return Interval(estimate, max(0.0, estimate - half), min(1.0, estimate + half), f"t, {m - 1} df, clusters")


def _codes(values: npt.ArrayLike) -> Codes:
    return np.asarray(values, dtype=np.int64)
