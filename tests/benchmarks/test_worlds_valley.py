"""The family valley: five scenes of one matter, and questions on what people believe, feel and intend scene by scene."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import pytest

from tests.helpers.small_worlds import FACTS, WORDS, ask, small, told
from tomserve.benchmarks.worlds.drawing import worlds
from tomserve.benchmarks.worlds.families import BY_NAME
from tomserve.benchmarks.worlds.families.valley_course import REPLIES, VALUES
from tomserve.benchmarks.worlds.lexicon import built_in
from tomserve.benchmarks.worlds.record import World
from tomserve.benchmarks.worlds.rendering import items, sentences
from tomserve.benchmarks.worlds.rules import answer
from tomserve.benchmarks.worlds.variants import without
from tomserve.items import Item

FAMILY = BY_NAME["valley"]
MOODS = ("glad", "sad")
JOINED = [f"{one}_{two}" for one in (*FACTS["place"], "R", "S", "fact") for two in (*FACTS["place"], *MOODS, *REPLIES)]


@pytest.fixture(scope="module")
def drawn() -> list[World]:
    return list(worlds(built_in(), 60, 4, (FAMILY,)))


@pytest.fixture(scope="module")
def made(drawn: list[World]) -> list[Item]:
    return [item for world in drawn for item in items(world, built_in())]


STORY = (
    "want P place=x",
    ("scene", "fact place=x seen P"),
    ("scene", "fact place=y"),
    "tell R P place=z",
    ("scene", "distrust P S"),
    "tell S P place=x",
)
"""P sees that the wish is granted, is told that it is no longer, and does not believe S that it is again."""


@pytest.mark.parametrize(
    ("kind", "line", "right"),
    [
        ("feeling_about", 1, "glad_x"),
        ("feeling_about", 5, "sad_z"),
        ("reply_about", 5, "mismatch_z"),
        ("belief_then_feeling", 1, "x_glad"),
        ("belief_then_reply", 1, "x_match"),
        ("belief_since", 1, None),
        ("belief_since", 3, "x_z"),
        ("belief_since", 5, "z_z"),
        ("feeling_since", 3, "glad_sad"),
        ("reply_since", 5, "mismatch_mismatch"),
        ("belief_course", 5, "x_z_z"),
        ("feeling_course", 3, "glad_sad"),
        ("belief_cause", 3, "R_z"),
        ("belief_cause", 5, None),
        ("feeling_cause", 3, "R_z"),
    ],
)
def test_states_go_through_the_scenes(kind: str, line: int, right: str | None) -> None:
    keys = [f"{one}_{two}" for one in (*MOODS, *REPLIES) for two in (*FACTS["place"], *MOODS, *REPLIES)]
    keys += [*JOINED, "x_z_z"]
    world = small(*STORY, words=WORDS | {key: key for key in keys})
    assert told(world, ask(kind, "place", "P", choices=tuple(dict.fromkeys(keys)), at=line)) == right


def test_a_cause_is_the_event_that_was_seen_and_nothing_where_two_come_in_one_line() -> None:
    choices = [f"{source}_{value}" for source in ("fact", "R", "S", "voice") for value in "xyz"]
    before = ("scene", "fact place=x seen P")
    question = ask("belief_cause", "place", "P", choices=choices)
    words = WORDS | {key: key for key in choices}
    assert told(small(before, "scene", "fact place=y seen P", words=words), question) == "fact_y"
    assert told(small(before, "scene", "fact place=y", "see P place", words=words), question) == "fact_y"
    assert told(small(before, "scene", "tell - P place=y", words=words), question) == "voice_y"
    assert told(small(before, "scene", ("tell R P place=y", "tell S P place=y"), words=words), question) is None


def test_every_question_is_settled_and_all_five_scenes_are_said(drawn: list[World], made: list[Item]) -> None:
    assert len(made) == sum(len(world.questions) for world in drawn) == FAMILY.most * len(drawn)
    for world in drawn:
        story = sentences(world, built_in())
        assert 12 <= len(story) <= 17
        assert [match[1] for said in story if (match := re.match(r"Scene (\d): ", said))] == ["1", "2", "3", "4", "5"]


def test_a_question_about_a_scene_is_about_its_last_line(drawn: list[World]) -> None:
    for world in drawn[:10]:
        begins = [line for line, scene in enumerate(world.scenes) if "scene" in scene.events]
        for question in world.questions:
            following = [*begins, len(world.scenes) - 1][int(str(question.factors["scene"]))]
            assert question.at == following - 1


def test_every_outcome_is_named_equally_often(drawn: list[World]) -> None:
    for world in drawn:
        said = Counter(key for scene in world.scenes for key in _named(scene.slots))
        assert set(said) == set(VALUES)
        assert set(said.values()) == {4}


def _named(slots: dict[str, str]) -> list[str]:
    keys = [key.removeprefix("c_") for key in slots.values()]
    return [key for key in keys if key in VALUES]


def test_nothing_is_right_more_often_than_its_share(made: list[Item]) -> None:
    """No: once in four where one of four choices says so, once in two where two do; glad as often as sad; and so on."""
    right = defaultdict(list)
    for item in made:
        right[item.world["questions"][0]["role"]].append((item.factors["answer_key"], item.answer))
    no = {role: sum(label.startswith("no, ") for _, label in found) / len(found) for role, found in right.items()}
    assert 0.12 < no["whether_belief"] < 0.38
    assert 0.32 < no["whether_emotion"] < 0.68
    assert 0.32 < no["whether_intention"] < 0.68
    for role, word in (("emotion", "glad"), ("intention", "match"), ("influence_emotion", "glad"), ("why_belief", "R")):
        share = sum(word in str(key).split("_") for key, _ in right[role]) / len(right[role])
        assert 0.32 < share < 0.68, role
    true = sum(item.factors["reality"] == item.answer for item in made if item.factors["kind"] == "belief")
    assert 0.15 < true / len(right["belief"]) < 0.35


def test_twins_differ_in_who_misses_the_last_decision_alone(drawn: list[World]) -> None:
    for missed, noticed in zip(drawn[::2], drawn[1::2], strict=True):
        differ = [(one, two) for one, two in zip(missed.scenes, noticed.scenes, strict=True) if one != two]
        assert [(one.role, one.slots["A"], two.slots["A"]) for one, two in differ] == [("last_percept", "Q", "P")]
        for one, two in zip(missed.questions, noticed.questions, strict=True):
            assert (one.role, one.who, one.at, set(one.choices)) == (two.role, two.who, two.at, set(two.choices))
            same = answer(missed, one) == answer(noticed, two)
            assert same == (one.factors["scene"] != 5)


def test_without_the_last_decision_the_protagonist_is_right(drawn: list[World]) -> None:
    for world in drawn[::2]:
        bare = without(world, {"cause", "percept"})
        for old, new in zip(world.questions, bare.questions, strict=True):
            if old.factors["scene"] == 5:
                assert answer(bare, new) == answer(world, old)
            if old.factors["scene"] == 5 and old.kind == "belief":
                assert answer(bare, new.model_copy(update={"kind": "reality", "who": ()})) == answer(world, old)


def test_choices_of_a_question_are_different_texts(made: list[Item]) -> None:
    assert all(len(set(item.choices)) == 4 for item in made)


def test_there_are_many_settings_with_enough_outcomes_each() -> None:
    settings = built_in().extra("valley", "settings")
    assert len(settings) >= 24
    for setting in settings:
        assert len(set(setting["values"])) >= 5
        assert "{v}" in setting["claim"]
        assert "{v}" in setting["act"]
        for one in setting["values"]:
            assert not [two for two in setting["values"] if one != two and one in two], "one is part of another"
