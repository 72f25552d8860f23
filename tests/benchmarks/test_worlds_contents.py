"""Worlds of unexpected contents: who believes what, which questions stand side by side, and what twins share."""

from __future__ import annotations

from collections import Counter

import pytest

from tomserve.benchmarks.worlds.drawing import worlds
from tomserve.benchmarks.worlds.families.contents import FAMILY
from tomserve.benchmarks.worlds.lexicon import built_in
from tomserve.benchmarks.worlds.record import World
from tomserve.benchmarks.worlds.rendering import asked, sentences
from tomserve.benchmarks.worlds.rules import answer, happened
from tomserve.benchmarks.worlds.variants import without
from tomserve.items import UNKNOWN

NUMBER = 12
every_scenario = pytest.mark.parametrize("scenario", FAMILY.scenarios)


def drawn(scenario: str, number: int = NUMBER) -> list[World]:
    return [FAMILY.world(built_in(), f"contents-8-{place:04d}", scenario) for place in range(number)]


def beliefs(world: World) -> dict[str, str]:
    """What is in the container, and what everybody believes to be in it, by key."""
    trace = happened(world).traces["inside"]
    found = {key: trace.belief((key,)).labels for key in world.people} | {"really": trace.belief(()).labels}
    return {key: labels[0] for key, labels in found.items() if len(labels) == 1}


def said(world: World, role: str) -> list[str]:
    """The contents that scenes of this role are about."""
    return [scene.slots["l"] for scene in world.scenes if scene.role == role]


@every_scenario
def test_everybody_believes_what_they_could_find_out(scenario: str) -> None:
    for world in drawn(scenario):
        (label,) = said(world, "box")
        changed = [*said(world, "refill"), *said(world, "refill_again")]
        last = changed[-1] if changed else label
        believed = beliefs(world)
        assert (len(changed), believed["R"], believed["L"]) == (0 if scenario == "correct_label" else 2, UNKNOWN, label)
        assert believed["really"] == believed["W"] == last
        assert believed["P"] == (last if scenario in ("opened", "informed") else label)
        if changed:
            assert (believed["Q"], believed["S"]) == tuple(changed)


@every_scenario
def test_all_contents_are_named_equally_often(scenario: str) -> None:
    for world in drawn(scenario):
        text = " ".join(sentences(world, built_in()))
        assert len({text.count(world.words[key]) for key in world.facts["inside"]}) == 1, text


@pytest.mark.parametrize("scenario", ["opened", "informed"])
def test_a_story_and_its_control_differ_only_in_how_the_protagonist_learns_of_it(scenario: str) -> None:
    for one, other in zip(drawn("false_belief"), drawn(scenario), strict=True):
        assert (one.people, one.words) == (other.people, other.words)
        pairs = zip(one.scenes, other.scenes, sentences(one, built_in()), sentences(other, built_in()), strict=True)
        different = [(a.part, b.part) for a, b, text, same in pairs if text != same]
        assert different == [("percept", "percept")]


def test_without_the_changes_and_the_second_look_the_label_is_right() -> None:
    for world in drawn("false_belief"):
        believed = beliefs(without(world, {"cause", "percept"}))
        assert believed["P"] == believed["really"] == beliefs(world)["P"]


@every_scenario
def test_wishes_are_mirrored_and_both_outcomes_are_asked_about(scenario: str) -> None:
    for world in drawn(scenario):
        wishes = {key: happened(world).wanted(key, "inside") for key in "PLW"}
        assert wishes["P"] != wishes["L"] == wishes["W"]
        found = {
            kind: [answer(world, one) for one in world.questions if one.kind == kind] for kind in ("action", "feeling")
        }
        assert sorted(map(len, found.values())) == [1, 2]
        assert all(len(set(answers)) == len(answers) for answers in found.values())


def test_the_plan_says_what_the_choices_of_the_action_say() -> None:
    for world in drawn("false_belief"):
        (plan,) = [
            text for scene, text in zip(world.scenes, sentences(world, built_in()), strict=True) if scene.role == "plan"
        ]
        for key in ("m", "n"):
            assert world.words[key].replace("{box}", world.words["box"]) in plan


def test_neither_label_nor_truth_nor_ignorance_is_what_is_mostly_believed() -> None:
    counts: Counter[str] = Counter()
    for world in worlds(built_in(), 60, 8, [FAMILY]):
        (label,), real = said(world, "box"), beliefs(world)["really"]
        for question in world.questions:
            if question.kind == "belief":
                right = answer(world, question)
                counts.update({"all": 1, "label": right == label, "truth": right == real, UNKNOWN: right == UNKNOWN})
    assert counts["all"] >= 200
    assert max(counts["label"], counts["truth"], counts[UNKNOWN]) <= 0.35 * counts["all"]


def test_surprise_is_asked_of_one_who_is_surprised_and_one_who_is_not() -> None:
    for scenario in ("false_belief", "opened", "informed"):
        for world in drawn(scenario):
            found = {answer(world, one) for one in world.questions if one.kind == "surprise"}
            assert found == {"surprised", "not_surprised"}


def test_no_question_gives_its_answer_away() -> None:
    for scenario in FAMILY.scenarios:
        for world in drawn(scenario):
            for question in world.questions:
                text = asked(world, question, built_in())
                assert not any(world.words[key] in text for key in world.facts["inside"])
