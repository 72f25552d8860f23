"""FANToM's belief choices: both forms of its files, the pieces of information, the official reading, and mistakes."""

import csv
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import ROOT, data_file
from tests.helpers.strategies import talk
from tomserve.benchmarks.published.base import git_blob_name
from tomserve.benchmarks.published.fantom import BENCHMARK, METRIC, OWN
from tomserve.prompting.strategy import Strategy
from tomserve.scoring.answers import Reading, read_reply
from tomserve.scoring.labels import LetteredChoices

CHOICES = ROOT / "tests/data/choices"
FIRST = "FANToM_accessible_short_context_first-order.csv"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The eight CSV files, as AutoToM names them but for the colons, which not every file system takes."""
    return Path(shutil.copytree(CHOICES / "FANToM", tmp_path / "f"))


def test_the_official_file_has_the_same_questions_and_says_its_pieces(folder: Path, tmp_path: Path) -> None:
    """The authors' program reads the file by pandas, which takes sets row by row and column by column."""
    path = CHOICES / "fantom_v1.json"
    sets = json.loads(path.read_text())
    columns = {name: {str(row): one[name] for row, one in enumerate(sets)} for name in sets[0]}
    (tmp_path / "columns.json").write_text(json.dumps(columns))
    items, rows = list(BENCHMARK.items(path)), list(BENCHMARK.items(folder))
    assert items == list(BENCHMARK.items(tmp_path / "columns.json"))
    asked = [sorted((one.id, one.question, one.answer, one.factors["order"]) for one in of) for of in (items, rows)]
    assert asked[0] == asked[1]
    assert {(item.factors["part"], item.cluster) for item in items} == {("0-1", "conversation/0")}
    assert {item.factors["piece"] for item in items} == {"0-1-0/heard", "0-1-0/missed", "0-1-1/missed"}
    assert "2 questions whose two options are the same are left out." in BENCHMARK.audit(path, print).lines
    own = folder / FIRST
    own.write_text(own.read_text().replace("Ian: So little!", "Ian: "))
    assert "1 questions show a conversation in which somebody's line is empty." in BENCHMARK.audit(own, print).lines


def test_passages_of_one_conversation_are_one_cluster(folder: Path) -> None:
    """Also a passage that is asked about alone, if the text of one conversation holds it; and no other."""
    more = [("Ian: So little!\nUgo: I am back.", "What does Ugo believe?"), ("Eva: Hello.", "What does Eva believe?")]
    with (folder / FIRST).open("a", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(
            [told, question, "['It is so.', 'It is not so.']", "It is so."] for told, question in more
        )
    items = {item.question: item for item in BENCHMARK.items(folder)}
    boat, within, other = (
        items[question]
        for question in ("What does Ian believe about the price of Pia's old boat?", more[0][1], more[1][1])
    )
    assert boat.cluster == within.cluster != other.cluster
    assert boat.factors["part"] != within.factors["part"]


def test_rules_read_the_options_alone(folder: Path) -> None:
    item = next(iter(BENCHMARK.items(folder)))
    same = item.model_copy(update={"choices": ("Ugo knows.", "Ugo knows it all."), "answer": "Ugo knows."})
    assert [rule.answer(same) for rule in OWN] == ["Ugo knows.", "Ugo knows it all."]


OFFICIAL = ["({0})", "{0}) Ugo knows", "{0}.", "{0}: yes", "{0}, yes", "{0}", "It is ({0}), I think", "Answer: ({0})"]
OFFICIAL += ["({1}) and not ({0})"]


def test_the_official_reading_is_that_of_the_authors_program(folder: Path) -> None:
    for item in BENCHMARK.items(folder):
        letters = "ab" if item.choices[0] == item.answer else "ba"
        for form in (*OFFICIAL, "({1})", "It is {0}"):
            text, right = form.format(*letters), form in OFFICIAL
            assert METRIC.compute(item, Reading(None, None, text=text)) == {"metric_official": right}, text
            if right and form not in ("({1}) and not ({0})", "{0}, yes"):
                assert read_reply(text, LetteredChoices(item.choices)).answer == item.answer, text
    assert METRIC.compute(item, Reading(None, None, text='{"answer": "x"}')) == {}


def test_the_official_form_shows_the_conversation_and_the_options_in_brackets(folder: Path) -> None:
    item = next(iter(BENCHMARK.items(folder)))
    turns, _ = talk(Strategy.load("fantom_official"), item, lambda turn: "(a)")
    system, message = turns[0].messages
    assert system["role"] == "system"  # some models' templates would put one of their own there
    end = f"\n\nQuestion: {item.question}\n(a) {item.choices[0]}\n(b) {item.choices[1]}\n\nChoose an answer from above:"
    assert message["content"] == "\n".join(item.story) + end


def test_validate_names_the_files_that_are_others_or_lack(folder: Path) -> None:
    (folder / "FANToM_inaccessible_full_context_first-order.csv").unlink()
    found = BENCHMARK.validate(folder, print)
    assert found.code == 1
    assert len(found.sections["problems"]) == 7 + 1
    assert found.sections["problems"][-1] == "Not at hand: inaccessible_full_context_first-order.csv."
    assert git_blob_name(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a", "as git prints it"


def test_the_known_files() -> None:
    path = data_file(
        "AutoToM/benchmarks/full_data_formatted/FANToM_tom:belief:accessible_short_context_first-order.csv"
    )
    found = BENCHMARK.validate(path.parent, print)
    assert not any("is not the file" in line for line in found.sections.get("problems", ()))
    short = [item for item in BENCHMARK.items(path.parent) if item.factors["context"] == "short"]
    assert Counter((item.factors["accessible"], item.factors["order"]) for item in short) == {
        (True, 1): 228, (True, 2): 319, (False, 1): 642, (False, 2): 351,
    }  # fmt: skip
    assert max(len(choice) for item in short for choice in item.choices) == 1232
