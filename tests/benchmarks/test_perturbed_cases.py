"""Cases of the second edition: what is told to "you" fits its stage, and "you" believe what follows from its events."""

import pytest

from tomserve.benchmarks.counterfactuals import Case
from tomserve.benchmarks.perturbed.cases import OwnStory, cases, make_cases
from tomserve.benchmarks.perturbed.stages import load_stages
from tomserve.content.paths import find


def test_every_stage_makes_two_cases_in_which_the_cue_is_the_same_in_the_twin() -> None:
    found = [one for one in cases() if isinstance(one, Case)]
    assert len(found) == 2 * 21 == 2 * len({one.scenario for one in found})
    for one in found:
        assert (one.parted, one.own.answer) == ("informed", one.f.answer)
        assert one.twin is not None
        assert one.twin.answer == one.own_twin.answer == one.f.factors["reality"]
        assert " you" in one.own.question
        assert one.own.story != one.own_twin.story
        assert set(one.own.story) - set(one.own_twin.story) <= {one.own.story[-1], one.own.story[-2]}
        assert str(one.f.factors["asked"]) not in " ".join([*one.own.story, *one.own_twin.story, one.own.question])


TOLD = {"sticker": 'It says "{y}".', "read": "You read it."}
LEARNED = {"told": "Clara tells you: {x}."}


@pytest.mark.parametrize(
    ("told", "learned", "said"),
    [
        ({"holds": "There are {x} in it and no {y}."}, {}, "holds: Nadia does not notice this"),
        ({"bell": "Nadia leaves."}, {}, "bell: names Nadia"),
        ({"read": "You read {y}."}, {}, r"read: expected the labels \[\]"),
        ({"shelf": "It stands there."}, {}, "shelf"),
        ({}, {"told": "Clara tells you: {y}."}, r"told: expected the labels \['\{x\}'\]"),
        ({}, {"never": "You never look."}, "never"),
    ],
)
def test_a_story_that_does_not_fit_its_stage_is_refused(
    told: dict[str, str], learned: dict[str, str], said: str
) -> None:
    folder = find("dataset/perturbed-2/stages")
    assert folder is not None
    (stage,) = load_stages(folder / "C01.yaml")
    assert len(list(make_cases(stage, OwnStory(told=TOLD, learned=LEARNED)))) == 2
    with pytest.raises(ValueError, match=said):
        list(make_cases(stage, OwnStory(told=TOLD | told, learned=LEARNED | learned)))
    with pytest.raises(ValueError, match="you believe unknown after it; expected y"):
        list(make_cases(stage, OwnStory(told={"sticker": TOLD["sticker"]}, learned=LEARNED)))
