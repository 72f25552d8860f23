"""The events and the rules of worlds, each by a case that is worked out by hand, and what a record refuses."""

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from tests.helpers.small_worlds import PEOPLE, WORDS, ask, small, told
from tomserve.benchmarks.worlds import rules
from tomserve.benchmarks.worlds.families import FAMILIES
from tomserve.benchmarks.worlds.lexicon import built_in
from tomserve.benchmarks.worlds.record import World
from tomserve.benchmarks.worlds.rules import Event, WorldHistory, parse, read_events
from tomserve.items import UNKNOWN


def happened(*lines: str | Sequence[str]) -> WorldHistory:
    facts = {"place": ("x", "y"), "mood": ("m", "n")}
    return read_events([[line] if isinstance(line, str) else line for line in lines], facts, "PQRS")


def chain(story: WorldHistory, *who: str) -> list[str]:
    return story.traces["place"].chain(who)


def test_every_form_is_read() -> None:
    fact = {"fact": "place", "value": "x"}
    for text, event in {
        "fact place=x": Event("fact", **fact),
        "fact place=x seen P,Q": Event("fact", people=("P", "Q"), **fact),
        "see P, Q place": Event("see", people=("P", "Q"), fact="place"),
        "tell S P, Q place=x": Event("tell", actor="S", people=("P", "Q"), **fact),
        "tell - P place=x": Event("tell", people=("P",), **fact),
        "distrust P, Q S": Event("distrust", actor="S", people=("P", "Q")),
        "act P go": Event("act", actor="P", value="go"),
        "show P glad seen Q": Event("show", actor="P", people=("Q",), value="glad"),
    }.items():
        assert parse(text) == event


def test_who_comes_to_know_what() -> None:
    story = happened("fact place=x seen P, Q", "fact place=y seen Q")
    assert ["".join(chain(story, *who)) for who in ("", "P", "Q", "QP", "PQ")] == ["xy", "xx", "xy", "xx", "xx"]
    assert chain(story, "R") == ["unknown", "unknown"]
    story = happened("fact place=x", "see P, Q place", "alone R, S place")  # together it is known of one another
    assert [chain(story, *who)[-1] for who in ("PQ", "R", "S")] == ["x"] * 3
    assert [chain(story, *who)[-1] for who in ("RS", "PR", "RP")] == ["unknown"] * 3
    assert chain(happened("see P place"), "P") == ["unknown"]
    story = happened("fact place=x seen Q", "tell Q P, R place=y")  # the speaker expects belief, and knows better
    assert chain(story)[-1] == chain(story, "Q")[-1] == "x"
    assert [chain(story, *who)[-1] for who in ("P", "R", "PQ", "QP", "QR")] == ["y"] * 5
    assert [chain(story, *who)[-1] for who in ("PR", "RP", "S", "SP", "PQR", "QPR")] == ["unknown"] * 6
    story = happened("tell Q P place=x", "distrust P Q", "tell Q P, R place=y", "tell S P mood=m")
    assert chain(story, "P") == ["x", "x", "x", "x"]
    assert chain(story, "R")[-1] == chain(story, "Q", "P")[-1] == "y"
    assert story.traces["mood"].chain(("P",))[-1] == "m"
    assert chain(happened("tell - P place=y"), "P") == ["y"], "a voice without a name is heard"
    assert chain(happened(["fact place=x seen P", "tell Q P place=y"]), "P") == ["y"], "later ones of a line come later"
    story = happened("want P, Q place=x", ["seek P place", "act P go"], "show P sad seen Q", "act P stay")
    assert story.find_wish("P", "place", 0) == story.find_wish("Q", "place") == "x"
    assert story.find_wish("P", "place") == ""
    assert story.find_wish("P", "mood") is story.find_wish("R", "place") is None
    assert [act for _, act in story.acts["P"]] == ["go", "stay"]
    assert [(shown[0], shown[1]) for shown in story.shown["P"]] == [(2, "sad")]


MISTAKES = [
    ("move place=x", "line 2: event 'move place=x': unknown verb 'move'; known: fact, see, alone, tell"),
    ("fact place", "line 2: event 'fact place': does not fit the form of 'fact'"),
    ("fact place=x seen T", "line 2: event 'fact place=x seen T' names 'T', who is nobody of this world"),
    ("fact weather=x", "line 2: event 'fact weather=x': unknown fact; known: place, mood"),
]


