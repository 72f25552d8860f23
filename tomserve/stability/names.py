"""Names of persons: which a text has, and which others they may get.

>>> people(["Noor is a chef in Paris.", "Noor sees Liam leave.", "Liam, who is late, believes that it rains."])
('Noor', 'Liam')
>>> asked("What does Ann Marie believe?", ["The box is shut.", "Ann Marie looks."])
('Ann Marie',)
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

from tomserve.stability.cultures import CULTURES, NAMES
from tomserve.stability.persons import Gender
from tomserve.stability.wordlists import alternatives, listed

_MIND = listed("""
    believes wants thinks knows hopes wishes sees notices hears feels realizes realises discovers remembers forgets
    assumes expects decides plans intends needs likes loves reads says tells asks replies explains promises
    understands wonders guesses learns watches observes looks spots finds overhears witnesses smiles laughs
    believed wanted thought knew hoped wished saw noticed heard felt realized realised discovered remembered forgot
    assumed expected decided planned intended needed liked loved said told asked replied explained promised
    understood wondered guessed learned watched observed looked spotted found overheard witnessed smiled laughed
    walks walked enters entered leaves left goes went comes came puts put takes took picks picked brings brought
    buys bought cooks cooked
""")
"""Verbs by which somebody is known for a person."""

_NO_NAMES = listed("""
    a an the this that these those he she it they we i you his her its their our my your who what where when why
    which how whose if as at in on by to of for from with without while after before during since until because
    although though but and or nor so yet then there here now today yesterday tomorrow later soon suddenly finally
    meanwhile however instead eventually unfortunately fortunately luckily nobody somebody someone everyone everybody
    anyone nothing something everything each every all some many most no not one two three another other both few
    does did do is are was were will would can could has have had never always often once upon just only even also
    monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
    september october november december christmas easter internet god earth
""")
"""Words with a capital letter that are no names."""

_CAPITAL = r"[^\W\d_a-zß-öø-ÿ][\w'’-]*(?<!['’]s)(?<!['’])"
_NAME = rf"{_CAPITAL}(?: {_CAPITAL})*"
_ASKED = re.compile(
    rf"\b(?:[Dd]oes|[Dd]id|[Dd]o|[Ww]ill|[Ww]ould|[Ii]s|[Ww]as|[Cc]an|[Cc]ould|[Hh]as)\s+(?P<name>{_NAME})"
)
_DOES = re.compile(
    rf"(?P<name>{_NAME})(?:,[^.,;]*,|\s+(?:also|still|always|then|now|never|only|really|firmly|quickly|carefully|"
    rf"immediately|accidentally))?"
    rf"\s+(?:(?:does|did|do|will|would|can|could|has|had)(?:\s+not|n['’]t)?\s+\w+|(?P<mind>{alternatives(_MIND)})\b)"
)
_IS = re.compile(
    rf"(?P<name>{_NAME})(?:,[^.,;]*,)?\s+(?:is|was)\s+(?:(?:currently|also|now)\s+)?(?:an?\s|working|\w+ing\b)"
)
_PLACE = r"[Ii]n|[Oo]f|[Aa]t|[Oo]ff|[Nn]ear|[Oo]n|[Tt]hrough|[Aa]cross|[Oo]utside|[Ff]rom|[Ii]nto"
_PREPOSITION = re.compile(rf"\b(?:(?:{_PLACE}|[Tt]he|[Aa]n?)\s+|(?:{_PLACE})\s+{_NAME},\s+)$")
_ARTICLE = re.compile(r"\b(?:[Tt]he|[Aa]n?)\s+$")
"""What stands before the name of a place, but never before that of a person."""


def people(story: Sequence[str]) -> tuple[str, ...]:
    """The names of the persons of a story, in the order in which they are mentioned first.

    A word with a capital letter is a name where it has a verb that only persons have ("believes"), or where it is said
    to be something or to do something and never follows "in", "of" or the like; never after an article.
    """
    text = "\n".join(story)
    found: dict[str, bool] = {}
    for match in (*_DOES.finditer(text), *_IS.finditer(text)):
        name = _stripped(match["name"])
        found[name] = found.get(name, False) or match.groupdict().get("mind") is not None
    names = [name for name, sure in found.items() if name and not _is_place(name, text, sure=sure)]
    return tuple(sorted(names, key=lambda name: _first(name, text)))


_BESIDE = re.compile(
    rf"(?:,|\b(?:and|or|with|by|that|while|when|as|because|if|before|after|until|unless|whether|tells?|told|asks?|asked|"
    rf"calls?|called|gives?|gave|sees|saw|meets?|met|helps?|helped|friend|brother|sister|mother|father|son|daughter|"
    rf"husband|wife|uncle|aunt|cousin|colleague|coworker|neighbou?r|assistant|boss|named))\s+(?P<name>{_CAPITAL})"
)


_BEGINS = re.compile(rf"({_CAPITAL})\s+\w+(?:s|ed)\b")


def perhaps(story: Sequence[str]) -> tuple[str, ...]:
    """Words that may be names of persons besides those of `people`, since they stand where a name would, such as after
    "and" or "her brother"; each in the order of its first mention."""
    text = "\n".join(story)
    found = dict.fromkeys(_stripped(match["name"]) for match in _BESIDE.finditer(text))
    return tuple(name for name in found if name and not _is_place(name, text))


def beginnings(story: Iterable[str]) -> set[str]:
    """Words that begin a sentence and have a verb right after them, so that they may be names: "Ben moves"."""
    found = (match[1] for match in map(_BEGINS.match, story) if match is not None)
    return {word for word in found if word.lower() not in _NO_NAMES}


def asked(question: str, story: Sequence[str]) -> tuple[str, ...]:
    """The names in a question about a person's mind or doings, of those that the story has: "Does Ann ...?"."""
    text = "\n".join(story)
    names = (_stripped(match["name"]) for match in _ASKED.finditer(question))
    return tuple(dict.fromkeys(name for name in names if name and occurs(name, text)))


