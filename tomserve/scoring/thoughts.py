"""The marks between which models write their thoughts and their answers, and what a reply says beside them.

Servers with a parser for a model's marks return its thoughts apart; others leave them in the text. A mark counts where
the reply begins with it, so that prose may speak of marks. A closing mark counts without an opening one, too, since
many templates put that into the prompt.

>>> split_thoughts('[THINK]{"answer": "jar"}? No.[/THINK]drawer').text
'drawer'
>>> split_thoughts("analysisIt may be the jar").cut, split_thoughts("Analysis: it is the jar").cut
(True, False)
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import orjson

from tomserve.scoring.labels import LetteredChoices, extra_length

THINK = ("<think>", "</think>")
"""The usual marks. As the only ones they also count in the middle of a reply."""

CUT = "the thinking was cut off before an answer"
"""Why a reply says nothing that was cut off inside its thoughts."""

_TAGS = ("think", "thinking", "thought", "thoughts", "reasoning", "seed:think", "mm:think", "ifm|think")
_FINAL = r"(?:<\|end\|>)?(?:<\|start\|>assistant)?<\|channel\|>final ?(?:<\|constrain\|>\w{1,20})?<\|message\|>"
_MARKS = (
    *((re.escape(f"<{tag}>"), re.escape(f"</{tag}>")) for tag in _TAGS),
    (r"\[THINK\]", r"\[/THINK\]"),  # Mistral
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>\s{0,9}(?:<\|START_(?:RESPONSE|TEXT)\|>)?"),  # Cohere
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),  # Kimi
    (r"<\|open\|>think<\|sep\|>", r"<\|close\|>think<\|sep\|>\s{0,9}(?:<\|open\|>response<\|sep\|>)?"),
    (r"(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary)<\|message\|>", _FINAL),  # gpt-oss
    (r"analysis(?=[^\W_])", "assistantfinal"),  # the same where the server leaves special tokens out
    (r"<\|channel>thought", r"<channel\|>"),  # Gemma
    (r"<unused94>(?:thought)?", "<unused95>"),
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>\s{0,9}(?:<\|begin_of_solution\|>)?"),
    (r"Here(?: is|'s) my thought process:(?=[\s\S]*Here(?: is|'s) my response:)", r"Here(?: is|'s) my response:"),
)
"""(opening, closing) as regular expressions. Words alone open thoughts only where they cannot be prose: glued to what
follows (harmony), or with their counterpart (Granite)."""

_OPENINGS = tuple(re.compile(opening) for opening, _ in _MARKS)
_CLOSINGS = tuple(re.compile(closing) for _, closing in _MARKS)
_OPENING = re.compile(r"\s*(?:" + "|".join(f"({opening})" for opening, _ in _MARKS) + ")")
_CLOSING = re.compile("|".join(f"({closing})" for _, closing in _MARKS[:-1]))
_HINTS = (">", "[/THINK]", "\u25c1/think", "assistantfinal")
"""One of these stands in every closing mark that counts alone: most replies hold none and are done at once."""


class SplitReply(NamedTuple):
    """What a reply says beside its thoughts."""

    text: str
    start: int = 0  # where the text stands in the reply
    thought: str | None = None  # None where it holds none
    cut: bool = False  # whether the reply was cut off inside its thoughts, so that nothing is said


def split_thoughts(text: str) -> SplitReply:
    """What a reply says beside its thoughts, in time proportional to its length."""
    start, thought = 0, None
    while (opened := _OPENING.match(text, start)) is not None:
        ends = [*_CLOSINGS[(opened.lastindex or 1) - 1].finditer(text, opened.end())]
        if not ends:
            return SplitReply("", len(text), text[opened.end() :], cut=True)
        thought = text[opened.end() : ends[-1].start()] if thought is None else thought
        start = ends[-1].end()
    if not any(hint in text for hint in _HINTS):
        return SplitReply(text[start:], start, thought)
    ends = sorted({end.lastindex: end for end in _CLOSING.finditer(text, start)}.values(), key=re.Match.start)
    if ends and _is_object(text[start:]):  # what stands in its texts is no mark
        ends = []
    for end in reversed(ends):
        opened = _OPENINGS[(end.lastindex or 1) - 1].search(text, start, end.start())
        if opened is not None and end[0] != THINK[1]:
            continue
        inside = text[start if opened is None else opened.end() : end.start()]
        if text[end.end() :].strip():
            return SplitReply(text[end.end() :], end.end(), inside if thought is None else thought)
        if opened is None:  # a stray mark after the answer: everything stands before it
            return SplitReply(text[start : end.start()], start, thought)
        return SplitReply(text[start : opened.start()], start, inside if thought is None else thought)
    return SplitReply(text[start:], start, thought)


def opens_thoughts(prompt: str) -> bool:
    """Whether a prompt ends in the mark that opens thoughts, so that the model begins inside of them."""
    return any(re.search(rf"(?:{opening})\s*\Z", prompt[-200:]) for opening, _ in _MARKS)


def _is_object(text: str) -> bool:
    """Whether the text is one JSON object and nothing else."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


_TITLE = re.compile(r"(?i)\W*[a-z ]{0,30}(?:answer|explanation|reasoning|analysis|step|conclusion)[\w ]{0,20}\W*")


def find_tags(text: str, choices: Sequence[str]) -> tuple[list[str], str]:
    """The texts in tags, boxes and lines after "####", in order and each once; and the whole text without its tags,
    where any of them holds something."""
    pattern = _answer_pattern(extra_length(choices), isinstance(choices, LetteredChoices))
    texts = dict.fromkeys(next(filter(None, found.groups()), "") for found in pattern.finditer(text))
    told = [one for one in texts if one.strip() and not _TITLE.fullmatch(one.strip())]
    return told, pattern.sub("", text) if told else text


_OPENS = r"[\s*\"\u201c(\[\uff08\u3010]{0,4}"
_ANSWER_LETTER = (
    rf"|(?<!not )(?<!\u4e0d\u662f)(?<!\u4e0d\u9009)(?<!\u5e76\u975e)\[\[[ ]?([A-Za-z])[ ]?\]\]"
    rf"|\u7b54\u6848(?:\u5e94\u8be5|\u5e94\u5f53|\u5e94)?[\u662f\u4e3a:\uff1a]{_OPENS}([A-Za-z])(?![A-Za-z])"
    rf"|(?:\u56e0\u6b64|\u6240\u4ee5|\u5e94\u8be5|\u5e94|\u6545|\u6211)\u9009\u62e9?{_OPENS}([A-Za-z])(?![A-Za-z])"
)
"""[[B]] unless denied, and Chinese for "the answer is B", "therefore choose B", "should choose B", "I choose B"."""


@lru_cache(maxsize=64)
def _answer_pattern(more: int, lettered: bool) -> re.Pattern[str]:
    """more: how many characters beyond those of short choices may stand in a tag; a bound keeps the time linear.
    lettered: whether letters alone count."""
    return re.compile(
        rf"<(?:final_)?answer>(?=([^<\n]{{0,{300 + more}}})</(?:final_)?answer>)"
        rf"|\\boxed\{{(?:\\(?:text|textbf|mathrm|mathbf)\{{)?(?=([^{{}}\n]{{0,{300 + more}}})\}})|(?:^"
        rf"|\n)#{{4}}[ ]?(?=([^\n:?]{{0,{60 + more}}}(?:\n|$)))" + (_ANSWER_LETTER if lettered else ""),
        re.I,
    )
