"""The table `samples` of the accuracy study: majority, mean, any and all of questions that were asked several times."""

from __future__ import annotations

import polars as pl
import pytest

import tomserve
from tests.conftest import make_item
from tomserve.scoring.table import table
from tomserve.studies import compute

TEXTS = {True: '{"answer": "tea"}', False: '{"answer": "salt"}'}


def scores(right: dict[int, list[bool | None]]) -> pl.DataFrame:
    """A score table of one strategy; right: for each item whether its samples are right, None for an unread one."""
    answered = [
        (make_item(number), {"strategy": "vanilla", "status": "ok", "text": TEXTS.get(one, "hm"), "sample": sample})
        for number, samples in right.items()
        for sample, one in enumerate(samples)
    ]
    return table("r", "m", answered)


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
