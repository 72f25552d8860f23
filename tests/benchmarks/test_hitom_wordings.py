"""Other wordings of Hi-ToM sentences and questions: each says the same, and is read back exactly."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.hitom_stories import stories
from tomserve.benchmarks.hitom.events import (
    VERBS,
    Claim,
    Distractor,
    Enter,
    Event,
    Exit,
    Move,
    Place,
    Stay,
    Story,
    Tell,
    parse_sentence,
)
from tomserve.benchmarks.hitom.questions import write_question
from tomserve.benchmarks.hitom.wordings import ASKED, OTHER, SHORT, read_asked, read_story, sort_of, write, write_asked
from tomserve.prompting.people import asked_about

FRAME = ("Ada and Bo entered the den.", "The pen is in the old_tin.")
EVENTS: list[Event] = [
    Enter(("Ada",), "den"),
    Enter(("Ada", "Bo", "Cleo"), "waiting_room"),
    Place("sweet_pea", "red_treasure_box"),
    Move("Ada", "pen", "red_box"),
    Stay("Ada", "den"),
    Exit("Ada", "den"),
    *(Claim("Ada", "pen", "red_box", the, now) for the in (False, True) for now in (False, True)),
    *(Tell("Ada", "Bo", "pen", "red_box", now) for now in (False, True)),
    *(Distractor("Ada", verb, "owl") for verb in VERBS),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.text())
def test_every_sentence_has_two_other_wordings_which_are_read_back(event: Event) -> None:
    texts = {write(event, wording) for wording in OTHER[sort_of(event)]}
    assert len(texts | {event.text()}) >= 3
    short = SHORT.get(sort_of(event))
    for text in [*texts, *([write(event, short)] if short else [])]:
        assert read_story([*FRAME, text]).events[-1] == event
        with pytest.raises(ValueError, match="unknown sentence"):
            parse_sentence(text)  # the released file is read as strictly as before


def test_what_is_said_before_all_and_to_one_stays_so() -> None:
    for sort, word in (("claim", "public"), ("tell", "private")):
        assert all(word in wording.template.lower() for wording in (*OTHER[sort], SHORT[sort]))


def test_short_wordings_have_fewer_words() -> None:
    for event in EVENTS:
        if (short := SHORT.get(sort_of(event))) is not None:
            assert len(write(event, short).split()) < len(event.text().split()), event


@given(stories(), st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_a_story_in_mixed_wordings_is_the_same_story(story: Story, pick: random.Random) -> None:
    told = []
    for event in story.events:
        ways = [event.text(), *(write(event, wording) for wording in OTHER[sort_of(event)])]
        if sort_of(event) in SHORT:
            ways.append(write(event, SHORT[sort_of(event)]))
        told.append(pick.choice(ways))
    assert read_story(told) == story


@pytest.mark.parametrize(
    "text",
    ["Ada ate a cake.", "Ada put the pen in the red_box.", "Ada left", "Cleo left.", "Cleo stayed.", "", "Ada left.\n"],
)
def test_what_no_table_knows_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"sentence 3: unknown sentence .*expected '<A>, <B> and <C> entered"):
        read_story([*FRAME, text])


@given(st.lists(st.sampled_from(["Ada", "Bo", "Cleo", "Dov", "Zoë", "O'Neil"]), max_size=5, unique=True))
def test_questions_in_other_words_ask_about_the_same_minds(asked: list[str]) -> None:
    texts = {
        write_question(asked, "sweet_pea"),
        *(write_asked(asked, "sweet_pea", wording) for wording in range(ASKED)),
    }
    assert len(texts) == ASKED + 1
    for text in texts:
        assert read_asked(text) == (tuple(asked), "sweet_pea")
        assert asked_about(text) == tuple(asked)


@pytest.mark.parametrize(
    "text",
    [
        "Where does Ada believe that Bo thinks that the pen is?",
        "Where does Ada believes that the pen is?",
        "In which container does Ada believe that the pen is?",
        "Where is the pen?",
        "Where is the pen in reality? Now?",
    ],
)
def test_what_is_no_question_of_either_wording_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="unknown question"):
        read_asked(text)
