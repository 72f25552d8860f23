"""From a model's text to an answer and a belief chain, or to the reason why there is none.

The rungs, tried in order and recorded in ``parse``: ``json`` (the text is the JSON object), ``fenced`` (inside one
code fence), ``embedded`` (the only JSON object with an answer inside other text). Labels are matched exactly, then
without regard to case and outer white space. What fits two labels is invalid: there are no guesses.

    >>> read('{"answer": "Tea"}', ("tea", "salt")).answer
    'tea'
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

_FENCE = re.compile(r"```[a-zA-Z]*[ \t]*\n(.*?)```", re.S)


@dataclass(frozen=True, slots=True)
class Reading:
    """`answer` None: invalid, for `reason`. `chain`: (sentence, label) pairs in order, None where none could be read.

    `chain_reason` says why there is no chain although one was given.
    """

    parse: str | None
    answer: str | None
    reason: str | None = None
    chain: tuple[tuple[int, str], ...] | None = None
    chain_reason: str | None = None


def read(text: str, choices: Sequence[str], sentences: int | None = None) -> Reading:
    """Read one reply. `sentences`: length of the story, bounds the sentence numbers of a chain."""
    found = _objects(text)
    if isinstance(found, str):
        return Reading(None, None, found)
    parse, data = found
    answer = _label(data.get("answer"), choices)
    chain, chain_reason = _chain(data["beliefs"], choices, sentences) if "beliefs" in data else (None, None)
    if answer is None:
        shown = repr(data.get("answer"))[:60]
        reason = "no field 'answer'" if "answer" not in data else f"answer {shown} is not one of the labels"
        return Reading(parse, None, reason, chain, chain_reason)
    return Reading(parse, answer, None, chain, chain_reason)


def _objects(text: str) -> tuple[str, dict[str, Any]] | str:
    """(rung, object), or why there is none."""
    if (data := _load(text)) is not None:
        return "json", data
    fenced = [data for body in _FENCE.findall(text) if (data := _load(body)) is not None]
    if len(fenced) == 1:
        return "fenced", fenced[0]
    if len(fenced) > 1:
        return "several JSON objects"
    embedded = [data for body in _braced(text) if (data := _load(body)) is not None and "answer" in data]
    if len(embedded) == 1:
        return "embedded", embedded[0]
    if len(embedded) > 1:
        return "several JSON objects with an answer"
    return "empty text" if not text.strip() else "no JSON object with an answer"


def _load(text: str) -> dict[str, Any] | None:
    try:
        data = orjson.loads(text.strip())
    except orjson.JSONDecodeError:
        return None
    return data if isinstance(data, dict) else None


def _braced(text: str) -> list[str]:
    """Outermost balanced {...} spans, in one pass; braces in JSON strings do not count."""
    spans, depth, start, quoted, escaped = [], 0, 0, False, False
    for index, character in enumerate(text):
        if quoted:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character in '"\n':
                quoted = False
        elif character == '"' and depth:
            quoted = True
        elif character == "{":
            start = index if depth == 0 else start
            depth += 1
        elif character == "}" and depth:
            depth -= 1
            if depth == 0:
                spans.append(text[start : index + 1])
    return spans


def _label(value: Any, choices: Sequence[str]) -> str | None:
    if not isinstance(value, str):
        return None
    text = unicodedata.normalize("NFC", value)
    if text in choices:
        return text
    folded = text.strip().casefold()
    fits = [choice for choice in choices if choice.casefold() == folded]
    return fits[0] if len(fits) == 1 else None


def _chain(
    value: Any, choices: Sequence[str], sentences: int | None
) -> tuple[tuple[tuple[int, str], ...] | None, str | None]:
    """A list of {"sentence", "belief"} or of labels. A sentence given twice: the last counts; out of order: sorted."""
    if not isinstance(value, list) or not value:
        return None, "beliefs is not a list with entries"
    found: dict[int, str] = {}
    for position, entry in enumerate(value, 1):
        number, belief = (entry.get("sentence"), entry.get("belief")) if isinstance(entry, dict) else (position, entry)
        if not isinstance(number, int) or isinstance(number, bool):
            return None, f"belief {position}: sentence is not a number"
        if number < 1 or (sentences is not None and number > sentences):
            return None, f"belief {position}: sentence {number} is out of range"
        label = _label(belief, choices)
        if label is None:
            return None, f"belief {position} is not one of the labels"
        found[number] = label
    return tuple(sorted(found.items())), None
