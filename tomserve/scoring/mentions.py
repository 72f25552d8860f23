"""Find where a text names the offered choices: by their words, by their letters, or by both.

    >>> offered = Lettered(("red_box", "blue_box"))
    >>> [(found.choice, found.by) for found in mentions("Not the Red box: option B.", offered)]
    [('red_box', 'words'), ('blue_box', 'letter')]

A letter counts only where choices were offered by letter (Lettered). Beside a letter the words of another choice may
stand; then the words count, because a letter is mistaken more easily, and the mention is marked "against letter".
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from tomserve.scoring.labels import Lettered, Order
from tomserve.scoring.wordings import key, wordings

WORDS, LETTER, BOTH, AGAINST = "words", "letter", "both", "against letter"
"""How a choice is named: by its words, by its letter, by both, or by words beside the letter of another choice."""


class Mention(NamedTuple):
    """A place of a text, from `start` to before `end`, that names `choice`.

    choice: None for a letter that no choice has. by: one of WORDS, LETTER, BOTH and AGAINST.
    """

    start: int
    end: int
    choice: str | None
    by: str


_LETTERS = re.compile(
    r"(?<![\w'\u2019])(?:(?P<word>option|choice|letter)[ ]?[:#]?[ ]?)?"
    r"(?P<open>[(\[\"'\u201c]{0,2})(?P<letter>[A-Za-z])(?P<close>[)\]\"'\u201d]{0,2})(?P<after>[.:,;)]?)(?![\w'\u2019])",
    re.I,
)
_GOES_ON = re.compile(r"\W*$|[.,;:)]| (?:is|because|since|as|would|seems|must)\b")
_DETERMINER = re.compile(r"no (?!(?:he|she|they|it|i|we|because|since|as)\b)[a-z]", re.I)
"""A "no" that belongs to the word after it, as in "no one" and "no reason", and names no choice."""
_AND = re.compile(r"\s*(?:or|and|/|\|)\W", re.I)
_BESIDE = re.compile(
    r"[\s)\].:,;\"'\u201c\u201d(=\u2013\u2014-]{0,8}(?:(?:the|an|a|i\.e\.|namely)\s)?[\"'\u201c]?", re.I
)
_BEFORE = re.compile(r"[\s\"'\u201d,]{0,4}[(\[]?")


def mentions(text: str, choices: Sequence[str]) -> tuple[Mention, ...]:
    """Every place of the text that names a choice, in order, in time proportional to the length of the text.

    text: a line or sentence with single spaces for white space. Of names that overlap the one that begins first
    counts, then the longer one. Two choices that differ by an article alone are told apart only by the article.
    """
    return _mentions(text, tuple(choices), choices.offered if isinstance(choices, Lettered) else ())


@lru_cache(maxsize=1024)  # a sentence is looked at for several rungs
def _mentions(text: str, choices: tuple[str, ...], offered: Order) -> tuple[Mention, ...]:
    pattern, named = wordings(choices)
    found = [Mention(one.start(), one.end(), named.get(key(one[0])), WORDS) for one in pattern.finditer(text)]
    found = [one for one in found if one.choice is None or not _DETERMINER.match(text, one.start)]
    if not offered:
        return tuple(found)
    starts = [one.start for one in found]
    free = []
    for one in _letters(text, Lettered(choices, offered)):
        place = bisect(starts, one.start) - 1
        if place < 0 or found[place].end <= one.start:  # a letter that is a part of a name is no letter
            free.append(one)
    return tuple(_joined(text, found, free))


def _letters(text: str, choices: Lettered) -> list[Mention]:
    """Single letters that can be meant as the letter of a choice. "A" and "I" are words, and small letters may be, so
    that these count only with a bracket, a full stop or the like, or after a word such as "option"."""
    found = []
    first, last = len(text) - len(text.lstrip(" .:-")), len(text.rstrip(" ."))
    for one in _LETTERS.finditer(text):
        if text.startswith("(", one.end()):
            continue  # such as "H(A)"
        letter, closed = one["letter"], bool(one["close"]) or one["after"] in (")", ":", ".")
        after_word = bool(one["word"]) and (
            letter.isupper() or closed or letter != "a" or _GOES_ON.match(text, one.end()) is not None
        )
        marked = (
            after_word
            or bool(one["open"] and one["close"])
            or (one["close"] == ")" and text[max(0, one.start() - 1)] != "(")
        )
        begins = one.start() <= first and (closed or one.end() >= last or _AND.match(text, one.end()) is not None)
        if marked or begins or (letter.isupper() and (letter not in "AI" or closed or one.end() == len(text))):
            end = one.end() - len(one["after"])
            found.append(Mention(one.start(), end, choices.by_letter(letter.casefold()), LETTER))
    return found


def _joined(text: str, names: list[Mention], letters: list[Mention]) -> list[Mention]:
    """The mentions in order, a letter and words side by side as one."""
    merged: list[Mention] = []
    for one in sorted([*names, *letters]):
        last = merged[-1] if merged else None
        if last is not None and {last.by, one.by} == {LETTER, WORDS}:
            gap = text[last.end : one.start]
            if one.by == WORDS and _BESIDE.fullmatch(gap):
                by = BOTH if last.choice == one.choice else AGAINST
                merged[-1] = Mention(last.start, one.end, one.choice, by)
                continue
            bracketed = text[one.start] in "([" or gap.rstrip().endswith(("(", "["))
            if one.by == LETTER and bracketed and _BEFORE.fullmatch(gap):
                by = BOTH if last.choice == one.choice else AGAINST
                merged[-1] = Mention(last.start, one.end, last.choice, by)
                continue
        merged.append(one)
    return merged
