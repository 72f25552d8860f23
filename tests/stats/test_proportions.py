"""Intervals of shares, differences and ratios: published worked examples, degenerate cases, properties."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from tomserve.stats.proportions import (
    Interval,
    correct_detections,
    inverted_ratio,
    mover_ratio,
    newcombe,
    ratio_from_difference,
    square_and_add,
    tango,
    tango_excludes_zero,
    wilson,
)


def near(found: Interval, low: float, high: float, abs: float = 0.0005) -> bool:
    return (found.low, found.high) == (pytest.approx(low, abs=abs), pytest.approx(high, abs=abs))


def test_newcombe_unpaired_as_published() -> None:
    """Newcombe, Stat Med 17:873 (1998), table II, method 10; figures as in the R package propint's tests."""
    assert near(newcombe(56, 70, 48, 80), 0.0524, 0.3339, abs=0.00005)
    assert near(newcombe(9, 10, 3, 10), 0.1705, 0.8090, abs=0.00005)


def test_tango_as_published() -> None:
    """Cavo et al. in R contingencytables' tests; Fagerland et al. (2014), airways; Tango (1998), lenses, 90 %."""
    assert near(tango(6, 16, 161), -0.1240, -0.0054, abs=0.00005)
    assert near(tango(1, 7, 21), -0.517, -0.026)
    assert near(tango(0, 1, 44, level=0.9), -0.096, 0.037)


@pytest.mark.parametrize(
    "call",
    [lambda: wilson(3, 2), lambda: newcombe(-1, 4, 0, 4), lambda: tango(3, 2, 4), lambda: tango_excludes_zero(3, 2, 4)],
)
def test_impossible_counts_are_refused(call) -> None:
    with pytest.raises(ValueError, match=r"expected|negative"):
        call()


arm = st.integers(1, 12).flatmap(lambda n: st.tuples(st.integers(0, 2 * n).map(lambda k: k / 2), st.just(n)))


cells = st.tuples(*[st.integers(0, 9)] * 4).filter(lambda c: sum(c) > 0)


@given(arm)
def test_wilson_holds_its_estimate(found: tuple[float, int]) -> None:
    interval, mirror = wilson(*found), wilson(found[1] - found[0], found[1])
    assert 0 <= interval.low <= interval.estimate <= interval.high <= 1
    assert interval.low == pytest.approx(1 - mirror.high)


@given(arm, arm)
def test_unpaired_intervals_hold_their_estimate_and_swap(one: tuple[float, int], two: tuple[float, int]) -> None:
    found, mirror = newcombe(*one, *two), newcombe(*two, *one)
    assert -1 <= found.low <= found.estimate + 1e-12
    assert found.estimate - 1e-12 <= found.high <= 1
    assert (found.low, found.high) == (pytest.approx(-mirror.high), pytest.approx(-mirror.low))


@given(cells)
def test_paired_intervals_hold_their_estimate_and_swap(found: tuple[int, int, int, int]) -> None:
    _, gained, lost, _ = found
    interval, mirror = tango(gained, lost, sum(found)), tango(lost, gained, sum(found))
    assert -1 <= interval.low <= interval.estimate + 1e-9
    assert interval.estimate - 1e-9 <= interval.high <= 1
    assert (interval.low, interval.high) == pytest.approx((-mirror.high, -mirror.low), abs=1e-9)


@given(
    st.floats(0, 30),
    st.floats(0, 30),
    st.floats(0, 60),
    st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.9999, 1 - 1e-12]),
)
def test_whether_tangos_interval_excludes_zero_is_known_without_its_ends(
    gained: float, lost: float, alike: float, level: float
) -> None:
    n = gained + lost + alike
    found = tango(gained, lost, n, level)
    assume(
        math.isnan(found.low) or min(abs(found.low), abs(found.high)) > 1e-9
    )  # nearer to 0 it is a matter of rounding
    assert tango_excludes_zero(gained, lost, n, level) == (found.low > 0 or found.high < 0)


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


def test_a_share_that_was_detected_is_corrected_by_recall_and_false_alarms() -> None:
    found, recall, alarms = wilson(50, 100), wilson(80, 100), wilson(10, 100)
    value, low, high = correct_detections(found, recall, alarms)
    assert value == pytest.approx((0.5 - 0.1) / (0.8 - 0.1))
    assert low == pytest.approx((found.low - alarms.high) / (recall.high - alarms.high))
    assert high == pytest.approx((found.high - alarms.low) / (recall.low - alarms.low))
    assert correct_detections(wilson(5, 100), recall, alarms)[0] == 0.0, "fewer than false alarms alone would give"
    assert correct_detections(found, wilson(8, 10), wilson(7, 10))[1:] == (0.0, 1.0), "they may be alike"
    assert math.isnan(correct_detections(found, wilson(0, 0), alarms)[0])
