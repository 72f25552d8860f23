"""Read out of a reply the chain that its answer follows, as something that can be edited and shown again.

A reader gives a Written, or the reason in words why the reply has no chain that can be edited.

>>> item = Item(id="q", story=["A jar.", "It has tea."], question="What is in it?", choices=["tea", "salt"],
...             answer="tea")
>>> found = labels_of(item, '{"beliefs": ["salt", "tea"], "answer": "tea"}')
>>> found.before, found.text, found.after, found.own
('{"beliefs": ', '["salt", "tea"]', ', "answer":', 'tea')
>>> labels_of(item, '{"answer": "tea", "beliefs": ["salt", "tea"]}')
'the answer stands before the chain'
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise

from tomserve.errors import InapplicableError
from tomserve.faithfulness.lists import shape_of
from tomserve.faithfulness.spans import Member, objects
from tomserve.faithfulness.table import LABELS, TEXT, THINKING
from tomserve.faithfulness.written import Entry, Written
from tomserve.items import Item
from tomserve.scoring.answers import read_reply
from tomserve.scoring.labels import LetteredChoices, match_label
from tomserve.scoring.thoughts import THINK, SplitReply, split_thoughts

NO_CHAIN = "the reply has no list of beliefs"
FAULTY = "the list of beliefs cannot be read"
UNSORTED = "the list of beliefs names sentences out of order"
MIXED = "the list of beliefs has entries of several forms"
ANSWER_FIRST = "the answer stands before the chain"
NOT_STRICT = "the chain stands in no strict JSON object"
NO_FIELD = "the reply has no text in that field before its answer"
ESCAPED = "the prose is written with escapes of its own"
NO_PROSE = "the prose has no words"
NO_THINKING = "the reply has no thinking"
CUT = "the thinking was cut off"
"""Reasons why a chain cannot be edited."""

_ANSWER, _BELIEFS = "answer", "beliefs"
_FIRST = '{"answer":'
_WORD = re.compile(r"[^\W\d_]{2}")


def offered(item: Item, lettered: bool) -> Sequence[str]:
    """The choices as replies are read by them. lettered: whether they were offered by letter."""
    return LetteredChoices(item.choices) if lettered else item.choices


def labels_of(item: Item, text: str, *, lettered: bool = False) -> Written | str:
    """The chain of a reply such as {"beliefs": [...], "answer": ...}, with other members anywhere in it.

    text: the reply. lettered: whether choices were offered by letter. What stands around the object, such as thinking,
    is a part of `before`.
    """
    choices = offered(item, lettered)
    reading = read_reply(text, choices, len(item.story), item.question)
    if reading.chain is None:
        return FAULTY if reading.chain_reason else NO_CHAIN
    late = False
    for held in _held(text):
        found = _named(held, _BELIEFS)
        if found is None:
            late = True
            continue
        if not isinstance(found.value, list):
            return FAULTY
        entries = _entries(found.value, choices)
        if isinstance(entries, str):
            return entries
        if any(one.sentence > following.sentence for one, following in pairwise(entries)):
            return UNSORTED
        if tuple(dict(entries).items()) != reading.chain:  # of a sentence that is given twice the last belief counts
            return FAULTY
        chain = text[found.start : found.end]
        try:
            shape_of(chain)
        except InapplicableError as error:
            return str(error)
        plain = isinstance(found.value[0], str)
        before, after = text[: found.start], text[found.end : held[-1].colon]
        return Written(LABELS, chain, entries, plain, before, after, reading.answer)
    return ANSWER_FIRST if late else NOT_STRICT


def field_of(item: Item, text: str, field: str, *, lettered: bool = False) -> Written | str:
    """The prose in a field of a reply such as {"explanation": ..., "answer": ...}.

    text: the reply. field: the name of the field. `before` and `after` hold the quotation marks of the JSON string,
    and `text` is what it says; see `shown`.
    """
    late = False
    for held in _held(text):
        found = _named(held, field.strip().casefold())
        if found is None or not isinstance(found.value, str):
            late = True
            continue
        before, after = text[: found.start + 1], text[found.end - 1 : held[-1].colon]
        if _WORD.search(found.value) is None:
            return NO_PROSE
        if _encoded(found.value) != text[found.start + 1 : found.end - 1]:
            return ESCAPED
        own = read_reply(text, offered(item, lettered), len(item.story), item.question).answer
        return Written(TEXT, found.value, before=before, after=after, own=own)
    return NO_FIELD if late else NOT_STRICT


def turn_of(item: Item, text: str, answer_text: str, *, lettered: bool = False) -> Written | str:
    """The prose of an earlier turn of a conversation. text: that turn's reply. answer_text: the reply that answers."""
    if _WORD.search(text) is None:
        return NO_PROSE
    return Written(TEXT, text, own=_own(item, answer_text, lettered))


