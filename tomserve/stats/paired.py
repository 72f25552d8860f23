"""Tests of paired differences: sign flips, McNemar, Cochran's Q, t and moderated t tests (limma; Smyth, Stat Appl Genet
Mol Biol 3:3, 2004, sections 3 to 6), with corrections for several tests. One value is one independent unit."""

import functools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tomserve.stats.distributions import (
    binomial_cdf,
    binomial_pmf,
    chi2_tail,
    digamma,
    find_root,
    t_interval,
    t_tails,
    trigamma,
)
from tomserve.stats.proportions import Interval

Floats = npt.NDArray[np.float64]
CELLS = 2**18  # The most random numbers held at once: 2 MB, a few times over, for a million units as for twenty
PIECE = 2**16  # So many random bits are drawn at once
SINGLY = 1024  # Up to so many units, every unit is flipped by itself
# Means closer than this are ties: differences are rounded to twelve decimals, while means of shares that are not equal
# are further apart.
ROUNDED = 1e-11
_EQUAL = 100 * float(np.finfo(np.float64).eps)  # As scipy's: so far apart, in the largest difference, are equal means
_WORTH = 32  # One binomial draw takes about as long as flipping this many units one by one
ROUND = 100  # A binomial draw of so many coins is taken from a rounded normal one: no tail differs by more than .001


def sign_flip_p(differences: Floats, draws: int, seed: int) -> float:
    """Two-sided p of symmetry around zero, by random sign flips of the mean: twice the smaller tail, (1 + draws as
    extreme) / (1 + draws) (Phipson and Smyth, Stat Appl Genet Mol Biol 9:39, 2010). differences: not zero [units]. As
    scipy's `permutation_test` with the same seed, but that units of equal size are flipped together where they are
    many."""
    observed = float(np.mean(differences))
    sizes, counts = _sizes(differences)
    if sizes.size * _WORTH <= differences.size:
        nulls, tie = _by_size(sizes, counts, draws, np.random.default_rng(seed)), ROUNDED
    else:
        nulls, tie = _singly(differences, draws, seed), _EQUAL * float(np.abs(differences).max())
    less = more = 0
    for means in nulls:
        less += int(np.count_nonzero(means <= observed + tie))
        more += int(np.count_nonzero(means >= observed - tie))
    return min(1.0, 2 * min((1 + less) / (1 + draws), (1 + more) / (1 + draws)))


