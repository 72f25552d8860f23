"""Bundles of sixteen questions: drawn whole, counted whole, beside chance and rules."""

from collections import Counter
from collections.abc import Callable

import polars as pl
import pytest

from tests.helpers.scored import answered, wrong_choice
from tomserve import benchmarks
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.items.draw import limit_items
from tomserve.studies import analyze


@pytest.fixture(scope="module")
def items() -> list[Item]:
    found = list(benchmarks.load("bundles"))
    assert set(Counter(item.cluster for item in found).values()) == {16}
    return found


def scores(items: list[Item], wrong: Callable[[Item], bool]) -> pl.DataFrame:
    """The score table of a model that is right but where `wrong` says."""
    return answered(items, lambda item: wrong_choice(item) if wrong(item) else item.answer)


def test_the_limit_draws_whole_bundles(items: list[Item]) -> None:
    drawn = Counter(item.cluster for item in limit_items(items, 70, benchmarks.get("bundles").draw))
    assert list(drawn.values()) == [16] * 4


def test_one_wrong_answer_loses_a_bundle(items: list[Item]) -> None:
    none = [item for item in items if item.factors["perturbation"] == "none"]
    missed = next(item.id for item in none if item.factors["scenario"] == "false_belief")
    found = analyze(scores(none, lambda item: item.id == missed), "bundles")
    bundles = found["all"].row(0, named=True)
    assert (bundles["solved"], bundles["bundles"]) == (len(none) // 16 - 1, len(none) // 16)
    assert bundles["chance"] == pytest.approx(3**-16)
    assert dict(found["right"].select("right", "bundles").rows()) == {15: 1, 16: len(none) // 16 - 1}


def test_whoever_answers_with_reality_solves_none_and_misses_false_beliefs_alone(items: list[Item]) -> None:
    def mind(item: Item) -> bool:
        return (item.factors["scenario"], item.factors["question_kind"]) == ("false_belief", "belief")

    found = analyze(scores(items, mind), "bundles")
    missed = found["false_belief"].row(0, named=True)
    assert (missed["solved"], missed["only_false_beliefs_missed"]) == (0, 68)
    assert (missed["only_controls_missed"], missed["both_missed"]) == (0, 0)


def test_bundles_that_were_not_asked_whole_are_left_out(items: list[Item]) -> None:
    table = scores([item for item in items if item.cluster in ("C1/none", "C3/none")], lambda item: False)
    assert analyze(table.head(31), "bundles")["all"]["bundles"].item() == 1
    with pytest.raises(ConfigError, match="no bundle of 16 questions was asked whole; ask the benchmark 'bundles'"):
        analyze(table.head(15), "bundles")
    with pytest.raises(ConfigError, match="no bundle of 16 questions was asked whole"):  # 16 of a larger task's 28
        analyze(table.head(16).with_columns(task_questions=28), "bundles")
