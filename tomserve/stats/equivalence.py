"""Tests against a margin: whether one condition is not worse than another by more than the margin, and whether the two
are the same within it.

That a difference is not significant does not show that there is none. These tests turn the question round: what has to
be refuted is that the difference is as large as the margin (Schuirmann, J Pharmacokinet Biopharm 15:657, 1987; for
classifiers and evaluations, Lakens, Soc Psychol Personal Sci 8:355, 2017). They are read off the intervals of an effect
at several levels, so that they agree with the interval that stands beside them, whatever it was computed from.

>>> from tomserve.stats.pairs import pair_sums, pairs_effect
>>> same = [1, 0] * 60
>>> summed = pair_sums(same, same, [str(n // 4) for n in range(120)])
>>> found = against_margin(lambda level: pairs_effect(summed, level), 0.1)
>>> found.verdict, round(found.p_not_inferior, 3) < 0.05
('equivalent', True)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tomserve.stats.planning import units_needed

ONE_SIDED, TOST = 0.025, 0.05
"""The levels of the one-sided test of non-inferiority and of each of the two tests of equivalence. So non-inferiority
is read off the 95% interval, and equivalence off the 90% interval."""

VERDICTS = {
    "equivalent": "the difference is smaller than the margin, in either direction",
    "better": "B is clearly right more often",
    "not inferior": "B is not worse by as much as the margin; it may be better",
    "inferior": "B is worse by more than the margin",
    "undecided": "neither that B is worse by as much as the margin, nor that it is not, is shown",
}
"""What can be shown of B minus A, and what it says."""


class Bounds(Protocol):
    """An interval, or an effect with its interval."""

    @property
    def low(self) -> float:
        """The lower end."""

    @property
    def high(self) -> float:
        """The upper end."""


@dataclass(frozen=True)
class Against:
    """What tests against a margin show of a difference.

    margin: the largest difference that does not matter, a share above 0. low, high: the 95% interval of the difference.
    low_90, high_90: its 90% interval. p_not_inferior: of the hypothesis that the difference is -margin or less.
    p_equivalent: of the hypothesis that it is margin or more in either direction; the larger of two one-sided p.
    verdict: one of VERDICTS.
    """

    margin: float
    low: float
    high: float
    low_90: float
    high_90: float
    p_not_inferior: float
    p_equivalent: float
    verdict: str


def against_margin(interval: Callable[[float], Bounds], margin: float) -> Against:
    """Test a difference against a margin.

    interval: gives the two-sided interval of the difference at a level of confidence. margin: above 0 and below 1.
    Raises ValueError for another margin.
    """
    if not 0 < margin < 1:
        raise ValueError(f"margin {margin}: expected a share above 0 and below 1, such as 0.02 for two points")
    wide, narrow = interval(1 - 2 * ONE_SIDED), interval(1 - 2 * TOST)
    below = _one_sided(lambda level: interval(level).low > -margin)
    above = _one_sided(lambda level: interval(level).high < margin)
    return Against(
        margin,
        wide.low,
        wide.high,
        narrow.low,
        narrow.high,
        below,
        max(below, above) if not math.isnan(below + above) else math.nan,
        _verdict(wide, narrow, margin),
    )


def _verdict(wide: Bounds, narrow: Bounds, margin: float) -> str:
    if narrow.low > -margin and narrow.high < margin:
        return "equivalent"
    if wide.low > 0:
        return "better"
    if wide.low > -margin:
        return "not inferior"
    return "inferior" if wide.high < -margin else "undecided"


def _one_sided(clear: Callable[[float], bool]) -> float:
    """The least level of a one-sided test at which a bound is clear of the margin; 1 where it is so at none below .5,
    as where the estimate itself is beyond the margin."""
    low, high = 0.0, 0.5
    if not clear(1e-9):
        return 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if clear(1 - 2 * middle) else (middle, high)
    return high


def needed(margin: float, sd: float, true: float = 0.0, power: float = 0.8) -> tuple[int | None, int | None]:
    """How many units show, with this power, that a condition is not inferior, and that two are equivalent.

    margin: as in `against_margin`. sd: of the units' differences. true: the true difference, B minus A. Equivalence
    takes both tests, so that each is given half of the chance to fail (Julious, Stat Med 23:1921, 2004, section 4.2);
    that is exact for a true difference of 0 and errs on the safe side for others. None where 100,000 units do not
    suffice, the spread is not known, or the true difference lies beyond the margin.

    >>> needed(0.05, 0.2)
    (128, 175)
    """
    room = margin + true
    one = units_needed(room, sd, 2 * ONE_SIDED, power) if room > 0 else None
    left = margin - abs(true)
    both = units_needed(left, sd, 2 * TOST, (1 + power) / 2) if left > 0 else None
    return one, both
