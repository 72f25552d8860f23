"""Chains of thought as models wrote them: read out of a reply so that they can be edited and shown again, and what an
edit aims at.

A reader gives a WrittenChain, or the reason in words why the reply has no chain that can be edited.
"""

import hashlib
import json
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from tomserve.errors import InapplicableError
from tomserve.faithfulness.table import LABELS, TEXT, THINKING, TRUNCATED
from tomserve.items import Item
from tomserve.items.item import UNKNOWN
from tomserve.items.rationale import Automaton
from tomserve.scoring.answers import read_reply
from tomserve.scoring.labels import find_mentions, lettered_choices, match_label
from tomserve.scoring.thoughts import THINK, SplitReply, split_thoughts

STARTS = 200
"""How many braces of a text are tried as the beginning of an object, so that a hostile text takes no long time."""

_BLANK = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


class Member(NamedTuple):
    """One member of an object."""

    key: str
    colon: int  # the place behind its colon
    start: int  # of its value
    end: int
    value: Any


class Element(NamedTuple):
    """One element of a list."""

    start: int
    end: int
    value: Any


def find_objects(text: str, start: int, end: int, last: str) -> Iterator[list[Member]]:
    """The objects of a part of a text, each with its members up to the one called `last`; those without it are left
    out, and what follows it need not be complete."""
    place = text.find("{", start, end)
    for _ in range(STARTS):
        if place < 0:
            return
        found = find_members(text, place, last)
        if found is not None:
            yield found
        place = text.find("{", place + 1, end)


def find_members(text: str, at: int, last: str | None = None) -> list[Member] | None:
    """The members of the object that begins at that place, None where the text is none. last: the key, in small
    letters, at whose colon the reading stops, its value being None; None to read to the end of the object."""
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


def find_elements(text: str) -> list[Element] | None:
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


Count = Callable[[str], int]
"""A function that counts the tokens of a text, or estimates them."""


class StatedBelief(NamedTuple):
    """One stated belief of a chain of labels."""

    sentence: int  # after which it holds, from 1
    label: str


class WrittenChain(NamedTuple):
    """A chain that can be edited."""

    form: str  # LABELS, TEXT or THINKING (see tomserve.faithfulness.table)
    text: str  # the chain alone, as it was written: of LABELS the JSON list, of TEXT and THINKING the prose
    entries: tuple[StatedBelief, ...] = ()  # the beliefs of LABELS in order
    plain: bool = False  # of LABELS, whether the list holds bare labels instead of objects with their sentences
    before: str = ""  # before + text + after is the beginning of the reply, to be continued by the answer alone as JSON
    after: str = ""
    model_answer: str | None = None  # what the model answered after the chain


class EditedChain(NamedTuple):
    """A chain that was changed. condition: one of EDITS. text: what stands in the place of `WrittenChain.text`.
    implied: the answer that it leads to, where the edit aims at one."""

    condition: str
    text: str
    implied: str | None = None


class OmittedEdit(NamedTuple):
    """An edit that cannot be made of a chain. reason: why, in words that hold for many items."""

    condition: str
    reason: str


STRANGE = "the list of beliefs is written in a form of its own"


class ListStyle(NamedTuple):
    """The marks and blanks of a list."""

    opening: str
    between: str  # two elements
    closing: str
    parts: tuple[str, str, str] | None = None  # before, between and behind the two values of an object; None for labels
    label_first: bool = False
    escaped: bool = False  # whether letters beyond ASCII are written as escapes

    def written(self, entries: Sequence[StatedBelief]) -> str:
        """The list of these beliefs; an empty one has no blanks."""
        if not entries:
            return "[]"
        return self.begun(entries) + self.closing

    def begun(self, entries: Sequence[StatedBelief]) -> str:
        """The beginning of a list, with these beliefs, from where it can go on."""
        return self.opening + self.between.join(map(self._element, entries))

    def _element(self, entry: StatedBelief) -> str:
        label = json.dumps(entry.label, ensure_ascii=self.escaped)
        if self.parts is None:
            return label
        first, second = (label, str(entry.sentence)) if self.label_first else (str(entry.sentence), label)
        return f"{self.parts[0]}{first}{self.parts[1]}{second}{self.parts[2]}"


def list_style(text: str) -> ListStyle:
    """How a list of labels, or of objects with a sentence and a belief and nothing else, is written, by its first two
    elements. Raises InapplicableError for any other text."""
    found = find_elements(text)
    if not found:
        raise InapplicableError(STRANGE)
    first = found[0]
    opening, closing, escaped = text[: first.start], text[found[-1].end :], "\\u" in text
    parts, label_first, gap = None, False, " "
    if isinstance(first.value, dict):
        held = find_members(text, first.start)
        if held is None or len(held) != 2 or {one.key for one in held} != {"sentence", "belief"}:
            raise InapplicableError(STRANGE)
        one, two = held
        parts = (text[first.start : one.start], text[one.end : two.start], text[two.end : first.end])
        label_first = one.key == "belief"
        gap = " " if any(blank in parts[1] for blank in " \n\t") else ""
    elif not isinstance(first.value, str):
        raise InapplicableError(STRANGE)
    between = "," + (opening[1:] if "\n" in opening else gap)  # one element shows no mark between two
    if len(found) > 1:
        between = text[first.end : found[1].start]
    return ListStyle(opening, between, closing, parts, label_first, escaped)


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


