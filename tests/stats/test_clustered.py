"""Shares and effects over clusters: hand-made and degenerate cases, effective numbers of answers.
The intra-class correlation and the effective number of answers, by hand."""

import math

import numpy as np
import pytest

from tests.helpers.drawn import drawn, study
from tests.helpers.rows import (
    clustered_share,
    mantel_haenszel,
    matched_effect,
    paired_effect,
    repeated_share,
    these_strata_effect,
    unmatched_effect,
)
from tomserve.stats.clustered import clustered_mean, designed_share, new_units_share
from tomserve.stats.clusters import effective_n, intraclass
from tomserve.stats.proportions import wilson

NAN = math.nan


def test_matched_effect_by_hand() -> None:
    found = matched_effect(*study([(0.5, 1), (0.75, 1), (0.25, 0.75), (1, 1)]))
    d = np.array([-0.5, -0.25, -0.5, 0])
    half = 3.182446 * d.std(ddof=1) / 2
    assert (found.estimate, found.low, found.high) == pytest.approx((d.mean(), d.mean() - half, d.mean() + half))
    assert (found.units, found.tasks, found.p_smallest, found.few_tasks) == (4, 8, 0.125, True)
    assert found.p_sign_flip == 0.25  # three nonzero differences, all of one sign
    assert found.p == pytest.approx(0.0796, abs=0.00005)  # t = -2.611 on 3 df


def test_control_comes_from_the_same_stages() -> None:
    """A stage with control tasks only says nothing about the class, however it differs."""
    y, arm, task, stage = study([(0.5, 1), (0.5, 0.75), (0.25, 0.75)])
    other = (0.0, False, "9/c", "s9")
    more = [np.append(column, [value] * 4) for column, value in zip((y, arm, task, stage), other, strict=True)]
    alone, with_more = matched_effect(y, arm, task, stage), matched_effect(*more)
    assert with_more.estimate == alone.estimate
    assert with_more.units == 3
    assert "1 unmatched left out" in with_more.method


def test_tasks_weigh_equally_within_a_stage_and_missing_answers_are_left_out() -> None:
    y = [1, 1, 1, 0, 0, NAN]
    task = ["a", "a", "a", "b", "c", "c"]
    found = matched_effect(y, [True] * 4 + [False] * 2, task, ["s"] * 6)
    assert found.estimate == 0.5
    assert found.tasks == 3


@pytest.mark.parametrize("share", [1.0, 0.0])
def test_all_right_or_all_wrong_falls_back_to_newcombe(share: float) -> None:
    """Seven stages of four answers, which count for 28 / (1 + 3 x .1) = 21.5: z^2 / (21.5 + z^2) either way."""
    found = matched_effect(*study([(share, share)] * 7))
    half = 3.841459 / (28 / 1.3 + 3.841459)
    assert (found.low, found.high) == (pytest.approx(-half, abs=1e-6), pytest.approx(half, abs=1e-6))
    assert "Newcombe, n = 21.5 of 28 and 21.5 of 28 answers (zero variance)" in found.method
    assert (found.p_sign_flip, found.p) == (1.0, 1.0)
    these = these_strata_effect(*study([(share, share)] * 7))
    assert these.low < 0 < these.high
    assert "Newcombe" in these.method


def test_one_stage_and_no_stage() -> None:
    one = matched_effect(*study([(0.5, 1.0)]))
    assert "one unit" in one.method
    assert (one.p_smallest, one.low <= -0.5 <= one.high) == (1.0, True)
    empty = np.array([])
    nothing = [
        matched_effect(empty, empty, empty, empty),
        these_strata_effect(empty, empty, empty, empty),
        unmatched_effect(empty, empty, empty),
        paired_effect(empty, empty, empty),
        matched_effect([1.0, 0.0], [True, False], ["a", "b"], ["s", "t"]),
    ]
    assert all(math.isnan(found.estimate) and math.isnan(found.low) and found.units == 0 for found in nothing)
    assert math.isnan(clustered_share(empty, empty).estimate)
    assert math.isnan(repeated_share(empty, empty).estimate)
    assert math.isnan(repeated_share([NAN], ["a"]).low)
    assert math.isnan(new_units_share(empty, empty).estimate)
    assert all(map(math.isnan, mantel_haenszel(empty, empty, empty, empty)))


def test_paired_effect_by_task_and_by_stage() -> None:
    t, c = [1, 1, 1, 0, 1, 1, 1, 1], [0, 1, 0, 0, 1, 0, 1, 0]
    task, stage = list("aabbccdd"), list("ssssuuuu")
    by_task, by_stage = paired_effect(t, c, task), paired_effect(t, c, task, stage)
    assert by_task.estimate == by_stage.estimate == 0.5
    assert (by_task.units, by_stage.units, by_stage.tasks) == (4, 2, 4)
    assert by_task.p_sign_flip == 0.125
    assert "Tango" in by_task.method  # every task differs by exactly one half
    shorter = paired_effect([*t, NAN], [*c, 1.0], [*task, "e"])
    assert shorter.units == 4


def test_unmatched_effect_agrees_with_scipy() -> None:
    from scipy.stats import ttest_ind

    y, arm, task, _ = drawn(3, -0.8)
    found = unmatched_effect(y, arm, task)
    means = np.array([y[task == name].mean() for name in np.unique(task)])
    of = np.array([arm[task == name][0] for name in np.unique(task)])
    expected = ttest_ind(means[of], means[~of], equal_var=False)
    assert (found.p, found.low) == (pytest.approx(expected.pvalue), pytest.approx(expected.confidence_interval().low))
    assert math.isnan(found.p_sign_flip)
    assert "one cluster" in unmatched_effect([1, 1, 0], [True, False, False], ["a", "b", "c"]).method


def test_shares() -> None:
    y, task, stage = [1, 1, 1, 0, 1, 1, 0, 0], list("aabbccdd"), list("ssttuuvv")
    wide = clustered_share(y, task)
    assert wide.estimate == 0.625
    assert wide.method == "Wilson, n = 4"
    found = new_units_share(y, task, stage)
    means = np.array([1, 0.5, 1, 0])
    half = 3.182446 * means.std(ddof=1) / 2 / (0.625 * 0.375)
    assert found.low == pytest.approx(1 / (1 + math.exp(half - math.log(5 / 3))), abs=1e-6)
    assert new_units_share([1, 1], ["a", "b"]).method == "Wilson, n = 2 units (zero variance or one unit)"


def test_effective_share_lies_between_clusters_and_answers() -> None:
    y, cluster = np.tile([1.0, 1, 1, 0], 28), np.repeat(np.arange(7), 16)
    found = clustered_share(y, cluster, 0.2)
    same = wilson(21, 28)
    assert (found.estimate, found.low, found.high) == (0.75, pytest.approx(same.low), pytest.approx(same.high))
    assert found.method == "Wilson, effective n = 28.0 of 112"
    assert clustered_share(y, cluster, math.nan).low == pytest.approx(clustered_share(y, cluster).low)
    assert clustered_share(y, cluster, 0.0).low == pytest.approx(wilson(84, 112).low)
    assert math.isnan(clustered_share([math.nan], ["a"], 0.2).estimate)


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
