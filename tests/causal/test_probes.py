"""Probes: what they read, what they cannot, and that no scenario vouches for itself, as folds keep it together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tomserve.causal.projection import ProbeResult, assign_folds, draw_partners, probe
from tomserve.errors import ConfigError


def some(seed: int, signal: float, width: int = 40, groups: int = 60) -> tuple[np.ndarray, ...]:
    """States of groups of four whose label (of three) shows in one direction each; then labels, folds, groups."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), 4)
    labels = rng.integers(0, 3, group.size)
    states = rng.normal(size=(group.size, width))
    states[:, :3] += signal * np.eye(3)[labels]
    return states + 5, labels, assign_folds(group, 5, seed), group


def share(answers: tuple[bool | None, ...]) -> float:
    return float(np.mean([one for one in answers if one is not None]))


def test_what_is_there_is_read_and_neither_the_control_task_nor_what_is_not_there() -> None:
    found = probe(*some(0, 6.0), seed=0)
    assert share(found.right) > 0.95
    assert share(found.shuffled) < 0.5
    assert found.chance.mean() == pytest.approx(1 / 3, abs=0.08)
    assert abs(share(probe(*some(1, 0.0), seed=0).right) - 1 / 3) < 0.12


def test_nothing_of_a_fold_enters_its_own_probe() -> None:
    states, labels, fold, group = some(3, 1.0)
    before = probe(states, labels, fold, group, seed=0)
    changed = labels.copy()
    changed[fold == 2] = (changed[fold == 2] + 1) % 3
    after = probe(states, changed, fold, group, seed=0)
    one, other = (np.array(found.right)[fold == 2].astype(bool) for found in (before, after))
    assert not (one & other).any(), "the same reading cannot be right for both labels"
    assert one.any()


def test_true_and_shuffled_labels_are_counted_over_the_same_states() -> None:
    """A label that one group alone has is never known in training, as a true label or as one of the control task."""
    states, labels, fold, group = some(5, 3.0)
    alone = np.flatnonzero(fold == 0)[:20]
    group[alone], labels[alone] = 99, 3
    found = probe(states, labels, fold, group, seed=0)
    known = [[one is not None for one in answers] for answers in (found.right, found.shuffled)]
    assert known[0] == known[1] == np.isfinite(found.chance).tolist()
    assert not np.array(known[0])[alone].any()
    assert sum(known[0]) == labels.size - 40, "its twenty states, and twenty of other scenarios that get its label"


def test_unknown_labels_take_no_part() -> None:
    states, labels, fold, group = some(4, 3.0)
    labels[::7] = -1
    found = probe(states, labels, fold, group, seed=0)
    for answers in (found.right, found.shuffled):
        assert [one is None for one in answers] == (labels < 0).tolist()
    assert np.isnan(found.chance[labels < 0]).all()
    kept = labels >= 0
    alone = probe(states[kept], labels[kept], fold[kept], group[kept], seed=0)
    assert alone.right == tuple(one for one in found.right if one is not None)


def test_the_control_task_gives_labels_of_other_scenarios() -> None:
    """Where a label is one with its scenario, and states with it, the control task does not learn it by the way."""
    rng = np.random.default_rng(6)
    group = np.repeat(np.arange(80), 3)
    labels = np.repeat(rng.integers(0, 2, 80), 3)
    states = rng.normal(size=(240, 30))
    states[:, 0] += 6 * labels
    found = probe(states, labels, assign_folds(group, 5), group, seed=1)
    assert share(found.right) > 0.95
    assert 0.3 < share(found.shuffled) < 0.65


def test_of_the_labels_that_a_state_is_offered_one_is_read() -> None:
    """Two labels of thirty are offered to each state; without a signal half are right, which the control task knows."""
    rng = np.random.default_rng(9)
    group = np.repeat(np.arange(150), 2)
    names = np.array([rng.permutation(30)[:2] for _ in range(150)])[group]
    labels = names[np.arange(300), rng.integers(0, 2, 300)]
    offered = np.zeros((300, 30), dtype=bool)
    np.put_along_axis(offered, names, True, axis=1)
    noise, fold = rng.normal(size=(300, 40)), assign_folds(group, 5)
    blind = probe(noise, labels, fold, group, 0, offered)
    assert 0.35 < np.mean(blind.right) < 0.65
    assert 0.35 < np.mean(blind.shuffled) < 0.65
    seen = probe(noise + 4 * np.eye(30, 40)[labels], labels, fold, group, 0, offered)
    assert np.mean(seen.right) > 0.95
    assert 0.35 < np.mean(seen.shuffled) < 0.65
    assert seen.chance.mean() == pytest.approx(0.5, abs=0.1)


