"""Who is ahead, how probable ranks are, and for which weights a ranking holds."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.drawn import M, behaviour, stability
from tomserve.stats.functional import ModelLayers, ModelScore, score_models
from tomserve.stats.proportions import Interval, square_and_add
from tomserve.stats.ranks import (
    ScoreComparison,
    compare_scores,
    order_share,
    rank_probabilities,
    ranking_share,
    rankings,
    swap,
)


def of(found: dict[str, ModelScore]) -> ScoreComparison:
    return compare_scores({name: one.ftom_bs for name, one in found.items()},
                    {name: one.draws["ftom_bs"] for name, one in found.items()})  # fmt: skip


def test_models_share_scenarios_so_that_they_are_compared_draw_by_draw() -> None:
    """A model that is right in ten scenarios more is surely ahead, although the intervals of both overlap."""
    right = np.random.default_rng(4).random(2 * M) < 0.5
    better = right.copy()
    better[:20] = True
    b = behaviour()
    found = score_models({"x": ModelLayers(replace(b, right=better), None, stability()),
                   "y": ModelLayers(replace(b, right=right), None, stability())}, draws=300)  # fmt: skip
    assert found["x"].ftom_bs.low < found["y"].ftom_bs.high
    pairs = of(found)
    assert pairs.low[0, 1] > 0
    assert pairs.high[1, 0] == pytest.approx(-pairs.low[0, 1])
    assert pairs.ahead("x", "y") > 0.975
    assert pairs.ahead("x", "y") + pairs.ahead("y", "x") == pytest.approx(1)
    assert pairs.rank_probabilities()["x"][0] == pytest.approx(pairs.ahead("x", "y"), abs=0.01)


def test_equals_are_ahead_of_each_other_half_of_the_time() -> None:
    one = Interval(1.0, 0.95, 1.0, "")
    pairs = compare_scores({"x": one, "y": one}, {"x": np.ones(10), "y": np.ones(10)})
    assert pairs.ahead("x", "y") == 0.5
    assert pairs.rank_probabilities()["x"] == pytest.approx([0.5, 0.5], abs=0.01)
    assert (pairs.low[0, 1], pairs.high[0, 1]) == pytest.approx((-0.05, 0.05))


def test_intervals_are_square_and_add_and_probabilities_agree_with_them() -> None:
    x, y, z = Interval(0.8, 0.7, 0.86, ""), Interval(0.7, 0.55, 0.8, ""), Interval(0.3, 0.2, 0.5, "")
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=(3, 4000))
    drawn[1] += drawn[0]
    pairs = compare_scores({"x": x, "y": y, "z": z}, dict(zip("xyz", drawn, strict=True)))
    r = float(np.corrcoef(drawn[:2])[0, 1])
    assert (pairs.low[0, 1], pairs.high[0, 1]) == pytest.approx(square_and_add(x, y, r))
    for first, second in ((0, 1), (0, 2), (1, 2)):
        ahead = pairs.ahead("xyz"[first], "xyz"[second])
        assert (ahead > 0.975) == (pairs.low[first, second] > 0)
    ranks = pairs.rank_probabilities()
    assert np.sum(list(ranks.values()), axis=0) == pytest.approx([1, 1, 1])
    assert ranks["z"][2] > 0.99
    assert ranks["x"][0] == pytest.approx(pairs.ahead("x", "y"), abs=0.02)


def test_a_model_without_an_interval_is_not_compared() -> None:
    with pytest.raises(ValueError, match="without an interval"):
        compare_scores({"x": Interval(0.5, float("nan"), float("nan"), "")}, {"x": [0.5]})


def test_ranks_are_probabilities_and_equals_share_them() -> None:
    found = rank_probabilities({"x": [1, 1, 0, 2], "y": [1, 0, 1, 0], "z": [0, 3, 3, 1]})
    assert np.sum(list(found.values()), axis=0) == pytest.approx([1, 1, 1])
    assert found["x"].tolist() == [0.375, 0.375, 0.25]
    with pytest.raises(ValueError, match=r"unequal length|inhomogeneous"):
        rank_probabilities({"x": [1.0], "y": [1.0, 2.0]})


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
    assert sum(one.share for one in rankings(parts)) == pytest.approx(1)
    for found in rankings(parts):
        assert found.share == pytest.approx(orders.count(found.order) / len(orders), abs=0.02)
        assert found.share == ranking_share(parts, found.order)


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


@pytest.mark.parametrize("width", [2, 3])
def test_the_rankings_fill_the_triangle(width: int) -> None:
    found = rankings(PARTS[:, :width])
    assert sum(one.share for one in found) == pytest.approx(1)
    assert [one.share for one in found] == sorted((one.share for one in found), reverse=True)
    assert len({one.order for one in found}) == len(found) > 1
