"""Worlds told otherwise, as interventions need it: what changes, what stays, and that nothing of the old story is left."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.helpers import possible_worlds
from tomserve.benchmarks.counterfactuals import Case
from tomserve.benchmarks.worlds import rules
from tomserve.benchmarks.worlds.benchmark import find_world_cases, load
from tomserve.benchmarks.worlds.families import BY_NAME, FAMILIES
from tomserve.benchmarks.worlds.generator import items, label, question_text, sentences
from tomserve.benchmarks.worlds.lexicon import built_in, fill_phrasing
from tomserve.benchmarks.worlds.record import Question, World
from tomserve.benchmarks.worlds.variants import (
    change_object,
    draw_twin,
    drop_fillers,
    find_protagonist,
    read_record,
    recast,
    second_person,
)
from tomserve.errors import ConfigError, ContentError
from tomserve.items import Item

SCENARIOS = [(family.name, scenario) for family in FAMILIES for scenario in family.scenarios]
TWINS = [(family.name, scenario) for family in FAMILIES for scenario in family.twins]


@cache
def drawn(family: str, scenario: str, place: int = 0) -> World:
    return BY_NAME[family].world(built_in(), f"{family}-3-{place:04d}", scenario)


def text(world: World) -> list[str]:
    """All that a reader sees: the sentences, the questions, their choices."""
    shown = [label(world, key) for question in world.questions for key in question.choices]
    return [*sentences(world, built_in()), *(question_text(world, one, built_in()) for one in world.questions), *shown]


def same_answers(one: World, other: World) -> bool:
    return [rules.answer(one, q) for q in one.questions] == [rules.answer(other, q) for q in other.questions]


def proven(items: Iterator[Item] | list[Item]) -> bool:
    """Whether the second implementation of the rules agrees with all of these."""
    return not [found for item in items for found in possible_worlds.disagreements(orjson.loads(item.to_json()))]


VERBS = "is was has does goes says knows thinks wants sees hears looks takes puts".replace(" ", "|")
DISAGREES = re.compile(
    rf"\b(?i:you) (?:{VERBS})\b|\b(?:Is|is|Has|has|Does|does|Was|was) you\b(?! and)|\byou (?:me|I|you)\b"
    r"|\byour(?:s?[.,;:?!]|$)|\bby you are|\byou's\b|[.!?]\"? you"
    r"|\b(?:absence|presence|eyes|opinion|mind|view|hands|back|name|words) of you\b|\b(?i:you)\b[^.;:?!]*\bthemselves\b"
)
"""Where "you" has a verb of the third person, is called "themselves", or a possessive stands alone, or a sentence begins
without a capital, or "of you" stands for "your"."""


@pytest.mark.parametrize(("family", "scenario"), SCENARIOS)
def test_a_story_told_to_the_protagonist_says_you_and_no_telling_changes_an_answer(family: str, scenario: str) -> None:
    """What else a telling changes: see test_worlds_retelling.py."""
    world = drawn(family, scenario)
    key = find_protagonist(world)
    other, second = recast(world, built_in(), 1), second_person(world)
    assert recast(world, built_in(), 1) == other != recast(world, built_in(), 2)
    assert other.people[key].name[0] not in {person.name[0] for person in world.people.values()}
    assert text(second) == text(second_person(other)), "the same words whatever their name and gender were"
    assert world.people[key].name not in re.findall(r"\w+", " ".join(text(second)))
    assert [one for one in text(second) if DISAGREES.search(one)] == []
    for part, roles in (("roles", world.scenes), ("short", world.scenes), ("questions", world.questions)):
        for one in roles:
            for phrasing in built_in().phrasings(world.family, one.role, part):
                told = {fill_phrasing(phrasing, one.slots, w.people, w.words, second=key) for w in (world, other)}
                assert len(told) == 1, told
                assert not DISAGREES.search(min(told)), told
    thing = change_object(world, built_in(), 1)
    for changed in (other, second, drop_fillers(world), *([thing] if thing else [])):
        assert same_answers(world, changed)
        assert changed is second or proven(items(changed, built_in()))


def pieces(part: Any) -> Iterator[str]:
    """All texts among the phrasings of a file."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict | list | tuple):
        for one in part.values() if isinstance(part, dict) else part:
            yield from pieces(one)


