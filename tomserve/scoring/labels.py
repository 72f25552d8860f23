"""Matching what a model wrote to a closed label set: exactly, then by spelling, then without its article.

A step decides only where it fits one label; two fits are no match, never a guess.

    >>> match(" The Jar. ", ("jar", "box"))
    ('jar', 'article')

Choices that were offered by letter are matched with spaces for underscores, and by their letter, too; a letter beside
another label than its own is no match.

    >>> match("(B) blue box", Lettered(("red_box", "blue_box"))), match("B. red_box", Lettered(("red_box", "blue_box")))
    (('blue_box', 'letter'), (None, ''))
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

UNKNOWN = "unknown"
LONGEST = 260
"""Characters that a label with its decoration may have; longer text is prose."""

_ARTICLE = re.compile(r"(?:the|an|a)\s+", re.I)
_WRAPPING = "\u200b\ufeff \t\r\n\"'`*_“”‘’«»()[]"
_ENDING = ".,;:!" + _WRAPPING


_LETTER = re.compile(r"(?:(?:option|choice|answer)\s+)?[(\[]?([a-z])(?:[)\]]?\s*[.):,\]-]*\s*(?<=[\s.):,\]-])(.+))?")
_LETTER_LAST = re.compile(r"(.*[^\s,])[\s,]*[(\[]\s*(?:option\s+)?([a-z])")


class Lettered(tuple[str, ...]):
    """Choices that were offered in this order as A, B, ...; "unknown", a label of belief chains only, has no letter."""

    __slots__ = ()

    @property
    def offered(self) -> tuple[str, ...]:
        """Those that have a letter."""
        return tuple(choice for choice in self if choice != UNKNOWN)

    def by_letter(self, letter: str) -> str | None:
        """The choice of that small letter."""
        place = ord(letter) - ord("a")
        return self.offered[place] if place < len(self.offered) else None


def match(value: Any, choices: Sequence[str]) -> tuple[str | None, str]:
    """(label, step): step is "" for an exact fit, "spelling" where case, white space, quotes or a full stop differ,
    "article" where also a leading the, a or an does. (None, "") where nothing fits, or more than one label does."""
    if not isinstance(value, str) or len(value) > LONGEST:
        return None, ""
    if value in choices:
        return value, ""
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
    agrees = beside is None or _in_words(beside, choices) == label
    return (label, "letter") if label is not None and agrees else (None, "")


def _in_words(text: str, choices: Lettered) -> str | None:
    wanted = in_words(_bare(text))
    fits = [choice for choice in choices if in_words(choice.casefold()) == wanted]
    return fits[0] if len(fits) == 1 else None


def in_words(text: str) -> str:
    """Text with spaces for underscores and hyphens."""
    return " ".join(re.split(r"[\s_-]+", text)).strip()


def _spelled(text: str) -> str:
    return " ".join(text.lstrip(_WRAPPING + "-").rstrip(_ENDING).casefold().split())


def _bare(text: str) -> str:
    spelled = _spelled(text)
    found = _ARTICLE.match(spelled)
    return spelled[found.end() :] if found else spelled
