"""Score intervals of one proportion, and of the difference and ratio of two, independent or paired.

Counts may be fractions: for clustered answers pass n = number of clusters and successes = their mean share times n,
which is conservative (as if all answers of a cluster were equal). statsmodels has Wilson and Newcombe's unpaired
interval; the paired ones it lacks, and its ratio is wrong where an arm is all right or all wrong (see `risk_ratio`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence bounds, on the estimate's own scale; nan where undefined."""

    estimate: float
    low: float
    high: float
    method: str


UNDEFINED = (math.nan, math.nan, math.nan)
ROUNDING = 1e-9


def wilson(successes: float, n: float, level: float = 0.95) -> Interval:
    """Wilson's interval of a share; n = number of independent units (tasks). nan where n is 0.

    Raises ValueError unless 0 <= successes <= n.

        >>> found = wilson(7, 7)
        >>> round(found.low, 3), found.high
        (0.646, 1.0)
    """
    successes = _valid(successes, n)
    if n == 0:
        return Interval(*UNDEFINED, method="undefined: no units")
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(successes, n, alpha=1 - level, method="wilson")
    # a share of exactly 0 or 1 has that bound exactly, which statsmodels misses by rounding
    low = 0.0 if successes == 0 else max(0.0, float(low))
    high = 1.0 if successes == n else min(1.0, float(high))
    return Interval(successes / n, low, high, f"Wilson, n = {n:g}")


def exact(successes: float, n: float, level: float = 0.95) -> Interval:
    """Clopper and Pearson's interval of a share, which never covers less than it says: Biometrika 26:404 (1934).

    For rare events, where the approximate ones fail. nan where n is 0. Raises ValueError unless 0 <= successes <= n.

        >>> found = exact(2, 43)
        >>> round(found.low, 3), round(found.high, 3)
        (0.006, 0.158)
    """
    successes = _valid(successes, n)
    if n == 0:
        return Interval(*UNDEFINED, method="undefined: no units")
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(successes, n, alpha=1 - level, method="beta")
    return Interval(successes / n, float(low), float(high), f"Clopper-Pearson, n = {n:g}")


def newcombe(s1: float, n1: float, s0: float, n0: float, level: float = 0.95) -> Interval:
    """Newcombe's interval (1998, method 10 for unpaired data) of s1/n1 - s0/n0; nan where an arm is empty.

    Published checks: Newcombe, Stat Med 17:873 (1998), table II, method 10: 56/70 - 48/80 is .0524 to .3339,
    9/10 - 3/10 is .1705 to .8090 (figures as in the tests of the R package propint).
    Raises ValueError unless 0 <= s <= n in both arms.

        >>> found = newcombe(56, 70, 48, 80)
        >>> round(found.low, 4), round(found.high, 4)
        (0.0524, 0.3339)
    """
    s1, s0 = _valid(s1, n1), _valid(s0, n0)
    if n1 == 0 or n0 == 0:
        return Interval(*UNDEFINED, method="undefined: an arm has no units")
    from statsmodels.stats.proportion import confint_proportions_2indep

    low, high = confint_proportions_2indep(s1, n1, s0, n0, method="newcomb", compare="diff", alpha=1 - level)
    low, high = max(-1.0, float(low)), min(1.0, float(high))
    return Interval(s1 / n1 - s0 / n0, low, high, f"Newcombe, n = {n1:g} and {n0:g}")


