"""Means of the metrics that benchmarks compute from replies."""

import math

import polars as pl
import pytest

from tomserve.stats.clustered import clustered_mean
from tomserve.studies.metrics import means


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
    found = means(rows)
    assert found.select("strategy", "metric", "total", "answers", "mean", "clusters").rows() == [
        ("cot", "metric_words", 3, 2, 3.0, 2),
        ("cot", "metric_polite", 3, 2, 0.5, 2),
        ("vanilla", "metric_words", 1, 1, 9.0, 1),
        ("vanilla", "metric_polite", 1, 0, None, 0),
    ]
    assert found["ci_low"].null_count() == 2
    assert means(rows.select("model", "strategy", "cluster")).is_empty()
