"""The moved state: against solving its normal equations, against 50 digits, and at the ends of its strength."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from tomserve.causal.projection import Map


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
    for alpha, moved in zip((1e-3, 0.3, 20.0), w.move(x, target, (1e-3, 0.3, 20.0)), strict=True):
        direct = np.linalg.solve(full.T @ full + alpha * np.eye(d), full.T @ target.T + alpha * x.T).T
        assert moved == pytest.approx(direct, rel=1e-9, abs=1e-9)


def test_against_50_digits() -> None:
    """At norms of 1000 and a = 1e-4 a naive float64 solution has lost half of its digits; this one has not."""
    mpmath.mp.dps = 50
    d, k, alpha = 8, 3, 1e-4
    w, rng = a_map(d, k, 2), np.random.default_rng(3)
    x, target = 1000 * rng.normal(size=(1, d)), 1000 * rng.normal(size=(1, d))
    left, right, gains = mpmath.matrix(w.left.tolist()), mpmath.matrix(w.right.tolist()), mpmath.diag(w.gains.tolist())
    full = left * gains * right.T
    before, wanted = (mpmath.matrix(of[0].tolist()) for of in (x, target))
    exact = mpmath.lu_solve(full.T * full + mpmath.mpf(alpha) * mpmath.eye(d), full.T * (wanted - full * before))
    truth = np.array([float(one) for one in exact])  # of the displacement, since x itself is given
    found = w.displacements(x, target, [alpha])[0, 0]
    assert np.linalg.norm(found - truth) / np.linalg.norm(truth) < 1e-12


def test_the_ends_of_the_strength() -> None:
    w, rng = a_map(7, 3), np.random.default_rng(4)
    x, target = rng.normal(size=(4, 7)), rng.normal(size=(4, 7))
    reached, still = w.move(x, target, [0.0, 1e15])
    assert w.apply(reached) == pytest.approx(target @ w.left @ w.left.T)  # all of the target that W reaches
    assert still == pytest.approx(x, abs=1e-12)
    moved = w.move(x, target, np.geomspace(1e-6, 1e3, 10).tolist()) - x
    assert (np.diff(np.linalg.norm(moved, axis=2), axis=0) < 0).all()


def test_a_map_to_zero_moves_nothing() -> None:
    w = Map(np.zeros((5, 0)), np.zeros(0), np.zeros((5, 0)))
    x = np.arange(10.0).reshape(2, 5)
    assert w.rank == 0
    assert (w.apply(x) == 0).all()
    assert (w.move(x, x + 1, [0.0, 1.0]) == x).all()
