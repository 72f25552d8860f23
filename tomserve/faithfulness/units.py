"""The sentences of a chain in prose, the labels that they name, and what the prose concludes.

>>> units("1. The lid says tea.\\n2. So: tea.")
['1. The lid says tea.\\n', '2. So: tea.']
>>> replaced("So it is a box, not the urn.", "box", "urn", ("box", "urn"))
'So it is an urn, not the box.'
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tomserve.errors import InapplicableError
from tomserve.faithfulness.aims import Case
from tomserve.items.item import UNKNOWN
from tomserve.scoring.answers import UNSTATED, read_reply
from tomserve.scoring.labels import WORDS, LetteredChoices, Mention, find_mentions, find_wordings, wording_key
from tomserve.scoring.statements import DOUBT, NEGATION
from tomserve.variants.words import article, looks_plural, plural

_STATING = ("stated", "concluded", "echoed")
"""The rungs of the reading of replies on which a sentence says its answer and does not only name it."""

NO_NAME_FOR = "the wrong label has no name of the same sort as the right one"

_CUT = re.compile(r"\n|[.!?][\"')\]\u201d*_]{0,4}[ \t](?=[ \t]{0,8}[^\sa-z])")
_NO_END = re.compile(
    r"(?:^|[\s(\[\"'\u201c*])(?:\(?\d{1,3}|[A-Za-z]|Mr|Mrs|Ms|Dr|Prof|St|e\.g|i\.e|vs|cf|etc)\.$", re.I
)
_WORD = re.compile(r"[^\W_]")
_ARTICLE = re.compile(r"(?:the|an|a)\s+", re.I)
_ARTICLE_BEFORE = re.compile(r"(?<![\w'])(an?)(\s[\"'\u201c*_(]{0,4})$", re.I)
_DETERMINED = re.compile(r"(?<![\w'])(?:the|no|his|her|its|their|this|that)\s[\"'\u201c*_(]{0,4}$|\w$", re.I)
_LETTER = re.compile(r"(?<![^\W_])[A-Za-z](?![^\W_])")


def units(text: str) -> list[str]:
    """The sentences of a text, each with the blanks and the ends of lines that follow it; together they are the text.

    A line without an end is one, the number of a list belongs to what follows it, and a line of marks alone to what
    stands before it.
    """
    found: list[str] = []
    begun = 0
    for cut in _CUT.finditer(text):
        place = cut.start() + 1
        if cut[0] != "\n" and _NO_END.search(text[max(begun, place - 8) : place]):
            continue
        found.append(text[begun : cut.end()])
        begun = cut.end()
    found.append(text[begun:])
    joined: list[list[str]] = []
    waiting: list[str] = []  # marks before the first sentence
    for one in found:
        if _WORD.search(one) is not None:
            joined.append([*waiting, one])
            waiting = []
        else:
            (joined[-1] if joined else waiting).append(one)
    return list(map("".join, joined))


def named(text: str, choices: Sequence[str]) -> list[str]:
    """The labels that a text names, in order, each as often as it does."""
    return [one.choice for one in find_mentions(text, choices) if one.choice is not None]


def concluded(case: Case, text: str, expected: str | None) -> str | None:
    """The label on which a text concludes, None where it cannot be told.

    It is what the reading of replies finds. Where that finds no words that state an answer and none that contradict
    each other, it is the label that the text names last, if that sentence names no other, denies and doubts nothing,
    and it is the one that is expected: the answer that the model gave after the text.
    """
    reading = read_reply(text, case.choices, len(case.item.story), case.item.question)
    if reading.answer is not None or reading.reason != UNSTATED or expected is None:
        return reading.answer
    for one in reversed(units(text)):
        if found := named(one, case.choices):
            clear = NEGATION.search(one) is None and DOUBT.search(one) is None
            return expected if set(found) == {expected} and clear else None
    return None


def states(case: Case, sentence: str, label: str) -> bool:
    """Whether a sentence by itself says that this label is the answer, or answers the question with it."""
    reading = read_reply(sentence, case.choices, len(case.item.story), case.item.question)
    return reading.answer == label and (reading.parse or "").partition("+")[0] in _STATING


def replaced(text: str, old: str, new: str, choices: Sequence[str]) -> str:
    """The sentence with one label in the place of another wherever that is named, and where it names both, the other
    way round as well, so that a contrast stays one."""
    found = find_mentions(text, choices)
    both = {old, new} <= {one.choice for one in found}
    pieces, at = [], 0
    for one in found:
        if one.choice == old:
            other = new
        elif both and one.choice == new:
            other = old
        else:
            continue
        words = _worded(text[one.start : one.end], one, other, choices)
        pieces += [_with_article(text[at : one.start], words, str(one.choice), other)]
        at = one.end
    return "".join(pieces) + text[at:]


def _with_article(before: str, words: str, old: str, new: str) -> str:
    """The words for a new label behind what stands before them, with the article that they need: "a" or "an" as they
    begin, none before "unknown", and their label's own where the old label stood without any."""
    held = _ARTICLE_BEFORE.search(before[-12:])
    if held is not None:
        before = before[: len(before) - len(held[0])]
        if new == UNKNOWN:
            return before + held[2].lstrip() + words
        made = article(words)
        return before + (made.capitalize() if held[1][0].isupper() else made) + held[2] + words
    own = _ARTICLE.match(new)
    if own is not None and _ARTICLE.match(old) is None and _DETERMINED.search(before[-12:]) is None:
        return before + own[0].lower() + words
    return before + words


