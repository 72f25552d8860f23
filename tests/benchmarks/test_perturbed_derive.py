"""Gold from events: what is so and what somebody believes after each kind of event, by cases worked out by hand."""

import pytest

from tomserve.benchmarks.perturbed.stages import derive, parse

LEFT = ("world x seen Ada", "world y")
"""Ada sees how it is, and misses the change."""
CASES = [
    (LEFT, "y", "x"),
    ((*LEFT, "see Ada"), "y", "y"),
    ((*LEFT, "view Ada"), "y", "x y"),  # she may have noticed it
    ((*LEFT, "tell Bo y"), "y", "x"),
    ((*LEFT, "tell Ada y"), "y", "y"),
    ((*LEFT, "forget Ada"), "y", "unknown"),
    ((*LEFT, "infer Ada y, unknown"), "y", "unknown y"),
    ((*LEFT, "read Ada y"), "y", "x"),  # what she saw herself counts more than what is written
    ((*LEFT, "hear Ada y"), "y", "x"),
    ((*LEFT, "doubt Ada", "read Ada y"), "y", "y"),
    ((*LEFT, "doubt Ada", "hear Ada y"), "y", "x y"),
    (("read Ada y",), "unknown", "y"),
    (("expect Ada x",), "unknown", "unknown x"),
    (("expect Ada x", "tell Ada y", "world x"), "x", "y"),  # who knows better counts on it no longer
    (("expect Ada x", "world y", "read Ada z"), "y", "x z"),  # of a change that she does not notice she knows nothing
    (("expect Ada x", "world y seen Ada", "doubt Ada", "read Ada z"), "y", "z"),
    (("expect Ada x", "infer Ada y"), "unknown", "y"),
    (("expect Ada x", "forget Ada"), "unknown", "unknown"),
    (("arm x known Ada", "pass known Ada"), "x", "x"),
    (("arm x known Ada", "pass"), "x", "unknown"),  # she does not know that the time has come
    (("arm x", "pass known Ada"), "x", "unknown"),  # she does not know what it does
    (("arm x known Ada", "stall known Ada"), "unknown", "x"),
    (("arm x", "stall known Ada"), "unknown", "unknown"),
]
"""Events, one a sentence; the labels that reality may have after them, and those of what Ada may believe."""


@pytest.mark.parametrize(("events", "world", "belief"), CASES)
def test_what_is_so_and_what_is_believed_after_the_events(events: tuple[str, ...], world: str, belief: str) -> None:
    last = derive([[event] for event in events], "Ada")[-1]
    assert (" ".join(last.world.labels), " ".join(last.belief.labels)) == (world, belief)


def test_what_may_follow_what_is_kept_and_several_events_of_a_sentence_come_in_their_order() -> None:
    *_, last = derive([[LEFT[0]], [LEFT[1]], ["view Ada"]], "Ada")
    assert (set(last.belief.steps), set(last.world.steps)) == ({("x", "x"), ("x", "y")}, {("y", "y")})
    (only,) = derive([["world x", "see Ada", "world y"]], "Ada")
    assert (only.world.labels, only.belief.labels) == (("y",), ("x",))
    assert set(only.belief.steps) == {("unknown", "x")}


def test_what_is_no_event_or_cannot_happen_is_refused() -> None:
    for text in ("look Ada", "world", "see", "tell Ada", "pass Ada", "infer x", ""):
        with pytest.raises(ValueError, match="event"):
            parse(text)
    with pytest.raises(ValueError, match="no mechanism was armed"):
        derive([["pass known Ada"]], "Ada")


def test_without_inference_those_events_might_as_well_not_be_there() -> None:
    story = [["world x seen Ada"], ["infer Ada y", "read Ada y"], ["forget Ada"]]
    bare = [[event for event in line if not event.startswith("infer")] for line in story]
    assert derive(story, "Ada", inference=False) == derive(bare, "Ada") != derive(story, "Ada")
