"""Shares corrected for chance, their mean over types of task, and the macro-averaged F1.
The source's table 6 from its own cells."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tomserve.stats.accuracy import (
    constant_f1,
    correct_for_chance,
    guessed_f1,
    guesser_mean,
    macro_f1,
    macro_f1_interval,
    mean_of,
    task_mean,
)
from tomserve.stats.paper_formulas import paper_compat, printed_formula


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


def test_a_difference_from_somebody_always_right_is_not_certain() -> None:
    """All answers of one side are right in 20 clusters: its own interval reaches below 1, and so does the difference."""
    rule = np.tile([1.0, 0.0], 20)
    found = task_mean(np.column_stack([np.ones(40), rule]), [0.5] * 40, ["a"] * 40, np.repeat(np.arange(20), 2))
    gap = found.difference(0, 1)
    assert gap.estimate == 1 == gap.high
    assert gap.low <= found.interval(0).low < 0.9


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


def test_the_mean_over_sets_draws_their_clusters_independently() -> None:
    """What one set has right the other has wrong: drawn alike, their mean would not vary at all."""
    right = np.arange(40) % 2
    own, other = (task_mean(one, [0.0] * 40, ["a"] * 40, list(range(40))) for one in (right, 1 - right))
    alone, both = own.interval(), mean_of([own, other])
    assert both.high - both.low == pytest.approx((alone.high - alone.low) / math.sqrt(2), rel=0.1)


def test_differences_end_at_one_and_at_minus_one() -> None:
    """Always right beside a rule that is right by luck, which draws put below chance, and the same the other way."""
    rule = np.arange(80) % 5 < 2
    right = np.column_stack([np.ones(80), rule, np.zeros(80)])
    found = task_mean(right, np.full(80, 0.5), np.zeros(80), np.arange(80) // 4)
    assert (found.difference(0, 1).estimate, found.difference(0, 1).high) == (1, 1)
    assert found.difference(2, 0).low == -1


def test_bounds_of_a_difference_are_without_the_clip_on_the_side_that_it_would_favour() -> None:
    found = replace(task_mean([1, 0], [0.5, 0.5], ["a", "a"], [1, 2]), draws=np.array([[0.4, 0.1]]))
    low, high = replace(found, least=np.array([[0.3, -0.2]])).differences(0, 1)
    assert (low.tolist(), high.tolist()) == ([pytest.approx(0.3 - 0.1)], [pytest.approx(0.4 + 0.2)])


def test_against_values_worked_out_by_hand() -> None:
    right = [0, 0, 0, 0, 1, 1, 2, 2]
    given = [0, 0, 1, 2, 1, 0, 2, 2]
    # class 0: 2 hits, 4 times right, 3 times given: 4/7; class 1: 1, 2, 2: 2/4; class 2: 2, 2, 3: 4/5
    assert macro_f1(right, given) == pytest.approx((4 / 7 + 1 / 2 + 4 / 5) / 3)


def test_what_is_missing_costs_recall_and_no_precision() -> None:
    assert macro_f1([0, 0, 1, 1], [0, None, 1, 1]) == pytest.approx((2 / 3 + 1) / 2)
    assert macro_f1([0, 1], [None, None]) == 0
    assert np.isnan(macro_f1([], []))


def test_a_class_that_is_only_given_lowers_the_mean_and_one_that_never_occurs_does_not() -> None:
    assert macro_f1([0, 0, 1, 1], [0, 0, 1, 3]) == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert macro_f1([0, 0, 3, 3], [0, 0, 3, 3]) == 1


def test_constant_answers_and_guesses() -> None:
    right = [0] * 6 + [1] * 3 + [2]
    assert constant_f1(right) == (0, pytest.approx(2 * 0.6 / 1.6 / 3))
    generator = np.random.default_rng(1)
    many = right * 1000
    guessed = macro_f1(many, generator.integers(0, 3, len(many)).tolist())
    assert guessed_f1(right, 3) == pytest.approx(guessed, abs=0.01)


def test_nothing_but_right_answers_leaves_some_doubt() -> None:
    found = macro_f1_interval([0, 1] * 10, [0, 1] * 10, np.repeat(np.arange(10), 2))
    assert (found.estimate, found.high, found.method) == (1, 1, "wilson, 10 clusters")
    assert 0.7 < found.low < 0.75


@pytest.mark.parametrize(
    ("cells", "printed", "formula"),
    [((0.58, 0.23, 0.72), 0.58, 0.503), ((0.53, 0.20, 0.70), 0.54, 0.465), ((0.41, 0.11, 0.59), 0.39, 0.356)],
)
def test_open_models_are_printed_with_c_over_twice_the_best(
    cells: tuple[float, float, float], printed: float, formula: float
) -> None:
    assert paper_compat(*cells) == pytest.approx(printed, abs=0.0051)
    assert printed_formula(*cells) == pytest.approx(formula, abs=1e-9)
    assert abs(printed_formula(*cells) - printed) > 0.02


def test_closed_models_are_printed_without_c_and_without_renormalisation() -> None:
    assert paper_compat(0.67, None, 0.80) == pytest.approx(0.495)
    assert paper_compat(0.63, None, 0.77) == pytest.approx(0.469)
    assert paper_compat(1, None, 1) == pytest.approx(0.7)
