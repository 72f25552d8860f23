"""Every move of a layer: what is held out, what norm it has, and that a planted map is told from its controls."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tomserve.causal import table
from tomserve.causal.projection import assign_folds
from tomserve.causal.steering import PUBLISHED_ALPHAS, TRANSFER_LEAST, FitRow, LayerStates, Step, steps
from tomserve.causal.table import CONTROLS, HELD_OUT, IN_SAMPLE, PPT, TO_FALSE, TO_TRUE, TRUE_PAIRS

ALPHAS = (1e-3, 0.1, 10.0)
N, D = 90, 24


def a_layer(seed: int = 0, n: int = N, d: int = D) -> LayerStates:
    """States in which y = W x for a W that is not symmetric, of lower rank, in two families of scenarios of two."""
    rng = np.random.default_rng(seed)
    w = np.triu(rng.normal(size=(d, d)))
    w[:, : d // 3] = 0
    x, other = rng.normal(size=(n, d)) + 1, rng.normal(size=(n, d)) + 1
    y, own_twin = (of @ w.T + 0.01 * rng.normal(size=(n, d)) for of in (x, other))
    twin = rng.normal(size=(n, d))
    twin[3] = np.nan
    families = ("contents",) * (n // 2) + ("transfer",) * (n - n // 2)
    return LayerStates(x, y, own_twin, twin, np.arange(n) // 2 + 7, families)


@pytest.fixture(scope="module")
def layer() -> LayerStates:
    return a_layer()


@pytest.fixture(scope="module")
def held(layer: LayerStates) -> np.ndarray:
    return assign_folds(layer.clusters, 5, 0, layer.families)


@pytest.fixture(scope="module")
def both(layer: LayerStates, held: np.ndarray) -> tuple[list[Step], list[FitRow]]:
    return steps(layer, held, ALPHAS, 0)


@pytest.fixture(scope="module")
def made(both: tuple[list[Step], list[FitRow]]) -> list[Step]:
    return both[0]


@pytest.fixture(scope="module")
def fits(both: tuple[list[Step], list[FitRow]]) -> list[FitRow]:
    return both[1]


def the(made: list[Step], name: str, target: str | None, alpha: float | None, fitted: str = HELD_OUT) -> np.ndarray:
    (found,) = [s.delta for s in made if (s.map, s.target, s.alpha, s.fitted) == (name, target, alpha, fitted)]
    return found


def test_every_map_of_the_table_is_there_once_for_each_target_and_strength(made: list[Step]) -> None:
    keys = [(s.map, s.target, s.alpha, s.fitted) for s in made]
    assert len(set(keys)) == len(keys)
    assert {s.map for s in made} == set(table.MAPS)
    for name in (PPT, table.REPLACE, *CONTROLS):
        for target in (TO_TRUE, TO_FALSE):
            assert [k[2] for k in keys if k[0] == name and k[1] == target and k[3] == HELD_OUT] == list(ALPHAS)
    plain = {(k[0], k[1]) for k in keys if k[2] is None}
    assert plain == {
        (table.NO_OP, None), (table.PATCH, TO_TRUE), (table.PATCH, TO_FALSE), (table.PATCH_TWIN, TO_TRUE),
        (table.REPLACE_NO_OP, None),
    }  # fmt: skip
    published = {(k[0], k[2]) for k in keys if k[3] == IN_SAMPLE}
    assert published == set(itertools.product((table.REPLACE, table.SHUFFLED_PAIRS, table.IDENTITY), PUBLISHED_ALPHAS))
    assert {k[0] for k in keys if k[3] == "contents"} == {PPT, table.SHUFFLED_PAIRS, table.IDENTITY}
    held_out = {s.map for s in made if s.replaces and s.fitted == HELD_OUT}
    assert held_out == {table.REPLACE, table.REPLACE_NO_OP}
    assert all(s.replaces for s in made if s.fitted == IN_SAMPLE)


def test_moves_are_the_closed_form_of_a_map_fitted_without_the_fold(
    layer: LayerStates, held: np.ndarray, made: list[Step], fits: list[FitRow]
) -> None:
    """By plain matrices: argmin |W z - goal|^2 + a |z - x|^2, minus x; for W = I within what W sees the goal is
    W (y~ - shift), and the step is as long as the map's, and at most as long as the whole step within what W sees."""
    for fold in range(5):
        (penalty,) = [r.penalty for r in fits if (r.map, r.fold) == (PPT, fold)]
        train, test = held != fold, held == fold
        x, y = layer.false[train], layer.own[train]
        w = np.linalg.solve(x.T @ x + penalty * np.eye(D), x.T @ y).T
        for target, goal in ((TO_TRUE, layer.own_twin), (TO_FALSE, layer.own)):
            for alpha in ALPHAS:
                inner = w.T @ w + alpha * np.eye(D)
                expected = np.linalg.solve(inner, w.T @ (goal[test] - layer.false[test] @ w.T).T).T
                found = the(made, PPT, target, alpha)[test]
                assert found == pytest.approx(expected, rel=1e-4, abs=1e-4)
                like_x = goal[test] - (y.mean(axis=0) - x.mean(axis=0))
                step = np.linalg.solve(inner, w.T @ w @ (like_x - layer.false[test]).T).T
                whole = np.linalg.norm(
                    (like_x - layer.false[test]) @ np.linalg.pinv(w, 1e-9) @ w, axis=1, keepdims=True
                )
                length = np.minimum(np.linalg.norm(found, axis=1, keepdims=True), whole)
                step *= length / np.linalg.norm(step, axis=1, keepdims=True)
                assert the(made, table.SEEN_IDENTITY, target, alpha)[test] == pytest.approx(step, rel=2e-3, abs=2e-3)


