"""Shares corrected for chance, and their mean over types of task."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tomserve.stats.accuracy import correct_for_chance, guesser_mean, mean_of, task_mean


def test_known_shares() -> None:
    assert [correct_for_chance(share, 0.25) for share in (1.0, 0.25, 0.1, 0.625)] == [1.0, 0.0, 0.0, 0.5]
    assert math.isnan(correct_for_chance(math.nan, 0.5))
    assert math.isnan(correct_for_chance(1.0, 1.0))


def answers(clusters: int = 40) -> tuple[list[int], list[float], list[str], list[int]]:
    """Each cluster has four questions of task a (chance .5; 3 of 4 right) and one of b (chance .25; every second right)."""
    right = [int(place != one % 4) if place < 4 else one % 2 for one in range(clusters) for place in range(5)]
    cluster = [one for one in range(clusters) for _ in range(5)]
    return right, [*[0.5] * 4, 0.25] * clusters, [*"aaaab"] * clusters, cluster


def test_every_task_counts_once_however_many_questions_it_has() -> None:
    found = task_mean(*answers())
    assert found.estimate[0] == pytest.approx(((0.75 - 0.5) / 0.5 + (0.5 - 0.25) / 0.75) / 2)
    assert (found.tasks, found.clusters) == (2, 40)
    interval = found.interval()
    assert interval.low < interval.estimate < interval.high
    assert interval == task_mean(*answers()).interval(), "the same to the last digit every time"


def test_a_blind_guesser_has_more_than_nothing_where_tasks_have_few_questions() -> None:
    """Exact against a simulation: tasks of 3, 4 and 12 questions, the last one with two chances."""
    chance = np.array([0.5] * 3 + [0.25] * 4 + [0.5] * 5 + [1 / 3] * 7)
    task = np.repeat(["a", "b", "c"], [3, 4, 12])
    rng = np.random.default_rng(0)
    right = rng.random((5_000, chance.size)) < chance
    shares = []
    for name in "abc":
        own = task == name
        mean = chance[own].mean()
        shares.append(np.clip((right[:, own].mean(axis=1) - mean) / (1 - mean), 0, 1))
    assert guesser_mean(chance, task) == pytest.approx(np.mean(shares), abs=0.008)
    assert guesser_mean(np.tile(chance, 200), np.tile(task, 200)) < 0.02
    assert guesser_mean([0.0, 0.0], ["a", "b"]) == 0
    assert math.isnan(guesser_mean([], []))
    assert math.isnan(guesser_mean([0.5, math.nan], ["a", "a"]))
    with pytest.raises(ValueError, match="one length"):
        guesser_mean([0.5], ["a", "b"])


def test_sides_are_compared_over_the_same_clusters() -> None:
    right, *rest = answers()
    same = task_mean(np.column_stack([right, right]), *rest).difference(0, 1)
    assert (same.estimate, same.high) == (0, 0)
    none = task_mean(np.column_stack([right, np.zeros(len(right))]), *rest)
    assert none.difference(0, 1).estimate == pytest.approx(none.estimate[0])
    assert none.difference(0, 1).low > 0


def test_answers_that_are_all_alike_do_not_claim_certainty() -> None:
    right, chance, task, cluster = answers(10)
    whole = task_mean([1] * len(right), chance, task, cluster).interval()
    assert whole.estimate == whole.high == 1
    assert whole.low < 0.8
    none = task_mean([0] * len(right), chance, task, cluster).interval()
    assert (none.low, none.high) == (0, 0), "nobody with so few right answers is above chance"
    few = task_mean([0] * 6, [0.5] * 6, ["a"] * 6, list(range(6)))
    assert few.interval().high == 0 < task_mean([0] * 3, [0.5] * 3, ["a"] * 3, [1, 2, 3]).interval().high
    one = task_mean([1, 0], [0.5, 0.5], ["a", "a"], ["x", "x"]).interval()
    assert math.isnan(one.low)


def test_the_interval_covers_with_few_clusters() -> None:
    """Eight clusters that differ by themselves: plain percentiles would cover about nine of ten times."""
    rng = np.random.default_rng(7)
    task, cluster = np.tile([0, 0, 1, 1], 8), np.repeat(np.arange(8), 4)
    chance, truth, hits = np.full(task.size, 0.5), 0.5, 0  # both tasks have .75 right
    for one in range(50):
        own = np.clip(0.75 + 0.25 * rng.choice([-1, 1], 8), 0, 1)[cluster]
        interval = task_mean(rng.random(task.size) < own, chance, task, cluster, 150, one).interval()
        hits += interval.low <= truth <= interval.high
    assert hits >= 45


def test_the_mean_over_sets_counts_each_once() -> None:
    whole, none = (task_mean([value] * 40, [0.5] * 40, ["a"] * 40, list(range(40))) for value in (1, 0))
    found = mean_of([whole, none])
    assert found.estimate == 0.5
    assert 0 < found.low < 0.5 == found.high
    with pytest.raises(ValueError, match="at least one part"):
        mean_of([])


def test_a_difference_from_somebody_always_right_is_not_certain() -> None:
    """All answers of one side are right in 20 clusters: its own interval reaches below 1, and so does the difference."""
    rule = np.tile([1.0, 0.0], 20)
    found = task_mean(np.column_stack([np.ones(40), rule]), [0.5] * 40, ["a"] * 40, np.repeat(np.arange(20), 2))
    gap = found.difference(0, 1)
    assert gap.estimate == 1 == gap.high
    assert gap.low <= found.interval(0).low < 0.9
