"""Parse a model's reply: find its answer and its chain of beliefs in JSON or in prose, or say why there is none.

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
| first, last, concluded, echoed, settled, sole | free prose (see tomserve.scoring.prose)                       |

Choices that were offered by letter (see LetteredChoices in tomserve.scoring.labels) may also be named by their letter
(``+letter``), and with spaces for underscores (``+words``). Where a letter stands beside the words of another choice
the words count (``+against-letter``).

Thoughts are left out (``+think``, see tomserve.scoring.thoughts). The answer is compared with the labels exactly,
then without regard to spelling (``+spelling``: case, white space, quotes, full stop), then without its article
(``+article``); in an object also in a list or object of one, or after "in the" (``+within``). Nothing is guessed: a
reply is invalid where it holds several answers that do not agree, gives the key "answer" twice, or states another label
in the prose around its JSON object.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import orjson
import pyjson5

from tomserve.content.files import load_json
from tomserve.items.rationale import Automaton
from tomserve.scoring.labels import (
    AGAINST,
    AGAINST_LETTER,
    LetteredChoices,
    Order,
    find_mentions,
    longest_label,
    match_label,
    match_within,
)
from tomserve.scoring.thoughts import CUT, split_thoughts

NONE = "no JSON object with an answer"
DIFFERENT = "several JSON objects with different answers"
EMPTY = "empty text"
HERE = "\x00"
"""The character that marks, in the text around an object, where the object stood."""

_FENCE = re.compile(r"```[a-zA-Z0-9]{0,20}[ \t]{0,20}\n(.*?)```", re.S)
_KEY = re.compile(r"""answer["']?\s{0,20}:""", re.I)
_FINAL = re.compile(r"(?:(?:my|the|your|model)[ _-]?)?(?:final|correct|best|chosen|predicted)?[ _-]?answer", re.I)
"""A key that can stand for "answer" where no other key speaks of one."""
_OF_SCHEMAS = frozenset(("type", "title", "properties", "required", "additionalProperties"))
_STRAIGHT = str.maketrans("\u201c\u201d\u201e\u201f\u2018\u2019", '""""' + "''")
_BRACE_OR_QUOTE = re.compile(r'[{}"]')
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*+(?:"|\n|\Z)?', re.S)
"""A string, or what its opening mark hides where nothing closes it."""

Load = Callable[[str], dict[str, Any] | None]


class FoundObject(NamedTuple):
    """A JSON object found in a text."""

    rung: str  # how it was found: "json", "fenced", "embedded", "json5" or "unclosed"
    data: dict[str, Any]
    around: str | None = None  # the text outside of it, None where there is none
    conflict: bool = False  # whether several objects gave this answer, but different beliefs
    cut: bool = False  # whether a list or object inside of it was cut off

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
        if not fits and name == "answer":
            named = [key for key in self.data if "answer" in key.casefold()]
            fits = [key for key in named if len(named) == 1 and _FINAL.fullmatch(key.strip())]
        return fits[0] if len(fits) == 1 else None


def find_object(text: str) -> FoundObject | str:
    """The object that holds the answer, or the reason why there is none; NONE where the text holds nothing like one."""
    if (data := _strict(text)) is not None:
        return _unique(text, FoundObject("json", data))
    if not text.strip():
        return EMPTY
    if "{" not in text:
        return NONE
    fences = [(found[1], found.span()) for found in _FENCE.finditer(text)]
    spans, opened = _find_braces(text)
    braced = [(text[start:end], (start, end)) for start, end in spans]
    if (data := _json5(text)) is not None and FoundObject("json5", data).has("answer"):
        return _unique(text, FoundObject("json5", data))
    held: list[tuple[FoundObject, tuple[int, int]]] = []
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
            if (data := load(body)) is not None and FoundObject(rung, data).has("answer"):
                checked = _unique(body, FoundObject(rung, data))
                if isinstance(checked, str):
                    return checked
                held.append((checked, span))
                taken[span[0] : span[1]] = b"\x01" * (span[1] - span[0])
    tail = _complete_object(text[opened:]) if opened is not None else NONE
    if not held and tail == NONE and (straight := text.translate(_STRAIGHT)) != text:
        found = find_object(straight)
        return found._replace(rung="json5") if isinstance(found, FoundObject) and found.has("answer") else NONE
    if not held:
        return tail
    if isinstance(tail, FoundObject) and tail.get("answer") != held[0][0].get("answer"):
        return DIFFERENT
    return _merge_objects(text, held)


def _strict(text: str) -> dict[str, Any] | None:
    try:
        data = load_json(text)
    except orjson.JSONDecodeError:
        try:  # JSON knows fewer kinds of white space than Python
            data = load_json(text.strip())
        except orjson.JSONDecodeError:
            return None
    return _filled(data) if isinstance(data, dict) else None


def _filled(data: dict[str, Any]) -> dict[str, Any]:
    """An object; of a JSON schema in which a model has written its answer in the place of the answer's type, that."""
    inner = data.get("properties")
    if isinstance(inner, dict) and isinstance(inner.get("answer"), str) and data.keys() <= _OF_SCHEMAS:
        return inner
    return data


def _json5(text: str) -> dict[str, Any] | None:
    try:
        data = pyjson5.decode(text)
        orjson.dumps(data)  # raises a TypeError for what no JSON holds, such as a number of thousands of digits
    except (pyjson5.Json5Exception, TypeError, ValueError, OverflowError, RecursionError):
        return None
    return _filled(data) if isinstance(data, dict) else None


def _merge_objects(text: str, held: list[tuple[FoundObject, tuple[int, int]]]) -> FoundObject | str:
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
    return FoundObject(first.rung, first.data, around if around.strip(HERE).strip() else None, conflict)


def _unique(body: str, found: FoundObject) -> FoundObject | str:
    """The object, or a reason where it gives its answer twice: parsers would silently keep the last."""
    if "\\u" not in body and (body.lower().count("answer") < 2 or len(_KEY.findall(body)) < 2):
        return found
    keys: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [key.strip().casefold() for key, _ in pairs]
        keys[:] = [name for name in names if name.endswith("answer")]  # the outermost object is noted last
        return dict(pairs)

    try:
        json.loads(body, object_pairs_hook=note)
    except (ValueError, RecursionError):
        return "the answer is given more than once"  # JSON5, whose keys cannot be listed in this way
    return "the answer is given more than once" if len(keys) > len(set(keys)) else found


def _find_braces(text: str) -> tuple[list[tuple[int, int]], int | None]:
    """The spans of the outermost balanced {...}, and the place of the first brace that is never closed, or None. Braces
    in strings do not count; a stray quotation mark hides no more than the rest of its line."""
    spans: list[tuple[int, int]] = []
    opened: list[int] = []
    end = 0  # of the last string
    for found in _BRACE_OR_QUOTE.finditer(text):
        if found.start() < end:
            continue
        if found[0] == '"':
            string = _STRING.match(text, found.start()) if opened else None
            end = string.end() if string is not None else end
        elif found[0] == "{":
            opened.append(found.start())
        elif opened:
            start = opened.pop()
            while spans and spans[-1][0] > start:
                spans.pop()
            spans.append((start, found.end()))
    return spans, opened[0] if opened else None


def _complete_object(text: str) -> FoundObject | str:
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
            found = FoundObject("unclosed", data, cut=len(closing) > 1)
            return _unique(body + closing, found) if found.has("answer") else NONE
    return NONE


UNSTATED = f"{NONE}, and no words that state one"
"""The reason why a reply in free text has no answer, where nothing better is known."""

_AFRESH = re.compile(
    r"(?i)(?:\n\s{0,5}(?:#{1,4} ?)?(?:\*\*)?(?:question|story|human|user|problem|q)|(?<=\S) (?-i:Question|Story|Q))"
    r"(?:\*\*)? ?\d{0,3}:"
)
_ASKED = re.compile(
    r"\n\s{0,5}(?:who|whom|whose|where|which|what|when|why|how|does|do|did|is|are)\b[^?\n]{3,200}\?", re.I
)
_CUT_LETTER = re.compile(r"\n\W{0,9}[A-Za-z]\W{0,9}\Z")
_SPECIAL = re.compile(r"(?:<\|[a-z_]{1,30}\|>|</s>|\s){1,20}$", re.I)
_DENIED = re.compile(rf"\bnot\s*{HERE}|{HERE}\s*(?:is|was)\s+(?:wrong|incorrect|not)\b", re.I)


class Reading(NamedTuple):
    """What is known of one reply. `read_reply` fills the first six fields from its text, score_row the others."""

    parse: str | None  # the rung on which the answer was found, None if on none
    answer: str | None  # one of the choices, or None where the reply is invalid
    reason: str | None = None  # why there is no answer
    chain: tuple[tuple[int, str], ...] | None = None  # pairs of sentence (from 1, ascending) and label
    chain_reason: str | None = None  # why the chain that was given could not be read
    stated: tuple[tuple[int, str | None], ...] | None = None  # the pairs as given, None for a text that is no label
    status: str = "ok"  # of the request (see tomserve.status), or "invalid" where a complete reply holds no answer
    text: str = ""  # the whole reply
    chain_asked: bool = False  # whether the strategy asked for a chain of beliefs
    others: tuple[Automaton, ...] = ()  # the compiled gold rationales of other questions about the same story
    offered: Order | None = None  # the choices beside the letters A, B, C; empty if unknown, None for the item's own

    def choice_order(self, choices: Sequence[str]) -> Sequence[str | None]:
        """What stood beside the letters A, B, C. choices: the item's own."""
        return choices if self.offered is None else self.offered


def read_reply(
    text: str, choices: Sequence[str], sentences: int | None = None, question: str | None = None, whole: bool = True
) -> Reading:
    """Read one reply, in time proportional to its length.

    sentences: how many sentences the story has; a chain that names a later one by its number is not read. question:
    what was asked, so that prose that says it as a statement is recognised. whole: whether the reply is complete; in
    one that was cut off no conclusion is sought, as it may not have been reached.
    """
    text = _SPECIAL.sub("", text) if text.endswith(("|>", "</s>")) else text
    said = split_thoughts(text)
    if said.cut:
        return Reading(None, None, CUT)
    text, suffix = said.text, "" if said.thought is None else "+think"
    reply = find_object(text)
    if isinstance(reply, str):
        return _without_object(text, choices, suffix, reply, question, whole)
    value = reply.get("answer")
    if value is None and not reply.has("answer"):
        value = reply.data
    answer, step = match_label(value, choices)
    if answer is None and not _is_doubled(value, text):
        answer, step = match_within(value, choices)
    parse = f"{reply.rung}{suffix}{'+' + step if step else ''}"
    chain, stated, chain_reason = _chain(reply, choices, sentences)
    reason = None
    if answer is None:
        reason = f"answer {value!r:.60} is not one of the labels" if reply.has("answer") else "no field 'answer'"
    elif reply.around is not None:
        from tomserve.scoring.prose import find_stated

        if others := find_stated(reply.around, choices) - {answer}:
            other = sorted(str(label or "something else") for label in others)[0]
            answer, reason = None, f"the JSON says {answer!r}, the text around it {other!r}"
        elif _DENIED.search(reply.around):
            answer, reason = None, f"the text around the JSON takes {answer!r} back"
    return Reading(parse, answer, reason, chain, chain_reason, stated)


def _is_doubled(value: Any, text: str) -> bool:
    """Whether an object may hold a key twice, of which a parser keeps the last."""
    return isinstance(value, dict) and any(text.count(f'"{key}"') > 1 for key in value)


def _without_object(
    text: str, choices: Sequence[str], suffix: str, reason: str, question: str | None, whole: bool
) -> Reading:
    """Read a reply in which no JSON object with an answer was found, for `reason`: a bare label, or prose."""
    if reason != NONE:
        return Reading(None, None, reason)
    bare = text.strip()
    answer, step = match_label(bare, choices) if len(bare) <= longest_label(choices) else (None, "")
    if answer is not None:
        return Reading(f"label{suffix}{'+' + step if step else ''}", answer)
    text = text if whole else _CUT_LETTER.sub("", text)
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
    from tomserve.scoring.prose import read_prose  # its patterns take as long to compile as all others together

    outcome = read_prose(text, choices, question, whole)
    if isinstance(outcome, tuple):
        return Reading(f"{outcome[0]}{suffix}{_letter_step(text, choices, outcome[1])}", outcome[1])
    return Reading(None, None, outcome or (reason if text.lstrip().startswith(("{", "[")) else UNSTATED))


def _letter_step(text: str, choices: Sequence[str], answer: str) -> str:
    """What is added to the rung where the words of the answer stand beside the letter of another choice."""
    if not isinstance(choices, LetteredChoices):
        return ""
    from tomserve.scoring.prose import plain_lines

    named = (one for line in plain_lines(text) for one in find_mentions(line, choices))
    return f"+{AGAINST_LETTER}" if any(one.by == AGAINST and one.choice == answer for one in named) else ""


Pairs = tuple[tuple[int, str], ...]
"""A chain: pairs of sentence (from 1) and label."""


def _chain(
    reply: FoundObject, choices: Sequence[str], sentences: int | None
) -> tuple[Pairs | None, tuple[tuple[int, str | None], ...] | None, str | None]:
    """The fields `chain`, `stated` and `chain_reason` of a Reading, from the member "beliefs" of an object: a list of
    {"sentence", "belief"}, or of labels alone, which may be longer than the story."""
    # Of a sentence that is given twice the last belief counts; sentences out of order are sorted.
    if not reply.has("beliefs"):
        return None, None, None
    value = reply.get("beliefs")
    if reply.conflict:
        return None, None, "the objects agree on the answer, not on the beliefs"
    if reply.cut:
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
        if number < 1 or (isinstance(entry, dict) and sentences is not None and number > sentences):
            return None, None, f"belief {position}: sentence {number} is out of range"
        label = belief if type(belief) is str and belief in choices else match_label(belief, choices)[0]
        if label is None and reason is None:
            reason = f"belief {position} is not one of the labels"
        pairs[number] = label
    stated = tuple(sorted(pairs.items()))
    chain = tuple((number, label) for number, label in stated if label is not None)
    return (chain if reason is None else None), stated, reason
