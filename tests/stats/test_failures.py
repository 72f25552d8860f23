"""Differential failure: formulas by hand, degenerate cases, and level and power with few units."""

import math

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from tests.helpers.rows import matched_failures, paired_failures
from tomserve.stats.failures import family_p

RNG = 20
Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def columns(counts: np.ndarray, answers: int = 16) -> Columns:
    """Failed, treated, cluster, stratum of one control and one treated task a stage; counts [stages, 2] failed."""
    stages = len(counts)
    failed = (np.arange(answers) < counts.reshape(-1, 1)).astype(float).ravel()
    arm = np.tile(np.repeat([False, True], answers), stages)
    return failed, arm, np.repeat(np.arange(2 * stages), answers), np.repeat(np.arange(stages), 2 * answers)


def test_by_hand() -> None:
    counts = np.array([[0, 3], [1, 2], [0, 5], [2, 2]])
    scaled = np.arcsin(np.sqrt((counts + 0.375) / 16.75))
    d = scaled[:, 1] - scaled[:, 0]
    found = matched_failures(*columns(counts))
    assert found.units == 4
    assert found.p == pytest.approx(ttest_1samp(d, 0).pvalue)
    assert (found.mean, found.sd) == (pytest.approx(d.mean()), pytest.approx(d.std(ddof=1)))
    failed, arm, _, stratum = columns(counts)
    assert paired_failures(failed[arm], failed[~arm], stratum[arm]).p == pytest.approx(found.p)


def test_more_control_answers_are_no_difference() -> None:
    """No failure among 48 control and 16 treated answers a stage: the scale must not make a difference of it."""
    _, arm, cluster, stratum = columns(np.zeros((7, 2)))
    more = [np.concatenate([column, column[~arm], column[~arm]]) for column in (arm, cluster, stratum)]
    found = matched_failures(np.zeros(more[0].size), *more)
    assert (found.mean, found.p) == (0.0, 1.0)


def test_degenerate_cases() -> None:
    nothing = matched_failures([], [], [], [])
    assert (nothing.units, math.isnan(nothing.p)) == (0, True)
    one = matched_failures(*columns(np.array([[0, 16]])))
    assert (one.p, math.isnan(one.sd)) == (1.0, True), "one stage is no evidence about others"
    alike = matched_failures(*columns(np.array([[0, 16]] * 7)))
    assert alike.p == 2 / 2**7
    assert paired_failures([], [], []).units == 0


def simulated(rng: np.random.Generator, rates: list[float]) -> list[Columns]:
    """Failures of seven stages: the control's rate first; the stage and the task move the rates."""
    stage = rng.normal(0, 0.5, 7)
    logits = [math.log(rate / (1 - rate)) + stage + rng.normal(0, 0.5, 7) for rate in rates]
    control, *classes = (rng.binomial(16, 1 / (1 + np.exp(-logit))) for logit in logits)
    return [columns(np.column_stack([control, one])) for one in classes]


def test_level_and_power_by_class() -> None:
    rng = np.random.default_rng(RNG)
    null, null_together, plain, together = [], [], [], []
    for _ in range(30):
        found = [matched_failures(*of) for of in simulated(rng, [0.1] * 7)]
        null += [one.p <= 0.05 for one in found]
        null_together += [p <= 0.05 for p in family_p(found)]
        found = [matched_failures(*of) for of in simulated(rng, [0.02] + [0.15] * 6)]
        plain += [one.p <= 0.05 for one in found]
        together += [p <= 0.05 for p in family_p(found)]
    assert np.mean(null) <= 0.075
    assert np.mean(null_together) <= 0.1
    assert np.mean(plain) >= 0.55, "sign flips over seven stages find about .4"
    assert np.mean(together) >= np.mean(plain) + 0.02
