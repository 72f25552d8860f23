"""What a design can show before any question is asked: the smallest p it can reach and the smallest effect it can
detect.

These figures are for planning. "Observed power", computed from results, says nothing that the p does not (Hoenig and
Heisey, Am Stat 55:19, 2001).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tomserve.stats.paired import smallest_p


@dataclass(frozen=True)
class Plan:
    """What a paired comparison over independent units (stages) can show, known before the data.

    `units`: number of units. `sd_units`: detectable mean difference in standard deviations of the units' differences.
    `risk_difference`: the same as a difference of probabilities; nan where no SD was assumed or the value exceeds 1,
    which no effect can reach. `p_smallest`: the least p of a sign-flip test over these units. `attainable`: whether
    that test can reach alpha at all.
    """

    units: int
    sd_units: float
    risk_difference: float
    p_smallest: float
    attainable: bool


def detectable_sd(units: int, alpha: float = 0.05, power: float = 0.8) -> float:
    """Smallest mean difference, in SDs of the differences, that a two-sided paired t test detects with this power.

    From the noncentral t distribution (statsmodels' `TTestPower().solve_power`), which assumes independent, normally
    distributed differences of units. The result is nan for fewer than two units, where no variance can be estimated.

    units: number of independent units; alpha: level of the test; power: chance of rejecting, both in (0, 1).

        >>> round(detectable_sd(7), 2), round(detectable_sd(4), 2)
        (1.27, 2.13)
    """
    if units < 2:
        return math.nan
    from statsmodels.stats.power import TTestPower

    return float(TTestPower().solve_power(nobs=units, alpha=alpha, power=power, alternative="two-sided"))


def plan(units: int, sd: float = math.nan, alpha: float = 0.05, power: float = 0.8) -> Plan:
    """Plan a paired comparison (see `Plan`).

    units: number of independent units (stages).
    sd: assumed standard deviation of a unit's difference, in probability; without it no risk difference is given.
    alpha: level of the tests, .05 by default.
    power: chance of detecting the effect, .8 by default.
    """
    detectable = detectable_sd(units, alpha, power)
    difference = detectable * sd
    attained = smallest_p(units)
    return Plan(units, detectable, difference if difference <= 1 else math.nan, attained, attained <= alpha)
