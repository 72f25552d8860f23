"""What a design can show before any question is asked: the smallest p it can reach, the smallest effect it can detect,
and how many units an effect needs.

These figures are for planning. "Observed power", computed from the effect that was found, says nothing that the p does
not (Hoenig and Heisey, Am Stat 55:19, 2001); a minimum detectable effect uses the run's spread only, not its effect.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from tomserve.stats.distributions import t_power, t_quantile
from tomserve.stats.paired import smallest_p
from tomserve.stats.roots import root

MOST_UNITS = 100_000
"""No more units than these are thought about; whoever needs more needs another design."""


@dataclass(frozen=True)
class Plan:
    """What a paired comparison over independent units (stages) can show, known before the data.

    `units`: number of units. `sd_units`: detectable mean difference in standard deviations of the units' differences.
    `minimum_detectable_effect`: the same as a difference of probabilities; nan where no SD was assumed or the value
    exceeds 1, which no effect can reach. `p_smallest`: the least p of a sign-flip test over these units. `attainable`:
    whether that test can reach alpha at all.
    """

    units: int
    sd_units: float
    minimum_detectable_effect: float
    p_smallest: float
    attainable: bool


def minimum_detectable_effect(units: int, sd: float, alpha: float = 0.05, power: float = 0.8, family: int = 1) -> float:
    """Smallest mean difference of probabilities that a two-sided t test over the units detects with this power.

    From the noncentral t distribution, which assumes independent units whose differences are about normal. In a family
    of tests the level is alpha divided by their number: this is what Benjamini and Hochberg's method asks of the only
    class that is affected, so that the figure is for one affected class alone, the hardest case; where several classes
    are affected, smaller effects are detected.

    units: number of independent units (stages).
    sd: standard deviation of a unit's difference, in probability, from like data.
    alpha: level of the test or, in a family, its false discovery rate; power: chance of rejecting; both in (0, 1).
    family: number of classes tested together.

    nan for fewer than two units, an unknown sd, or where no difference of at most 1 suffices.

        >>> round(minimum_detectable_effect(7, 0.2), 3), round(minimum_detectable_effect(7, 0.2, family=10), 3)
        (0.255, 0.413)
    """
    found = detectable_sd(units, alpha, power, family) * sd
    return found if found <= 1 else math.nan


def units_needed(effect: float, sd: float, alpha: float = 0.05, power: float = 0.8, family: int = 1) -> int | None:
    """Fewest units (stages) with which a two-sided t test detects this effect with this power; at least two.

    effect: mean difference of probabilities, of either sign. Other parameters, assumptions and source as for
    `minimum_detectable_effect`. None where the effect is zero, a number is unknown (nan), or 100,000 units do not
    suffice.

        >>> units_needed(0.2, 0.2), units_needed(0.2, 0.2, family=10)
        (10, 18)
    """
    size = abs(effect)
    if math.isnan(size) or math.isnan(sd) or not size:
        return None
    if detectable_sd(MOST_UNITS, alpha, power, family) * sd > size:
        return None
    low, high = 2, MOST_UNITS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if detectable_sd(middle, alpha, power, family) * sd <= size else (middle + 1, high)
    return low


def detectable_sd(units: int, alpha: float = 0.05, power: float = 0.8, family: int = 1) -> float:
    """The mean difference of `minimum_detectable_effect` in standard deviations of the units' differences.

    nan for fewer than two units, where no variance can be estimated. Raises ValueError unless alpha and power lie
    strictly between 0 and 1, and the family has at least one test.

        >>> round(detectable_sd(7), 2), round(detectable_sd(4), 2)
        (1.27, 2.13)
    """
    if not (0 < alpha < 1 and 0 < power < 1 and family >= 1):
        raise ValueError(f"alpha {alpha}, power {power}, family {family}: expected two numbers in (0, 1) and a count")
    return math.nan if units < 2 else _detectable(int(units), alpha / family, power)


@lru_cache(maxsize=4096)
def _detectable(units: int, alpha: float, power: float) -> float:
    """Solve the power function for the effect; the same few designs are asked for in every row of a table."""
    df, scale = units - 1, math.sqrt(units)
    limit = -t_quantile(alpha / 2, df)

    def missing(shift: float) -> float:
        other, found = t_power(limit, df, shift)  # `other` has the wrong sign
        return found + (0.0 if math.isnan(other) else other) - power

    if missing(0.0) >= 0:  # a power below the level is had without any effect
        return 0.0
    most = limit + 1.0
    while missing(most) < 0:
        most *= 2
    return root(missing, 0.0, most) / scale


def plan(units: int, sd: float = math.nan, alpha: float = 0.05, power: float = 0.8, family: int = 1) -> Plan:
    """Plan a paired comparison (see `Plan`).

    units: number of independent units (stages).
    sd: assumed standard deviation of a unit's difference, in probability; without it no effect is given.
    alpha: level of the tests, .05 by default; power: chance of detecting the effect, .8 by default.
    family: number of classes tested together, see `minimum_detectable_effect`.
    """
    attained = smallest_p(units)
    return Plan(
        units,
        detectable_sd(units, alpha, power, family),
        minimum_detectable_effect(units, sd, alpha, power, family),
        attained,
        attained <= alpha,
    )