def test_nothing_of_an_item_enters_its_own_map(layer: LayerStates, held: np.ndarray, made: list[Step]) -> None:
    """Another y of one item changes the moves of all other folds, and no move towards y~ of its own fold."""
    item = 11
    own = layer.own.copy()
    own[item] += 50
    again = steps(replace(layer, own=own), held, ALPHAS, 0)[0]
    inside = held == held[item]
    for name in (PPT, table.RANDOM_MAP, table.SHUFFLED_PAIRS, table.SHIFTED_IDENTITY, table.MEAN_DIFFERENCE):
        target, same = TO_TRUE, inside
        if name == table.MEAN_DIFFERENCE:  # of the item itself the norm is that of a move towards the changed y
            target, same = TO_FALSE, inside & (np.arange(N) != item)
        before, after = the(made, name, target, 0.1), the(again, name, target, 0.1)
        assert (before[same] == after[same]).all(), name
        assert not np.isclose(before[~inside], after[~inside]).all(), name
    replaced = [the(one, table.REPLACE, TO_TRUE, 1e-2, IN_SAMPLE) for one in (made, again)]
    assert not np.isclose(*replaced).all()


def test_a_pointer_shows_in_the_map_of_true_pairs_alone_and_any_target_does_as_much() -> None:
    """What others and you hold is which state counts, the first or the present one, by two codes."""
    rng, n = np.random.default_rng(3), 60
    theirs, yours = np.split(np.linalg.qr(rng.normal(size=(D, 4)))[0].T, 2)
    first, now = (lambda code, at=at: code[at] + 0.1 * rng.normal(size=(n, D)) for at in (0, 1))
    layer = LayerStates(first(theirs), first(yours), now(yours), now(theirs), np.arange(n), ("all",) * n)
    made = steps(layer, assign_folds(layer.clusters, 5, 0), (0.1,), 0, (0.1,))[0]

    def reads(name: str, fitted: str) -> float:
        return float(np.median(the(made, name, TO_TRUE, 0.1, fitted) @ theirs[1]))

    assert reads(PPT, TRUE_PAIRS) > 0.6 > 0.2 > reads(PPT, HELD_OUT)
    assert reads(table.SHUFFLED_TARGET, TRUE_PAIRS) == pytest.approx(reads(PPT, TRUE_PAIRS), rel=0.1)


