"""Strategies: what is sent for an item, and where a reply holds its reasoning."""

import shutil
from pathlib import Path

import orjson
import pytest
import yaml

from tests.conftest import ROOT, make_item
from tests.helpers.strategies import write_strategy
from tomserve.benchmarks import get
from tomserve.errors import ConfigError, ContentError
from tomserve.prompting.conversation import Reply
from tomserve.prompting.strategy import Strategy, list_strategies


def test_a_strategy_of_one_turn_is_a_conversation_of_one_turn() -> None:
    strategy = Strategy.load("vanilla")
    assert (strategy.turns, strategy.calls, strategy.is_multi_turn) == (1, 1, False)
    conversation = strategy.conversation(make_item())
    assert conversation.open == [strategy.turn(make_item())]
    assert conversation.reply(0, Reply("tea")) == []
    assert (conversation.ended, conversation.count, conversation.conclusion) == (True, 1, None)


def test_without_a_system_role_its_text_opens_the_first_user_turn() -> None:
    usual, merged = (Strategy.load("cot", system_role=role) for role in (True, False))
    a, b = usual.turn(make_item()), merged.turn(make_item())
    assert [m["role"] for m in b.messages] == ["user", "assistant", "user"]
    assert b.messages[0]["content"] == f"{a.messages[0]['content']}\n\n{a.messages[1]['content']}"
    assert usual.digest != merged.digest


def test_a_preset_may_replace_a_part() -> None:
    strategy = Strategy.load("vanilla", overrides={"vanilla/system": "Be brief.", "cot/system": "no"})
    assert strategy.turn(make_item()).messages[0] == {"role": "system", "content": "Be brief."}
    assert strategy.digest != Strategy.load("vanilla").digest != Strategy.load("vanilla", max_tokens=7).digest


def test_item_text_is_data_not_template() -> None:
    nasty = make_item(question="{{ 7 * 7 }} {% for %}", choices=['"]}', "salt", "unknown"], answer="salt", gold=None)
    turn = Strategy.load("vanilla").turn(nasty)
    assert "{{ 7 * 7 }} {% for %}" in turn.messages[-1]["content"]
    assert turn.schema["properties"]["answer"]["enum"][0] == '"]}'


def test_unknown_strategy_and_missing_parts(tmp_path) -> None:
    with pytest.raises(ConfigError, match="unknown strategy 'vanila'; did you mean 'vanilla'"):
        Strategy.load("vanila")
    (tmp_path / "strategy.yaml").write_text("schema: 1\ndescription: x\nmax_tokens: 5\n")
    with pytest.raises(ContentError, match=r"user.j2: is missing"):
        Strategy.load(f"{tmp_path}/")


def test_more_choices_than_letters_are_offered_without() -> None:
    choices = [f"box_{number}" for number in range(27)]
    turn = Strategy.load("hitom_vanilla").turn(make_item(choices=choices, answer="box_3", gold=None))
    assert turn.messages[1]["content"].endswith("Choices: " + ", ".join(choices))


def test_a_benchmark_names_its_own_strategies() -> None:
    assert get("hitom").strategies == ("hitom_vanilla", "hitom_cot")
    assert get("perturbed").strategies == get("items").strategies == ("vanilla", "cot")
    with pytest.raises(ConfigError, match="unknown benchmark 'hitm'; did you mean 'hitom'"):
        get("hitm")


@pytest.mark.parametrize("suffix", ["jsonl", "yaml"])
def test_a_demonstration_is_any_item_of_any_file(suffix: str, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(ROOT / "prompts/cot", folder)
    shown = make_item(7)
    if suffix == "jsonl":
        (tmp_path / "d.jsonl").write_bytes(shown.to_json() + b"\n")
    else:
        one = orjson.loads(shown.to_json())
        (tmp_path / "d.yaml").write_text(yaml.safe_dump({"schema": one.pop("schema"), "items": [one]}))
    text = "schema: 1\ndescription: x\nmax_tokens: 9\ndemonstrations:\n  - {file: ../d.%s, item: %s}\n"
    (folder / "strategy.yaml").write_text(text % (suffix, shown.id))
    messages = Strategy.load(f"{folder}/").turn(make_item()).messages
    assert "2. Jar number 7 holds tea." in messages[1]["content"]
    assert orjson.loads(messages[2]["content"])["answer"] == "tea"
    (folder / "strategy.yaml").write_text(text % (suffix, "demo/8"))
    with pytest.raises(ContentError, match=r"strategy\.yaml:4: demonstrations: unknown item 'demo/8'; did you mean"):
        Strategy.load(f"{folder}/")


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
