"""MuMA-ToM's scenes as text: read, refused where the file is broken, and counted."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import data_file
from tests.helpers.choices_files import mumatom_scenes
from tomserve.benchmarks.mumatom import BENCHMARK, OWN, decoded
from tomserve.errors import ConfigError, ContentError


def written(tmp_path: Path, scenes: Any) -> Path:
    path = tmp_path / "questions.json"
    path.write_text(json.dumps(scenes), "utf-8")
    return path


def test_each_scene_has_its_questions_with_task_and_polarity(tmp_path: Path) -> None:
    items = list(BENCHMARK.items(written(tmp_path, mumatom_scenes())))
    assert [item.id for item in items] == [f"{scene}/{number}" for scene in (11, 12) for number in range(1, 5)]
    design = [(item.factors["task"], item.factors["dimension"], item.factors["order"]) for item in items[::2]]
    assert design == [("belief", "belief", 1), ("social_goal", "intention", 1), *[("belief_of_goal", "belief", 2)] * 2]
    assert [item.factors["likely"] for item in items[:4]] == ["most", "least"] * 2
    assert items[0].story == (
        'Rui walked in and asked, "Where is the plum?"',
        'Noa replied, "I found the plum inside the stove."',
        "Rui opened the stove.",
    )
    assert items[4].story[1] == "Later Noa didn't wait and moved the plum to the desk."
    assert items[0].answer == "When giving information, Noa believed that there was a plum inside the stove"
    assert not any(choice.startswith("A)") for item in items for choice in item.choices)


def test_whoever_repeats_what_was_said_has_the_beliefs_right(tmp_path: Path) -> None:
    for item in list(BENCHMARK.items(written(tmp_path, mumatom_scenes())))[:2]:
        assert OWN.answer(item) == item.answer


def test_a_description_is_decoded_wherever_it_has_marks_of_bytes() -> None:
    assert decoded("b'One.\\n\\nTwo didn\\'t.'") == "One.\n\nTwo didn't."
    assert decoded('b"It\'s one.\nTwo."') == "It's one.\nTwo."
    assert decoded("b'One. Two.") == "One. Two."
    assert decoded("Plain 'text'") == "Plain 'text'"


def broken(change: Callable[[dict], object]) -> dict:
    scenes = mumatom_scenes()
    change(scenes["11"])
    return scenes


BROKEN = [
    (lambda scene: scene.pop("answers"), "11.answers: found .*; expected a description, questions, answers and labels"),
    (lambda scene: scene.update(description=3), "11.description: found"),
    (lambda scene: scene.update(description=" "), "11.description: found ' '; expected the text of a scene"),
    (
        lambda scene: scene["questions"].update({"2": "Which?\nA) one\nB two"}),
        "11.questions.2: .*a line for each option",
    ),
    (lambda scene: scene["questions"].update({"2": []}), r"11.questions.2: found \[\]"),
    (lambda scene: scene["questions"].update({"2": " "}), r"11.questions.2: found ' '; expected a question"),
    (
        lambda scene: (
            scene["questions"].update({"2": f"Which?\nA) one\nB) {'x' * 2001}"})
            or scene["answers"].update({"2": "A) one"})
        ),
        r"11.questions.2: makes no item \(choices.1: ",
    ),
    (lambda scene: scene["labels"].update({"2": ["belief"]}), r"11.labels.2: unknown kind of question .\['belief'\]"),
    (lambda scene: scene["labels"].update({"2": "x" * 3000}), r"11.labels.2: unknown kind of question 'x{60}'"),
    (lambda scene: scene["questions"].update({"2": "Which?\nA) one\nB) One"}), "11.answers.2: .*one of the question's"),
    (lambda scene: scene["answers"].update({"2": "D) none"}), "11.answers.2: found 'D\\) none'; expected one of"),
    (
        lambda scene: scene["labels"].update({"2": "beliefs"}),
        "11.labels.2: unknown kind of question 'beliefs'; did you",
    ),
]


@pytest.mark.parametrize(("change", "reason"), BROKEN)
def test_a_broken_scene_is_named_by_its_field(change: Callable[[dict], object], reason: str, tmp_path: Path) -> None:
    with pytest.raises(ContentError, match=reason) as caught:
        list(BENCHMARK.items(written(tmp_path, broken(change))))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", "7", '{"1": 5}', '{"1": {"questions": {}}}', '{"1": null}', "{"])
def test_what_is_no_file_of_scenes_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "questions.json").write_text(text)
    with pytest.raises(ContentError) as caught:
        list(BENCHMARK.items(tmp_path / "questions.json"))
    assert "\n" not in str(caught.value)


def test_the_audit_and_the_missing_file(tmp_path: Path) -> None:
    found = BENCHMARK.audit(written(tmp_path, mumatom_scenes()), print)
    assert found.tables["items"]["questions"].to_list() == [8, 1, 1, 2, 2, 1, 1]
    rules = found.tables["rules"].filter(task="belief")
    assert rules["what was said"].to_list() == [1, 1]
    assert "2 of 2 rows differ and 223 rows are missing" in found.lines[-1]
    with pytest.raises(ConfigError, match=r"questions.json of github.com/SCAI-JHU/MuMA-ToM \(licence: Apache-2.0\)"):
        BENCHMARK.audit(None, print)


def test_the_known_file() -> None:
    path = data_file("MuMA-ToM/Files/questions.json")
    assert BENCHMARK.validate(path, print).code == 0
    items = list(BENCHMARK.items(path))
    assert Counter(item.factors["task"] for item in items) == dict.fromkeys(
        ("belief", "social_goal", "belief_of_goal"), 300
    )
    assert all(OWN.answer(item) == item.answer for item in items if item.factors["task"] == "belief")
    assert not any("\\" in sentence or sentence.startswith("b'") for item in items for sentence in item.story)
