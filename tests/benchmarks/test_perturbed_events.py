"""Events of the perturbed stories, followed by the engine, against sets that follow the events one by one."""

from hypothesis import example, given
from hypothesis import strategies as st

from tests.helpers.beliefs_by_hand import follow
from tomserve.benchmarks.perturbed.events import track

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
