"""Tests against a margin: whether one condition is not worse than another by more than it, and whether two are the same
within it (Schuirmann, J Pharmacokinet Biopharm 15:657, 1987; Lakens, Soc Psychol Personal Sci 8:355, 2017). They are
read off the intervals of an effect at several levels, so that they agree with the interval beside them.

>>> from tomserve.stats.clustered import pair_sums, pairs_intervals
>>> same = [1, 0] * 60
>>> summed = pair_sums(same, same, [str(n // 4) for n in range(120)])
>>> found = compare_margin(pairs_intervals(summed), 0.1)
>>> found.verdict, found.p_not_inferior < 0.025
('equivalent', True)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from tomserve.stats.distributions import normal_quantile
from tomserve.stats.effects import least_p
from tomserve.stats.power import MOST_UNITS, count_units
from tomserve.stats.proportions import Interval, tango_variance

# The levels of the one-sided test of non-inferiority and of each of the two tests of equivalence.
ONE_SIDED, TOST = 0.025, 0.05
# What can be shown of B minus A, and what it says.
VERDICTS = {
    "equivalent": "the difference is smaller than the margin, in either direction",
    "better": "B is clearly right more often",
    "not inferior": "B is not worse by as much as the margin; it may be better",
    "inferior": "B is worse by more than the margin",
    "undecided": "neither that B is worse by as much as the margin, nor that it is not, is shown",
}


@dataclass(frozen=True)
class MarginTest:
    """What tests against a margin show; nan and "undecided" where the difference has no interval. p_not_inferior is at
    most .025 exactly where `low` lies above -margin, p_equivalent at most .05 exactly where the 90% interval lies
    within the margin."""

    margin: float
    low: float
    high: float
    low_90: float
    high_90: float
    p_not_inferior: float
    p_equivalent: float
    verdict: str


def compare_margin(interval: Callable[[float], Interval], margin: float) -> MarginTest:
    """Test a difference, whose two-sided interval `interval` gives by level, against a margin between 0 and 1. Raises
    ValueError for another margin."""
    if not 0 < margin < 1:
        raise ValueError(f"margin {margin}: expected a share above 0 and below 1, such as 0.02 for two points")
    wide, narrow = interval(1 - 2 * ONE_SIDED), interval(1 - 2 * TOST)
    if any(math.isnan(end) for one in (wide, narrow) for end in (one.low, one.high)):
        return MarginTest(margin, *(math.nan,) * 6, "undecided")

    def p_above(level: float) -> float:
        return one_sided_p(lambda at: interval(at).low > -margin, lambda at: interval(at).high < -margin, level)

    upper = one_sided_p(lambda at: interval(at).high < margin, lambda at: interval(at).low > margin, TOST)
    return MarginTest(
        margin,
        wide.low,
        wide.high,
        narrow.low,
        narrow.high,
        p_above(ONE_SIDED),
        max(p_above(TOST), upper),
        verdict(wide, narrow, margin),
    )


def verdict(wide: Interval, narrow: Interval, margin: float) -> str:
    """Which of VERDICTS the 95% interval (wide) and the 90% interval (narrow) of a difference show."""
    if narrow.low > -margin and narrow.high < margin:
        return "equivalent"
    if wide.low > 0:
        return "better"
    if wide.low > -margin:
        return "not inferior"
    return "inferior" if wide.high < -margin else "undecided"


def one_sided_p(clear: Callable[[float], bool], beyond: Callable[[float], bool], level: float) -> float:
    """The least level at which the interval, whose level is twice as far from 1, is clear of a bound. clear, beyond:
    whether it lies wholly on the side to be shown, or on the other. The search begins with `level`, so that p is at
    most this exactly where the test rejects."""
    if clear(_LEAST):
        return least_p(clear, 2 * level) / 2
    return 1 - least_p(beyond, 2 * level) / 2 if beyond(_LEAST) else 0.5


_LEAST = 1e-9  # A level at which an interval is hardly more than its estimate


def units_for_margin(
    margin: float, sd: float, changed: float | None = None, power: float = 0.8
) -> tuple[int | None, int | None]:
    """How many units show, with this power, that a condition is not inferior, and that two are equivalent, if there is
    no difference; None where 100,000 do not suffice. Equivalence takes both tests (Julious, Stat Med 23:1921, 2004).

    sd: of the units' differences. changed: the share of answers that differ, for `clustered.margin_intervals`, which
    measure by the spread at the margin (`tango_variance`); None where the spread is the same everywhere.

    >>> units_for_margin(0.05, 0.2), units_for_margin(0.05, 0.2, changed=0.04)
    ((128, 139), (194, 195))
    """
    found = []
    for level, of in ((ONE_SIDED, power), (TOST, (1 + power) / 2)):
        units = count_units(margin, sd, 2 * level, of)
        if units is not None and changed:
            ratio = math.sqrt(tango_variance(changed / 2, changed / 2, 1.0, -margin) / changed)
            test, fail = normal_quantile(1 - level), normal_quantile(of)
            units = math.ceil(units * ((ratio * test + fail) / (test + fail)) ** 2)
        found.append(units if units is not None and units <= MOST_UNITS else None)
    return found[0], found[1]
