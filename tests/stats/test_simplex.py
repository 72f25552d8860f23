"""For which weights a ranking holds, beside weights that are drawn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tomserve.stats.ranks import order_share, ranking_share, rankings, swap

PARTS = np.array([[0.9, 0.2, 0.5], [0.5, 0.6, 0.6], [0.3, 0.9, 0.1], [0.6, 0.4, 0.9]])


def drawn(count: int, width: int = 3) -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.ones(width), count)


@pytest.mark.parametrize("width", [2, 3])
def test_shares_are_those_of_weights_that_are_drawn(width: int) -> None:
    parts = PARTS[:, :width]
    sums = drawn(50_000, width) @ parts.T
    for first, second in itertools.combinations(range(4), 2):
        expected = (sums[:, first] > sums[:, second]).mean()
        assert order_share(parts[first].tolist(), parts[second].tolist()) == pytest.approx(expected, abs=0.01)
    orders = [tuple(row) for row in np.argsort(-sums, axis=1)[:10_000]]
    for found in rankings(parts):
        assert found.share == pytest.approx(orders.count(found.order) / len(orders), abs=0.02)
        assert found.share == ranking_share(parts, found.order)


@pytest.mark.parametrize("width", [2, 3])
def test_the_rankings_fill_the_triangle(width: int) -> None:
    found = rankings(PARTS[:, :width])
    assert sum(one.share for one in found) == pytest.approx(1)
    assert [one.share for one in found] == sorted((one.share for one in found), reverse=True)
    assert len({one.order for one in found}) == len(found) > 1


def test_who_is_ahead_everywhere_is_ahead_for_all_weights() -> None:
    assert order_share([0.5, 0.6, 0.7], [0.4, 0.5, 0.6]) == 1
    assert order_share([0.4, 0.5, 0.6], [0.5, 0.6, 0.7]) == 0
    assert rankings([[0.5, 0.6, 0.7], [0.4, 0.5, 0.6]])[0].order == (0, 1)
    assert swap([[0.5, 0.6, 0.7], [0.4, 0.5, 0.6]], 0, 1, (0.5, 0.3, 0.2)).nearest is None


def test_what_is_equal_is_ranked_either_way() -> None:
    same = [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]
    assert order_share(*same) == 0.5
    assert [(one.order, one.share) for one in rankings(same)] == [((0, 1), pytest.approx(1))]


def test_the_nearest_weights_make_both_equal_and_no_others_are_nearer() -> None:
    weights = (0.5, 0.3, 0.2)
    found = swap(PARTS, 0, 1, weights)
    assert found.nearest is not None
    near = np.array(found.nearest)
    assert near.sum() == pytest.approx(1)
    assert (near >= 0).all()
    assert near @ PARTS[0] == pytest.approx(near @ PARTS[1])
    others = drawn(200_000)
    equal = others[np.abs(others @ (PARTS[0] - PARTS[1])) < 1e-3]
    assert np.linalg.norm(equal - weights, axis=1).min() >= found.distance - 0.01


@pytest.mark.parametrize("parts", [[[0.1]], [[0.1, 0.2, 0.3, 0.4]], [[0.1, np.nan]], [0.1, 0.2]])
def test_other_parts_are_refused(parts: list) -> None:
    with pytest.raises(ValueError, match="expected finite numbers"):
        rankings(parts)


def test_of_many_entries_the_rankings_that_hold_for_most_weights_are_found() -> None:
    parts = np.random.default_rng(2).random((13, 3))
    found = rankings(parts)
    assert sum(one.share for one in found) == pytest.approx(1, abs=0.05)
    best = tuple(np.argsort(-(parts @ np.array([0.34, 0.33, 0.33]))).tolist())
    assert ranking_share(parts, best) > 0
    assert best in {one.order for one in found}
