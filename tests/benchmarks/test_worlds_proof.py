"""Two implementations of the rules of worlds, which share no code, give the same answers."""

import random
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import orjson
import pytest

from tests.conftest import ROOT
from tomserve.benchmarks.worlds import rules
from tomserve.benchmarks.worlds.families import FAMILIES
from tomserve.benchmarks.worlds.generator import draw_worlds, items
from tomserve.benchmarks.worlds.lexicon import built_in
from tomserve.benchmarks.worlds.record import Person, Question, Scene, World

sys.path.insert(0, str(ROOT / "bench"))
import _possible_worlds

PEOPLE, FACTS, ACTS = "PQRS", {"place": ("x", "y", "z"), "mood": ("m", "n")}, ("go", "stay", "ask")
FEELINGS = tuple(rules.FEELINGS)
SEEDS = 42
"""How many worlds are made up by chance."""


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_possible_worlds_agree_on_the_items_of_a_family(family: Any) -> None:
    lexicon = built_in()
    told = list(draw_worlds(lexicon, 2 * len(family.versions), 11, (family,)))
    lines = [item.to_json() for world in told for item in items(world, lexicon)]
    assert len(lines) >= 20
    assert not [found for line in lines for found in _possible_worlds.disagreements(orjson.loads(line))]


@pytest.mark.parametrize("part", range(6))
def test_possible_worlds_agree_on_whatever_may_happen(part: int) -> None:
    """Also where no family goes: any events in any order, any chain of up to three people, any kind of question."""
    for seed in range(part, SEEDS, 6):
        world, asked = made_up(seed)
        record, known = world.to_dict(), rules.read_world(world)
        for question in asked:
            raw = question.model_dump()
            for line in range(len(world.scenes)):
                found = rules.answer(world, question, known, line)
                # Of causes the first implementation says nothing where several events would have to be told apart.
                if found is not None or not question.kind.endswith("_cause"):
                    assert found == _possible_worlds.answer(record, raw, line), (raw, line)


def test_the_comparison_comes_across_right_answers_to_every_kind_of_question() -> None:
    told = [(world, asked, rules.read_world(world)) for world, asked in map(made_up, range(SEEDS))]
    answered = {q.kind for world, asked, known in told for q in asked if rules.answer(world, q, known) is not None}
    assert answered == set(rules.KINDS)


@cache
def made_up(seed: int) -> tuple[World, tuple[Question, ...]]:
    """A world in which anything may happen, and questions about it."""
    rng = random.Random(seed)
    world = anything(rng)
    return world, tuple(questions(rng, world))


def anything(rng: random.Random) -> World:
    """A world in which anything may happen."""
    lines = [[event(rng) for _ in range(rng.choice((0, 1, 1, 1, 2, 3)))] for _ in range(7)]
    lines[0].append(f"want {', '.join(PEOPLE)} {rng.choice(('place=x', 'mood=m'))}")
    begins = [["scene"] if place in (0, *rng.sample(range(1, 7), 2)) else [] for place in range(7)]
    return World(
        family="any",
        name="any",
        people={key: Person(name=f"{key}ia", gender="woman") for key in PEOPLE},
        words={key: key for key in (*FACTS["place"], *FACTS["mood"], *ACTS)},
        facts=FACTS,
        plans={
            "place": {value: rng.choice(ACTS) for value in FACTS["place"]},
            "mood": {"match": "go", "mismatch": "stay"},
        },
        prospects=rng.choice(((), ("mood",))),
        scenes=tuple(Scene(role="any", events=(*begin, *line)) for begin, line in zip(begins, lines, strict=True)),
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
            f"act {rng.choice(PEOPLE)} {rng.choice(ACTS)}",
            f"show {rng.choice(PEOPLE)} {rng.choice(FEELINGS)} seen {some()}",
        )
    )


def questions(rng: random.Random, world: World) -> Iterator[Question]:
    """Questions of every kind, about any people; the choices are answers at some lines, and others of their form."""
    known = rules.read_world(world)
    for kind in rules.KINDS:
        fact, who = rng.choice(list(FACTS)), tuple(rng.sample(PEOPLE, rng.choice((1, 1, 1, 2, 3))))
        question = Question(kind=kind, who=who, fact=fact, choices=("x", "y"), role=kind)
        cases = [rules.Case(world, known, question, line) for line in range(len(world.scenes))]
        right = {found for case in cases if (found := rules.KINDS[kind](case)) is not None}
        states = (*FACTS[fact], "unknown", *FEELINGS, *ACTS, "match", "mismatch", "fact", *PEOPLE)
        forms = {found.count("_") for found in right} | {0}
        others = {"_".join(rng.choices(states, k=rng.choice([*forms]) + 1)) for _ in range(5)}
        choices = sorted({*right, *others, *rng.sample(states, 4)})
        yield question.model_copy(update={"choices": tuple(rng.sample(choices, len(choices)))})


def test_a_wrong_rule_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison is worth something: were a saying believed by nobody, or a face not noticed, it would show."""
    lexicon = built_in()
    told = list(draw_worlds(lexicon, len(FAMILIES), 13))
    heard = rules.hearsay
    monkeypatch.setattr(rules, "hearsay", lambda speaker, hearers, trusting: heard(speaker, hearers, 0))
    lines = [item.to_json() for world in told for item in items(world, lexicon)]
    assert [found for line in lines for found in _possible_worlds.disagreements(orjson.loads(line))]
