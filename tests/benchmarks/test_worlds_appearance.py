"""Appearance: what is felt follows from wishes and news, what is seen of it from faces, or from knowing the matter."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from tomserve.benchmarks.worlds.families.appearance import FAMILY
from tomserve.benchmarks.worlds.lexicon import built_in
from tomserve.benchmarks.worlds.record import Question, World
from tomserve.benchmarks.worlds.rendering import items, sentences
from tomserve.benchmarks.worlds.rules import answer
from tomserve.benchmarks.worlds.variants import without
from tomserve.items import UNKNOWN

EVERY = [
    FAMILY.world(built_in(), f"{FAMILY.name}-5-{turn:04d}", scenario)
    for turn in range(18)
    for scenario in FAMILY.versions[turn % len(FAMILY.versions)]
]
"""A few worlds, each with all questions that its family has."""


def of(*scenarios: str) -> list[World]:
    return [world for world in EVERY if world.design["scenario"] in scenarios]


def told(world: World, kind: str, *who: str, fact: str = "result") -> str | None:
    choices = {
        "belief": ("x", "y", "U", "V", UNKNOWN),
        "reality": ("x", "y"),
        "blame": ("U", "V"),
        "feeling": ("glad", "sad", "indifferent"),
    }.get(kind, ("glad", "sad", UNKNOWN))
    return answer(world, Question(kind=kind, who=who, fact=fact, choices=choices, role=kind))


def test_one_is_glad_one_sad_and_who_heard_nothing_is_neither() -> None:
    for world in of("masked", "sincere", "false_belief", "noticed"):
        assert {told(world, "feeling", name) for name in "PQ"} == {"glad", "sad"}
        assert told(world, "feeling", "R") == "indifferent"


def test_a_mask_shows_the_contrary_and_an_open_face_what_is_felt() -> None:
    masks = 0
    for world in of("masked", "sincere", "false_belief", "noticed"):
        hidden = any(scene.role.startswith("mask") for scene in world.scenes)
        masks += hidden
        assert world.design["shown"] == ("masked" if hidden else "sincere")
        for name in "PQ":
            assert (told(world, "face", name) != told(world, "feeling", name)) == hidden
    assert 0 < masks < len(EVERY)


def test_who_knows_goes_by_the_matter_who_only_sees_by_the_face_and_who_does_neither_cannot_tell() -> None:
    for world in of("masked", "sincere"):
        for one, other in ("PQ", "QP"):
            assert told(world, "seen_feeling", other, one) == told(world, "feeling", one)
    for world in EVERY:
        fact = next(iter(world.facts))
        for name in "PQ":
            assert told(world, "seen_feeling", "F", name, fact=fact) == told(world, "face", name)
            assert told(world, "seen_feeling", "R", name, fact=fact) == UNKNOWN


def test_feelings_follow_what_is_believed_where_somebody_missed_the_news() -> None:
    for world in of("false_belief"):
        twin = FAMILY.world(built_in(), world.name, "noticed")
        assert told(world, "belief", "P") != told(twin, "belief", "P") == told(world, "belief", "Q")
        assert told(world, "feeling", "P") != told(twin, "feeling", "P")
        bare = without(world, {"cause", "percept"})
        assert (
            told(bare, "belief", "P") == told(bare, "reality") == told(world, "belief", "P") != told(world, "reality")
        )


def test_anger_is_at_the_one_who_is_believed_to_have_done_it() -> None:
    for world in of("wrong_culprit", "right_culprit"):
        witness, misled = ("Q", "P") if world.design["scenario"] == "wrong_culprit" else ("P", "Q")
        assert told(world, "blame", witness, fact="culprit") == "U"
        assert told(world, "blame", misled, fact="culprit") == "V"
        assert told(world, "belief", "R", fact="culprit") == UNKNOWN


@pytest.mark.parametrize(
    ("one", "other", "where"),
    [
        ("masked", "sincere", {"mask_glad", "mask_sad", "open_glad", "open_sad"}),
        ("wrong_culprit", "right_culprit", {"parts", "spoils", "blames"}),
    ],
)
def test_versions_of_a_world_differ_only_where_they_must(one: str, other: str, where: set[str]) -> None:
    for world in of(one):
        twin = FAMILY.world(built_in(), world.name, other)
        assert (twin.people, twin.words) == (world.people, world.words)
        pairs = zip(sentences(world, built_in()), sentences(twin, built_in()), world.scenes, strict=True)
        assert {scene.role for before, after, scene in pairs if before != after} <= where


def test_right_choices_are_balanced_in_every_class() -> None:
    counts: dict[tuple[object, int], Counter[str]] = defaultdict(Counter)
    for world in EVERY:
        for item in items(world, built_in()):
            key = str(item.factors["answer_key"])
            kind = "value" if key in ("x", "y", "U", "V") else key
            counts[item.factors["task"], len(item.choices)][kind] += 1
    for (task, choices), found in counts.items():
        if task == "belief":
            assert found["value"] == 2 * found[UNKNOWN]
        elif task != "blame":
            assert len(found) == choices
            assert len(set(found.values())) == 1, (task, found)


def test_no_world_asks_more_than_ten_questions() -> None:
    assert {len(world.questions) for world in EVERY} <= set(range(8, 11))
