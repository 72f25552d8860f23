"""Sentences and questions of Hi-ToM in all their wordings: read and written exactly, refused where they cannot be.
Nested beliefs: settled points one by one, then what must hold of every story."""

import random
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.hitom_stories import AGENTS, stories
from tomserve.benchmarks.hitom.events import (
    QUESTION_WORDINGS,
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
    other_wordings,
    read_any_question,
    read_question,
    read_story,
    short_wordings,
    write_question,
)
from tomserve.benchmarks.hitom.tracker import SEMANTICS, Semantics, trace
from tomserve.prompting.persons import find_people

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
    **{f"Ada {verb} owl.": Distractor("Ada", verb, "owl") for verb in VERBS},
}
FRAME = ("Ada and Bo entered the den.", "The pen is in the old_tin.")


def test_every_form_is_read_and_written_back_and_has_other_wordings() -> None:
    for text, event in SENTENCES.items():
        assert (Story.parse([text]).events, event.text()) == ((event,), text)
        sort = event.sort
        texts = {event.text(wording) for wording in other_wordings()[sort]}
        assert len(texts | {text}) >= 3
        if sort in short_wordings():
            texts.add(short := event.text(short_wordings()[sort]))
            assert len(short.split()) < len(text.split()), event
        for other in texts:
            assert read_story([*FRAME, other]).events[-1] == event
            with pytest.raises(ValueError, match="unknown sentence"):
                Story.parse([other])  # the released file is read as strictly as before
    for sort, word in (("claim", "public"), ("tell", "private")):
        assert all(word in wording.template.lower() for wording in (*other_wordings()[sort], short_wordings()[sort]))


WRONG = ["", "Ada, Bo entered the den.", "Ada and Bo and Cleo entered the den.", "Ada moved the pen to red_box."]
WRONG += ["Ada exited the den", "1 Ada exited the den.", "Ada publicly told Bo that the pen is in the red_box."]
OTHERWISE = ["Ada put the pen in the red_box.", "Ada left", "Cleo left.", "Cleo stayed."]


@pytest.mark.parametrize("text", [*WRONG, *OTHERWISE])
def test_what_is_no_sentence_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"unknown sentence .*expected '<A>, <B> and <C> entered") as caught:
        Story.parse([text]) if text in WRONG else read_story([*FRAME, text])
    assert repr(text) in str(caught.value)
    if text in OTHERWISE:
        with pytest.raises(ValueError, match=r"sentence 3: unknown sentence"):
            read_story([*FRAME, text])


