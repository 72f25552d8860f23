"""OpenToM: read from its folder, with classes for the macro-averaged F1 and labels that contradict others known."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import DATA, ROOT, data_file
from tomserve import benchmarks
from tomserve.benchmarks.opentom import benchmark as opentom
from tomserve.benchmarks.opentom import official
from tomserve.benchmarks.opentom.rules import RULES
from tomserve.errors import TomserveError
from tomserve.items import Item
from tomserve.scoring.answers import Reading

SMALL = ROOT / "tests/data/opentom_small"


def items(path: Path) -> list[Item]:
    return list(benchmarks.load("opentom", path))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SMALL, tmp_path / "opentom_data"))


def test_every_narrative_has_23_questions() -> None:
    found = items(SMALL)
    assert len(found) == 3 * 23
    assert Counter(
        (item.factors["task"], item.factors["order"]) for item in found if item.factors["length"] == "long"
    ) == {
        **{("location_coarse", order): 2 for order in (1, 2)},
        **{("location_fine", order): 2 for order in (0, 1, 2)},
        **{("fullness", order): 4 for order in (1, 2)},
        **{("accessibility", order): 2 for order in (1, 2)},
        ("attitude", 1): 1,
    }
    assert {item.factors["dimension"] for item in found} == {"belief", "emotion", "reality"}
    assert len({item.cluster for item in found}) == 2  # the long narrative is the same plot
    assert found[0].story[2] == "Both saw the kettle in the tool box in the shed."


def test_fine_places_are_classes_and_are_offered_as_the_narrative_writes_them() -> None:
    fine = [item for item in items(SMALL) if item.factors["task"] == "location_fine"]
    assert all(set(item.choices) in ({"tool box", "a cellar shelf"}, {"crate", "the porch"}) for item in fine)
    unseen = next(item for item in fine if item.question.startswith("From Silas's perspective, where is"))
    assert (unseen.answer, unseen.factors["label"], unseen.factors["condition"]) == (
        "tool box",
        "original",
        "false_belief",
    )
    assert [item.choices.index(item.answer) for item in fine].count(0) not in (0, len(fine))


def test_labels_that_contradict_others_are_known() -> None:
    found = items(SMALL)
    wrong = [item.id for item in found if item.factors["label_agrees"] is False]
    assert wrong == ["opentom/10000001/multihop_fo/4", "opentom/10000001/long/multihop_fo/4"]
    unsettled = {item.factors["task"] for item in found if item.factors["label_agrees"] is None}
    assert unsettled == {"attitude", "accessibility", "location_coarse"}


RULED = {
    ("always reality", "location_fg_fo/2"): "tool box",
    ("always reality", "location_fg_fo/4"): "a cellar shelf",
    ("always reality", "location_cg_fo/2"): "No",
    ("always reality", "multihop_fo/1"): "less full",
    ("always as at first", "location_fg_fo/2"): "tool box",
    ("always as at first", "location_fg_fo/4"): "tool box",
    ("always as at first", "location_cg_fo/2"): "Yes",
    ("always as at first", "multihop_fo/1"): "equally full",
    ("always as at first", "multihop_fo/6"): "equally accessible",
    ("always positive", "attitude/1"): "positive",
    ("always neutral", "attitude/1"): "neutral",
    ("always negative", "attitude/1"): "negative",
    ("always less", "multihop_fo/6"): "less accessible",
    ("always more", "multihop_fo/6"): "more accessible",
}


def test_rules_say_what_is_so_or_was_so() -> None:
    found = {item.id: item for item in items(SMALL)}
    answers = {
        (rule.name, name): rule.answer(found[f"opentom/10000001/{name}"])
        for rule in RULES
        for name in {name for _, name in RULED}
    }
    assert {key: value for key, value in answers.items() if value is not None} == RULED


def test_the_authors_reading_is_kept_with_its_ways() -> None:
    for task, text, expected in (
        ("location_coarse", "No, she moved it.", "No"),
        ("location_coarse", "Yes, as far as he knows.", "unread"),  # "no" stands in "knows"
        ("location_coarse", "Maybe.", "unread"),
        ("fullness", "It is fuller. Not less full.", "less full"),
        ("fullness", "more full", "more full"),
        ("fullness", "the same", "unread"),
        ("accessibility", "less accessible, never more accessible", "more accessible"),
        ("attitude", "My answer: b.", "neutral"),
        ("attitude", "positive or negative", "unread"),
    ):
        assert official.stated(task, text) == expected, text
    assert official.fine("It's in the tool_box.", "tool box", "a cellar shelf") == "original"
    assert official.fine("the shelf", "tool box", "a cellar shelf") == "new"
    assert official.fine("the hall", "tool box", "a cellar shelf") == "neither"
    assert official.fine("the attic", "attic", "crate") == "neither"  # they cut "a" off "attic"


def test_metrics_give_classes() -> None:
    found = {item.id: item for item in items(SMALL)}
    fine, attitude = found["opentom/10000002/location_fg_fo/3"], found["opentom/10000002/attitude/1"]

    def computed(item: Item, reading: Reading) -> dict[str, object]:
        return {name: value for metric in opentom.METRICS for name, value in metric.compute(item, reading).items()}

    json_reply = Reading("json", "the porch", text='{"answer": "the porch"}')
    assert computed(fine, json_reply) == {"metric_class": "new", "metric_official": "new"}
    prose = Reading("sole", "positive", text="Not neutral: positive.")
    assert computed(attitude, prose) == {"metric_class": "positive", "metric_official": "positive"}
    assert computed(attitude, Reading(None, None, text="?")) == {"metric_official": "unread"}
    assert computed(attitude, Reading(None, None)) == {}


BROKEN = [
    ("meta_data", '"observed": false', '"observed": "no"', r"meta_data\.json: 10000001\.observed: is 'no'; expected true or"),
    ("meta_data", '"tool_box"', '"a_cellar shelf"', r"10000001\.plot_info: is .*expected two people and two places"),
    ("meta_data", '"Silas"', "3", r"10000001\.plot_info\.observer: is 3; expected text"),
    ("meta_data", "10000002", "10000003", r"location_cg_fo\.json: 10000003: is None; expected a list of questions"),
    ("attitude", '"negative"', '"angry"', r"attitude\.json: 10000001\[0\]\.answer: is 'angry'; expected positive or neutral"),
    ("attitude", "As Silas", "As Kurt", r"attitude\.json: 10000001\[0\]\.question: is .As Kurt.*narrator, Petra, Silas"),
    ("location_fg_so_new", '"tool_box"', '"hat"', r"so_new\.json: 10000001\[0\]\.answer: is 'hat'; expected tool_box or"),
    ("multihop_so", "tool_box's", "hat's", r"multihop_so\.json: 10000001\[0\]\.question: is .*expected one on the fullness"),
    ("multihop_so", '"equally full"', "[]", r"multihop_so\.json: 10000001\[0\]\.answer: is \[\]; expected text"),
    ("attitude", "{", "[", r"attitude\.json: is no JSON"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "expected"), BROKEN)
def test_a_broken_file_is_told(file: str, old: str, new: str, expected: str, folder: Path) -> None:
    path = folder / f"{file}.json"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(TomserveError, match=expected):
        items(folder)


def test_files_that_are_missing_or_were_replaced_are_told(folder: Path) -> None:
    found = " ".join(opentom.BENCHMARK.audit(folder, print).lines)
    assert "labels: 2 of 55 that can be checked contradict the plot or another label" in found
    (folder / "meta_data_long.json").unlink()
    assert len(items(folder)) == 2 * 23
    assert "no long narratives are asked" in " ".join(opentom.BENCHMARK.audit(folder, print).lines)
    new, old = folder / "location_fg_fo_new.json", folder / "location_fg_fo.json"
    new.rename(old)
    with pytest.raises(
        TomserveError, match=r"fo\.json is the older file, whose answers contradict location_cg_fo.json"
    ):
        items(folder)
    old.rename(new)
    (folder / "attitude.json").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(TomserveError, match="only a pointer of Git LFS"):
        items(folder)
    with pytest.raises(TomserveError, match="is a file; name the folder"):
        items(folder / "meta_data.json")


def test_the_official_folder_is_known(tmp_path: Path) -> None:
    data_file("opentom_data/meta_data.json")
    folder = tmp_path / "data"
    shutil.copytree(DATA / "opentom_data", folder)
    assert opentom.validate(folder, print).lines == ("16,008 questions about 696 narratives: ok",)
    attitude = json.loads((folder / "attitude.json").read_text())
    next(iter(attitude.values()))[0]["answer"] = "neutral"
    (folder / "attitude.json").write_text(json.dumps(attitude))
    problems = opentom.validate(folder, print).sections["problems"]
    # the first plot is told normally and at length, with the same questions
    assert problems == ("this is not data/opentom_data of commit 3f22b66: 2 of 696 rows differ",)
