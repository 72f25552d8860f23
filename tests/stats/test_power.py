"""Power and sample size: by statsmodels, by simulated studies with people, and the spread found again."""

import math

import numpy as np
import pytest

from tests.helpers.drawn import crowd
from tomserve.stats.crossed_random import crossed_difference, crossed_mean, p_value
from tomserve.stats.power import (
    MOST,
    Spread,
    class_power,
    count_units,
    detectable_sd,
    least_number,
    minimum_detectable_effect,
    model_power,
    spread_of,
)


@pytest.mark.parametrize(("units", "alpha"), [(2, 0.05), (7, 0.05), (7, 0.005), (100, 0.05)])
def test_statsmodels_finds_the_same_effect(units: int, alpha: float) -> None:
    from statsmodels.stats.power import TTestPower

    expected = TTestPower().solve_power(nobs=units, alpha=alpha, power=0.8)
    assert detectable_sd(units, alpha) == pytest.approx(expected, rel=1e-4)


def test_units_needed_are_the_fewest() -> None:
    for family in (1, 10):
        m = count_units(-0.2, 0.2, family=family)
        assert m is not None
        assert minimum_detectable_effect(m, 0.2, family=family) <= 0.2
        assert minimum_detectable_effect(m - 1, 0.2, family=family) > 0.2
    assert count_units(0.9, 0.0) == 2
    assert [count_units(*given) for given in ((0.0, 0.2), (math.nan, 0.2), (0.2, math.nan), (1e-9, 0.2))] == [None] * 4


def test_what_no_effect_can_reach_is_undefined() -> None:
    assert math.isnan(minimum_detectable_effect(3, 0.5))
    assert math.isnan(minimum_detectable_effect(1, 0.1))
    assert math.isnan(minimum_detectable_effect(7, math.nan))
    assert detectable_sd(7, power=0.04) == 0.0, "less power than the level needs no effect"
    assert [round(detectable_sd(m), 2) for m in (7, 4)] == [1.27, 2.13]
    with pytest.raises(ValueError, match="expected two numbers"):
        detectable_sd(7, alpha=0.0)


SPREAD = Spread(share=0.6, people=0.06, people_by_class=0.03, stories=0.1)
"""Small enough parts that chances of a right answer hardly ever reach 0 or 1, where the formula is only nearly right."""


STUDIES = 60


@pytest.mark.parametrize(("people", "answers", "tasks", "effect"), [(40, 2, 20, 0.2), (20, 4, 15, 0.2)])
def test_power_for_two_classes_is_that_of_simulated_studies(
    people: int, answers: int, tasks: int, effect: float
) -> None:
    rng = np.random.default_rng(people + tasks)
    found = 0
    for _ in range(STUDIES):
        one = crowd(rng, people, answers, tasks, effect, SPREAD)
        found += p_value(crossed_difference(one.right, one.treated, one.person, one.task)) < 0.05
    told = class_power(people, (answers, answers), (tasks, tasks), effect, SPREAD)
    assert found / STUDIES == pytest.approx(told, abs=0.12)


def test_power_against_a_model_is_that_of_simulated_studies() -> None:
    """The model answers one question a task, so that nothing of its variance is left within tasks."""
    people, answers, tasks, effect = 30, 4, 40, 0.2
    rng = np.random.default_rng(people + tasks)
    spread = Spread(SPREAD.share, SPREAD.people, 0.0, SPREAD.stories)
    found = 0
    for _ in range(STUDIES):
        one = crowd(rng, people, answers, tasks, 0.0, spread, model=spread.share - effect)
        found += p_value(crossed_mean(one.right - one.model, one.person, one.task)) < 0.05
    told = model_power(people, 2 * answers, 2 * tasks, 2 * tasks, effect, spread)
    assert found / STUDIES == pytest.approx(told, abs=0.12)


def test_power_rises_with_people_stories_and_effect_and_stops_at_the_tasks() -> None:
    def at(people: int, answers: float, tasks: float, effect: float) -> float:
        return class_power(people, (answers, answers), (tasks, tasks), effect, SPREAD)

    assert at(20, 2, 20, 0.1) < at(40, 2, 20, 0.1) < at(40, 4, 20, 0.1) < at(40, 4, 60, 0.1) < at(40, 4, 60, 0.2)
    assert at(MOST, 24, 6, 0.1) < 0.8, "more people do not make up for few stories"
    assert math.isnan(at(1, 2, 20, 0.1))
    assert math.isnan(at(10, 0, 20, 0.1))
    assert math.isnan(model_power(10, 0, 20, 20, 0.1))


def test_the_least_number_is_found() -> None:
    needed = least_number(lambda people: class_power(people, (4, 4), (60, 60), 0.2, SPREAD), 0.8)
    assert needed is not None
    assert class_power(needed, (4, 4), (60, 60), 0.2, SPREAD) >= 0.8
    assert class_power(needed - 1, (4, 4), (60, 60), 0.2, SPREAD) < 0.8
    assert least_number(lambda people: class_power(people, (4, 4), (5, 5), 0.05, SPREAD), 0.8) is None
    assert least_number(lambda people: math.nan, 0.8) is None


def test_the_spread_of_a_study_is_found_again() -> None:
    wanted = Spread(share=0.5, people=0.08, people_by_class=0.05, stories=0.1)
    one = crowd(np.random.default_rng(5), 150, 20, 100, 0.0, wanted)
    found = spread_of(one.right, one.person, one.task, one.treated)
    assert found is not None
    for name in ("share", "people", "people_by_class", "stories"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), abs=0.05), name
    assert found.rest == pytest.approx(wanted.rest, abs=0.06)
    assert spread_of([], [], [], []) is None
    assert spread_of([1, 1], [1, 2], [1, 2], [1, 1]) is None
    assert spread_of([1, 0], [1, 2], [1, 2], [1, 1]) is None
