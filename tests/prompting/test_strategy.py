"""Strategies: what is sent for an item, and where a reply holds its reasoning.
Demonstrations that rotate over stories (`rotate` in strategy.yaml): which story gets which, and what they show."""

import random
import re
import shutil
from collections import Counter
from functools import cache
from pathlib import Path

import orjson
import pytest
import yaml

from tests.conftest import ROOT, make_item
from tests.helpers.strategies import write_strategy
from tomserve.benchmarks import load
from tomserve.errors import ConfigError, ContentError
from tomserve.items import UNKNOWN, Item, read_items
from tomserve.prompting import strategy
from tomserve.prompting.conversation import Reply
from tomserve.prompting.strategy import Strategy


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
    (tmp_path / f"d.{suffix}").rename(tmp_path.parent / f"{tmp_path.name}.{suffix}")  # a file of the reader's
    (tmp_path / f"d.{suffix}").symlink_to(tmp_path.parent / f"{tmp_path.name}.{suffix}")
    for outside in (tmp_path / f"d.{suffix}", tmp_path.parent / f"{tmp_path.name}.{suffix}"):
        (folder / "strategy.yaml").write_text(text.replace("../d.%s", "%s") % (outside, shown.id))
        with pytest.raises(ContentError, match=r"lies outside of the folder that holds the strategy"):
            Strategy.load(f"{folder}/")


ONE = {"user": "{{ question }}"}


TWO = {"think.user": "{{ question }}", "answer.user": "So?"}


TURNS = "turns: [{name: think}, {name: answer}]\n"


def test_the_mark_shapes_no_request_and_so_is_no_part_of_the_digest(tmp_path: Path) -> None:
    plain = Strategy(write_strategy(tmp_path / "a" / "mine", TWO, TURNS))
    marked = Strategy(write_strategy(tmp_path / "b" / "mine", TWO, f"{TURNS}reasoning: {{turn: think}}\n"))
    assert plain.digest == marked.digest


@pytest.mark.parametrize(
    ("files", "config", "said"),
    [
        (ONE, "reasoning: {}", "expected one of `turn: NAME`, `field: NAME` and `marks: [BEFORE, AFTER]`"),
        (ONE, "reasoning: {turn: think}", "unknown turn 'think'"),
        (TWO, f"{TURNS}reasoning: {{turn: thinks}}", "unknown turn 'thinks'; did you mean 'think'"),
        (TWO, f"{TURNS}reasoning: {{turn: answer}}", "one before the turn that answers"),
        (TWO, f"{TURNS}reasoning: {{field: why}}", "a strategy of several turns names the turn that reasons"),
    ],
)
def test_a_mistake_names_file_and_field(tmp_path: Path, files: dict[str, str], config: str, said: str) -> None:
    with pytest.raises(ContentError) as error:
        Strategy(write_strategy(tmp_path / "mine", files, f"{config}\n"))
    assert said in str(error.value)
    assert "strategy.yaml:" in str(error.value)


DEMONSTRATIONS = ROOT / "prompts/demonstrations.yaml"
ALTERNATIVES = 6
ROTATING = ("vanilla", "vanilla_advised", "cot", "cot_every_sentence")


@cache
def shown() -> list[Item]:
    return list(read_items(DEMONSTRATIONS))


def demonstration(strategy: Strategy, item: Item) -> str:
    """The id of the demonstration that an item's prompt shows."""
    messages = strategy.turn(item).messages
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
    found = [one.id for one in shown() if messages[1] == strategy.exchange(one)[0]]
    assert len(found) == 1
    assert messages[1:3] == tuple(strategy.exchange(next(one for one in shown() if one.id == found[0])))
    return found[0]


SECOND = pytest.param("perturbed-2", marks=pytest.mark.system)  # it takes seconds to make its 6,080 questions
DATASETS = pytest.mark.parametrize("name", ["perturbed", SECOND])


@cache
def dataset(name: str) -> list[Item]:
    return list(load(name))


@cache
def drawn(name: str) -> list[tuple[Item, str]]:
    strategy = Strategy.load("vanilla")
    return [(item, demonstration(strategy, item)) for item in dataset(name)]


