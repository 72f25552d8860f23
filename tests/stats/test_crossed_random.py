"""Intervals over people and stories: against a statistics package, their limits, and how often they cover."""

import math

import numpy as np
import pytest
import statsmodels.api as sm

from tests.helpers.drawn import crowd
from tomserve.stats.crossed_random import crossed_difference, crossed_groups, crossed_mean, crossed_share, p_value
from tomserve.stats.power import Spread

SPREAD = Spread(share=0.7, people=0.1, people_by_class=0.05, stories=0.2)


def test_the_error_is_that_of_a_statistics_package() -> None:
    """statsmodels' two-way cluster covariance, without its other small-sample factor."""
    found = crowd(np.random.default_rng(3), 20, 5, 15, 0.1, SPREAD)
    groups = np.column_stack([found.person, found.task])
    fit = sm.OLS(found.right, sm.add_constant(found.treated.astype(float))).fit(
        cov_type="cluster", cov_kwds={"groups": groups, "use_correction": False}
    )
    ours = crossed_difference(found.right, found.treated, found.person, found.task)
    assert ours.estimate == pytest.approx(fit.params[1])
    from statsmodels.stats.sandwich_covariance import cov_cluster_2groups

    both, one, other = cov_cluster_2groups(fit, found.person, found.task, use_correction=False)
    people, tasks, pairs = 20, len(set(found.task)), len({*zip(found.person, found.task, strict=True)})
    within = one + other - both
    corrected = [part[1, 1] * n / (n - 1) for part, n in ((one, people), (other, tasks), (within, pairs))]
    variance = max(corrected[0] + corrected[1] - corrected[2], *corrected[:2])
    from scipy.stats import t

    half = t.ppf(0.975, people - 1) * math.sqrt(variance)
    assert ours.high - ours.low == pytest.approx(2 * half)
    assert p_value(ours) == pytest.approx(2 * t.sf(abs(ours.estimate) / math.sqrt(variance), people - 1))


def test_limits() -> None:
    assert math.isnan(crossed_share([], [], []).estimate)
    alone = crossed_share([1, 0], ["a", "a"], ["x", "y"])
    assert (alone.estimate, math.isnan(alone.low)) == (0.5, True)
    sure = crossed_share([1, 1, 1, 1], [1, 1, 2, 2], ["x", "y", "x", "y"])
    assert (sure.estimate, sure.high) == (1.0, 1.0)
    assert 0 < sure.low < 0.5
    assert "Wilson" in sure.method
    nearly = crossed_share([1] * 39 + [0], list(range(20)) * 2, [n // 4 for n in range(40)])
    assert 0 < nearly.low < nearly.estimate < nearly.high < 1
    assert math.isnan(crossed_difference([1, 0], [True, True], [1, 2], [1, 2]).estimate)
    assert math.isnan(crossed_mean([2, 2, 2], [1, 2, 3], [1, 2, 3]).low)
    assert math.isnan(p_value(crossed_mean([2, 2, 2], [1, 2, 3], [1, 2, 3])))
    with pytest.raises(ValueError, match="equally many"):
        crossed_mean([1, 2], [1], [1, 2])


def test_who_always_answers_alike_counts_as_one() -> None:
    """Twenty answers of four people who are each always right or always wrong tell what four answers tell."""
    right = np.repeat([1.0, 1.0, 0.0, 1.0], 5)
    people, stories = np.repeat(np.arange(4), 5), np.tile(np.arange(5), 4)
    wide = crossed_mean(right, people, stories)
    assert wide.high - wide.low == pytest.approx(2 * 3.1824 * math.sqrt(4 / 3 * 4 * (0.75 * 0.25) / 16), rel=1e-3)


def groups(rng: np.random.Generator, sizes: tuple[int, int], tasks: int) -> list[np.ndarray]:
    """Answers of two groups of people to one question of every task: right, second group, who, task. Both have the same
    chances; people differ a good deal, and a third of the answers is missing."""
    hard = rng.normal(0, 0.5, tasks)
    columns = []
    for group, people in enumerate(sizes):
        chance = 1 / (1 + np.exp(-(rng.normal(1, 0.8, people)[:, None] + hard)))
        who, task = np.nonzero(rng.random(chance.shape) < 2 / 3)
        right = (rng.random(len(who)) < chance[who, task]).astype(float)
        columns.append(np.array([right, np.full(len(who), group), who, task]))
    return list(np.concatenate(columns, axis=1))


@pytest.mark.parametrize("sizes", [(5, 40), (40, 5)])
def test_intervals_between_two_groups_of_people_cover(sizes: tuple[int, int]) -> None:
    """Of 80 simulated pairs of groups without a difference about 95% of the intervals hold 0."""
    rng = np.random.default_rng(sizes[0])
    held = 0
    for _ in range(80):
        right, second, who, task = groups(rng, sizes, 60)
        found = crossed_groups(right, second, who, task, task)
        held += found.low <= 0 <= found.high
    assert 72 <= held <= 79


def test_swapping_two_groups_of_people_changes_the_sign_alone() -> None:
    right, second, who, task = groups(np.random.default_rng(3), (6, 25), 30)
    found, back = (crossed_groups(right, one, who, task, task) for one in (second == 1, second == 0))
    assert (back.estimate, back.low, back.high) == pytest.approx((-found.estimate, -found.high, -found.low))
    assert p_value(back) == pytest.approx(p_value(found))
    assert found.estimate != 0
    assert 0 < p_value(found) < 1


def test_groups_without_a_common_question_or_with_one_person_have_no_interval() -> None:
    assert math.isnan(crossed_groups([1, 0], [True, False], [1, 1], [1, 2], [1, 2]).estimate)
    assert math.isnan(crossed_groups([], [], [], [], []).estimate)
    one = crossed_groups([1, 0, 0, 1], [True, True, False, False], [1, 1, 2, 3], [1, 2, 1, 2], [1, 2, 1, 2])
    assert (one.estimate, math.isnan(one.low)) == (0, True)
