"""Demonstrations that rotate over stories (`rotate` in strategy.yaml): which story gets which, and what they show."""

import random
import re
import shutil
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT, make_item
from tomserve.benchmarks import load
from tomserve.errors import ContentError
from tomserve.items import UNKNOWN, Item, read_items
from tomserve.prompting import strategy
from tomserve.prompting.strategy import Strategy

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


def test_prompts_that_show_the_same_stand_together() -> None:
    strategy = Strategy.load("cot")
    ordered = sorted(dataset("perturbed"), key=strategy.order)
    seen = [demonstration(strategy, item) for item in ordered[::4]]
    assert sum(one != other for one, other in pairwise(seen)) == ALTERNATIVES - 1


def test_a_strategy_tells_all_beginnings_that_a_prompt_may_have() -> None:
    strategy, item = Strategy.load("cot"), make_item()
    openings = strategy.openings(item)
    assert len(openings) == ALTERNATIVES
    assert [*strategy.turn(item).messages[:-1]] in openings
    assert Strategy.load("vanilla_1").openings(item) == [[Strategy.load("vanilla_1").turn(item).messages[0]]]


@pytest.mark.parametrize("role", [True, False])
def test_a_replaced_part_holds_for_demonstrations_too(role: bool) -> None:
    parts = {
        "cot/user": "Q: {{ question }} {{ story | length }}",
        "cot/reply": "So: {{ answer }}",
        "system": "Be brief.",
    }
    strategy = Strategy.load("cot", overrides=parts, system_role=role)
    for number in range(12):
        *opening, question, reply, last = (message["content"] for message in strategy.turn(make_item(number)).messages)
        shown_item = next(item for item in shown() if question.endswith(f"Q: {item.question} {len(item.story)}")
                          and reply == f"So: {item.answer}")  # fmt: skip
        assert shown_item.id.startswith("form/")
        assert opening == (["Be brief."] if role else [])
        assert question.startswith("Q: " if role else "Be brief.\n\nQ: ")
        assert last == f"Q: {make_item().question} 3"
    assert strategy.digest != Strategy.load("cot", system_role=role).digest


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