@DATASETS
def test_all_questions_about_a_story_show_one_demonstration_and_all_come_up(name: str) -> None:
    by_story: dict[tuple[str, ...], set[str]] = {}
    for item, which in drawn(name):
        by_story.setdefault(item.story, set()).add(which)
    assert {len(found) for found in by_story.values()} == {1}
    assert len(dataset(name)) > len(by_story)
    counts = Counter(which for found in by_story.values() for which in found)
    assert len(counts) == ALTERNATIVES
    strategies = [Strategy.load(one) for one in ROTATING]  # a difference between two is none between demonstrations
    for item, which in random.Random(1).sample(drawn(name), 20):
        assert {demonstration(strategy, item) for strategy in strategies} == {which}


def copied(tmp_path: Path) -> Path:
    """A copy of cot beside the demonstrations, to be changed."""
    shutil.copytree(ROOT / "prompts/cot", tmp_path / "cot")
    shutil.copy(DEMONSTRATIONS, tmp_path)
    return tmp_path / "cot"


@pytest.mark.parametrize("place", [0, ALTERNATIVES - 1])
def test_the_digest_covers_every_demonstration(place: int, tmp_path: Path) -> None:
    folder = copied(tmp_path)
    assert Strategy(folder).digest == Strategy.load("cot").digest
    data = yaml.safe_load(DEMONSTRATIONS.read_text())
    data["items"][place]["story"][1] += " It is late."
    (tmp_path / "demonstrations.yaml").write_text(yaml.safe_dump(data))
    assert Strategy(folder).digest != Strategy.load("cot").digest


def test_the_digest_covers_the_order_and_the_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copied(tmp_path)
    data = yaml.safe_load((folder / "strategy.yaml").read_text())
    data["demonstrations"].append(data["demonstrations"].pop(0))
    (folder / "strategy.yaml").write_text(yaml.safe_dump(data))
    now = Strategy.load("cot").digest
    assert Strategy(folder).digest != now
    former = Strategy.load("cot_1").digest
    monkeypatch.setattr(strategy, "ROTATION_SEED", b"another")
    assert Strategy.load("cot").digest != now
    assert Strategy.load("cot_1").digest == former, "nothing is drawn for it"


def test_one_demonstration_cannot_rotate_and_a_copy_is_told_which_file_it_needs(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    (tmp_path / "demonstrations.yaml").unlink()
    told = r"strategy\.yaml:5: demonstrations: \.\./demonstrations\.yaml is no file .*; copy it there along with"
    with pytest.raises(ContentError, match=told):
        Strategy(folder)
    data = yaml.safe_load((folder / "strategy.yaml").read_text())
    (folder / "strategy.yaml").write_text(yaml.safe_dump({**data, "demonstrations": data["demonstrations"][:1]}))
    with pytest.raises(ContentError, match=r"strategy\.yaml:\d+: rotate: needs two demonstrations or more"):
        Strategy(folder)


def test_demonstrations_cover_all_answers_and_places() -> None:
    answers: Counter[tuple[str, str | int]] = Counter()
    for item in shown():
        kind = "reality" if "really" in item.question else "belief"
        labels = sorted(set(item.choices) - {UNKNOWN})
        answers[kind, UNKNOWN if item.answer == UNKNOWN else labels.index(item.answer)] += 1
    assert set(answers.values()) == {1}
    assert len(answers) == ALTERNATIVES
    assert {item.choices.index(item.answer) for item in shown()} == {0, 1, 2}
    assert {item.choices.index(UNKNOWN) for item in shown()} == {0, 1, 2}


@DATASETS
def test_no_name_and_no_label_of_a_demonstration_occurs_in_the_datasets(name: str) -> None:
    told = {word for item in dataset(name) for word in re.findall(r"\w+", " ".join(item.story).lower())}
    labels = {label for item in dataset(name) for label in item.choices} - {UNKNOWN}
    assert not labels & {label for item in shown() for label in item.choices}
    assert not told & {"oyku", "tarek", "flute", "clarinet"}
