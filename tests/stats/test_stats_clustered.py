"""Clustered effects, GEE, Mantel-Haenszel, association and placebo: hand-made and degenerate cases, properties."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.drawn import drawn, study
from tomserve.stats.association import (
    jackknife,
    phi,
    phi_range,
    placebo_split,
    separation,
    within_auc,
    within_correlation,
)
from tomserve.stats.clustered import (
    clustered_share,
    matched_effect,
    new_units_share,
    paired_effect,
    unmatched_effect,
)
from tomserve.stats.strata import mantel_haenszel, these_strata_effect

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
    assert math.isnan(new_units_share(empty, empty).estimate)
    assert mantel_haenszel(empty, empty, empty).strata == 0


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


def test_gee_agrees_with_the_balanced_difference() -> None:
    """Equal numbers of tasks in every stage: the standardised difference is the mean of stage differences."""
    columns = drawn(1, -0.9)
    these, new = these_strata_effect(*columns), matched_effect(*columns)
    assert these.estimate == pytest.approx(new.estimate, abs=1e-6)
    assert these.method == "GEE binomial, standardised, t 6 df"
    assert mantel_haenszel(columns[0], columns[1], columns[3]).risk_difference == pytest.approx(new.estimate)


def test_gee_without_logit_coefficients_reports_a_difference() -> None:
    y, arm, task, stage = drawn(1, -0.9)
    y[stage == 2] = 1.0
    found = these_strata_effect(y, arm, task, stage)
    assert found.method.startswith("GEE linear")
    assert found.low < found.estimate < found.high


def test_mantel_haenszel_by_hand() -> None:
    y = [1, 1, 0, 1, 0, 0, 1, 0, 0, 0]
    arm = [1, 1, 1, 0, 0, 0, 1, 1, 0, 0]
    found = mantel_haenszel(y, arm, ["a"] * 6 + ["b"] * 4)
    # a: 2/3 against 1/3, weight 9/6; b: 1/2 against 0/2, weight 4/4
    assert found.risk_difference == pytest.approx((1.5 / 3 + 0.5) / 2.5)
    assert found.odds_ratio == pytest.approx((2 * 2 / 6 + 1 * 2 / 4) / (1 * 1 / 6 + 0))
    assert found.strata == 2


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


# association


def test_phi_counts_and_range() -> None:
    found = phi([1] * 3 + [0] * 7, [1] * 5 + [0] * 5)
    assert (found.both, found.only_x, found.only_y, found.neither) == (3, 0, 2, 5)
    assert found.phi == pytest.approx(found.maximum) == pytest.approx(math.sqrt(0.3 * 0.5 / (0.5 * 0.7)))
    from scipy.stats import chi2_contingency

    assert found.p == pytest.approx(chi2_contingency([[3, 0], [2, 5]], correction=False).pvalue)
    assert math.isnan(phi([1, 1, 1], [1, 0, 1]).phi)
    assert math.isnan(phi([], []).phi)
    assert math.isnan(phi_range(0, 0.5)[0])


@settings(deadline=None)  # the first call imports scipy.stats
@given(st.integers(1, 9), st.integers(1, 9))
def test_phi_range_is_attained(a: int, b: int) -> None:
    x, y = np.arange(10) < a, np.arange(10) < b
    assert phi(x, y).phi == pytest.approx(phi_range(a / 10, b / 10)[1])
    assert phi(x, y[::-1]).phi == pytest.approx(phi_range(a / 10, b / 10)[0])


def test_separation() -> None:
    found = separation([0.1, 0.4, 0.4, 0.9], [0, 0, 1, 1])
    assert found.auc == pytest.approx(3.5 / 4)
    assert found.point_biserial == pytest.approx(np.corrcoef([0.1, 0.4, 0.4, 0.9], [0, 0, 1, 1])[0, 1])
    assert math.isnan(separation([0.5, 0.5], [0, 1]).auc)
    assert math.isnan(separation([0.1, 0.5], [1, 1]).auc)


def test_unequal_difficulty_creates_no_association_within_classes() -> None:
    """Chain and answer independent in each class; pooling an easy and a hard one correlates them."""
    mixed = [(1, 0)] * 3 + [(0, 1)] * 3
    pairs = [(1, 1)] * 9 + mixed + [(0, 0)] * 10 + mixed + [(1, 1)]
    x, y = (np.array(column) for column in zip(*pairs, strict=True))
    kind = np.repeat(["easy", "hard"], 16)
    assert phi(x, y).phi == pytest.approx(0.25)
    assert within_correlation(x, y, kind) == pytest.approx(0)
    assert within_auc(x, y, kind) == pytest.approx(0.5)
    assert math.isnan(within_correlation([1, 1, 0, 0], [1, 0, 1, 0], list("aabb")))
    assert math.isnan(within_auc([1, 0], [1, 0], ["a", "b"]))
    assert math.isnan(within_correlation([], [], []))


def test_jackknife_of_a_mean_is_its_t_interval() -> None:
    """On a scale so wide that atanh is linear, delete-one of a mean gives the t interval of the group means."""
    from scipy.stats import ttest_1samp

    x = np.array([0.1, 0.5, 0.2, 0.9, 0.4])
    found = jackknife(lambda v: float(v.mean()), (x,), np.arange(5), scale=(-1000.0, 1000.0))
    expected = ttest_1samp(x, 0).confidence_interval()
    assert (found.low, found.high) == (pytest.approx(expected.low, abs=1e-5), pytest.approx(expected.high, abs=1e-5))
    assert math.isnan(jackknife(lambda v: float(v.mean()), (x[:2],), np.arange(2)).low)
    assert math.isnan(jackknife(lambda v: NAN, (x,), np.arange(5)).low)


def test_placebo_null_is_the_mean_over_all_permutations() -> None:
    v, c, p = [0, 0, 0, 1, 1, 1], [1, 0, 1, 1, 0, 1], [1, 1, 0, 1, 0, 0]
    effects = []
    for zeros in itertools.permutations(c[:3]):
        for ones in itertools.permutations(c[3:]):
            moved = [*zeros, *ones]
            effects.append(np.mean([m - a for m, a, kind in zip(moved, v, p, strict=True) if kind]))
    found = placebo_split(v, c, p)
    assert found.proper.effect == pytest.approx((1 + 0 + 0) / 3)
    assert found.proper.null == pytest.approx(np.mean(effects))
    assert found.proper.null_sd == pytest.approx(np.std(effects))
    assert math.isnan(placebo_split([1, 0], [1, 0], [1, 1]).improper.effect)
