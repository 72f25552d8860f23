"""Who is ahead, and how probable ranks are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.drawn import M, behaviour, stability
from tomserve.stats.functional import ModelLayers, ModelScore, score_models
from tomserve.stats.proportions import Interval, square_and_add
from tomserve.stats.ranks import ScoreComparison, compare_scores, rank_probabilities


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
