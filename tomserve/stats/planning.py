"""What a design can show before anything is asked: attainable p and minimum detectable effect.

Planning only: "observed power" computed from results says nothing that the p does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tomserve.stats.paired import smallest_p


@dataclass(frozen=True)
class Plan:
    """A paired comparison over `units` independent units (stages), as it stands before the data.

    `sd_units`: detectable mean difference in standard deviations of the differences. `risk_difference`: the same in
    probability, nan without an assumed SD or where it exceeds 1 (no effect is large enough). `attainable`: whether
    a sign-flip test can reach alpha at all.
    """

    units: int
    sd_units: float
    risk_difference: float
    p_smallest: float
    attainable: bool


def detectable_sd(units: int, alpha: float = 0.05, power: float = 0.8) -> float:
    """Smallest mean difference, in SDs of the differences, that a two-sided paired t test finds with this power.

    statsmodels' `TTestPower().solve_power`. nan for fewer than two units: no variance can be estimated.

        >>> round(detectable_sd(7), 2), round(detectable_sd(4), 2)
        (1.27, 2.13)
    """
    if units < 2:
        return math.nan
    from statsmodels.stats.power import TTestPower

    return float(TTestPower().solve_power(nobs=units, alpha=alpha, power=power, alternative="two-sided"))


def plan(units: int, sd: float = math.nan, alpha: float = 0.05, power: float = 0.8) -> Plan:
    """The plan of a comparison over `units` units; `sd`: assumed SD of a unit's difference, in probability."""
    detectable = detectable_sd(units, alpha, power)
    difference = detectable * sd
    attained = smallest_p(units)
    return Plan(units, detectable, difference if difference <= 1 else math.nan, attained, attained <= alpha)
