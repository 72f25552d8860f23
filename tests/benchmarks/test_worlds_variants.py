"""Worlds told otherwise: what changes, what stays, and that nothing of the old story is left."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.helpers import possible_worlds
from tomserve.benchmarks.worlds import rules
from tomserve.benchmarks.worlds.benchmark import load
from tomserve.benchmarks.worlds.families import BY_NAME, FAMILIES
from tomserve.benchmarks.worlds.lexicon import built_in
from tomserve.benchmarks.worlds.record import Key, Question, World
from tomserve.benchmarks.worlds.rendering import asked, items, label, sentences
from tomserve.benchmarks.worlds.triples import triples
from tomserve.benchmarks.worlds.variants import (
    other_object,
    protagonist,
    recast,
    record,
    reworded,
    second_person,
    shorter,
    twin,
    version,
    without,
)
from tomserve.benchmarks.worlds.wording import say
from tomserve.errors import ConfigError, ContentError
from tomserve.items import UNKNOWN, Item

TOLD = [(family.name, scenario) for family in FAMILIES for scenario in family.scenarios]
every_family = pytest.mark.parametrize("family", [family.name for family in FAMILIES])
every_scenario = pytest.mark.parametrize(("family", "scenario"), TOLD)
TWINS = [(family.name, scenario) for family in FAMILIES for scenario in family.twins]


def drawn(family: str, scenario: str, number: int = 2) -> Iterator[World]:
    """A few worlds of a family in a scenario."""
    for place in range(number):
        yield BY_NAME[family].world(built_in(), f"{family}-3-{place:04d}", scenario)


def text(world: World) -> list[str]:
    """All that a reader sees: the sentences, the questions, their choices."""
    shown = [label(world, key) for question in world.questions for key in question.choices]
    return [*sentences(world, built_in()), *(asked(world, one, built_in()) for one in world.questions), *shown]


def keys(world: World) -> list[Key | None]:
    return [rules.answer(world, question) for question in world.questions]


def proven(items: Iterator[Item] | list[Item]) -> bool:
    """Whether the second implementation of the rules agrees with all of these."""
    return not [found for item in items for found in possible_worlds.disagreements(orjson.loads(item.to_json()))]


@every_scenario
def test_another_protagonist_leaves_no_trace_of_the_old_one(family: str, scenario: str) -> None:
    for world in drawn(family, scenario):
        other = recast(world, built_in(), 1)
        key = protagonist(world)
        old, new = world.people[key], other.people[key]
        assert (old.gender, old.culture) != (new.gender, new.culture)
        assert new.name[0] not in {person.name[0] for person in world.people.values()}
        words = re.findall(r"\w+", " ".join(text(other)))
        assert old.name not in words
        assert new.name in words
        assert keys(other) == keys(world)
        assert proven(items(other, built_in()))
        assert recast(world, built_in(), 1) == other
        assert recast(world, built_in(), 2) != other


@every_scenario
def test_told_to_the_protagonist_the_story_has_no_third_person_for_them(family: str, scenario: str) -> None:
    """The same words whatever the protagonist's name and gender were, and verbs that agree with "you"."""
    for world in drawn(family, scenario):
        second = second_person(world)
        assert text(second) == text(second_person(recast(world, built_in(), 1)))
        assert world.people[protagonist(world)].name not in re.findall(r"\w+", " ".join(text(second)))
        assert keys(second) == keys(world)
        assert [said for said in text(second) if DISAGREES.search(said)] == []


@every_scenario
def test_every_phrasing_can_be_said_to_the_protagonist(family: str, scenario: str) -> None:
    for world in drawn(family, scenario):
        key, wrong = protagonist(world), []
        other = recast(world, built_in(), 1)
        for part, roles in (("roles", world.scenes), ("short", world.scenes), ("questions", world.questions)):
            for one in roles:
                for phrasing in built_in().phrasings(world.family, one.role, part):
                    told = {say(phrasing, one.slots, w.people, w.words, second=key) for w in (world, other)}
                    if len(told) > 1 or DISAGREES.search(min(told)):
                        wrong.append(told)
        assert wrong == []


