"""Matching what a model wrote to a closed label set: exactly, then by spelling, then without its article.

A step decides only where it fits one label; two fits are no match, never a guess.

    >>> match(" The Jar. ", ("jar", "box"))
    ('jar', 'article')
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

LONGEST = 260
"""Characters that a label with its decoration may have; longer text is prose."""

_ARTICLE = re.compile(r"(?:the|an|a)\s+", re.I)
_WRAPPING = "\u200b\ufeff \t\r\n\"'`*_“”‘’«»()[]"
_ENDING = ".,;:!" + _WRAPPING


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
    return None, ""


def _spelled(text: str) -> str:
    return " ".join(text.lstrip(_WRAPPING + "-").rstrip(_ENDING).casefold().split())


def _bare(text: str) -> str:
    spelled = _spelled(text)
    found = _ARTICLE.match(spelled)
    return spelled[found.end() :] if found else spelled
