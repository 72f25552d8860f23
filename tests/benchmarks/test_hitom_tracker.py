"""Nested beliefs: settled points one by one, then what must hold of every story, then two other implementations."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.hitom_stories import AGENTS, OBJECTS, all_beliefs, last_seen_together, stories
from tomserve.benchmarks.hitom.events import Claim, Enter, Event, Exit, Move, Place, Story
from tomserve.benchmarks.hitom.tracker import SEMANTICS, Semantics, trace

semantics = st.sampled_from(SEMANTICS)


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


some = settings(max_examples=25)


@some
@given(stories(), semantics)
def test_any_story_agrees_with_the_table_of_all_tuples(found: Story, name: Semantics) -> None:
    for obj in OBJECTS:
        tables, traced = all_beliefs(found, obj, name), trace(found, obj)
        for order in range(5):
            for who in permutations(AGENTS, order):
                assert traced.chain(who, name) == [table.get(who, "unknown") for table in tables]
                assert traced.belief(who, name) == tables[-1].get(who, "unknown")
        puts = [e.container for e in found.events if isinstance(e, Move | Place) and e.object == obj]
        assert trace(found, obj).belief(()) == (puts[-1] if puts else "unknown")


@some
@given(stories(tells=False), semantics, st.permutations(AGENTS), st.integers(1, 5))
def test_without_tells_nesting_is_joint_witness(found: Story, name: Semantics, order: list[str], n: int) -> None:
    asked = tuple(order[:n])
    oracle = last_seen_together(found, asked, "pen")
    for who in permutations(asked):
        assert trace(found, "pen").belief(who, name) == oracle
