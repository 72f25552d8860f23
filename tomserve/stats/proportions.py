"""Confidence intervals of one proportion, and of the difference and the ratio of two, independent or paired.

Each assumes that its n units are independent. Answers about one story are not; for them pass n = number of clusters and
successes = their mean share times n, which may be fractions. That is conservative: it treats all answers of a cluster
as if they were equal. statsmodels has Wilson's interval and Newcombe's unpaired one; its ratio is wrong where an arm is
all right or all wrong (see `risk_ratio`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tomserve.stats.distributions import beta_quantile, find_root, normal_quantile, t_quantile


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence bounds on the estimate's own scale; nan where undefined.

    `method` says in words how the bounds were computed and from how many units; tables print it.
    """

    estimate: float
    low: float
    high: float
    method: str


UNDEFINED = (math.nan, math.nan, math.nan)
"""Estimate, low and high of an interval that cannot be given."""
ROUNDING = 1e-9
"""By so much may counts miss their limits, because fractions of counts are sums of rounded numbers."""


def wilson(successes: float, n: float, level: float = 0.95) -> Interval:
    """Wilson's score interval of a share (JASA 22:209, 1927), for n independent units with the same chance of success.

    successes: number of successes, a fraction where units are clusters; n: number of units; level: of confidence.

    The interval is nan where n is 0. Raises ValueError unless 0 <= successes <= n.

        >>> interval = wilson(7, 7)
        >>> round(interval.low, 3), interval.high
        (0.646, 1.0)
    """
    successes = _valid(successes, n)
    if n == 0:
        return Interval(*UNDEFINED, method="undefined: no units")
    share, square = successes / n, _z(level) ** 2
    middle = share + square / (2 * n)
    half = math.sqrt(square * (share * (1 - share) / n + square / (4 * n**2)))
    # the bound of a share of 0 or 1 is exactly 0 or 1, which rounding would miss
    low = 0.0 if successes == 0 else max(0.0, (middle - half) / (1 + square / n))
    high = 1.0 if successes == n else min(1.0, (middle + half) / (1 + square / n))
    return Interval(share, low, high, f"Wilson, n = {n:g}")


def exact(successes: float, n: float, level: float = 0.95) -> Interval:
    """Clopper and Pearson's interval of a share, for n independent units (Biometrika 26:404, 1934).

    It never covers less often than it says, so it suits rare events, where approximate intervals fail; it is wider than
    `wilson`. Parameters as there. The interval is nan where n is 0. Raises ValueError unless 0 <= successes <= n.

        >>> interval = exact(2, 43)
        >>> round(interval.low, 3), round(interval.high, 3)
        (0.006, 0.158)
    """
    successes = _valid(successes, n)
    if n == 0:
        return Interval(*UNDEFINED, method="undefined: no units")
    tail = (1 - level) / 2
    low = beta_quantile(tail, successes, n - successes + 1) if successes > 0 else 0.0
    high = beta_quantile(1 - tail, successes + 1, n - successes) if successes < n else 1.0
    return Interval(successes / n, low, high, f"Clopper-Pearson, n = {n:g}")


def newcombe(s1: float, n1: float, s0: float, n0: float, level: float = 0.95) -> Interval:
    """Newcombe's interval of the difference s1/n1 - s0/n0 of two independent shares (Stat Med 17:873, 1998, method 10).

    It combines the Wilson intervals of both shares. Published checks, table II of that paper: 56/70 - 48/80 is .0524 to
    .3339, 9/10 - 3/10 is .1705 to .8090 (figures as in the tests of the R package propint).

    s1, n1: successes and independent units of the treated arm, fractions allowed.
    s0, n0: the same of the control arm.
    level: of confidence, .95 by default.

    The interval is nan where an arm has no units. Raises ValueError unless 0 <= s <= n in both arms.

        >>> interval = newcombe(56, 70, 48, 80)
        >>> round(interval.low, 4), round(interval.high, 4)
        (0.0524, 0.3339)
    """
    s1, s0 = _valid(s1, n1), _valid(s0, n0)
    if n1 == 0 or n0 == 0:
        return Interval(*UNDEFINED, method="undefined: an arm has no units")
    low, high = square_and_add(wilson(s1, n1, level), wilson(s0, n0, level))
    return Interval(s1 / n1 - s0 / n0, low, high, f"Newcombe, n = {n1:g} and {n0:g}")


