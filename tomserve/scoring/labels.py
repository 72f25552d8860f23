"""Match what a model wrote to a closed set of labels: exactly, then without regard to spelling, then without article.

A step decides only where exactly one label fits; where two fit there is no match, because nothing is guessed.

    >>> match(" The Jar. ", ("jar", "box"))
    ('jar', 'article')

Choices that were offered by letter are also matched with spaces for underscores, and by their letter. Where a letter
stands together with the words of another choice the words count, because a letter is mistaken more easily; the step
says so.

    >>> match("(B) blue box", Lettered(("red_box", "blue_box"))), match("B. red_box", Lettered(("red_box", "blue_box")))
    (('blue_box', 'letter'), ('red_box', 'against-letter'))
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

AGAINST_LETTER = "against-letter"
"""The step that found a label in words beside the letter of another one."""

UNKNOWN = "unknown"
LONGEST = 260
"""Most characters of a label with its quotes and the like where no choice is long; a longer text is prose."""
BESIDE = 60
"""How many characters of quotes, letters and the like may stand beside a long choice."""

_ARTICLE = re.compile(r"(?:the|an|a)\s+", re.I)
_WRAPPING = "\u200b\ufeff \t\r\n\"'`*_“”‘’«»()[]「」『』【】（）［］"
_ENDING = ".,;:!。，；：！、" + _WRAPPING


_LETTER = re.compile(r"(?:(?:option|choice|answer)\s+)?[(\[]?([a-z])(?:[)\]]?\s*[.):,\]-]*\s*(?<=[\s.):,\]-])(.+))?")
_LETTER_LAST = re.compile(r"(.*[^\s,])[\s,]*[(\[]\s*(?:option\s+)?([a-z])")


Order = tuple[str | None, ...]
"""The choices beside the letters A, B, C; None for a letter that stood beside something else."""


class Lettered(tuple[str, ...]):
    """Choices that were offered as A, B, C. offered: those beside these letters; where nothing is said they are the
    choices in their order but for "unknown", a label of chains only. None of them has a letter where it is empty."""

    offered: Order

    def __new__(cls, choices: Iterable[str], offered: Order | None = None) -> Self:
        """The choices, and the order in which they were offered."""
        made = super().__new__(cls, choices)
        made.offered = tuple(choice for choice in made if choice != UNKNOWN) if offered is None else offered
        return made

    def by_letter(self, letter: str) -> str | None:
        """The choice of that small letter, None where there is none."""
        place = ord(letter) - ord("a")
        return self.offered[place] if place < len(self.offered) else None


def longest(choices: Sequence[str]) -> int:
    """Most characters of a text that is one of these choices and no prose: LONGEST, more where a choice is so long."""
    return max(LONGEST, BESIDE + max(map(len, choices), default=0))


def further(choices: Sequence[str]) -> int:
    """How many characters longer than usual a text may be that names one of these choices; 0 where none is long."""
    return longest(choices) - LONGEST


def match(value: Any, choices: Sequence[str]) -> tuple[str | None, str]:
    """The label that a value names, and the step that found it.

    The step is "" for an exact fit, "spelling" where case, white space, quotes or a full stop differ, "article" where a
    leading "the", "a" or "an" differs as well; for Lettered choices also "words", "letter" and "against-letter".
    (None, "") where nothing fits, or more than one label does.
    """
    if not isinstance(value, str):
        return None, ""
    if value in choices:  # which is so for most values, and known sooner than the length of the longest choice
        return value, ""
    if len(value) > longest(choices):
        return None, ""
    text = unicodedata.normalize("NFC", value)
    if text in choices:
        return text, ""
    steps: tuple[tuple[str, Callable[[str], str]], ...] = (("spelling", _spelled), ("article", _bare))
    for step, normal in steps:
        wanted = normal(text)
        fits = [choice for choice in choices if normal(choice) == wanted] if wanted else []
        if fits:
            return (fits[0], step) if len(fits) == 1 else (None, "")
    return _by_letter(text, choices) if isinstance(choices, Lettered) else (None, "")


def _by_letter(text: str, choices: Lettered) -> tuple[str | None, str]:
    """The label that a text names in words or by its letter, as `match` returns it."""
    if (label := _in_words(text, choices)) is not None:
        return label, "words"
    spelled = _spelled(text)
    if (found := _LETTER.fullmatch(spelled)) is not None:
        letter, beside = found.groups()
    elif (found := _LETTER_LAST.fullmatch(spelled)) is not None:
        beside, letter = found.groups()
    else:
        return None, ""
    label = choices.by_letter(letter)
    words = None if beside is None else _in_words(beside, choices)
    if words is not None and label is not None and words != label:
        return words, AGAINST_LETTER
    return (label, "letter") if label is not None and (beside is None or words == label) else (None, "")


def _in_words(text: str, choices: Lettered) -> str | None:
    """The one choice that the text is when underscores and hyphens are read as spaces."""
    wanted = in_words(_bare(text))
    fits = [choice for choice in choices if in_words(_bare(choice)) == wanted]
    return fits[0] if len(fits) == 1 else None


def in_words(text: str) -> str:
    """The text with single spaces for underscores, hyphens and white space."""
    return " ".join(re.split(r"[\s_-]+", text)).strip()


def _spelled(text: str) -> str:
    """The text without case, quotes, brackets and marks of markdown around it, and with single spaces."""
    return " ".join(text.lstrip(_WRAPPING + "-").rstrip(_ENDING).casefold().split())


def _bare(text: str) -> str:
    """The text as `_spelled` gives it, without a leading article."""
    spelled = _spelled(text)
    found = _ARTICLE.match(spelled)
    return spelled[found.end() :] if found else spelled
