"""Events of the perturbed stories and first-order beliefs: by hand, and against sets that follow events one by one."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.helpers.beliefs_by_hand import follow
from tomserve.benchmarks.perturbed.validation_1 import parse, track

PEOPLE = ("Ada", "Bo")
label = st.sampled_from("xyz")
names = st.lists(st.sampled_from(PEOPLE), min_size=1, max_size=2, unique=True).map(", ".join)
person = st.sampled_from(PEOPLE)
known = names.map(" known {}".format) | st.just("")
event = st.one_of(
    st.builds("world {}{}".format, label, names.map(" seen {}".format) | st.just("")),
    st.builds("{} {}".format, st.sampled_from(("see", "view")), names),
    st.builds("{} {} {}".format, st.sampled_from(("read", "tell", "hear", "infer")), person, label),
    st.builds("infer {} {}, {}".format, person, label, label),
    st.builds("arm {}{}".format, label, known),
    st.builds("{}{}".format, st.sampled_from(("pass", "stall")), known),
)
stories = st.lists(st.lists(event, max_size=3), min_size=4, max_size=8).map(lambda lines: [["arm z known Bo"], *lines])


@given(stories, st.sampled_from((*PEOPLE, "Zoe")))
@example([["world x"], ["view Ada"], ["read Ada y"], ["see Ada"]], "Ada")
@example([["arm y known Ada"], ["infer Ada x", "read Ada z"], ["stall known Ada, Bo"]], "Ada")
def test_any_story_agrees_with_the_sets(story: list[list[str]], asked: str) -> None:
    assert track(story, asked) == follow(story, asked)


@given(stories, person)
def test_without_inference_those_events_might_as_well_not_be_there(story: list[list[str]], asked: str) -> None:
    bare = [[text for text in line if not text.startswith("infer")] for line in story]
    assert track(story, asked, inference=False) == follow(bare, asked)


BY_HAND = [
    (("", "world x", "read Ada y", ""), "u u y y"),
    (("read Ada y", "tell Ada x", "read Ada y"), "y x x"),
    (("hear Ada x", "infer Ada y"), "ux y"),
    (("world x seen Ada", "world y", "view Ada", "see Ada"), "x x xy y"),
    (("world x", "view Ada", "read Ada y", "see Ada"), "u ux xy x"),
    (("world x seen Ada", "arm y", "pass known Ada"), "x x x"),
    (("world x seen Ada", "arm y known Ada", "pass"), "x x x"),
    (("world x seen Ada", "infer Ada x, y", "infer Ada y"), "x xy y"),
]


@pytest.mark.parametrize(("story", "expected"), BY_HAND)
def test_beliefs_by_hand(story: tuple[str, ...], expected: str) -> None:
    """Ada's belief after each sentence, u for unknown; one event or none ("") a sentence."""
    found = track([[event] if event else [] for event in story], "Ada")
    told = ["".join(sorted("u" if one == "unknown" else one for one in belief)) for _, belief in found]
    assert " ".join(told) == expected


@pytest.mark.parametrize("text", ["look Ada", "world", "see", "tell Ada", "pass Ada", "infer x", ""])
def test_what_is_no_event_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="event"):
        parse(text)
    with pytest.raises(ValueError, match="no mechanism was armed"):
        track([["pass known Ada"]], "Ada")
