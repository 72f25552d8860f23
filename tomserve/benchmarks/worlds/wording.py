"""Sentences from phrasings: slots for people and words, in the third, the second or the first person.

A phrasing is a sentence with alternatives ``(a|b)`` and slots. ``{A}`` is a person's name or a word, ``{A's}`` the
possessive, ``{A.he} {A.him} {A.his} {A.himself}`` are pronouns of the person, and ``{A:was|were}`` is the first form
after a name and the second after "you" or "I" (``{A:is|are|am}`` has a form of its own for "I"). "a" becomes "an"
where the next word wants it, and a slot that begins a sentence begins with a capital letter.

>>> ann = Person(name="Ann", gender="woman")
>>> text = "{A} {A:puts|put} {A.his} {o} away, and {A.he} {A:is|are} glad of {A's} drawer."
>>> say(text, {"A": "P"}, {"P": ann}, {"o": "key"})
"Ann puts her key away, and she is glad of Ann's drawer."
>>> say(text, {"A": "P"}, {"P": ann}, {"o": "key"}, second="P")
'You put your key away, and you are glad of your drawer.'
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache

from tomserve.benchmarks.worlds.record import PRONOUNS, Key, Person

_SLOT = re.compile(r"\{(\w+)(?:('s)|\.(\w+)|:([^{}|]*)\|([^{}|]*)(?:\|([^{}|]*))?)?\}")
_CHOICE = re.compile(r"\(((?:[^()|{}]|\{[^{}]*\})*\|(?:[^(){}]|\{[^{}]*\})*)\)")
_BAR = re.compile(r"\|(?![^{}]*\})")
_BEGINS = re.compile(r"[.!?]['\")]* $|(?:^|[ (])\"$")
"""What stands before a slot that begins a sentence or what somebody says."""

_CONSONANT = r"eu|ewe|on(?:e|ce)\b|u(?:k|ni(?![mn])|s[eu]|t[ei])"
AN = re.compile(rf"\b([Aa]) (?=(?!{_CONSONANT})[aeiou]|hour|heir|honest|honou?r)", re.IGNORECASE)
"""Where "a" becomes "an": before a vowel that is spoken as one, so not in "a ukulele", but in "an hour"."""


def say(
    phrasing: str,
    slots: Mapping[str, Key],
    people: Mapping[Key, Person],
    words: Mapping[Key, str],
    *,
    second: Key | None = None,
    first: Key | None = None,
) -> str:
    """The sentence of a phrasing without alternatives.

    slots: the key behind each slot; a slot that is not listed is itself a key. people, words: those of the world.
    second, first: keys of whom the sentence calls "you" or "I". A word may have slots of its own. Raises ValueError for
    a slot that is neither a person nor a word, and for a form that no pronoun has.
    """

    filling: list[str] = []  # the words that are being filled: a word may have slots of its own

    def fill(match: re.Match[str]) -> str:
        slot, possessive, pronoun, third_form, second_form, first_form = match.groups()
        key = slots.get(slot, slot)
        person = people.get(key)
        addressed = "I" if key == first else "you" if key == second else ""
        if person is None:
            if key not in words or match[0] != f"{{{slot}}}":
                raise ValueError(f"phrasing {phrasing!r}: nothing to fill {match[0]}")
            if words[key] in filling:
                raise ValueError(f"phrasing {phrasing!r}: the word {key!r} stands for itself")
            filling.append(words[key])
            text = _fill(words[key])
            filling.pop()
            return text
        if third_form is not None:
            return third_form if not addressed else first_form if addressed == "I" and first_form else second_form
        pronouns = PRONOUNS[addressed] if addressed else person.pronouns
        if pronoun:
            if pronoun not in pronouns:
                raise ValueError(f"phrasing {phrasing!r}: {match[0]} is no pronoun; known: {', '.join(pronouns)}")
            return pronouns[pronoun]
        if possessive:
            return pronouns["his"] if addressed else f"{person.name}'s"
        return addressed or person.name

    def placed(match: re.Match[str]) -> str:
        text = fill(match)
        return text[:1].upper() + text[1:] if _BEGINS.search(match.string, 0, match.start()) else text

    def _fill(text: str) -> str:
        return _SLOT.sub(placed, text)

    text = AN.sub(r"\1n ", re.sub(r"\s+", " ", _fill(phrasing)).strip())
    return text[:1].upper() + text[1:] if phrasing.endswith((".", "?", "!", '"')) else text


MOST = 1000
"""So many phrasings may the alternatives of one stand for."""


@lru_cache(maxsize=4096)
def expanded(phrasing: str) -> tuple[str, ...]:
    """All phrasings that the alternatives of one stand for. Raises ValueError where they are more than MOST.

    >>> expanded("(Later|Then) {A} (sits|rests).")
    ('Later {A} sits.', 'Later {A} rests.', 'Then {A} sits.', 'Then {A} rests.')
    """
    count = math.prod(len(_BAR.split(choice)) for choice in _CHOICE.findall(phrasing))
    if count > MOST:
        raise ValueError(f"{phrasing:.40}... stands for {count:,} phrasings; expected at most {MOST:,}")
    match = _CHOICE.search(phrasing)
    if match is None:
        return (re.sub(r"\s+", " ", phrasing).strip(),)
    before, after = phrasing[: match.start()], phrasing[match.end() :]
    return tuple(one for choice in _BAR.split(match[1]) for one in expanded(before + choice + after))
