"""Tests of differences between two or more conditions on the same items, and the corrections that go with them.

Sign flips, t intervals of a mean difference, McNemar's test, Cochran's Q, the comparison of failures, adjusted p values
and bounds for missing outcomes. What is passed in as one value counts as one independent unit; for questions that share
a story pass the difference of each cluster or stratum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tomserve.stats.adjusting import holm, step_up
from tomserve.stats.distributions import binomial_cdf, binomial_pmf, chi2_tail, t_interval
from tomserve.stats.flips import flipped_p
from tomserve.stats.proportions import Interval

Floats = npt.NDArray[np.float64]
EXACT_UNITS = 16
"""Up to so many differences all 2^16 sign patterns are enumerated; of more, as many are drawn at random."""


@dataclass(frozen=True)
class SignFlip:
    """Result of a two-sided sign-flip test of symmetry around zero.

    `mean`: of the differences; `p`: of the test; `smallest`: the least p that so many units can give, whatever the
    data; `units`: number of differences, of which `nonzero` differ from zero; `exact`: whether all patterns were
    enumerated.
    """

    mean: float
    p: float
    smallest: float
    units: int
    nonzero: int
    exact: bool


@dataclass(frozen=True)
class McNemar:
    """Items by their outcomes under two conditions, and the exact and mid-p tests of gained = lost.

    `both`: right under both conditions; `gained`: only under treatment; `lost`: only under control; `neither`: under
    none. Both p values treat items as independent, so where items share a task they are descriptive.
    """

    both: int
    gained: int
    lost: int
    neither: int
    p_exact: float
    p_mid: float


@dataclass(frozen=True)
class CochranQ:
    """Cochran's Q over k strategies with its chi-square p (k - 1 df).

    `informative`: number of items on which the strategies differ; the others do not enter Q.
    """

    q: float
    p: float
    df: int
    informative: int


@dataclass(frozen=True)
class DifferentialFailure:
    """How often two conditions failed (gave no usable output) on the same items, and whether one failed more often.

    `rate_treated`, `rate_control`: shares of items in [0, 1]. `only_treated`, `only_control`: items where only that
    condition failed. `p_exact`: McNemar's exact p, which takes items as independent and so is too small where they
    share a task. `p_clustered`: sign flips of cluster totals, nan without clusters.
    """

    rate_treated: float
    rate_control: float
    only_treated: int
    only_control: int
    p_exact: float
    p_clustered: float


def smallest_p(units: int) -> float:
    """Least two-sided p that a sign-flip test over so many units can give: 2/2^m for m units, whatever the data.

    It is .016 for 7 units and .125 for 4; 1 for one unit and nan for none. Beyond 16 units signs are drawn at random,
    65,535 times, so that it is never below 2/65536.
    """
    return math.nan if units < 1 else min(1.0, 2.0 ** (1 - min(units, EXACT_UNITS)))


def sign_flip(differences: npt.ArrayLike, seed: int = 0) -> SignFlip:
    """Test the hypothesis that the differences of independent units are symmetric around zero, by their mean.

    Under that hypothesis every pattern of signs is equally likely (Fisher, "The Design of Experiments", 1935, section
    21); nothing else is assumed about the distribution. Up to 16 nonzero differences all patterns are enumerated (a
    zero is its own mirror image and changes no p); beyond, 65,535 patterns are drawn (see tomserve.stats.flips).

    differences: one number a unit [units]; missing ones (nan) are left out.
    seed: of the random patterns, 0 by default.

    p is 1 where all differences are zero, nan where there is none.

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
        patterns = np.arange(2 ** (moved.size - 1))  # the first sign is fixed: reversing all signs keeps |sum|
        signs = 1 - 2 * (patterns[:, None] >> np.arange(moved.size) & 1)
        sums, observed = np.abs(signs @ moved), abs(moved.sum())
        # a margin relative to the sum, so that ties with the observed pattern count in whatever order numbers are added
        p, exact = float(np.mean(sums >= observed - 1e-9 * np.abs(moved).sum())), True
    else:
        p, exact = flipped_p(moved, 2**EXACT_UNITS - 1, seed), False
    return SignFlip(float(d.mean()), p, smallest_p(d.size), int(d.size), int(moved.size), exact)