def offered_choices(item: Item, lettered: bool) -> Sequence[str]:
    """The choices as replies are read by them. lettered: whether they were offered by letter."""
    return lettered_choices(item) if lettered else item.choices


def labels_of(item: Item, text: str, *, lettered: bool = False) -> WrittenChain | str:
    """The chain of a reply such as {"beliefs": [...], "answer": ...}, with other members anywhere in it. What stands
    around the object, such as thinking, is a part of `before`. lettered: whether choices were offered by letter."""
    choices = offered_choices(item, lettered)
    reading = read_reply(text, choices, len(item.story), item.question)
    if reading.chain is None:
        return FAULTY if reading.chain_reason else NO_CHAIN
    late = False
    for held in _list_members(text):
        found = _find_member(held, _BELIEFS)
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
            list_style(chain)
        except InapplicableError as error:
            return str(error)
        plain = isinstance(found.value[0], str)
        before, after = text[: found.start], text[found.end : held[-1].colon]
        return WrittenChain(LABELS, chain, entries, plain, before, after, reading.answer)
    return ANSWER_FIRST if late else NOT_STRICT


def field_of(text: str, field: str) -> WrittenChain | str:
    """The prose in a field of a reply such as {"explanation": ..., "answer": ...}. `before` and `after` hold the
    quotation marks of the JSON string, and `text` is what it says; see `write_beginning`."""
    late = False
    for held in _list_members(text):
        found = _find_member(held, field.strip().casefold())
        if found is None or not isinstance(found.value, str):
            late = True
            continue
        before, after = text[: found.start + 1], text[found.end - 1 : held[-1].colon]
        if _escape_json(found.value) != text[found.start + 1 : found.end - 1]:
            return ESCAPED if _WORD.search(found.value) else NO_PROSE
        return _prose(TEXT, found.value, before, after)
    return NO_FIELD if late else NOT_STRICT


def turn_of(text: str) -> WrittenChain | str:
    """The prose of an earlier turn of a conversation."""
    return _prose(TEXT, text)


def thinking_of(text: str, reasoning: str | None, marks: tuple[str, str] = THINK) -> WrittenChain | str:
    """The thinking of a model that thinks before it answers.

    reasoning: where the server gives it apart; else it is sought in the reply between the marks or, where the first of
    these belongs to the prompt, before the second. marks: what stands before and behind the thinking, also where it is
    shown again; for the usual ones any that models use are read.
    """
    opening, closing = marks
    thought = reasoning or ""
    if not thought.strip():
        found = split_thoughts(text) if marks == THINK else _split_at_marks(text, opening, closing)
        if found.cut or found.thought is None:
            return CUT if found.cut else NO_THINKING
        thought = found.thought
        start = text.index(thought)
        own = text[:start].strip()
        if marks == THINK and own and not own.endswith(opening):  # the marks of this model are others
            opening, closing = own, text[start + len(thought) : found.start].strip()
    return _prose(THINKING, thought.strip(), f"{opening}\n", f"\n{closing}\n\n{_FIRST}")


def _prose(form: str, text: str, before: str = "", after: str = "") -> WrittenChain | str:
    return WrittenChain(form, text, before=before, after=after) if _WORD.search(text) else NO_PROSE


def _split_at_marks(text: str, opening: str, closing: str) -> SplitReply:
    """What a reply says behind the thinking between marks that a strategy names."""
    before, closed, after = text.partition(closing)
    if not closed:
        return SplitReply(text, cut=text.lstrip().startswith(opening))
    return SplitReply(after, thought=before.rpartition(opening)[2])


def write_beginning(chain: WrittenChain, text: str) -> str:
    """The beginning of a reply with that text in the place of the chain (escaped where it stands in a JSON string), to
    be continued by the answer alone."""
    quoted = chain.form == TEXT and chain.after.startswith('"')
    return chain.before + (_escape_json(text) if quoted else text) + chain.after


def _escape_json(prose: str) -> str:
    return json.dumps(prose, ensure_ascii=False)[1:-1]


def _list_members(text: str) -> list[list[Member]]:
    """The members up to the answer of every object in the part of a reply that is read for its answer."""
    said = split_thoughts(text)
    return list(find_objects(text, said.start, said.start + len(said.text), _ANSWER))


def _find_member(held: Sequence[Member], name: str) -> Member | None:
    """The only member of that name, in whatever letter case."""
    fits = [one for one in held if one.key.strip().casefold() == name]
    return fits[0] if len(fits) == 1 else None


