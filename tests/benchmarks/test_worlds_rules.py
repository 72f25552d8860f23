"""The rules of worlds, each by a case that is worked out by hand."""

from __future__ import annotations

import pytest

from tests.helpers.small_worlds import ask, small, told
from tomserve.benchmarks.worlds import rules
from tomserve.benchmarks.worlds.record import World
from tomserve.items import UNKNOWN

MOVED = ("fact place=x seen P, Q", "fact place=y seen Q")
"""Ben moves the key from the drawer to the basket while Ann is away."""

FEELINGS = ("glad", "sad", "relieved", "disappointed", "hopeful", "afraid", "indifferent")


def felt(*lines: str, who: str = "P", **changed: object) -> set[str]:
    """All feelings about the result."""
    world = small(*lines, **changed)
    question = ask("feeling", "result", *who, choices=FEELINGS)
    return rules.feelings(rules.Case(world, rules.happened(world), question, len(lines) - 1))


def test_reality_is_what_was_so_last_whoever_saw_it() -> None:
    assert told(small(*MOVED), ask("reality", "place")) == "y"
    assert told(small("want P place=x"), ask("reality", "place")) == UNKNOWN


def test_a_belief_is_what_was_last_seen() -> None:
    world = small(*MOVED)
    assert told(world, ask("belief", "place", "P")) == "x"
    assert told(world, ask("belief", "place", "Q")) == "y"
    assert told(world, ask("belief", "place", "Q", "P")) == "x"
    assert told(world, ask("belief", "place", "R")) == UNKNOWN


def test_what_is_asked_about_an_earlier_line_is_as_it_was_then() -> None:
    assert told(small(*MOVED), ask("belief", "place", "Q", at=0)) == "x"
    assert told(small(*MOVED), ask("belief", "place", "Q"), at=0) == "x"


def test_an_answer_that_is_no_choice_is_no_answer() -> None:
    assert told(small(*MOVED), ask("belief", "place", "P", choices=("y", "z"))) is None


def test_the_answer_after_every_line_is_given_where_every_line_has_one() -> None:
    assert rules.answers(small(*MOVED), ask("belief", "place", "Q")) == ["x", "y"]
    assert rules.answers(small(*MOVED), ask("belief", "place", "Q", at=0)) == ["x"]
    assert rules.answers(small(*MOVED), ask("action", "place", "P", choices=("open_x", "open_y"))) is None


def test_a_desire_is_what_the_story_says_and_may_change() -> None:
    world = small("want P result=won", "want P result=lost")
    assert told(world, ask("desire", "result", "P")) == "lost"
    assert told(world, ask("desire", "result", "P", at=0)) == "won"
    assert told(world, ask("desire", "result", "Q")) is None
    assert told(small("seek P place"), ask("desire", "place", "P")) is None


@pytest.mark.parametrize("kind", ["action", "intention"])
def test_an_act_follows_the_belief_not_what_is_so(kind: str) -> None:
    acts = ("open_x", "open_y", UNKNOWN)
    assert told(small("seek P, Q place", *MOVED), ask(kind, "place", "P", choices=acts)) == "open_x"
    assert told(small("seek P, Q place", *MOVED), ask(kind, "place", "Q", choices=acts)) == "open_y"
    assert told(small("seek R place", *MOVED), ask(kind, "place", "R", choices=acts)) == UNKNOWN
    assert told(small(*MOVED), ask(kind, "place", "P", choices=acts)) is None, "who wants nothing does nothing"


def test_where_the_plan_asks_whether_it_is_as_wanted_the_act_follows_that() -> None:
    acts = ("wait", "leave")
    lines = ("want P result=won", "fact result=won seen P", "fact result=lost")
    assert told(small(*lines), ask("action", "result", "P", choices=acts)) == "wait"
    assert told(small(*lines, "see P result"), ask("action", "result", "P", choices=acts)) == "leave"
    assert told(small("seek P result", *lines[1:]), ask("action", "result", "P", choices=acts)) is None


def test_an_act_tells_the_belief_where_only_one_leads_to_it() -> None:
    assert told(small("seek P place", "act P open_y"), ask("belief_from_act", "place", "P")) == "y"
    assert told(small("seek P place", "act Q open_y"), ask("belief_from_act", "place", "P")) is None
    plan = {"place": {"x": "open_x", "y": "wait", "z": "wait"}}
    assert told(small("seek P place", "act P wait", plans=plan), ask("belief_from_act", "place", "P")) is None
    assert told(small("act P open_y"), ask("belief_from_act", "place", "P")) is None, "the desire must be known"


def test_an_act_tells_the_desire_where_the_belief_is_known() -> None:
    lines = ("fact result=won seen P", "act P wait")
    assert told(small(*lines), ask("desire_from_act", "result", "P")) == "won"
    assert told(small("fact result=won", "act P wait"), ask("desire_from_act", "result", "P")) is None
    assert told(small("fact result=won seen P"), ask("desire_from_act", "result", "P")) is None


def test_what_was_wanted_gladdens_and_what_was_not_saddens_by_what_is_believed() -> None:
    assert felt("want P result=won", "fact result=won seen P", "fact result=lost") == {"glad"}
    assert felt("want P result=won", "fact result=lost seen P", "fact result=won") == {"sad"}
    assert felt("want P result=won", "fact result=won") == {"indifferent"}
    assert felt("fact result=won seen P") == set()
    assert felt("seek P result", "fact result=won seen P") == set()