@pytest.mark.parametrize("family", [*BY_NAME, "shared"])
def test_phrasings_name_people_by_slots_alone_so_that_they_fit_every_person(family: str) -> None:
    """A pronoun that is written out stays when the protagonist changes; "you" is taken by the protagonist."""
    file = built_in().phrases(family).model_dump()
    for phrasing in pieces([part for name, part in file.items() if name != "first_person"]):
        bare = re.sub(r"\{[^{}]*\}", "@", phrasing)
        assert not re.search(r"\b(he|she|him|her|his|hers|himself|herself)\b", bare, re.IGNORECASE), phrasing
        unquoted = re.sub(r'"[^"]*"', '"', bare)
        assert not re.search(r"\b(you|your|yours|yourself|I|me|my|mine|myself)\b", unquoted), phrasing


def kind(one: Question) -> tuple[object, ...]:
    return one.kind, one.who, one.fact, one.role, frozenset(one.choices)


@pytest.mark.parametrize(("family", "scenario"), TWINS)
def test_twins_and_cases_ask_the_same_people_the_same(family: str, scenario: str) -> None:
    found = 0
    for world in (drawn(family, scenario, place) for place in range(2)):
        other, name = draw_twin(world, built_in()), world.people[find_protagonist(world)].name
        assert other.people == world.people
        assert set(map(kind, other.questions)) <= set(map(kind, world.questions))
        assert proven(items(other, built_in()))
        cases = [one for one in find_world_cases(world, built_in()) if isinstance(one, Case)]
        made = [(one.f, one.own, one.own_twin) for one in cases]
        of_f, learned = {f.id for f, _, _ in made}, {kind(one): rules.answer(other, one) for one in other.questions}
        for item in items(world, built_in()):
            about = item.factors["asked"] == find_protagonist(world) and item.factors["condition"] == "false_belief"
            about = about and item.factors.get("scene") in (None, 5)  # in earlier scenes, twins do not differ
            if about and item.factors["dimension"] in ("belief", "action", "intention"):
                same = learned.get(kind(read_record(item).questions[0])) in (None, item.factors["answer_key"])
                assert same or item.id in of_f, "without cause and percept, the protagonist's belief is the right one"
        for f, p, p_twin in made:
            found += 1
            assert (p.base, p_twin.base) == (f.id, f.id)
            assert (p.factors["variant"], p_twin.factors["variant"]) == ("ppt_p", "ppt_p_twin")
            assert p.factors["answer_key"] == f.factors["answer_key"] != p_twin.factors["answer_key"]
            assert p.factors["condition"] in ("true_belief", None), "what p's person believes is so, or is not said"
            if f.factors["order"] == 1:
                assert p_twin.factors["condition"] == "true_belief"
                assert f.factors["dimension"] != "belief" or f.answer != f.factors["reality"]
            assert len({read_record(one).questions[0].choices for one in (f, p, p_twin)}) == 1
            for item in (p, p_twin):
                words = " ".join((*item.story, item.question, *item.choices))
                assert name not in re.findall(r"\w+", words)
                assert re.search(r"\b(you|your)\b", words, re.IGNORECASE)
                assert not DISAGREES.search(words)
                assert not re.search(r"\byou(r|rself)?\b", " ".join(item.choices), re.IGNORECASE)
            assert len(p.story) < len(f.story)
            assert proven([p, p_twin])
    assert found


def test_worlds_without_a_twin() -> None:
    assert draw_twin(drawn("transfer", "no_transfer"), built_in()) is None
    world = drawn("transfer", "false_belief")
    scenes = (*world.scenes[:-1], world.scenes[-1].model_copy(update={"role": "put"}))
    with pytest.raises(ContentError, match="was drawn from other words than these"):
        draw_twin(world.model_copy(update={"scenes": scenes}), built_in())


UNREADABLE = [
    ({"peeple": {}}, "peeple: unknown key; did you mean 'people'? Known: "),
    ({"second": "Z"}, "world: the story is told to 'Z', who is nobody of this world"),
]


@pytest.mark.parametrize(("change", "said"), UNREADABLE)
def test_items_without_a_readable_record_are_refused_by_name(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    item, path = next(items(drawn("transfer", "false_belief"), built_in())), tmp_path / "worlds.jsonl"
    path.write_bytes(item.model_copy(update={"world": item.world | change}).to_json())
    with pytest.raises(ContentError) as raised:
        list(load(path))
    assert str(raised.value).startswith(f"{path}: item {item.id!r}: its record of a world: {said}")
    with pytest.raises(ConfigError, match=f"item {item.id!r} has no record of a world"):
        read_record(item.model_copy(update={"world": None}))
