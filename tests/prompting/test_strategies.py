"""Strategies: what is sent for an item."""

import shutil
from pathlib import Path

import orjson
import pytest
import yaml

from tests.conftest import ROOT, make_item
from tomserve.benchmarks import get
from tomserve.errors import ConfigError, ContentError
from tomserve.prompting.conversation import Reply
from tomserve.prompting.strategy import Strategy


def test_a_strategy_of_one_turn_is_a_conversation_of_one_turn() -> None:
    strategy = Strategy.load("vanilla")
    assert (strategy.turns, strategy.calls, strategy.several) == (1, 1, False)
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
