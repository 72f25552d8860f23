"""Replies, choices and stories in Chinese: letters and whole choices are read, sentences are not guessed at."""

import pytest

from tests.conftest import make_item
from tomserve.scoring.answers import read_reply
from tomserve.scoring.baselines import find_first_mention, list_mentions
from tomserve.scoring.labels import LetteredChoices, match_label

CHOICES = LetteredChoices(("背包", "手提包", "因为他累了，不想去。", "公文包"))

READ = {
    "[[B]]": "手提包",
    "[[B]]，因为他没有看到移动。": "手提包",
    "首先，小刚移动了它。但是小明不知道。因此，最可能的答案是[[B]]。": "手提包",
    "小明没有看到卷心菜被移动，因此他会去手提包里找。\n\n[[B]]": "手提包",
    "答案：（B）": "手提包",
    "答案应该是“D”。": "公文包",
    "【B】": "手提包",
    "手提包。": "手提包",
    "B. 手提包。": "手提包",
    "因为他累了，不想去": "因为他累了，不想去。",
    "C. 因为他累了，不想去": "因为他累了，不想去。",
    "不是[[A]]，而是[[B]]": "手提包",
    "正确答案不是[[A]]。": None,
    "我不选A": None,
    "可能选A，也可能选B": None,
    "[[A]]或[[B]]": None,
    "小明不会去手提包里找。": None,
    "[[E]]": None,
}


@pytest.mark.parametrize("text", READ)
def test_a_reply_in_chinese(text: str) -> None:
    assert read_reply(text, CHOICES, 1, "小明去哪里找卷心菜？").answer == READ[text]


def test_double_brackets_count_where_letters_were_shown_alone() -> None:
    assert read_reply("[[B]] because of this", CHOICES).parse == "stated"
    assert read_reply("[[B]] because of this", tuple(CHOICES)).answer is None


def test_marks_around_a_choice_are_those_of_chinese_too_and_a_full_stop_is_part_of_it() -> None:
    assert match_label("「手提包」。", tuple(CHOICES)) == ("手提包", "spelling")
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
