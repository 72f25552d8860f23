"""The study of functional Theory of Mind, on answers and measurements whose truth is known."""

import csv
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

import polars as pl
import pytest

from analysis.functional.layers import size_of
from analysis.functional.score import claim
from analysis.functional.study import STUDY
from tests.conftest import DATA
from tests.helpers import golden_tables
from tests.helpers import measured_tables as moved
from tests.helpers.functional_tables import answers, share
from tests.helpers.measured_tables import measured
from tomserve.studies import Analysis, Card, Context, compute, published_tables
from tomserve.studies.comparison import combine_scores

FACTS = DATA.parent / "facts/published_functional"
"""The cells that the paper printed, beside the data of others; never committed."""
FTOM = itemgetter("b", "c", "s", "printed")


def small(truth: moved.Truth, model: str = "m", seed: int = 7) -> pl.DataFrame:
    return measured(truth, model, layers=(1, 2), alphas=(1e-2,), seed=seed)


def scored(*frames: pl.DataFrame) -> Analysis:
    return compute(combine_scores(list(frames)), STUDY)


@cache
def whole() -> Analysis:
    """Two models that were measured inside, one of which was also asked to reason, and one without weights."""
    parts = [
        answers(share(0.8), 0.9),
        answers(share(0.9, "c"), 0.9, strategy="cot"),
        small(moved.WORKS),
        answers(share(0.7, "x"), 0.95, model="n-7b"),
        small(moved.REPRODUCED, "n-7b", 9),
        answers(share(0.75, "q"), 0.9, model="closed"),
    ]
    return compute(combine_scores(parts), "functional")


def test_numbers_and_words_of_three_models_are_what_they_were() -> None:
    found = whole()
    golden_tables.check(
        "functional-models", found.tables, warnings=found.warnings, verdicts=found.verdicts_with(Context())
    )


def row(analysis: Analysis, model: str = "m") -> dict[str, object]:
    return analysis.tables["score"].filter(model=model).row(0, named=True)


def cards(analysis: Analysis, model: str = "m") -> Mapping[str, Card]:
    (verdict,) = (one for one in analysis.verdicts_with(Context()) if one.model == model)
    return {card.question: card for card in verdict.cards}


@pytest.mark.usefixtures("alone")
def test_a_model_that_is_always_right_and_stable_and_has_a_map() -> None:
    """Everything right and kept; the map flips 70% of the items, the largest control 15% of them, the patch 95%."""
    found = row(scored(answers(), small(moved.WORKS)))
    assert (found["b"], found["s"]) == (1, 1)
    assert found["c"] == pytest.approx((0.7 - 0.15) / 0.95, abs=0.1)
    assert found["ftom"] == pytest.approx(0.5 + 0.3 * found["c"] + 0.2)
    assert found["ftom_bs"] == 1


def test_b_is_corrected_for_chance_and_takes_each_task_once() -> None:
    """Of 80: all right where chance is 1/2, half right where it is 1/4, none right where it is 1/2: (1 + 1/3 + 0)/3."""

    def right(task: str, scenario: int) -> bool:
        return task == "understanding-1" or (task == "influence-1" and scenario % 2 == 0)

    found = compute(answers(right), "functional")
    assert row(found)["b"] == pytest.approx((1 + 1 / 3) / 3)


LAYERS = "Which layers are shown?"


def test_a_mechanism_counts_only_where_its_verdict_says_so() -> None:
    found = whole()
    one = row(found, "n-7b")
    assert (one["c"], one["ftom"]) == (None, None)
    assert one["no_c"] == "the verdict on it is: a control reproduces it"
    assert one["c_measured"] == pytest.approx(0, abs=0.1)
    assert found.summary()[0].frame.filter(model="n-7b")["C"][0] == "(.00)"
    assert cards(found, "n-7b")[LAYERS].verdict == "Shown: behaviour, stability; not shown: mechanism"
    drawn = found.study.figures(found.tables, Context())  # type: ignore[misc]
    (panel,) = (one for one in drawn[0].panels if one.title == "mechanism C")
    assert "measured, not counted" in panel.svg.__html__()
    assert cards(found)[LAYERS].verdict == "All three layers are shown, by more than .20"


@pytest.mark.parametrize(("figure", "layer"), [("over_rule", "behaviour"), ("kappa", "stability")])
def test_a_layer_that_is_surely_but_little_above_its_control_is_not_shown(figure: str, layer: str) -> None:
    found = whole()
    little = pl.when(pl.col("figure") == figure).then(0.15).otherwise("low").alias("low")
    told = {**found.tables, "layers": found.tables["layers"].with_columns(little)}
    (verdict,) = (one for one in found.study.verdicts(told, Context()) if one.model == "m")
    assert verdict.cards[0].verdict.endswith(f"; not shown: {layer}")


