"""Verdicts on single classes: what is clear, and from how many units on anything is."""

import math

import polars as pl
import pytest

from tomserve.studies.contrasts import FEWEST_UNITS, class_verdict, contrast


def record(units: int, needed: int | None = None) -> dict:
    """A class whose difference is clear by its adjusted p, in so many units."""
    ends = {"risk_difference": -1.0, "rd_low": -1.0, "rd_high": -0.9, "worst_low": -1.0, "worst_high": -0.9}
    unknown = {"p_failure": math.nan, "minimum_detectable_effect": math.nan}
    return {**ends, **unknown, "p_adjusted": 0.01, "units_needed": needed, "units": units}


@pytest.mark.parametrize("units", range(1, FEWEST_UNITS))
def test_nothing_is_clear_with_too_few_units(units: int) -> None:
    said = class_verdict(record(units), ("harder", "easier"))
    assert said == f"cannot be decided with {units} stage{'s' * (units > 1)} (needs {FEWEST_UNITS})"
    assert str(class_verdict(record(units, 25), ("harder", "easier"))).endswith("(needs 25)")


def test_with_enough_units_the_same_difference_is_clear() -> None:
    assert class_verdict(record(FEWEST_UNITS), ("harder", "easier")) == "harder"


def test_tasks_that_fail_together_in_one_stage_are_one_observation() -> None:
    """In one of seven stages all eleven tasks fail with one strategy: eleven tasks, but one stage, tell against it."""
    rows = [
        {"cluster": f"{stage}/{task}", "stage": stage, "correct": True, "control": True}
        | {"faulty": stage == 0, "control_faulty": False}
        for stage in range(7)
        for task in range(11)
    ]
    assert contrast(pl.DataFrame(rows))["p_failure"] < 0.01
    assert contrast(pl.DataFrame(rows), "stage")["p_failure"] > 0.3
