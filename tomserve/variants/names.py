"""Names of persons: which a text has, which others they may get, their cultures and genders.

>>> find_people(["Noor is a chef in Paris.", "Noor sees Liam leave.", "Liam, who is late, believes that it rains."])
('Noor', 'Liam')
>>> names_asked_about("What does Ann Marie believe?", ["The box is shut.", "Ann Marie looks."])
('Ann Marie',)
>>> CULTURES["Kofi"], CULTURES["Takumi"]
('Akan', 'Japanese')
"""

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from tomserve.items.draw import seeded_rank
from tomserve.variants.words import alternatives, english, word_set

Gender = str
"""Which pronouns a person has: MAN, WOMAN or EITHER."""

MAN, WOMAN, EITHER = "man", "woman", "either"

_GENDERED = word_set("gendered")

_GENDERED_END = rf"(?!(?:{alternatives(word_set('no_men'))})\b)\w+m[ae]n"
"""Words such as "fisherman" and "craftswomen"."""


def _pattern(words: Iterable[str], more: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-])(?:(?:{alternatives(words)})(?:e?s)?|{more})(?![\w-])", re.I)


PERSON = _pattern(word_set("neutral") | _GENDERED, _GENDERED_END)
"""A word for a person or several."""

GENDERED = _pattern(_GENDERED, _GENDERED_END)
"""A word that says that somebody is a man, or a woman."""

TITLE = re.compile(rf"(?<!\w)(?:{alternatives(word_set('titles'))})\.?\s+$")
"""What stands before a name and says that its bearer is a man, or a woman."""


NAMES: Mapping[str, Mapping[Gender, str]] = english()["names"]
_FURTHER: Mapping[str, str] = english()["further_names"]
CULTURES = {name: one for one, names in _FURTHER.items() for name in names.split()} | {
    name: one for one, of in NAMES.items() for names in of.values() for name in names.split()
}
"""The culture of each name that is listed here."""


_NO_NAMES = word_set("no_names")

MOST = 100  # names of a story that are looked at
# Words and names are bounded, and begin where a word does, so that no story takes more than time in its length.
_CAPITAL = r"(?<![\w'’-])[^\W\d_a-zß-öø-ÿ][\w'’-]{0,60}(?<!['’]s)(?<!['’])"
_NAME = rf"{_CAPITAL}(?: {_CAPITAL}){{0,5}}"
_ASKED = re.compile(
    rf"\b(?:[Dd]oes|[Dd]id|[Dd]o|[Ww]ill|[Ww]ould|[Ii]s|[Ww]as|[Cc]an|[Cc]ould|[Hh]as)\s+(?P<name>{_NAME})"
)
_DOES = re.compile(
    rf"(?P<name>{_NAME})(?:,[^.,;]{{0,300}},|\s+(?:also|still|always|then|now|never|only|really|firmly|quickly|carefully|"
    rf"immediately|accidentally))?"
    rf"\s+(?:(?:does|did|do|will|would|can|could|has|had)(?:\s+not|n['’]t)?\s+\w+|"
    rf"(?P<mind>{alternatives(word_set('mind'))})\b)"
)
_IS = re.compile(
    rf"(?P<name>{_NAME})(?:,[^.,;]{{0,300}},)?\s+(?:is|was)\s+(?:(?:currently|also|now)\s+)?(?:an?\s|working|\w+ing\b)"
)
_PLACE = r"[Ii]n|[Oo]f|[Aa]t|[Oo]ff|[Nn]ear|[Oo]n|[Tt]hrough|[Aa]cross|[Oo]utside|[Ff]rom|[Ii]nto"
_PREPOSITION = re.compile(rf"\b(?:(?:{_PLACE}|[Tt]he|[Aa]n?)\s+|(?:{_PLACE})\s+{_NAME},\s+)$")
_ARTICLE = re.compile(r"\b(?:[Tt]he|[Aa]n?)\s+$")
"""What stands before the name of a place, but never before that of a person."""


