"""Worlds of second order: what one thinks that another thinks is neither what that one thinks, nor what is so."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from tomserve.benchmarks.worlds.drawing import worlds
from tomserve.benchmarks.worlds.families.second_order import FAMILY
from tomserve.benchmarks.worlds.lexicon import built_in
from tomserve.benchmarks.worlds.record import Key, World
from tomserve.benchmarks.worlds.rendering import sentences
from tomserve.benchmarks.worlds.rules import answer, happened
from tomserve.benchmarks.worlds.variants import without
from tomserve.items import UNKNOWN

NUMBER = 24
every_scenario = pytest.mark.parametrize("scenario", FAMILY.scenarios)


def drawn(scenario: str, number: int = NUMBER) -> list[World]:
    return [FAMILY.world(built_in(), f"second_order-8-{place:04d}", scenario) for place in range(number)]


def believed(world: World, *chain: Key) -> Key:
    """Where the chain of people believes the thing to be, by key."""
    (label,) = happened(world).traces["place"].belief(chain).labels
    return label


def left(world: World) -> list[set[Key]]:
    """Who goes away at the same time, in the order of the story."""
    return [set(scene.slots.values()) for scene in world.scenes if scene.role in ("goes", "go_both")]


def test_a_secret_look_changes_what_somebody_thinks_and_not_what_others_think_of_them() -> None:
    for world in drawn("secret"):
        thought = believed(world, "P", "Q")
        assert thought not in (believed(world, "Q"), believed(world, "P"), believed(world)), world.name
        assert believed(world, "P", "R") == UNKNOWN != believed(world, "R")


@pytest.mark.parametrize("scenario", ["together", "told"])
def test_what_is_learned_in_the_open_changes_both(scenario: str) -> None:
    for world in drawn(scenario):
        assert believed(world, "P", "Q") == believed(world, "Q", "P") == believed(world, "P") == believed(world, "Q")
        assert believed(world, "S", "Q") != believed(world, "Q")


def test_nothing_moved_means_nothing_to_be_wrong_about() -> None:
    for world in drawn("no_transfer"):
        assert believed(world, "P", "Q") == believed(world, "Q", "P") == believed(world)
        assert believed(world, "R") == UNKNOWN


def test_without_the_moves_and_looks_what_one_thinks_of_the_other_is_right() -> None:
    for world in drawn("secret"):
        bare = without(world, {"cause", "percept"})
        assert believed(bare, "P", "Q") == believed(bare, "Q") == believed(bare)


@every_scenario
def test_nobody_who_looked_in_secret_is_asked_about_somebody_who_stayed_behind(scenario: str) -> None:
    """Such a person may or may not have seen the move, for all that the one who looked can know."""
    for world in drawn(scenario):
        if scenario == "no_transfer":
            continue  # who finds everything as it was has no reason to think that the other one saw anything else
        looked = {event.split()[1] for scene in world.scenes for event in scene.events if event.startswith("alone")}
        gone = left(world)
        for question in world.questions:
            for outer, inner in zip(question.who, question.who[1:], strict=False):
                if outer in looked and inner not in ("R", "T"):
                    when = {name: place for place, group in enumerate(gone) for name in group}
                    told = scenario == "told" and {outer, inner} == {"P", "Q"}
                    assert told or when.get(inner, len(gone)) <= when[outer], (world.name, question.who)


@every_scenario
def test_every_place_is_named_equally_often(scenario: str) -> None:
    for world in drawn(scenario):
        text = " ".join(sentences(world, built_in()))
        assert {text.count(world.words[key]) for key in world.facts["place"]} == {3}, text
        assert 5 <= len(world.scenes) <= 14


def test_copying_first_order_beliefs_or_the_truth_is_no_better_than_guessing() -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    chances: dict[str, float] = {}
    for world in worlds(built_in(), 150, 8, [FAMILY]):
        for question in world.questions:
            right, task = answer(world, question), str(question.factors["task"])
            if len(question.who) > 1:
                copied = {"inner": question.who[-1:], "outer": question.who[:1], "truth": ()}
                counts[task].update({name: right == believed(world, *chain) for name, chain in copied.items()})
                counts[task]["all"] += 1
                chances[task] = 1 / len(question.choices)
    assert set(chances) == {"second_order_belief", "second_order_action", "third_order_belief"}
    for task, chance in chances.items():
        total = counts[task].pop("all")
        error = (chance * (1 - chance) / total) ** 0.5
        assert max(counts[task].values()) / total <= chance + 0.05 + 2 * error, (task, counts[task], total)


def test_both_ways_and_third_order_are_asked() -> None:
    chains = {
        question.who for scenario in FAMILY.scenarios for world in drawn(scenario) for question in world.questions
    }
    assert {("P", "Q"), ("Q", "P"), ("S", "P"), ("P", "S")} <= chains
    assert {len(chain) for chain in chains} == {0, 1, 2, 3}


def test_all_answers_of_a_class_are_right_about_equally_often() -> None:
    keys = Counter(
        answer(world, question)
        for world in worlds(built_in(), 150, 9, [FAMILY])
        for question in world.questions
        if question.factors["task"] == "second_order_belief"
    )
    assert min(keys.values()) >= 0.6 * max(keys.values())
