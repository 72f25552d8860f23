"""The study of behaviour: one table across benchmarks, on answerers whose cells are known."""

import math
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from tests.conftest import ROOT
from tests.helpers import golden_tables
from tomserve.errors import ConfigError
from tomserve.runs.scores import load_scores
from tomserve.studies import Context, analyze, compute

Row = dict[str, Any]

TASKS = (("forward", "belief", 2), ("forward", "belief", 2), ("backward", "desire", 4), ("recall", "memory", 2))
"""The questions of each story: task, dimension, number of choices."""


def right(row: Row) -> bool:
    del row
    return True


def scored(answer: Callable[[Row], bool], name: str = "bigtom", stories: int = 24, **more: object) -> pl.DataFrame:
    """A score table of a benchmark whose stories have the questions of TASKS. The constant rule is right on the first of
    them in each story, and on the last; the surface rule on every backward one."""
    rows: list[Row] = []
    for story in range(stories):
        for place, (task, dimension, options) in enumerate(TASKS):
            row: Row = {"run": name, "model": "m", "benchmark": name, "strategy": "vanilla", "status": "ok"}
            row |= {"item": f"{name}/{story}/{place}", "cluster": f"{name}/{story}", "answer": "a"}
            row |= {"task": task, "dimension": dimension, "floor_guess": 1 / options, "place": place, "story": story}
            row |= {"rule_first_choice": place in (0, 3), "rule_same_words": task == "backward"}
            rows.append({**row, "correct": answer(row), **more})
    return pl.DataFrame(rows, infer_schema_length=None)


def behaviour(*scores: pl.DataFrame, intervals: str = "recommended") -> dict[str, pl.DataFrame]:
    return analyze(pl.concat(scores, how="diagonal"), "behaviour", intervals)


def test_b_is_the_mean_over_types_of_task_of_what_is_above_chance() -> None:
    """Three of four forward questions and all backward ones are right: ((3/4 - 1/2)/(1/2) + 1)/2 = 3/4."""
    found = behaviour(scored(lambda row: row["place"] == 0 or row["task"] == "backward" or row["story"] % 2 == 0))
    (row,) = found["behaviour"].to_dicts()
    assert (row["b"], row["tasks"], row["total"], row["clusters"]) == (pytest.approx(0.75), 2, 72, 24)
    assert row["b_low"] < row["b"] < row["b_high"]


def test_simple_rules_stand_beside_and_whoever_follows_one_shows_nothing() -> None:
    found = compute(scored(lambda row: bool(row["rule_same_words"])), "behaviour")
    row = found.tables["behaviour"].to_dicts()[0]
    assert (row["constant_rule"], row["constant_b"]) == ("first choice", 0.0)  # half of the forward ones is chance
    assert (row["surface_rule"], row["surface_b"], row["over_rule"]) == ("same words", 0.5, 0.0)
    (verdict,) = found.verdicts_with(Context())
    assert (verdict.cards[0].verdict, verdict.cards[0].tone) == ("Not shown", "open")


def test_whoever_is_always_right_is_above_every_rule_in_every_benchmark() -> None:
    both = pl.concat([scored(right), scored(right, "dyntom")])
    found = compute(both, "behaviour")
    (verdict,) = found.verdicts_with(Context())
    assert (verdict.cards[0].verdict, verdict.cards[0].tone) == ("Yes, in every benchmark", "good")
    assert found.tables["behaviour"]["b"].to_list() == [1, 1, 1]
    assert (found.tables["behaviour"]["b_low"] < 1).all(), "stories that are all alike do not make anything certain"


def test_the_mean_counts_every_benchmark_once() -> None:
    found = behaviour(scored(right, "bigtom", 30), scored(lambda row: False, "tombench", 6))
    rows = {row["benchmark"]: row for row in found["behaviour"].to_dicts()}
    assert {name: row["b"] for name, row in rows.items()} == {"bigtom": 1, "tombench": 0, "mean of 2 benchmarks": 0.5}
    mean = rows["mean of 2 benchmarks"]
    assert 0 < mean["b_low"] < 0.5 == mean["b_high"], "no benchmark can have more than it shows here"
    belief = found["dimensions"].filter(dimension="belief").select("benchmark", "corrected").rows()
    assert belief == [("bigtom", 1.0), ("tombench", 0.0), ("mean of 2 benchmarks", 0.5)]


def test_only_this_study_sets_benchmarks_of_one_model_side_by_side() -> None:
    both = pl.concat([scored(right), scored(right, "tombench")])
    with pytest.raises(ConfigError, match=r"set them side by side \(--study behaviour\)"):
        analyze(both, "accuracy")
    assert behaviour(both)["behaviour"].height == 3


def test_benchmarks_without_task_and_dimension_are_placed_by_their_own_factors() -> None:
    found = behaviour(load_scores(f"{ROOT}/runs/example"))
    cells = found["task_types"].filter(strategy="vanilla").select("task", "dimension", "in_b").rows()
    belief = [(task, "belief", True) for task in ("false_belief", "no_belief", "true_belief")]
    assert cells == [*belief[:2], ("reality", "reality", False), belief[2]]
    nested = scored(right, "hitom").drop("task", "dimension").with_columns(order=pl.col("place"))
    named = behaviour(nested)["task_types"].select("task", "dimension", "in_b").rows()
    assert named == [("order_1", "belief", True), ("order_2", "belief", True), ("order_3", "belief", True),
                     ("reality", "reality", False)]  # fmt: skip


def test_without_the_number_of_choices_nothing_is_corrected_and_that_is_said() -> None:
    found = compute(scored(right).drop("floor_guess"), "behaviour")
    assert found.tables["behaviour"]["b"].to_list() == [None]
    assert [one for one in found.warnings if one.startswith("bigtom: its score table does not say how many choices")]
    (verdict,) = found.verdicts_with(Context())
    assert verdict.cards[0].verdict == "It cannot be told"
    options = scored(right).with_columns(options=(1 / pl.col("floor_guess")).cast(pl.Int64)).drop("floor_guess")
    assert behaviour(options)["behaviour"]["b"].to_list() == [1], "a factor of the items says it as well"
    for chance in (math.nan, math.inf, -5.0, 1.0):
        assert behaviour(scored(right).with_columns(floor_guess=chance))["behaviour"]["b"].to_list() == [None]


@pytest.mark.parametrize("intervals", ["recommended", "published"])
def test_numbers_and_words_of_five_benchmarks_are_what_they_were(intervals: str) -> None:
    """Among them questions about the world, unusable ones, few stories, and a benchmark whose people are quoted."""
    usable = scored(lambda row: row["task"] != "backward").with_columns(usable=pl.col("task") != "backward")
    parts = [usable, *(scored(lambda row: row["place"] != 3, name) for name in ("dyntom", "fantom", "mmtom"))]
    found = compute(pl.concat([*parts, scored(right, "tombench", 4)], how="diagonal"), "behaviour", intervals)
    words = {"warnings": found.warnings, "verdicts": found.verdicts_with(Context())}
    golden_tables.check(f"behaviour-five-{intervals}", found.tables, **words)