def risk_ratio(s1: float, n1: float, s0: float, n0: float, level: float = 0.95) -> Interval:
    """Score interval of (s1/n1) / (s0/n0): Miettinen and Nurminen, Stat Med 4:213 (1985).

    Zeros never raise: s1 = 0 gives 0 [0, high]; s0 = 0 gives inf [low, inf]; both give nan ("0 of n" in a table).
    Same statistic as statsmodels' `confint_proportions_2indep(compare="ratio", method="score")`, which agrees inside;
    but its closed form returns [1.400, 6.565] for 7/7 : 3/7 and [1.000, 1.591] for 7/7 : 7/7 (statsmodels 0.15.0),
    where the statistic is within its limits down to 1.175 and 0.629. So it is inverted here by root finding.
    Raises ValueError unless 0 <= s <= n in both arms.
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
        # the smaller root of the restricted likelihood, in the form that does not cancel
        q0 = 2 * c / (-b + math.sqrt(max(b * b - 4 * a * c, 0.0)))
        q1 = min(ratio * q0, 1.0)
        variance = (q1 * (1 - q1) / n1 + ratio**2 * q0 * (1 - q0) / n0) * total / (total - 1)
        gap = p1 - ratio * p0
        if abs(gap) < 1e-15:
            return 0.0
        return gap / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, gap)

    middle = math.log(p1 / p0) if s1 and s0 else 0.0
    low = math.exp(_crossing(score, z, -WIDEST, WIDEST)) if s1 else 0.0
    high = math.exp(_crossing(score, -z, -WIDEST, WIDEST)) if s0 else math.inf
    method = f"score interval of a ratio, n = {n1:g} and {n0:g}"
    if not (s1 and s0):
        method += "; 0 of " + (f"{n0:g}" if s1 else f"{n1:g}")
        return Interval(math.inf if s1 else 0.0, low, high, method)
    return Interval(math.exp(middle), low, high, method)


def tango(gained: float, lost: float, n: float, level: float = 0.95) -> Interval:
    """Tango's score interval of (gained - lost) / n over n pairs: Stat Med 17:891 (1998).

    Published checks: Fagerland, Lydersen and Laake, "Statistical analysis of contingency tables" (2017), chapter 8,
    Cavo et al. (59, 6, 16, 80): -.1240 to -.0054 (figures as in the tests of the authors' R package contingencytables).
    Quoted from memory and met to every digit: the same authors, Stat Med 33:2850 (2014), airway hyper-responsiveness
    (1, 1, 7, 12): -.517 to -.026; Tango's contact lenses, 0 and 1 of 44, 90 %: -.096 to .037. nan where n is 0.
    Raises ValueError where counts are negative or gained + lost exceeds n.
    """
    if min(gained, lost) < 0 or gained + lost > n + ROUNDING:
        raise ValueError(f"gained {gained}, lost {lost} of {n} pairs: expected 0 <= gained + lost <= n")
    if n == 0:
        return Interval(*UNDEFINED, method="undefined: no pairs")

    def score(delta: float) -> float:
        b = -gained - lost + (2 * n - gained + lost) * delta
        c = -lost * delta * (1 - delta)
        q = (math.sqrt(max(b * b - 8 * n * c, 0.0)) - b) / (4 * n)
        variance = n * (2 * q + delta * (1 - delta))
        gap = gained - lost - n * delta
        if abs(gap) < 1e-12:
            return 0.0
        return gap / math.sqrt(variance) if variance > 1e-15 else math.copysign(math.inf, gap)

    estimate, z = (gained - lost) / n, _z(level)
    low = _crossing(score, z, -1.0, estimate)
    high = _crossing(score, -z, estimate, 1.0)
    return Interval(estimate, low, high, f"Tango, n = {n:g} pairs")


def newcombe_paired(both: float, gained: float, lost: float, neither: float, level: float = 0.95) -> Interval:
    """Newcombe's square-and-add interval of (gained - lost) / n: Stat Med 17:2635 (1998), method 10.

    Wilson's intervals of the two shares, combined with their correlation phi, continuity-corrected where positive.
    Published checks: the Cavo table of `tango`: -.1186 to -.0046 (same tests). Quoted from memory and met to every
    digit: table II of the paper, (36, 12, 2, 0): .0569 to .3404; Altman, "Statistics with confidence" (2000), p. 52,
    (14, 5, 0, 22): .011 to .226. nan where there is no pair. Raises ValueError for negative counts.
    """
    if min(both, gained, lost, neither) < 0:
        raise ValueError("counts of pairs cannot be negative")
    n = both + gained + lost + neither
    if n == 0:
        return Interval(*UNDEFINED, method="undefined: no pairs")
    treated, control = wilson(both + gained, n, level), wilson(both + lost, n, level)
    product = (both + gained) * (lost + neither) * (both + lost) * (gained + neither)
    agreement = both * neither - gained * lost
    agreement = max(agreement - n / 2, 0.0) if agreement > 0 else agreement
    phi = agreement / math.sqrt(product) if product > 0 else 0.0
    low, high = square_and_add(treated, control, phi)
    return Interval((gained - lost) / n, low, high, f"Newcombe, paired, n = {n:g}")


def square_and_add(treated: Interval, control: Interval, correlation: float = 0.0) -> tuple[float, float]:
    """Bounds of treated - control from the intervals of both and the correlation of their estimates, in [-1, 1].

    Newcombe's square-and-add, for any two intervals: Zou and Donner, Stat Med 27:1693 (2008), "MOVER".
    """
    down1, up1 = treated.estimate - treated.low, treated.high - treated.estimate
    down0, up0 = control.estimate - control.low, control.high - control.estimate
    estimate = treated.estimate - control.estimate
    low = estimate - math.sqrt(max(down1**2 - 2 * correlation * down1 * up0 + up0**2, 0.0))
    high = estimate + math.sqrt(max(up1**2 - 2 * correlation * up1 * down0 + down0**2, 0.0))
    return max(-1.0, low), min(1.0, high)


WIDEST = 40.0  # of a log ratio; e^40 stands for "unbounded", which no count of tasks distinguishes


def _valid(successes: float, n: float) -> float:
    if not -ROUNDING <= successes <= n + ROUNDING:
        raise ValueError(f"successes {successes} of {n}: expected 0 <= successes <= n")
    return min(max(successes, 0.0), n)


def _z(level: float) -> float:
    from scipy.stats import norm

    return float(norm.ppf(0.5 + level / 2))


def _crossing(score: Callable[[float], float], target: float, left: float, right: float) -> float:
    """Where a falling score crosses the target by bisection; the nearer end where it stays on one side."""
    for _ in range(200):
        middle = (left + right) / 2
        if middle in (left, right):
            break
        left, right = (middle, right) if score(middle) > target else (left, middle)
    return (left + right) / 2
