"""Tests of paired differences: sign flips, McNemar, Cochran's Q, differential failure, and their corrections."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tomserve.stats.flips import flipped_p
from tomserve.stats.proportions import Interval

Floats = npt.NDArray[np.float64]
EXACT_UNITS = 16
"""Sign flips are enumerated up to 2^16 patterns; beyond, as many are drawn."""


@dataclass(frozen=True)
class SignFlip:
    """Two-sided sign-flip test of a zero mean. `smallest`: the least p this many units can give, whatever the data."""

    mean: float
    p: float
    smallest: float
    units: int
    nonzero: int
    exact: bool


@dataclass(frozen=True)
class McNemar:
    """Items by (treated, control) outcome, and the exact and mid-p tests of gained = lost.

    Both treat items as independent, so within tasks they are descriptive.
    """

    both: int
    gained: int
    lost: int
    neither: int
    p_exact: float
    p_mid: float


@dataclass(frozen=True)
class CochranQ:
    """Cochran's Q over k strategies; `informative`: items on which the strategies differ."""

    q: float
    p: float
    df: int
    informative: int


@dataclass(frozen=True)
class DifferentialFailure:
    """Do two conditions fail (no usable output) on the same items equally often?

    `p_exact` takes items as independent (too small under clustering), `p_clustered` flips signs of cluster totals.
    """

    rate_treated: float
    rate_control: float
    only_treated: int
    only_control: int
    p_exact: float
    p_clustered: float


def smallest_p(units: int) -> float:
    """Least two-sided p that a sign-flip test can give: 2/2^m (.016 for 7 units, .125 for 4; 1 for one, nan for none).

    Beyond 16 units signs are drawn, 65,536 times, so it is never below 2/65536.
    """
    return math.nan if units < 1 else min(1.0, 2.0 ** (1 - min(units, EXACT_UNITS)))


def sign_flip(differences: npt.ArrayLike, seed: int = 0) -> SignFlip:
    """Test that the differences are symmetric around zero. Missing (nan) differences are left out.

    Exact up to 16 nonzero differences (a zero is its own mirror image, so it changes no p), beyond with 65535 draws and
    the given seed (see tomserve.stats.flips). All zero: p = 1. None: nan.

        >>> sign_flip([0.5, 0.25, 0.5, 1.0]).p
        0.125
    """
    d = _known(differences)
    if not d.size:
        return SignFlip(math.nan, math.nan, math.nan, 0, 0, True)
    moved = d[d != 0]
    if not moved.size:
        p, exact = 1.0, True
    elif moved.size <= EXACT_UNITS:
        patterns = np.arange(2 ** (moved.size - 1))  # the first sign fixed: the others follow by symmetry
        signs = 1 - 2 * (patterns[:, None] >> np.arange(moved.size) & 1)
        sums, observed = np.abs(signs @ moved), abs(moved.sum())
        # a relative margin, so that patterns that tie with the observed one count whatever the order of summation
        p, exact = float(np.mean(sums >= observed - 1e-9 * np.abs(moved).sum())), True
    else:
        p, exact = flipped_p(moved, 2**EXACT_UNITS - 1, seed), False
    return SignFlip(float(d.mean()), p, smallest_p(d.size), int(d.size), int(moved.size), exact)


def mean_interval(differences: npt.ArrayLike, level: float = 0.95, fallback: Interval | None = None) -> Interval:
    """t interval of the mean (scipy's `ttest_1samp`, m - 1 df), cut to [-1, 1]; nan differences are left out.

    Where it is undefined (fewer than two units, or all differences equal: a width of zero would claim certainty), the
    `fallback` is returned, with the mean as its estimate; without one the bounds are nan.
    """
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
    from scipy.stats import ttest_1samp

    bounds = ttest_1samp(d, 0).confidence_interval(level)
    return Interval(mean, max(-1.0, float(bounds.low)), min(1.0, float(bounds.high)), f"t, {d.size - 1} df")


def t_p(differences: npt.ArrayLike) -> float:
    """Two-sided p of a one-sample t test of zero mean; nan for fewer than two units or zero variance."""
    d = _known(differences)
    if d.size < 2 or not varies(d):
        return math.nan
    from scipy.stats import ttest_1samp

    return float(ttest_1samp(d, 0).pvalue)


def varies(values: Floats) -> bool:
    """Whether values differ by more than rounding."""
    return bool(np.ptp(values) > 1e-12)


