"""The words by which a text may name a choice: its own, and the part of them that no other choice has.

Choices that are sentences differ in a few words ("Carlos believes the wallet is in his backpack" or "... in the taxi"),
and a reply says these few ("so he thinks it is in the taxi"). They are taken from the choices themselves: what stands
between the words that all of them begin with and those that all of them end with, without a leading preposition,
article or possessive, if it holds no "not".

    >>> pattern, named = wordings(("Ann thinks it is in her bag.", "Ann thinks it is in the taxi."))
    >>> [named[key(one[0])] for one in pattern.finditer("No, in the taxi")]
    ['Ann thinks it is in the taxi.']
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

_ARTICLE = re.compile(r"^(?:the|an|a)[\s_]+", re.I)
_WORD = re.compile(r"[^\s_-]+")
# fmt: off
_LEADING = frozenset((
    "a", "an", "the", "his", "her", "their", "its", "my", "your", "that", "this", "in", "on", "at", "to", "under",
    "behind", "inside", "into", "near", "with", "by", "beside", "of", "from", "there", "are", "is", "be",
))
# fmt: on
"""Words with which the telling part of a choice does not begin."""

_ORDINALS = {
    "first": "one", "second": "two", "third": "three", "fourth": "four", "1": "one", "2": "two", "3": "three",
    "4": "four", "1st": "one", "2nd": "two", "3rd": "three", "4th": "four",
}  # fmt: skip
_DENYING = re.compile(r"\b(?:not|no|never|none|cannot)\b|n['\u2019]t\b", re.I)


def key(text: str) -> str:
    """The words of a name in small letters, with single spaces, without a leading article and a full stop."""
    words = _WORD.findall(_ARTICLE.sub("", text.casefold().strip()))
    return " ".join(words).rstrip(".!?") or text.casefold()


@lru_cache(maxsize=4096)
def wordings(choices: tuple[str, ...]) -> tuple[re.Pattern[str], dict[str, str | None]]:
    """A pattern that finds the names of the choices, and the choice of each name; None where two have one name.

    A name may lack its full stop, be in the plural or the singular, be spelled gray or grey, and be the telling part.
    """
    named: dict[str, str | None] = {}
    for choice in choices:
        name = key(choice)
        named[name] = None if name in named else choice
    spelled = dict(named)
    for name, meant in named.items():
        for other in (f"{name}s", name.removesuffix("s"), name.replace("gray", "grey"), name.replace("grey", "gray")):
            if len(other) > 3 and other not in named and meant is not None:
                spelled[other] = None if spelled.get(other, meant) != meant else meant
    for name, meant in _telling([choice for choice in choices if named[key(choice)] is not None]).items():
        spelled.setdefault(name, meant)
    names = sorted((name for name in spelled if name), key=len, reverse=True)
    bodies = [r"[\s_-]{1,3}".join(map(re.escape, name.split(" "))) for name in names]
    return re.compile(rf"(?<!\w)(?:{'|'.join(bodies)})(?!\w)", re.I), spelled


def _telling(choices: Sequence[str]) -> dict[str, str]:
    """The parts of names that tell the choices apart, each with its choice; a part that two could have is left out."""
    words = [key(choice).split(" ") for choice in choices]
    found: dict[str, str] = {}
    doubled: set[str] = set()
    for choice, mine in zip(choices, words, strict=True):
        for part in _parts(mine, words):
            if found.setdefault(part, choice) != choice:
                doubled.add(part)
    whole = [key(choice) for choice in choices]
    return {
        part: choice
        for part, choice in found.items()
        if part not in doubled and sum(f" {part} " in f" {name} " for name in whole) <= 1
    }


def _alike(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two choices are sentences that begin with the same words."""
    return len(one) > 2 and len(other) > 2 and one[0] == other[0]


def _parts(mine: Sequence[str], every: Sequence[Sequence[str]]) -> list[str]:
    """Shorter names of one choice: without its leading preposition, and what only it has among `every` choice."""
    parts = [_stripped(mine)]
    others = [other for other in every if other is not mine and _alike(mine, other)]
    if others:
        first = min(_common(mine, other) for other in others)
        last = min(_common(mine[first:][::-1], other[first:][::-1]) for other in others)
        middle = _stripped(mine[first : len(mine) - last])
        parts += [middle, _stripped(mine[first:])]
        if len(middle) > 2 and first > 1 and len(middle[0]) > 3 and middle[0].endswith(("ed", "en", "less", "ful")):
            parts.append(middle[:1])  # "blocked by the landslide" is told by "blocked"
        parts += _with_pronoun(middle, others, mine[first - 1 : first])
    if len(mine) == 2 and mine[0] in _ORDINALS:
        parts.append([mine[1], _ORDINALS[mine[0]]])
    if len(mine) == 2 and any(len(other) == 2 and other[1] == mine[1] for other in every if other is not mine):
        parts.append([mine[0], "one"])  # "the green one" of two bags
    joined = [" ".join(part) for part in parts if part != list(mine)]
    return [part for part in joined if len(part) > 2 and not _DENYING.search(part)]


def _with_pronoun(middle: list[str], others: Sequence[Sequence[str]], before: Sequence[str]) -> list[list[str]]:
    """What somebody will do with what all choices name: "water them", "leaves it alone" for "leave the plant alone"."""
    shared = [all(word in other for other in others) for word in middle]
    if not (any(shared) and not shared[0]):
        return []
    start = shared.index(True)
    end = next((place for place in range(start, len(middle)) if not shared[place]), len(middle))
    found = [[*middle[:start], word, *middle[end:]] for word in ("it", "them", "him", "her")]
    if list(before) == ["will"]:
        found += [[f"{one[0]}s", *one[1:]] for one in (*found, middle)]
    return found


def _stripped(words: Sequence[str]) -> list[str]:
    place = 0
    while place < len(words) and words[place] in _LEADING:
        place += 1
    return list(words[place:])


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many words two choices begin with in common."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count