def test_what_is_published_replaces_the_state_by_a_map_of_all_items_with_the_printed_penalty(
    layer: LayerStates, made: list[Step]
) -> None:
    x, y = layer.false, layer.own
    w = np.linalg.solve(x.T @ x + 1e-4 * np.eye(D), x.T @ y).T
    for target, goal in ((TO_TRUE, layer.own_twin), (TO_FALSE, layer.own)):
        for alpha in (1e-4, 1e-2):
            z = np.linalg.solve(w.T @ w + alpha * np.eye(D), (goal @ w + alpha * x).T).T
            assert the(made, table.REPLACE, target, alpha, IN_SAMPLE) == pytest.approx(z, rel=1e-3, abs=1e-3)
            between = (goal + alpha * x) / (1 + alpha)
            assert the(made, table.IDENTITY, target, alpha, IN_SAMPLE) == pytest.approx(between, rel=1e-4, abs=1e-4)


def test_controls_are_what_they_are_called_and_as_long_as_the_map_or_as_their_whole_step(
    layer: LayerStates, held: np.ndarray, made: list[Step]
) -> None:
    def cosines(name: str, target: str, direction: np.ndarray) -> np.ndarray:
        delta = the(made, name, target, 0.1)
        return (delta * direction).sum(1) / np.linalg.norm(delta, axis=1) / np.linalg.norm(direction, axis=1)

    for target, goal in ((TO_TRUE, layer.own_twin), (TO_FALSE, layer.own)):
        shift = np.stack([(layer.own - layer.false)[held != fold].mean(axis=0) for fold in held])
        means = np.stack([(goal - layer.false)[held != fold].mean(axis=0) for fold in held])
        whole = {table.IDENTITY: goal - layer.false, table.SHIFTED_IDENTITY: goal - layer.false - shift}
        whole[table.MEAN_DIFFERENCE] = means
        for alpha in ALPHAS:
            norms = np.linalg.norm(the(made, PPT, target, alpha), axis=1)
            for name in set(CONTROLS) - {table.SEEN_IDENTITY}:
                most = np.minimum(norms, np.linalg.norm(whole[name], axis=1)) if name in whole else norms
                assert np.linalg.norm(the(made, name, target, alpha), axis=1) == pytest.approx(most, rel=1e-5), name
        assert cosines(table.IDENTITY, target, goal - layer.false) == pytest.approx(1)
        assert cosines(table.MEAN_DIFFERENCE, target, means) == pytest.approx(1)
        assert cosines(table.SHIFTED_IDENTITY, target, goal - layer.false - shift) == pytest.approx(1)
    assert cosines(table.SEEN_IDENTITY, TO_TRUE, the(made, PPT, TO_TRUE, 0.1)).mean() < 0.9, "the planted map is none"
    assert np.abs(cosines(table.RANDOM_DIRECTION, TO_TRUE, layer.own_twin - layer.false)).mean() < 0.3
    for name in (table.RANDOM_MAP, table.SHUFFLED_PAIRS, table.SHUFFLED_TARGET):
        assert cosines(name, TO_TRUE, the(made, PPT, TO_TRUE, 0.1)).mean() < 0.8, name


def test_references(layer: LayerStates, made: list[Step]) -> None:
    assert (the(made, table.NO_OP, None, None) == 0).all()
    assert the(made, table.REPLACE_NO_OP, None, None) == pytest.approx(layer.false, rel=1e-6)
    assert layer.false + the(made, table.PATCH, TO_TRUE, None) == pytest.approx(layer.own_twin, abs=1e-5)
    assert layer.false + the(made, table.PATCH, TO_FALSE, None) == pytest.approx(layer.own, abs=1e-5)
    patched = the(made, table.PATCH_TWIN, TO_TRUE, None)
    assert np.isnan(patched[3]).all()
    assert np.isfinite(np.delete(patched, 3, axis=0)).all()
    moved = layer.false + the(made, PPT, TO_TRUE, 0.1)
    assert the(made, table.REPLACE, TO_TRUE, 0.1) == pytest.approx(moved, abs=1e-5)


