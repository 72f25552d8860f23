"""Association of properties of chains with right answers (phi, AUC, within classes too), their jackknife over stages,
and the placebo split. All are associations, not effects: chain and answer come from one reply. Columns are parallel
[items]; rows with a nan are left out. nan means undefined, as where a column is constant."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tomserve.stats.distributions import chi2_tail, t_quantile
from tomserve.stats.paired import varies
from tomserve.stats.proportions import Interval

Floats = npt.NDArray[np.float64]
# A jackknife computes its replicates anew while rows x groups is at most this; beyond, it subtracts each group's sums.
MOST_ROWS_RECOMPUTED = 1_000_000


@dataclass(frozen=True)
class Phi:
    """Pearson's correlation of two 0/1 columns; its p by chi-square without Yates' correction, as published, which
    takes items as independent; the range that the shares of ones allow (`phi_range`); and the numbers of items."""

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
    """How well a score separates right from wrong answers: `auc` (ties half; .5 is none) and the correlation with the
    outcome."""

    auc: float
    point_biserial: float
    right: int
    wrong: int


@dataclass(frozen=True)
class PlaceboPart:
    """The mean difference cot - vanilla among items with one kind of chain, and its mean and SD if chain and answer
    were unrelated."""

    items: int
    effect: float
    null: float
    null_sd: float


def phi(x: npt.ArrayLike, y: npt.ArrayLike) -> Phi:
    """Phi of two 0/1 columns [items]. Raises ValueError for columns of unequal length."""
    x, y = _columns(x, y)
    both, only_x = int(np.sum((x > 0) & (y > 0))), int(np.sum((x > 0) & (y == 0)))
    only_y, neither = int(np.sum((x == 0) & (y > 0))), int(np.sum((x == 0) & (y == 0)))
    counts = (both, only_x, only_y, neither)
    value = _correlation(x, y)
    if math.isnan(value):
        return Phi(math.nan, math.nan, math.nan, math.nan, *counts)
    low, high = phi_range(float(x.mean()), float(y.mean()))
    return Phi(value, chi2_tail(x.size * value**2, 1), low, high, *counts)


def phi_range(a: float, b: float) -> tuple[float, float]:
    """Least and greatest phi that two shares of ones allow (Davenport and El-Sanhoury, Educ Psychol Meas 51:821, 1991);
    nan where one of them is 0 or 1.

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
    """AUC of a score for right (1) against wrong (0) answers, U / (n1 n0) of the Mann-Whitney test (Hanley and McNeil,
    Radiology 143:29, 1982), beside the point-biserial correlation; nan for a constant column. Raises ValueError for
    columns of unequal length."""
    s, y = _columns(score, right)
    n1, n0 = int(np.sum(y > 0)), int(np.sum(y == 0))
    r = _correlation(s, y)
    if math.isnan(r):
        return Separation(math.nan, math.nan, n1, n0)
    return Separation(_u(s, y) / (n1 * n0), r, n1, n0)


def within_correlation(x: npt.ArrayLike, y: npt.ArrayLike, stratum: npt.ArrayLike) -> float:
    """Pearson's r of the deviations from the stratum means, which classes of unequal difficulty do not create; nan
    where a column is constant within every stratum. Raises ValueError for columns of unequal length."""
    x, y, codes = _code_strata(x, y, stratum)
    if not x.size:
        return math.nan
    sizes = np.bincount(codes)
    return _correlation(x - (np.bincount(codes, x) / sizes)[codes], y - (np.bincount(codes, y) / sizes)[codes])


