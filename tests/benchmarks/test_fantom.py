"""FANToM's belief choices: both forms of its files, the pieces of information, the official reading, and mistakes."""

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import data_file
from tests.helpers.choices_files import CONVERSATION, PASSAGE, QUESTIONS, fantom_name, fantom_rows, fantom_sets
from tests.helpers.strategies import talk
from tomserve.benchmarks.fantom import BENCHMARK, OWN, blob, official
from tomserve.benchmarks.foreign.prose import mixed
from tomserve.errors import ConfigError, ContentError
from tomserve.items import Item
from tomserve.prompting.strategy import Strategy
from tomserve.scoring.answers import Reading, read
from tomserve.scoring.labels import Lettered


def asked(item: Item) -> tuple:
    return item.question, item.answer, *(item.factors[name] for name in ("context", "accessible", "order"))


def test_a_folder_of_rows_is_read_with_both_contexts(tmp_path: Path) -> None:
    items = list(BENCHMARK.items(fantom_rows(tmp_path / "f")))
    assert len(items) == 10
    assert Counter(item.story for item in items) == {tuple(PASSAGE.split("\n")): 5, tuple(CONVERSATION.split("\n")): 5}
    assert {item.cluster for item in items} == {items[0].cluster}, "the passage is the same in both contexts"
    short, full = ([item for item in items if item.factors["context"] == name] for name in ("short", "full"))
    assert {item.id.split("/")[1] for item in short} == {item.id.split("/")[1] for item in full}
    assert {item.id.split("/")[1]: item.choices for item in short} == {
        item.id.split("/")[1]: item.choices for item in full
    }


def test_questions_about_one_piece_of_information_belong_together(tmp_path: Path) -> None:
    items = list(BENCHMARK.items(fantom_rows(tmp_path / "f")))
    missed = [item for item in items if item.factors["context"] == "short" and not item.factors["accessible"]]
    pieces = {item.question: item.factors["piece"] for item in missed}
    boat = {piece for question, piece in pieces.items() if "boat" in question}
    assert len(boat) == 1
    assert len(set(pieces.values())) == 2
    heard = {item.factors["piece"] for item in items if item.factors["accessible"]}
    assert len(heard) == 1
    assert not heard & boat


def test_the_official_file_has_the_same_questions_and_says_its_pieces(tmp_path: Path) -> None:
    path = tmp_path / "fantom_v1.json"
    path.write_text(json.dumps(fantom_sets()))
    items, rows = list(BENCHMARK.items(path)), list(BENCHMARK.items(fantom_rows(tmp_path / "f")))
    assert sorted(map(asked, items)) == sorted(map(asked, rows))
    assert {item.id for item in items} == {item.id for item in rows}
    assert {item.factors["part"] for item in items} == {"0-1"}
    assert {item.cluster for item in items} == {"conversation/0"}
    assert {item.factors["tom_type"] for item in items} == {"first-order", "second-order:acyclic"}
    assert {item.factors["piece"] for item in items} == {"0-1-0/heard", "0-1-0/missed", "0-1-1/missed"}
    assert "2 questions whose two options are the same are left out." in BENCHMARK.audit(path, print).lines


def test_the_official_file_may_have_its_sets_column_by_column(tmp_path: Path) -> None:
    """The authors' program reads the file by pandas, which takes both forms."""
    sets = fantom_sets()
    columns = {name: {str(row): one[name] for row, one in enumerate(sets)} for name in sets[0]}
    (tmp_path / "rows.json").write_text(json.dumps(sets))
    (tmp_path / "columns.json").write_text(json.dumps(columns))
    assert list(BENCHMARK.items(tmp_path / "columns.json")) == list(BENCHMARK.items(tmp_path / "rows.json"))