def capitals(texts: Iterable[str]) -> set[str]:
    """All words with a capital letter that may be names, also of places."""
    words = {word for text in texts for word in re.findall(_CAPITAL, text)}
    return {word for word in words if word.lower() not in _NO_NAMES}


def occurs(name: str, text: str) -> bool:
    """Whether a name stands in a text as a word of its own."""
    return name in text and word(name).search(text) is not None


@lru_cache(maxsize=4096)
def word(name: str) -> re.Pattern[str]:
    """A pattern for a name that is a word of its own, with or without "'s"."""
    return re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")


def _stripped(name: str) -> str:
    """The name without words that only have a capital letter because a sentence begins with them."""
    words = name.split(" ")
    while words and words[0].lower() in _NO_NAMES:
        words.pop(0)
    return " ".join(words)


def _first(name: str, text: str) -> int:
    found = word(name).search(text)
    return found.start() if found else len(text)


def _is_place(name: str, text: str, *, sure: bool = False) -> bool:
    """Whether a name stands where only that of a place does. sure: whether it has the verb of a person, so that only
    an article speaks against it."""
    before = _ARTICLE if sure else _PREPOSITION
    found = (match for match in word(name).finditer(text) if text[match.end() : match.end() + 1] not in ("'", "’"))
    return any(before.search(text[max(0, match.start() - 40) : match.start()]) for match in found)


def others(names: Sequence[tuple[str, Gender]], seed: str, taken: Collection[str]) -> dict[str, str] | None:
    """A new name for each name, of another culture; None where there are not enough.

    names: the old names, each with the pronoun of the new one's bearer (EITHER: a name that women and men have).
    seed: what the names are drawn by; the same seed gives the same names. taken: words with capital letters of the
    story: no new name begins like one of them, or like another new one.
    """
    initials = {word[0].casefold() for word in taken}
    made: dict[str, str] = {}
    cultures = {CULTURES.get(name) for name, _ in names}
    for old, gender in names:
        free = [
            (one, name)
            for one, of in NAMES.items()
            if one not in cultures
            for name in of.get(gender, "").split()
            if name[0].casefold() not in initials
        ]
        if not free:
            return None
        one, name = min(free, key=lambda found: hashlib.sha256(f"{seed}\0{old}\0{found[1]}".encode()).digest())
        made[old] = name
        cultures.add(one)
        initials.add(name[0].casefold())
    return made