def within_auc(score: npt.ArrayLike, right: npt.ArrayLike, stratum: npt.ArrayLike) -> float:
    """AUC from pairs of answers of the same stratum only; nan where no stratum has both outcomes and several scores.
    Raises ValueError for columns of unequal length."""
    s, y, codes = _code_strata(score, right, stratum)
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
    scale: tuple[float, float] = (-1.0, 1.0),
    without: Callable[..., Floats] | None = None,
) -> Interval:
    """Interval of `statistic(*columns)` for new groups (stages), by leaving out each in turn: the jackknife's error
    (Efron and Tibshirani 1993, chapter 11) on the scale of Fisher's atanh, with t and groups - 1 df. It assumes
    independent groups and a smooth statistic, and may cover too little with few groups.

    columns, group: parallel [items]. scale: the range of the statistic. without: gives all replicates at once from the
    columns and group codes from 0; used beyond MOST_ROWS_RECOMPUTED rows. The bounds are nan with fewer than three
    groups, or where a replicate is undefined or at an end of the range. Raises ValueError for unequal lengths."""
    arrays = [np.asarray(column) for column in columns]
    groups = np.asarray(group)
    if len({array.shape[0] for array in [*arrays, groups]}) != 1:
        raise ValueError("columns and groups of unequal length")
    estimate, (names, codes) = statistic(*arrays), np.unique(groups, return_inverse=True)
    undefined = Interval(estimate, math.nan, math.nan, f"undefined: jackknife over {len(names)} groups")
    if len(names) < 3:
        return undefined
    middle, half = sum(scale) / 2, (scale[1] - scale[0]) / 2
    if without is not None and len(names) * groups.size > MOST_ROWS_RECOMPUTED:
        left_out = without(*arrays, codes).tolist()
    else:
        left_out = [statistic(*(array[codes != code] for array in arrays)) for code in range(len(names))]
    values = (np.array([estimate, *left_out]) - middle) / half
    if np.isnan(values).any() or np.abs(values).max() >= 1:
        return undefined
    whole, *rest = np.arctanh(values)
    m = len(names)
    error = math.sqrt((m - 1) / m * float(np.sum((rest - np.mean(rest)) ** 2)))
    spread = t_quantile(0.975, m - 1) * error
    low, high = (middle + half * math.tanh(whole + sign * spread) for sign in (-1, 1))
    return Interval(estimate, min(low, estimate), max(high, estimate), f"jackknife over {m} groups, t {m - 1} df")


def placebo_split(vanilla: npt.ArrayLike, cot: npt.ArrayLike, proper: npt.ArrayLike) -> tuple[PlaceboPart, PlaceboPart]:
    """Difference cot - vanilla among items with proper and with improper chains, each beside its null, in which CoT
    answers are permuted among items of equal vanilla outcome: exact hypergeometric mean and SD, items taken as
    independent.

    vanilla, cot, proper: 0/1 [items]. Raises ValueError for columns of unequal length."""
    v, c, p = _columns(vanilla, cot, proper)
    return _part(v, c, p > 0), _part(v, c, p == 0)