def risk_ratio(s1: float, n1: float, s0: float, n0: float, level: float = 0.95) -> Interval:
    """Score interval of the ratio (s1/n1) / (s0/n0) of two independent shares: Miettinen and Nurminen, Stat Med 4:213
    (1985).

    s1, n1: successes and independent units of the treated arm, fractions allowed.
    s0, n0: the same of the control arm.
    level: of confidence, .95 by default.

    Zeros never raise: s1 = 0 gives 0 [0, high], s0 = 0 gives inf [low, inf], and both together give nan (a table shows
    "0 of n"). Raises ValueError unless 0 <= s <= n in both arms.

    The statistic is that of statsmodels' `confint_proportions_2indep(compare="ratio", method="score")`, which agrees
    except where an arm is all right or all wrong: its closed form returns [1.400, 6.565] for 7/7 : 3/7 and [1.000,
    1.591] for 7/7 : 7/7 (statsmodels 0.15.0), where the statistic is within its limits down to 1.175 and 0.629. So the
    statistic is inverted here by root finding.
    """
    s1, s0 = _valid(s1, n1), _valid(s0, n0)
    if n1 == 0 or n0 == 0:
        return Interval(*UNDEFINED, method="undefined: an arm has no units")
    if s1 == 0 and s0 == 0:
        return Interval(*UNDEFINED, method=f"undefined: 0 of {n1:g} and 0 of {n0:g}")
    z, p1, p0, total = _z(level), s1 / n1, s0 / n0, n1 + n0

    def score(log_ratio: float) -> float:
        ratio = math.exp(log_ratio)
        a, b, c = total * ratio, -(n1 * ratio + s1 + n0 + s0 * ratio), s1 + s0
        # the control share under this ratio, the smaller root of a quadratic, in the form without cancellation
        q0 = 2 * c / (-b + math.sqrt(max(b * b - 4 * a * c, 0.0)))
        q1 = min(ratio * q0, 1.0)
        variance = (q1 * (1 - q1) / n1 + ratio**2 * q0 * (1 - q0) / n0) * total / (total - 1)
        gap = p1 - ratio * p0
        if abs(gap) < 1e-15:
            return 0.0
        return gap / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, gap)

    middle = math.log(p1 / p0) if s1 and s0 else 0.0
    low = math.exp(find_root(lambda log: z - score(log), -WIDEST, WIDEST)) if s1 else 0.0
    high = math.exp(find_root(lambda log: -z - score(log), -WIDEST, WIDEST)) if s0 else math.inf
    method = f"score interval of a ratio, n = {n1:g} and {n0:g}"
    if not (s1 and s0):
        method += "; 0 of " + (f"{n0:g}" if s1 else f"{n1:g}")
        return Interval(math.inf if s1 else 0.0, low, high, method)
    return Interval(math.exp(middle), low, high, method)