def _entries(value: Sequence[object], choices: Sequence[str]) -> tuple[StatedBelief, ...] | str:
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
        found.append(StatedBelief(number, label))
    return tuple(found)


NO_WRONG = "no wrong label is left that the model did not answer"
NO_GOLD = "the item has no gold rationale"
OTHER_END = "the gold rationale does not end in the right answer"
NO_OTHER = "no other item's chain is at hand"
NO_SHORTER = "so short a chain has no beginning of that length"
NO_MATE = "no question about somebody else's other belief is at hand"
SAME = "the edit changes nothing"
NOTHING_FOLLOWS = "nothing follows from that belief"
"""Reasons why an edit cannot be made, of chains in every form."""


class EditCase(NamedTuple):
    """What an edit is made from."""

    item: Item
    chain: WrittenChain
    mates: Sequence[Item]  # other questions about the same story
    other: tuple[Item, WrittenChain] | None  # the chain of another item, with that item
    tokens: Count
    choices: Sequence[str]  # the item's, as replies are read by them


def random_key(*parts: str) -> bytes:
    """A value that orders things in a way that means nothing, and the same every time."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()


def wrong_labels(item: Item, avoid: Collection[str | None], named: Collection[str]) -> list[str]:
    """The choices that may stand in the place of a right belief, the best first: one that the story, the gold rationale
    or the chain (`named`) names comes before another, and "unknown" is the last resort. The right answer and the labels
    to avoid are none of them."""
    told = set(named) | {one.choice for sentence in item.story for one in find_mentions(sentence, item.choices)}
    if item.gold is not None:
        told |= {label for layer in item.gold.automaton().labels for label in layer}
    free = [label for label in item.choices if label != item.answer and label not in avoid]
    return sorted(free, key=lambda label: (label == UNKNOWN, label not in told, random_key(item.id, label)))


def automaton_of(item: Item) -> Automaton:
    """The item's gold rationale. Raises InapplicableError where it has none."""
    if item.gold is None:
        raise InapplicableError(NO_GOLD)
    return item.gold.automaton()


def gold_path(gold: Automaton, answer: str) -> tuple[str, ...]:
    """The first gold chain that ends in the answer, or the first of all where none does."""
    ends = {node for node, label in enumerate(gold.labels[-1]) if label == answer} or set(range(len(gold.labels[-1])))
    leading = [ends]  # from the last layer backwards: the nodes from which such an end is reached
    for steps in reversed(gold.steps[1:]):
        leading.append({one for one, following in steps if following in leading[-1]})
    leading.reverse()
    node = min(leading[0])
    found = [gold.labels[0][node]]
    for layer, steps in enumerate(gold.steps[1:], 1):
        node = min(following for one, following in steps if one == node and following in leading[layer])
        found.append(gold.labels[layer][node])
    return tuple(found)


def right_beliefs(item: Item) -> tuple[str, ...]:
    """The right chain of an item. Raises InapplicableError where it has none that ends in its answer."""
    found = gold_path(automaton_of(item), item.answer)
    if found[-1] != item.answer:
        raise InapplicableError(OTHER_END)
    return found


def find_changes(labels: Sequence[str]) -> list[int]:
    """The sentences, from 1, after which a chain of one label a sentence holds something new; the first is one."""
    return [place + 1 for place, label in enumerate(labels) if place == 0 or label != labels[place - 1]]


def mates_of(case: EditCase) -> Iterator[Item]:
    """The other questions about the same story that have a right chain and offer the same choices, by their ids."""
    for mate in sorted(case.mates, key=lambda one: one.id):
        same = mate.story == case.item.story and set(mate.choices) == set(case.item.choices)
        if same and mate.id != case.item.id and mate.gold is not None:
            yield mate


def count_beginning(share: float, length: int) -> int:
    """How many of so many parts stand for the beginning of that share of TRUNCATED. Raises InapplicableError where a
    smaller share, or the whole, has the same beginning."""
    kept = int(share * length)
    shorter = [int(one * length) for one in TRUNCATED.values() if one < share]
    if kept >= length or kept in shorter:
        raise InapplicableError(NO_SHORTER)
    return kept


def dotted_lines(text: str, tokens: Count) -> str:
    """The fewest dots that are at least as many tokens as the text, in lines that are as long as the text's compared
    to each other."""
    lengths = [len(line.strip()) for line in text.split("\n")]
    whole = sum(lengths) or 1

    def laid_out(count: int) -> str:
        made, passed, given = [], 0, 0
        for length in lengths:
            passed += length
            upto = count * passed // whole
            made.append(" ".join("." * (upto - given)))
            given = upto
        return "\n".join(made)

    most = 4 * len(text) + 16  # a count that never grows must not go on for ever
    return laid_out(bisect_left(range(most), tokens(text), lo=1, key=lambda count: tokens(laid_out(count))))
