"""Read a model's reply: find its answer and its chain of beliefs, or say why there is none.

A reply is tried in several forms (rungs of a ladder), from the strictest to the loosest. The first form in which it
holds an object or an answer decides, and its name is recorded in the column ``parse``.

| rung       | what the text is                                                                                   |
|------------|--------------------------------------------------------------------------------------------------|
| json       | one JSON object                                                                                  |
| fenced     | prose with one JSON object in a code fence                                                       |
| embedded   | prose with one JSON object that has an answer                                                    |
| json5      | like one of these, but JSON5: trailing commas, single quotes, bare keys, comments                |
| unclosed   | a JSON object that was cut off after its answer was complete                                     |
| label      | a label and nothing else                                                                         |
| stated     | prose with "Answer: x", "the answer is x" or <answer>x</answer>, all of them alike, or the last of |
|            | them after those before were taken back ("wait", "hold on") or only supposed                     |
| first, last, concluded, echoed, headed, settled, sole | free prose (see tomserve.scoring.prose)               |

Choices that were offered by letter (see Lettered in tomserve.scoring.labels) may also be named by their letter
(``+letter``), and with spaces for underscores (``+words``). Where a letter stands beside the words of another choice
the words count (``+against-letter``).

Thoughts are left out (``+think``, see tomserve.scoring.thoughts). The answer is compared with the labels exactly, then
without regard to spelling (``+spelling``: case, white space, quotes, full stop), then without its article
(``+article``). Nothing is guessed: a reply is invalid where it holds several answers that do not agree, gives the key
"answer" twice, or states another label in the prose around its JSON object.

    >>> read('{"answer": "Tea"}', ("tea", "salt"))[:2]
    ('json+spelling', 'tea')
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from tomserve.items.automaton import Automaton
from tomserve.scoring import objects
from tomserve.scoring.labels import AGAINST_LETTER, Lettered, Order, longest, match
from tomserve.scoring.mentions import AGAINST, mentions
from tomserve.scoring.prose import prose
from tomserve.scoring.statements import plain_lines
from tomserve.scoring.statements import stated as said_in
from tomserve.scoring.thoughts import CUT, spoken

UNSTATED = f"{objects.NONE}, and no words that state one"
"""The reason why a reply in free text has no answer, where nothing better is known."""

_AFRESH = re.compile(
    r"(?:\n\s{0,5}(?:#{1,4} ?)?(?:\*\*)?(?:question|story|human|user|problem|q)|(?<=\S) (?-i:Question|Story|Q))"
    r"(?:\*\*)? ?\d{0,3}:",
    re.I,
)
_ASKED = re.compile(
    r"\n\s{0,5}(?:who|whom|whose|where|which|what|when|why|how|does|do|did|is|are)\b[^?\n]{3,200}\?", re.I
)
_SPECIAL = re.compile(r"(?:<\|[a-z_]{1,30}\|>|</s>|\s){1,20}$", re.I)
_DENIED = re.compile(rf"\bnot\s*{objects.HERE}|{objects.HERE}\s*(?:is|was)\s+(?:wrong|incorrect|not)\b", re.I)


class Reading(NamedTuple):
    """What is known of one reply. `read` fills the first six fields from its text, score_row the others.

    parse: the rung on which the answer was found, None if on none. answer: one of the choices, or None where the reply
    is invalid. reason: why there is no answer. chain: pairs of sentence (numbered from 1, ascending) and label, None
    where no chain could be read. chain_reason: why the chain that was given could not be read. stated: the same pairs
    as they were given, with None for a text that is no label, so that a report can show where the chain went wrong.

    status: the outcome of the request (see tomserve.status), or "invalid" where a complete reply holds no answer. text:
    the whole reply, "" where none came. chain_asked: whether the strategy asked for a chain of beliefs. others: the
    compiled gold rationales of other questions about the same story. offered: the choices beside the letters A, B, C
    that were shown, empty where nothing says it; None for the item's own choices in their order.
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
    offered: Order | None = None

    def shown(self, choices: Sequence[str]) -> Sequence[str | None]:
        """What stood beside the letters A, B, C. choices: the item's own."""
        return choices if self.offered is None else self.offered


def read(
    text: str, choices: Sequence[str], sentences: int | None = None, question: str | None = None, whole: bool = True
) -> Reading:
    """Read one reply, in time proportional to its length.

    text: the reply. choices: the labels, one of which is the answer. sentences: how many sentences the story has; a
    chain that names a later one by its number is not read. None for no such bound. question: what was asked, so that
    prose that says it as a statement is recognised. whole: whether the reply is complete; in one that was cut off no
    conclusion is sought, as it may not have been reached.
    """
    text = _SPECIAL.sub("", text) if text.endswith(("|>", "</s>")) else text
    said = spoken(text)
    if said.cut:
        return Reading(None, None, CUT)
    text, suffix = said.text, "" if said.thought is None else "+think"
    reply = objects.find(text)
    if isinstance(reply, str):
        return _without_object(text, choices, suffix, reply, question, whole)
    value = reply.get("answer")
    answer, step = match(value, choices)
    parse = f"{reply.rung}{suffix}{'+' + step if step else ''}"
    chain, stated, chain_reason = _chain(reply, choices, sentences)
    reason = None
    if answer is None:
        reason = f"answer {value!r:.60} is not one of the labels" if reply.has("answer") else "no field 'answer'"
    elif reply.around is not None:
        around = said_in(reply.around, choices)
        if others := (around.forms | (around.sentences - {None})) - {answer}:
            other = sorted(str(label or "something else") for label in others)[0]
            answer, reason = None, f"the JSON says {answer!r}, the text around it {other!r}"
        elif _DENIED.search(reply.around):
            answer, reason = None, f"the text around the JSON takes {answer!r} back"
    return Reading(parse, answer, reason, chain, chain_reason, stated)


