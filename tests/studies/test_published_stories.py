"""The studies of ToMi and OpenToM, on answerers of known behaviour."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.conftest import ROOT
from tests.helpers import golden_tables
from tomserve import benchmarks
from tomserve.benchmarks.opentom.rules import class_of
from tomserve.items import Item
from tomserve.studies import analyze, load_study

DATA = ROOT / "tests/data"
Answerer = Callable[[Item], str | None]


@cache
def asked(benchmark: str, path: Path) -> tuple[Item, ...]:
    return tuple(benchmarks.load(benchmark, path))


def scored(items: tuple[Item, ...], **answerers: Answerer) -> pl.DataFrame:
    """A score table of answerers, each under the name of a strategy."""
    rows: list[dict[str, Any]] = []
    for name, answer in answerers.items():
        for item in items:
            said = answer(item)
            row = {"run": "r", "model": "m", "benchmark": item.benchmark, "strategy": name, "item": item.id}
            row |= {"status": "ok" if said else "invalid", "cluster": item.cluster, "answer": said}
            row |= {"correct": said == item.answer, "rule_first_choice": item.choices[0] == item.answer, **item.factors}
            row |= {"metric_class": class_of(item, said) if said else None}
            if item.benchmark == "opentom":
                row |= {"metric_official": row["metric_class"] if said else "unread"}
            rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def study(name: str, file: str, intervals: str = "recommended", **answerers: Answerer) -> dict[str, pl.DataFrame]:
    return analyze(scored(asked(name, DATA / file), **answerers), load_study(name), intervals)


tomi, opentom = partial(study, "tomi", "tomi_small.txt"), partial(study, "opentom", "opentom_small")


def right(item: Item) -> str | None:
    return item.answer


def test_the_grade_of_simtom_stands_beside_ours() -> None:
    table = scored(asked("tomi", DATA / "tomi_small.txt"), vanilla=right)
    grade = {"metric_official": pl.col("released") == pl.col("answer"), "metric_both_places": pl.lit(True)}
    for intervals in ("recommended", "published"):
        found = analyze(table.with_columns(**grade), load_study("tomi"), intervals)["official"]
        row = found.filter(question_type="second_order_1_no_tom").row(0, named=True)
        assert (row["replies"], row["accuracy"], row["both_places"]) == (3, 1, 1)
        assert row["official_accuracy"] == pytest.approx(1 / 3), "two labels of three do not follow from the story"
    assert "official" not in analyze(table, load_study("tomi"), "recommended")


def test_a_story_of_tomi_counts_only_if_all_six_are_right() -> None:
    found = tomi(vanilla=lambda item: item.answer if item.factors["task"] != "memory" else None)
    joint = found["joint"].row(0, named=True)
    assert (joint["story_type"], joint["stories"], joint["joint"], joint["product"]) == ("all", 3, 0, 0)
    perfect = tomi(vanilla=right)["joint"]
    assert perfect["joint"].to_list() == [1] * 4
    assert "joint" not in study("tomi", "tomi_fixed_small.jsonl", vanilla=right)  # no story has all six


def test_opentom_counts_classes_and_failures() -> None:
    found = opentom(
        vanilla=lambda item: None if item.factors["perspective"] == "narrator" else item.answer,
        cot=lambda item: "No" if "Yes" in item.choices else item.answer,
    )
    f1 = found["macro_f1"]
    fine = f1.filter(strategy="vanilla", task="location_fine", length="normal")
    assert fine.select("order", "f1", "unread").rows() == [(0, 0.0, 4), (1, 1.0, 0), (2, 1.0, 0)]
    coarse = f1.filter(strategy="cot", task="location_coarse", length="normal", order=1).row(0, named=True)
    # three of four are No: F1 of No is 2*3/(3+4), of Yes 0
    assert coarse["f1"] == pytest.approx(3 / 7)
    assert (coarse["constant"], coarse["constant_f1"]) == ("No", pytest.approx(3 / 7))
    pairs = found["coarse_and_fine"].filter(strategy="cot", length="normal", order=1).row(0, named=True)
    assert (pairs["pairs"], pairs["both"], pairs["contradict"], pairs["coarse"]) == (4, 0.75, 0.25, 0.75)


def test_multihop_as_published_takes_classes_together_by_their_numbers() -> None:
    swapped = {"less full": "more full", "more full": "less full"}
    found = opentom("published", vanilla=lambda item: swapped.get(item.answer, item.answer))
    both = found["macro_f1"].filter(length="normal", task="multihop", order=1).row(0, named=True)
    single = found["macro_f1"].filter(length="normal", task="accessibility", order=1).row(0, named=True)
    assert single["f1"] == 1
    # less full (3) and more accessible (2), more full (4) and less accessible (1), equally full (1) and accessible (1)
    assert both["accuracy"] == pytest.approx(5 / 12)
    assert both["f1"] == pytest.approx((2 * 2 / (5 + 6) + 2 * 1 / (5 + 4) + 1) / 3)


@pytest.mark.parametrize("intervals", ["recommended", "published"])
def test_numbers_of_several_answerers_are_what_they_were(intervals: str) -> None:
    """One never answers the narrator or about memory, one says what the release says, one always takes the first."""
    silent = ("narrator", "memory")
    answerers: dict[str, Answerer] = {
        "vanilla": lambda item: None if {*silent} & {*map(str, item.factors.values())} else item.answer,
        "cot": lambda item: str(item.factors.get("released") or ("No" if "Yes" in item.choices else item.answer)),
        "letters": lambda item: item.choices[0],
    }
    for name, make in (("tomi", tomi), ("opentom", opentom)):
        golden_tables.check(f"{name}-answerers-{intervals}", make(intervals, **answerers))
