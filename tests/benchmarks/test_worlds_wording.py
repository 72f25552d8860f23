"""Sentences from phrasings, in all three persons."""

from __future__ import annotations

import pytest

from tests.helpers.small_worlds import PEOPLE
from tomserve.benchmarks.worlds.wording import expanded, say

WORDS = {
    **{"o": "key", "x": "oboe case", "u": "ukulele", "h": "hourglass", "e": "umbrella", "t": "one-way ticket"},
    "c": "that {P} {P:is|are|am} late",
}


def said(phrasing: str, **how: str | None) -> str:
    return say(phrasing, {"A": "P", "B": "Q"}, PEOPLE, WORDS, **how)


@pytest.mark.parametrize(
    ("phrasing", "third", "second"),
    [
        ("{A} {A:puts|put} {A.his} {o} down.", "Ann puts her key down.", "You put your key down."),
        ("{B} gives {A} {A.his} {o}.", "Ben gives Ann her key.", "Ben gives you your key."),
        (
            "{A's} {o} is safe, {A.he} {A:thinks|think}.",
            "Ann's key is safe, she thinks.",
            "Your key is safe, you think.",
        ),
        ("{B} lets {A} help {A.himself}.", "Ben lets Ann help herself.", "Ben lets you help yourself."),
        ("{B} asks {A.him} for {B.his} {o}.", "Ben asks her for his key.", "Ben asks you for his key."),
        ("It rains. {A} {A:goes|go}.", "It rains. Ann goes.", "It rains. You go."),
        ('"{A} {A:has|have} it!" says {B}.', '"Ann has it!" says Ben.', '"You have it!" says Ben.'),
        ("it is {A}", "it is Ann", "it is you"),
    ],
)
def test_people_are_named_by_slots_in_the_third_and_the_second_person(phrasing: str, third: str, second: str) -> None:
    assert said(phrasing) == third
    assert said(phrasing, second="P") == second


def test_in_the_first_person_a_verb_may_have_a_form_of_its_own() -> None:
    assert said("{A} {A:believes|believe} {A:is|are|am} {A.he}", first="P") == "I believe am I"
    assert said("{c}", first="P") == "that I am late"
    assert said("{c}", second="P") == "that you are late"
    assert said("{c}", second="P", first="P") == "that I am late", "whoever says I is not called you"
    assert said("{A} {A:does|do} it {A.himself} for {A.him}", first="P") == "I do it myself for me"


def test_another_person_is_called_by_name() -> None:
    assert said("{A} {A:sees|see} {B's} {o}.", second="Q") == "Ann sees your key."


def test_the_indefinite_article_goes_by_the_sound() -> None:
    assert said("A {x}, a {u}, a {h}, a {e} and a {t}.") == (
        "An oboe case, a ukulele, an hourglass, an umbrella and a one-way ticket."
    )


@pytest.mark.parametrize(
    ("phrasing", "reason"),
    [
        ("{A} has the {w}.", "nothing to fill {w}"),
        ("{o.his} lid", "nothing to fill {o.his}"),
        ("{o:is|are} shut", r"nothing to fill {o:is\|are}"),
        ("{A.she} goes.", "{A.she} is no pronoun; known: he, him, his, himself"),
    ],
)
def test_slots_that_nothing_fills_are_named(phrasing: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        said(phrasing)


@pytest.mark.parametrize(
    ("phrasing", "count"),
    [
        ("{A} goes.", 1),
        ("({A} goes|{A} {A:leaves|leave}) (now|today|at once).", 6),
        ("{A} goes (slowly).", 1),
        ("(In the end |){A} {A:goes|go}.", 2),
        ("{A} ({A:sees|see}) it.", 1),
    ],
)
def test_alternatives_are_written_out(phrasing: str, count: int) -> None:
    found = expanded(phrasing)
    assert len(set(found)) == count
    assert all(text.count("{") == text.count("}") and "  " not in text for text in found)


def test_alternatives_leave_the_forms_of_a_verb_together() -> None:
    assert expanded("({A:goes|go}|{A:leaves|leave}) now") == ("{A:goes|go} now", "{A:leaves|leave} now")
