"""Labels, and letters, which are read with the list of choices that was shown beside them.
Replies, choices and stories in Chinese: letters and whole choices are read, sentences are not guessed at."""

from typing import Any

import pytest

from tests.conftest import make_item
from tomserve.benchmarks.published.tombench import official_columns
from tomserve.scoring.answers import read_reply
from tomserve.scoring.baselines import find_first_mention, list_mentions
from tomserve.scoring.grades import digest_question
from tomserve.scoring.labels import LONGEST, LetteredChoices, find_prompt_order, longest_label, match_label
from tomserve.scoring.score import item_fields, read_response

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


@pytest.mark.parametrize(("benchmark", "second", "guess"), [("demo", "tea", 1 / 3), ("hitom", "salt", 1 / 2)])
def test_letters_and_a_guess_count_every_choice_but_one_that_is_not_offered(
    benchmark: str, second: str, guess: float
) -> None:
    item = make_item(choices=["unknown", "tea", "salt"], gold=None, benchmark=benchmark)
    assert read_response(item, {"status": "ok", "text": "Answer: B"}, True).answer == second
    assert item_fields(item)["floor_guess"] == guess


def test_the_authors_and_the_reader_are_told_the_order_too() -> None:
    rows = [{"status": "ok", "text": "[[B]]", **more} for more in ({}, {"asked": LISTED}, {"asked": "?"})]
    read = [official_columns(ITEM, read_response(ITEM, row, True)._replace(text="[[B]]")) for row in rows]
    assert [one.get("metric_official_correct") for one in read] == [False, True, None]
    assert len({digest_question(ITEM, row) for row in rows}) == 2


CHINESE = LetteredChoices(("背包", "手提包", "因为他累了，不想去。", "公文包"))

READ = {
    "[[B]]": "手提包",
    "[[B]]，因为他没有看到移动。": "手提包",
    "小明没有看到卷心菜被移动，因此他会去手提包里找。\n\n[[B]]": "手提包",
    "答案：（B）": "手提包",
    "答案应该是“D”。": "公文包",
    "B. 手提包。": "手提包",
    "因为他累了，不想去": "因为他累了，不想去。",
    "C. 因为他累了，不想去": "因为他累了，不想去。",
    "不是[[A]]，而是[[B]]": "手提包",
    "正确答案不是[[A]]。": None,
    "可能选A，也可能选B": None,
    "小明不会去手提包里找。": None,
    "[[E]]": None,
}


@pytest.mark.parametrize("text", READ)
def test_a_reply_in_chinese(text: str) -> None:
    assert read_reply(text, CHINESE, 1, "小明去哪里找卷心菜？").answer == READ[text]


def test_double_brackets_count_where_letters_were_shown_alone() -> None:
    assert read_reply("[[B]] because of this", CHINESE).parse == "stated"
    assert read_reply("[[B]] because of this", tuple(CHINESE)).answer is None


def test_marks_around_a_choice_are_those_of_chinese_too_and_a_full_stop_is_part_of_it() -> None:
    assert match_label("「手提包」。", tuple(CHINESE)) == ("手提包", "spelling")
    sentences = LetteredChoices(("No one does.", "The other one does"))
    assert match_label("A. No one does.", sentences)[0] == "No one does."
    assert match_label("(B) The other one does", sentences)[0] == "The other one does"


def test_a_chinese_story_mentions_choices_without_spaces() -> None:
    item = make_item(
        story=["小明把卷心菜从手提包移动到了背包。"], choices=["背包", "手提包", "包裹"], answer="背包", gold=None
    )
    assert list_mentions(item) == ("手提包", "背包")
    nested = make_item(story=["小明有手提包。"], choices=["手提包", "提包"], answer="提包", gold=None)
    assert find_first_mention(nested) == "手提包"
