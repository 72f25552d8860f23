"""Means of the metrics that benchmarks compute from replies; and majority, mean, any and all of several samples."""

import math

import polars as pl
import pytest

import tomserve
from analysis.accuracy import Metrics
from tests.conftest import make_item
from tests.helpers.scored import score_table
from tomserve.stats.clustered import clustered_mean
from tomserve.studies import compute


def test_a_mean_has_the_t_interval_of_its_clusters() -> None:
    found = clustered_mean([1.0, 2.0, 3.0, 4.0], ["a", "b", "c", "d"])
    assert found.estimate == 2.5
    assert found.low == pytest.approx(2.5 - 3.182446 * math.sqrt(5 / 3) / 2)  # t of 3 df times the standard error
    assert found.high == pytest.approx(2.5 + 3.182446 * math.sqrt(5 / 3) / 2)
    twice = clustered_mean([1.0, 2.0, 3.0, 4.0] * 2, ["a", "b", "c", "d"] * 2)
    assert (twice.low, twice.high) == pytest.approx((found.low, found.high))  # copies tell nothing new


def test_where_a_mean_has_no_interval() -> None:
    assert math.isnan(clustered_mean([1.0, 3.0], ["a", "a"]).low)
    assert math.isnan(clustered_mean([2.0, 2.0], ["a", "b"]).low)
    assert math.isnan(clustered_mean([math.nan], ["a"]).estimate)
    assert clustered_mean([1.0, math.nan, 3.0], ["a", "b", "c"]).estimate == 2.0
    with pytest.raises(ValueError, match="length"):
        clustered_mean([1.0], ["a", "b"])


def metric_means(rows: pl.DataFrame) -> pl.DataFrame:
    counter = Metrics()
    counter.first(rows)
    return counter.table()


def test_every_metric_of_a_table_has_a_row_an_arm() -> None:
    rows = pl.DataFrame(
        {
            "model": ["m"] * 4,
            "strategy": ["cot", "cot", "cot", "vanilla"],
            "cluster": ["a", "b", "c", "a"],
            "metric_words": [2, 4, None, 9],
            "metric_polite": [True, False, None, None],
            "metric_label": ["x", "y", None, "z"],
            "words": [1, 1, 1, 1],
        }
    )
    found = metric_means(rows)
    assert found.select("strategy", "metric", "total", "answers", "mean", "clusters").rows() == [
        ("cot", "metric_words", 3, 2, 3.0, 2),
        ("cot", "metric_polite", 3, 2, 0.5, 2),
        ("vanilla", "metric_words", 1, 1, 9.0, 1),
        ("vanilla", "metric_polite", 1, 0, None, 0),
    ]
    assert found["ci_low"].null_count() == 2
    assert metric_means(rows.select("model", "strategy", "cluster")).is_empty()


# questions that were asked several times


TEXTS = {True: '{"answer": "tea"}', False: '{"answer": "salt"}'}


def scores(right: dict[int, list[bool | None]]) -> pl.DataFrame:
    """A score table of one strategy; right: for each item whether its samples are right, None for an unread one."""
    answered = [
        (make_item(number), {"strategy": "vanilla", "status": "ok", "text": TEXTS.get(one, "hm"), "sample": sample})
        for number, samples in right.items()
        for sample, one in enumerate(samples)
    ]
    return score_table("r", "m", answered)


def test_the_four_shares_with_intervals() -> None:
    found = tomserve.analyze(
        scores({1: [True, True, False], 2: [True, False, False], 3: [True, True, True], 4: [False, None, None]}),
        "accuracy",
    )["samples"]
    shares = dict(found.select("measure", "share").iter_rows())
    assert shares == pytest.approx({"majority": 0.5, "mean": 0.5, "any": 0.75, "all": 0.25})
    assert found["questions"].to_list() == [4] * 4
    assert found["samples"].to_list() == [12] * 4
    assert found["unread"].to_list() == [2] * 4
    assert (found["ci_low"] < found["share"]).all()
    assert (found["ci_high"] > found["share"]).all()
    of_accuracy = tomserve.analyze(scores({1: [True, True, False], 2: [False, False, True]}), "accuracy")["accuracy"]
    assert of_accuracy["accuracy"].to_list() == [0.5]


def test_it_is_explained_and_shown_and_absent_without_repeats() -> None:
    repeated = compute(scores({1: [True, False], 2: [True, True]}), "accuracy")
    assert "majority" in repeated.notes["samples"]
    assert any("samples" in excerpt.title for excerpt in repeated.study.summary(repeated.tables) or ())
    assert "samples" not in compute(scores({1: [True], 2: [False]}), "accuracy").tables
