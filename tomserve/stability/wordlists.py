"""Lists of words, written as texts that a person can read and edit.

>>> sorted(listed("tea salt\\n tea"))
['salt', 'tea']
"""

from __future__ import annotations

import re
from collections.abc import Iterable


def listed(text: str) -> frozenset[str]:
    """The words of a text with white space between them."""
    return frozenset(text.split())


def alternatives(words: Iterable[str]) -> str:
    """A regular expression for any of these words, the longest first."""
    return "|".join(map(re.escape, sorted(words, key=lambda word: (-len(word), word))))
