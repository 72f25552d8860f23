"""Verdicts on single classes: what is clear, and from how many units on anything is."""

import math

import pytest

from tomserve.studies.families import LEAST, verdict


def record(units: int, needed: int | None = None) -> dict:
    """A class whose difference is clear by its adjusted p, in so many units."""
    return {
        "risk_difference": -1.0,
        "p_adjusted": 0.01,
        "p_failure": math.nan,
        "rd_low": -1.0,
        "rd_high": -0.9,
        "worst_low": -1.0,
        "worst_high": -0.9,
        "minimum_detectable_effect": math.nan,
        "units_needed": needed,
        "units": units,
    }


@pytest.mark.parametrize("units", range(1, LEAST))
def test_nothing_is_clear_with_too_few_units(units: int) -> None:
    said = verdict(record(units), ("harder", "easier"))
    assert said == f"cannot be decided with {units} stage{'s' * (units > 1)} (needs {LEAST})"
    assert str(verdict(record(units, 25), ("harder", "easier"))).endswith("(needs 25)")


def test_with_enough_units_the_same_difference_is_clear() -> None:
    assert verdict(record(LEAST), ("harder", "easier")) == "harder"
