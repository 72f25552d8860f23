"""MuMA-ToM's scenes as text: read and counted."""

import json
from collections import Counter
from pathlib import Path

from tests.conftest import data_file
from tests.helpers.choices_files import mumatom_scenes
from tomserve.benchmarks.mumatom import BENCHMARK, OWN, decoded


def test_each_scene_has_its_questions_with_task_and_polarity(tmp_path: Path) -> None:
    (tmp_path / "questions.json").write_text(json.dumps(mumatom_scenes()), "utf-8")
    items = list(BENCHMARK.items(tmp_path / "questions.json"))
    design = [(item.factors["task"], item.factors["dimension"], item.factors["order"]) for item in items[::2]]
    assert design == [("belief", "belief", 1), ("social_goal", "intention", 1), *[("belief_of_goal", "belief", 2)] * 2]
    assert [item.factors["likely"] for item in items[:4]] == ["most", "least"] * 2
    assert items[4].story[1] == "Later Noa didn't wait and moved the plum to the desk."
    assert all(OWN.answer(item) == item.answer for item in items[:2]), "who repeats what was said has beliefs right"


def test_a_description_is_decoded_wherever_it_has_marks_of_bytes() -> None:
    assert decoded("b'One.\\n\\nTwo didn\\'t.'") == "One.\n\nTwo didn't."
    assert decoded('b"It\'s one.\nTwo."') == "It's one.\nTwo."
    assert decoded("b'One. Two.") == "One. Two."
    assert decoded("Plain 'text'") == "Plain 'text'"


def test_the_known_file() -> None:
    path = data_file("MuMA-ToM/Files/questions.json")
    assert BENCHMARK.validate(path, print).code == 0
    items = list(BENCHMARK.items(path))
    assert Counter(item.factors["task"] for item in items) == dict.fromkeys(
        ("belief", "social_goal", "belief_of_goal"), 300
    )
    assert all(OWN.answer(item) == item.answer for item in items if item.factors["task"] == "belief")
    assert not any("\\" in sentence or sentence.startswith("b'") for item in items for sentence in item.story)
