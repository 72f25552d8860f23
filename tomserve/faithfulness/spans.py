"""Where the members of a JSON object stand in a text: parsers tell the values, but not their places.

>>> [(one.key, one.value) for one in members('{"beliefs": ["tea"], "answer": "tea"}', 0, "answer")]
[('beliefs', ['tea']), ('answer', None)]
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

STARTS = 200
"""How many braces of a text are tried as the beginning of an object, so that a hostile text takes no long time."""

_BLANK = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


class Member(NamedTuple):
    """One member of an object. key: as it is written. colon: the place behind its colon. start, end: of its value."""

    key: str
    colon: int
    start: int
    end: int
    value: Any


class Element(NamedTuple):
    """One element of a list. start, end: where it begins and ends. value: what it is."""

    start: int
    end: int
    value: Any


def objects(text: str, start: int, end: int, last: str) -> Iterator[list[Member]]:
    """The objects of a part of a text, each with its members up to the one called `last`; those without it are left
    out, and what follows it need not be complete."""
    place = text.find("{", start, end)
    for _ in range(STARTS):
        if place < 0:
            return
        found = members(text, place, last)
        if found is not None:
            yield found
        place = text.find("{", place + 1, end)


def members(text: str, at: int, last: str | None = None) -> list[Member] | None:
    """The members of the object that begins at that place.

    last: the key, in small letters, at whose colon the reading stops, its value being None; None to read to the end of
    the object. None where the text is no such object.
    """
    found: list[Member] = []
    at = _after(text, at + 1)
    while text.startswith('"', at):
        key = _value(text, at)
        at = _after(text, key.end) if key is not None else at
        if key is None or not text.startswith(":", at):
            return None
        colon, name = at + 1, str(key.value)
        if last is not None and name.strip().casefold() == last:
            return [*found, Member(name, colon, colon, colon, None)]
        value = _value(text, _after(text, colon))
        if value is None:
            return None
        found.append(Member(name, colon, *value))
        at = _after(text, value.end)
        if not text.startswith(",", at):
            break
        at = _after(text, at + 1)
    return found if last is None and text.startswith("}", at) else None


def elements(text: str) -> list[Element] | None:
    """The elements of a list that is the whole text; None where the text is none."""
    if not text.startswith("["):
        return None
    found: list[Element] = []
    at = _after(text, 1)
    while (one := _value(text, at)) is not None:
        found.append(one)
        at = _after(text, one.end)
        if not text.startswith(",", at):
            return found if text[at:] == "]" else None
        at = _after(text, at + 1)
    return found if not found and text[at:] == "]" else None


def _after(text: str, at: int) -> int:
    """The first place from there on that is not blank."""
    blank = _BLANK.match(text, at)
    return blank.end() if blank is not None else at


def _value(text: str, at: int) -> Element | None:
    """The JSON value that begins at that place; None where none does, or one that is nested too deep."""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None
    return Element(at, end, value)
