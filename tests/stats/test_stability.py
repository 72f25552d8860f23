"""Agreement of originals and variants: by hand, its invariances, answerers of known behaviour, and what it covers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tomserve.stats.proportions import wilson
from tomserve.stats.stability import agreement, difference_to_floor, stability, weighted_share

PAIRS = st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 3), st.integers(0, 6)), min_size=2, max_size=40)


def test_by_hand() -> None:
    original, variant = [0, 0, 0, 1, 1, -1, 2, 2], [0, 0, 1, 1, 0, -1, 2, -1]
    found = stability(original, variant, range(8))
    assert found.share.estimate == 4 / 8  # an unreadable answer agrees with nothing, not even with another one
    assert found.expected == pytest.approx((3 * 3 + 2 * 2 + 2 * 1) / 64)
    assert found.kappa.estimate == pytest.approx((4 / 8 - 15 / 64) / (1 - 15 / 64))
    assert found.kappa.low < found.kappa.estimate < found.kappa.high


def test_kappa_is_cohens_where_everything_can_be_read() -> None:
    """Cohen (1960), table 1: agreement .70, expected .41 of two judges who sort into three categories; kappa .492."""
    table = np.array([[88, 14, 18], [10, 40, 10], [2, 6, 12]])
    original, variant = (np.repeat(codes, table.ravel()) for codes in np.indices(table.shape).reshape(2, -1))
    found = stability(original, variant, range(200))
    assert found.share.estimate == pytest.approx(0.70)
    assert found.expected == pytest.approx(0.41)
    assert found.kappa.estimate == pytest.approx(0.4915, abs=1e-4)


def test_whoever_always_gives_one_answer_has_no_kappa() -> None:
    found = stability([1] * 9, [1] * 9, range(9))
    assert (found.share.estimate, found.expected) == (1, 1)
    assert math.isnan(found.kappa.estimate)
    assert "all answers are one" in found.kappa.method


def test_whoever_keeps_every_answer_has_an_interval_of_some_width() -> None:
    answers = [0, 1, 2] * 10
    found = stability(answers, answers, range(30))
    assert (found.share.estimate, found.kappa.estimate, found.kappa.high) == (1, 1, 1)
    assert found.share.low < 0.95
    assert found.kappa.low < 0.9


def test_nothing_and_one_pair() -> None:
    assert math.isnan(stability([], [], []).kappa.estimate)
    assert math.isnan(stability([], [], []).share.low)
    one = stability([0], [1], ["a"])
    assert (one.share.estimate, one.kappa.estimate) == (0, 0)
    assert -1 <= one.kappa.low <= one.kappa.high <= 1


@settings(max_examples=40)
@given(PAIRS)
def test_it_is_symmetric_and_ignores_order_and_names(pairs: list[tuple[int, int, int]]) -> None:
    original, variant, cluster = map(np.array, zip(*pairs, strict=True))
    found = stability(original, variant, cluster)
    rename = np.array([2, 0, 3, 1])
    others = (
        stability(variant, original, cluster),
        stability(original[::-1], variant[::-1], cluster[::-1]),
        stability(*(np.where(side < 0, -1, rename[side]) for side in (original, variant)), cluster + 100),
    )
    for other in others:
        for one, two in ((found.share, other.share), (found.kappa, other.kappa)):
            assert (one.estimate, one.low, one.high) == pytest.approx((two.estimate, two.low, two.high), nan_ok=True)
    assert found.share.estimate == agreement(original, variant).mean()
    assert 0 <= found.share.low <= found.share.estimate + 1e-9
    assert found.share.estimate <= found.share.high + 1e-9 <= 1 + 2e-9
    if not math.isnan(found.kappa.estimate):
        assert -1 <= found.kappa.low <= found.kappa.estimate + 1e-9
        assert found.kappa.estimate <= found.kappa.high + 1e-9 <= 1 + 2e-9


def test_parts_count_the_same_however_many_answers_they_have() -> None:
    outcome, part = [1, 1, 1, 1, 1, 1, 0, 0], ["many"] * 6 + ["few"] * 2
    found = weighted_share(outcome, range(8), part)
    assert found.estimate == pytest.approx(0.5)
    assert found.low < 0.5 < found.high
    twice = weighted_share(outcome * 2, [*range(8)] * 2, part * 2)  # every cluster says the same in both parts
    assert twice.high - twice.low > 0.8 * (found.high - found.low)


def test_the_difference_from_the_floor_is_that_of_the_two_shares() -> None:
    share, floor = wilson(80, 100), wilson(100, 100)
    found = difference_to_floor(share, floor)
    assert found.estimate == pytest.approx(-0.2)
    assert -0.3 < found.low < -0.2 < found.high < -0.1
    same = difference_to_floor(floor, floor)
    assert same.low < 0 < same.high