def batch_size(width: int) -> int:
    """How many draws of `width` random numbers each are held at once: at most CELLS numbers, at least one draw."""
    return max(1, CELLS // max(1, width))


def batches(draws: int, width: int) -> Iterator[int]:
    """Yield the sizes of the batches in which `draws` draws of `width` random numbers each are made."""
    size = batch_size(width)
    for start in range(0, draws, size):
        yield min(size, draws - start)


def _sizes(differences: Floats) -> tuple[Floats, npt.NDArray[np.int64]]:
    """The absolute sizes of the differences, each once, and how many units have it."""
    if differences.size <= SINGLY:
        return differences, np.ones(differences.size, dtype=np.int64)
    # rounded to twelve decimals, so that shares that differ by rounding only fall together
    return np.unique(np.abs(differences).round(12), return_counts=True)


def _singly(differences: Floats, draws: int, seed: int) -> Iterator[Floats]:
    """Null means in batches, every unit flipped by itself: the last bit of a random word decides its sign, which is
    what scipy does with the same generator."""
    total, units, start = differences.sum(), differences.size, 0
    rng = np.random.default_rng(seed)
    for rows in batches(draws, units):
        drawn = rows * units
        keep = _random_bits(seed).take(start, drawn) if units <= SINGLY else _last_bits(rng, drawn)
        start += drawn
        yield (2 * (keep.astype(np.float64).reshape(rows, units) @ differences) - total) / units


def _last_bits(rng: np.random.Generator, count: int) -> npt.NDArray[np.uint8]:
    """The last bits of so many random words, each 0 or 1."""
    return (rng.integers(0, 2**32, size=count, dtype=np.uint32) & 1).astype(np.uint8)


class RandomBits:
    """The last bits of the 32-bit words that a generator of numpy draws one after another. They are kept, packed by
    eight, as the tests of a study want the same ones: drawing them takes six times as long as multiplying them."""

    def __init__(self, seed: int) -> None:
        self._rng, self._lock = np.random.default_rng(seed), threading.Lock()
        self._pieces: list[npt.NDArray[np.uint8]] = []

    def take(self, start: int, count: int) -> npt.NDArray[np.uint8]:
        """So many bits from one of them on, each 0 or 1."""
        first, last = start // PIECE, -(-(start + count) // PIECE)
        with self._lock:
            while len(self._pieces) < last:
                self._pieces.append(np.packbits(_last_bits(self._rng, PIECE)))
        skipped = start - first * PIECE
        return np.unpackbits(np.concatenate(self._pieces[first:last]), count=skipped + count)[skipped:]


_random_bits = functools.lru_cache(maxsize=1)(RandomBits)


def _by_size(sizes: Floats, counts: npt.NDArray[np.int64], draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Null means in batches, units of the same size flipped together by one binomial draw."""
    few, many = counts[counts < ROUND], counts[counts >= ROUND]
    sizes, units = np.concatenate([sizes[counts < ROUND], sizes[counts >= ROUND]]), counts.sum()
    for rows in batches(draws, sizes.size):
        drawn = 2 * rng.binomial(few, 0.5, size=(rows, few.size)) - few
        rounded = 2 * np.rint((rng.standard_normal((rows, many.size)) * np.sqrt(many) + many) / 2) - many
        yield np.hstack([drawn, rounded]) @ sizes / units


def step_up(p: Floats) -> Floats:
    order = np.argsort(p)
    raised = p[order] * (p.size / np.arange(1, p.size + 1))
    found = np.empty(p.size)
    found[order] = np.minimum(1.0, np.minimum.accumulate(raised[::-1])[::-1])  # none is above that of a larger p
    return found


def holm(p: Floats) -> Floats:
    order = np.argsort(p)
    found = np.empty(p.size)
    found[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)))
    return found


# Up to so many differences all 2^16 sign patterns are enumerated; of more, as many are drawn at random.
EXACT_UNITS = 16


@dataclass(frozen=True)
class CochranQ:
    """Cochran's Q with its chi-square p; informative: on how many items the strategies differ."""

    q: float
    p: float
    df: int
    informative: int


def smallest_p(units: int) -> float:
    """Least two-sided p of a sign-flip test over so many units: 2/2^m, with at most 16 units' worth of patterns; nan
    for none."""
    return math.nan if units < 1 else min(1.0, 2.0 ** (1 - min(units, EXACT_UNITS)))


def sign_flip(differences: npt.ArrayLike, seed: int = 0) -> float:
    """p of the two-sided test that the differences of independent units are symmetric around zero, by their mean
    (Fisher, "The Design of Experiments", 1935, section 21): all sign patterns of up to 16 nonzero differences, else
    65,535 drawn ones. nan is left out; 1 where all are zero, nan where there is none.

    >>> sign_flip([0.5, 0.25, 0.5, 1.0])
    0.125
    """
    d = _known(differences)
    if not d.size:
        return math.nan
    moved = d[d != 0]
    if moved.size <= EXACT_UNITS:
        if not moved.size:
            return 1.0
        patterns = np.arange(2 ** (moved.size - 1))  # the first sign is fixed: reversing all signs keeps |sum|
        signs = 1 - 2 * (patterns[:, None] >> np.arange(moved.size) & 1)
        sums, observed = np.abs(signs @ moved), abs(moved.sum())
        # a margin relative to the sum, so that ties with the observed pattern count in whatever order numbers are added
        return float(np.mean(sums >= observed - 1e-9 * np.abs(moved).sum()))
    return sign_flip_p(moved, 2**EXACT_UNITS - 1, seed)


def mean_interval(differences: npt.ArrayLike, level: float = 0.95, fallback: Interval | None = None) -> Interval:
    """t interval of the mean difference [units], nan left out, cut to [-1, 1] (scipy's `ttest_1samp`). fallback:
    returned, around the mean, with fewer than two units or without variance; without it the bounds are nan there."""
    d = _known(differences)
    if not d.size:
        return Interval(math.nan, math.nan, math.nan, "undefined: no units")
    mean = float(d.mean())
    if d.size < 2 or not varies(d):
        reason = "one unit" if d.size < 2 else "zero variance"
        if fallback is None:
            return Interval(mean, math.nan, math.nan, f"undefined: {reason}")
        low, high = min(fallback.low, mean), max(fallback.high, mean)
        return Interval(mean, low, high, f"{fallback.method} ({reason})")
    low, high, _ = t_interval(mean, float(d.std(ddof=1)) / math.sqrt(d.size), d.size - 1, level)
    return Interval(mean, max(-1.0, low), min(1.0, high), f"t, {d.size - 1} df")


def t_p(differences: npt.ArrayLike) -> float:
    """Two-sided p of a one-sample t test of a mean of zero; nan for fewer than two units or zero variance."""
    d = _known(differences)
    if d.size < 2 or not varies(d):
        return math.nan
    return t_interval(float(d.mean()), float(d.std(ddof=1)) / math.sqrt(d.size), d.size - 1)[2]


def varies(values: Floats) -> bool:
    """Whether the values, at least one, differ by more than rounding."""
    return bool(np.ptp(values) > 1e-12)


def mcnemar(gained: int, lost: int, items: int) -> tuple[float, float]:
    """McNemar's exact and mid-p tests from how many of the items are right under the one condition only, or the other:
    binomial on these (as scipy's `binomtest`); mid-p = exact - P(b; b + c, 1/2), 1 - P/2 where b = c (Fagerland et al.,
    BMC Med Res Methodol 13:91, 2013). 1 where none differs, nan without items, which are taken as independent."""
    if not gained + lost:
        return (1.0, 1.0) if items else (math.nan, math.nan)
    exact = min(1.0, 2 * binomial_cdf(min(gained, lost), gained + lost, 0.5))
    point = float(binomial_pmf(gained, gained + lost, 0.5))
    return exact, 1 - point / 2 if gained == lost else exact - point


def cochrans_q(outcomes: npt.ArrayLike) -> CochranQ:
    """Cochran's Q test that k strategies are right equally often on the same items (Biometrika 37:256, 1950), taken as
    independent; q is 0 and p 1 where none ever differs. outcomes: 0/1 [items, strategies], rows with a nan left out.
    Raises ValueError unless there are two columns."""
    table = np.asarray(outcomes, dtype=float)
    if table.ndim != 2 or table.shape[1] < 2:
        raise ValueError(f"shape {table.shape}: expected items x strategies, two or more strategies")
    table = table[~np.isnan(table).any(axis=1)]
    df = table.shape[1] - 1
    if not len(table):
        return CochranQ(math.nan, math.nan, df, 0)
    informative = int(np.sum(np.ptp(table, axis=1) > 0))
    if not informative:
        return CochranQ(0.0, 1.0, df, 0)
    of_strategies, of_items, total = table.sum(axis=0), table.sum(axis=1), float(table.sum())
    spread = (df + 1) * float(of_strategies @ of_strategies) - total**2
    q = df * spread / ((df + 1) * total - float(of_items @ of_items))
    return CochranQ(q, chi2_tail(q, df), df, informative)


def adjust(p_values: Sequence[float], method: Literal["bh", "holm"] = "bh") -> list[float]:
    """Adjusted p values of one family of tests: "bh" (Benjamini and Hochberg, J R Stat Soc B 57:289, 1995), as scipy's
    `false_discovery_control`, or "holm" (Scand J Stat 6:65, 1979).

    An undefined p (nan) stays nan and is not counted: tests here are undefined for want of units, never because of
    outcomes. Raises ValueError for a p outside [0, 1].

    >>> adjust([0.01, 0.03, 0.5])
    [0.03, 0.045, 0.5]
    """
    p = np.asarray(p_values, dtype=float)
    known = ~np.isnan(p)
    if known.any():
        if not ((p[known] >= 0) & (p[known] <= 1)).all():
            raise ValueError(f"p values {p[known]}: expected numbers from 0 to 1")
        p = p.copy()
        p[known] = holm(p[known]) if method == "holm" else step_up(p[known])
    return [float(value) for value in p]


def mean_difference(treated: Floats, control: Floats) -> float:
    return float(treated.mean() - control.mean()) if treated.size and control.size else math.nan


def missing_bounds(
    treated: npt.ArrayLike, control: npt.ArrayLike, estimate: Callable[[Floats, Floats], float] = mean_difference
) -> tuple[float, float]:
    """Least and greatest contrast that the missing outcomes (nan) allow (Manski, Am Econ Rev 80:319, 1990): bounds for
    these items, no confidence interval. estimate: of two columns without gaps; it rises with treated, falls with
    control.

    >>> missing_bounds([1, 1, float("nan"), 0], [0, 0, 1, 0])
    (0.25, 0.5)
    """
    t, c = np.asarray(treated, dtype=float), np.asarray(control, dtype=float)
    low = estimate(np.where(np.isnan(t), 0.0, t), np.where(np.isnan(c), 1.0, c))
    high = estimate(np.where(np.isnan(t), 1.0, t), np.where(np.isnan(c), 0.0, c))
    return low, high


def _known(values: npt.ArrayLike) -> Floats:
    array: Floats = np.asarray(values, dtype=float).ravel()
    known: Floats = array[~np.isnan(array)]
    return known


# A variance of zero has no logarithm; for estimating the prior it counts as this share of the median variance.
OFFSET = 1e-5
# The correlation of two classes' differences where both are compared with the same control tasks, and all tasks vary
# alike: the control's half of the variance is common to both.
SHARED = 0.5


def moderate_tests(
    means: Sequence[float] | Floats,
    sds: Sequence[float] | Floats,
    units: Sequence[int],
    *,
    shared: float = SHARED,
) -> Floats:
    """p of each class's mean difference by a t statistic whose variance is shared among the classes: s^2 on d = units -
    1 df becomes (d s^2 + d0 s0^2) / (d + d0), on d + d0 df, at most those of the pooled variance. d0 and s0^2 are
    estimated from the moments of log s^2. It assumes independent units and variances from one scaled inverse
    chi-square; nan where undefined.

    Classes whose differences are correlated by r (`shared`, .5 where they share control tasks) have variances
    correlated by r^2, so that the pooled one has the sum of all d over 1 + (k - 1) r^2 df: without this .06 of true
    hypotheses were rejected.

    means, sds, units: [classes], of fewer than two units nan. A variance of zero counts as OFFSET of the median. Where
    fewer than two classes vary, the tests are ordinary t tests. Raises ValueError for columns of unequal length.

    >>> moderate_tests([-0.3, -0.1, 0.0], [0.2, 0.2, 0.2], [7, 7, 7], shared=0.0).round(4).tolist()
    [0.0009, 0.2024, 1.0]
    """
    mean, sd, count = (np.asarray(column, dtype=float) for column in (means, sds, units))
    if not mean.shape == sd.shape == count.shape:
        raise ValueError(f"{mean.size} means, {sd.size} SDs, {count.size} numbers of units: expected equal lengths")
    usable = (count >= 2) & np.isfinite(mean) & np.isfinite(sd)
    variance, d = np.where(usable, sd, np.nan) ** 2, np.where(usable, count - 1, np.nan)
    df = d
    if int(np.sum(variance[usable] > 0)) >= 2:
        prior_df, prior_variance = estimate_prior(variance[usable], d[usable])
        alone = np.where(np.isnan(variance), np.nan, prior_variance)
        variance = alone if math.isinf(prior_df) else (d * variance + prior_df * prior_variance) / (d + prior_df)
        most = float(d[usable].sum()) / (1 + (int(usable.sum()) - 1) * shared**2)
        df = np.minimum(d + prior_df, np.maximum(d, most))
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.sqrt(variance / count)
        p = t_tails(mean / error, df)
    return np.asarray(np.where(error == 0, np.where(np.abs(mean) < 1e-12, 1.0, np.nan), p), dtype=float)


def estimate_prior(variances: Floats, df: Floats) -> tuple[float, float]:
    """The prior degrees of freedom d0 and variance s0^2 that the variances of at least two classes, on df each, suggest
    (section 6.2); d0 is infinite, and s0^2 the pooled variance, where they spread no more than by sampling."""
    middle = float(np.median(variances)) or float(np.median(variances[variances > 0]))
    z = np.log(np.maximum(variances, OFFSET * middle)) - digamma(df / 2) + np.log(df / 2)
    spread = float(np.var(z, ddof=1)) - float(np.mean(trigamma(df / 2)))
    if spread <= 0:
        return math.inf, float(np.sum(df * variances) / np.sum(df))
    # the number whose trigamma is `spread`; trigamma(x) lies between 1/x and 1/x + 1/x^2, which brackets it
    low, high = 1 / spread, (1 + math.sqrt(1 + 4 * spread)) / (2 * spread)
    half = find_root(lambda x: spread - float(trigamma(x)), low, high * (1 + 1e-12))
    return 2 * half, math.exp(float(np.mean(z)) + float(digamma(half)) - math.log(half))
