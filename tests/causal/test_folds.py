"""Folds by scenario, and partners of other scenarios."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tomserve.causal.folds import elsewhere, folds
from tomserve.errors import ConfigError

SCENARIOS = st.lists(st.integers(0, 12), min_size=1, max_size=80)


@given(SCENARIOS, st.integers(2, 5), st.integers(0, 3))
def test_a_scenario_lies_in_one_fold_and_no_fold_is_empty(clusters: list[int], k: int, seed: int) -> None:
    if len(set(clusters)) < k:
        with pytest.raises(
            ConfigError, match=f"about {len(set(clusters))} scenarios?, and {k} folds .* need at least {k}"
        ):
            folds(clusters, k, seed)
        return
    found = folds(clusters, k, seed)
    assert sorted(set(found)) == list(range(k))
    for scenario in set(clusters):
        assert len(set(found[np.array(clusters) == scenario])) == 1
    assert np.ptp(np.bincount(found)) <= max(np.bincount(clusters))  # no fold is ahead by more than one scenario


def test_folds_are_balanced_within_every_family() -> None:
    rng = np.random.default_rng(0)
    family = np.repeat(["contents", "transfer"], [60, 25])
    sizes = rng.integers(1, 5, 85)
    clusters, families = np.repeat(np.arange(85), sizes), np.repeat(family, sizes)
    found = folds(clusters, 5, 1, families.tolist())
    for name in ("contents", "transfer"):
        assert np.ptp(np.bincount(found[families == name], minlength=5)) <= 2
    assert np.ptp(np.bincount(found)) <= 3
    assert (found == folds(clusters, 5, 1, families.tolist())).all()
    assert (found != folds(clusters, 5, 2, families.tolist())).any()


@given(SCENARIOS, st.integers(0, 3))
def test_every_item_gets_one_of_another_scenario(clusters: list[int], seed: int) -> None:
    index = np.array(clusters)
    if 2 * np.bincount(index).max() > index.size:
        with pytest.raises(ConfigError, match="another scenario"):
            elsewhere(clusters, np.random.default_rng(seed))
        return
    partner = elsewhere(clusters, np.random.default_rng(seed))
    assert sorted(partner) == list(range(index.size))
    assert (index[partner] != index).all()


def test_where_exchanging_does_not_end_a_rotation_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tomserve.causal.folds.TRIES", 0)
    index = np.repeat(np.arange(4), [5, 3, 1, 1])
    partner = elsewhere(index, np.random.default_rng(0))
    assert sorted(partner) == list(range(10))
    assert (index[partner] != index).all()
