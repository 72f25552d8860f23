"""What may explain a wrong answer: containers by explanation, false tells, and both as columns of a score table."""

from pathlib import Path

import polars as pl
import pytest

from tests.conftest import make_item
from tomserve import benchmarks
from tomserve.benchmarks.hitom.events import Story
from tomserve.benchmarks.hitom.explain import PLACES, explanations, false_tells, places
from tomserve.benchmarks.hitom.tracker import trace
from tomserve.items import Item
from tomserve.scoring.table import table

SMALL = Path(__file__).parents[1] / "data/hitom_small.json"
LINES = (
    "Ann, Bo and Cy entered the den.",
    "The pen is in the red_box.",
    "Bo exited the den.",
    "Cy moved the pen to the blue_box.",
    "Ann likes the green_box.",
    "Bo saw a cat.",
    "Cy exited the den.",
    "Ann moved the pen to the tan_box.",
    "Ann exited the den.",
    "Ann, Bo and Cy entered the waiting_room.",
    "Bo privately told Ann that the pen is in the pink_box.",
    "Ann publicly claimed that the pen is in the gray_box.",
    "Ann, Bo and Cy entered the attic.",
    "The nut is in the red_box.",
    "Cy moved the nut to the lime_box.",
)
CHOICES = ("blue_box", "gray_box", "green_box", "lime_box", "pink_box", "plum_box", "red_box", "tan_box")


def found(*asked: str, semantics: str = "released") -> dict[str, tuple[str, ...]]:
    story = Story.parse(LINES)
    return explanations(story, trace(story, "pen"), asked, "pen", CHOICES, semantics)


def test_each_explanation_by_hand() -> None:
    assert found("Bo", "Cy") == {
        "lower_order": ("gray_box",),  # Cy trusts Ann, who left later
        "reality": ("tan_box",),
        "initial_place": ("red_box",),
        "claimed_place": ("pink_box", "gray_box"),
        "after_leaving": ("blue_box", "tan_box"),
        "untrusted_speaker": (),
        "distractor": ("green_box",),
        "other_object": ("red_box", "lime_box"),
    }


def test_what_depends_on_who_is_asked() -> None:
    assert found()["lower_order"] == found()["after_leaving"] == found("Cy")["lower_order"] == ()
    assert found("Cy")["after_leaving"] == ("tan_box",)
    assert found("Ann")["after_leaving"] == ()
    assert found("Ann")["untrusted_speaker"] == ("pink_box",)  # Bo left before her
    assert found("Bo")["untrusted_speaker"] == ()  # he trusts Ann, and is no hearer of his own words
    assert found("Ann", "Bo", "Cy")["lower_order"] == ("red_box", "gray_box")
    assert found("Ann", "Bo", "Cy", semantics="common_knowledge")["lower_order"] == ("gray_box",)


def test_being_told_again_where_it_lies_is_no_event() -> None:
    lines = [*LINES[:3], "The pen is in the red_box."]
    story = Story.parse(lines)
    assert explanations(story, trace(story, "pen"), ("Bo",), "pen", CHOICES)["after_leaving"] == ()


def test_false_tells_are_judged_when_they_are_made() -> None:
    story = Story.parse(LINES)
    assert false_tells(story, "pen") == (2, 2)
    assert false_tells(story, "nut") == (2, 0)
    true = Story.parse([*LINES[:10], "Ann publicly claimed that the pen is in the tan_box.", *LINES[12:]])
    assert false_tells(true, "pen") == (0, 0)


def item(**changes: object) -> Item:
    choices = (*CHOICES, "unknown")
    question = "Where does Bo think Cy thinks the pen is?"
    fields = {"benchmark": "hitom", "story": LINES, "question": question, "choices": choices, "answer": "red_box"}
    return make_item(**{**fields, "gold": None, **changes})


def test_columns_of_a_score_table() -> None:
    row = {"strategy": "s", "status": "ok", "text": "tan_box"}
    scores = table("r", "m", [(item(), row), (make_item(2), row)], rules=benchmarks.scoring)
    assert scores.schema["places_reality"] == pl.String
    assert scores.schema["tells_false"] == pl.Int64
    assert (
        scores.row(0, named=True).items()
        >= {
            "places_offered": " ".join(CHOICES),
            "places_mentioned": "red_box blue_box green_box tan_box pink_box gray_box lime_box",
            "places_after_leaving": "blue_box tan_box",
            "places_untrusted_speaker": "",
            "tells_false": 2,
            "tells_false_asked": 2,
        }.items()
    )
    assert scores.row(1, named=True)["places_reality"] is None  # an item of another benchmark
    assert set(PLACES.columns) <= set(scores.columns)
    plain = table("r", "m", [(make_item(2), row)], rules=benchmarks.scoring)
    assert not set(PLACES.columns) & set(plain.columns)


def test_semantics_of_an_item_count_and_other_forms_have_no_columns() -> None:
    three = {"question": "Where does Ann think Bo thinks Cy thinks the pen is?"}
    assert places(item(**three))["places_lower_order"] == "red_box gray_box"
    known = item(**three, factors={"semantics": "common_knowledge"})
    assert places(known)["places_lower_order"] == "gray_box"
    assert places(item(question="Where is it?")) == {}
    assert places(item(story=("It rains.",))) == {}


@pytest.mark.parametrize("gold", ["corrected", "tracked", "released"])
def test_items_name_the_answers_that_were_chosen(gold: str) -> None:
    assert {one.factors["gold"] for one in benchmarks.load("hitom", SMALL, gold)} == {gold}
    assert benchmarks.scoring("hitom").lettered
    assert not benchmarks.scoring("perturbed").lettered
    assert benchmarks.scoring("perturbed").metrics == benchmarks.scoring("somebody's").metrics == ()
