"""How often an answer survives a change that should not matter: agreement of originals and variants over clusters.

Inputs are parallel columns with one row for each pair of an original and its variant: the category of the original's
answer and that of the variant's, as whole numbers of which a negative one stands for an answer that could not be read,
and the cluster (story, task) of the original. An unreadable answer agrees with nothing, not even with another one.

    >>> found = stability([0, 0, 1, 1], [0, 0, 1, 0], ["a", "b", "c", "d"])
    >>> found.share.estimate, found.expected, found.kappa.estimate
    (0.75, 0.5, 0.5)
"""

from __future__ import annotations

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

CONSTANT = 1 - 1e-9
"""From this expected agreement on, all answers are one answer, and nothing can be said beyond it."""


@dataclass(frozen=True)
class Stability:
    """What pairs of answers say of stability; nan where undefined.

    `share`: S, the share of pairs with the same answer, from 0 to 1, with its interval. `expected`: S0, the share that
    two answerers would reach who share nothing but how often each of them gives each category. `kappa`: (S - S0) /
    (1 - S0), from -1 to 1, with its interval: 0 where the answers agree no more than such two, 1 where all are kept.
    """

    share: Interval
    expected: float
    kappa: Interval


def agreement(original: npt.ArrayLike, variant: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """For each pair whether both answers could be read and are the same [pairs].

    original, variant: categories as the module describes [pairs]. Raises ValueError for columns of unequal length.
    """
    o, v = _codes(original), _codes(variant)
    check_same_length(o, v)
    return np.asarray((o == v) & (o >= 0))


def stability(
    original: npt.ArrayLike, variant: npt.ArrayLike, cluster: npt.ArrayLike, level: float = 0.95
) -> Stability:
    """S, the agreement expected from the marginals, and kappa after it (Cohen, Educ Psychol Meas 20:37, 1960), with
    intervals for further clusters drawn as these were.

    The interval of S is that of `weighted_share`. kappa is 1 - (1 - S) / (1 - S0), so that its interval is that of a
    ratio (`mover_ratio`): of 1 - S as before and of 1 - S0, whose error is that of its linear approximation
    summed over clusters, with m - 1 degrees of freedom. The correlation of the two is taken from the same sums. That
    holds where every answer is kept, in which a bootstrap would give an interval of no width. It assumes independent
    clusters. bench/stability_coverage.py simulates how often the intervals hold the truth.

    original, variant: categories as the module describes [pairs]. cluster: of each pair [pairs]. level: of confidence.

    kappa is undefined (nan) where S0 is 1, because all answers are one and the same. Raises ValueError for columns of
    unequal length.
    """
    o, v, clusters = _codes(original), _codes(variant), np.asarray(cluster)
    check_same_length(o, v, clusters)
    if not o.size:
        nothing = Interval(*UNDEFINED, method="undefined: no pairs")
        return Stability(nothing, math.nan, nothing)
    _, index = np.unique(clusters, return_inverse=True)
    same = agreement(o, v).astype(float)
    share = weighted_share(same, index, np.zeros(o.size, dtype=int), level)
    influence, expected = _expected_agreement(o, v)
    if expected > CONSTANT:
        kappa = Interval(*UNDEFINED, method="undefined: all answers are one and the same")
        return Stability(share, expected, kappa)
    lost = Interval(1 - share.estimate, 1 - share.high, 1 - share.low, share.method)
    moved, kept = _sums(share.estimate - same, index), _sums(-influence, index)
    chance = _linear(1 - expected, kept, o.size, level)
    ratio = mover_ratio(lost, chance, _correlation(moved, kept))
    low = max(-1.0, 1 - ratio.high) if math.isfinite(ratio.high) else -1.0
    kappa = Interval(1 - ratio.estimate, low, min(1.0, 1 - ratio.low), f"square-and-add, {len(moved)} clusters")
    return Stability(share, expected, kappa)


def weighted_share(
    outcome: npt.ArrayLike, cluster: npt.ArrayLike, part: npt.ArrayLike, level: float = 0.95
) -> Interval:
    """The mean over parts of the share of successes in each, with an interval for further clusters.

    Wilson's, for the effective number of answers: that of as many independent answers as would give the mean the same
    variance, if the answers of a cluster, in whatever part, are correlated as their intra-class correlation says
    (`intraclass.intraclass`), or, where fewer than five answers differ from the others, at least as rare answers are
    taken to be (`effects.CORRELATION`). With one part it is the share of all answers, with the design effect of
    `intraclass.effective_n`. One cluster counts once.

    outcome: from 0 to 1 [answers]. cluster: of each answer [answers]. part: such as the kind of variant [answers].
    level: of confidence.

    nan where there is no answer. Raises ValueError for columns of unequal length.
    """
    y, clusters, parts = np.asarray(outcome, dtype=float), np.asarray(cluster), np.asarray(part)
    check_same_length(y, clusters, parts)
    if not y.size:
        return wilson(0, 0, level)
    _, index = np.unique(clusters, return_inverse=True)
    _, of_part, sizes = np.unique(parts, return_inverse=True, return_counts=True)
    weights = 1 / (sizes[of_part] * len(sizes))
    estimate = float((np.bincount(of_part, weights=y) / sizes).mean())
    alone, together = float(weights @ weights), float((np.bincount(index, weights=weights) ** 2).sum())
    n = 1 / (alone + _answer_correlation(y, index) * max(0.0, together - alone))
    found = wilson(estimate * n, n, level)
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
    """S minus the S of the noise floor (the same prompt again), both shares of the same clusters.

    The bounds are those of square-and-add (`proportions.square_and_add`) without a correlation. Answers that change by
    themselves are most often those that a variant changes, too, so that the correlation is above zero and the interval
    covers at least as often as it says, also where no answer of the floor has changed.
    """
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


def _linear(estimate: float, sums: Floats, answers: int, level: float) -> Interval:
    """A t interval from the sums over clusters of what each answer moves the estimate [clusters]; of no width where
    there is one cluster, or no spread between them, since the other part of a ratio then says what is not known."""
    m = sums.size
    if m < 2 or not varies(sums):
        return Interval(estimate, estimate, estimate, "no spread")
    half = t_quantile(0.5 + level / 2, m - 1) * math.sqrt(m / (m - 1) * float(sums @ sums)) / answers
    return Interval(estimate, max(0.0, estimate - half), min(1.0, estimate + half), f"t, {m - 1} df, clusters")


def _correlation(one: Floats, other: Floats) -> float:
    """The correlation of two estimates from their sums over clusters; 0 where one of them does not vary."""
    size = math.sqrt(float(one @ one) * float(other @ other))
    return float(one @ other) / size if size > 1e-12 else 0.0


def _codes(values: npt.ArrayLike) -> Codes:
    return np.asarray(values, dtype=np.int64)