def find_people(story: Sequence[str]) -> tuple[str, ...]:
    """The names of the persons of a story, in the order in which they are mentioned first.

    A word with a capital letter is a name where it has a verb that only persons have ("believes"), or where it is said
    to be something or to do something and never follows "in", "of" or the like; never after an article. Of a story
    with more than MOST names, the first ones count.
    """
    text = "\n".join(story)
    found: dict[str, bool] = {}
    for match in (*_DOES.finditer(text), *_IS.finditer(text)):
        name = _strip_openers(match["name"])
        found[name] = found.get(name, False) or match.groupdict().get("mind") is not None
    found.pop("", None)
    names = [name for name, sure in itertools.islice(found.items(), MOST) if not _is_place(name, text, sure=sure)]
    return tuple(sorted(names, key=lambda name: _first(name, text)))


_BESIDE = re.compile(
    rf"(?:,|\b(?:and|or|with|by|that|while|when|as|because|if|before|after|until|unless|whether|tells?|told|asks?|asked|"
    rf"calls?|called|gives?|gave|sees|saw|meets?|met|helps?|helped|friend|brother|sister|mother|father|son|daughter|"
    rf"husband|wife|uncle|aunt|cousin|colleague|coworker|neighbou?r|assistant|boss|named))\s+(?P<name>{_CAPITAL})"
)


_BEGINS = re.compile(rf"({_CAPITAL})\s+\w+(?:s|ed)\b")


def find_possible_names(story: Sequence[str]) -> tuple[str, ...]:
    """Words that may be names besides those of `find_people`, since they stand where a name would, such as after "and"
    or "her brother"; each in the order of its first mention."""
    text = "\n".join(story)
    found = dict.fromkeys(_strip_openers(match["name"]) for match in _BESIDE.finditer(text))
    found.pop("", None)
    return tuple(name for name in itertools.islice(found, MOST) if not _is_place(name, text))


def find_openers(story: Iterable[str]) -> set[str]:
    """Words that begin a sentence and have a verb right after them, so that they may be names: "Ben moves"."""
    found = (match[1] for match in map(_BEGINS.match, story) if match is not None)
    return {word for word in found if word.lower() not in _NO_NAMES}


def names_asked_about(question: str, story: Sequence[str]) -> tuple[str, ...]:
    """The names in a question about a person's mind or doings, of those that the story has: "Does Ann ...?"."""
    text = "\n".join(story)
    names = (_strip_openers(match["name"]) for match in _ASKED.finditer(question))
    return tuple(dict.fromkeys(name for name in names if name and occurs(name, text)))


def find_capitalised(texts: Iterable[str]) -> set[str]:
    """All words with a capital letter that may be names, also of places."""
    words = {word for text in texts for word in re.findall(_CAPITAL, text)}
    return {word for word in words if word.lower() not in _NO_NAMES}


def occurs(name: str, text: str) -> bool:
    """Whether a name stands in a text as a word of its own."""
    return name in text and name_pattern(name).search(text) is not None


@lru_cache(maxsize=4096)
def name_pattern(name: str) -> re.Pattern[str]:
    """A pattern for a name that is a word of its own, with or without "'s"."""
    return re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")


def _strip_openers(name: str) -> str:
    """The name without words that only have a capital letter because a sentence begins with them."""
    words = name.split(" ")
    while words and words[0].lower() in _NO_NAMES:
        words.pop(0)
    return " ".join(words)


def _first(name: str, text: str) -> int:
    found = name_pattern(name).search(text)
    return found.start() if found else len(text)


def _is_place(name: str, text: str, *, sure: bool = False) -> bool:
    """Whether a name stands where only that of a place does. sure: whether it has the verb of a person, so that only
    an article speaks against it."""
    before = _ARTICLE if sure else _PREPOSITION
    found = (
        match for match in name_pattern(name).finditer(text) if text[match.end() : match.end() + 1] not in ("'", "’")
    )
    return any(before.search(text[max(0, match.start() - 40) : match.start()]) for match in found)


def choose_names(names: Sequence[tuple[str, Gender]], seed: str, taken: Collection[str]) -> dict[str, str] | None:
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
        one, name = min(free, key=lambda found: seeded_rank(seed, old, found[1]))
        made[old] = name
        cultures.add(one)
        initials.add(name[0].casefold())
    return made
