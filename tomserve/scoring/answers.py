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
| stated     | prose with "Answer: x", "the answer is x" or <answer>x</answer>, all of them alike               |

Choices that were offered by letter (Lettered, see labels.py; no benchmark's but Hi-ToM's) may also be named by it
(``+letter``), or with spaces for underscores (``+words``), and stand in prose (first, last, concluded, sole: prose.py).

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
from functools import cache, partial
from typing import NamedTuple

from tomserve.items.automaton import Automaton
from tomserve.scoring import objects
from tomserve.scoring.labels import LONGEST, Lettered, match
from tomserve.scoring.prose import leading, prose

_SAID = re.compile(r"\banswer[*_ \t]{0,6}[:=\uff1a][*_ \t]{0,6}(?:\n\s{0,20})?(?=([^\n]{0,300}))", re.I)
_INLINE = re.compile(
    r"\banswer[*_ \t]{0,6}(?:is|should be|must be|would be)\b"
    r"(?:[ \t](?:clearly|definitely|probably|therefore|thus|simply|actually|now))?[: \t]{0,3}(?=([^\n]{0,300}))",
    re.I,
)
_TAGGED = re.compile(
    r"<answer>(?=([^<\n]{0,300})</answer>)|\\boxed\{(?:\\(?:text|textbf|mathrm|mathbf)\{)?(?=([^{}\n]{0,300})\})", re.I
)
_DOUBTED = re.compile(r"\b(?:not|no|never|wrong|incorrect|first|initial|doubt|if|whether|unless)\b", re.I)
_CLAUSE_END = re.compile(r"[.!?;](?:\s|$)|\s\(|,?\s(?:because|since)\b", re.I)
_TAKEN_BACK = re.compile(r"\b(?:no|not|wait|or|actually|instead|rather|correction|wrong|incorrect)\b", re.I)
_SPECIAL = re.compile(r"(?:<\|[a-z_]{1,30}\|>|</s>|\s){1,20}$", re.I)
_DENIED = re.compile(rf"\bnot\s*{objects.HERE}|{objects.HERE}\s*(?:is|was)\s+(?:wrong|incorrect|not)\b", re.I)


class Reading(NamedTuple):
    """What is known of one reply; the first six fields are what `read` finds in its text.

    parse: the rung on which the answer was found, None for none. answer: one of the choices; None where the reply is
    invalid, for `reason`. chain: (sentence, label) pairs in the order of the sentences, numbered from 1; None where no
    chain could be read. chain_reason: why there is no chain although one was given. stated: the pairs as they were
    given; where only labels were unknown they are still there, those labels as None, so that a report can show where.

    Scoring adds what a metric may want to know beside: status: of the response, "invalid" where its text holds no
    answer. text: the whole reply, "" where none came. chain_asked: whether it was to hold a belief chain. others: the
    gold rationales of other questions about the same story.
    """

    parse: str | None
    answer: str | None
    reason: str | None = None
    chain: tuple[tuple[int, str], ...] | None = None
    chain_reason: str | None = None
    stated: tuple[tuple[int, str | None], ...] | None = None
    status: str = "ok"
    text: str = ""
    chain_asked: bool = False
    others: tuple[Automaton, ...] = ()


def read(text: str, choices: Sequence[str], sentences: int | None = None) -> Reading:
    """Read one reply in time linear in its length. `sentences`: length of the story, bounds a chain's numbers."""
    suffix = ""
    text = _SPECIAL.sub("", text) if text.endswith(("|>", "</s>")) else text
    if (at := text.rfind("</think>")) >= 0:
        if text[at + len("</think>") :].strip() or "<think>" in text[:at]:
            text, suffix = text[at + len("</think>") :], "+think"
        else:  # a stray end, with everything before it
            text = text[:at]
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
    elif found.around is not None:
        lines, inline = _stated(found.around, choices)
        if others := (lines | (inline - {None})) - {answer}:
            other = sorted(str(label or "something else") for label in others)[0]
            answer, reason = None, f"the JSON says {answer!r}, the text around it {other!r}"
        elif _DENIED.search(found.around):
            answer, reason = None, f"the text around the JSON takes {answer!r} back"
    return Reading(parse, answer, reason, chain, chain_reason, stated)


def _without_object(text: str, choices: Sequence[str], suffix: str, reason: str) -> Reading:
    if reason == objects.NONE:
        bare = text.strip()
        answer, step = match(bare, choices) if len(bare) <= LONGEST else (None, "")
        if answer is not None:
            return Reading(f"label{suffix}{'+' + step if step else ''}", answer)
        lines, inline = _stated(text, choices)
        # Lines decide over sentences, but a sentence that names another label than the lines makes two.
        if said := lines | (inline - {None} if lines else inline):
            if len(said) == 1 and (answer := next(iter(said))) is not None:
                return Reading(f"stated{suffix}", answer)
            reason = "the text states several answers, or one that is not a label"
        elif isinstance(choices, Lettered) and (found := prose(text, choices)) is not None:
            if isinstance(found, tuple):
                return Reading(f"{found[0]}{suffix}", found[1])
            reason = found
    return Reading(None, None, reason)


def _stated(text: str, choices: Sequence[str]) -> tuple[set[str | None], set[str | None]]:
    """Labels that the text gives as the answer, in forms ("Answer: x", <answer>, \\boxed) and in sentences ("the answer
    is x"); None for one with no label, or that is doubted or taken back."""
    if "answer" not in text.casefold() and "\\boxed" not in text:
        return set(), set()
    named = cache(partial(_named, choices=choices))  # a reply that repeats itself is read once
    forms = {named(found[1] or found[2] or "") for found in _TAGGED.finditer(text)}
    text = _TAGGED.sub("", text) if forms else text
    for found in _SAID.finditer(text):
        if (said := found[1].strip("*_ \t}")) and not said.startswith((objects.HERE, "</answer")):
            forms.add(named(said))
    inline: set[str | None] = set()
    for found in _INLINE.finditer(text):
        before = re.split(r"[.!?:\n]", text[max(0, found.start() - 60) : found.start()])[-1]
        inline.add(None if _DOUBTED.search(before) else named(found[1]))
    return forms, inline


def _named(text: str, choices: Sequence[str]) -> str | None:
    if isinstance(choices, Lettered):
        return leading(text, choices)[0]
    label, _ = match(text, choices)
    end = _CLAUSE_END.search(text)
    if label is not None or end is None:
        return None if label is not None and text.rstrip("*_ \t\"'").endswith("?") else label
    label, rest = match(text[: end.start()], choices)[0], text[end.start() :].casefold()
    others = (choice for choice in choices if choice != label)
    retracted = rest.startswith("?") or _TAKEN_BACK.search(rest)
    if label is None or retracted or any(re.search(rf"\b{re.escape(choice.casefold())}\b", rest) for choice in others):
        return None
    return label


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