def _without_object(
    text: str, choices: Sequence[str], suffix: str, reason: str, question: str | None, whole: bool
) -> Reading:
    """Read a reply in which no JSON object with an answer was found, for `reason`: a bare label, or prose."""
    if reason != objects.NONE:
        return Reading(None, None, reason)
    bare = text.strip()
    answer, step = match(bare, choices) if len(bare) <= longest(choices) else (None, "")
    if answer is not None:
        return Reading(f"label{suffix}{'+' + step if step else ''}", answer)
    found = _from_prose(text, choices, suffix, reason, question, whole)
    # A model that writes on invents further questions after its answer; what it said before them decides.
    for pattern in (_AFRESH,) if found.answer is not None else (_AFRESH, _ASKED):
        if (afresh := pattern.search(text)) is not None and afresh.start():
            before = _from_prose(text[: afresh.start()], choices, suffix, reason, question, whole)
            if before.answer is not None and (
                pattern is _AFRESH or (before.parse or "").startswith(("stated", "first"))
            ):
                return before
    return found


def _from_prose(
    text: str, choices: Sequence[str], suffix: str, reason: str, question: str | None, whole: bool
) -> Reading:
    said = said_in(text, choices)
    # Forms such as "Answer: x" decide; but if a sentence names another label, the text gives two answers.
    if labels := said.forms | (said.sentences - {None} if said.forms else said.sentences):
        answer = next(iter(labels)) if len(labels) == 1 else said.final
        if answer is not None:
            return Reading(f"stated{suffix}{_beside(text, choices, answer)}", answer)
        return Reading(None, None, "the text states several answers, or one that is not a label")
    if text.lstrip().startswith(("{", "[")):  # a broken object is no prose
        return Reading(None, None, reason)
    outcome = prose(text, choices, question, whole)
    if isinstance(outcome, tuple):
        return Reading(f"{outcome[0]}{suffix}{_beside(text, choices, outcome[1])}", outcome[1])
    return Reading(None, None, outcome or UNSTATED)


def _beside(text: str, choices: Sequence[str], answer: str) -> str:
    """What is added to the rung where the words of the answer stand beside the letter of another choice."""
    if not isinstance(choices, Lettered):
        return ""
    named = (one for line in plain_lines(text) for one in mentions(line, choices))
    return f"+{AGAINST_LETTER}" if any(one.by == AGAINST and one.choice == answer for one in named) else ""


Pairs = tuple[tuple[int, str], ...]
"""A chain: pairs of sentence (from 1) and label."""


def _chain(
    reply: objects.Found, choices: Sequence[str], sentences: int | None
) -> tuple[Pairs | None, tuple[tuple[int, str | None], ...] | None, str | None]:
    """The fields `chain`, `stated` and `chain_reason` of a Reading, from the member "beliefs" of an object.

    It is a list of {"sentence", "belief"}, or of labels alone for sentences 1, 2, 3 and so on, which may be longer than
    the story. Of a sentence that is given twice the last belief counts; sentences out of order are sorted.
    """
    if not reply.has("beliefs"):
        return None, None, None
    value = reply.get("beliefs")
    if reply.conflict:
        return None, None, "the objects agree on the answer, not on the beliefs"
    if reply.cut:
        return None, None, "the beliefs were cut off"
    if not isinstance(value, list) or not value:
        return None, None, "beliefs is not a list with entries"
    if (plain := _plain(value, choices, sentences)) is not None:
        return plain, plain, None
    pairs: dict[int, str | None] = {}
    reason = None
    for position, entry in enumerate(value, 1):
        if isinstance(entry, dict):
            number, belief = entry.get("sentence"), entry.get("belief")
            if type(number) is not int:
                return None, None, f"belief {position}: sentence is not a number"
        else:
            number, belief = position, entry
        if number < 1 or (isinstance(entry, dict) and sentences is not None and number > sentences):
            return None, None, f"belief {position}: sentence {number} is out of range"
        label = belief if type(belief) is str and belief in choices else match(belief, choices)[0]
        if label is None and reason is None:
            reason = f"belief {position} is not one of the labels"
        pairs[number] = label
    stated = tuple(sorted(pairs.items())) if _unsorted(pairs) else tuple(pairs.items())
    chain = tuple((number, label) for number, label in stated if label is not None)
    return (chain if reason is None else None), stated, reason


def _plain(value: list[Any], choices: Sequence[str], sentences: int | None) -> Pairs | None:
    """The chain of a list as most replies have it, which gives sentences in order and labels alone; None for others."""
    if type(value[0]) is str:
        return tuple(enumerate(value, 1)) if all(type(one) is str and one in choices for one in value) else None
    pairs: list[tuple[int, str]] = []
    last = 0
    try:
        for entry in value:
            number, belief = entry["sentence"], entry["belief"]
            if type(number) is not int or number <= last or type(belief) is not str or belief not in choices:
                return None
            pairs.append((number, belief))
            last = number
    except (TypeError, KeyError):
        return None
    return tuple(pairs) if sentences is None or last <= sentences else None


def _unsorted(pairs: dict[int, str | None]) -> bool:
    last = 0
    for number in pairs:
        if number < last:
            return True
        last = number
    return False
