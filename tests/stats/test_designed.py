"""The share of answers of a kind in clusters: Wilson's interval where nothing goes together, wider where it does."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tomserve.stats.clustered import clustered_mean
from tomserve.stats.designed import designed_share
from tomserve.stats.proportions import wilson


def test_with_many_answers_that_stand_alone_it_is_wilsons() -> None:
    changed = np.arange(5000) % 7 == 0
    found, expected = designed_share(changed, np.arange(5000)), wilson(float(changed.sum()), 5000)
    assert (found.estimate, found.low, found.high) == pytest.approx(
        (expected.estimate, expected.low, expected.high), abs=1e-4
    )


def test_answers_that_go_together_count_less() -> None:
    rng = np.random.default_rng(1)
    index = np.repeat(np.arange(50), 8)
    together = (rng.random(50) < 0.3)[index]
    alone = rng.random(400) < 0.3
    wide, narrow = designed_share(together, index), designed_share(alone, index)
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)
    assert wide.method.startswith("Wilson, effective n = 4"), "a cluster that says one thing counts once"
    robust = clustered_mean(alone.astype(float), index)  # near the middle both are the cluster-robust interval
    assert (narrow.low, narrow.high) == pytest.approx((robust.low, robust.high), abs=0.01)


@pytest.mark.parametrize("value", [0, 1])
def test_what_was_never_seen_to_change_may_change(value: int) -> None:
    found = designed_share([value] * 80, np.arange(80) // 4)
    assert found.estimate == value
    assert found.high - found.low > wilson(0, 80).high, "questions of a cluster are not as good as others"
    assert found.high - found.low < wilson(0, 20).high * 1.1


def test_one_cluster_counts_once_and_none_has_no_share() -> None:
    one = designed_share([1, 0, 1, 1], ["a"] * 4)
    assert (one.estimate, one.low, one.high) == pytest.approx((0.75, wilson(0.75, 1).low, wilson(0.75, 1).high))
    for none in (designed_share([], []), designed_share([math.nan], ["a"])):
        assert math.isnan(none.estimate)
        assert math.isnan(none.low)
    with pytest.raises(ValueError, match="equal lengths"):
        designed_share([1, 0], ["a"])


def test_missing_outcomes_are_left_out_and_order_does_not_count() -> None:
    outcome, cluster = np.array([1, 0, 0, math.nan, 1, 0, 0, 0.0]), np.array([3, 3, 1, 1, 2, 2, 0, 0])
    known = ~np.isnan(outcome)
    assert designed_share(outcome, cluster) == designed_share(outcome[known], cluster[known])
    back = designed_share(outcome[::-1], cluster[::-1])
    assert back.low == pytest.approx(designed_share(outcome, cluster).low)
