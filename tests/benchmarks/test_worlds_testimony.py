"""Testimony: who trusts whom decides what is believed, and nothing that stands in the words alone gives it away."""

from __future__ import annotations

from collections import Counter

import pytest

from tomserve.benchmarks.worlds.families.testimony import FAMILY, VALUES, constellation
from tomserve.benchmarks.worlds.lexicon import built_in
from tomserve.benchmarks.worlds.record import Key, Question, World
from tomserve.benchmarks.worlds.rendering import items, sentences
from tomserve.benchmarks.worlds.rules import answer
from tomserve.benchmarks.worlds.variants import without

EVERY = [
    FAMILY.world(built_in(), f"{FAMILY.name}-5-{turn:04d}", scenario)
    for turn in range(18)
    for scenario in FAMILY.versions[turn % len(FAMILY.versions)]
]
"""A few worlds, each with all questions that its family has."""


def believed(world: World, *who: Key) -> Key | None:
    return answer(world, Question(kind="belief", who=who, fact="matter", choices=VALUES, role="belief"))


def real(world: World) -> Key | None:
    return answer(world, Question(kind="reality", fact="matter", choices=VALUES, role="reality"))


def said(world: World, speaker: Key) -> Key:
    (found,) = [scene.slots["l"] for scene in world.scenes if scene.role == "tells" and scene.slots["I"] == speaker]
    return found


def of(scenario: str) -> list[World]:
    return [world for world in EVERY if world.design["scenario"] == scenario]


def test_each_of_three_values_is_believed_by_one_listener() -> None:
    for world in EVERY:
        assert {believed(world, name) for name in "PQR"} == set(VALUES)
        assert len({said(world, "S"), said(world, "T"), *VALUES}) == 3


def test_speakers_know_what_is_so_whatever_they_say() -> None:
    lies = 0
    for world in EVERY:
        assert believed(world, "S") == believed(world, "T") == real(world)
        lies += sum(said(world, name) != real(world) for name in "ST")
    assert lies > len(EVERY)


def test_scenarios_are_what_they_are_called() -> None:
    for world in of("trusted_false"):
        assert believed(world, "P") == said(world, "S") != real(world)
    for world in of("trusted_true"):
        assert believed(world, "P") == said(world, "S") == real(world)
    for world in of("distrusted_true"):
        assert said(world, "T") == real(world) != believed(world, "P")
        assert believed(world, "P") not in (said(world, "S"), said(world, "T"))
    for world in (*of("saw"), *of("looked")):
        assert believed(world, "P") == real(world)
        assert [scene.slots["E"] for scene in world.scenes if scene.role == "looks"] == ["P"]


@pytest.mark.parametrize("scenario", FAMILY.twins)
def test_twins_differ_only_in_who_looks(scenario: str) -> None:
    """Nothing but P's and R's names in that sentence, and what either wishes for stays."""
    for world in of(scenario):
        twin = FAMILY.world(built_in(), world.name, FAMILY.twins[scenario])
        assert (twin.people, twin.words) == (world.people, world.words)
        told = zip(sentences(world, built_in()), sentences(twin, built_in()), world.scenes, strict=True)
        assert {scene.role for one, other, scene in told if one != other} == {"looks"}


@pytest.mark.parametrize("scenario", FAMILY.twins)
def test_without_the_change_the_protagonist_would_be_right(scenario: str) -> None:
    for world in of(scenario):
        bare = without(world, {"cause", "percept"})
        assert believed(bare, "P") == real(bare) == believed(world, "P") != real(world)


def test_every_value_is_named_equally_often() -> None:
    for world in EVERY:
        story = " ".join(sentences(world, built_in()))
        assert len({story.count(world.words[key]) for key in VALUES}) == 1, story


def test_right_choices_are_balanced_in_every_class() -> None:
    counts: Counter[tuple[object, object]] = Counter()
    for world in EVERY:
        for item in items(world, built_in()):
            counts[item.factors["task"], item.factors["answer_key"]] += 1
    for task in ("belief", "action", "prospect", "surprise"):
        found = {count for (name, _), count in counts.items() if name == task}
        assert len(found) == 1, counts


def test_what_is_so_is_the_old_value_or_one_of_the_two_that_are_told_equally_often() -> None:
    """By the numbers of the constellations: groups are drawn in turn, and both speakers lie in two of three of the
    first and half of the third group."""
    shares: Counter[Key] = Counter()
    for group in FAMILY.versions:
        for scenario in group:
            for both_lie, weight in ((True, 2), (False, 1)):
                shares[constellation(scenario, both_lie).real] += weight
    assert shares[""] * 2 == shares["S"] + shares["T"]


def test_whoever_is_asked_about_a_prospect_is_hopeful_or_worried() -> None:
    found = [item for world in EVERY for item in items(world, built_in()) if item.factors["task"] == "prospect"]
    assert {item.answer for item in found} == {"hopeful", "worried"}
    assert all(item.factors["matter"] == "prospect" for item in found)
