"""Sentences and questions of Hi-ToM: read and written exactly, refused where they cannot be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.hitom_stories import stories
from tomserve.benchmarks.hitom.events import (
    VERBS,
    Claim,
    Distractor,
    Enter,
    Exit,
    Move,
    Place,
    Stay,
    Story,
    Tell,
    parse_sentence,
)
from tomserve.benchmarks.hitom.questions import read_question, write_question

SENTENCES = {
    "Ada entered the den.": Enter(("Ada",), "den"),
    "Ada and Bo entered the den.": Enter(("Ada", "Bo"), "den"),
    "Ada, Bo and Cleo entered the waiting_room.": Enter(("Ada", "Bo", "Cleo"), "waiting_room"),
    "The sweet_pea is in the red_treasure_box.": Place("sweet_pea", "red_treasure_box"),
    "Ada moved the pen to the red_box.": Move("Ada", "pen", "red_box"),
    "Ada made no movements and stayed in the den for 1 minute.": Stay("Ada", "den"),
    "Ada exited the den.": Exit("Ada", "den"),
    "Ada publicly claimed that pen is in the red_box.": Claim("Ada", "pen", "red_box"),
    "Ada publicly claimed that the pen is in the red_box.": Claim("Ada", "pen", "red_box", the=True),
    "Ada publicly claimed that pen is in the red_box now.": Claim("Ada", "pen", "red_box", now=True),
    "Ada privately told Bo that the pen is in the red_box.": Tell("Ada", "Bo", "pen", "red_box"),
    "Ada privately told Bo that the pen is in the red_box now.": Tell("Ada", "Bo", "pen", "red_box", now=True),
    "Ada saw an owl.": Distractor("Ada", "saw an", "owl"),
    "Ada lost his keys.": Distractor("Ada", "lost his", "keys"),
    "Ada dislikes the red_box.": Distractor("Ada", "dislikes the", "red_box"),
}


@pytest.mark.parametrize("text", SENTENCES)
def test_every_form_is_read_and_written_back(text: str) -> None:
    assert parse_sentence(text) == SENTENCES[text]
    assert SENTENCES[text].text() == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Ada, Bo entered the den.",
        "Ada and Bo and Cleo entered the den.",
        "Ada moved the pen to red_box.",
        "Ada exited the den",
        "1 Ada exited the den.",
        "Ada exited the den. ",
        "Ada moved the pen to the red_box. Bo exited the den.",
        "The pen is in the red_box now.",
        "Ada publicly told Bo that the pen is in the red_box.",
        "Ada ate a cake.",
        "Ada exited the den.\n",
    ],
)
def test_what_is_no_sentence_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="unknown sentence") as caught:
        parse_sentence(text)
    assert repr(text) in str(caught.value)
    assert "expected '<A>, <B> and <C> entered" in str(caught.value)


@given(stories())
def test_stories_are_read_back(story: Story) -> None:
    again = Story.parse(story.sentences())
    assert again == story
    assert [type(event) for event in again.events] == [type(event) for event in story.events]


@given(
    st.lists(st.from_regex(r"[A-Z][a-z]{1,8}", fullmatch=True), min_size=1, max_size=8, unique=True),
    st.from_regex(r"[a-z]{2,8}(_[a-z]{2,8})?", fullmatch=True),
    st.sampled_from(VERBS),
)
def test_any_names_are_read_back(names: list[str], word: str, verb: str) -> None:
    for event in (Enter(tuple(names), word), Distractor(names[0], verb, word), Exit(names[0], word)):
        assert parse_sentence(event.text()) == event
    for order in range(len(names) + 1):
        asked = tuple(names[:order])
        assert read_question(write_question(asked, word)) == (asked, word)


def test_questions_have_the_released_words() -> None:
    assert write_question((), "pen") == "Where is the pen really?"
    assert write_question(("Ada",), "pen") == "Where does Ada really think the pen is?"
    assert write_question(("Ada", "Bo", "Cy"), "pen") == "Where does Ada think Bo thinks Cy thinks the pen is?"


@pytest.mark.parametrize(
    "text",
    [
        "Where is the pen?",
        "Where does Ada think the pen is?",
        "Where does Ada really think Bo thinks the pen is?",
        "Where does Ada think Bo think the pen is?",
        "Who has the pen?",
    ],
)
def test_what_is_no_question_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="unknown question"):
        read_question(text)


def test_who_is_where() -> None:
    story = Story.parse(
        [
            "Ada and Bo entered the den.",
            "The pen is in the red_box.",
            "Bo exited the den.",
            "Bo entered the waiting_room.",
            "Ada and Bo entered the loft.",
            "The cup is in the old_tin.",
        ]
    )
    assert story.presence()[1:4] == [{"Ada": "den", "Bo": "den"}, {"Ada": "den"}, {"Ada": "den", "Bo": "waiting_room"}]
    assert story.rooms()[-1] == {"pen": "den", "cup": "loft"}
    assert story.agents == ("Ada", "Bo")
    assert story.objects == ("pen", "cup")


def test_coming_back_into_a_room_is_noticed() -> None:
    base = ["Ada entered the den.", "Ada exited the den.", "Ada entered the waiting_room."]
    assert Story.parse([*base, "Ada entered the den."]).reentered
    assert not Story.parse([*base, "Ada exited the waiting_room.", "Ada entered the waiting_room."]).reentered
    assert not Story.parse([*base, "Bo entered the den."]).reentered


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("Ada exited the loft.", "Ada is in the den"),
        ("Bo exited the den.", "Bo is in no room"),
        ("Ada made no movements and stayed in the loft for 1 minute.", "Ada is in the den"),
        ("Ada moved the cup to the red_box.", "'cup' has not been placed"),
        ("Bo moved the pen to the red_box.", "Bo is in no room, the pen in the den"),
        ("Ada privately told Ada that the pen is in the red_box.", "nobody tells himself"),
        ("Ada privately told Cleo that the pen is in the red_box.", "Cleo has not entered"),
        ("Cleo publicly claimed that pen is in the red_box.", "Cleo has not entered"),
        ("Ada publicly claimed that cup is in the red_box.", "'cup' has not been placed"),
        ("Ada and Ada entered the den.", "named twice"),
    ],
)
def test_what_cannot_happen_is_refused(sentence: str, reason: str) -> None:
    story = Story.parse(["Ada and Bo entered the den.", "The pen is in the red_box.", "Bo exited the den.", sentence])
    with pytest.raises(ValueError, match="sentence 4: ") as caught:
        story.check()
    assert reason in str(caught.value)


def test_an_object_needs_a_room() -> None:
    with pytest.raises(ValueError, match=r"sentence 1: .*no room has been entered"):
        Story.parse(["The pen is in the red_box."]).check()
