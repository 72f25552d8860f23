"""The one place that takes API keys out of what a server said, before any of it is cut, shown or written.

A key is found as it is, and as it stands in a URL, in JSON, in HTML, in Python and in base64, alone or within a longer
text such as ``Bearer KEY``. A server that disguises it in other ways, or sends it in pieces, is not found out.

>>> Redactor("sk-0123456789")("you sent Bearer sk-0123456789"), Redactor("EMPTY")("the EMPTY jar")
('you sent Bearer ***', 'the EMPTY jar')
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, quote_plus

import orjson

LEAST = 8
"""Characters that a key must have to be masked. Shorter ones, such as EMPTY, are no secrets but may be words of an
answer."""

MASKED = "***"


class Redactor:
    """Replaces the keys in the texts that it is called with; None and short keys are left out."""

    __slots__ = ("_spellings", "looks")

    def __init__(self, *keys: str | None) -> None:
        found = {one for key in keys if key is not None and len(key) >= LEAST for one in _spellings(key)}
        # The longest comes first, so that nothing of a longer spelling is left when a shorter one is part of it.
        self._spellings = tuple(sorted(found, key=lambda one: (-len(one), one)))
        self.looks = bool(found)

    def __call__(self, text: str) -> str:
        """The text without the keys; the same object where it holds none."""
        for spelling in self._spellings:
            if spelling in text:
                text = text.replace(spelling, MASKED)
        return text

    def redact_json(self, value: Any) -> Any:
        """What was read from JSON, with the keys in its texts and names replaced; the same object without any, None
        where the key can only be taken out together with what is around it, such as a number."""
        if not self.looks:
            return value
        try:
            text = orjson.dumps(value).decode()
            return value if (masked := self(text)) is text else orjson.loads(masked)
        except (orjson.JSONDecodeError, orjson.JSONEncodeError):  # the latter for what is nested too deeply
            return None


def _spellings(key: str) -> Iterator[str]:
    yield from (key, repr(key)[1:-1], html.escape(key), html.escape(key, quote=False))
    for quoted in (quote(key), quote(key, safe=""), quote_plus(key)):
        yield from (quoted, re.sub("%..", lambda code: code[0].lower(), quoted))
    escaped = orjson.dumps(key).decode()[1:-1]
    yield from (escaped, escaped.replace("/", "\\/"))
    for before in range(3):  # three bytes make four characters, so it depends on what stands before, by three
        coded = base64.b64encode(b"\0" * before + key.encode())
        own = coded[-(-before * 8 // 6) : (before + len(key.encode())) * 8 // 6].decode()
        yield from (own, own.replace("+", "-").replace("/", "_"))


def clean_text(text: str, most: int) -> str:
    """A text that is fit to be shown and kept: of at most so many characters, without those that cannot be printed."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text[:most])
