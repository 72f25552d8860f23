"""Effects adjusted for strata: GEE, Mantel-Haenszel, the pooled effect and its permutation test."""

import itertools
import math

import numpy as np
import pytest

from tests.helpers.drawn import drawn, study
from tests.helpers.rows import mantel_haenszel, matched_effect, permutation_p, pooled_effect, these_strata_effect
from tomserve.stats.clustered import units_share
from tomserve.stats.proportions import newcombe, square_and_add, wilson


def test_gee_agrees_with_the_balanced_difference() -> None:
    """Equal numbers of tasks in every stage: the standardised difference is the mean of stage differences."""
    columns = drawn(1, -0.9)
    these, new = these_strata_effect(*columns), matched_effect(*columns)
    assert these.estimate == pytest.approx(new.estimate, abs=1e-6)
    assert these.method == "GEE binomial, standardised, t 6 df"
    assert mantel_haenszel(*columns)[0] == pytest.approx(new.estimate)


def test_gee_without_logit_coefficients_reports_a_difference() -> None:
    y, arm, task, stage = drawn(1, -0.9)
    y[stage == 2] = 1.0
    found = these_strata_effect(y, arm, task, stage)
    assert found.method.startswith("GEE linear")
    assert found.low < found.estimate < found.high


def test_gee_whose_weights_vanish_falls_back() -> None:
    """The iteration runs to shares of 0 and 1 in every stratum: the differences of 1 and -1 have a mean of 0."""
    arm, task, stage = [0, 0, 1, 1, 0, 1, 1], [0, 0, 1, 2, 3, 4, 4], ["a"] * 4 + ["b"] * 3
    found = these_strata_effect([0, 0, 1, 1, 1, 0, 0], arm, task, stage)
    assert (found.estimate, found.method.endswith("(no residual variance)")) == (0.0, True)


def test_mantel_haenszel_by_hand() -> None:
    y = [1, 1, 0, 1, 0, 0, 1, 0, 0, 0]
    arm = [1, 1, 1, 0, 0, 0, 1, 1, 0, 0]
    difference, ratio = mantel_haenszel(y, arm, range(10), ["a"] * 6 + ["b"] * 4)
    # a: 2/3 against 1/3, weight 9/6; b: 1/2 against 0/2, weight 4/4
    assert difference == pytest.approx((1.5 / 3 + 0.5) / 2.5)
    assert ratio == pytest.approx((2 * 3 / 6 + 1 * 2 / 4) / (1 * 3 / 6 + 0))


SHARES = [(0.5, 1.0), (0.75, 1.0), (0.25, 0.75), (1.0, 1.0)]


def test_square_and_add_is_newcombe_for_wilson_intervals() -> None:
    expected = newcombe(5, 9, 2, 7)
    assert square_and_add(wilson(5, 9), wilson(2, 7)) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_pooled_effect_estimates_what_matching_does() -> None:
    columns = drawn(2, -0.7)
    found, plain = pooled_effect(*columns), matched_effect(*columns)
    assert found.estimate == pytest.approx(plain.estimate)
    assert (found.units, found.tasks, found.p_sign_flip) == (7, 70, plain.p_sign_flip)
    assert found.low < found.estimate < found.high


def test_pooled_bounds_by_hand() -> None:
    t, c = (np.array(column) for column in zip(*SHARES, strict=True))
    one, zero, r = units_share(t), units_share(c), np.corrcoef(t, c)[0, 1]
    down, up = one.estimate - one.low, zero.high - zero.estimate
    found = pooled_effect(*study(SHARES))
    assert found.low == pytest.approx(t.mean() - c.mean() - math.sqrt(down**2 - 2 * r * down * up + up**2))


def test_pooled_p_inverts_its_interval() -> None:
    columns = drawn(4, -0.5)
    p = pooled_effect(*columns).p
    at = pooled_effect(*columns, level=1 - p)
    assert 0 < p < 1
    assert min(abs(at.low), abs(at.high)) < 1e-6
    assert pooled_effect(*study([(0.5, 1.0), (1.0, 0.5), (0.25, 0.25)])).p == 1.0


def test_control_all_right_leaves_doubt() -> None:
    """All controls right says less than certainty: the interval reaches well beyond plain t."""
    columns = study([(1.0, 1.0)] * 6 + [(0.75, 1.0)])
    found, plain = pooled_effect(*columns), matched_effect(*columns)
    assert found.high > 0.3 > plain.high
    empty = np.array([])
    assert math.isnan(pooled_effect(empty, empty, empty, empty).low)
    assert math.isnan(permutation_p(empty, empty, empty, empty))
    everything = pooled_effect(*study([(1.0, 1.0)] * 7))
    assert (everything.low, everything.high) == (pytest.approx(-0.3543, abs=1e-4), pytest.approx(0.3543, abs=1e-4))
    assert everything.p == 1.0


def test_permutation_p_is_near_the_enumerated_one() -> None:
    shares = {"s": [0.0, 0.5, 1.0, 1.0], "u": [0.25, 0.75, 1.0]}  # the first of each is the control
    y, arm, task, stage = [], [], [], []
    for name, values in shares.items():
        for index, share in enumerate(values):
            y += [1.0] * round(4 * share) + [0.0] * (4 - round(4 * share))
            arm, task, stage = arm + [index > 0] * 4, task + [f"{name}{index}"] * 4, stage + [name] * 4

    def total(chosen: tuple[int, ...]) -> float:
        effects = []
        for pick, values in zip(chosen, shares.values(), strict=True):
            rest = [value for index, value in enumerate(values) if index != pick]
            effects.append(sum(rest) / len(rest) - values[pick])
        return sum(effects)

    every = [total(chosen) for chosen in itertools.product(range(4), range(3))]
    expected = np.mean([abs(value) >= total((0, 0)) - 1e-9 for value in every])
    found = permutation_p(y, arm, task, stage)
    assert found == pytest.approx(expected, abs=0.01)
    assert found == permutation_p(y, arm, task, stage)
    other_side = permutation_p([1 - value for value in y], arm, task, stage)
    assert other_side == pytest.approx(expected, abs=0.01)
    assert permutation_p([1.0, 1.0], [True, False], ["a", "b"], ["s", "s"]) == 1.0
    with pytest.raises(ValueError, match="in both arms"):
        permutation_p([1.0, 0.0], [True, False], ["a", "a"], ["s", "s"])


def test_two_strata_whose_means_lie_on_a_line_make_no_narrow_interval() -> None:
    """Any two points correlate by 1 or -1, which would make the bounds -.5 and 0 here, with a p of .02."""
    found = pooled_effect(*study([(0.0, 0.0), (0.5, 1.0)]))
    assert found.estimate == pytest.approx(-0.25)
    assert found.high > 0.2
    assert found.p > 0.3
