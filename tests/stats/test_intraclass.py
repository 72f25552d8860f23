"""Shares of answers in clusters: the intra-class correlation, effective numbers of answers, repeated questions, and
the macro-averaged F1."""

import math

import numpy as np
import pytest

from tomserve.stats.accuracy import constant_f1, guessed_f1, macro_f1, macro_f1_interval
from tomserve.stats.clustered import clustered_mean, clustered_share, designed_share, effective_share, repeated_share
from tomserve.stats.clusters import effective_n, intraclass
from tomserve.stats.proportions import wilson


def test_anova_by_hand() -> None:
    """Two classes; clusters of 2, 3 | 2, 2, 1 answers, means 1, 1/3 | 1/2, 0, 1."""
    y = [1, 1, 1, 0, 0, 1, 0, 0, 0, 1]
    cluster = list("aabbbccdde")
    group = ["x"] * 5 + ["y"] * 5
    msb = (2 * 0.4**2 + 3 * (1 / 3 - 0.6) ** 2 + 2 * 0.1**2 + 2 * 0.4**2 + 0.6**2) / 3
    msw = (2 / 3 + 0.5) / 5
    n0 = (5 - 13 / 5 + 5 - 9 / 5) / 3
    expected = (msb - msw) / (msb + (n0 - 1) * msw)
    assert intraclass(y, cluster, group) == pytest.approx(expected)
    assert intraclass([*y, math.nan], [*cluster, "z"], [*group, "z"]) == pytest.approx(expected)


def test_extremes() -> None:
    equal = intraclass([1, 1, 0, 0], list("aabb"), ["x"] * 4)
    opposite = intraclass([1, 0, 1, 0], list("aabb"), ["x"] * 4)
    assert (equal, opposite) == (1.0, 0.0), "a negative estimate is cut to 0"
    nothing = (
        intraclass([1, 1, 1, 1], list("aabb"), ["x"] * 4),  # nothing varies
        intraclass([1, 0], list("ab"), ["x"] * 2),  # one answer a cluster
        intraclass([1, 0], list("aa"), ["x"] * 2),  # one cluster a group
        intraclass([], [], []),
    )
    assert all(math.isnan(value) for value in nothing)
    with pytest.raises(ValueError, match="equal lengths"):
        intraclass([1.0], ["a", "b"], ["x"])


def test_a_cluster_in_two_groups_is_two() -> None:
    once = intraclass([1, 1, 0, 0, 1, 0, 1, 1], list("aabbaabb"), list("xxxxyyyy"))
    renamed = intraclass([1, 1, 0, 0, 1, 0, 1, 1], list("aabbccdd"), list("xxxxyyyy"))
    assert once == renamed


def test_effective_n() -> None:
    assert effective_n([16] * 7, 0.0) == 112
    assert effective_n([16] * 7, 1.0) == 7
    assert effective_n([16] * 7, math.nan) == 7
    assert effective_n([16] * 7, 0.1) == pytest.approx(112 / 2.5)
    assert effective_n([2, 16], 0.5) == pytest.approx(18 / (1 + (260 / 18 - 1) / 2))
    assert effective_n([1, 99], 1.0) == 2, "never fewer than the clusters"
    assert effective_n([], 0.5) == 0
    with pytest.raises(ValueError, match="expected a number from 0 to 1"):
        effective_n([2], 1.5)


def test_effective_share_lies_between_clusters_and_answers() -> None:
    y, cluster = np.tile([1.0, 1, 1, 0], 28), np.repeat(np.arange(7), 16)
    found = effective_share(y, cluster, 0.2)
    same = wilson(21, 28)
    assert (found.estimate, found.low, found.high) == (0.75, pytest.approx(same.low), pytest.approx(same.high))
    assert found.method == "Wilson, effective n = 28.0 of 112"
    assert effective_share(y, cluster, math.nan).low == pytest.approx(clustered_share(y, cluster).low)
    assert effective_share(y, cluster, 0.0).low == pytest.approx(wilson(84, 112).low)
    assert math.isnan(effective_share([math.nan], ["a"], 0.2).estimate)


# as many answers as have the same error


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


# questions that were asked several times each


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


# macro-averaged F1


def test_against_values_worked_out_by_hand() -> None:
    right = [0, 0, 0, 0, 1, 1, 2, 2]
    given = [0, 0, 1, 2, 1, 0, 2, 2]
    # class 0: 2 hits, 4 times right, 3 times given: 4/7; class 1: 1, 2, 2: 2/4; class 2: 2, 2, 3: 4/5
    assert macro_f1(right, given) == pytest.approx((4 / 7 + 1 / 2 + 4 / 5) / 3)


def test_what_is_missing_costs_recall_and_no_precision() -> None:
    assert macro_f1([0, 0, 1, 1], [0, None, 1, 1]) == pytest.approx((2 / 3 + 1) / 2)
    assert macro_f1([0, 1], [None, None]) == 0
    assert np.isnan(macro_f1([], []))


def test_a_class_that_is_only_given_lowers_the_mean_and_one_that_never_occurs_does_not() -> None:
    assert macro_f1([0, 0, 1, 1], [0, 0, 1, 3]) == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert macro_f1([0, 0, 3, 3], [0, 0, 3, 3]) == 1


def test_constant_answers_and_guesses() -> None:
    right = [0] * 6 + [1] * 3 + [2]
    assert constant_f1(right) == (0, pytest.approx(2 * 0.6 / 1.6 / 3))
    generator = np.random.default_rng(1)
    many = right * 1000
    guessed = macro_f1(many, generator.integers(0, 3, len(many)).tolist())
    assert guessed_f1(right, 3) == pytest.approx(guessed, abs=0.01)


def test_nothing_but_right_answers_leaves_some_doubt() -> None:
    found = macro_f1_interval([0, 1] * 10, [0, 1] * 10, np.repeat(np.arange(10), 2))
    assert (found.estimate, found.high, found.method) == (1, 1, "wilson, 10 clusters")
    assert 0.7 < found.low < 0.75


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="columns of 2, 1 and 2 values"):
        macro_f1_interval([0, 1], [0], np.arange(2))
    with pytest.raises(ValueError, match="no questions"):
        macro_f1_interval([], [], np.arange(0))