@given(stories(), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_stories_are_read_back_also_in_mixed_wordings(story: Story, pick: random.Random) -> None:
    again = Story.parse(story.sentences())
    assert again == story
    assert [type(event) for event in again.events] == [type(event) for event in story.events]
    told = []
    for event in story.events:
        wordings = [None, *other_wordings()[event.sort], short_wordings().get(event.sort)]
        told.append(event.text(pick.choice(wordings)))
    assert read_story(told) == story


NAMES = st.from_regex(r"[A-Z][a-z]{1,8}", fullmatch=True) | st.sampled_from(["Zoë", "O'Neil"])


@given(st.lists(NAMES, min_size=1, max_size=6, unique=True), st.from_regex(r"[a-z]{2,8}(_[a-z]{2,8})?", fullmatch=True))
@settings(max_examples=40)
def test_any_names_are_read_back_and_all_wordings_ask_about_the_same_minds(names: list[str], word: str) -> None:
    if all(name.isalpha() and name.isascii() for name in names):
        for event in (Enter(tuple(names), word), Distractor(names[0], VERBS[0], word), Exit(names[0], word)):
            assert Story.parse([event.text()]).events == (event,)
    for order in range(len(names) + 1):
        asked = tuple(names[:order])
        texts = {
            write_question(asked, word),
            *(write_question(asked, word, wording) for wording in range(QUESTION_WORDINGS)),
        }
        assert len(texts) == QUESTION_WORDINGS + 1
        assert {read_any_question(text) for text in texts} == {(asked, word)}
        assert {find_people(text) for text in texts} == {asked}
        assert read_question(write_question(asked, word)) == (asked, word)


def test_questions_have_the_released_words() -> None:
    assert write_question((), "pen") == "Where is the pen really?"
    assert write_question(("Ada",), "pen") == "Where does Ada really think the pen is?"
    assert write_question(("Ada", "Bo", "Cy"), "pen") == "Where does Ada think Bo thinks Cy thinks the pen is?"
    for text in ("Where is the pen?", "Where does Ada think the pen is?", "Where does Ada think Bo think the pen is?"):
        for read in (read_question, read_any_question):
            with pytest.raises(ValueError, match="unknown question"):
                read(text)


def test_who_is_where() -> None:
    lines = ("Bo exited the den.", "Bo entered the waiting_room.", "Ada and Bo entered the loft.")
    story = Story.parse([FRAME[0], "The pen is in the red_box.", *lines, "The cup is in the old_tin."])
    assert story.presence()[1:4] == [{"Ada": "den", "Bo": "den"}, {"Ada": "den"}, {"Ada": "den", "Bo": "waiting_room"}]
    assert story.rooms()[-1] == {"pen": "den", "cup": "loft"}
    base = ["Ada entered the den.", "Ada exited the den.", "Ada entered the waiting_room."]
    assert Story.parse([*base, "Ada entered the den."]).reentered
    assert not Story.parse([*base, "Ada exited the waiting_room.", "Ada entered the waiting_room."]).reentered
    assert not Story.parse([*base, "Bo entered the den."]).reentered


CANNOT = [
    ("Ada exited the loft.", "Ada is in the den"),
    ("Bo exited the den.", "Bo is in no room"),
    ("Ada made no movements and stayed in the loft for 1 minute.", "Ada is in the den"),
    ("Bo moved the pen to the red_box.", "Bo is in no room, the pen in the den"),
]


@pytest.mark.parametrize(("sentence", "reason"), CANNOT)
def test_what_cannot_happen_is_refused(sentence: str, reason: str) -> None:
    story = Story.parse([FRAME[0], "The pen is in the red_box.", "Bo exited the den.", sentence])
    with pytest.raises(ValueError, match=f"sentence 4: .*{reason}"):
        story.check()
    with pytest.raises(ValueError, match=r"sentence 1: .*no room has been entered"):
        Story.parse(["The pen is in the red_box."]).check()


def story(*sentences: str) -> Story:
    found = Story.parse(sentences)
    found.check()
    return found


LEFT = (  # Ada leaves, then Bo, then Cleo; the pen was moved in between
    "Ada, Bo and Cleo entered the den.",
    "The pen is in the red_box.",
    "Ada exited the den.",
    "Bo moved the pen to the blue_box.",
    "Bo exited the den.",
    "Cleo moved the pen to the old_tin.",
    "Cleo exited the den.",
    "Ada, Bo and Cleo entered the waiting_room.",
)


def test_the_deciding_sentence() -> None:
    told = trace(story(*LEFT, "Bo privately told Ada that the pen is in the new_tin.", "Bo entered the den."), "pen")
    assert told.deciding_line() == 5
    assert told.deciding_line(("Ada",)) == 8
    assert told.deciding_line(("Bo",)) == 9
    assert told.deciding_line(("Ada", "Cleo")) == 1


TOLD = {  # by Bo to Ada, who left before him, and by Ada to Bo: what is believed by A, B, A of B, B of A, C of A
    "released": ("new_tin blue_box new_tin new_tin red_box", "red_box blue_box new_tin red_box red_box"),
    "common_knowledge": ("new_tin blue_box red_box new_tin red_box", "red_box blue_box red_box red_box red_box"),
}


@pytest.mark.parametrize("name", SEMANTICS)
def test_who_left_later_is_believed_and_the_speaker_thinks_so(name: Semantics) -> None:
    for (speaker, hearer), expected in zip((("Bo", "Ada"), ("Ada", "Bo")), TOLD[name], strict=True):
        told = trace(story(*LEFT, f"{speaker} privately told {hearer} that the pen is in the new_tin."), "pen")
        chains = (("Ada",), ("Bo",), ("Ada", "Bo"), ("Bo", "Ada"), ("Cleo", "Ada"))
        assert " ".join(told.belief(who, name) for who in chains) == expected


def test_who_goes_elsewhere_without_a_sentence_that_says_so_has_left() -> None:
    gone = ("Ada and Bo entered the den.", "The pen is in the red_box.", "Ada entered the waiting_room.")
    assert trace(story(*gone, "Bo moved the pen to the blue_box."), "pen").belief(("Ada",)) == "red_box"
    told = story(*gone, "Bo exited the den.", "Bo privately told Ada that the pen is in the new_tin.")
    assert trace(told, "pen").belief(("Ada",)) == "new_tin", "he left later"


def test_orders_above_four_and_many_agents() -> None:
    names = ("Ada", "Bo", "Cy", "Dov", "Eve", "Flo", "Gus", "Hal")
    events: list[Event] = [Enter(names, "den"), Place("pen", "b0")]
    for number, name in enumerate(names, 1):
        events += [Move(name, "pen", f"b{number}"), Exit(name, "den")]
    found = Story((*events, Claim("Hal", "pen", "lie")))
    assert trace(found, "pen").belief(names[1:7]) == "b2"  # order 6: what Bo, first to leave, saw last
    assert trace(found, "pen").belief(names[1:7], "common_knowledge") == "lie"
    assert trace(found, "pen").belief(names) == "b1"


@pytest.mark.parametrize("name", SEMANTICS)
def test_who_enters_sees_what_lies_there_and_nobody_is_asked_about_twice(name: Semantics) -> None:
    back = story(*LEFT, "Ada and Bo entered the den.", "The cup is in the new_tin.")
    assert trace(back, "pen").chain(("Ada", "Bo"), name)[-3:] == ["red_box", "old_tin", "old_tin"]
    assert trace(back, "pen").belief(("Ada", "Cleo"), name) == "red_box"
    with pytest.raises(ValueError, match="asked about twice in Ada > Bo > Ada"):
        trace(story(*LEFT), "pen").belief(("Ada", "Bo", "Ada"), name)
    with pytest.raises(ValueError, match="unknown semantics 'relased'; did you mean 'released'"):
        trace(story(*LEFT), "pen").belief((), "relased")  # type: ignore[arg-type]


@given(stories(tells=False), st.sampled_from(SEMANTICS), st.permutations(AGENTS), st.integers(1, 5))
@settings(max_examples=25)
def test_without_tells_the_order_of_nesting_makes_no_difference(
    found: Story, name: Semantics, order: list[str], n: int
) -> None:
    told = trace(found, "pen")
    assert len({told.belief(who, name) for who in permutations(order[:n])}) == 1
    puts = [e.container for e in found.events if isinstance(e, Move | Place) and e.object == "pen"]
    assert told.belief(()) == (puts[-1] if puts else "unknown")