@pytest.mark.parametrize(("text", "reason"), MISTAKES)
def test_mistakes_are_named_by_line(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        happened("fact place=x seen P", text)


MOVED = ("fact place=x seen P, Q", "fact place=y seen Q")
"""Ben moves the key from the drawer to the basket while Ann is away."""


def right(
    lines: Sequence[str | Sequence[str]], kind: str, fact: str, *who: str, choices: Sequence[str] = (), **more: Any
) -> str | None:
    return told(small(*lines), ask(kind, fact, *who, choices=choices, **more))


def test_reality_and_beliefs_are_what_was_so_or_seen_last() -> None:
    assert right(MOVED, "reality", "place") == "y"
    assert right(["want P place=x"], "reality", "place") == UNKNOWN
    assert [right(MOVED, "belief", "place", *who) for who in ("P", "Q", "QP", "R")] == ["x", "y", "x", UNKNOWN]
    assert right(MOVED, "belief", "place", "Q", at=0) == told(small(*MOVED), ask("belief", "place", "Q"), at=0) == "x"
    assert right(MOVED, "belief", "place", "P", choices=("y", "z")) is None, "an answer that is no choice is none"
    assert rules.answers(small(*MOVED), ask("belief", "place", "Q")) == ["x", "y"]
    assert rules.answers(small(*MOVED), ask("action", "place", "P", choices=("open_x", "open_y"))) is None
    with pytest.raises(ValueError, match="unknown kind of question 'beliefs'; did you mean 'belief'"):
        right(MOVED, "beliefs", "place", "P")


WON, LOST = (("want P result=won", f"fact result={value} seen P") for value in ("won", "lost"))
SHOWN = ("want P result=won", "show P glad seen Q")
SOUGHT = (*MOVED, "seek P, R place")
TURNED = (("scene", *WON), ("scene", "tell Q P result=lost"))
"""In the second scene Ann is told that the contrary of what she wants has come about."""
SETTLED: list[tuple[str, Sequence[str | Sequence[str]], str, str, str]] = [
    ("reality", MOVED, "place", "", "y"),
    ("belief", MOVED, "place", "QP", "x"),
    ("desire", WON, "result", "P", "won"),
    ("intention", SOUGHT, "place", "P", "open_x"),
    ("action", SOUGHT, "place", "R", UNKNOWN),
    ("action", LOST, "result", "P", "leave"),
    ("belief_from_act", ("seek P place", "act P open_y"), "place", "P", "y"),
    ("desire_from_act", ("fact result=won seen P", "act P wait"), "result", "P", "won"),
    ("feeling", WON, "result", "P", "glad"),
    ("feeling", (*LOST, "fact result=won seen P"), "result", "P", "relieved"),
    ("feeling", (*WON, "fact result=lost seen P"), "result", "P", "disappointed"),
    ("feeling", ("want P result=won", "fact result=won seen Q"), "result", "P", "indifferent"),
    ("seen_feeling", (SHOWN[0], "fact result=lost seen P, Q", SHOWN[1]), "result", "QP", "sad"),
    ("seen_feeling", SHOWN, "result", "QP", "glad"),
    ("seen_feeling", SHOWN, "result", "RP", UNKNOWN),
    ("face", ("show P glad", "show P sad"), "result", "P", "sad"),
    ("blame", ("fact culprit=Q seen P",), "culprit", "P", "Q"),
    ("surprise", MOVED, "place", "P", "surprised"),
    ("surprise", MOVED, "place", "QP", "surprised"),
    ("surprise", MOVED, "place", "Q", "not_surprised"),
    ("feeling_about", LOST, "result", "P", "sad_lost"),
    ("reply_about", LOST, "result", "P", "mismatch_lost"),
    ("belief_then_feeling", WON, "result", "P", "won_glad"),
    ("belief_then_reply", WON, "result", "P", "won_match"),
    ("belief_since", TURNED, "result", "P", "won_lost"),
    ("feeling_since", TURNED, "result", "P", "glad_sad"),
    ("reply_since", TURNED, "result", "P", "match_mismatch"),
    ("belief_course", TURNED, "result", "P", "won_lost"),
    ("feeling_course", TURNED, "result", "P", "glad_sad"),
    ("belief_cause", TURNED, "result", "P", "Q_lost"),
    ("feeling_cause", (TURNED[0], ("scene", "fact result=lost seen P")), "result", "P", "fact_lost"),
]
"""Kinds of questions, what happens, the fact and the people asked about, and the answer that the rules give by hand."""


def test_every_kind_of_question_has_the_answer_that_is_worked_out_by_hand() -> None:
    assert {kind for kind, *_ in SETTLED} == set(rules.KINDS)
    for kind, lines, fact, who, answer in SETTLED:
        assert right(lines, kind, fact, *who, choices=(answer, "another")) == answer, (kind, lines)
    ahead = small(*LOST, prospects=("result",))
    assert told(ahead, ask("feeling", "result", "P", choices=("afraid", "hopeful"))) == "afraid"
    both = (TURNED[0], (*TURNED[1], "fact result=lost seen P"))
    assert right(both, "belief_cause", "result", "P", choices=("Q_lost", "fact_lost")) is None, "two events bear on it"


def test_a_record_comes_back_from_json_as_it_was_without_default_values() -> None:
    for family in FAMILIES:
        for scenario in family.scenarios:
            world = family.world(built_in(), f"{family.name}-9-0001", scenario)
            assert World.model_validate(orjson.loads(orjson.dumps(world.to_dict()))) == world
    written = small("fact place=x seen P").to_dict()
    assert written["scenes"] == [{"role": "any", "events": ["fact place=x seen P"]}]
    assert not {"questions", "second", "prospects", "design"} & set(written)
    assert (PEOPLE["P"].pronouns["himself"], PEOPLE["Q"].pronouns["his"]) == ("herself", "his")


REFUSED = [
    ({"words": WORDS | {"P": "park"}}, "the key 'P' is both a person's and a word's"),
    ({"plans": {"place": {"x": "run"}}}, "the plan for 'place' has the act 'run', which is no word"),
    ({"questions": (ask("belief", "place", "P", choices=("x", "x")),)}, "a question offers a choice twice"),
    ({"questions": (ask("belief", "place", "P", at=3),)}, "a question is about line 4; there are 1"),
]


@pytest.mark.parametrize(("changed", "reason"), REFUSED)
def test_mistakes_in_a_record_are_refused(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        small("fact place=x seen P", **changed)
