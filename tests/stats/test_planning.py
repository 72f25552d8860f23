"""Planning: what a paired t test detects, how many units it needs, and that the promised power is had."""

import math

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from tomserve.stats.planning import detectable_sd, minimum_detectable_effect, plan, units_needed


@pytest.mark.parametrize(("units", "alpha"), [(2, 0.05), (7, 0.05), (7, 0.005), (100, 0.05)])
def test_statsmodels_finds_the_same_effect(units: int, alpha: float) -> None:
    from statsmodels.stats.power import TTestPower

    expected = TTestPower().solve_power(nobs=units, alpha=alpha, power=0.8)
    assert detectable_sd(units, alpha) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("family", [1, 10])
def test_the_promised_power_is_had(family: int) -> None:
    effect = minimum_detectable_effect(7, 0.2, family=family)
    x = np.random.default_rng(3).normal(effect, 0.2, (20_000, 7))
    assert np.mean(ttest_1samp(x, 0, axis=1).pvalue <= 0.05 / family) == pytest.approx(0.8, abs=0.01)


def test_units_needed_are_the_fewest() -> None:
    for family in (1, 10):
        m = units_needed(-0.2, 0.2, family=family)
        assert m is not None
        assert minimum_detectable_effect(m, 0.2, family=family) <= 0.2
        assert minimum_detectable_effect(m - 1, 0.2, family=family) > 0.2
    assert units_needed(0.9, 0.0) == 2
    assert [units_needed(*given) for given in ((0.0, 0.2), (math.nan, 0.2), (0.2, math.nan), (1e-9, 0.2))] == [None] * 4


def test_what_no_effect_can_reach_is_undefined() -> None:
    assert math.isnan(minimum_detectable_effect(3, 0.5))
    assert math.isnan(minimum_detectable_effect(1, 0.1))
    assert math.isnan(minimum_detectable_effect(7, math.nan))
    assert detectable_sd(7, power=0.04) == 0.0, "less power than the level needs no effect"
    assert plan(7, 0.2, family=10).minimum_detectable_effect == minimum_detectable_effect(7, 0.2, family=10)
    with pytest.raises(ValueError, match="expected two numbers"):
        detectable_sd(7, alpha=0.0)