def test_relief_is_joy_and_disappointment_distress_after_the_contrary_was_believed() -> None:
    assert felt("want P result=won", "fact result=lost seen P", "fact result=won seen P") == {"glad", "relieved"}
    assert felt("want P result=won", "fact result=won seen P", "fact result=lost seen P") == {"sad", "disappointed"}


def test_of_what_lies_ahead_people_hope_or_are_afraid() -> None:
    ahead = {"prospects": ("result",)}
    assert felt("want P result=won", "fact result=won seen P", **ahead) == {"hopeful"}
    assert felt("want P result=won", "fact result=lost seen P", **ahead) == {"afraid"}
    twice = ("want P result=won", "fact result=lost seen P", "fact result=won seen P")
    assert felt(*twice, **ahead) == {"hopeful", "relieved"}


def test_a_feeling_is_asked_where_only_one_of_the_choices_is_felt() -> None:
    world = small("want P result=won", "fact result=lost seen P", "fact result=won seen P")
    assert told(world, ask("feeling", "result", "P", choices=("relieved", "sad"))) == "relieved"
    assert told(world, ask("feeling", "result", "P", choices=("relieved", "glad"))) is None


def test_others_are_thought_to_feel_by_what_they_are_thought_to_believe() -> None:
    world = small("want P result=won", "fact result=won seen P, Q", "fact result=lost seen P")
    assert told(world, ask("feeling", "result", "Q", "P", choices=("glad", "sad"))) == "glad"
    assert told(world, ask("feeling", "result", "P", choices=("glad", "sad"))) == "sad"


def face(*lines: str) -> World:
    return small("want P result=won", "fact result=lost seen P", *lines)


def test_who_does_not_know_how_it_stands_goes_by_the_face_that_they_saw() -> None:
    seen = ask("seen_feeling", "result", "Q", "P", choices=("glad", "sad", UNKNOWN))
    assert told(face("show P glad seen Q"), seen) == "glad"
    assert told(face("tell P Q result=lost", "show P glad seen Q"), seen) == "sad", "she said herself that she knows"
    assert told(face("tell S Q result=lost", "show P glad seen Q"), seen) == "glad", "Ben cannot tell if she knows it"
    assert told(small("want P result=won", "fact result=lost seen P, Q", "show P glad seen Q"), seen) == "sad"
    assert told(face("show P glad seen R"), seen) == UNKNOWN, "Ben did not see her face"
    assert told(face("show P sad seen Q", "show P glad seen R"), seen) == "sad"
    assert told(face(), seen) == UNKNOWN
    cannot_tell = ask("seen_feeling", "result", "Q", "P", choices=("glad", "sad", UNKNOWN))
    assert told(face("show P glad seen R"), cannot_tell) == UNKNOWN
    assert told(face("show P glad seen Q"), cannot_tell) == "glad"


def test_a_face_shows_what_it_shows_whatever_is_felt() -> None:
    assert told(face("show P sad", "show P glad seen Q"), ask("face", "result", "P", choices=("glad", "sad"))) == "glad"


def test_anger_is_at_whoever_is_believed_to_have_done_it() -> None:
    world = small("fact culprit=Q seen Q", "tell S P culprit=R")
    assert told(world, ask("blame", "culprit", "P")) == "R"
    assert told(world, ask("blame", "culprit", "R")) == UNKNOWN


def test_what_differs_from_the_belief_surprises() -> None:
    choices = ("surprised", "not_surprised")
    assert told(small(*MOVED), ask("surprise", "place", "P", choices=choices)) == "surprised"
    assert told(small(*MOVED), ask("surprise", "place", "Q", choices=choices)) == "not_surprised"
    assert told(small(*MOVED), ask("surprise", "place", "R", choices=choices)) is None, "who believes nothing"


def test_somebody_else_is_thought_to_be_surprised_by_what_one_believes_oneself() -> None:
    choices = ("surprised", "not_surprised")
    world = small(*MOVED, "fact place=x")
    assert told(world, ask("surprise", "place", "P", choices=choices)) == "not_surprised"
    assert told(world, ask("surprise", "place", "Q", "P", choices=choices)) == "surprised"


CAUSES = ("fact_lost", "R_lost", "S_lost", "voice_lost", "fact_won", "R_won")


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (("tell R P result=lost",), "R_lost"),
        (("tell - P result=lost",), "voice_lost"),
        (("fact result=lost", "see P result"), "fact_lost"),
        ((("tell R P result=lost", "tell S Q result=lost"),), "R_lost"),
        (("tell R P result=lost", "tell S P result=lost"), None),
        (("tell R P result=lost", "tell S P result=won"), None),
        (("tell R Q result=lost",), None),
        (("want P result=lost",), None),
        (("want P result=lost", "tell R P result=lost"), None),
    ],
)
def test_a_feeling_is_caused_by_the_only_event_that_bears_on_the_belief(
    lines: tuple[str | tuple[str, ...], ...], cause: str | None
) -> None:
    """What others are told is no cause, nor is what somebody else says as well, nor a change of the wish."""
    world = small("want P result=won", ("scene", "fact result=won seen P, Q"), "scene", *lines)
    assert told(world, ask("feeling_cause", "result", "P", choices=CAUSES)) == cause


def test_an_unknown_kind_of_question_is_named() -> None:
    with pytest.raises(ValueError, match="unknown kind of question 'beliefs'; did you mean 'belief'"):
        told(small(*MOVED), ask("beliefs", "place", "P"))
