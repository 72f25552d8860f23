"""Find the JSON object in a model's text: as strict JSON, in a code fence, in prose, as JSON5, or cut off at its end.

Every step takes time proportional to the length of the text; orjson and pyjson5 refuse objects nested too deep.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import orjson
import pyjson5

NONE = "no JSON object with an answer"
DIFFERENT = "several JSON objects with different answers"
HERE = "\x00"
"""The character that marks, in the text around an object, where the object stood."""

_FENCE = re.compile(r"```[a-zA-Z0-9]{0,20}[ \t]{0,20}\n(.*?)```", re.S)
_KEY = re.compile(r"""["']?\banswer["']?\s{0,20}:""", re.I)
Load = Callable[[str], dict[str, Any] | None]


class Found(NamedTuple):
    """A JSON object found in a text.

    rung: how it was found ("json", "fenced", "embedded", "json5" or "unclosed"). data: its members. around: the text
    outside of it, None where there is none. conflict: whether several objects gave this answer, but different beliefs.
    cut: whether a list or object inside of it was cut off.
    """

    rung: str
    data: dict[str, Any]
    around: str | None = None
    conflict: bool = False
    cut: bool = False

    def has(self, name: str) -> bool:
        """Whether the object has that key, in whatever letter case."""
        return self._key(name) is not None

    def get(self, name: str) -> Any:
        """The value of that key, None where there is none."""
        key = self._key(name)
        return None if key is None else self.data[key]

    def _key(self, name: str) -> str | None:
        if name in self.data:
            return name
        fits = [key for key in self.data if key.strip().casefold() == name]
        return fits[0] if len(fits) == 1 else None


def find(text: str) -> Found | str:
    """The object that holds the answer, or the reason why there is none; NONE where the text holds nothing like one."""
    if (data := _strict(text)) is not None:
        return _unique(text, Found("json", data))
    if not text.strip():
        return "empty text"
    if "{" not in text:
        return NONE
    fences = [(found[1], found.span()) for found in _FENCE.finditer(text)]
    spans, opened = _braced(text)
    braced = [(text[start:end], (start, end)) for start, end in spans]
    if (data := _json5(text)) is not None and Found("json5", data).has("answer"):
        return _unique(text, Found("json5", data))
    held: list[tuple[Found, tuple[int, int]]] = []
    taken = bytearray(len(text))  # 1 where an object was found already, as the braces inside of a fence are found twice
    for rung, load, places in (
        ("fenced", _strict, fences),
        ("embedded", _strict, braced),
        ("json5", _json5, fences),
        ("json5", _json5, braced),
    ):
        for body, span in places:
            if "answer" not in body.casefold() or taken.find(1, *span) >= 0:
                continue
            if (data := load(body)) is not None and Found(rung, data).has("answer"):
                checked = _unique(body, Found(rung, data))
                if isinstance(checked, str):
                    return checked
                held.append((checked, span))
                taken[span[0] : span[1]] = b"\x01" * (span[1] - span[0])
    tail = _unclosed(text[opened:]) if opened is not None else NONE
    if not held:
        return tail
    if isinstance(tail, Found) and tail.get("answer") != held[0][0].get("answer"):
        return DIFFERENT
    return _agreed(text, held)


def _strict(text: str) -> dict[str, Any] | None:
    try:
        data = orjson.loads(text)
    except orjson.JSONDecodeError:
        try:  # JSON knows fewer kinds of white space than Python
            data = orjson.loads(text.strip())
        except orjson.JSONDecodeError:
            return None
    return data if isinstance(data, dict) else None


def _json5(text: str) -> dict[str, Any] | None:
    try:
        data = pyjson5.decode(text)
    except (pyjson5.Json5Exception, ValueError, OverflowError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _agreed(text: str, held: list[tuple[Found, tuple[int, int]]]) -> Found | str:
    """The first of several objects, if all give the same answer; HERE marks in `around` where they stood."""
    first = held[0][0]
    if any(other.get("answer") != first.get("answer") for other, _ in held):
        return DIFFERENT
    conflict = any(other.get("beliefs") != first.get("beliefs") for other, _ in held)
    pieces, at = [], 0
    for _, (start, end) in sorted(held, key=lambda found: found[1]):
        pieces.append(text[at:start])
        at = end
    around = HERE.join([*pieces, text[at:]])
    return Found(first.rung, first.data, around if around.strip(HERE).strip() else None, conflict)


def _unique(body: str, found: Found) -> Found | str:
    """The object, or a reason where it gives its answer twice: parsers would silently keep the last."""
    if "\\u" not in body and (body.lower().count("answer") < 2 or len(_KEY.findall(body)) < 2):
        return found
    keys: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys[:] = [key.strip().casefold() for key, _ in pairs]  # the outermost object is noted last
        return dict(pairs)

    try:
        json.loads(body, object_pairs_hook=note)
    except (ValueError, RecursionError):
        return "the answer is given more than once"  # JSON5, whose keys cannot be listed in this way
    return "the answer is given more than once" if keys.count("answer") > 1 else found


def _braced(text: str) -> tuple[list[tuple[int, int]], int | None]:
    """The spans of the outermost balanced {...}, and the place of the first brace that is never closed, or None.

    Braces in double-quoted strings do not count. A string ends at the end of its line, so that a stray quotation mark
    hides no more than the rest of one line.
    """
    spans: list[tuple[int, int]] = []
    opened: list[int] = []
    quoted = False
    escaped = False
    for index, character in enumerate(text):
        if quoted:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character in '"\n':
                quoted = False
        elif character == '"' and opened:
            quoted = True
        elif character == "{":
            opened.append(index)
        elif character == "}" and opened:
            start = opened.pop()
            while spans and spans[-1][0] > start:
                spans.pop()
            spans.append((start, index + 1))
    return spans, opened[0] if opened else None


def _unclosed(text: str) -> Found | str:
    """An object that was cut off, read up to its last complete member; NONE where the answer is not among them."""
    stack: list[str] = []
    last, at = 0, [""]  # where the last complete member ends, and what closes it there
    quoted = escaped = False
    for index, character in enumerate(text):
        if quoted:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                quoted = False
        elif character == '"':
            quoted = True
        elif character in "{[":
            stack.append("}" if character == "{" else "]")
        elif character in "}]":
            if not stack or stack.pop() != character:
                return NONE
        elif character == "," and len(stack) <= 2:
            last, at = index, stack[::-1]
    closers = "".join(reversed(stack))
    for body, closing in ((text.rstrip().rstrip(","), "" if quoted else closers), (text[:last], "".join(at))):
        if closing and (data := _strict(body + closing)) is not None:
            # Inside a nested list or object its end is missing: the answer can stand, that member cannot.
            found = Found("unclosed", data, cut=len(closing) > 1)
            return _unique(body + closing, found) if found.has("answer") else NONE
    return NONE
