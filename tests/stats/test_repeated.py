"""Intervals for questions that were asked several times each."""

import math

import numpy as np
import pytest

from tomserve.stats.proportions import wilson
from tomserve.stats.repeated import repeated_share


def test_the_estimate_is_the_mean_over_items_and_the_interval_stays_a_share() -> None:
    found = repeated_share([1.0, 0.9, 1.0, 0.2], ["a", "a", "b", "c"])
    assert found.estimate == pytest.approx(0.775)
    assert 0 < found.low < 0.775 < found.high < 1


def test_clusters_and_not_samples_are_what_counts() -> None:
    """More samples of the same items narrow no interval by themselves; more clusters do."""
    few = repeated_share([0.9, 0.4, 0.7], ["a", "b", "c"])
    many = repeated_share([0.9, 0.4, 0.7] * 10, np.arange(30))
    together = repeated_share([0.9, 0.4, 0.7] * 10, np.tile(np.arange(3), 10))
    assert (together.low, together.high) == pytest.approx((few.low, few.high))
    assert many.high - many.low < (few.high - few.low) / 2


@pytest.mark.parametrize("values", [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [0.4, 0.4, 0.4]])
def test_without_spread_the_interval_is_wilsons_over_clusters(values: list[float]) -> None:
    found = repeated_share(values, ["a", "b", "c"])
    expected = wilson(sum(values), 3)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_nothing_gives_nothing() -> None:
    assert math.isnan(repeated_share([], []).estimate)
    assert math.isnan(repeated_share([math.nan], ["a"]).low)


def test_it_covers_in_a_simulation() -> None:
    """19 of 20; bench/coverage.py has more replications."""
    rng, hit = np.random.default_rng(5), 0
    cluster = np.repeat(np.arange(20), 4)
    true = 0.9 / (0.9 + 0.3)  # chances of clusters from a beta distribution
    for _ in range(80):
        chance = np.clip(np.repeat(rng.beta(0.9 * 3, 0.3 * 3, 20), 4), 0, 1)
        found = repeated_share(rng.binomial(5, chance) / 5, cluster)
        hit += found.low <= true <= found.high
    assert 72 <= hit <= 79
