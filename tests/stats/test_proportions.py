"""Intervals of shares and of their differences, where tests/stats/test_stats.py does not check published figures."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tomserve.stats.proportions import tango, tango_excludes_zero


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


def test_tango_refuses_impossible_counts_with_and_without_its_ends() -> None:
    for asked in (tango, tango_excludes_zero):
        with pytest.raises(ValueError, match=r"gained 3, lost 2 of 4 pairs"):
            asked(3, 2, 4)
    assert not tango_excludes_zero(0, 0, 0)