def thinking_of(
    item: Item,
    text: str,
    reasoning: str | None,
    *,
    marks: tuple[str, str] = THINK,
    lettered: bool = False,
) -> Written | str:
    """The thinking of a model that thinks before it answers.

    text: the reply. reasoning: its thinking where the server gives it apart; else it is sought in the reply between
    the marks or, where the first of these belongs to the prompt, before the second. marks: what stands before and
    behind the thinking, also where it is shown again; for the usual ones any that models use are read.
    """
    opening, closing = marks
    thought = reasoning or ""
    if not thought.strip():
        found = split_thoughts(text) if marks == THINK else _between(text, opening, closing)
        if found.cut or found.thought is None:
            return CUT if found.cut else NO_THINKING
        thought = found.thought
    thought = thought.strip()
    if _WORD.search(thought) is None:
        return NO_PROSE
    return Written(
        THINKING, thought, before=f"{opening}\n", after=f"\n{closing}\n\n{_FIRST}", own=_own(item, text, lettered)
    )


def _between(text: str, opening: str, closing: str) -> SplitReply:
    """What a reply says behind the thinking between marks that a strategy names."""
    before, closed, after = text.partition(closing)
    if not closed:
        return SplitReply(text, cut=text.lstrip().startswith(opening))
    return SplitReply(after, thought=before.rpartition(opening)[2])


def shown(chain: Written, text: str) -> str:
    """The beginning of a reply with that text in the place of the chain, to be continued by the answer alone.

    It is the chain's `before`, the text (escaped where it stands in a JSON string) and its `after`.
    """
    quoted = chain.form == TEXT and chain.after.startswith('"')
    return chain.before + (_encoded(text) if quoted else text) + chain.after


def _encoded(prose: str) -> str:
    """The prose as it stands between the quotation marks of a JSON string."""
    return json.dumps(prose, ensure_ascii=False)[1:-1]


def _own(item: Item, text: str, lettered: bool) -> str | None:
    return read_reply(text, offered(item, lettered), len(item.story), item.question).answer


def _held(text: str) -> list[list[Member]]:
    """The members up to the answer of every object in the part of a reply that is read for its answer."""
    said = split_thoughts(text)
    return list(objects(text, said.start, said.start + len(said.text), _ANSWER))


def _named(held: Sequence[Member], name: str) -> Member | None:
    """The only member of that name, in whatever letter case."""
    fits = [one for one in held if one.key.strip().casefold() == name]
    return fits[0] if len(fits) == 1 else None


def _entries(value: Sequence[object], choices: Sequence[str]) -> tuple[Entry, ...] | str:
    """The beliefs of a list in the order in which they stand there, or the reason why they cannot be edited."""
    if len({type(one) for one in value}) > 1:
        return MIXED
    found = []
    for position, one in enumerate(value, 1):
        number, belief = (one.get("sentence"), one.get("belief")) if isinstance(one, dict) else (position, one)
        label = match_label(belief, choices)[0]
        if type(number) is not int or label is None:
            return FAULTY
        if isinstance(one, dict) and len(one) != 2:
            return MIXED
        found.append(Entry(number, label))
    return tuple(found)