def mean_interval(differences: npt.ArrayLike, level: float = 0.95, fallback: Interval | None = None) -> Interval:
    """t interval of the mean difference for the population that the units are drawn from, cut to [-1, 1].

    It assumes independent units whose mean is about normal (scipy's `ttest_1samp`, m - 1 df for m units).

    differences: one difference of probabilities a unit [units]; missing ones (nan) are left out.
    level: of confidence, .95 by default.
    fallback: returned, with the mean as its estimate, where the t interval is undefined: with fewer than two units, or
        where all differences are equal and a width of zero would claim certainty. Without it the bounds are nan there.
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
    low, high, _ = t_interval(mean, float(d.std(ddof=1)) / math.sqrt(d.size), d.size - 1, level)
    return Interval(mean, max(-1.0, low), min(1.0, high), f"t, {d.size - 1} df")


def t_p(differences: npt.ArrayLike) -> float:
    """Two-sided p of a one-sample t test that the mean difference is zero; nan for fewer than two units or zero
    variance. Assumes independent units whose mean is about normal; missing (nan) differences are left out.
    """
    d = _known(differences)
    if d.size < 2 or not varies(d):
        return math.nan
    return t_interval(float(d.mean()), float(d.std(ddof=1)) / math.sqrt(d.size), d.size - 1)[2]


def varies(values: Floats) -> bool:
    """Whether the values, at least one, differ by more than rounding."""
    return bool(np.ptp(values) > 1e-12)


def mcnemar(treated: npt.ArrayLike, control: npt.ArrayLike) -> McNemar:
    """McNemar's exact and mid-p tests that two conditions are right equally often on the same items.

    The exact test is binomial on the items where the conditions differ (as statsmodels' `mcnemar(exact=True)`); mid-p =
    exact - P(b; b + c, 1/2), and where b = c it is 1 - P/2 (Fagerland, Lydersen and Laake, BMC Med Res Methodol 13:91,
    2013). Both assume independent items. Without items that differ both p are 1; without items they are nan.

    treated, control: 0/1 outcomes of the same items in the same order [items]; items with a nan in either are left out.

    Raises ValueError for columns of unequal length.
    """
    t, c = _pair(treated, control)
    both, gained = int(np.sum((t > 0) & (c > 0))), int(np.sum((t > 0) & (c == 0)))
    lost, neither = int(np.sum((t == 0) & (c > 0))), int(np.sum((t == 0) & (c == 0)))
    return mcnemar_of(both, gained, lost, neither)


def mcnemar_of(both: int, gained: int, lost: int, neither: int) -> McNemar:
    """The tests of `mcnemar` from the numbers of items by their outcomes."""
    if not both + gained + lost + neither:
        return McNemar(0, 0, 0, 0, math.nan, math.nan)
    if not gained + lost:
        return McNemar(both, 0, 0, neither, 1.0, 1.0)
    exact = min(1.0, 2 * binomial_cdf(min(gained, lost), gained + lost, 0.5))
    point = float(binomial_pmf(gained, gained + lost, 0.5))
    middle = 1 - point / 2 if gained == lost else exact - point
    return McNemar(both, gained, lost, neither, exact, middle)


def cochrans_q(outcomes: npt.ArrayLike) -> CochranQ:
    """Cochran's Q test that k strategies are right equally often on the same items (Biometrika 37:256, 1950;
    as statsmodels' `cochrans_q`).

    It assumes independent items and many of them, so within tasks it is descriptive, as McNemar's test is. Where no
    strategy ever differs from another, q is 0 and p is 1.

    outcomes: 0/1 table [items, strategies]; rows with a nan are left out.

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
    of_strategies, of_items, total = table.sum(axis=0), table.sum(axis=1), float(table.sum())
    spread = (df + 1) * float(of_strategies @ of_strategies) - total**2
    q = df * spread / ((df + 1) * total - float(of_items @ of_items))
    return CochranQ(q, chi2_tail(q, df), df, informative)


def adjust(p_values: Sequence[float], method: Literal["bh", "by", "holm"] = "bh") -> list[float]:
    """Adjusted p values of one family of tests, so that few of those called significant are false discoveries.

    "bh" is Benjamini and Hochberg's method (J R Stat Soc B 57:289, 1995): the expected share of false ones among the
    tests with an adjusted p of at most q is at most q, under independent or positively dependent tests. Tests of
    several classes against the same control tasks are about of this kind (the simulation in bench/coverage.py measures
    it). "by" is Benjamini and Yekutieli's (Annals of Statistics 29:1165, 2001), which holds under any dependence and
    multiplies every p by 1 + 1/2 + ... + 1/k for k tests. Both give what scipy's `false_discovery_control`
    gives. "holm" is Holm's method (Scand J Stat 6:65, 1979): under any dependence not one test is likely to be called
    so falsely.

    p_values: of the family [tests], each in [0, 1] or nan. method: "bh", the default, "by" or "holm".

    An undefined p (nan) stays nan and is not counted in the family. That is honest only because the tests of this
    package are undefined for want of units, never because of the outcomes: a hypothesis without data cannot be a false
    discovery. (All differences zero is a p of 1, and counts.) Raises ValueError for a p outside [0, 1].

        >>> adjust([0.01, 0.03, 0.5]), round(adjust([0.01, 0.03, 0.5], "by")[0], 3)
        ([0.03, 0.045, 0.5], 0.055)
    """
    p = np.asarray(p_values, dtype=float)
    known = ~np.isnan(p)
    if known.any():
        if not ((p[known] >= 0) & (p[known] <= 1)).all():
            raise ValueError(f"p values {p[known]}: expected numbers from 0 to 1")
        p = p.copy()
        p[known] = holm(p[known]) if method == "holm" else step_up(p[known], by=method == "by")
    return [float(value) for value in p]


def differential_failure(
    failed_treated: npt.ArrayLike, failed_control: npt.ArrayLike, cluster: npt.ArrayLike | None = None
) -> DifferentialFailure:
    """Test whether two conditions fail (give no usable output) equally often on the same items.

    failed_treated, failed_control: 1 = failed, 0 = did not, of the same items in the same order [items], none missing.
    cluster: cluster of each item [items]; where given, the sign-flip p of the clusters' differences is computed, too.
        It assumes independent clusters and is the p to believe; McNemar's exact p assumes independent items.

    Raises ValueError for columns of unequal length.
    """
    t, c = np.asarray(failed_treated, dtype=float), np.asarray(failed_control, dtype=float)
    test = mcnemar(t, c)
    clustered = math.nan
    if cluster is not None and t.size:
        _, index = np.unique(np.asarray(cluster), return_inverse=True)
        clustered = sign_flip(np.bincount(index, weights=t - c)).p
    n = test.both + test.gained + test.lost + test.neither
    rates = ((test.both + test.gained) / n, (test.both + test.lost) / n) if n else (math.nan, math.nan)
    return DifferentialFailure(*rates, test.gained, test.lost, test.p_exact, clustered)


def mean_difference(treated: Floats, control: Floats) -> float:
    """Mean of the treated outcomes less that of the control outcomes; nan where one of the columns is empty."""
    return float(treated.mean() - control.mean()) if treated.size and control.size else math.nan


def missing_bounds(
    treated: npt.ArrayLike,
    control: npt.ArrayLike,
    estimate: Callable[[Floats, Floats], float] = mean_difference,
) -> tuple[float, float]:
    """Least and greatest contrast that the missing outcomes allow, whatever they would have been (Manski, Am Econ Rev
    80:319, 1990).

    Least: every missing treated outcome is wrong and every missing control outcome right; greatest: the reverse. They
    are bounds of the estimate for these items and no confidence interval.

    treated, control: 0/1 outcomes, nan where missing, each [items of that arm].
    estimate: the contrast of two columns without gaps, in whose units the bounds are; it must rise with treated and
        fall with control outcomes, as any difference of means does (the default).

        >>> missing_bounds([1, 1, float("nan"), 0], [0, 0, 1, 0])
        (0.25, 0.5)
    """
    t, c = np.asarray(treated, dtype=float), np.asarray(control, dtype=float)
    low = estimate(np.where(np.isnan(t), 0.0, t), np.where(np.isnan(c), 1.0, c))
    high = estimate(np.where(np.isnan(t), 1.0, t), np.where(np.isnan(c), 0.0, c))
    return low, high


def _known(values: npt.ArrayLike) -> Floats:
    """The values that are not missing, as a flat array of floats."""
    array: Floats = np.asarray(values, dtype=float).ravel()
    known: Floats = array[~np.isnan(array)]
    return known


def _pair(treated: npt.ArrayLike, control: npt.ArrayLike) -> tuple[Floats, Floats]:
    """The outcomes of the items for which neither is missing. Raises ValueError for columns of unequal length."""
    t, c = np.asarray(treated, dtype=float), np.asarray(control, dtype=float)
    if t.shape != c.shape:
        raise ValueError(f"{t.size} and {c.size} outcomes: paired columns have equal length")
    known = ~(np.isnan(t) | np.isnan(c))
    return t[known], c[known]
