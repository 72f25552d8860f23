"""Thoughts in a reply are told from what it says, whatever a model's marks are, and prose is never taken for them."""

import pytest

from tests.conftest import make_item
from tomserve.scoring.score import ONLY_THOUGHTS, read_response
from tomserve.scoring.thoughts import CUT, opens_thoughts, split_thoughts

THOUGHT = 'It might be {"answer": "salt"}, but no.'


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("<think>", "</think>\n"),
        ("\n<thinking>", "</thinking>"),
        ("<thought>", "</thought>"),
        ("<reasoning>", "</reasoning>"),
        ("<seed:think>", "</seed:think>"),
        ("[THINK]", "[/THINK]"),
        ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
        ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
        ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>"),
        ("analysis", "assistantfinal"),
        ("<|channel>thought", "<channel|>"),
    ],
)
def test_every_spelling_with_and_without_its_end_or_its_beginning(opening: str, closing: str) -> None:
    whole = split_thoughts(f"{opening}{THOUGHT}{closing}tea")
    assert (whole.text.strip(), whole.thought, whole.cut) == ("tea", THOUGHT, False)
    assert split_thoughts(f"{opening}{THOUGHT}")[0::3] == ("", True)
    assert split_thoughts(f"{THOUGHT}{closing}tea")[0::2] == (closing[len(closing.rstrip()) :] + "tea", THOUGHT)
    assert opens_thoughts(f"user: Where?\n{opening}\n") == (opening != "analysis")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<think>a</think><reasoning>b</reasoning>tea", "tea"),
        ("Sure. <think>salt?</think>tea", "tea"),
        ("tea<think>or salt?</think>", "tea"),
        ("tea</think>", "tea"),
        ("Here is my thought process: salt? Here is my response: tea", " tea"),
        *(
            (prose, prose)
            for prose in (
                "Here is my thought process: she saw it. Answer: tea",
                "analysis of the story: tea",
                "Analysis: salt? No.\nassistant final: tea",
                "Tea. <reasoning>She saw it.</reasoning> So I say.",
                '{"why": "</thinking> <think>salt</think>", "answer": "tea"}',
                "A [THINK] mark, a <thinking> tag",
            )
        ),
    ],
)
def test_prose_around_marks_is_kept(text: str, said: str) -> None:
    assert split_thoughts(text).text == said


@pytest.mark.parametrize(("status", "reason"), [("ok", ONLY_THOUGHTS), ("length", CUT)])
def test_a_reply_of_thoughts_alone_says_why_it_has_no_answer(status: str, reason: str) -> None:
    row = {"status": status, "text": " ", "reasoning": "It is tea."}
    assert read_response(make_item(), row, False).reason == reason
