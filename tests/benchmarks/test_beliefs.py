"""Events and first-order beliefs."""

import pytest

from tomserve.benchmarks.perturbed.events import parse, track


def beliefs(*story: str, asked: str = "Ada", inference: bool = True) -> list[str]:
    """The asked person's belief after each sentence; one event or none ("") a sentence."""
    found = track([[event] if event else [] for event in story], asked, inference=inference)
    return ["".join(sorted(belief)) if belief != {"unknown"} else "u" for _, belief in found]


def worlds(*story: str) -> list[str]:
    return [
        "".join(sorted(world)) if world != {"unknown"} else "u"
        for world, _ in track([[e] if e else [] for e in story], "Ada")
    ]


def test_classic_stories() -> None:
    assert beliefs("", "world x", "read Ada y", "") == ["u", "u", "y", "y"]
    assert beliefs("world x seen Ada", "", "world y seen Bo", "") == ["x", "x", "x", "x"]
    assert worlds("world x seen Ada", "", "world y seen Bo") == ["x", "x", "y"]
    assert beliefs("world x seen Ada", "world y seen Bo", asked="Bo") == ["u", "y"]


def test_seeing_and_being_told_outweigh_a_label() -> None:
    assert beliefs("world x", "read Ada y", "see Ada") == ["u", "y", "x"]
    assert beliefs("world y seen Ada", "world x", "read Ada x") == ["y", "y", "y"]
    assert beliefs("read Ada y", "tell Ada x", "read Ada y") == ["y", "x", "x"]
    assert beliefs("world x", "see Ada, Bo", asked="Bo") == ["u", "x"]


def test_testimony_that_cannot_be_judged_yet_leaves_it_open() -> None:
    assert track([["hear Ada x"]], "Ada")[0][1] == {"unknown", "x"}
    assert beliefs("hear Ada x", "infer Ada y")[-1] == "y"


def test_what_stands_in_plain_view_may_have_been_noticed_already() -> None:
    assert beliefs("world x", "view Ada", "", "see Ada") == ["u", "unknownx", "unknownx", "x"]
    assert beliefs("world x seen Ada", "world y", "view Ada", "see Ada") == ["x", "x", "xy", "y"]
    assert beliefs("world x seen Ada", "view Ada") == ["x", "x"]
    assert beliefs("world x", "view Bo") == ["u", "u"]


def test_a_label_read_before_a_thing_in_view_is_noticed_leaves_both_possible() -> None:
    assert beliefs("world x", "view Ada", "read Ada y", "see Ada") == ["u", "unknownx", "xy", "x"]
    assert beliefs("world x", "view Ada", "tell Ada y", "read Ada x") == ["u", "unknownx", "y", "y"]


def test_mechanisms() -> None:
    assert beliefs("world x seen Ada", "arm y known Ada", "pass known Ada") == ["x", "x", "y"]
    assert beliefs("world x seen Ada", "arm y", "pass known Ada") == ["x", "x", "x"]
    assert beliefs("world x seen Ada", "arm y known Ada", "pass") == ["x", "x", "x"]
    assert beliefs("world x seen Ada", "arm y known Ada", "stall known Ada") == ["x", "x", "y"]
    assert worlds("world x", "arm y", "pass") == ["x", "x", "y"]
    assert worlds("world x", "arm y", "stall") == ["x", "x", "x"]


def test_inference_is_marked_and_can_be_left_out() -> None:
    assert beliefs("world x seen Ada", "infer Ada x, y", "infer Ada y") == ["x", "xy", "y"]
    assert beliefs("world x seen Ada", "infer Ada y", inference=False) == ["x", "x"]


@pytest.mark.parametrize("text", ["look Ada", "world", "see", "tell Ada", "pass Ada", "infer x", ""])
def test_what_is_no_event_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="event"):
        parse(text)


def test_time_without_a_mechanism_is_refused() -> None:
    with pytest.raises(ValueError, match="no mechanism was armed"):
        track([["pass known Ada"]], "Ada")
