"""Drawing worlds: by a seed, families in turn, right choices equally often in every place."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import islice
from typing import Any

import pytest

from tomserve.benchmarks.worlds.drawing import worlds
from tomserve.benchmarks.worlds.families import FAMILIES
from tomserve.benchmarks.worlds.lexicon import built_in
from tomserve.benchmarks.worlds.rendering import items
from tomserve.items import Item


def drawn(number: int, seed: int = 5, **more: Any) -> list[Item]:
    return [item for world in worlds(built_in(), number, seed, **more) for item in items(world, built_in())]


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    number = 2 * len(FAMILIES)
    first = [item.to_json() for item in drawn(number)]
    assert first == [item.to_json() for item in drawn(number)]
    assert {item.story for item in drawn(number)}.isdisjoint(item.story for item in drawn(number, seed=6))


def test_more_worlds_begin_with_the_fewer() -> None:
    fewer = drawn(len(FAMILIES))
    assert drawn(3 * len(FAMILIES))[: len(fewer)] == fewer


def test_families_and_their_versions_come_in_turn() -> None:
    told: dict[str, list[str]] = {}
    for world in worlds(built_in(), 4 * len(FAMILIES), 5):
        told.setdefault(world.name, []).append(str(world.design["scenario"]))
    names = list(told)
    assert len(names) == 4 * len(FAMILIES)
    for place, (name, scenarios) in enumerate(told.items()):
        family = FAMILIES[place % len(FAMILIES)]
        assert name == f"{family.name}-5-{place // len(FAMILIES):04d}"
        assert tuple(scenarios) == family.versions[place // len(FAMILIES) % len(family.versions)]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_place_has_the_right_choice_equally_often(family: Any) -> None:
    counts: dict[tuple[Any, int], Counter[int]] = defaultdict(Counter)
    for item in drawn(8, families=(family,)):
        role = item.world["questions"][0]["role"]
        counts[role, len(item.choices)][item.choices.index(item.answer)] += 1
    for (_, places), found in counts.items():
        assert max(found.values()) - min(found[place] for place in range(places)) <= 1


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_people_of_a_story_have_names_that_begin_differently(family: Any) -> None:
    for world in worlds(built_in(), 6, 5, (family,)):
        letters = [person.name[0] for person in world.people.values()]
        assert len(set(letters)) == len(letters)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_ids_are_unique_and_every_question_is_settled(family: Any) -> None:
    told = list(islice(worlds(built_in(), 8, 5, (family,)), 40))
    found = [item for world in told for item in items(world, built_in())]
    assert len({item.id for item in found}) == len(found) == sum(len(world.questions) for world in told)
