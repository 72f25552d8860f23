"""Where a strategy says that its reasoning is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.strategies import write_strategy
from tomserve.errors import ContentError
from tomserve.prompting.strategy import Strategy, list_strategies

ONE = {"user": "{{ question }}"}
TWO = {"think.user": "{{ question }}", "answer.user": "So?"}
TURNS = "turns: [{name: think}, {name: answer}]\n"


@pytest.mark.parametrize(
    ("name", "turn", "field", "marks"),
    [
        ("cot_free", "think", None, None),
        ("letters_cot", "think", None, None),
        ("bigtom_cot", "think", None, None),
        ("hitom_cot_reason_first", None, "explanation", None),
        ("dyntom_cot", None, "explanation", None),
        ("reason_native", None, None, ("<think>", "</think>")),
    ],
)
def test_shipped_ones_say_where(name: str, turn: str | None, field: str | None, marks: tuple[str, str] | None) -> None:
    found = Strategy.load(name).reasoning
    assert found is not None
    assert (found.turn, found.field, found.marks) == (turn, field, marks)


def test_what_stands_behind_the_answer_is_not_marked() -> None:
    for name in ("hitom_cot", "vanilla", "cot", "cot_1", "forced_choice"):
        assert name in list_strategies()
        assert Strategy.load(name).reasoning is None


def test_the_mark_shapes_no_request_and_so_is_no_part_of_the_digest(tmp_path: Path) -> None:
    plain = Strategy(write_strategy(tmp_path / "a" / "mine", TWO, TURNS))
    marked = Strategy(write_strategy(tmp_path / "b" / "mine", TWO, f"{TURNS}reasoning: {{turn: think}}\n"))
    assert plain.digest == marked.digest


@pytest.mark.parametrize(
    ("files", "config", "said"),
    [
        (ONE, "reasoning: {}", "expected one of `turn: NAME`, `field: NAME` and `marks: [BEFORE, AFTER]`"),
        (ONE, "reasoning: {field: why, marks: [a, b]}", "expected one of `turn: NAME`"),
        (ONE, "reasoning: {turn: think}", "unknown turn 'think'"),
        (TWO, f"{TURNS}reasoning: {{turn: thinks}}", "unknown turn 'thinks'; did you mean 'think'"),
        (TWO, f"{TURNS}reasoning: {{turn: answer}}", "one before the turn that answers"),
        (TWO, f"{TURNS}reasoning: {{field: why}}", "a strategy of several turns names the turn that reasons"),
        (ONE, "reasoning: {marks: [a]}", "reasoning"),
        (ONE, 'reasoning: {marks: ["", b]}', "reasoning"),
        (ONE, "reasoning: think", "reasoning"),
    ],
)
def test_a_mistake_names_file_and_field(tmp_path: Path, files: dict[str, str], config: str, said: str) -> None:
    with pytest.raises(ContentError) as error:
        Strategy(write_strategy(tmp_path / "mine", files, f"{config}\n"))
    assert said in str(error.value)
    assert "strategy.yaml:" in str(error.value)
