"""Records of worlds: what they refuse, and that they come back from JSON as they were."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from tests.helpers.small_worlds import FACTS, PEOPLE, WORDS, ask, small
from tomserve.benchmarks.worlds.families import FAMILIES
from tomserve.benchmarks.worlds.lexicon import built_in
from tomserve.benchmarks.worlds.record import PRONOUNS, Person, Scene, World


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_record_comes_back_from_json_as_it_was(family: Any) -> None:
    for scenario in family.scenarios:
        world = family.world(built_in(), f"{family.name}-9-0001", scenario)
        line = orjson.dumps(world.to_dict())
        assert World.model_validate(orjson.loads(line)) == world


def test_what_has_its_default_value_is_not_written() -> None:
    written = small("fact place=x seen P").to_dict()
    assert written["scenes"] == [{"role": "any", "events": ["fact place=x seen P"]}]
    assert not {"questions", "second", "prospects", "design"} & set(written)


def test_pronouns_follow_gender_and_have_the_same_forms_for_everybody() -> None:
    assert PEOPLE["P"].pronouns["himself"] == "herself"
    assert PEOPLE["Q"].pronouns["his"] == "his"
    assert len({tuple(forms) for forms in PRONOUNS.values()}) == 1


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"words": WORDS | {"P": "park"}}, "the key 'P' is both a person's and a word's"),
        ({"facts": FACTS | {"place": ("x", "attic")}}, "fact 'place' has the value 'attic', which is neither"),
        ({"plans": {"weather": {"x": "wait"}}}, "'weather' is no fact of this world; it has place, result, culprit"),
        ({"plans": {"place": {"x": "run"}}}, "the plan for 'place' has the act 'run', which is no word"),
        ({"prospects": ("weather",)}, "'weather' is no fact of this world"),
        ({"questions": (ask("belief", "place", "T"),)}, "a question asks about 'T', who is nobody of this world"),
        ({"questions": (ask("belief", "place", "P", choices=("x", "w")),)}, "the choice 'w', which is neither"),
        ({"questions": (ask("belief", "place", "P", choices=("x", "x")),)}, "a question offers a choice twice"),
        ({"questions": (ask("belief", "place", "P", at=3),)}, "a question is about line 4; there are 1"),
        ({"scenes": (Scene(role="put", slots={"A": "T"}),)}, "the scene 'put' has a slot for 'T', which is neither"),
        ({"questions": (ask("belief", "place", "P", slots={"A": "T"}),)}, "has a slot for 'T', which is neither"),
        ({"second": "T"}, "the story is told to 'T', who is nobody of this world"),
        ({"scenes": ()}, "scenes"),
        ({"weather": "fine"}, "weather"),
        ({"people": PEOPLE | {"P": {"name": "", "gender": "woman"}}}, "name"),
    ],
)
def test_mistakes_are_refused(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        small("fact place=x seen P", **changed)


def test_a_question_has_at_least_two_choices() -> None:
    with pytest.raises(ValidationError, match="choices"):
        ask("belief", "place", "P", choices=("x",))


def test_a_record_is_a_value() -> None:
    assert small("fact place=x seen P") == small("fact place=x seen P")
    with pytest.raises(ValidationError):
        Person(name="Ann", gender="woman").name = "Eve"