def test_what_is_never_right_is_known_to_the_control_task_too() -> None:
    """Every state is offered a label that is never right: knowing that is no reading."""
    rng = np.random.default_rng(10)
    group = np.repeat(np.arange(120), 2)
    labels = rng.integers(0, 2, 240)
    offered = np.ones((240, 3), dtype=bool)
    found = probe(rng.normal(size=(240, 20)), labels, assign_folds(group, 5), group, 0, offered)
    assert abs(np.mean(found.right) - np.mean(found.shuffled)) < 0.1
    assert np.mean(found.shuffled) > 0.4


def test_where_there_is_nothing_to_learn_and_what_is_refused() -> None:
    states, labels, fold, group = some(8, 1.0)
    nothing = probe(states, np.zeros_like(labels), fold, group, seed=0)
    assert nothing == ProbeResult((None,) * len(labels), (None,) * len(labels), nothing.chance)
    assert np.isnan(nothing.chance).all()
    few = some(7, 4.0, groups=10)
    most = np.array([0] * 24 + [1] * 8 + [2] * 8)
    assert None not in probe(few[0], few[1], most, most, seed=0).shuffled, "one scenario has most of the states"
    with pytest.raises(ValueError, match="scenario 0 lies in 4 folds: expected 1"):
        probe(states, labels, np.arange(len(fold)) % 5, group, seed=0)
    with pytest.raises(ValueError, match="not offered its own label"):
        probe(states, labels, fold, group, 0, np.zeros((len(fold), 3), dtype=bool))


# Folds by scenario, and partners of other scenarios


SCENARIOS = st.lists(st.integers(0, 12), min_size=1, max_size=80)


@given(SCENARIOS, st.integers(2, 5), st.integers(0, 3))
def test_a_scenario_lies_in_one_fold_and_no_fold_is_empty(clusters: list[int], k: int, seed: int) -> None:
    if len(set(clusters)) < k:
        with pytest.raises(
            ConfigError, match=f"about {len(set(clusters))} scenarios?, and {k} folds .* need at least {k}"
        ):
            assign_folds(clusters, k, seed)
        return
    found = assign_folds(clusters, k, seed)
    assert sorted(set(found)) == list(range(k))
    for scenario in set(clusters):
        assert len(set(found[np.array(clusters) == scenario])) == 1
    assert np.ptp(np.bincount(found)) <= max(np.bincount(clusters))  # no fold is ahead by more than one scenario


def test_folds_are_balanced_within_every_family() -> None:
    rng = np.random.default_rng(0)
    family = np.repeat(["contents", "transfer"], [60, 25])
    sizes = rng.integers(1, 5, 85)
    clusters, families = np.repeat(np.arange(85), sizes), np.repeat(family, sizes)
    found = assign_folds(clusters, 5, 1, families.tolist())
    for name in ("contents", "transfer"):
        assert np.ptp(np.bincount(found[families == name], minlength=5)) <= 2
    assert np.ptp(np.bincount(found)) <= 3
    assert (found == assign_folds(clusters, 5, 1, families.tolist())).all()
    assert (found != assign_folds(clusters, 5, 2, families.tolist())).any()


@given(SCENARIOS, st.integers(0, 3))
def test_every_item_gets_one_of_another_scenario(clusters: list[int], seed: int) -> None:
    index = np.array(clusters)
    if 2 * np.bincount(index).max() > index.size:
        with pytest.raises(ConfigError, match="another scenario"):
            draw_partners(clusters, np.random.default_rng(seed))
        return
    partner = draw_partners(clusters, np.random.default_rng(seed))
    assert sorted(partner) == list(range(index.size))
    assert (index[partner] != index).all()