def _worded(text: str, mention: Mention, new: str, choices: Sequence[str]) -> str:
    """The words or the letter by which the new label is named in the place of a mention of an old one."""
    old = str(mention.choice)
    if mention.by == WORDS:
        return _in_words(text, old, new, choices)
    if not isinstance(choices, LetteredChoices) or new not in choices.offered:
        raise InapplicableError(NO_NAME_FOR)
    pattern, meant = find_wordings(tuple(choices))
    words = next(
        (one for one in pattern.finditer(text) if meant.get(wording_key(one[0])) == old and len(one[0]) > 1), None
    )
    letter = chr(ord("A") + choices.offered.index(new))
    place = next(
        (one for one in _LETTER.finditer(text) if words is None or not words.start() <= one.start() < words.end()), None
    )
    made = [] if words is None else [(words.start(), words.end(), _in_words(words[0], old, new, choices))]
    if place is not None:
        made.append((place.start(), place.end(), letter if place[0].isupper() else letter.lower()))
    if not made:
        raise InapplicableError(NO_NAME_FOR)
    for start, end, other in sorted(made, reverse=True):
        text = text[:start] + other + text[end:]
    return text


def _in_words(text: str, old: str, new: str, choices: Sequence[str]) -> str:
    """The new label in words like those by which the old one is named: the whole, or the part that tells it."""
    mine, whole, plain = wording_key(text), wording_key(old), _bare(old)
    made = _bare(new)
    if mine == f"{whole}s" and not looks_plural(made):
        made = plural(made)
    elif mine != whole and len(mine) < len(whole):
        made = _telling(made, mine, new, choices)
    if "_" in made and "_" not in text:
        made = made.replace("_", "-" if "-" in text else " ")
    made = made if text.endswith(".") else made.rstrip(".")
    if text.isupper() and len(text) > 1 and not plain.isupper():
        return made.upper()
    if text[:1].isupper() and not plain[:1].isupper():
        return made[:1].upper() + made[1:]
    if text[:1].islower() and plain[:1].isupper():
        return made[:1].lower() + made[1:]
    return made


def _telling(whole: str, mine: str, new: str, choices: Sequence[str]) -> str:
    """The part of a label that is as long as that part of the other one, in number of words."""
    _, meant = find_wordings(tuple(choices))
    spaced = whole.casefold().replace("_", " ").replace("-", " ")
    parts = [name for name, label in meant.items() if label == new and name != wording_key(new) and name in spaced]
    if not parts or len(spaced) != len(whole):
        return whole
    words = len(mine.split(" "))
    best = min(parts, key=lambda name: (abs(len(name.split(" ")) - words), -len(name), name))
    at = spaced.index(best)
    return whole[at : at + len(best)]


def _bare(label: str) -> str:
    """The label without a leading article."""
    found = _ARTICLE.match(label)
    return label[found.end() :] if found is not None and found.end() < len(label) else label
