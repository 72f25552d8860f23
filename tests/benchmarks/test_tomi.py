"""ToMi and the fixed ToMi: read in all forms, and labels checked by what follows from the story."""

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tomserve import benchmarks
from tomserve.benchmarks.published import tomi
from tomserve.benchmarks.published.tomi import ParsedQuestion, ParsedStory
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
    assert [item.answer for item in wrong] == ["tin_chest", "tin_chest", "barrel"]
    assert [one.id for one in found if one.answer != one.factors["released"]] == [one.id for one in wrong]
    assert [(one.id, one.answer) for one in released] == [(one.id, one.factors["released"]) for one in found]


def test_what_nobody_can_know_has_the_files_label_and_no_condition(tmp_path: Path) -> None:
    """Ben never enters the room of the key, so that nothing follows from the story of where he looks."""
    story = (
        "Ann entered the hall.",
        "Ben entered the loft.",
        "The key is in the box.",
        "Ann moved the key to the bag.",
    )
    told = "\n".join(f"{number} {line}" for number, line in enumerate(story, 1))
    row = {"story": told, "question": "Where will Ben look for the key?", "answer": "box"}
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
    second = ParsedQuestion.of("Where does Ben think that Ann searches for the key?")
    first = ParsedQuestion.of("Where will Ben look for the key?")
    for then, answers in (
        ((), ("box", "box")),
        (("Ben entered the hall.",), ("bag", "bag")),
        (("Ben entered the loft.",), ("box", "box")),
        (("Ann exited the hall.", "Ben entered the hall."), ("bag", "box")),
    ):
        told = ParsedStory.of((*story, "Ann moved the key to the bag.", *then), "key")
        assert (told.answer(first), told.answer(second)) == answers, then


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