def tango(gained: float, lost: float, n: float, level: float = 0.95) -> Interval:
    """Tango's score interval of the difference (gained - lost) / n of two shares over n pairs: Stat Med 17:891 (1998).

    It assumes independent pairs, so pass clusters as pairs or call it descriptive. Published checks: Fagerland,
    Lydersen and Laake, "Statistical analysis of contingency tables" (2017), chapter 8, Cavo et al. (59, 6, 16, 80):
    -.1240 to -.0054 (figures as in the tests of the authors' R package contingencytables). Quoted from memory and met
    to every digit: the same authors, Stat Med 33:2850 (2014), airway hyper-responsiveness (1, 1, 7, 12): -.517 to
    -.026; Tango's contact lenses, 0 and 1 of 44, 90 %: -.096 to .037.

    gained: pairs with success under treatment only.
    lost: pairs with success under control only.
    n: number of all pairs, those that agree included.
    level: of confidence, .95 by default.

    The interval is nan where n is 0. Raises ValueError where counts are negative or gained + lost exceeds n.
    """
    score = _tango_score(gained, lost, n)
    if n == 0:
        return Interval(*UNDEFINED, method="undefined: no pairs")
    estimate, z = (gained - lost) / n, _z(level)
    low = find_root(lambda delta: z - score(delta), -1.0, estimate)
    high = find_root(lambda delta: -z - score(delta), estimate, 1.0)
    return Interval(estimate, low, high, f"Tango, n = {n:g} pairs")


def tango_excludes_zero(gained: float, lost: float, n: float, level: float = 0.95) -> bool:
    """Whether the interval of `tango` lies wholly above or below 0, without a search for its ends.

    Parameters and errors as there. At 0 the score is McNemar's statistic, and the interval holds what it does not
    reject.
    """
    return n > 0 and abs(_tango_score(gained, lost, n)(0.0)) > _z(level)


def _tango_score(gained: float, lost: float, n: float) -> Callable[[float], float]:
    """Tango's statistic of a difference. Raises ValueError as `tango` does."""
    if min(gained, lost) < 0 or gained + lost > n + ROUNDING:
        raise ValueError(f"gained {gained}, lost {lost} of {n} pairs: expected 0 <= gained + lost <= n")

    def score(delta: float) -> float:
        variance = n * tango_variance(gained, lost, n, delta)
        gap = gained - lost - n * delta
        if abs(gap) < 1e-12:
            return 0.0
        return gap / math.sqrt(variance) if variance > 1e-15 else math.copysign(math.inf, gap)

    return score


def tango_variance(gained: float, lost: float, n: float, delta: float) -> float:
    """The variance of a pair's difference in Tango's statistic, if the true difference is delta; other parameters as
    for `tango`, n above 0. It is above that of the pairs at hand where these lie far from delta.

        >>> tango_variance(5, 5, 100, 0.0), round(tango_variance(5, 5, 100, -0.1), 3)
        (0.1, 0.147)
    """
    b = -gained - lost + (2 * n - gained + lost) * delta
    c = -lost * delta * (1 - delta)
    q = (math.sqrt(max(b * b - 8 * n * c, 0.0)) - b) / (4 * n)
    return 2 * q + delta * (1 - delta)


def square_and_add(treated: Interval, control: Interval, correlation: float = 0.0) -> tuple[float, float]:
    """Bounds (low, high) in [-1, 1] of treated - control, from the intervals of both and their estimates' correlation.

    Newcombe's square-and-add for any two intervals, known as MOVER: Zou and Donner, Stat Med 27:1693 (2008). It covers
    as well as the two intervals do, and assumes that the correlation is known.
    """
    down1, up1 = treated.estimate - treated.low, treated.high - treated.estimate
    down0, up0 = control.estimate - control.low, control.high - control.estimate
    estimate = treated.estimate - control.estimate
    low = estimate - math.sqrt(max(down1**2 - 2 * correlation * down1 * up0 + up0**2, 0.0))
    high = estimate + math.sqrt(max(up1**2 - 2 * correlation * up1 * down0 + down0**2, 0.0))
    return max(-1.0, low), min(1.0, high)


WIDEST = 40.0
"""The search for a ratio ends at this logarithm; no count of tasks could tell e^40 from an unbounded ratio."""


def _valid(successes: float, n: float) -> float:
    """The successes, moved into [0, n] where rounding has moved them out. Raises ValueError where they are out of it by
    more.
    """
    if not -ROUNDING <= successes <= n + ROUNDING:
        raise ValueError(f"successes {successes} of {n}: expected 0 <= successes <= n")
    return min(max(successes, 0.0), n)


