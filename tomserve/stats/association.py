"""How chains go with answers: phi and its attainable range, AUC, within-class versions, stage jackknife, placebo split.

Columns are parallel, one row an item; rows with a nan in any column used are left out. nan means "undefined": a
constant column has no association with anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tomserve.stats.paired import varies
from tomserve.stats.proportions import Interval

Floats = npt.NDArray[np.float64]
LOOKED = 1_000_000
"""Rows that a jackknife looks at when it computes every replicate anew: rows x groups."""


@dataclass(frozen=True)
class Phi:
    """Phi of two 0/1 columns, the range their marginals allow, and the 2x2 counts (both, only x, only y, neither).

    `p`: chi-square without Yates' correction, items taken as independent (as published; too small within tasks).
    """

    phi: float
    p: float
    minimum: float
    maximum: float
    both: int
    only_x: int
    only_y: int
    neither: int


@dataclass(frozen=True)
class Separation:
    """How a chain score separates right from wrong answers.

    `auc`: chance that a right answer's score exceeds a wrong one's (ties half), .5 = none. `point_biserial` in [-1, 1].
    """

    auc: float
    point_biserial: float
    right: int
    wrong: int


@dataclass(frozen=True)
class PlaceboPart:
    """The CoT effect among items of one kind of chain: observed, expected mechanically, and that null's SD."""

    items: int
    effect: float
    null: float
    null_sd: float


@dataclass(frozen=True)
class PlaceboSplit:
    """Descriptive only: the chain is written after the treatment, so neither part estimates an effect of CoT."""

    proper: PlaceboPart
    improper: PlaceboPart


def phi(x: npt.ArrayLike, y: npt.ArrayLike) -> Phi:
    """Phi with its attainable range: maximum sqrt(a(1-b) / (b(1-a))), a <= b the shares of ones.

    Raises ValueError for columns of unequal length.

        >>> found = phi([1, 1, 1, 0, 0], [1, 1, 1, 1, 0])
        >>> round(found.phi, 3), round(found.maximum, 3)
        (0.612, 0.612)
    """
    x, y = _columns(x, y)
    both, only_x = int(np.sum((x > 0) & (y > 0))), int(np.sum((x > 0) & (y == 0)))
    only_y, neither = int(np.sum((x == 0) & (y > 0))), int(np.sum((x == 0) & (y == 0)))
    counts = (both, only_x, only_y, neither)
    value = _correlation(x, y)
    if math.isnan(value):
        return Phi(math.nan, math.nan, math.nan, math.nan, *counts)
    from scipy.stats import chi2

    low, high = phi_range(float(x.mean()), float(y.mean()))
    return Phi(value, float(chi2.sf(x.size * value**2, 1)), low, high, *counts)


def phi_range(a: float, b: float) -> tuple[float, float]:
    """Least and greatest phi that two shares of ones allow; nan, nan where one is 0 or 1.

    >>> [round(bound, 3) for bound in phi_range(0.5, 0.8)]
    [-0.5, 0.5]
    """
    if not (0 < a < 1 and 0 < b < 1):
        return math.nan, math.nan
    a, b = min(a, b), max(a, b)
    high = math.sqrt(a * (1 - b) / (b * (1 - a)))
    odds = a * b / ((1 - a) * (1 - b))
    return -math.sqrt(min(odds, 1 / odds)), high


def separation(score: npt.ArrayLike, right: npt.ArrayLike) -> Separation:
    """AUC (scipy's `mannwhitneyu`, U / (n1 n0)) beside the point-biserial r of a score with right/wrong.

    A constant score, or answers all right or all wrong, are undefined. Raises ValueError for columns of unequal length.
    """
    s, y = _columns(score, right)
    n1, n0 = int(np.sum(y > 0)), int(np.sum(y == 0))
    r = _correlation(s, y)
    if math.isnan(r):
        return Separation(math.nan, math.nan, n1, n0)
    return Separation(_u(s, y) / (n1 * n0), r, n1, n0)


def within_correlation(x: npt.ArrayLike, y: npt.ArrayLike, stratum: npt.ArrayLike) -> float:
    """Pooled within-stratum correlation (of 0/1 columns: phi): Pearson's r of deviations from the stratum means.

    Pooling classes of unequal difficulty creates correlation; this has none of it. nan where a column is constant
    within every stratum. Raises ValueError for columns of unequal length.
    """
    x, y, codes = _stratified(x, y, stratum)
    if not x.size:
        return math.nan
    sizes = np.bincount(codes)
    return _correlation(x - (np.bincount(codes, x) / sizes)[codes], y - (np.bincount(codes, y) / sizes)[codes])


def within_auc(score: npt.ArrayLike, right: npt.ArrayLike, stratum: npt.ArrayLike) -> float:
    """AUC from pairs of the same stratum only: sum of U over sum of n1 n0.

    nan where no stratum has both right and wrong answers, or the score is constant in each that has.
    Raises ValueError for columns of unequal length.
    """
    s, y, codes = _stratified(score, right, stratum)
    total, pairs, informative = 0.0, 0, False
    for code in np.unique(codes):
        here = codes == code
        n1, n0 = int(np.sum(y[here] > 0)), int(np.sum(y[here] == 0))
        if n1 and n0:
            total, pairs = total + _u(s[here], y[here]), pairs + n1 * n0
            informative = informative or varies(s[here])
    return total / pairs if informative else math.nan


