"""Ridge maps, and the states that they move: against the normal equations, refits without each scenario, and 50 digits."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tomserve.causal.projection import FLOOR, PENALTIES, Map, Ridge


def states(n: int, d: int, seed: int, rank: int | None = None) -> np.ndarray:
    rng = np.random.default_rng(seed)
    k = rank or d
    return rng.normal(size=(n, k)) @ rng.normal(size=(k, d)) if k < d else rng.normal(size=(n, d))


def naive(x: np.ndarray, y: np.ndarray, penalty: float) -> np.ndarray:
    return np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y).T


def refitted(x: np.ndarray, y: np.ndarray, clusters: np.ndarray, penalty: float) -> float:
    """|Y - Y^| / |Y| by fitting again without each scenario."""
    total = 0.0
    for one in np.unique(clusters):
        out = clusters == one
        total += float(((y[out] - x[out] @ naive(x[~out], y[~out], penalty).T) ** 2).sum())
    return float(np.sqrt(total) / np.linalg.norm(y))


@settings(max_examples=20, deadline=None)
@given(st.integers(6, 25), st.integers(2, 30), st.integers(1, 30), st.floats(-3, 4), st.integers(0, 99))
def test_it_is_the_ridge_solution_and_the_error_is_that_of_refits(
    n: int, d: int, rank: int, power: float, seed: int
) -> None:
    x, y = states(n, d, seed, min(rank, d)), states(n, d, seed + 1)
    clusters = np.random.default_rng(seed).integers(0, 5, n)
    clusters[:2] = 0, 1
    penalty = 10**power
    found = Ridge(x, clusters).fit(y, penalty)
    w = (found.map.left * found.map.gains) @ found.map.right.T
    assert w == pytest.approx(naive(x, y, penalty), rel=1e-6, abs=1e-7)
    assert found.error == pytest.approx(refitted(x, y, clusters, penalty), rel=1e-6)
    assert found.map.rank <= min(n, d)
    for frame in (found.map.left, found.map.right):
        assert frame.T @ frame == pytest.approx(np.eye(found.map.rank), abs=1e-9)


@pytest.mark.parametrize(("n", "d", "rank"), [(30, 8, 8), (30, 50, 50), (30, 20, 4)])
def test_the_penalty_is_the_best_of_the_grid_by_refits(n: int, d: int, rank: int) -> None:
    rng = np.random.default_rng(5)
    x, clusters = states(n, d, 6, rank), np.repeat(np.arange(10), 3)
    y = x @ rng.normal(size=(d, d)) / d + rng.normal(size=(n, d))
    ridge = Ridge(x, clusters)
    grid = ridge.penalties()
    errors = [refitted(x, y, clusters, one) for one in grid]
    found = ridge.fit(y)
    assert len(grid) == PENALTIES
    assert found.penalty == grid[int(np.argmin(errors))]
    assert found.error == pytest.approx(min(errors), rel=1e-6)


def test_against_50_digits() -> None:
    """The left-out error where lambda is 1e-10 of the largest squared singular value: 1 - h is all but zero there."""
    mpmath.mp.dps = 50
    n, d = 6, 10
    x, y = 300 * states(n, d, 10), 300 * states(n, d, 11)
    ridge = Ridge(x, np.arange(n) // 2)
    penalty = 1e-10 * float(ridge.s[0]) ** 2
    assert penalty > FLOOR * ridge.s[0] ** 2
    exact_x, exact_y = mpmath.matrix(x.tolist()), mpmath.matrix(y.tolist())
    total = mpmath.mpf(0)
    for out in ((0, 1), (2, 3), (4, 5)):
        kept = [i for i in range(n) if i not in out]
        xs, ys = (mpmath.matrix([[of[i, j] for j in range(d)] for i in kept]) for of in (exact_x, exact_y))
        for i in out:  # the dual: y^ = Y' (X X' + lambda I)^-1 X x
            row = mpmath.matrix([exact_x[i, j] for j in range(d)])
            weights = mpmath.lu_solve(xs * xs.T + mpmath.mpf(penalty) * mpmath.eye(len(kept)), xs * row)
            total += sum((exact_y[i, j] - (ys.T * weights)[j]) ** 2 for j in range(d))
    truth = float(mpmath.sqrt(total)) / np.linalg.norm(y)
    assert ridge.fit(y, penalty).error == pytest.approx(truth, rel=1e-9)


def test_the_extremes_of_the_penalty_and_of_the_states() -> None:
    x, y = states(10, 40, 3), states(10, 40, 4)
    nearly_none, huge = (Ridge(x, np.arange(10)).fit(y, penalty) for penalty in (1e-9, 1e15))
    assert nearly_none.map.apply(x) == pytest.approx(y, abs=1e-8)  # fewer items than directions: it interpolates
    assert huge.error == pytest.approx(1)
    assert huge.map.gains.max() < 1e-10
    one, large = (Ridge(scale * x, np.arange(10) // 2).fit(scale * y) for scale in (1, 1e5))
    assert (large.error, large.penalty) == (pytest.approx(one.error), pytest.approx(1e10 * one.penalty))
    zero = Ridge(np.zeros((6, 4)), np.arange(6)).fit(states(6, 4, 1))
    assert (zero.map.rank, zero.error) == (0, pytest.approx(1))
    assert Ridge(states(6, 4, 1), np.arange(6)).fit(np.zeros((6, 4))).error == float("inf")
    for spoilt, clusters in ((np.where(x > 1, np.nan, x), np.arange(10)), (x, np.arange(5))):
        with pytest.raises(ValueError, match="finite states"):
            Ridge(spoilt, clusters)
    with pytest.raises(ValueError, match="of the 10 items"):
        Ridge(x, np.arange(10)).fit(x[:5])


# The moved state


def a_map(d: int, k: int, seed: int = 0) -> Map:
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.normal(size=(d, k)))[0] for _ in range(2))
    return Map(left, np.sort(rng.uniform(0.05, 3, k))[::-1], right)


def dense(w: Map) -> np.ndarray:
    return (w.left * w.gains) @ w.right.T


@pytest.mark.parametrize(("d", "k"), [(6, 6), (30, 4), (3, 1)])
def test_a_moved_state_solves_the_minimisation(d: int, k: int) -> None:
    w, rng = a_map(d, k), np.random.default_rng(1)
    x, target, full = rng.normal(size=(5, d)), rng.normal(size=(5, d)), dense(w)
    assert not np.allclose(full, full.T)  # or a transposed W would pass
    assert w.apply(x) == pytest.approx(x @ full.T)
    for alpha, moved in zip((1e-3, 0.3, 20.0), x + w.displacements(x, target, (1e-3, 0.3, 20.0)), strict=True):
        direct = np.linalg.solve(full.T @ full + alpha * np.eye(d), full.T @ target.T + alpha * x.T).T
        assert moved == pytest.approx(direct, rel=1e-9, abs=1e-9)


def test_the_ends_of_the_strength() -> None:
    w, rng = a_map(7, 3), np.random.default_rng(4)
    x, target = rng.normal(size=(4, 7)), rng.normal(size=(4, 7))
    reached, still = x + w.displacements(x, target, [0.0, 1e15])
    assert w.apply(reached) == pytest.approx(target @ w.left @ w.left.T)  # all of the target that W reaches
    assert still == pytest.approx(x, abs=1e-12)
    moved = w.displacements(x, target, np.geomspace(1e-6, 1e3, 10).tolist())
    assert (np.diff(np.linalg.norm(moved, axis=2), axis=0) < 0).all()


def test_a_map_to_zero_moves_nothing() -> None:
    w = Map(np.zeros((5, 0)), np.zeros(0), np.zeros((5, 0)))
    x = np.arange(10.0).reshape(2, 5)
    assert w.rank == 0
    assert (w.apply(x) == 0).all()
    assert not w.displacements(x, x + 1, [0.0, 1.0]).any()
