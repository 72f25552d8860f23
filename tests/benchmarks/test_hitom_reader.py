"""The official file: its form, its artefacts, its items, and one clear line for whatever is wrong with it."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Outcome, data_file
from tomserve import benchmarks
from tomserve.benchmarks import hitom
from tomserve.benchmarks.hitom.events import VERBS, Claim, Distractor, Enter, Exit, Move, Place, Stay, Tell
from tomserve.benchmarks.hitom.question_item import containers
from tomserve.benchmarks.hitom.reader import read_records
from tomserve.errors import ConfigError, ContentError
from tomserve.items import Item

SMALL = ROOT / "tests/data/hitom_small.json"


def items(gold: str = "corrected", path: Path = SMALL) -> dict[tuple[object, ...], Item]:
    """Items by deception, length and order (and half, where there are both)."""
    found = {}
    for item in hitom.load(path, gold):
        key = tuple(item.factors.get(name) for name in ("deception", "length", "order", "prompting_type"))
        found[key if key[3] else key[:3]] = item
    return found


def test_the_small_file_has_every_form_of_sentence() -> None:
    events = [event for record in read_records(SMALL) for event in record.story.events]
    assert {type(event) for event in events} == {Enter, Place, Move, Stay, Exit, Claim, Tell, Distractor}
    assert {e.verb for e in events if isinstance(e, Distractor)} == set(VERBS)
    assert {(e.the, e.now) for e in events if isinstance(e, Claim)} == {(False, False), (True, True)}
    assert {e.now for e in events if isinstance(e, Tell)} == {False, True}


def test_the_artefacts_are_stripped() -> None:
    raw = json.loads(SMALL.read_text())["data"]
    assert sum(row["story"].startswith("Read the following") for row in raw) == 15
    assert sum(row["story"].endswith("***") for row in raw) == 1
    records = read_records(SMALL)
    assert len({record.story_id for record in records}) == 3
    for record, row in zip(records, raw, strict=True):
        for number, sentence in enumerate(record.story.sentences(), 1):
            assert f"{number} {sentence}\n" in row["story"]


def test_corrected_gold_is_the_corrected_half() -> None:
    found = items()
    assert len(found) == 15
    assert found[False, 1, 2].answer == "ochre_urn"  # the other half says plum_locker
    assert found[True, 3, 3].answer == "iron_chest"  # the label of the file, which is not the tracker's
    assert found[True, 3, 3].gold is None
    assert [key for key, item in found.items() if not item.factors["label_agrees"]] == [(True, 3, 3)]


def test_tracked_gold_is_the_trackers() -> None:
    corrected, tracked = items(), items("tracked")
    assert [key for key in corrected if corrected[key].answer != tracked[key].answer] == [(True, 3, 3)]
    assert tracked[True, 3, 3].answer == "slate_bucket"
    assert all(item.gold is not None for item in tracked.values())
    assert [item.id for item in corrected.values()] == [item.id for item in tracked.values()]


def test_released_gold_is_the_files_own_with_both_halves() -> None:
    found = items("released")
    assert len({item.id for item in found.values()}) == 30
    assert found[False, 1, 2, "VP"].answer == "plum_locker"
    assert found[False, 1, 2, "CoTP"].answer == "ochre_urn"
    assert found[False, 1, 2, "VP"].story == found[False, 1, 2, "CoTP"].story
    assert found[False, 1, 2, "VP"].cluster == found[False, 1, 2, "CoTP"].cluster == items()[False, 1, 2].cluster


def test_an_item() -> None:
    item = items()[True, 1, 2]
    assert item.question == "Where does Gil think Jun thinks the lantern is?"
    assert item.id == f"{item.cluster}/lantern/Gil/Jun"
    assert item.story[4] == "Gil moved the lantern to the coral_bin."
    assert len(item.choices) == 16
    assert item.choices[-1] == "unknown"
    assert containers(item) == item.choices[:15]
    assert item.gold is not None
    assert item.gold.chains == (("unknown", *["amber_crock"] * 3, *["coral_bin"] * 11, "amber_crock"),)
    assert item.factors == {
        "order": 2,
        "length": 1,
        "deception": True,
        "object": "lantern",
        "gold": "corrected",
        "n_lines": 16,
        "n_agents": 5,
        "n_tells": 4,
        "n_public": 2,
        "n_private": 2,
        "n_distractors": 1,
        "n_containers_mentioned": 4,
        "reentered": False,
        "tell_relevant": True,
        "equals_first_order": False,
        "equals_reality": False,
        "equals_joint_witness": False,
        "answer_position": item.choices.index("amber_crock") + 1,
        "answer_place": 1,
        "order_sensitive": True,
        "semantics_differ": True,
        "label_agrees": True,
    }


def test_ids_are_content_addressed(tmp_path: Path) -> None:
    data = json.loads(SMALL.read_text())
    data["data"].reverse()
    for row in data["data"]:
        row["sample_id"] += 7
    path = tmp_path / "turned.json"
    path.write_text(json.dumps(data))
    assert {item.id for item in hitom.load(path)} == {item.id for item in hitom.load(SMALL)}


def test_without_a_path_or_with_another_gold() -> None:
    assert len(list(hitom.load())) == 600
    with pytest.raises(ConfigError, match="only the official file has several sets of answers"):
        list(hitom.load(None, "released"))
    with pytest.raises(ConfigError, match="did you mean 'released'"):
        benchmarks.load("hitom", SMALL, "releasd")
    with pytest.raises(ConfigError, match="has one set of answers"):
        benchmarks.load("perturbed", None, "released")


# mistakes


def damaged(tmp_path: Path, change: Callable[[list[dict[str, Any]]], object]) -> Path:
    data = json.loads(SMALL.read_text())
    change(data["data"])
    path = tmp_path / "damaged.json"
    path.write_text(json.dumps(data))
    return path


def put(index: int, field: str, value: object) -> Callable[[list[dict[str, Any]]], object]:
    return lambda rows: rows[index].__setitem__(field, value)


def swap(index: int, field: str, old: str, new: str) -> Callable[[list[dict[str, Any]]], object]:
    def change(rows: list[dict[str, Any]]) -> None:
        assert old in rows[index][field]
        rows[index][field] = rows[index][field].replace(old, new)

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (swap(3, "story", "exited the", "left the"), "data[3].story: sentence 5: unknown sentence 'Ada left the"),
        (swap(3, "story", "5 Ada", "6 Ada"), "data[3].story: line 5 is '6 Ada exited"),
        (swap(3, "story", "4 Ada moved", "4 Zoe moved"), "data[3].story: sentence 4: 'Zoe moved"),
        (put(3, "story", "***"), "data[3].story: has no sentences"),
        (put(1, "question", "Who has it?"), "data[1].question: unknown question 'Who has it?'; expected"),
        (swap(1, "question", "Cleo", "Zoe"), "data[1].question: asks about Zoe, who never enters; the story has Ada"),
        (swap(1, "question", "compass", "cup"), "data[1].question: asks for 'cup'; the story has compass"),
        (swap(2, "question", "Bela", "Cleo"), "data[2].question: asks about Cleo twice; name every agent once"),
        (put(2, "question_order", 3), "data[2].question_order: is 3, but the question names 2 agents"),
        (put(0, "answer", "hat"), "data[0].answer: 'hat' is not among the choices ("),
        (put(0, "choices", "red, blue"), "data[0].choices: are 'red, blue'; expected 'A. <container>"),
        (put(0, "choices", "A. gray_satchel, C. x"), "data[0].choices: are 'A. gray_satchel, C. x'"),
        (put(0, "choices", "A. gray_satchel, B. gray_satchel"), "data[0].choices: hold 'gray_satchel' twice"),
        (put(4, "sample_id", 2), "data[4].sample_id: 2 is already in data[2]; leave one of them out"),
        (put(0, "prompting_type", "COT"), "data[0].prompting_type: unknown half 'COT'"),
        (put(0, "deception", 1), "data[0].deception: is 1; expected true or false"),
        (put(0, "question_order", True), "data[0].question_order: is True; expected a whole number"),
        (put(0, "story_length", 0), "data[0].story_length: is 0"),
        (put(0, "anwser", "x"), "data[0].anwser: unknown field 'anwser'; did you mean 'answer'?"),
        (lambda rows: rows[2].pop("story"), "data[2].story: is missing; a record has prompting_type"),
        (lambda rows: rows.__setitem__(2, "x"), "data[2]: is a str; expected an object"),
        (lambda rows: rows.append({**rows[3], "sample_id": 99}), "the same story is already in data[3]"),
        (lambda rows: rows.clear(), "expected the official file"),
    ],
)
def test_mistakes_are_named_with_record_and_field(tmp_path: Path, change: Any, said: str) -> None:
    path = damaged(tmp_path, change)
    with pytest.raises(ContentError) as caught:
        list(hitom.load(path))
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_order_above_the_number_of_agents(tmp_path: Path) -> None:
    story = "1 Ada and Bo entered the den.\n2 The pen is in the red_box.\n"
    changes = {"story": story, "question": "Where does Ada think Bo thinks Cy thinks the pen is?", "question_order": 3}
    path = damaged(tmp_path, lambda rows: rows[0].update(changes))
    with pytest.raises(ContentError, match=r"data\[0\].question: is of order 3, but the story has 2 agents"):
        list(hitom.load(path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "holds a list; expected the official file"),
        ('{"rows": []}', "holds an object with ['rows']; expected the official file"),
        ('{"data": {}}', "expected the official file"),
    ],
)
def test_what_is_not_the_expected_json(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ContentError) as caught:
        read_records(path)
    assert said in str(caught.value)
    with pytest.raises(ContentError, match="cannot be read"):
        read_records(tmp_path / "none.json")


def test_a_question_of_the_stale_half_alone_has_no_corrected_label(tmp_path: Path) -> None:
    path = damaged(tmp_path, lambda rows: rows.__delitem__(2))
    with pytest.raises(ContentError, match=r"data\[16\].prompting_type: no CoTP record asks this.*--gold tracked"):
        list(hitom.load(path))
    assert len(list(hitom.load(path, "tracked"))) == 15


# the command line


def test_items_by_gold(cli: Callable[..., Outcome], tmp_path: Path) -> None:
    assert cli("items", "hitom", "--path", SMALL).out.count("\n") == 15
    done = cli("items", "hitom", "--path", SMALL, "--gold", "released", "--where", "prompting_type=VP")
    assert done.out.count("\n") == 15
    assert cli("items", "hitom", "--path", SMALL, "--gold", "new").err.startswith("tomserve: unknown --gold of bench")
    assert "leave --gold out" in cli("items", "perturbed", "--gold", "released").err


def test_a_run_keeps_its_gold(cli: Callable[..., Outcome], endpoint: Any, tmp_path: Path) -> None:
    ask = ("eval", "--benchmark", "hitom", "--path", SMALL, "--base-url", endpoint.url, "--strategy", "vanilla")
    assert cli(*ask, "--gold", "tracked", "--run", "r").code == 0
    manifest = json.loads((tmp_path / "runs/r/manifest.json").read_text())
    assert (manifest["benchmark"], manifest["benchmark_gold"], manifest["benchmark_items"]) == ("hitom", "tracked", 15)
    again = cli(*ask, "--run", "r")
    assert again.code == 2
    assert "benchmark_digest" in again.err
    now = cli("score", "r", "--gold", "current", "--out", tmp_path / "now.csv")
    assert now.code == 0, now.err
    assert "the same" in now.out  # scored against the tracked answers again, not the default ones


def test_foreign_responses_by_gold(cli: Callable[..., Outcome], tmp_path: Path) -> None:
    right = {g: [{"item": i.id, "text": i.answer} for i in hitom.load(SMALL, g)] for g in ("tracked", "corrected")}
    path = tmp_path / "theirs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in right["tracked"]))
    score = ("score", "--responses", path, "--benchmark", "hitom", "--path", SMALL, "--out", tmp_path / "s.csv")
    assert "15 rows scored, 14 correct" in cli(*score).out
    assert "15 rows scored, 15 correct" in cli(*score, "--gold", "tracked").out
    refused = cli("score", "--responses", path, "--items", path, "--out", tmp_path / "s.csv", "--gold", "tracked")
    assert "--gold belongs to --benchmark" in refused.err


# the released file


def test_all_of_the_official_file_is_read() -> None:
    path = data_file("Hi-ToM_data.json")
    records = read_records(path)
    assert len(records) == 1200
    assert len({record.story_id for record in records}) == 120
    raw = json.loads(path.read_text())["data"]
    for record, row in zip(records, raw, strict=True):
        lines = [line for line in row["story"].split("\n") if line[:1].isdigit()]
        assert [f"{n} {s}" for n, s in enumerate(record.story.sentences(), 1)] == lines
        assert (record.order, record.answer, record.deception) == (
            row["question_order"],
            row["answer"],
            row["deception"],
        )
        assert record.object == record.story.objects[0]


def test_the_items_of_the_official_file() -> None:
    path = data_file("Hi-ToM_data.json")
    found = list(hitom.load(path))
    assert len({item.id for item in found}) == len(found) == 600
    assert Counter(len(item.choices) for item in found) == {16: 600}
    assert Counter(item.cluster for item in found) == dict.fromkeys({item.cluster for item in found}, 5)
    assert [item.answer for item in found] == [r.answer for r in read_records(path) if r.half == "CoTP"]
    assert sum(item.gold is None for item in found) == 17
    assert len(list(hitom.load(path, "released"))) == 1200
    # What tells can change as released: orders 1 and 2 alone.
    relevant = Counter(item.factors["order"] for item in found if item.factors["tell_relevant"])
    assert relevant == {1: 12, 2: 10}
    assert not any(item.factors["tell_relevant"] for item in found if not item.factors["deception"])
