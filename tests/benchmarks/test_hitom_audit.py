"""The audit of Hi-ToM and what may explain a wrong answer: the small file by hand, the released one as is known."""

from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import ROOT, data_file, make_item
from tests.helpers.hitom_stories import last_seen_together
from tomserve import benchmarks
from tomserve.benchmarks import hitom
from tomserve.benchmarks.hitom import audit
from tomserve.benchmarks.hitom.audit import Audit
from tomserve.benchmarks.hitom.baselines import PLACES, RULES, explanations, false_tells, places
from tomserve.benchmarks.hitom.events import Story, read_question
from tomserve.benchmarks.hitom.items import read_records
from tomserve.benchmarks.hitom.tracker import find_mentioned, trace
from tomserve.items import Item
from tomserve.scoring.table import score_table

SMALL = ROOT / "tests/data/hitom_small.json"


def column(frame: pl.DataFrame, name: str) -> list[object]:
    return frame[name].to_list()


def test_findings_and_tables_of_the_small_file(cli, tmp_path: Path) -> None:
    small = Audit(read_records(SMALL))
    assert [(f.cause, f.record.half, f.record.order, f.record.length) for f in small.findings()] == [
        ("stale half", "VP", 2, 1),
        ("stale half", "VP", 4, 3),
        ("room re-entry", "CoTP", 3, 3),
        ("room re-entry", "VP", 3, 3),
        ("semantics", "CoTP", 2, 1),
        ("semantics", "CoTP", 4, 3),
    ]
    assert list(small.findings())[2].text() == (
        "data[13] CoTP sample 13: Milo > Otto > Kai > violin: label iron_chest, released slate_bucket, "
        "common_knowledge slate_bucket; slate_bucket by 12 'Kai, Milo and Otto entered the mill.'; label iron_chest "
        "last in 11 'Lena publicly claimed that violin is in the iron_chest.'"
    )
    assert small.baselines()["chance"][0] == pytest.approx((1 / 5 + 1 / 4 + 1 / 5) / 3)
    done = cli("dataset", "audit", "hitom", "--path", SMALL)
    assert done.code == 1  # labels are wrong in it
    assert "30 labels of 3 stories: 26 are the tracker's (released), 4 are not" in done.out
    assert cli("dataset", "audit", "hitom").err.startswith("tomserve: the audit of 'hitom' needs the official file")
    assert find_mentioned(
        ["Ada likes the big_box.", "The pen is in the box.", "Bo saw a box_car."], ("box", "big_box", "tin")
    ) == ["big_box", "box"]


def test_the_official_file() -> None:
    official = Audit(read_records(data_file("Hi-ToM_data.json")))
    found = {(row["half"], row["semantics"], row["order"]): row["agree"] for row in official.agreement().to_dicts()}
    totals = (("CoTP", "released"), ("CoTP", "common_knowledge"), ("VP", "released"))
    assert [found[half, name, "all"] for half, name in totals] == [583, 545, 470]
    assert column(official.pairs(), "differ") == [0, 0, 35, 48, 55]  # 138 of the 360 pairs of orders 2 to 4
    findings = list(official.findings())
    assert Counter(f.cause for f in findings) == {"stale half": 126, "room re-entry": 21, "semantics": 39}
    # In five the label is a container in which the object never was, nor was said to be.
    corrected = [f for f in findings if f.record.half == "CoTP" and f.cause != "semantics"]
    assert (len(corrected), sum("in no sentence" in f.text() for f in corrected)) == (17, 5)
    assert column(official.semantics().filter(pl.col("deception")), "differ") == [0, 0, 17, 11, 11]
    baselines = official.baselines()
    assert column(baselines, "first_order")[2:] == [58, 46, 41]  # .48, .38, .34
    assert column(baselines, "reality")[2:] == [35, 39, 36]  # .29, .33, .30
    assert column(baselines, "joint_witness") == [120, 108, 105, 115, 113]
    assert (
        audit.audit_tables(official)["baselines against the corrected half"]["reality"].to_list()[2] == "35/120 0.292"
    )


# what may explain a wrong answer

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
    assert found()["lower_order"] == found()["after_leaving"] == found("Cy")["lower_order"] == ()
    assert found("Cy")["after_leaving"] == ("tan_box",)
    assert found("Ann")["after_leaving"] == ()
    assert found("Ann")["untrusted_speaker"] == ("pink_box",)  # Bo left before her
    assert found("Bo")["untrusted_speaker"] == ()  # he trusts Ann, and is no hearer of his own words
    assert found("Ann", "Bo", "Cy")["lower_order"] == ("red_box", "gray_box")
    assert found("Ann", "Bo", "Cy", semantics="common_knowledge")["lower_order"] == ("gray_box",)
    story = Story.parse([*LINES[:3], "The pen is in the red_box."])  # told again where it lies is no event
    assert explanations(story, trace(story, "pen"), ("Bo",), "pen", CHOICES)["after_leaving"] == ()
    story = Story.parse(LINES)
    assert (false_tells(story, "pen"), false_tells(story, "nut")) == ((2, 2), (2, 0))
    true = Story.parse([*LINES[:10], "Ann publicly claimed that the pen is in the tan_box.", *LINES[12:]])
    assert false_tells(true, "pen") == (0, 0)


def item(**changes: object) -> Item:
    question = "Where does Bo think Cy thinks the pen is?"
    fields = {"benchmark": "hitom", "story": LINES, "question": question, "choices": (*CHOICES, "unknown")}
    return make_item(**{**fields, "answer": "red_box", "gold": None, **changes})


def test_columns_of_a_score_table() -> None:
    row = {"strategy": "s", "status": "ok", "text": "tan_box"}
    scores = score_table("r", "m", [(item(), row), (make_item(2), row)], rules=benchmarks.scoring_of)
    columns = {
        "places_offered": " ".join(CHOICES),
        "places_mentioned": "red_box blue_box green_box tan_box pink_box gray_box lime_box",
        "places_after_leaving": "blue_box tan_box",
        **{"places_untrusted_speaker": "", "tells_false": 2, "tells_false_asked": 2},
    }
    assert columns.items() <= scores.row(0, named=True).items()
    assert scores.row(1, named=True)["places_reality"] is None  # an item of another benchmark
    assert not set(PLACES.columns) & set(
        score_table("r", "m", [(make_item(2), row)], rules=benchmarks.scoring_of).columns
    )
    three = {"question": "Where does Ann think Bo thinks Cy thinks the pen is?"}
    assert places(item(**three))["places_lower_order"] == "red_box gray_box"
    assert places(item(**three, factors={"semantics": "common_knowledge"}))["places_lower_order"] == "gray_box"
    assert places(item(question="Where is it?")) == places(item(story=("It rains.",))) == {}


def test_rules_that_nest_nothing_agree_with_the_factors_and_with_the_rooms() -> None:
    items = list(hitom.load())[::9]
    nothing = {"strategy": "s", "status": "timeout", "text": None}
    scores = score_table("r", "m", [(one, nothing) for one in items], rules=benchmarks.scoring_of)
    for rule, factor in (("always_reality", "reality"), ("first_order", "first_order"), ("joint_witness",) * 2):
        assert scores[f"rule_{rule}"].to_list() == scores[f"equals_{factor}"].to_list(), rule
    for one in items:
        asked, obj = read_question(one.question)
        assert RULES[2].answer(one) == last_seen_together(Story.parse(one.story), asked, obj), one.id
