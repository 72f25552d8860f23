"""Events of worlds: what each kind changes, for whom, and what cannot be read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tomserve.benchmarks.worlds.events import Event, Happened, parse, read

FACTS = {"place": ("x", "y"), "mood": ("m", "n")}


def happened(*lines: str | Sequence[str]) -> Happened:
    return read([[line] if isinstance(line, str) else line for line in lines], FACTS, "PQRS")


def chain(story: Happened, *who: str) -> list[str]:
    return story.traces["place"].chain(who)


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("fact place=x", Event("fact", fact="place", value="x")),
        ("fact place=x seen P, Q", Event("fact", people=("P", "Q"), fact="place", value="x")),
        ("fact place=x seen P,Q", Event("fact", people=("P", "Q"), fact="place", value="x")),
        ("see P, Q place", Event("see", people=("P", "Q"), fact="place")),
        ("alone P place", Event("alone", people=("P",), fact="place")),
        ("tell S P, Q place=x", Event("tell", actor="S", people=("P", "Q"), fact="place", value="x")),
        ("tell - P place=x", Event("tell", people=("P",), fact="place", value="x")),
        ("distrust P, Q S", Event("distrust", actor="S", people=("P", "Q"))),
        ("want P place=x", Event("want", people=("P",), fact="place", value="x")),
        ("seek P, Q place", Event("seek", people=("P", "Q"), fact="place")),
        ("act P go", Event("act", actor="P", value="go")),
        ("show P glad seen Q", Event("show", actor="P", people=("Q",), value="glad")),
    ],
)
def test_every_form_is_read(text: str, event: Event) -> None:
    assert parse(text) == event


def test_a_fact_is_known_to_those_who_see_it_and_to_them_of_one_another() -> None:
    story = happened("fact place=x seen P, Q", "fact place=y seen Q")
    assert chain(story) == ["x", "y"]
    assert chain(story, "P") == ["x", "x"]
    assert chain(story, "Q") == ["x", "y"]
    assert chain(story, "Q", "P") == chain(story, "P", "Q") == ["x", "x"]
    assert chain(story, "R") == ["unknown", "unknown"]


def test_who_looks_together_knows_it_of_one_another_and_who_looks_alone_does_not() -> None:
    story = happened("fact place=x", "see P, Q place", "alone R, S place")
    assert chain(story, "P", "Q")[-1] == chain(story, "R")[-1] == chain(story, "S")[-1] == "x"
    assert chain(story, "R", "S")[-1] == chain(story, "P", "R")[-1] == chain(story, "R", "P")[-1] == "unknown"
    assert chain(happened("see P place"), "P") == ["unknown"]


def test_a_saying_is_believed_and_the_speaker_expects_that_and_keeps_to_what_they_know() -> None:
    story = happened("fact place=x seen Q", "tell Q P, R place=y")
    assert chain(story)[-1] == chain(story, "Q")[-1] == "x"
    assert [chain(story, *who)[-1] for who in ("P", "R", "PQ", "QP", "QR")] == ["y"] * 5
    assert [chain(story, *who)[-1] for who in ("PR", "RP", "S", "SP", "PQR", "QPR")] == ["unknown"] * 6


def test_whoever_is_distrusted_says_it_in_vain_from_then_on() -> None:
    story = happened("tell Q P place=x", "distrust P Q", "tell Q P, R place=y", "tell S P mood=m")
    assert chain(story, "P") == ["x", "x", "x", "x"]
    assert chain(story, "R")[-1] == chain(story, "Q", "P")[-1] == "y"
    assert story.traces["mood"].chain(("P",))[-1] == "m"


def test_a_voice_without_a_name_is_heard() -> None:
    assert chain(happened("tell - P place=y"), "P") == ["y"]


def test_later_events_of_a_line_come_after_earlier_ones() -> None:
    assert chain(happened(["fact place=x seen P", "tell Q P place=y"]), "P") == ["y"]


def test_wishes_acts_and_faces_are_kept_with_their_lines() -> None:
    story = happened("want P, Q place=x", ["seek P place", "act P go"], "show P sad seen Q", "act P stay")
    assert story.wanted("P", "place", 0) == story.wanted("Q", "place") == "x"
    assert story.wanted("P", "place") == ""
    assert story.wanted("P", "mood") is story.wanted("R", "place") is None
    assert [act for _, act in story.acts["P"]] == ["go", "stay"]
    assert [(shown[0], shown[1]) for shown in story.shown["P"]] == [(2, "sad")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("move place=x", "line 2: event 'move place=x': unknown verb 'move'; known: fact, see, alone, tell"),
        ("fact place", "line 2: event 'fact place': does not fit the form of 'fact'"),
        ("fact place=x seen", "does not fit the form of 'fact'"),
        ("tell P place=x", "does not fit the form of 'tell'"),
        ("fact place=x seen T", "line 2: event 'fact place=x seen T' names 'T', who is nobody of this world"),
        ("tell T P place=x", "line 2: event 'tell T P place=x' names 'T'"),
        ("fact weather=x", "line 2: event 'fact weather=x': unknown fact; known: place, mood"),
        ("fact place=m", "line 2: event 'fact place=m': unknown value; known: x, y"),
        ("want P place=m", "unknown value; known: x, y"),
    ],
)
def test_mistakes_are_named_by_line(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        happened("fact place=x seen P", text)
