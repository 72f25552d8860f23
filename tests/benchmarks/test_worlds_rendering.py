"""From worlds to items."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.small_worlds import ask, small
from tomserve.benchmarks.worlds import rules
from tomserve.benchmarks.worlds.families import BY_NAME, FAMILIES
from tomserve.benchmarks.worlds.lexicon import built_in
from tomserve.benchmarks.worlds.record import World
from tomserve.benchmarks.worlds.rendering import asked, items, label, sentences
from tomserve.benchmarks.worlds.surface import all_knowing, reality
from tomserve.items import UNKNOWN, Item


def world(scenario: str = "false_belief") -> World:
    return BY_NAME["transfer"].world(built_in(), "transfer-4-0002", scenario)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_items_carry_their_world_and_come_back_from_their_lines(family: Any) -> None:
    for scenario in family.scenarios:
        one = family.world(built_in(), f"{family.name}-4-0000", scenario)
        found = list(items(one, built_in()))
        assert len({item.id for item in found}) == len(found)
        for item in found:
            assert Item.from_json(item.to_json()) == item
            assert item.cluster == one.name
            assert item.story == sentences(one, built_in())
            own = World.model_validate(item.world)
            assert own.model_copy(update={"questions": one.questions}) == one
            (again,) = items(own, built_in())
            assert (again.question, again.choices, again.answer, again.gold) == (
                *(item.question, item.choices),
                *(item.answer, item.gold),
            )


def test_the_gold_chain_has_the_answer_after_every_sentence() -> None:
    one = world()
    belief = next(item for item in items(one, built_in()) if item.factors["asked"] == "P")
    assert belief.gold is not None
    assert belief.gold.sets is not None
    assert len(belief.gold.sets) == len(belief.story)
    assert belief.gold.sets[0] == (UNKNOWN,)
    assert belief.gold.sets[-1] == (belief.answer,)


def test_a_question_that_is_not_settled_after_every_sentence_has_no_gold_chain() -> None:
    action = next(item for item in items(world(), built_in()) if item.factors["task"] == "action")
    assert action.gold is None


def test_what_the_rules_do_not_settle_is_left_out_and_the_ids_of_the_others_stay() -> None:
    one = world()
    unsettled = one.questions[0].model_copy(update={"kind": "desire", "who": ("R",)})
    changed = one.model_copy(update={"questions": (unsettled, *one.questions[1:])})
    assert [item.id for item in items(changed, built_in())] == [item.id for item in items(one, built_in())][1:]


def test_some_questions_can_be_asked_alone() -> None:
    whole = list(items(world(), built_in()))
    assert [item.id for item in items(world(), built_in(), questions=[1, 3])] == [whole[1].id, whole[3].id]


def test_what_happened_is_read_once_for_all_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    read, times = rules.read, list[int]()
    monkeypatch.setattr(rules, "read", lambda *given: times.append(1) or read(*given))
    assert len(list(items(world(), built_in()))) > 1
    assert len(times) == 1


def test_the_reader_who_takes_everybody_to_know_all_answers_beliefs_with_what_is_so() -> None:
    for scenario, right in (("false_belief", False), ("informed_protagonist", True)):
        asked_of = [item for item in items(world(scenario), built_in()) if item.factors["asked"] == "P"]
        (belief,) = [item for item in asked_of if item.factors["kind"] == "belief"]
        assert all_knowing(belief) == reality(belief)
        assert (all_knowing(belief) == belief.answer) is right


@pytest.mark.parametrize(
    ("lines", "who", "condition"),
    [
        (("fact place=x seen P", "fact place=y"), "P", "false_belief"),
        (("fact place=x seen P",), "P", "true_belief"),
        (("fact place=x",), "P", "ignorance"),
    ],
)
def test_the_condition_compares_the_belief_with_what_is_so(lines: tuple[str, ...], who: str, condition: str) -> None:
    scenes = small(*lines).scenes
    scenes = tuple(scene.model_copy(update={"role": "closing", "slots": dict.fromkeys("abc", "o")}) for scene in scenes)
    question = ask("belief", "place", who, slots={"A": who})
    (item,) = items(small(scenes=scenes, questions=(question,)), built_in())
    assert item.factors["condition"] == condition
    assert item.factors["order"] == 1
    assert item.factors["asked"] == "P"


def test_labels_name_people_and_call_the_reader_you() -> None:
    one = small("fact culprit=Q")
    assert [label(one, key) for key in ("Q", "x", UNKNOWN)] == ["Ben", "drawer", UNKNOWN]
    assert label(one.model_copy(update={"second": "Q"}), "Q") == "you"
    assert label(one.model_copy(update={"second": "Q"}), "Q", first="Q") == "I"


def test_the_second_person_is_said_in_the_story_and_in_questions() -> None:
    one = world().model_copy(update={"second": "P"})
    name = one.people["P"].name
    assert not any(name in sentence for sentence in sentences(one, built_in()))
    assert not any(name in asked(one, question, built_in()) for question in one.questions)


def test_an_unknown_role_names_the_known_ones() -> None:
    with pytest.raises(Exception, match="no phrasings of 'any'; known: absent, closing"):
        sentences(small("fact place=x"), built_in())
