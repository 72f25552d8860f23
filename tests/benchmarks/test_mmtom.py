"""MMToM-QA's text part: read, counted, and asked in its authors' form."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import data_file
from tests.helpers.choices_files import mmtom_rows
from tests.helpers.strategies import talk
from tomserve import benchmarks
from tomserve.benchmarks.foreign.auditing import audited
from tomserve.benchmarks.mmtom import BENCHMARK, official
from tomserve.prompting.strategy import Strategy
from tomserve.scoring.answers import Reading, read
from tomserve.scoring.labels import Lettered


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "questions.json").write_text("\n".join(map(json.dumps, mmtom_rows())), "utf-8")
    return tmp_path / "questions.json"


def test_each_row_is_a_question_with_its_type(path: Path) -> None:
    items = list(BENCHMARK.items(path))
    assert [item.factors["type"] for item in items] == ["1.1", "1.2", "1.3", "2.1", "2.2", "2.3", "2.4", "2.4"]
    assert items[1].answer == "Noa thinks that the plum is inside the stove." == items[1].choices[1]
    assert [item.factors["asked_before"] for item in items] == [False] * 7 + [True]


def test_audit_shows_that_rules_read_the_answer_off_the_options(path: Path) -> None:
    found = BENCHMARK.audit(path, print)
    rules = {row["type"]: row for row in found.tables["rules"].iter_rows(named=True)}
    assert (rules["1.1"]["affirming choice"], rules["1.3"]["denying choice"]) == (1, 1)
    assert rules["2.1"]["farthest from the question"] == 1
    assert found.lines[1].startswith("1 of the questions is asked twice")
    # A rule that answers one question in eight is shown, one that answers one in forty is not.
    items = list(BENCHMARK.items(path))
    (said,) = [rule for rule in BENCHMARK.rules if rule.name == "denying choice"]
    silent, speaking = (next(i for i in items if (said.answer(i) is None) is quiet) for quiet in (True, False))
    for times, shown in ((7, True), (39, False)):
        table = audited([speaking, *[silent] * times], (), [said]).tables["rules"]
        assert (table["denying choice"][0] is not None) is shown


def test_the_official_form_and_reading(path: Path) -> None:
    item = list(BENCHMARK.items(path))[2]
    asked, _ = talk(Strategy.load("mmtom_official"), item, lambda turn: "b")
    assert asked[0].messages[0]["content"] == "You are a helpful assistant."
    lines = asked[0].messages[1]["content"].splitlines()
    original = next(iter(list(mmtom_rows())[2:]))["question"].splitlines()
    assert [" ".join(line.split()) for line in original if line] == lines[:-1]
    assert lines[-1] == "Answer:"
    for text, right in (("b", True), (" B.", True), ("\nbecause", True), ("a", False), ("(b)", False), ("", False)):
        assert official(item, Reading(None, None, text=text)) == {"metric_official": right}, text
    assert official(item, Reading(None, None, text='{"answer": "b"}')) == {}
    assert read("(b)", Lettered(item.choices)).answer == item.answer, "which the authors' reading takes for wrong"


def test_the_known_file() -> None:
    path = data_file("MMToM-QA/Benchmark/questions.json")
    assert BENCHMARK.validate(path, print).code == 0
    items = list(benchmarks.load("mmtom", path))
    assert Counter(item.factors["task"] for item in items) == {"belief": 300, "goal": 300}
    rules = {row["type"]: row for row in BENCHMARK.audit(path, print).tables["rules"].iter_rows(named=True)}
    assert [rules[kind]["affirming choice"] for kind in ("1.1", "1.2", "1.3")] == [1, 1, 0]
    assert rules["2.1"]["nearest the question"] == 0
