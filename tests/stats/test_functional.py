"""The score over three layers, on layers whose truth is known."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.helpers.drawn import KINDS, M, behaviour, names, stability
from tomserve.stats.functional import (
    FTOM_1,
    Behaviour,
    Formula,
    Mechanism,
    ModelLayers,
    ModelScore,
    Stability,
    score_models,
    weighted_formula,
    weighted_sum,
)
from tomserve.stats.proportions import Interval


def mechanism(works: float = 0.7, control: float = 0.1, ceiling: float = 0.9, seed: int = 2, **more: Any) -> Mechanism:
    """Six cells, of which the third moves the most."""
    rng = np.random.default_rng(seed)
    fade = np.array([0.2, 0.6, 1.0, 0.6, 0.2, 0.0])

    def flips(of: float, cells: np.ndarray) -> np.ndarray:
        return (rng.random((M, len(cells))) < of * cells).astype(float)

    controls = {"shuffled": flips(control, fade), "random": flips(control / 2, fade)}
    return Mechanism(flips(works, fade), controls, flips(ceiling, np.array([0.5, 1.0])), names(), **{"items": M} | more)


def scored(layers: ModelLayers, **more: Any) -> ModelScore:
    return score_models({"m": layers}, draws=300, **more)["m"]


def test_a_score_of_known_layers_is_what_the_formula_says() -> None:
    everything = Behaviour([1] * 2 * M, np.tile([0.5, 0.25], M), np.tile(["a", "b"], M), names(M, 2))
    moves = np.ones((M, 1))
    half = np.zeros((M, 1))
    half[::2] = 1
    c = Mechanism(half, {"shuffled": np.zeros((M, 1))}, moves, names(), M)
    same = Stability(np.tile([1, 1, 1, 0], M), np.tile(KINDS, M), names(M, 4), KINDS)
    found = scored(ModelLayers(everything, c, same))
    assert (found.b.estimate, found.s.estimate) == (1, 0.75)
    assert found.c.estimate == pytest.approx(0.5)
    assert found.ftom.estimate == pytest.approx(0.5 * 1 + 0.3 * 0.5 + 0.2 * 0.75)
    assert found.ftom_bs.estimate == pytest.approx((0.5 * 1 + 0.2 * 0.75) / 0.7)
    assert found.ftom.low < found.ftom.estimate < found.ftom.high


@pytest.mark.parametrize(
    ("made", "low", "high"),
    [
        ({"works": 0.7, "control": 0.7}, 0, 0.15),
        ({"works": 0.0, "control": 0.8}, 0, 0),
        ({"works": 1.0, "control": 0.0, "ceiling": 0.5}, 1, 1),
    ],
)
def test_what_a_control_reproduces_is_no_mechanism(made: dict[str, float], low: float, high: float) -> None:
    found = scored(ModelLayers(c=mechanism(**made)))
    assert low <= found.c.estimate <= high
    assert (found.c.low == 0) == (low == 0)
    assert (set(found.missing_layers), set(found.draws)) == ({"b", "s"}, {"c"})


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (mechanism(items=49), "49 eligible items, and 50 are needed"),
        (mechanism(broken=0.02), "adding nothing changes 2.0% of the answers"),
        (mechanism(ceiling=0.0), "the direct patch, which is the ceiling, does not clearly move answers"),
        (replace(mechanism(), scenario=names(5, 12)), "5 scenarios, and 8 are needed"),
        (replace(mechanism(), net=np.zeros((M, 0))), "no moves by the map, or no direct patch"),
    ],
)
def test_a_mechanism_that_cannot_be_measured_is_missing_and_not_zero(part: Mechanism, why: str) -> None:
    found = scored(ModelLayers(behaviour(), part, stability()))
    assert math.isnan(found.c.estimate)
    assert found.missing_layers == {"c": why}
    assert math.isnan(found.ftom.estimate)
    assert math.isfinite(found.ftom_bs.estimate)
    assert set(found.draws) == {"b", "s", "ftom_bs"}


def test_what_cannot_be_counted_is_lacking() -> None:
    b = behaviour()
    unknown = replace(b, chance=np.where(np.arange(2 * M) == 3, np.nan, np.asarray(b.chance)))
    found = scored(ModelLayers(unknown, mechanism(), stability(kinds=KINDS[:3])))
    assert found.missing_layers == {"b": "chance is not known of every question", "s": "no variants of the kinds T4"}
    assert math.isnan(found.ftom.estimate)
    assert math.isnan(found.ftom_bs.estimate)


def test_few_scenarios_have_an_estimate_and_neither_an_interval_nor_draws() -> None:
    found = scored(ModelLayers(behaviour(count=7), None, stability()))
    assert math.isfinite(found.b.estimate)
    assert math.isnan(found.b.low)
    assert found.few == {"b": 7}
    assert found.ftom_bs.estimate == pytest.approx((0.5 * found.b.estimate + 0.2 * found.s.estimate) / 0.7)
    assert math.isnan(found.ftom_bs.low)
    assert set(found.draws) == {"s"}
    enough = scored(ModelLayers(behaviour(count=8), None, stability(count=8)))
    assert not enough.few
    assert enough.ftom_bs.low < enough.ftom_bs.estimate


def test_where_layers_share_scenarios_their_errors_add_up() -> None:
    """The same scenarios are right and stable: the interval of the score is wider than with other scenarios."""
    lucky = np.random.default_rng(3).random(M) < 0.6
    b = Behaviour(lucky, np.zeros(M), np.full(M, "a"), names())
    s = Stability(np.repeat(lucky, 4), np.tile(KINDS, M), names(M, 4), KINDS)
    apart = replace(s, scenario=np.array([f"other {name}" for name in names(M, 4)]))
    together, alone = scored(ModelLayers(b, None, s)), scored(ModelLayers(b, None, apart))
    assert together.ftom_bs.estimate == alone.ftom_bs.estimate
    assert together.ftom_bs.high - together.ftom_bs.low > 1.15 * (alone.ftom_bs.high - alone.ftom_bs.low)
    assert np.corrcoef(together.draws["b"], together.draws["s"])[0, 1] > 0.99
    assert abs(np.corrcoef(alone.draws["b"], alone.draws["s"])[0, 1]) < 0.3


def test_a_layer_that_never_varies_still_has_an_interval() -> None:
    found = scored(ModelLayers(behaviour(1.0), None, stability(1.0)))
    assert found.ftom_bs.estimate == 1
    assert found.ftom_bs.low < 0.98


def test_a_name_stands_for_its_weights() -> None:
    assert weighted_formula(0.5, 0.3, 0.2) is FTOM_1
    other = weighted_formula(0.4, 0.4, 0.2)
    assert other.name == "ftom-1 with weights .40, .40, .20"
    assert weighted_formula(0.504, 0.296, 0.2).name != weighted_formula(0.496, 0.304, 0.2).name
    assert weighted_formula(1.0, -0.0, 0.0).name == "ftom-1 with weights 1.00, .00, .00"
    with pytest.raises(ValueError, match="is not the name of the weights"):
        Formula("ftom-1 with weights .50, .30, .20", (0.504, 0.296, 0.2))
    wrong = (
        ("give .* another name", 0.4, 0.4, 0.2),
        ("expected the sum 1", 0.5, 0.3, 0.3),
        ("not negative", 1.2, -0.4, 0.2),
    )
    for said, *weights in wrong:
        with pytest.raises(ValueError, match=said):
            Formula("ftom-1", tuple(weights))  # type: ignore[arg-type]


def test_a_sum_of_one_part_is_that_part_and_correlation_widens_it() -> None:
    one, other = Interval(0.6, 0.5, 0.75, ""), Interval(0.4, 0.3, 0.45, "")
    alone = weighted_sum((one, other), (1, 0), np.eye(2))
    assert (alone.estimate, alone.low, alone.high) == pytest.approx((0.6, 0.5, 0.75))
    apart = weighted_sum((one, other), (0.5, 0.5), np.eye(2))
    together = weighted_sum((one, other), (0.5, 0.5), np.ones((2, 2)))
    assert (together.low, together.high) == pytest.approx((0.4, 0.6))
    assert together.low < apart.low < apart.estimate < apart.high < together.high
    assert math.isnan(weighted_sum((one, Interval(0.4, math.nan, math.nan, "")), (0.5, 0.5), np.eye(2)).low)
