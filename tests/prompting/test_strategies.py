"""Strategies: what is sent for an item."""

import shutil
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest
import yaml

from tests.conftest import ROOT, Endpoint, make_item
from tomserve.benchmarks import get
from tomserve.errors import ConfigError, ContentError
from tomserve.items import Item
from tomserve.prompting.strategy import Strategy
from tomserve.prompting.turn import Reply, Turn


def test_both_are_one_shot_and_the_former_vanilla_is_zero_shot() -> None:
    item = make_item()
    for name in ("vanilla", "cot", "cot_1"):
        assert [m["role"] for m in Strategy.load(name).turn(item).messages] == ["system", "user", "assistant", "user"]
    assert [m["role"] for m in Strategy.load("vanilla_1").turn(item).messages] == ["system", "user"]


def test_a_strategy_of_one_turn_is_a_conversation_of_one_turn() -> None:
    strategy = Strategy.load("vanilla")
    assert (strategy.turns, strategy.calls, strategy.several) == (1, 1, False)
    conversation = strategy.conversation(make_item())
    assert conversation.open == [strategy.turn(make_item())]
    assert conversation.reply(0, Reply("tea")) == []
    assert (conversation.ended, conversation.count, conversation.conclusion) == (True, 1, None)


def test_the_item_comes_last_and_all_before_is_shared() -> None:
    for name in ("cot_1", "vanilla_1", "cot", "vanilla"):
        one, two = (Strategy.load(name).turn(make_item(n)) for n in (1, 2))
        if not name.endswith("_1"):  # both say the same, but each story may have another demonstration
            one, two = (Turn((turn.messages[0], turn.messages[-1]), None) for turn in (one, two))
        assert one.messages[:-1] == two.messages[:-1]
        assert one.messages[-1]["content"].startswith(
            "Story:\n1. The jar stands on the shelf.\n2. Jar number 1 holds tea.\n"
        )
        assert (
            '\n\nQuestion: What does Ada believe is in the jar?\nLabels: ["tea","salt","unknown"]'
            in one.messages[-1]["content"]
        )


@pytest.mark.parametrize("name", ["cot_1", "cot_every_sentence"])
def test_schemas_bind_the_labels_and_every_sentence_in_order(name: str) -> None:
    item = make_item()
    assert Strategy.load("vanilla").turn(item).schema["properties"]["answer"] == {"enum": ["tea", "salt", "unknown"]}
    beliefs = Strategy.load(name).turn(item).schema["properties"]["beliefs"]
    assert [entry["properties"]["sentence"] for entry in beliefs["prefixItems"]] == [{"const": n} for n in (1, 2, 3)]
    assert beliefs["minItems"] == beliefs["maxItems"] == 3
    assert beliefs["items"] is False


def test_the_schema_of_cot_lets_a_model_leave_out_sentences() -> None:
    beliefs = Strategy.load("cot").turn(make_item()).schema["properties"]["beliefs"]
    assert (beliefs["minItems"], beliefs["maxItems"]) == (1, 3)
    assert beliefs["items"]["properties"] == {
        "sentence": {"type": "integer", "enum": [1, 2, 3]},
        "belief": {"enum": ["tea", "salt", "unknown"]},
    }


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


# Hi-ToM

HITOM = ("hitom_vanilla", "hitom_cot", "hitom_cot_reason_first", "hitom_chain")
SMALL = Path(__file__).parents[1] / "data/hitom_small.json"


def test_more_choices_than_letters_are_offered_without() -> None:
    choices = [f"box_{number}" for number in range(27)]
    turn = Strategy.load("hitom_vanilla").turn(make_item(choices=choices, answer="box_3", gold=None))
    assert turn.messages[1]["content"].endswith("Choices: " + ", ".join(choices))


def test_a_benchmark_names_its_own_strategies() -> None:
    assert get("hitom").strategies == ("hitom_vanilla", "hitom_cot")
    assert get("perturbed").strategies == get("items").strategies == ("vanilla", "cot")
    with pytest.raises(ConfigError, match="unknown benchmark 'hitm'; did you mean 'hitom'"):
        get("hitm")


def test_hitom_is_asked_its_own_way_by_default(cli, endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.max_model_len = 16384
    done = cli("eval", "--benchmark", "hitom", "--path", SMALL, "--base-url", endpoint.url, "--limit", 8, "--quiet")
    assert done.code == 0, done.err
    scores = pl.read_parquet(tmp_path / "runs/hitom-tiny/scores.parquet")
    assert set(scores["strategy"]) == {"hitom_vanilla", "hitom_cot"}
    assert set(scores["parse"]) == {"json"}
    sent = [body["response_format"]["json_schema"]["schema"] for body in endpoint.requests]
    assert {tuple(schema["properties"]) for schema in sent} == {("answer",), ("answer", "explanation")}


@pytest.mark.parametrize("suffix", ["jsonl", "yaml"])
def test_a_demonstration_is_any_item_of_any_file(suffix: str, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(ROOT / "prompts/cot", folder)
    shown = make_item(7)
    if suffix == "jsonl":
        (tmp_path / "d.jsonl").write_bytes(shown.to_json() + b"\n")
    else:
        (tmp_path / "d.yaml").write_text(yaml.safe_dump({"schema": 1, "items": [plain(shown)]}))
    text = "schema: 1\ndescription: x\nmax_tokens: 9\ndemonstrations:\n  - {file: ../d.%s, item: %s}\n"
    (folder / "strategy.yaml").write_text(text % (suffix, shown.id))
    messages = Strategy.load(f"{folder}/").turn(make_item()).messages
    assert "2. Jar number 7 holds tea." in messages[1]["content"]
    assert orjson.loads(messages[2]["content"])["answer"] == "tea"
    (folder / "strategy.yaml").write_text(text % (suffix, "demo/8"))
    with pytest.raises(
        ContentError, match=r"strategy\.yaml:4: demonstrations: unknown item 'demo/8'; did you mean 'demo/7'"
    ):
        Strategy.load(f"{folder}/")


def plain(item: Item) -> dict[str, Any]:
    """The item as data that YAML can hold, without its schema, which the file says once."""
    data: dict[str, Any] = orjson.loads(item.to_json())
    del data["schema"]
    return data