def _z(level: float) -> float:
    """The normal quantile of a two-sided interval of this level, 1.96 for .95."""
    return normal_quantile(0.5 + level / 2)


Floats = npt.NDArray[np.float64]
Quadratic = tuple[float, float, float]
"""Coefficients (a, b, k) of a r^2 + b r + k, which is at most zero for the ratios r that a test does not reject."""


def inverted_ratio(t: npt.ArrayLike, c: npt.ArrayLike, level: float = 0.95) -> Interval:
    """Ratio of the mean shares of both arms: all ratios r for which the t test of t - r c over the units does not
    reject.

    A ratio's interval that treats the arms as independent is about twice as wide as it need be, and then holds 1 beside
    a difference whose interval excludes 0.

    Fieller's interval (J R Stat Soc B 16:175, 1954) with the arms paired by unit and units - 1 df. The population is
    further units; it assumes, as the t test of the difference does, independent units whose mean of t - r c is about
    normal. It holds 1 exactly when the t interval of mean(t - c) holds 0. Where the control mean is not clearly above
    zero the interval has no upper end, and `method` says so. Where an arm is all wrong, or t is r c in every unit, that
    test has no variance, and the interval is `ratio_from_difference`.

    t, c: the units' mean outcomes in the treated and the control arm, each in [0, 1] [units].
    level: of confidence, .95 by default.

    The bounds are nan with fewer than two units, without any variance, or where both arms are all wrong. Raises
    ValueError for columns of unequal length.
    """
    t, c = _columns(t, c)
    m = t.size
    if m < 2 or (np.ptp(t - c) < 1e-12):
        return Interval(_estimate(t, c), math.nan, math.nan, "undefined: fewer than two units, or no variance")
    covariance = np.cov(t, c) / m
    return fieller(float(t.mean()), float(c.mean()), covariance, t_quantile(0.5 + level / 2, m - 1), m - 1)


def fieller(t: float, c: float, covariance: npt.ArrayLike, quantile: float, df: int) -> Interval:
    """Ratio t / c of two estimates by Fieller's method (J R Stat Soc B 16:175, 1954), for ratios of at least zero.

    The interval holds the ratios r with |t - r c| <= quantile x SE(t - r c). t, c: shares of at least zero. covariance:
    of the two estimates [2, 2], in the order t, c. quantile: of the t distribution with `df` degrees of freedom.

    Where the set consists of two parts (the control share is not clearly above zero), the part that holds the estimate
    is given, or, where 1 lies in the other part, everything. Where a variance is lacking see `ratio_from_difference`.
    nan where both shares are zero.
    """
    (vt, cov), (_, vc) = np.asarray(covariance, dtype=float)
    q2, error = quantile**2, math.sqrt(max(0.0, vt - 2 * cov + vc))
    if t <= 0 or c <= 0 or vt - 2 * cov * t / c + vc * (t / c) ** 2 < 1e-15:
        return ratio_from_difference(t, c, t - c - quantile * error, t - c + quantile * error)
    curve = (c * c - q2 * vc, -2 * (t * c - q2 * cov), t * t - q2 * vt)
    return _invert_curves(t / c, curve, curve, f"ratio by inverting the test of the difference, t {df} df")


def mover_ratio(treated: Interval, control: Interval, correlation: float = 0.0) -> Interval:
    """Ratio of two shares from their intervals and their estimates' correlation; agrees with `square_and_add`.

    The method of variance estimates recovery for ratios (Donner and Zou, Stat Methods Med Res 21:347, 2012): a ratio r
    is in the interval if the square-and-add interval of treated - r x control holds zero. It covers as well as the two
    intervals do, and assumes that the correlation is known. nan where both shares are zero.
    """
    t, c, r = treated.estimate, control.estimate, correlation
    if not (t > 0 or c > 0):
        return Interval(*UNDEFINED, method="undefined: none right in both arms")
    down1, up1, down0, up0 = t - treated.low, treated.high - t, c - control.low, control.high - c
    lower = (c * c - up0**2, -2 * (t * c - r * down1 * up0), t * t - down1**2)
    upper = (c * c - down0**2, -2 * (t * c - r * up1 * down0), t * t - up1**2)
    return _invert_curves(t / c if c > 0 else math.inf, lower, upper, "ratio by square-and-add")


