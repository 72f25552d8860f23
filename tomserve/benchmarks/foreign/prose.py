"""Take the texts of published benchmarks apart into lines and sentences, and order options without a rule.

>>> told('Ivo came. "Is tea left?" he said.\\nNobody knew.')
('Ivo came.', '"Is tea left?" he said.', 'Nobody knew.')
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import orjson

_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"'”’]))\s+(?![a-z])")


def told(text: str) -> tuple[str, ...]:
    """The sentences of a text, those of each line apart from those of the next."""
    return tuple(sentence for line in lines(text) for sentence in _END.split(line) if sentence)


def lines(text: str) -> tuple[str, ...]:
    """The lines of a text that hold anything, with single spaces for white space."""
    return tuple(filter(None, (" ".join(line.split()) for line in text.splitlines())))


def key(*parts: object) -> str:
    """Twelve hexadecimal digits that follow from the parts, which are data that JSON can write."""
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:12]


def mixed(options: Sequence[str], seed: str) -> tuple[str, ...]:
    """The options in an order that follows from each of them and the seed alone, and not from which is right."""
    return tuple(sorted(options, key=lambda option: (key(seed, option), option)))
