"""The max-statistic: by hand, its invariances, how often it errs, and what it finds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tomserve.stats.selection import above_all, sign_flips


def test_against_all_patterns_of_signs() -> None:
    rng = np.random.default_rng(0)
    effects, clusters = rng.normal(0.2, 1, (15, 3)), np.arange(15) % 6
    sums = np.array([effects[clusters == one].sum(axis=0) for one in range(6)])
    null = [(np.array(signs) @ sums).max() / 15 for signs in itertools.product((-1, 1), repeat=6)]
    found = sign_flips(effects, clusters, draws=20_000)
    assert found.value == pytest.approx(effects.mean(axis=0).max())
    assert found.cell == effects.mean(axis=0).argmax()
    assert found.p == pytest.approx(np.mean(np.array(null) >= found.value - 1e-12), abs=0.015)
    assert min(null) < found.null_95 <= max(null)


def test_one_cell_that_works_is_found() -> None:
    rng = np.random.default_rng(3)
    effects = rng.choice([-1.0, 0, 1], (100, 45), p=[0.1, 0.8, 0.1])
    effects[:, 17] = rng.choice([0.0, 1], 100, p=[0.6, 0.4])
    found = sign_flips(effects, np.arange(100))
    assert (found.cell, found.p) == (17, 1 / 2001)
    assert found.value > found.null_95


def test_effects_of_zero_are_no_evidence() -> None:
    assert sign_flips(np.zeros((10, 4)), np.arange(10)).p == 1


@pytest.mark.parametrize("effects", [np.zeros((0, 3)), np.zeros((5, 0)), np.full((5, 2), np.nan), np.zeros(5)])
def test_what_cannot_be_tested_is_refused(effects: np.ndarray) -> None:
    with pytest.raises(ValueError, match="expected finite numbers"):
        sign_flips(effects, np.arange(len(effects)))


def test_to_exceed_one_control_here_and_another_there_is_not_to_exceed_both() -> None:
    """Two cells; each control does in one of them what the measure does, and nothing in the other."""
    rng = np.random.default_rng(4)
    effects = rng.choice([0.0, 1], (80, 2), p=[0.4, 0.6])
    one, two = effects * [1, 0], effects * [0, 1]
    assert max(sign_flips(effects - other, range(80)).p for other in (one, two)) < 0.001
    assert above_all(effects, [one, two], range(80)).p == 1
    found = above_all(effects, [one, one], range(80))
    assert (found.cell, found.p) == (1, 1 / 2001)
    assert found.value == pytest.approx(effects[:, 1].mean())


def test_against_nothing_else_it_is_the_same_test_and_doing_nothing_is_always_there() -> None:
    rng = np.random.default_rng(5)
    effects, clusters = rng.normal(0.1, 1, (60, 10)), np.repeat(np.arange(20), 3)
    assert above_all(effects, [], clusters) == sign_flips(effects, clusters)
    harm = np.full((60, 10), -1.0)
    assert above_all(np.zeros((60, 10)), [harm], clusters).p == 1, "to be less bad than a control is no effect"


def test_above_all_errs_as_often_as_it_says_where_which_control_does_as_much_differs() -> None:
    """In each cell one of four controls does as much on average; p is below .05 in 5% of draws at most."""
    rng = np.random.default_rng(6)
    below = 0
    for _ in range(80):
        effects = rng.choice([-1.0, 0, 1], (40, 8), p=[0.1, 0.5, 0.4])
        controls = [rng.choice([-1.0, 0, 1], (40, 8), p=[0.1, 0.8, 0.1]) for _ in range(4)]
        for cell in range(8):
            controls[cell % 4][:, cell] = rng.choice([-1.0, 0, 1], 40, p=[0.1, 0.5, 0.4])
        below += above_all(effects, controls, np.arange(40), draws=99, seed=int(rng.integers(1 << 30))).p <= 0.05
    assert below <= 8