def jackknife(
    statistic: Callable[..., float],
    columns: tuple[npt.ArrayLike, ...],
    group: npt.ArrayLike,
    level: float = 0.95,
    scale: tuple[float, float] = (-1.0, 1.0),
    without: Callable[..., Floats] | None = None,
) -> Interval:
    """Delete-one-group interval of `statistic(*columns)`: groups (stages) as the unit, t with groups - 1 df.

    Computed on the scale atanh, mapped from `scale` (-1, 1 for correlations; 0, 1 for an AUC), which keeps it inside.
    nan bounds where the statistic or one of the replicates is undefined or at an end of the scale, or with fewer
    than three groups. Raises ValueError for columns of unequal length.

    without: gives all replicates at once, of the columns and the groups as codes from 0 (see tomserve.stats.leaveout);
    used where computing them anew would look at more than LOOKED rows.
    """
    arrays = [np.asarray(column) for column in columns]
    groups = np.asarray(group)
    if len({array.shape[0] for array in [*arrays, groups]}) != 1:
        raise ValueError("columns and groups of unequal length")
    estimate, (names, codes) = statistic(*arrays), np.unique(groups, return_inverse=True)
    undefined = Interval(estimate, math.nan, math.nan, f"undefined: jackknife over {len(names)} groups")
    if len(names) < 3:
        return undefined
    middle, half = sum(scale) / 2, (scale[1] - scale[0]) / 2
    if without is not None and len(names) * groups.size > LOOKED:
        left_out = without(*arrays, codes).tolist()
    else:
        left_out = [statistic(*(array[codes != code] for array in arrays)) for code in range(len(names))]
    values = (np.array([estimate, *left_out]) - middle) / half
    if np.isnan(values).any() or np.abs(values).max() >= 1:
        return undefined
    from scipy.stats import t as student

    whole, *rest = np.arctanh(values)
    m = len(names)
    error = math.sqrt((m - 1) / m * float(np.sum((rest - np.mean(rest)) ** 2)))
    spread = float(student.ppf(0.5 + level / 2, m - 1)) * error
    low, high = (middle + half * math.tanh(whole + sign * spread) for sign in (-1, 1))
    return Interval(estimate, min(low, estimate), max(high, estimate), f"jackknife over {m} groups, t {m - 1} df")


def placebo_split(vanilla: npt.ArrayLike, cot: npt.ArrayLike, proper: npt.ArrayLike) -> PlaceboSplit:
    """CoT effect (mean of cot - vanilla) among proper and improper chains, with its mechanical null.

    Null: CoT answers permuted among items of equal vanilla outcome, so that chain and answer are unrelated given it.
    Its mean and SD are exact, not simulated: within a vanilla outcome v, n items of which k are of the part, the sum of
    k permuted answers is hypergeometric: mean k c, variance k c (1 - c) (n - k) / (n - 1), with c = mean(cot | v).
    Raises ValueError for columns of unequal length.
    """
    v, c, p = _columns(vanilla, cot, proper)
    return PlaceboSplit(_part(v, c, p > 0), _part(v, c, p == 0))


def _part(v: Floats, c: Floats, inside: npt.NDArray[np.bool_]) -> PlaceboPart:
    count = int(inside.sum())
    if not count:
        return PlaceboPart(0, math.nan, math.nan, math.nan)
    total, variance = 0.0, 0.0
    for outcome in (0.0, 1.0):
        here = (v > 0) == (outcome > 0)
        n, k = int(here.sum()), int((here & inside).sum())
        if k:
            share = float(c[here].mean())
            total += k * (share - outcome)
            variance += k * share * (1 - share) * (n - k) / (n - 1) if n > 1 else 0.0
    return PlaceboPart(count, float((c - v)[inside].mean()), total / count, math.sqrt(variance) / count)


def _u(score: Floats, right: Floats) -> float:
    from scipy.stats import mannwhitneyu

    # the asymptotic method only spares the exact p, which is not used
    return float(mannwhitneyu(score[right > 0], score[right == 0], method="asymptotic").statistic)


def _correlation(x: Floats, y: Floats) -> float:
    if x.size < 2 or not varies(x) or not varies(y):
        return math.nan
    dx, dy = x - x.mean(), y - y.mean()
    return float(np.clip(dx @ dy / math.sqrt(float(dx @ dx) * float(dy @ dy)), -1.0, 1.0))


def _columns(*columns: npt.ArrayLike) -> tuple[Floats, ...]:
    arrays = [np.asarray(column, dtype=float) for column in columns]
    if len({array.shape for array in arrays}) != 1:
        raise ValueError(f"columns of {[array.size for array in arrays]} rows: expected equal lengths")
    known = ~np.isnan(np.vstack(arrays)).any(axis=0)
    return tuple(array[known] for array in arrays)


def _stratified(
    x: npt.ArrayLike, y: npt.ArrayLike, stratum: npt.ArrayLike
) -> tuple[Floats, Floats, npt.NDArray[np.intp]]:
    _, codes = np.unique(np.asarray(stratum), return_inverse=True)
    kept_x, kept_y, kept = _columns(x, y, codes)
    return kept_x, kept_y, kept.astype(np.intp)
