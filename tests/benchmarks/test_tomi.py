"""ToMi and the fixed ToMi: read in all forms, and labels checked by what follows from the story."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT, data_file
from tomserve import benchmarks
from tomserve.benchmarks.tomi import benchmark as tomi
from tomserve.benchmarks.tomi.tracker import Asked, Told
from tomserve.errors import TomserveError
from tomserve.items import Item
from tomserve.scoring.answers import Reading

SMALL, FIXED = ROOT / "tests/data/tomi_small.txt", ROOT / "tests/data/tomi_fixed_small.jsonl"


def items(path: Path, gold: str | None = None) -> list[Item]:
    return list(benchmarks.load("tomi", path, gold))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for suffix in (".txt", ".trace"):
        shutil.copy(SMALL.with_suffix(suffix), tmp_path)
    return tmp_path


def test_a_pair_of_files_a_folder_and_json_lines_are_read(folder: Path) -> None:
    found = items(SMALL)
    assert found == items(folder)
    assert {item.cluster for item in found} == {item.cluster for item in items(folder / "tomi_small.txt")}
    assert [item.factors["version"] for item in items(FIXED)] == ["fixed"] * 4


def test_answers_follow_from_the_story_and_the_files_labels_can_be_chosen() -> None:
    found, released = items(SMALL), items(SMALL, "released")
    wrong = [item for item in found if not item.factors["label_agrees"]]
    assert [item.question for item in wrong] == [
        "Where does Ines think that Omar searches for the lantern?",
        "Where does Omar think that Ines searches for the lantern?",
        "Where does Hugo think that Lena searches for the saddle?",
    ]
    assert [item.answer for item in wrong] == ["tin_chest", "tin_chest", "barrel"]
    assert [one.id for one in found if one.answer != one.factors["released"]] == [one.id for one in wrong]
    assert [one.id for one in released] == [one.id for one in found]
    assert all(one.answer == one.factors["released"] for one in released)
    assert {item.factors["condition"] for item in wrong} == {"false_belief"}


def test_what_nobody_can_know_has_the_files_label_and_no_condition(tmp_path: Path) -> None:
    """Ben never enters the room of the key, so that nothing follows from the story of where he looks."""
    story = (
        "1 Ann entered the hall.\n2 Ben entered the loft.\n3 The key is in the box.\n4 Ann moved the key to the bag."
    )
    row = {"story": story, "question": "Where will Ben look for the key?", "answer": "box"}
    row |= {"question_type": "first_order_1_no_tom", "story_type": "true_belief"}
    (tmp_path / "one.jsonl").write_text(json.dumps(row))
    (item,) = items(tmp_path / "one.jsonl")
    assert item.answer == "box"
    assert [item.factors[name] for name in ("tracked", "label_agrees", "condition")] == [None, None, None]
    lines = tomi.BENCHMARK.audit(tmp_path / "one.jsonl", print).lines
    assert any(line.startswith("labels: 0 of 1 are not what follows") for line in lines)
    assert "nothing follows for 1, and the file's label is taken for right." in lines


def test_whoever_comes_back_sees_where_the_object_is() -> None:
    story = ("Ann entered the hall.", "Ben entered the hall.", "The key is in the box.", "Ben exited the hall.")
    moved = (*story, "Ann moved the key to the bag.")
    asked = Asked.of("Where does Ben think that Ann searches for the key?")
    first = Asked.of("Where will Ben look for the key?")
    assert (Told.of(moved, "key").answer(asked), Told.of(moved, "key").answer(first)) == ("box", "box")
    back = (*moved, "Ben entered the hall.")
    assert (Told.of(back, "key").answer(asked), Told.of(back, "key").answer(first)) == ("bag", "bag")
    elsewhere = (*moved, "Ben entered the loft.")
    assert Told.of(elsewhere, "key").answer(first) == "box"
    alone = (*moved, "Ann exited the hall.", "Ben entered the hall.")
    assert (Told.of(alone, "key").answer(asked), Told.of(alone, "key").answer(first)) == ("box", "bag")


def test_the_grade_of_simtoms_program_stands_beside_ours() -> None:
    item = items(SMALL)[1]
    for text, both in (("In the oak_crate.", False), ("tin_chest, not OAK_CRATE", True)):
        graded = tomi.OFFICIAL.compute(item, Reading(None, None, text=text))
        assert graded == {"metric_official": True, "metric_both_places": both}
    assert tomi.OFFICIAL.compute(item, Reading(None, None)) == {}


def test_other_files_are_told(folder: Path) -> None:
    (folder / "a.jsonl").write_text('{"story": 3}')
    with pytest.raises(TomserveError, match=r"a\.jsonl:1: story: is 3; expected text"):
        items(folder / "a.jsonl")
    (folder / "tomi_small.trace").unlink()
    with pytest.raises(TomserveError, match=r"tomi_small\.trace: is not there"):
        items(folder / "tomi_small.txt")


def test_the_fixed_file_agrees_with_the_tracker_but_for_one_label(tmp_path: Path) -> None:
    path = data_file("test_balanced.jsonl")
    found = items(path)
    assert len(found) == 1000
    wrong = [item for item in found if not item.factors["label_agrees"]]
    assert [(item.factors["question_type"], item.answer) for item in wrong] == [("first_order_1_no_tom", "envelope")]
    assert tomi.differences(path) == []
    rows = path.read_text().splitlines()
    changed = [json.loads(row) for row in rows]
    changed[3]["answer"] = next(one for one in changed[3]["containers"] if one != changed[3]["answer"])
    (tmp_path / "renamed.jsonl").write_text("\n".join(map(json.dumps, changed)))
    (said,) = tomi.differences(tmp_path / "renamed.jsonl")
    assert "this is not test_balanced.jsonl of commit 15cfd30: 1 of 875 rows differs" in said


def test_the_original_files_have_labels_that_do_not_follow() -> None:
    path = data_file("tomi_balanced_story_types/fb_all_test.txt")
    found = items(path)
    wrong = [item for item in found if not item.factors["label_agrees"]]
    assert (len(found), len(wrong)) == (5994, 464)
    assert {item.factors["task"] for item in wrong} == {"second_order"}
    assert tomi.differences(path) == []
