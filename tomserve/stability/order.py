"""Which neighbouring sentences may change places as far as their text goes.

Whether what they tell may change places is another matter: whoever has a record of the story checks that its events
commute, too.

>>> swaps(["The jar stands on the shelf.", "A lamp hangs above the door.", "Ann opens the door.", "She smiles."])
(0,)
>>> exchanged(4, (0,))
(1, 0, 2, 3)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

from tomserve.stability.wordlists import listed

_WORD = re.compile(r"[^\W\d_][\w-]*(?:['’]\w+)?")

_LINKS = listed("""
    that so still yet but or nor and if because since as second third last first
""")
"""Words that lean on the sentence before at the beginning of a sentence, and may only link two of its parts later."""

_LEANS = listed("""
    it its itself they them their theirs themselves this these those such then thus hence therefore
    however instead meanwhile meantime otherwise nevertheless nonetheless also too again already anyway
    another other others else both same latter former either neither one ones afterwards afterward later next finally
    eventually soon suddenly now once anymore though although until while when whenever after before during unless
    thereby thereafter whereupon back besides moreover furthermore consequently accordingly likewise similarly indeed
    unfortunately luckily fortunately sadly
""")
"""Words by which a sentence leans on the one before it, or on the order in which things happen, wherever they stand."""

_TIME = listed("""
    morning evening night noon midday midnight afternoon dawn dusk today yesterday tomorrow tonight hour hours
    minute minutes moment day days week weeks month year years o'clock
""")
"""Words that date a sentence: of two dated sentences neither changes its place."""

_ABOUT = listed("""
    he him his himself she her hers herself
""")
"""Pronouns that lean on the sentence before, unless the person is named before them in their own."""

_EXPLETIVE = re.compile(
    r"^It(?:['’]s| is| was)\s+(?:\w+\s+)?(?:raining|snowing|sunny|cold|warm|hot|dark|late|early|windy|"
    r"monday|tuesday|wednesday|thursday|friday|saturday|sunday|winter|summer|spring|autumn)\b",
    re.I,
)

_THAT = re.compile(
    r"\bthat['’]s\b|\bthat (?:is|was) (?:where|why|what|how|when|who)\b|"
    r"\b(?:about|after|at|before|behind|beside|by|for|from|into|of|on|to|under|with|without) that\b(?! [\w-]+ed\b)",
    re.I,
)
"""A "that" that points back instead of linking two parts: "Ben says that's where it is", "after that"."""

_COMMON = listed("""
    a an the of in on at by to from with without into onto under over above below behind beside between near off out up
    down away through across along around about against for inside outside there here is are was were be been has have
    had does do did will would can could may might must shall should not no never every each all any some several many
    few only just very quite my your our his her their him she he it i you we who which whose whom what where how why
    am being stands stand lies lie hangs hang sits sit puts put takes take goes go comes come holds hold contains
    contain keeps keep sees see looks look leaves leave enters enter
""")
"""Words that two sentences may share without leaning on one another."""


def swaps(sentences: Sequence[str], known: Collection[str] = ()) -> tuple[int, ...]:
    """Places t (from 0) of sentences that may change places with the sentence after them; each by itself, see `chosen`.

    sentences: the whole story. known: words that need no introduction, such as the labels, which every sentence may
    use first; in small letters. Two neighbours may change places where

    - neither of them, nor the sentence after them, leans on what comes before it (see `leans`),
    - they do not share a word whose first mention in the story is in one of them, as the first may introduce what the
      second speaks of,
    - they are not both dated.
    """
    return _swaps(tuple(sentences), frozenset(known))


@lru_cache(maxsize=1024)
def _swaps(sentences: tuple[str, ...], known: frozenset[str]) -> tuple[int, ...]:
    words = [content(sentence) for sentence in sentences]
    leaning = [leans(sentence) for sentence in sentences]
    free = []
    for place in range(len(sentences) - 1):
        following = leaning[place + 2] if place + 2 < len(sentences) else False
        if leaning[place] or leaning[place + 1] or following:
            continue
        before: set[str] = set().union(*words[:place]) | known
        if words[place] & words[place + 1] - before:
            continue
        if dated(sentences[place]) and dated(sentences[place + 1]):
            continue
        free.append(place)
    return tuple(free)


def chosen(places: Iterable[int]) -> tuple[int, ...]:
    """Of such places as many as can be exchanged together, from the first on: no sentence takes part in two exchanges,
    and the sentence after an exchanged pair, which was looked at as what follows it, begins none either."""
    taken: list[int] = []
    for place in sorted(places):
        if not taken or place > taken[-1] + 2:
            taken.append(place)
    return tuple(taken)


def exchanged(count: int, places: Iterable[int]) -> tuple[int, ...]:
    """The order of `count` sentences after each of the sentences at these places changed with the one after it: for
    each new place the old one. Raises ValueError where a sentence would take part in two exchanges."""
    order = list(range(count))
    for place in places:
        if order[place] != place or order[place + 1] != place + 1:
            raise ValueError(f"sentence {place + 1} takes part in two exchanges")
        order[place], order[place + 1] = place + 1, place
    return tuple(order)


def leans(sentence: str) -> bool:
    """Whether a sentence leans on what comes before it: by a pronoun of something or somebody that it does not name
    first, or by a word of order or contrast."""
    if _EXPLETIVE.match(sentence):
        return False
    if _THAT.search(sentence):
        return True
    named = False
    for number, match in enumerate(_WORD.finditer(sentence)):
        word = match[0]
        small = word.lower().partition("'")[0].partition("’")[0]
        if small in _ABOUT and not named:
            return True
        if small in _LEANS or (number == 0 and small in _LINKS):
            return True
        # A capital letter inside a sentence is a name; at its beginning it may be any word.
        named = named or (word[0].isupper() and (number > 0 or small not in _COMMON))
    return False


def dated(sentence: str) -> bool:
    """Whether a sentence says when something happens."""
    return any(word.lower() in _TIME for word in _WORD.findall(sentence)) or re.search(r"\d", sentence) is not None


def content(sentence: str) -> frozenset[str]:
    """The words of a sentence by which another may refer to it, in small letters and without the endings of plurals
    and possessives."""
    words = (word.lower().replace("’", "'").removesuffix("'s") for word in _WORD.findall(sentence))
    return frozenset(_stem(word) for word in words if word not in _COMMON | _LEANS | _LINKS)


def _stem(word: str) -> str:
    if re.search(r"(?:x|ch|sh|ss|z)es$", word):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word