VERBS = (
    "is",
    "was",
    "has",
    "does",
    "goes",
    "says",
    "knows",
    "thinks",
    "wants",
    "sees",
    "hears",
    "looks",
    "takes",
    "puts",
)
DISAGREES = re.compile(
    rf"\b(?i:you) (?:{'|'.join(VERBS)})\b|\b(?:Is|is|Has|has|Does|does|Was|was) you\b(?! and)|\byou (?:me|I|you)\b"
    r"|\byour(?:s?[.,;:?!]|$)|\bby you are|\byou's\b|[.!?]\"? you"
    r"|\b(?:absence|presence|eyes|opinion|mind|view|hands|back|name|words) of you\b|\b(?i:you)\b[^.;:?!]*\bthemselves\b"
)
"""Where "you" has a verb of the third person, is called "themselves", or a possessive stands alone, or a sentence begins
without a capital, or "of you" stands for "your"."""


def pieces(part: Any) -> Iterator[str]:
    """All texts among the phrasings of a file."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for one in part.values():
            yield from pieces(one)
    elif isinstance(part, list | tuple):
        for one in part:
            yield from pieces(one)


@every_family
def test_phrasings_name_people_by_slots_alone_so_that_they_fit_every_person(family: str) -> None:
    """A pronoun that is written out stays when the protagonist changes; "you" is taken by the protagonist."""
    lexicon = built_in()
    wrong = []
    files = (lexicon._file(name) for name in (family, "shared"))
    for phrasing in pieces([part for file in files for name, part in file.items() if name != "first_person"]):
        bare = re.sub(r"\{[^{}]*\}", "@", phrasing)
        unquoted = re.sub(r'"[^"]*"', '"', bare)
        if re.search(r"\b(he|she|him|her|his|hers|himself|herself)\b", bare, re.IGNORECASE):
            wrong.append(phrasing)
        if re.search(r"\b(you|your|yours|yourself|I|me|my|mine|myself)\b", unquoted):
            wrong.append(phrasing)
    assert not wrong


@every_scenario
def test_reworded_says_everything_otherwise(family: str, scenario: str) -> None:
    for world in drawn(family, scenario):
        other = reworded(world, built_in(), 1)
        for before, after in zip(sentences(world, built_in()), sentences(other, built_in()), strict=True):
            assert before != after
        for before, after in zip(world.questions, other.questions, strict=True):
            assert asked(world, before, built_in()) != asked(other, after, built_in())
        assert keys(other) == keys(world)
        assert proven(items(other, built_in()))


@every_scenario
def test_shorter_drops_fillers_alone(family: str, scenario: str) -> None:
    for world in drawn(family, scenario):
        other = shorter(world)
        fillers = sum(scene.part == "filler" for scene in world.scenes)
        assert len(other.scenes) == len(world.scenes) - fillers
        assert set(sentences(other, built_in())) <= set(sentences(world, built_in()))
        assert keys(other) == keys(world)
        assert proven(items(other, built_in()))


@every_scenario
def test_other_objects_take_the_place_of_the_old_ones(family: str, scenario: str) -> None:
    for world in drawn(family, scenario):
        other = other_object(world, built_in(), 1)
        if other is None:
            continue
        changed = {key for key in world.words if world.words[key] != other.words[key]}
        assert changed <= {key for values in world.facts.values() for key in values}
        assert len(set(other.words.values())) == len(set(world.words.values()))
        gone = {world.words[key] for key in changed} - set(other.words.values())
        assert not [word for word in gone if re.search(rf"\b{re.escape(word)}\b", " ".join(text(other)))]
        assert keys(other) == keys(world)
        assert proven(items(other, built_in()))


def test_in_transfer_the_places_can_always_be_others() -> None:
    for world in drawn("transfer", "false_belief"):
        other = other_object(world, built_in(), 1)
        assert other is not None
        assert not {world.words[key] for key in "xyz"} & {other.words[key] for key in "xyz"}


@every_scenario
def test_fillers_and_what_is_left_without_them_change_no_answer(family: str, scenario: str) -> None:
    """A filler may be left out, one by one, too."""
    for world in drawn(family, scenario):
        for place, scene in enumerate(world.scenes):
            if scene.part == "filler":
                plain = tuple(
                    s if p == place else s.model_copy(update={"part": "plain"}) for p, s in enumerate(world.scenes)
                )
                one = without(world.model_copy(update={"scenes": plain}), {"filler"})
                assert keys(one) == keys(world)


@pytest.mark.parametrize(("family", "scenario"), TWINS)
def test_a_twin_asks_the_same_people_the_same_and_shares_names_and_words(family: str, scenario: str) -> None:
    for world in drawn(family, scenario):
        other = twin(world, built_in())
        assert other is not None
        assert other.people == world.people
        assert {key: other.words[key] for key in world.words if key in other.words}.items() <= world.words.items()
        assert {_kind(one) for one in other.questions} <= {_kind(one) for one in world.questions}
        for question in other.questions:
            assert question.choices in {one.choices for one in world.questions if _kind(one) == _kind(question)}
        assert proven(items(other, built_in()))
        recasted = twin(recast(world, built_in(), 1), built_in())
        assert recasted is not None
        assert recasted.people == recast(world, built_in(), 1).people


def _kind(question: Question) -> tuple[object, ...]:
    return question.kind, question.who, question.fact, question.role, frozenset(question.choices)


def test_a_scenario_without_a_twin_has_none() -> None:
    for world in drawn("transfer", "no_transfer", 1):
        assert twin(world, built_in()) is None
        assert not list(triples(world, built_in()))


def test_a_world_of_other_words_has_no_twin_that_could_be_drawn() -> None:
    (world,) = drawn("transfer", "false_belief", 1)
    scenes = (*world.scenes[:-1], world.scenes[-1].model_copy(update={"role": "put"}))
    with pytest.raises(ContentError, match="was drawn from other words than these"):
        twin(world.model_copy(update={"scenes": scenes}), built_in())


@pytest.mark.parametrize(("family", "scenario"), TWINS)
def test_triples_take_the_place_of_the_protagonist(family: str, scenario: str) -> None:
    found = 0
    for world in drawn(family, scenario):
        name = world.people[protagonist(world)].name
        made = list(triples(world, built_in()))
        of_f, noticed = {f.id for f, _, _ in made}, twin(world, built_in())
        assert noticed is not None
        learned = {_kind(one): rules.answer(noticed, one) for one in noticed.questions}
        for item in items(world, built_in()):
            about = item.factors["asked"] == protagonist(world) and item.factors["condition"] == "false_belief"
            about = about and item.factors.get("scene") in (None, 5)  # in earlier scenes, twins do not differ
            if about and item.factors["dimension"] in ("belief", "action", "intention"):
                same = learned.get(_kind(record(item).questions[0])) in (None, item.factors["answer_key"])
                assert same or item.id in of_f, "without cause and percept, the protagonist's belief is the right one"
        for f, p, p_twin in made:
            found += 1
            assert (p.base, p_twin.base) == (f.id, f.id)
            assert (p.factors["variant"], p_twin.factors["variant"]) == ("ppt_p", "ppt_p_twin")
            assert p.factors["answer_key"] == f.factors["answer_key"] != p_twin.factors["answer_key"]
            assert p.factors["condition"] in ("true_belief", None), (
                "what p's protagonist believes is so, or is not said"
            )
            if f.factors["order"] == 1:
                assert p_twin.factors["condition"] == "true_belief"
            if f.factors["dimension"] == "belief" and f.factors["order"] == 1:
                assert f.answer != f.factors["reality"]
            assert (
                record(p).questions[0].choices == record(f).questions[0].choices == record(p_twin).questions[0].choices
            )
            for item in (p, p_twin):
                words = " ".join((*item.story, item.question, *item.choices))
                assert name not in re.findall(r"\w+", words)
                assert re.search(r"\b(you|your)\b", words, re.IGNORECASE)
                assert not DISAGREES.search(words)
                assert not re.search(r"\byou(r|rself)?\b", " ".join(item.choices), re.IGNORECASE)
            assert len(p.story) < len(f.story)
            assert proven([p, p_twin])
    assert found


def test_choices_of_versions_begin_with_words_of_the_first_person_where_the_phrasings_have_some() -> None:
    assert built_in().first_person("transfer", "surprise") == "I am "
    assert built_in().first_person("transfer", "belief") == ""
    (world,) = drawn("transfer", "false_belief", 1)
    surprise, belief = len(world.questions) - 1, 1
    for place, labels in (
        (surprise, {"I am surprised", "I am not surprised"}),
        (belief, {*map(world.words.get, "xyz"), UNKNOWN}),
    ):
        item = next(items(world, built_in(), questions=[place]))
        prefix = built_in().first_person("transfer", record(item).questions[0].role)
        told = version(item, second_person(record(item)), built_in(), "told", first="P", prefix=prefix)
        assert set(told.choices) == labels
        assert told.answer in labels
        if told.gold is not None:
            assert {one for layer in told.gold.sets or () for one in layer} <= labels


def test_choices_that_are_clauses_are_said_in_the_first_person() -> None:
    (world,) = drawn("transfer", "false_belief", 1)
    words = world.words | {"x": "that {P} {P:has|have} put it into {P.his} bag"}
    world = world.model_copy(update={"words": words, "questions": world.questions[1:2]})
    (item,) = items(world, built_in())
    told = version(item, second_person(world), built_in(), "told", first="P", prefix="I believe: ")
    assert "that I have put it into my bag" in told.choices
    assert all(one.startswith(("I believe: ", "that I", UNKNOWN)) for one in told.choices)


def test_a_version_says_whose_it_is_and_comes_back_from_its_line() -> None:
    for world in drawn("transfer", "false_belief", 1):
        for item in items(world, built_in()):
            assert record(item) == world.model_copy(update={"questions": record(item).questions})
            told = version(item, recast(record(item), built_in(), 4), built_in(), "t2_person")
            assert (told.base, told.id, told.factors["variant"]) == (item.id, f"{item.id}/t2_person", "t2_person")
            assert Item.from_json(told.to_json()) == told
            assert told.factors["answer_key"] == item.factors["answer_key"]


def test_a_change_of_an_answer_is_no_variant() -> None:
    (world,) = drawn("transfer", "false_belief", 1)
    scenes = tuple(one.model_copy(update={"part": "filler"}) if one.part == "cause" else one for one in world.scenes)
    with pytest.raises(ValueError, match="the variant changed the answer to 'reality' after line"):
        shorter(world.model_copy(update={"scenes": scenes}))


def test_items_without_a_readable_record_are_refused_by_name() -> None:
    (world,) = drawn("transfer", "false_belief", 1)
    item = next(items(world, built_in()))
    with pytest.raises(ConfigError, match=f"item {item.id!r} has no record of a world"):
        record(item.model_copy(update={"world": None}))
    with pytest.raises(ConfigError, match="its record of a world: people: is missing; expected a mapping"):
        record(item.model_copy(update={"world": {key: value for key, value in item.world.items() if key != "people"}}))
    with pytest.raises(ConfigError, match="unknown family 'transfers'; did you mean 'transfer'"):
        second_person(world.model_copy(update={"family": "transfers"}))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"peeple": {}}, "peeple: unknown key; did you mean 'people'? Known: "),
        ({"people": 3}, "people: expected a mapping of keys to values; found 3"),
        ({"second": "Z"}, "world: the story is told to 'Z', who is nobody of this world"),
    ],
)
def test_a_file_whose_record_cannot_be_read_is_refused_in_plain_words(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    (world,) = drawn("transfer", "false_belief", 1)
    item, path = next(items(world, built_in())), tmp_path / "worlds.jsonl"
    path.write_bytes(item.model_copy(update={"world": item.world | change}).to_json())
    with pytest.raises(ContentError) as raised:
        list(load(path))
    assert str(raised.value).startswith(f"{path}: item {item.id!r}: its record of a world: {said}")
