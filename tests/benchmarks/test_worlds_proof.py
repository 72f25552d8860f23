"""Two implementations of the rules of worlds, which share no code, give the same answers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import orjson
import pytest

from tests.helpers import possible_worlds
from tomserve.benchmarks.worlds import events, rules
from tomserve.benchmarks.worlds.drawing import worlds
from tomserve.benchmarks.worlds.families import FAMILIES
from tomserve.benchmarks.worlds.lexicon import built_in
from tomserve.benchmarks.worlds.record import Person, Question, Scene, World
from tomserve.benchmarks.worlds.rendering import items

PEOPLE, FACTS, ACTS = "PQRS", {"place": ("x", "y", "z"), "mood": ("m", "n")}, ("go", "stay", "ask")
FEELINGS = tuple(rules.FEELINGS)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_possible_worlds_agree_on_the_items_of_a_family(family: Any) -> None:
    lexicon = built_in()
    told = list(worlds(lexicon, 3 * len(family.versions), 11, (family,)))
    lines = [item.to_json() for world in told for item in items(world, lexicon)]
    assert len(lines) >= 20
    assert not [found for line in lines for found in possible_worlds.disagreements(orjson.loads(line))]


def test_possible_worlds_agree_on_questions_that_are_not_asked_as_nothing_settles_them() -> None:
    for world in worlds(built_in(), 3 * len(FAMILIES), 12):
        record = world.to_dict()
        for question, raw in zip(world.questions, record["questions"], strict=True):
            assert rules.answer(world, question) == possible_worlds.answer(record, raw), (world.name, raw)


@pytest.mark.parametrize("seed", range(80))
def test_possible_worlds_agree_on_whatever_may_happen(seed: int) -> None:
    """Also where no family goes: any events in any order, any chain of up to three people, any kind of question."""
    world = anything(random.Random(seed))
    record = world.to_dict()
    known = rules.happened(world)
    for question, raw in zip(world.questions, record["questions"], strict=True):
        by_line = [rules.answer(world, question, known, line) for line in range(len(world.scenes))]
        assert by_line == [possible_worlds.answer(record, raw, line) for line in range(len(world.scenes))], raw


def anything(rng: random.Random) -> World:
    """A world in which anything may happen."""
    scenes = [
        Scene(role="any", events=tuple(event(rng) for _ in range(rng.choice((0, 1, 1, 1, 2, 3))))) for _ in range(6)
    ]
    return World(
        family="any",
        name="any",
        people={key: Person(name=f"{key}ia", gender="woman") for key in PEOPLE},
        words={key: key for key in (*FACTS["place"], *FACTS["mood"], *ACTS, *FEELINGS, *STATE_KEYS)},
        facts=FACTS,
        plans={
            "place": {value: rng.choice(ACTS) for value in FACTS["place"]},
            "mood": {"match": "go", "mismatch": "stay"},
        },
        prospects=rng.choice(((), ("mood",))),
        scenes=tuple(scenes),
        questions=tuple(questions(rng)),
    )


def event(rng: random.Random) -> str:
    """Any event."""

    def some() -> str:
        return ", ".join(rng.sample(PEOPLE, rng.randint(1, 4)))

    fact = rng.choice(list(FACTS))
    value = rng.choice(FACTS[fact])
    return rng.choice(
        (
            *(f"fact {fact}={value} seen {some()}", f"fact {fact}={value} seen {some()}", f"fact {fact}={value}"),
            *(f"see {some()} {fact}", f"alone {some()} {fact}"),
            *(f"tell {rng.choice(PEOPLE)} {some()} {fact}={value}", f"tell - {some()} {fact}={value}"),
            *(f"distrust {some()} {rng.choice(PEOPLE)}", f"want {some()} {fact}={value}", f"seek {some()} {fact}"),
            *("scene", "scene"),
            *(
                f"act {rng.choice(PEOPLE)} {rng.choice(ACTS)}",
                f"show {rng.choice(PEOPLE)} {rng.choice(FEELINGS)} seen {some()}",
            ),
        )
    )


def questions(rng: random.Random) -> Iterator[Question]:
    """A question of every kind, about any people."""
    for kind in rules.KINDS:
        fact = rng.choice(list(FACTS))
        pool = (*FACTS[fact], "unknown")
        if kind in ("feeling", "seen_feeling", "face", "surprise"):
            pool = FEELINGS
        elif kind in ("action", "intention"):
            pool = (*ACTS, "unknown")
        elif kind in STATES:
            pool = STATES[kind](fact)
        who = tuple(rng.sample(PEOPLE, rng.choice((1, 1, 2, 2, 3))))
        choices = tuple(rng.sample(pool, rng.randint(2, len(pool))))
        yield Question(kind=kind, who=who, fact=fact, choices=choices, role=kind)


def joined(*parts: Sequence[str]) -> tuple[str, ...]:
    """All choices of a state from each part."""
    return tuple("_".join(states) for states in product(*parts))


def held(fact: str) -> tuple[str, ...]:
    return (*FACTS[fact], "unknown")


MOODS, REPLIES = ("glad", "sad"), ("match", "mismatch")
STATES: dict[str, Callable[[str], tuple[str, ...]]] = {
    "feeling_about": lambda fact: joined(MOODS, held(fact)),
    "reply_about": lambda fact: joined(REPLIES, held(fact)),
    "belief_then_feeling": lambda fact: joined(held(fact), MOODS),
    "belief_then_reply": lambda fact: joined(held(fact), REPLIES),
    "belief_since": lambda fact: joined(held(fact), held(fact)),
    "feeling_since": lambda fact: joined(MOODS, MOODS),
    "reply_since": lambda fact: joined(REPLIES, REPLIES),
    "belief_course": lambda fact: (*held(fact), *joined(held(fact), held(fact))),
    "feeling_course": lambda fact: (*MOODS, *joined(MOODS, MOODS)),
    "belief_cause": lambda fact: joined(("fact", "voice", *PEOPLE), held(fact)),
    "feeling_cause": lambda fact: joined(("fact", "voice", *PEOPLE), held(fact)),
}
"""The choices of the kinds of question whose answers are several states, or an event."""
STATE_KEYS = [one for fact in FACTS for choices in STATES.values() for one in choices(fact)]


def test_a_wrong_rule_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison is worth something: were a saying believed by nobody, or a face not noticed, it would show."""
    lexicon = built_in()
    told = list(worlds(lexicon, 4 * len(FAMILIES), 13))
    heard = events.hearsay
    monkeypatch.setattr(events, "hearsay", lambda speaker, hearers, trusting: heard(speaker, hearers, 0))
    lines = [item.to_json() for world in told for item in items(world, lexicon)]
    assert [found for line in lines for found in possible_worlds.disagreements(orjson.loads(line))]
