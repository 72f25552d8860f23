"""Numbers and words that stand beside each other agree: bounds and effects, shares and differences, verdicts and what
was asked."""

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from tomserve import benchmarks
from tomserve.benchmarks import perturbed
from tomserve.items import Item
from tomserve.scoring.table import table
from tomserve.studies import OPEN, Card, Context, Study, load_study
from tomserve.studies.analysis import compute
from tomserve.studies.baselines import compared, with_best
from tomserve.studies.words import cell, number, p_value


@pytest.fixture(scope="module")
def items() -> list[Item]:
    """Every second question of the first edition: of all classes, stages and scenarios."""
    return list(perturbed.load())[::2]


@pytest.fixture(scope="module")
def study() -> Study:
    return load_study("perturbed")


def answered(items: list[Item], right: Callable[[Item], bool | None], strategy: str = "vanilla") -> pl.DataFrame:
    """The scores of a model that answers these items right or wrong, or (None) not at all."""

    def response(item: Item) -> dict[str, Any]:
        is_right = right(item)
        wrong = next(choice for choice in item.choices if choice != item.answer)
        text = None if is_right is None else item.answer if is_right else wrong
        return {"strategy": strategy, "status": "timeout" if is_right is None else "ok", "text": text}

    return table("r", "m", [(item, response(item)) for item in items], rules=benchmarks.scoring)


def cards(scores: pl.DataFrame, study: Study) -> list[Card]:
    tables = compute(scores, study, "recommended").tables
    (verdict,) = study.verdicts(tables, Context({"all": 1 / 3, "false_belief": 1 / 3}))
    return list(verdict.cards)


def mixed(item: Item) -> bool:
    """About four of five right, other ones in every task."""
    return sum(map(ord, item.id)) % 5 != 0


@pytest.mark.parametrize("value", [-0.004, -1e-12, 0.0, 0.004])
def test_nothing_is_shown_as_minus_zero(value: float) -> None:
    assert (cell(value), number(value)) == (".00", "0.00")


def test_no_test_gives_a_p_of_zero_and_rounding_never_contradicts_the_interval() -> None:
    shown = [p_value(p) for p in (0.0, 1e-9, 0.0006, 0.0496, 0.05, 0.0504, 1.0)]
    assert shown == ["p < 0.001"] * 2 + ["p = 0.001", "p = 0.0496", "p = 0.050", "p = 0.0504", "p = 1.000"]


@pytest.mark.parametrize("failing", [False, True])
def test_the_bounds_of_every_effect_hold_it_and_are_it_where_nothing_failed(
    items: list[Item], study: Study, failing: bool
) -> None:
    def right(item: Item) -> bool | None:
        return None if failing and sum(map(ord, item.id)) % 7 == 0 else mixed(item)

    tables = compute(answered(items, right), study, "recommended").tables
    pooled = tables["perturbation_effects"].filter(target="these stages")
    assert pooled.height == 2
    assert (pooled["worst_low"] < pooled["worst_high"]).all() == failing
    for row in tables["perturbation_effects"].iter_rows(named=True):
        if failing:
            assert row["worst_low"] <= row["risk_difference"] <= row["worst_high"]
        else:
            assert row["worst_low"] == row["worst_high"] == pytest.approx(row["risk_difference"], abs=1e-12)


def test_where_accuracies_and_difference_count_otherwise_the_two_shares_stand_beside_it() -> None:
    row = {"best_rule": "always reality", "best_rule_accuracy": 0.91, "accuracy": 0.80, "over_rule": -0.15}
    row |= {"over_rule_low": -0.36, "over_rule_high": 0.07, "estimate": 0.75, "best_rule_estimate": 0.90}
    told = compared({**row, "target": "new stages"})
    assert told.endswith("(91%; difference −15 [−36, +7] points, 75% against 90% where every stage counts once)")
    assert compared({**row, "accuracy": 0.76}).endswith("(91%; difference −15 [−36, +7] points)")


def test_the_best_rule_of_each_strategy_is_that_of_its_own_questions() -> None:
    cells = pl.DataFrame({"class": ["a", "b"], "vanilla": ["x", "x"], "cot": ["y", "y"]})
    rows = [("a", "x", 0.875), ("a", "x", 1.0), ("b", "x", 0.5), ("b", "x", 0.5)]
    shares = pl.DataFrame(rows, schema=["class", "best_rule", "best_rule_accuracy"], orient="row")
    assert with_best(cells, shares, "class")["best rule"].to_list() == [".88 / 1.00", ".50"]


def test_a_criterion_that_one_strategy_misses_is_met_in_part_only(items: list[Item], study: Study) -> None:
    two = pl.concat([answered(items, lambda _: False), answered(items, lambda _: True, "cot")])
    assert cards(two, study)[0].verdict.startswith("Meets the paper's criterion in part only, but so do the rules")


def test_what_was_not_asked_is_neither_passed_nor_failed(items: list[Item], study: Study) -> None:
    for kept, said in (
        (["none"], "More than half right in 0 of 0 classes, also on unperturbed stories; "),
        (["late_label"], "More than half right in 1 of 1 classes, and unperturbed stories were not asked; "),
        (["none", "late_label"], "More than half right in 1 of 1 classes, also on unperturbed stories; "),
    ):
        some = [item for item in items if item.factors["perturbation"] in kept]
        (shown,) = (one.frame for one in compute(answered(some, mixed), study).summary() if "criteria" in one.title)
        assert shown["unperturbed"].unique().to_list() == ["above half" if "none" in kept else "not asked"]
        assert shown["paper's word"].unique().to_list() == ["cannot be told"]
        robust, *others = cards(answered(some, mixed), study)
        assert (robust.verdict, robust.tone) == ("It cannot be told: not all of it was asked", OPEN)
        assert robust.grounds[0][1].startswith(f"{said}the paper's criterion asks for 10 classes.")
        if kept == ["late_label"]:
            assert others[0].verdict == "No class can be compared with unperturbed stories"


def test_half_of_what_was_asked_wrong_is_still_no(items: list[Item], study: Study) -> None:
    some = [item for item in items if item.factors["perturbation"] in ("none", "late_label")]
    assert cards(answered(some, lambda _: False), study)[0].verdict == "No"
