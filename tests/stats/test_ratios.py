"""Ratios of matched arms: published formulas, degenerate cases, coverage, and agreement with the difference."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from tomserve.stats.proportions import inverted_ratio, mover_ratio, ratio_from_difference, square_and_add, wilson

T, C = np.array([0.5, 0.75, 0.25, 0.9, 0.6]), np.array([0.9, 1.0, 0.7, 0.95, 0.9])


def test_inverted_ratio_holds_what_the_t_test_does_not_reject() -> None:
    found = inverted_ratio(T, C)
    assert found.estimate == pytest.approx(T.mean() / C.mean())
    for bound in (found.low, found.high):
        assert ttest_1samp(T - bound * C, 0).pvalue == pytest.approx(0.05, abs=1e-9)
    assert "t 4 df" in found.method


def test_a_control_share_near_zero_leaves_the_ratio_open() -> None:
    some = inverted_ratio([0.5, 0.5, 0.25, 0.25], [0.25, 0.0, 0.0, 0.0])
    assert "without an upper end" in some.method
    assert (some.low > 1, math.isinf(some.high)) == (True, True), "the difference is clear, so 1 is excluded"
    nothing = inverted_ratio([0.25, 0.0, 0.0, 0.25], [0.25, 0.0, 0.0, 0.0])
    assert (nothing.low, nothing.high) == (0.0, math.inf)
    assert "no ratio is excluded" in nothing.method
    open_end = inverted_ratio([0.5, 0.75, 0.75, 1.0], [0.0, 0.0, 0.0, 0.0])
    assert (math.isinf(open_end.estimate), open_end.low > 1, math.isinf(open_end.high)) == (True, True, True)
    zero = inverted_ratio([0.0, 0.0, 0.0], [0.5, 0.75, 1.0])
    assert (zero.estimate, zero.low, zero.high < 1) == (0.0, 0.0, True)
    assert zero.high > 0, "no share right is not a ratio of certainly zero"


def test_undefined_ratios() -> None:
    assert math.isnan(inverted_ratio([0.5], [1.0]).low)
    assert math.isnan(inverted_ratio([0.5, 0.75], [0.5, 0.75]).low), "equal in every unit: see from_difference"
    assert math.isnan(ratio_from_difference(0.0, 0.0, -0.1, 0.1).low)
    assert math.isnan(mover_ratio(wilson(0, 7), wilson(0, 7)).low)
    assert ratio_from_difference(0.5, 1.0, -0.7, -0.3).high == pytest.approx(0.7)
    assert ratio_from_difference(0.5, 0.0, 0.2, 0.8).low == pytest.approx(0.5 / 0.3)
    with pytest.raises(ValueError, match="equal length"):
        inverted_ratio([0.5], [0.5, 1.0])


def test_mover_ratio_is_where_square_and_add_reaches_zero() -> None:
    one, zero, r = wilson(5, 9), wilson(6, 7), 0.4
    found = mover_ratio(one, zero, r)

    def bounds(ratio: float) -> tuple[float, float]:
        scaled = type(zero)(ratio * zero.estimate, ratio * zero.low, ratio * zero.high, "")
        return square_and_add(one, scaled, r)

    assert bounds(found.low)[0] == pytest.approx(0, abs=1e-9)
    assert bounds(found.high)[1] == pytest.approx(0, abs=1e-9)


units = st.lists(st.tuples(*[st.integers(0, 8).map(lambda k: k / 8)] * 2), min_size=2, max_size=8)


@settings(max_examples=40)
@given(units)
def test_inverted_ratio_holds_one_exactly_when_the_t_interval_holds_zero(shares: list[tuple[float, float]]) -> None:
    t, c = (np.array(column) for column in zip(*shares, strict=True))
    found = inverted_ratio(t, c)
    if np.ptp(t - c) < 1e-12:
        assert math.isnan(found.low)
        return
    bounds = ttest_1samp(t - c, 0).confidence_interval()
    assert (found.low <= 1 <= found.high) == (bounds.low <= 0 <= bounds.high)
    assert 0 <= found.low <= found.estimate <= found.high
