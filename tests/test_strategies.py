"""Strategies: what is sent for an item."""

import orjson
import pytest

from tests.conftest import make_item
from tomserve.benchmarks import get
from tomserve.errors import ConfigError, ContentError
from tomserve.strategies import Strategy, names


def test_vanilla_is_zero_shot_and_cot_one_shot() -> None:
    item = make_item()
    assert [m["role"] for m in Strategy.load("vanilla").turn(item).messages] == ["system", "user"]
    assert [m["role"] for m in Strategy.load("cot").turn(item).messages] == ["system", "user", "assistant", "user"]
    assert names() == ["cot", "vanilla"]


def test_the_item_comes_last_and_all_before_is_shared() -> None:
    for name in names():
        one, two = (Strategy.load(name).turn(make_item(n)) for n in (1, 2))
        assert one.messages[:-1] == two.messages[:-1]
        assert one.messages[-1]["content"].startswith(
            "Story:\n1. The jar stands on the shelf.\n2. Jar number 1 holds tea.\n"
        )
        assert (
            '\n\nQuestion: What does Ada believe is in the jar?\nLabels: ["tea","salt","unknown"]'
            in one.messages[-1]["content"]
        )


def test_schemas_bind_the_labels_and_every_sentence_in_order() -> None:
    item = make_item()
    assert Strategy.load("vanilla").turn(item).schema["properties"]["answer"] == {"enum": ["tea", "salt", "unknown"]}
    beliefs = Strategy.load("cot").turn(item).schema["properties"]["beliefs"]
    assert [entry["properties"]["sentence"] for entry in beliefs["prefixItems"]] == [{"const": n} for n in (1, 2, 3)]
    assert beliefs["minItems"] == beliefs["maxItems"] == 3
    assert beliefs["items"] is False


def test_the_demonstration_is_right_and_from_outside_the_dataset() -> None:
    turn = Strategy.load("cot").turn(make_item())
    reply = orjson.loads(turn.messages[2]["content"])
    assert reply["answer"] == "the toolshed"
    assert [entry["sentence"] for entry in reply["beliefs"]] == [1, 2, 3, 4, 5, 6]
    assert [entry["belief"] for entry in reply["beliefs"]] == ["the sandpit"] * 4 + ["the toolshed"] * 2
    dataset = " ".join(sentence for item in get("perturbed").load() for sentence in item.story).lower()
    for word in ("ravi", "lotte", "kite", "sandpit", "toolshed"):
        assert word not in dataset


def test_without_a_system_role_its_text_opens_the_first_user_turn() -> None:
    usual, merged = (Strategy.load("cot", system_role=role) for role in (True, False))
    a, b = usual.turn(make_item()), merged.turn(make_item())
    assert [m["role"] for m in b.messages] == ["user", "assistant", "user"]
    assert b.messages[0]["content"] == f"{a.messages[0]['content']}\n\n{a.messages[1]['content']}"
    assert usual.digest != merged.digest


def test_a_preset_may_replace_a_part() -> None:
    strategy = Strategy.load("vanilla", overrides={"vanilla/system": "Be brief.", "cot/system": "no"})
    assert strategy.turn(make_item()).messages[0] == {"role": "system", "content": "Be brief."}
    assert strategy.digest != Strategy.load("vanilla").digest


def test_item_text_is_data_not_template() -> None:
    nasty = make_item(question="{{ 7 * 7 }} {% for %}", choices=['"]}', "salt", "unknown"], answer="salt", gold=None)
    turn = Strategy.load("vanilla").turn(nasty)
    assert "{{ 7 * 7 }} {% for %}" in turn.messages[-1]["content"]
    assert turn.schema["properties"]["answer"]["enum"][0] == '"]}'


def test_the_digest_covers_what_is_sent() -> None:
    assert Strategy.load("cot").digest == Strategy.load("cot").digest
    assert Strategy.load("cot", max_tokens=7).digest != Strategy.load("cot").digest


def test_unknown_strategy_and_missing_parts(tmp_path) -> None:
    with pytest.raises(ConfigError, match="unknown strategy 'vanila'; did you mean 'vanilla'"):
        Strategy.load("vanila")
    (tmp_path / "strategy.yaml").write_text("schema: 1\ndescription: x\nmax_tokens: 5\n")
    with pytest.raises(ContentError, match=r"user.j2: is missing"):
        Strategy.load(f"{tmp_path}/")