@pytest.mark.usefixtures("alone")
def test_only_the_strategy_that_asks_for_the_answer_alone_counts() -> None:
    assert row(scored(answers(share(0.8), 0.9), small(moved.WORKS)))["b"] == row(whole())["b"]
    inputs = whole().tables["inputs"].filter(model="m")
    assert inputs.filter(holds="answers").sort("asked").select("asked", "strategy", "counted").rows() == [
        ("cot", None, False),
        ("vanilla", "vanilla", True),
    ]
    assert inputs.filter(holds="measurement")["strategy"].to_list() == ["vanilla"]
    step_by_step = small(moved.WORKS).with_columns(asked_by=pl.lit("cot_free"))
    doubted = scored(answers(share(0.8)), step_by_step).warnings
    assert any("count the strategy vanilla, and C was measured with cot_free" in line for line in doubted)
    other = scored(answers(strategy="mine"), answers(strategy="thine"))
    assert row(other)["b"] is None
    assert any("none of which is known to ask for the answer alone" in line for line in other.warnings)


@pytest.mark.usefixtures("alone")
def test_one_model_under_two_names_is_told() -> None:
    found = scored(answers(), small(moved.WORKS, "weights"))
    assert any("--label run-weights=NAME" in line for line in found.warnings)
    assert row(found)["c"] is None
    assert row(found, "weights")["no_b"] == "not measured"


@pytest.mark.usefixtures("alone")
def test_benchmarks_are_not_mixed_in_silence() -> None:
    found = scored(answers(again=False), answers(again=False, benchmark="bigtom"))
    assert any("B and S mix benchmarks (bigtom, worlds)" in line for line in found.warnings)
    assert any("T0 was not asked" in line for line in found.warnings)
    other = scored(answers(benchmark="bigtom"), small(moved.WORKS))
    assert any("C was measured on another benchmark" in line for line in other.warnings)


@pytest.mark.parametrize(
    ("effects", "said"),
    [
        ((0.2, 0.11, 0.0, -0.1, -0.21), "falls with size, and helps the smallest and hurts the largest"),
        ((-0.2, -0.11, 0.0, 0.1, 0.21), "rises with size"),
        ((0.1, -0.1, 0.12, -0.1, 0.1), "not shown"),
        ((0.2, 0.1, -0.2), "cannot be tested with 3 models of known size; 4 of different size are needed"),
    ],
)
def test_the_claim_that_reasoning_helps_small_models_is_a_test(effects: tuple[float, ...], said: str) -> None:
    sizes = (1.0, 3.0, 10.0, 30.0, 100.0)[: len(effects)]
    frame = pl.DataFrame({"model": [f"m{n}" for n in range(len(effects))], "task": "all tasks", "parameters": sizes,
                          "risk_difference": effects, "rd_low": [value - 0.1 for value in effects],
                          "rd_high": [value + 0.1 for value in effects]})  # fmt: skip
    (found,) = claim(frame)
    assert str(found["verdict"]).endswith(said)


def test_sizes_are_read_from_names() -> None:
    known = {"llama3.1-70b": 70, "Qwen2.5-0.5B-Instruct": 0.5, "mixtral-8x7b": 56, "org/smol-135M": 0.135}
    assert {name: size_of(name) for name in known} == pytest.approx(known)
    assert [size_of(name) for name in ("gpt-4o", "claude-sonnet", "reference", "b7")] == [None] * 4


@pytest.mark.skipif(not FACTS.is_dir(), reason="the facts are not on this machine")
@pytest.mark.parametrize(
    ("name", "table", "cells"),
    [
        ("3_behaviour", published_tables.TABLE_3, lambda line: tuple(int(line[one]) for one in published_tables.BEHAVIOUR_COLUMNS)),
        (
            "4_causal",
            published_tables.TABLE_4,
            lambda line: (number(line["peak_net_effect"]), line["peak_layers"] or None, line["alpha_range"] or None),
        ),
        ("5_stability", published_tables.TABLE_5, lambda line: tuple(map(float, list(line.values())[1:]))),
        ("6_ftom", published_tables.TABLE_6, lambda line: (*map(number, FTOM(line)), line["kind"], rank(line))),
    ],
)  # fmt: skip
def test_the_cells_are_those_that_the_source_prints(
    name: str, table: Mapping[str, Sequence[Any]], cells: Callable[[dict[str, str]], tuple[Any, ...]]
) -> None:
    with (FACTS / f"table{name}.csv").open(newline="") as file:
        assert {line["model"]: cells(line) for line in csv.DictReader(file)} == {
            model: tuple(row) for model, row in table.items()
        }


def number(text: str) -> float | None:
    return float(text) if text else None


def rank(line: dict[str, str]) -> int | None:
    return int(line["rank"]) if line["rank"] else None
