"""Confidence intervals of one proportion, and of the difference and the ratio of two. Each assumes independent units;
for answers about one story pass clusters, whose successes may be fractions, which scipy's do not take."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tomserve.stats.distributions import beta_quantile, find_root, normal_quantile, t_quantile


@dataclass(frozen=True)
class Interval:
    """An estimate with its bounds; nan where undefined. `method` says in words how they were computed, for tables."""

    estimate: float
    low: float
    high: float
    method: str

    @property
    def bounds(self) -> tuple[float, float]:
        """Both bounds."""
        return self.low, self.high


UNDEFINED = (math.nan, math.nan, math.nan)  # Estimate, low and high of an interval that cannot be given
ROUNDING = 1e-9  # By so much may counts miss their limits, because fractions of counts are sums of rounded numbers


def wilson(successes: float, n: float, level: float = 0.95) -> Interval:
    """Wilson's score interval of a share (JASA 22:209, 1927); nan where n is 0. Raises ValueError unless 0 <= successes
    <= n.

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
    """Clopper and Pearson's interval of a share (Biometrika 26:404, 1934), which never covers less often than it says;
    errors as for `wilson`.

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
    """Newcombe's interval of s1/n1 - s0/n0 of two independent shares from their Wilson intervals (Stat Med 17:873,
    1998, method 10); nan where an arm has no units. Raises ValueError unless 0 <= s <= n in both.

    >>> interval = newcombe(56, 70, 48, 80)  # table II of that paper
    >>> round(interval.low, 4), round(interval.high, 4)
    (0.0524, 0.3339)
    """
    s1, s0 = _valid(s1, n1), _valid(s0, n0)
    if n1 == 0 or n0 == 0:
        return Interval(*UNDEFINED, method="undefined: an arm has no units")
    low, high = square_and_add(wilson(s1, n1, level), wilson(s0, n0, level))
    return Interval(s1 / n1 - s0 / n0, low, high, f"Newcombe, n = {n1:g} and {n0:g}")


def tango(gained: float, lost: float, n: float, level: float = 0.95) -> Interval:
    """Tango's score interval of (gained - lost) / n over n independent pairs (Stat Med 17:891, 1998); nan where n is 0.
    Raises ValueError where counts are negative or gained + lost exceeds n."""
    score = _tango_score(gained, lost, n)
    if n == 0:
        return Interval(*UNDEFINED, method="undefined: no pairs")
    estimate, z = (gained - lost) / n, _z(level)
    low = find_root(lambda delta: z - score(delta), -1.0, estimate)
    high = find_root(lambda delta: -z - score(delta), estimate, 1.0)
    return Interval(estimate, low, high, f"Tango, n = {n:g} pairs")


def tango_excludes_zero(gained: float, lost: float, n: float, level: float = 0.95) -> bool:
    """Whether the interval of `tango` excludes 0, without a search for its ends: there the score is McNemar's."""
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
    """The variance of a pair's difference in Tango's statistic, if the true difference is delta; n above 0.

    >>> tango_variance(5, 5, 100, 0.0), round(tango_variance(5, 5, 100, -0.1), 3)
    (0.1, 0.147)
    """
    b = -gained - lost + (2 * n - gained + lost) * delta
    c = -lost * delta * (1 - delta)
    q = (math.sqrt(max(b * b - 8 * n * c, 0.0)) - b) / (4 * n)
    return 2 * q + delta * (1 - delta)


def square_and_add(treated: Interval, control: Interval, correlation: float = 0.0) -> tuple[float, float]:
    """Bounds in [-1, 1] of treated - control from the intervals of both and their correlation: MOVER (Zou and Donner,
    Stat Med 27:1693, 2008), Newcombe's square-and-add for any intervals."""
    down1, up1 = treated.estimate - treated.low, treated.high - treated.estimate
    down0, up0 = control.estimate - control.low, control.high - control.estimate
    estimate = treated.estimate - control.estimate
    low = estimate - math.sqrt(max(down1**2 - 2 * correlation * down1 * up0 + up0**2, 0.0))
    high = estimate + math.sqrt(max(up1**2 - 2 * correlation * up1 * down0 + down0**2, 0.0))
    return max(-1.0, low), min(1.0, high)


def _valid(successes: float, n: float) -> float:
    """The successes, moved into [0, n] where rounding has moved them out."""
    if not -ROUNDING <= successes <= n + ROUNDING:
        raise ValueError(f"successes {successes} of {n}: expected 0 <= successes <= n")
    return min(max(successes, 0.0), n)


def _z(level: float) -> float:
    """The normal quantile of a two-sided interval of this level, 1.96 for .95."""
    return normal_quantile(0.5 + level / 2)


Floats = npt.NDArray[np.float64]
# Coefficients (a, b, k) of a r^2 + b r + k, which is at most zero for the ratios r that a test does not reject.
Quadratic = tuple[float, float, float]


