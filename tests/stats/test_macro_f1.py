"""The macro-averaged F1: against values worked out by hand, and its interval against what it promises."""

from __future__ import annotations

import numpy as np
import pytest

from tomserve.stats.macro_f1 import constant_f1, guessed_f1, macro_f1, macro_f1_interval


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
