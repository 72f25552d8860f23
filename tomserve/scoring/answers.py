"""From a model's text to an answer and a belief chain, or to the reason why there is none.

The ladder: the first rung on which something stands decides, and its name is recorded in ``parse``.

| rung       | the text is                                                                                      |
|------------|--------------------------------------------------------------------------------------------------|
| json       | one JSON object                                                                                  |
| fenced     | prose with one JSON object in a code fence                                                       |
| embedded   | prose with one JSON object that has an answer                                                    |
| json5      | like one of these, but JSON5: trailing commas, single quotes, bare keys, comments                |
| unclosed   | a JSON object that was cut off after its answer was complete                                     |
| label      | a label and nothing else                                                                         |
| stated     | prose with "Answer: x" or "the answer is x"                                                      |

What was said before ``</think>`` is left out (``+think``). The answer is matched to the labels exactly, then by
spelling (``+spelling``: case, white space, quotes, full stop), then without its article (``+article``). Several
candidates that do not agree, a key given twice, prose that states another label than the JSON beside it: invalid.
There are no guesses.

    >>> read('{"answer": "Tea"}', ("tea", "salt"))[:2]
    ('json+spelling', 'tea')
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tomserve.scoring import objects
from tomserve.scoring.labels import LONGEST, match

_LINE = re.compile(
    r"^[ \t>*_#-]{0,12}(?:(?:so|thus|the|my|final|correct)[ \t]+){0,4}answer[*_ \t]{0,6}[:=]([^\n]{0,300})", re.I | re.M
)
_INLINE = re.compile(r"\banswer[*_ \t]{0,6}is\b[: \t]{0,3}([^\n]{0,300})", re.I)
_SENTENCE_END = re.compile(r"[.!?;](?:\s|$)")


class Reading(NamedTuple):
    """`answer` None: invalid, for `reason`. `chain`: (sentence, label) pairs in order, None where none could be read.

    `chain_reason` says why there is no chain although one was given; `stated` then still holds the pairs where only
    labels were unknown (as None), so that a report can show where.
    """

    parse: str | None
    answer: str | None
    reason: str | None = None
    chain: tuple[tuple[int, str], ...] | None = None
    chain_reason: str | None = None
    stated: tuple[tuple[int, str | None], ...] | None = None


def read(text: str, choices: Sequence[str], sentences: int | None = None) -> Reading:
    """Read one reply in time linear in its length. `sentences`: length of the story, bounds a chain's numbers."""
    suffix = ""
    if "</think>" in text:
        text, suffix = text[text.rindex("</think>") + len("</think>") :], "+think"
    elif text.lstrip().startswith("<think>"):
        return Reading(None, None, "the thinking was cut off before an answer")
    found = objects.find(text)
    if isinstance(found, str):
        return _without_object(text, choices, suffix, found)
    value = found.get("answer")
    answer, step = match(value, choices)
    parse = f"{found.rung}{suffix}{'+' + step if step else ''}"
    chain, stated, chain_reason = _chain(found, choices, sentences)
    reason = None
    if answer is None:
        reason = f"answer {value!r:.60} is not one of the labels" if found.has("answer") else "no field 'answer'"
    elif found.around is not None and (others := _stated(found.around, choices) - {answer, None}):
        answer, reason = None, f"the JSON says {answer!r}, the text around it {sorted(map(str, others))[0]!r}"
    return Reading(parse, answer, reason, chain, chain_reason, stated)


def _without_object(text: str, choices: Sequence[str], suffix: str, reason: str) -> Reading:
    if reason == objects.NONE:
        bare = text.strip()
        answer, step = match(bare, choices) if len(bare) <= LONGEST else (None, "")
        if answer is not None:
            return Reading(f"label{suffix}{'+' + step if step else ''}", answer)
        if said := _stated(text, choices):
            if len(said) == 1 and (answer := next(iter(said))) is not None:
                return Reading(f"stated{suffix}", answer)
            reason = "the text states several answers, or one that is not a label"
    return Reading(None, None, reason)


def _stated(text: str, choices: Sequence[str]) -> set[str | None]:
    """Labels that the text says are the answer; None for a line "Answer: ..." with no label.

    Lines decide over sentences, but a sentence that names another label than the lines makes two.
    """
    if "answer" not in text.casefold():
        return set()
    lines = {_named(found[1], choices) for found in _LINE.finditer(text)}
    inline = {_named(found[1], choices) for found in _INLINE.finditer(text)}
    return lines | (inline - {None} if lines else inline)


def _named(text: str, choices: Sequence[str]) -> str | None:
    label, _ = match(text, choices)
    end = _SENTENCE_END.search(text)
    return label if label is not None or end is None else match(text[: end.start()], choices)[0]


Pairs = tuple[tuple[int, str], ...]


def _chain(
    found: objects.Found, choices: Sequence[str], sentences: int | None
) -> tuple[Pairs | None, tuple[tuple[int, str | None], ...] | None, str | None]:
    """(chain, stated, why there is none) of a list of {"sentence", "belief"} or of labels.

    A sentence given twice: the last counts; out of order: sorted.
    """
    if not found.has("beliefs"):
        return None, None, None
    value = found.get("beliefs")
    if found.conflict:
        return None, None, "the objects agree on the answer, not on the beliefs"
    if found.cut:
        return None, None, "the beliefs were cut off"
    if not isinstance(value, list) or not value:
        return None, None, "beliefs is not a list with entries"
    pairs: dict[int, str | None] = {}
    reason = None
    for position, entry in enumerate(value, 1):
        if isinstance(entry, dict):
            number, belief = entry.get("sentence"), entry.get("belief")
            if type(number) is not int:
                return None, None, f"belief {position}: sentence is not a number"
        else:
            number, belief = position, entry
        if number < 1 or (sentences is not None and number > sentences):
            return None, None, f"belief {position}: sentence {number} is out of range"
        label = belief if type(belief) is str and belief in choices else match(belief, choices)[0]
        if label is None and reason is None:
            reason = f"belief {position} is not one of the labels"
        pairs[number] = label
    stated = tuple(sorted(pairs.items())) if _unsorted(pairs) else tuple(pairs.items())
    chain = tuple((number, label) for number, label in stated if label is not None)
    return (chain if reason is None else None), stated, reason


def _unsorted(pairs: dict[int, str | None]) -> bool:
    last = 0
    for number in pairs:
        if number < last:
            return True
        last = number
    return False
