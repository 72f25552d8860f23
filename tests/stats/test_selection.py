"""The best of many cells: choosing on one half and measuring on the other, and the max-statistic."""

import itertools
import math

import numpy as np
import pytest

from tomserve.stats.proportions import wilson
from tomserve.stats.selection import NOTHING, above_all, select_best, sign_flips


def flips(rng: np.random.Generator, n: int, up: list[float], down: float = 0.1) -> np.ndarray:
    """1 with the chance that stands for each cell, -1 with another [n, cells]."""
    chance = rng.random((n, len(up)))
    return (chance < np.array(up)).astype(float) - (chance > 1 - down)


def test_by_hand() -> None:
    """Four clusters of one item: mostly cell 1 is best, where no control does anything; the control's best is cell 0."""
    effects = np.array([[0, 1.0], [0, 1], [1, 1], [0, 0]])
    control = np.array([[0.5, 0.0], [0.5, 0], [0.5, 0], [0.5, 0]])
    found = select_best(effects, {"one": control, "none": np.zeros((4, 2))}, [1, 2, 3, 4], splits=50, draws=20)
    assert found.controls["one"].estimate == pytest.approx(0.5)
    assert found.controls["none"].estimate == 0
    assert found.largest == NOTHING
    assert found.control.estimate < 0.2
    assert found.adjusted_cells[1] > 0.6
    assert found.adjusted.estimate == pytest.approx(found.net.estimate, abs=0.2)
    assert found.chosen.sum() == pytest.approx(1)
    assert found.chosen[1] > 0.6  # but for halves with the third and fourth cluster, where both are equal


def test_the_best_of_many_cells_of_nothing_is_nothing() -> None:
    """The maximum over cells is far above zero in every draw; what is measured elsewhere is zero on average."""
    rng = np.random.default_rng(1)
    net, largest = [], []
    for _ in range(30):
        effects = flips(rng, 60, [0.1] * 45)
        net.append(select_best(effects, {}, np.arange(60), draws=2, splits=5).net.estimate)
        largest.append(effects.mean(axis=0).max())
    assert np.mean(largest) > 0.1
    assert abs(np.mean(net)) < 3 * np.std(net) / math.sqrt(30)


def test_a_cell_that_works_and_a_control_that_does_as_much() -> None:
    rng = np.random.default_rng(2)
    works = flips(rng, 120, [0.1, 0.6, 0.1])
    clusters = np.arange(120) // 2
    alone = select_best(works, {"idle": flips(rng, 120, [0.1] * 3)}, clusters, draws=200)
    assert alone.adjusted.low > 0.2
    assert alone.chosen.argmax() == 1
    same = select_best(works, {"idle": flips(rng, 120, [0.1] * 3), "same": works}, clusters, draws=200)
    assert same.largest == "same"
    assert same.net == alone.net
    assert same.adjusted.low < 0 < same.adjusted.high < 0.1
    assert same.controls["same"] == same.net


def test_a_control_is_compared_where_it_moves_as_far_and_not_where_it_moves_further() -> None:
    """In cell 0 everything goes far and a control does as much; in cell 1 only the measure does anything."""
    rng = np.random.default_rng(6)
    effects, further = flips(rng, 100, [0.7, 0.6]), flips(rng, 100, [0.8, 0.1])
    found = select_best(effects, {"far": further}, np.arange(100), draws=100)
    assert found.adjusted_cells[1] == 1
    assert found.adjusted.low > 0.3
    assert (found.largest, found.chosen.argmax()) == ("far", 0)
    assert found.controls["far"].estimate > found.net.estimate


def test_items_of_a_cluster_count_as_one() -> None:
    """Ten copies of every item, in the same cluster, say no more than one."""
    rng = np.random.default_rng(5)
    effects = flips(rng, 40, [0.4, 0.1])
    once = select_best(effects, {}, np.arange(40), draws=400)
    copies = select_best(np.repeat(effects, 10, axis=0), {}, np.repeat(np.arange(40), 10), draws=400)
    assert (copies.net.low, copies.net.high) == pytest.approx((once.net.low, once.net.high))


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_where_all_are_alike_the_interval_has_some_width(value: float) -> None:
    found = select_best(np.full((50, 3), value), {"c": np.zeros((50, 3))}, np.arange(50), draws=50)
    least = wilson(0, 50).high
    assert found.net.estimate == value
    assert found.net.low == pytest.approx(value - least)
    assert found.net.high == pytest.approx(min(1, value + least))
    assert "fewer than 5 differ" in found.net.method
    assert found.adjusted.high - found.adjusted.low > least / 2


@pytest.mark.parametrize("n", [0, 5])
def test_one_cluster_and_none_have_no_interval(n: int) -> None:
    found = select_best(np.zeros((n, 2)), {"c": np.zeros((n, 2))}, [1] * n)
    assert all(map(math.isnan, (found.net.estimate, found.controls["c"].low, found.adjusted.high)))
    assert found.chosen.shape == (2,)


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


def test_doing_nothing_is_always_there() -> None:
    clusters, harm = np.repeat(np.arange(20), 3), np.full((60, 10), -1.0)
    assert above_all(np.zeros((60, 10)), [harm], clusters).p == 1, "to be less bad than a control is no effect"
    assert above_all(np.ones((60, 10)), [], clusters).p == 1 / 2001


def test_a_control_that_is_far_below_does_not_hide_that_another_is_below_too() -> None:
    """150 items; the measure exceeds seven controls by .9 and the eighth by .2."""
    rng, found = np.random.default_rng(8), 0
    for _ in range(10):
        effects = (rng.random((150, 4)) < 0.9).astype(float)
        near = (rng.random((150, 4)) < 0.7).astype(float)
        p = above_all(effects, [near, *[np.zeros((150, 4))] * 7], np.arange(150), draws=199).p
        found += p < 0.05
    assert found >= 9


@pytest.mark.parametrize("own", [0, 2])
def test_on_a_ladder_a_control_stands_against_higher_steps_too(own: int) -> None:
    """Two ladders of two cells, the higher step first. What a control does on the lower step of the ladder counts on the
    higher one, and not the other way round, and not on another ladder."""
    rng = np.random.default_rng(9)
    effects, control = np.zeros((80, 4)), np.zeros((80, 4))
    effects[:, own] = rng.random(80) < 0.8
    control[:, 1] = rng.random(80) < 0.9
    ladders = [1, 1, 2, 2]
    found = select_best(effects, {"one": control}, np.arange(80), ladders=ladders, draws=100)
    p = above_all(effects, [control], np.arange(80), ladders=ladders).p
    assert (found.adjusted.low > 0, p < 0.05, found.largest) == (*(own == 2,) * 2, NOTHING if own else "one")
    turned = select_best(effects[:, ::-1], {"one": control[:, ::-1]}, np.arange(80), ladders=ladders, draws=100)
    assert turned.adjusted.low > 0
    apart = select_best(effects, {"one": control}, np.arange(80), draws=100)
    assert apart.adjusted.low > 0.5


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