def mcnemar(treated: npt.ArrayLike, control: npt.ArrayLike) -> McNemar:
    """McNemar's exact and mid-p tests of two 0/1 columns over the same items; items with a nan are left out.

    statsmodels' `mcnemar(exact=True)`; mid-p = exact - P(b; b + c, 1/2), where b = c: 1 - P/2 (Fagerland, Lydersen and
    Laake, BMC Med Res Methodol 13:91, 2013). No discordant pair: both are 1. No item: nan.
    Raises ValueError for columns of unequal length.
    """
    t, c = _pair(treated, control)
    both, gained = int(np.sum((t > 0) & (c > 0))), int(np.sum((t > 0) & (c == 0)))
    lost, neither = int(np.sum((t == 0) & (c > 0))), int(np.sum((t == 0) & (c == 0)))
    if not t.size:
        return McNemar(0, 0, 0, 0, math.nan, math.nan)
    if not gained + lost:
        return McNemar(both, 0, 0, neither, 1.0, 1.0)
    from scipy.stats import binom
    from statsmodels.stats.contingency_tables import mcnemar as exact_test

    exact = float(exact_test([[both, gained], [lost, neither]], exact=True).pvalue)
    point = float(binom.pmf(gained, gained + lost, 0.5))
    middle = 1 - point / 2 if gained == lost else exact - point
    return McNemar(both, gained, lost, neither, exact, middle)


def cochrans_q(outcomes: npt.ArrayLike) -> CochranQ:
    """Cochran's Q of an items x strategies table of 0/1 (statsmodels); rows with a nan are left out.

    No strategy ever differs from another: q = 0, p = 1. Descriptive within tasks, as McNemar's test is.
    Raises ValueError unless the table has at least two columns.
    """
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
    from statsmodels.stats.contingency_tables import cochrans_q as q_test

    found = q_test(table)
    return CochranQ(float(found.statistic), float(found.pvalue), df, informative)


def adjust(p_values: Sequence[float]) -> list[float]:
    """Benjamini-Yekutieli adjusted p (scipy's `false_discovery_control(method="by")`), valid under any dependence.

    An undefined p (nan) stays nan and is not counted in the family. That is honest only because the tests of this
    package are undefined for want of units, never because of the outcomes: a hypothesis without data cannot be a
    false discovery. (All differences zero is a p of 1, and counts.) Raises ValueError for a p outside [0, 1].
    """
    p = np.asarray(p_values, dtype=float)
    known = ~np.isnan(p)
    if known.any():
        from scipy.stats import false_discovery_control

        p = p.copy()
        p[known] = false_discovery_control(p[known], method="by")
    return [float(value) for value in p]


def differential_failure(
    failed_treated: npt.ArrayLike, failed_control: npt.ArrayLike, cluster: npt.ArrayLike | None = None
) -> DifferentialFailure:
    """Compare failures (1 = no usable output) of two conditions over the same items.

    Exact McNemar on failed / not failed; with `cluster` also a sign-flip test of the clusters' differences, which
    is the one to believe. Raises ValueError for columns of unequal length.
    """
    t, c = np.asarray(failed_treated, dtype=float), np.asarray(failed_control, dtype=float)
    found = mcnemar(t, c)
    clustered = math.nan
    if cluster is not None and t.size:
        _, index = np.unique(np.asarray(cluster), return_inverse=True)
        clustered = sign_flip(np.bincount(index, weights=t - c)).p
    n = found.both + found.gained + found.lost + found.neither
    rates = ((found.both + found.gained) / n, (found.both + found.lost) / n) if n else (math.nan, math.nan)
    return DifferentialFailure(*rates, found.gained, found.lost, found.p_exact, clustered)


def mean_difference(treated: Floats, control: Floats) -> float:
    """Mean of one column less the mean of the other; nan where one is empty."""
    return float(treated.mean() - control.mean()) if treated.size and control.size else math.nan


def missing_bounds(
    treated: npt.ArrayLike,
    control: npt.ArrayLike,
    estimate: Callable[[Floats, Floats], float] = mean_difference,
) -> tuple[float, float]:
    """Least and greatest contrast that the missing outcomes (nan) allow, in units of `estimate`.

    Least: every missing treated outcome wrong and every missing control outcome right; greatest: the reverse. Not a
    confidence interval. `estimate` must rise with treated and fall with control outcomes (any contrast of means).

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


def _pair(treated: npt.ArrayLike, control: npt.ArrayLike) -> tuple[Floats, Floats]:
    t, c = np.asarray(treated, dtype=float), np.asarray(control, dtype=float)
    if t.shape != c.shape:
        raise ValueError(f"{t.size} and {c.size} outcomes: paired columns have equal length")
    known = ~(np.isnan(t) | np.isnan(c))
    return t[known], c[known]