def ratio_from_difference(t: float, c: float, low: float, high: float) -> Interval:
    """Ratio t / c from the bounds of t - c, as if the control share were known; where it has no variance of its own.

    It is 1 + low / c to 1 + high / c, cut at 0, as is a treated share that a linear model puts below it. With a control
    share of zero the treated share is taken as known: t / (t - low) to infinity. It holds 1 exactly when the
    difference's interval holds 0. nan where both shares are zero.
    """
    method = "ratio from the bounds of the difference"
    t = max(t, 0.0)
    if c > 0:
        return Interval(t / c, max(0.0, min(1 + low / c, t / c)), max(1 + high / c, t / c), method)
    if t > 0:
        return Interval(math.inf, t / (t - low) if low < t else math.inf, math.inf, method + "; control none right")
    return Interval(*UNDEFINED, method="undefined: none right in both arms")


def hull(one: Interval, other: Interval) -> Interval:
    """The estimate of the first with the smallest interval that holds both, which excludes what both exclude."""
    low, high = min(one.low, other.low), max(one.high, other.high)
    return Interval(one.estimate, low, high, f"{one.method}, widened to {other.method}")


def _invert_curves(estimate: float, lower: Quadratic, upper: Quadratic, method: str) -> Interval:
    """The interval around the estimate within which the curves (one below, one above it) are not above zero."""
    low, high = _end(lower, estimate, 0.0), _end(upper, estimate, math.inf)
    if low == 0 and math.isinf(high):
        method += "; no ratio is excluded"
    elif math.isinf(high):
        method += "; without an upper end"
    return Interval(estimate, low, high, method)


def _end(curve: Quadratic, start: float, stop: float) -> float:
    """Where the ratios from start towards stop begin to be rejected; stop where none is.

    A ratio of 1 that is not rejected is never left outside, even where some ratios on the way to it are.
    """
    if start == stop:
        return stop
    down = stop < start
    roots = [r for r in _roots(curve) if (stop < r <= start if down else start <= r < stop)]
    roots.sort(reverse=down)
    one_ahead = stop < 1 < start if down else start < 1 < stop
    if one_ahead and sum(curve) <= 0:
        roots = [r for r in roots if (r <= 1 if down else r >= 1)]
    return roots[0] if roots else stop


def _roots(curve: Quadratic) -> list[float]:
    """The real roots of a r^2 + b r + k, in the form without cancellation; none where it never changes its sign."""
    a, b, k = curve
    square = b * b - 4 * a * k
    if square < 0:
        return []
    half = -(b + math.copysign(math.sqrt(square), b)) / 2
    return [top / bottom for top, bottom in ((half, a), (k, half)) if abs(bottom) > 1e-300]


def _estimate(t: Floats, c: Floats) -> float:
    """The ratio of the means; infinite where only the control mean is zero, nan where both are or there is no unit."""
    if not t.size or not (t.any() or c.any()):
        return math.nan
    return float(t.mean() / c.mean()) if c.any() else math.inf


def _columns(t: npt.ArrayLike, c: npt.ArrayLike) -> tuple[Floats, Floats]:
    """The columns as arrays. Raises ValueError where their lengths differ."""
    t, c = np.asarray(t, dtype=float), np.asarray(c, dtype=float)
    if t.shape != c.shape:
        raise ValueError(f"{t.size} and {c.size} units: paired columns have equal length")
    return t, c