def test_passages_of_one_conversation_are_one_cluster(tmp_path: Path) -> None:
    """Also a passage that is asked about alone, if the text of one conversation holds it; and no other."""
    fantom_rows(tmp_path)
    more = [("Ian: So little!\nUgo: I am back.", "What does Ugo believe?"), ("Eva: Hello.", "What does Eva believe?")]
    with (tmp_path / fantom_name(True, "short", 1)).open("a", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(
            [told, question, "['It is so.', 'It is not so.']", "It is so."] for told, question in more
        )
    items = {item.question: item for item in BENCHMARK.items(tmp_path)}
    boat, within, other = (items[question] for question in (QUESTIONS[True, 1][0][0], more[0][1], more[1][1]))
    assert boat.cluster == within.cluster != other.cluster
    assert boat.factors["part"] != within.factors["part"]


def test_the_options_alone_give_the_halves_away(tmp_path: Path) -> None:
    rules = {rule.name: rule for rule in OWN}
    for item in BENCHMARK.items(fantom_rows(tmp_path)):
        heard = item.factors["accessible"]
        assert rules["affirming else longest" if heard else "denying else shortest"].answer(item) == item.answer
    same = item.model_copy(update={"choices": ("Ugo knows.", "Ugo knows it all."), "answer": "Ugo knows."})
    assert [rule.answer(same) for rule in OWN] == ["Ugo knows.", "Ugo knows it all."]


def test_empty_lines_of_speakers_are_said(tmp_path: Path) -> None:
    path = fantom_rows(tmp_path) / fantom_name(True, "short", 1)
    assert not any("is empty" in line for line in BENCHMARK.audit(tmp_path, print).lines)
    path.write_text(path.read_text().replace("Ian: So little!", "Ian: "))
    assert "1 questions show a conversation in which somebody's line is empty." in BENCHMARK.audit(path, print).lines


def test_only_the_whole_conversation_makes_passages_of_its_own(tmp_path: Path) -> None:
    fantom_rows(tmp_path)
    path = tmp_path / fantom_name(True, "full", 1)
    (item,) = BENCHMARK.items(path)
    assert item.factors["context"] == "full"
    assert item.id in {one.id for one in BENCHMARK.items(tmp_path)}, "ids do not depend on the other files"


def test_the_order_of_options_says_nothing_of_the_answer() -> None:
    places = [mixed((f"Ivo knows {n}", f"Ivo does not know {n}"), f"q{n}").index(f"Ivo knows {n}") for n in range(400)]
    assert 160 < sum(places) < 240
    assert mixed(("a", "b"), "q") == mixed(("b", "a"), "q")


OFFICIAL = [
    ("({0})", True), ("{0}) Ugo knows", True), ("{0}.", True), ("{0}: yes", True), ("{0}, yes", True), ("{0}", True),
    ("It is ({0}), I think", True), ("Answer: ({0})", True), ("({1})", False), ("It is {0}", False),
    ("({1}) and not ({0})", True),
]  # fmt: skip


@pytest.mark.parametrize(("form", "right"), OFFICIAL)
def test_the_official_reading_is_that_of_the_authors_program(form: str, right: bool, tmp_path: Path) -> None:
    for item in BENCHMARK.items(fantom_rows(tmp_path / "f")):
        letters = "ab" if item.choices[0] == item.answer else "ba"
        assert official(item, Reading(None, None, text=form.format(*letters))) == {"metric_official": right}
        said = read(form.format(*letters), Lettered(item.choices))
        if right and form not in ("({1}) and not ({0})", "{0}, yes"):
            assert said.answer == item.answer
    assert official(item, Reading(None, None, text='{"answer": "x"}')) == {}


def test_the_official_form_shows_the_conversation_and_the_options_in_brackets(tmp_path: Path) -> None:
    item = next(iter(BENCHMARK.items(fantom_rows(tmp_path / "f"))))
    turns, _ = talk(Strategy.load("fantom_official"), item, lambda turn: "(a)")
    system, message = turns[0].messages
    assert system["role"] == "system"  # some models' templates would put one of their own there
    end = f"\n\nQuestion: {item.question}\n(a) {item.choices[0]}\n(b) {item.choices[1]}\n\nChoose an answer from above:"
    assert message["content"] == "\n".join(item.story) + end


BROKEN = [
    ("context,question\nx,y\n", r":1: columns: found 'context,question'; expected context,question,answer_choices,gt"),
    ("{head}x,y\n", r":2: row: found '2 cells'; expected the 4 columns"),
    ("{head}A: x,q?,'ab',a\n", r":2: answer_choices: found \"'ab'\"; expected a list of two texts"),
    ("{head}A: x,q?,\"['a', 1]\",a\n", ":2: answer_choices: .*; expected a list of two texts"),
    ("{head}A: x,q?,\"__import__('os')\",a\n", ":2: answer_choices"),
    ("{head}A: x,q?," + "[" * 9000 + ",a\n", ":2: answer_choices"),
    ("{head}A: x,q?,\"['a', 'b']\",c\n", ":2: gt_answer: found 'c'; expected one of answer_choices"),
    ("{head},q?,\"['a', 'b']\",a\n", ":2: context: found ''; expected text"),
    ("{head}A: x, ,\"['a', 'b']\",a\n", ":2: question: found ''; expected text"),
    (
        "{head}A: x,q?,\"['" + "a" * 2001 + "', 'b']\",b\n",
        r":2: row: makes no item \(choices.0: .*2000 characters\); take",
    ),
    ('{head}"A: x,q', ":2: row: found .*; expected comma-separated values"),
]


@pytest.mark.parametrize(("text", "reason"), BROKEN)
def test_a_broken_row_is_named_by_line_and_field(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / fantom_name(True, "short", 1)
    path.write_text(text.replace("{head}", "context,question,answer_choices,gt_answer\n"))
    with pytest.raises(ContentError, match=reason) as caught:
        list(BENCHMARK.items(path))
    assert "\n" not in str(caught.value)


SETS = [
    (lambda one: one.pop("beliefQAs"), "0.beliefQAs: found"),
    (lambda one: one["beliefQAs"].append(3), "0.beliefQAs.4.question: found None; expected text"),
    (lambda one: one["beliefQAs"][0].update(wrong_answer=""), "0.beliefQAs.0.wrong_answer: found ''"),
    (
        lambda one: one["beliefQAs"][0].update(question_type="tom:other"),
        "0.beliefQAs.0.question_type: found 'tom:other'",
    ),
    (lambda one: one["beliefQAs"][0].update(tom_type="third"), "0.beliefQAs.0.tom_type: found 'third'; expected first"),
    (lambda one: one.pop("full_context"), "0.full_context: found None"),
    (lambda one: one.update(set_id=4), "0.set_id: found 4"),
]


@pytest.mark.parametrize(("change", "reason"), SETS)
def test_a_broken_set_is_named_by_its_field(change, reason: str, tmp_path: Path) -> None:
    sets = fantom_sets()
    sets[0]["beliefQAs"] = sets[0]["beliefQAs"][:4]
    change(sets[0])
    (tmp_path / "fantom_v1.json").write_text(json.dumps(sets))
    with pytest.raises(ContentError, match=reason):
        list(BENCHMARK.items(tmp_path / "fantom_v1.json"))


def test_other_files_and_missing_ones_are_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"github.com/SCAI-JHU/AutoToM \(licence: MIT for the data, for eval"):
        list(BENCHMARK.items())
    with pytest.raises(ConfigError, match=r"holds no file FANToM_"):
        list(BENCHMARK.items(tmp_path))
    other = tmp_path / "other.csv"
    other.write_text("x")
    with pytest.raises(ContentError, match=r"found 'other\.csv'; expected a name such as"):
        list(BENCHMARK.items(other))
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(ContentError, match="expected a list of sets"):
        list(BENCHMARK.items(tmp_path / "x.json"))


def test_validate_names_the_files_that_are_others_or_lack(tmp_path: Path) -> None:
    fantom_rows(tmp_path)
    (tmp_path / fantom_name(False, "full", 1)).unlink()
    found = BENCHMARK.validate(tmp_path, print)
    assert found.code == 1
    assert len(found.lines) == 1 + 7 + 1
    assert found.lines[-1] == "Not at hand: inaccessible_full_context_first-order.csv."
    assert blob(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a", "as git prints it"


def test_the_known_files() -> None:
    path = data_file(
        "AutoToM/benchmarks/full_data_formatted/FANToM_tom:belief:accessible_short_context_first-order.csv"
    )
    found = BENCHMARK.validate(path.parent, print)
    assert not any("is not the file" in line for line in found.lines)
    short = [item for item in BENCHMARK.items(path.parent) if item.factors["context"] == "short"]
    assert Counter((item.factors["accessible"], item.factors["order"]) for item in short) == {
        (True, 1): 228, (True, 2): 319, (False, 1): 642, (False, 2): 351,
    }  # fmt: skip
    assert max(len(choice) for item in short for choice in item.choices) == 1232