def test_transfer_moves_the_other_family_by_maps_of_the_first(layer: LayerStates, made: list[Step]) -> None:
    first = np.array([one == "contents" for one in layer.families])
    shared = np.isin(layer.clusters, layer.clusters[first])  # a scenario that both families tell is in neither test
    for name in (PPT, table.SHUFFLED_PAIRS, table.IDENTITY):
        delta = the(made, name, TO_TRUE, 0.1, "contents")
        assert np.isnan(delta[first | shared]).all()
        assert np.isfinite(delta[~(first | shared)]).all()
    assert (shared & ~first).any()
    norms = [np.linalg.norm(the(made, name, TO_TRUE, 0.1, "contents"), axis=1) for name in (PPT, table.IDENTITY)]
    whole = np.linalg.norm(layer.own_twin - layer.false, axis=1)
    assert np.minimum(norms[0], whole + 0 * norms[0]) == pytest.approx(norms[1], rel=1e-5, nan_ok=True)


def test_a_small_family_takes_no_part_in_transfer(layer: LayerStates, held: np.ndarray) -> None:
    few = ("contents",) * (TRANSFER_LEAST - 1) + ("transfer",) * (N - TRANSFER_LEAST + 1)
    made, rows = steps(replace(layer, families=few), held, (0.1,), 0)
    assert {s.fitted for s in made} == {HELD_OUT, IN_SAMPLE}
    assert {r.fitted for r in rows} == {HELD_OUT, IN_SAMPLE}


def test_the_seed_decides_what_is_random_and_the_layer_does_not(
    layer: LayerStates, held: np.ndarray, made: list[Step]
) -> None:
    again = steps(layer, held, ALPHAS, 0)[0]
    other = steps(layer, held, ALPHAS, 1)[0]
    above = steps(replace(layer, own=2 * layer.own), held, ALPHAS, 0)[0]
    for one, two in zip(made, again, strict=True):
        assert np.array_equal(one.delta, two.delta, equal_nan=True)
    directions = [the(of, table.RANDOM_DIRECTION, TO_TRUE, 0.1) for of in (made, other, above)]
    unit = [of / np.linalg.norm(of, axis=1, keepdims=True) for of in directions]
    assert unit[0] == pytest.approx(unit[2], abs=1e-5)
    assert np.abs((unit[0] * unit[1]).sum(axis=1)).mean() < 0.5
    assert the(made, PPT, TO_TRUE, 0.1) == pytest.approx(the(other, PPT, TO_TRUE, 0.1))


COMMON = 10 * np.random.default_rng(8).normal(size=D)
VARIED = COMMON + np.random.default_rng(9).normal(size=(N, D))
DEGENERATE = {
    "all the same": (COMMON, COMMON, COMMON),
    "x does not vary": (COMMON, VARIED, VARIED),
    "y does not vary": (VARIED, COMMON, COMMON),
    "x is zero": (0 * COMMON, VARIED, VARIED),
    "all is zero": (0 * COMMON, 0 * COMMON, 0 * COMMON),
    "one direction": tuple(np.outer(VARIED[:, k], COMMON) for k in range(3)),
    "long": tuple(1e15 * one for one in (VARIED, VARIED + 1, VARIED[::-1])),
}
"""States as an early layer, a template or a broken model may have them: x, y, y~."""


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", list(DEGENERATE))
def test_states_that_hardly_vary_give_finite_steps_of_equal_length(name: str, layer: LayerStates) -> None:
    x, y, own_twin = (np.broadcast_to(one, (N, D)).astype(np.float64) for one in DEGENERATE[name])
    made, rows = steps(
        replace(layer, false=x, own=y, own_twin=own_twin), assign_folds(layer.clusters, 5), (1e-4, 1.0), 0
    )
    for step in made:
        if step.map != table.PATCH_TWIN and step.fitted in (HELD_OUT, IN_SAMPLE):
            assert np.isfinite(step.delta).all(), (step.map, step.fitted)
    for target in (TO_TRUE, TO_FALSE):
        for alpha in (1e-4, 1.0):
            norms = np.linalg.norm(the(made, PPT, target, alpha).astype(np.float64), axis=1)
            for control in CONTROLS:
                lengths = np.linalg.norm(the(made, control, target, alpha).astype(np.float64), axis=1)
                assert (lengths <= norms * (1 + 1e-4) + 1e-30).all(), control
    assert all(row.error >= 0 for row in rows)
