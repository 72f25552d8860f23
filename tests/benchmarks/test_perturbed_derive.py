"""Gold from events: hand-written cases, and a brute force over all possible histories."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tomserve.benchmarks.perturbed.stages import derive, parse

PEOPLE, LABELS = ("Ada", "Bo"), ("x", "y", "unknown")


class Mind(NamedTuple):
    """One possible history up to some event: what is so, what Ada believes and on what ground, what she counts on."""

    world: str = "unknown"
    belief: str = "unknown"
    firm: bool = False
    expected: str | None = None
    armed: tuple[str, tuple[str, ...]] | None = None


def after(mind: Mind, text: str) -> list[Mind]:
    """Every way in which a history can go on when an event happens; written down by the meaning of each event."""
    event = parse(text)
    ada = "Ada" in event.agents
    first = event.labels[0] if event.labels else ""
    if event.verb == "world":
        now = mind._replace(world=first)
        return [now._replace(belief=first, firm=True, expected=None) if ada else now]
    if event.verb == "arm":
        return [mind._replace(armed=(first, event.agents))]
    if event.verb in ("pass", "stall"):
        assert mind.armed
        label, knowing = mind.armed
        now = mind._replace(world=label) if event.verb == "pass" else mind
        return [now._replace(belief=label, firm=True, expected=None) if ada and "Ada" in knowing else now]
    if not ada:
        return [mind]
    seen = mind._replace(belief=mind.world, firm=True)
    ways = {
        "see": lambda: [seen._replace(expected=None)],
        "view": lambda: [mind, seen],
        "tell": lambda: [mind._replace(belief=first, firm=True, expected=None)],
        "infer": lambda: [mind._replace(belief=one, firm=False, expected=None) for one in event.labels],
        "forget": lambda: [mind._replace(belief="unknown", firm=False, expected=None)],
        "doubt": lambda: [mind._replace(firm=False)],
        "read": lambda: [mind] if mind.firm else [mind._replace(belief=first)],
        "hear": lambda: [mind] if mind.firm else [mind, mind._replace(belief=first)],
        "expect": lambda: [mind._replace(expected=first)],
    }
    return ways[event.verb]()


def histories(story: list[list[str]]) -> list[list[tuple[str, str]]]:
    """For every possible history what is so and what Ada believes: before the story and after each sentence."""
    open_ones: list[tuple[Mind, list[tuple[str, str]]]] = [(Mind(), [("unknown", "unknown")])]
    for events in story:
        now = open_ones
        for event in events:
            now = [(later, told) for mind, told in now for later in after(mind, event)]
        now = [
            (later, told)
            for mind, told in now
            for later in ([mind, mind._replace(belief=mind.expected)] if mind.expected else [mind])
        ]
        open_ones = [(mind, [*told, (mind.world, mind.belief)]) for mind, told in now]
    return [told for _, told in open_ones]


def people(least: int) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(PEOPLE), min_size=least, max_size=2, unique=True).map(", ".join)


def known(word: str) -> st.SearchStrategy[str]:
    return people(0).map(lambda names: f" {word} {names}" if names else "")


label = st.sampled_from(LABELS)
EVENTS = st.one_of(
    st.builds("world {}{}".format, label, known("seen")),
    st.builds("{} {}".format, st.sampled_from(["see", "view", "forget", "doubt"]), people(1)),
    st.builds("{} {} {}".format, st.sampled_from(["read", "tell", "hear", "expect"]), people(1), label),
    st.builds("infer {} {}".format, st.sampled_from(PEOPLE), st.sampled_from(["x", "y", "x, y", "y, unknown"])),
    st.builds("arm {}{}".format, label, known("known")),
    st.builds("{}{}".format, st.sampled_from(["pass", "stall"]), known("known")),
)


@given(st.lists(st.lists(EVENTS, max_size=3), min_size=1, max_size=5))
def test_sets_and_edges_are_those_of_all_possible_histories(story: list[list[str]]) -> None:
    story = [["arm x known Ada"], *story]
    told = histories(story)
    for t, line in enumerate(derive(story, "Ada")):
        for layer, which in ((line.world, 0), (line.belief, 1)):
            assert layer.labels == tuple(sorted({history[t + 1][which] for history in told})), (t, which)
            assert set(layer.steps) == {(history[t][which], history[t + 1][which]) for history in told}, (t, which)


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
