"""The grade that another tool gave a reply: it is the score where it counts, and stands beside where it does not."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import make_item
from tests.helpers.scored import score_table
from tomserve.items import Item
from tomserve.scoring.grades import GRADED
from tomserve.scoring.score import OPEN, is_unread, noise_fields, read_response
from tomserve.scoring.table import read_table, write_scores

RIGHT = {"by": "match", "correct": True, "answer": "18", "value": 1.0, "counts": True}
WRONG = {**RIGHT, "correct": False, "answer": "17", "value": 0.0}
BESIDE = {**WRONG, "counts": False}


def open_item(number: int = 1, **changes: Any) -> Item:
    """A question that any text may answer."""
    return make_item(number, choices=[], answer="18", gold=None, **changes)


def row(text: str | None = "It is 18.", status: str = "ok", grade: Any = None, **more: Any) -> dict[str, Any]:
    told = {"strategy": "vanilla", "status": status, "text": text, **more}
    return told if grade is None else {**told, "graded": grade}


def scored(item: Item, one: dict[str, Any]) -> dict[str, Any]:
    return score_table("r", "m", [(item, one)]).row(0, named=True)


def test_a_grade_that_counts_is_the_score() -> None:
    names = ("correct", "status", "parse", "answer")
    for grade, right in ((RIGHT, True), (WRONG, False)):
        found = scored(open_item(), row(grade=grade))
        assert [found[name] for name in names] == [right, "ok", "graded", grade["answer"]]
        assert [found[name] for name in GRADED] == ["match", right, grade["answer"], grade["value"]]
        assert found["reason"] is found["floor_guess"] is None
        assert all(found[name] is None for name in found if name.startswith("rule_"))
    closed = scored(make_item(), row("tea", grade=WRONG))
    assert (closed["correct"], closed["answer"]) == (False, "17"), "also where our rules would read another answer"


def test_a_grade_that_does_not_count_stands_beside() -> None:
    found = scored(make_item(), row("Answer: tea", grade=BESIDE))
    assert (found["correct"], found["answer"]) == (True, "tea")
    assert (found["graded_correct"], found["graded_answer"]) == (False, "17")
    assert found["parse"] != "graded"
    unreadable = scored(make_item(), row("hm", grade={**BESIDE, "correct": True}))
    assert (unreadable["correct"], unreadable["status"], unreadable["graded_correct"]) == (False, "invalid", True)


def test_a_reply_that_nobody_graded_counts_as_wrong_and_says_why() -> None:
    for item in (open_item(), make_item()):
        found = scored(item, row("tea", grade={**RIGHT, "correct": None, "value": 0.5}))
        assert (found["correct"], found["status"], found["parse"]) == (False, "invalid", None)
        assert found["reason"] == "not graded by the tool that asked"
        assert found["graded_value"] == 0.5
    nothing = scored(open_item(), row())
    assert (nothing["correct"], nothing["status"]) == (False, "invalid")
    assert nothing["reason"] == "an open question, which only the tool that asked it can read"
    assert "graded_by" not in nothing


def test_a_request_that_failed_has_no_grade_that_counts() -> None:
    for status in ("timeout", "http_500", "refusal", "malformed"):
        found = scored(open_item(), row(None, status, RIGHT))
        assert (found["correct"], found["status"], found["answer"]) == (False, status, None)
    cut = scored(open_item(), row("It is 18", "length", RIGHT))
    assert (cut["correct"], cut["status"]) == (True, "length")


@pytest.mark.parametrize("odd", [True, [], {}, {"counts": "yes", "correct": True}, {"counts": True, "correct": 1}])
def test_a_grade_of_another_form_scores_nothing(odd: Any) -> None:
    found = scored(make_item(), row("Answer: salt", grade=odd))
    assert found["correct"] is False


def test_two_replies_of_one_text_keep_their_own_grades() -> None:
    """Replies of one text are otherwise scored once."""
    rows = [row("the same", grade=grade, sample=place) for place, grade in enumerate((RIGHT, WRONG, RIGHT))]
    found = score_table("r", "m", [(open_item(), one) for one in rows]).row(0, named=True)
    assert (found["samples"], found["samples_right"]) == (3, 2)
    assert found["correct_mean"] == pytest.approx(2 / 3)
    assert found["answer"] == "18", "the answer that most have"


@pytest.mark.parametrize(
    ("marks", "right", "sample"),
    [
        ("iCC", True, 1),  # the first mark would be wrong
        ("Cii", False, 1),
        ("iC", False, 0),  # a tie: the earlier one, as of answers
        ("Ci", True, 0),
        ("-iC", False, 1),  # one that failed has no vote
        ("--C", True, 2),
        ("---", False, 0),
        (["17", "17", "C"], False, 0),  # the marks vote where the answer of one that is right is not said
        (["17", "C", "C"], True, 1),
        (["i", "i", "18"], True, 2),  # else the answers do
        (["i", "-", "i"], False, 0),
    ],
)
def test_marks_vote_where_the_tool_does_not_say_the_answers(marks: Sequence[str], right: bool, sample: int) -> None:
    rows = []
    for place, mark in enumerate(marks):
        grade = {**(RIGHT if mark in ("C", "18") else WRONG), "answer": mark if mark.isdigit() else None}
        rows.append(row("a reply", "timeout" if mark == "-" else "ok", grade, sample=place))
    found = score_table("r", "m", [(open_item(), one) for one in rows]).row(0, named=True)
    assert (found["correct"], found["sample"]) == (right, sample)
    assert found["samples_read"] == sum(mark != "-" for mark in marks), "whatever was graded was read"


def test_a_reader_is_not_asked_about_open_questions_or_graded_replies() -> None:
    reading = read_response(open_item(), row("hm"), False)
    assert reading is OPEN
    assert not is_unread(row("hm"), reading)
    none = read_response(make_item(), row("hm"), False)
    assert is_unread(row("hm"), none)
    assert is_unread(row("hm", grade=BESIDE), none)
    assert not is_unread(row("hm", grade=RIGHT), none)
    assert not is_unread(row(None, "timeout"), none)


def test_the_noise_check_compares_replies_to_open_questions_by_their_texts() -> None:
    found = noise_fields(open_item(), row("a", key="k"), [(1, row("a", key="k")), (2, row("b", key="k"))])
    assert found == {"noise_compared": [1, 2], "noise_text": [2]}


def test_columns_of_grades_are_there_only_where_some_reply_has_one(tmp_path: Path) -> None:
    plain = score_table("r", "m", [(make_item(), row("tea"))])
    assert not set(GRADED) & set(plain.columns)
    mixed = score_table("r", "m", [(make_item(1), row("tea")), (make_item(2), row("tea", grade=BESIDE))])
    assert mixed["graded_by"].to_list() == [None, "match"]
    assert {name: mixed.schema[name] for name in GRADED} == GRADED
    write_scores(mixed, tmp_path / "s.csv")
    assert read_table(str(tmp_path / "s.csv")).select(*GRADED).equals(mixed.select(*GRADED))
    foreign = score_table("r", "m", [(make_item(), row("tea", grade="C"))])
    assert not set(GRADED) & set(foreign.columns), "another tool's field of that name is no grade of ours"
