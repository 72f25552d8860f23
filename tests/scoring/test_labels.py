"""Labels, and letters, which are read with the list of choices that was shown beside them."""

from typing import Any

import pytest

from tests.conftest import make_item
from tomserve.benchmarks.published.tombench import official_columns
from tomserve.scoring.answers import read_reply
from tomserve.scoring.grades import digest_question
from tomserve.scoring.labels import LONGEST, find_prompt_order, longest_label, match_label
from tomserve.scoring.score import read_response

CHOICES = ("tea", "salt", "unknown")


def test_how_long_a_label_may_be_follows_from_the_choices() -> None:
    assert longest_label(CHOICES) == longest_label(("x" * 200, "y")) == LONGEST == 260
    assert longest_label(("x" * 1200, "y")) == 1260
    assert read_reply(f"{'tea' + ' ' * 300}", CHOICES).answer == "tea"
    assert match_label("tea".ljust(261), CHOICES)[0] is None, "what is longer than any choice is prose"


ITEM = make_item(choices=["tea", "salt", "green tea"], answer="tea", gold=None)


LISTED = "A) green tea\n(B) tea\n**C.** salt"


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        (LISTED, ("green tea", "tea", "salt")),
        ("A. tea B. salt C. green tea Answer:", ("tea", "salt", "green tea")),
        ("A: Salt.\nB: none\nC: the rest\nD: green_tea", ("salt", None, None, "green tea")),
        (f"{LISTED}\nAnswer: B\n\n{{'A': 'salt', 'B': 'tea', 'C': 'green tea'}}", ("salt", "tea", "green tea")),
        ("A. tea pot\nB. tea for two\nC. salt", ()),
        ("Plan A: tea. Tea or salt?", ()),
        ("问题?A. salt（B）tea", ("salt", "tea")),
    ],
)
def test_the_order_that_a_prompt_shows(asked: str, shown: tuple[str | None, ...]) -> None:
    assert find_prompt_order(asked, ITEM.choices) == shown


@pytest.mark.parametrize(
    ("more", "reply", "answer"),
    [
        ({}, "A", "tea"),
        ({"asked": LISTED}, "A", "green tea"),
        ({"asked": LISTED}, "The answer is B.", "tea"),
        ({"asked": LISTED, "offered": ["salt", None, "tea"]}, '{"answer": "C"}', "tea"),
        ({"asked": LISTED, "offered": ["salt", None, "tea"]}, "B", None),
        ({"asked": "?"}, "A", None),
        ({"asked": "?", "offered": [1, "coffee"]}, "B", None),
        ({"asked": "?"}, "A. green tea", "green tea"),
    ],
)
def test_a_letter_is_read_with_the_list_that_was_shown(more: dict[str, Any], reply: str, answer: str | None) -> None:
    assert read_response(ITEM, {"status": "ok", "text": reply, **more}, True).answer == answer


def test_the_authors_and_the_reader_are_told_the_order_too() -> None:
    rows = [{"status": "ok", "text": "[[B]]", **more} for more in ({}, {"asked": LISTED}, {"asked": "?"})]
    read = [official_columns(ITEM, read_response(ITEM, row, True)._replace(text="[[B]]")) for row in rows]
    assert [one.get("metric_official_correct") for one in read] == [False, True, None]
    assert len({digest_question(ITEM, row) for row in rows}) == 2