def inverted_ratio(t: npt.ArrayLike, c: npt.ArrayLike, level: float = 0.95) -> Interval:
    """Ratio of the arms' mean shares over further units: all r for which the t test of t - r c over the units does not
    reject (`fieller`), so that it holds 1 exactly when the t interval of mean(t - c) holds 0.

    t, c: the units' means, in [0, 1] [units]. nan bounds with fewer than two units, without variance, or where both
    arms are all wrong. Raises ValueError for columns of unequal length."""
    t, c = np.asarray(t, dtype=float), np.asarray(c, dtype=float)
    if t.shape != c.shape:
        raise ValueError(f"{t.size} and {c.size} units: paired columns have equal length")
    m = t.size
    if m < 2 or (np.ptp(t - c) < 1e-12):
        none = not m or not (t.any() or c.any())
        estimate = math.nan if none else float(t.mean() / c.mean()) if c.any() else math.inf
        return Interval(estimate, math.nan, math.nan, "undefined: fewer than two units, or no variance")
    covariance = np.cov(t, c) / m
    return fieller(float(t.mean()), float(c.mean()), covariance, t_quantile(0.5 + level / 2, m - 1), m - 1)


def fieller(t: float, c: float, covariance: npt.ArrayLike, quantile: float, df: int) -> Interval:
    """Ratio t / c of two estimates of at least zero by Fieller's method (J R Stat Soc B 16:175, 1954). covariance: [2,
    2]. quantile: of t with df. Of a set in two parts the one with the estimate, or, where 1 lies in the other,
    everything; without an upper end where the control is not significantly above zero; `ratio_from_difference` without
    variance."""
    (vt, cov), (_, vc) = np.asarray(covariance, dtype=float)
    q2, error = quantile**2, math.sqrt(max(0.0, vt - 2 * cov + vc))
    if t <= 0 or c <= 0 or vt - 2 * cov * t / c + vc * (t / c) ** 2 < 1e-15:
        return ratio_from_difference(t, c, t - c - quantile * error, t - c + quantile * error)
    curve = (c * c - q2 * vc, -2 * (t * c - q2 * cov), t * t - q2 * vt)
    return _invert_curves(t / c, curve, curve, f"ratio by inverting the test of the difference, t {df} df")


def mover_ratio(treated: Interval, control: Interval, correlation: float = 0.0) -> Interval:
    """Ratio of two shares from their intervals and correlation (Donner and Zou, Stat Methods Med Res 21:347, 2012): r
    is held if the `square_and_add` interval of treated - r control holds zero. nan where both are zero."""
    t, c, r = treated.estimate, control.estimate, correlation
    if not (t > 0 or c > 0):
        return Interval(*UNDEFINED, method="undefined: none right in both arms")
    down1, up1, down0, up0 = t - treated.low, treated.high - t, c - control.low, control.high - c
    lower = (c * c - up0**2, -2 * (t * c - r * down1 * up0), t * t - down1**2)
    upper = (c * c - down0**2, -2 * (t * c - r * up1 * down0), t * t - up1**2)
    return _invert_curves(t / c if c > 0 else math.inf, lower, upper, "ratio by square-and-add")


def ratio_from_difference(t: float, c: float, low: float, high: float) -> Interval:
    """Ratio t / c from the bounds of t - c, as if the control share were known, or, where that is zero, the treated
    one; it holds 1 exactly when they hold 0. nan where both are zero."""
    method = "ratio from the bounds of the difference"
    t = max(t, 0.0)
    if c > 0:
        return Interval(t / c, max(0.0, min(1 + low / c, t / c)), max(1 + high / c, t / c), method)
    if t > 0:
        return Interval(math.inf, t / (t - low) if low < t else math.inf, math.inf, method + "; control none right")
    return Interval(*UNDEFINED, method="undefined: none right in both arms")


def logit_bounds(share: float, half: float) -> tuple[float, float]:
    """Bounds of a share above 0 and below 1 from the half width of its interval, by the delta method on the logit
    scale, on which they stay between 0 and 1."""
    middle, spread = math.log(share / (1 - share)), half / (share * (1 - share))
    low, high = (1 / (1 + math.exp(-x)) if x > -700 else 0.0 for x in (middle - spread, middle + spread))
    return low, high


def hull(one: Interval, other: Interval) -> Interval:
    """The estimate of the first with the smallest interval that holds both."""
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
    """Where the ratios from start towards stop begin to be rejected; stop where none is."""
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


def correct_detections(found: Interval, recall: Interval, alarms: Interval) -> tuple[float, float, float]:
    """The share that a test with errors is true of, with an interval, from how often it says so (found), of those it is
    true of (recall) and of those it is not (alarms): (found - alarms) / (recall - alarms), Rogan and Gladen, American
    Journal of Epidemiology 107:71, 1978. Its ends are those that the ends of all three allow, which is more than their
    level; 0 and 1 where recall may be no more than false alarms. nan where anything is undefined.

    >>> tuple(round(end, 2) for end in correct_detections(wilson(30, 60), wilson(36, 40), wilson(5, 100)))
    (0.53, 0.31, 0.8)
    """
    if any(math.isnan(one.estimate) for one in (found, recall, alarms)):
        return math.nan, math.nan, math.nan

    def share(said: float, hit: float, false: float, blind: float) -> float:
        return min(1.0, max(0.0, (said - false) / (hit - false))) if hit > false else blind

    return (
        share(found.estimate, recall.estimate, alarms.estimate, math.nan),
        share(found.low, recall.high, alarms.high, 0.0) if recall.low > alarms.high else 0.0,
        share(found.high, recall.low, alarms.low, 1.0) if recall.low > alarms.high else 1.0,
    )