def _part(v: Floats, c: Floats, inside: npt.NDArray[np.bool_]) -> PlaceboPart:
    """The part of a placebo split whose items are `inside`; v and c are the vanilla and the CoT outcomes."""
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
    """Mann-Whitney U of the scores of right against wrong answers: the pairs of them in which the right one has the
    higher score, where equal scores count one half."""
    _, code, counts = np.unique(score, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[code]  # from 1; equal scores share the mean of theirs
    of_right = ranks[right > 0]
    return float(of_right.sum()) - of_right.size * (of_right.size + 1) / 2


def _correlation(x: Floats, y: Floats) -> float:
    if x.size < 2 or not varies(x) or not varies(y):
        return math.nan
    dx, dy = x - x.mean(), y - y.mean()
    return float(np.clip(dx @ dy / math.sqrt(float(dx @ dx) * float(dy @ dy)), -1.0, 1.0))


def _columns(*columns: npt.ArrayLike) -> tuple[Floats, ...]:
    """The columns as floats, without rows in which one is nan. Raises ValueError for columns of unequal length."""
    arrays = [np.asarray(column, dtype=float) for column in columns]
    if len({array.shape for array in arrays}) != 1:
        raise ValueError(f"columns of {[array.size for array in arrays]} rows: expected equal lengths")
    known = ~np.isnan(np.vstack(arrays)).any(axis=0)
    return tuple(array[known] for array in arrays)


def _code_strata(
    x: npt.ArrayLike, y: npt.ArrayLike, stratum: npt.ArrayLike
) -> tuple[Floats, Floats, npt.NDArray[np.intp]]:
    """Two columns and the codes of their strata, without rows in which one is nan."""
    _, codes = np.unique(np.asarray(stratum), return_inverse=True)
    kept_x, kept_y, kept = _columns(x, y, codes)
    return kept_x, kept_y, kept.astype(np.intp)


Codes = npt.NDArray[np.intp]
# A column counts as constant where its variation is below this share of the whole variation: subtracting leaves such
# rounding errors of equal values.
NOTHING = 1e-12


def correlations(x: Floats, y: Floats, group: Codes, stratum: Codes | None = None) -> Floats:
    """Pearson's r of x and y without each group in turn; with strata that of the deviations from the stratum means. x,
    y: floats [rows]. group, stratum: codes from 0 [rows]."""
    groups = int(group.max()) + 1
    known = ~(np.isnan(x) | np.isnan(y))
    x, y, group = x[known], y[known], group[known]
    if not x.size:
        return np.full(groups, np.nan)
    strata = np.zeros(x.size, dtype=np.intp) if stratum is None else stratum[known]
    x, y = x - x.mean(), y - y.mean()  # smaller numbers, smaller rounding
    cells, shape = group * (int(strata.max()) + 1) + strata, (groups, int(strata.max()) + 1)

    def rest(values: Floats) -> Floats:
        sums = np.bincount(cells, weights=values, minlength=shape[0] * shape[1]).reshape(shape)
        return np.asarray(sums.sum(axis=0) - sums, dtype=np.float64)

    counts, sum_x, sum_y = rest(np.ones_like(x)), rest(x), rest(y)
    sizes = np.maximum(counts, 1)

    def products(a: Floats, b: Floats, sum_a: Floats, sum_b: Floats) -> Floats:
        return np.asarray((rest(a * b) - sum_a * sum_b / sizes).sum(axis=1), dtype=np.float64)

    xx, yy, xy = products(x, x, sum_x, sum_x), products(y, y, sum_y, sum_y), products(x, y, sum_x, sum_y)
    constant = (xx <= NOTHING * float(x @ x)) | (yy <= NOTHING * float(y @ y))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(constant, np.nan, np.clip(xy / np.sqrt(xx * yy), -1.0, 1.0))


def aucs(score: Floats, right: Floats, group: Codes) -> Floats:
    """AUC without each group in turn. score, right (1 or 0), group (codes from 0): [rows]."""
    undefined = np.isnan(correlations(score, right, group))
    known = ~(np.isnan(score) | np.isnan(right))
    good, of_group, groups = right[known] > 0, group[known], int(group.max()) + 1
    values, rank = np.unique(score[known], return_inverse=True)

    def sums(chosen: npt.NDArray[np.bool_], weights: Floats | None = None) -> Floats:
        totals = np.bincount(of_group[chosen], None if weights is None else weights[chosen], minlength=groups)
        return np.asarray(totals, dtype=np.float64)

    whole = [np.bincount(rank[chosen], minlength=values.size).astype(float) for chosen in (good, ~good)]
    n1, n0 = sums(good), sums(~good)
    beaten = _below(whole[1])[rank]  # wrong answers that a score of this rank exceeds
    beating = (whole[0].sum() - _below(whole[0]))[rank]  # right answers that exceed it
    own = _within(good, rank, of_group, values.size, groups)
    pairs = float(beaten[good].sum()) - sums(good, beaten) - sums(~good, beating) + own
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(undefined, np.nan, pairs / ((n1.sum() - n1) * (n0.sum() - n0)))


def _below(counts: Floats) -> Floats:
    """By rank, how many rows have a lower rank, plus half of those of the same rank. `counts`: rows of each rank."""
    return np.asarray(np.cumsum(counts) - counts / 2, dtype=np.float64)


def _within(good: npt.NDArray[np.bool_], rank: Codes, code: Codes, ranks: int, groups: int) -> Floats:
    """By group, its pairs of a right and a wrong answer in which the right one scores higher, ties half."""
    cells, cell = np.unique(code * ranks + rank, return_inverse=True)
    group_of = cells // ranks
    right, wrong = (np.bincount(cell[flag], minlength=cells.size).astype(float) for flag in (good, ~good))
    before = np.concatenate(([0.0], np.cumsum(wrong)))[np.searchsorted(group_of, np.arange(groups))]
    return np.bincount(group_of, weights=right * (_below(wrong) - before[group_of]), minlength=groups).astype(float)
