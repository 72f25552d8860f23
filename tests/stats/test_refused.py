"""What estimators refuse: columns of unequal length, shapes that cannot be compared."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.helpers.rows import matched_effect
from tomserve.stats.accuracy import task_mean
from tomserve.stats.association import phi
from tomserve.stats.clustered import paired_effect
from tomserve.stats.paired import moderate_tests
from tomserve.stats.selection import above_all, sign_flips
from tomserve.stats.stability import stability


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: phi([1], [1, 0]), "equal lengths"),
        (lambda: matched_effect([1.0], [True, False], ["a"], ["s"]), "equal lengths"),
        (lambda: paired_effect([1.0], [1.0, 0.0], ["a"]), "equal lengths"),
        (lambda: task_mean([1, 0], [0.5], ["a", "a"], ["x", "y"]), "columns of one length"),
        (lambda: task_mean([], [], [], []), "at least one answer"),
        (lambda: sign_flips(np.zeros((5, 2)), np.arange(4)), "equal lengths"),
        (lambda: above_all(np.zeros((5, 2)), [np.zeros((5, 1))], range(5)), r"of shape \(5, 1\): expected \(5, 2\)"),
        (lambda: moderate_tests([0.1], [0.1, 0.2], [7]), "expected equal lengths"),
        (lambda: stability([0, 1], [0], ["a", "b"]), "equal lengths"),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[], object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()
