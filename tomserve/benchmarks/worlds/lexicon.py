"""The words and phrasings of worlds: ``dataset/worlds/words.yaml``, ``phrases/*.yaml``, and sentences from them.

A phrasing is a sentence with alternatives ``(a|b)`` and slots. ``{A}`` is a person's name or a word, ``{A's}`` the
possessive, ``{A.he} {A.him} {A.his} {A.himself}`` are pronouns of the person, and ``{A:was|were}`` is the first form
after a name and the second after "you" or "I" (``{A:is|are|am}`` has a form of its own for "I"). "a" becomes "an"
where the next word wants it, and a slot that begins a sentence begins with a capital letter.

    >>> ann = Person(name="Ann", gender="woman")
    >>> text = "{A} {A:puts|put} {A.his} {o} away, and {A.he} {A:is|are} glad of {A's} drawer."
    >>> fill_phrasing(text, {"A": "P"}, {"P": ann}, {"o": "key"}, second="P")
    'You put your key away, and you are glad of your drawer.'
"""

import math
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from tomserve import content
from tomserve.benchmarks.worlds.record import PRONOUNS, Key, Person
from tomserve.content import validation
from tomserve.content.validation import Strict
from tomserve.errors import ContentError

_SLOT = re.compile(r"\{(\w+)(?:('s)|\.(\w+)|:([^{}|]*)\|([^{}|]*)(?:\|([^{}|]*))?)?\}")
_CHOICE = re.compile(r"\(((?:[^()|{}]|\{[^{}]*\})*\|(?:[^(){}]|\{[^{}]*\})*)\)")
_BAR = re.compile(r"\|(?![^{}]*\})")
_BEGINS = re.compile(r"[.!?]['\")]* $|(?:^|[ (])\"$")
"""What stands before a slot that begins a sentence or what somebody says."""

_CONSONANT = r"eu|ewe|on(?:e|ce)\b|u(?:k|ni(?![mn])|s[eu]|t[ei])"
AN = re.compile(rf"\b([Aa]) (?=(?!{_CONSONANT})[aeiou]|hour|heir|honest|honou?r)", re.IGNORECASE)
"""Where "a" becomes "an": before a vowel that is spoken as one, so not in "a ukulele", but in "an hour"."""


class _Slot(NamedTuple):
    before: str  # the text between the slot before and this one
    text: str
    parts: tuple[str | None, ...]  # name, 's, pronoun, and the forms with the third, the second and the first person
    begins: bool  # whether it begins a sentence, or what somebody says


@lru_cache(maxsize=16_384)
def _split_phrasing(phrasing: str) -> tuple[tuple[_Slot, ...], str]:
    """The slots of a phrasing, and the text after the last."""
    slots, end = list[_Slot](), 0
    for match in _SLOT.finditer(phrasing):
        begins = _BEGINS.search(phrasing, 0, match.start()) is not None
        slots.append(_Slot(phrasing[end : match.start()], match[0], match.groups(), begins))
        end = match.end()
    return tuple(slots), phrasing[end:]


def fill_phrasing(
    phrasing: str,
    slots: Mapping[str, Key],
    people: Mapping[Key, Person],
    words: Mapping[Key, str],
    *,
    second: Key | None = None,
    first: Key | None = None,
) -> str:
    """The sentence of a phrasing without alternatives. slots: the key behind each slot; a slot that is not listed is
    itself a key. people, words: those of the world. second, first: keys of whom the sentence calls "you" or "I". A word
    may have slots of its own. Raises ValueError for a slot that is neither a person nor a word, and for a form that no
    pronoun has."""

    filling: list[str] = []  # the words that are being filled: a word may have slots of its own

    def fill(written: _Slot) -> str:
        slot, possessive, pronoun, third_form, second_form, first_form = written.parts
        key = slots.get(str(slot), str(slot))
        person = people.get(key)
        addressed = "I" if key == first else "you" if key == second else ""
        if person is None:
            if key not in words or len(written.text) != len(str(slot)) + 2:
                raise ValueError(f"phrasing {phrasing!r}: nothing to fill {written.text}")
            if words[key] in filling:
                raise ValueError(f"phrasing {phrasing!r}: the word {key!r} stands for itself")
            filling.append(words[key])
            text = fill_slots(words[key])
            filling.pop()
            return text
        if third_form is not None:
            return third_form if not addressed else first_form if addressed == "I" and first_form else str(second_form)
        pronouns = PRONOUNS[addressed] if addressed else person.pronouns
        if pronoun:
            if pronoun not in pronouns:
                raise ValueError(f"phrasing {phrasing!r}: {written.text} is no pronoun; known: {', '.join(pronouns)}")
            return pronouns[pronoun]
        if possessive:
            return pronouns["his"] if addressed else f"{person.name}'s"
        return addressed or person.name

    def fill_slots(text: str) -> str:
        written, rest = _split_phrasing(text)
        found = ""
        for one in written:
            filled = fill(one)
            found += one.before + (filled[:1].upper() + filled[1:] if one.begins else filled)
        return found + rest

    text = " ".join(fill_slots(phrasing).split())
    if "a " in text or "A " in text:
        text = AN.sub(r"\1n ", text)
    return text[:1].upper() + text[1:] if phrasing.endswith((".", "?", "!", '"')) else text


MOST = 1000
"""So many phrasings may the alternatives of one stand for."""


@lru_cache(maxsize=4096)
def expand_phrasing(phrasing: str) -> tuple[str, ...]:
    """All phrasings that the alternatives of one stand for. Raises ValueError where they are more than MOST.

    >>> expand_phrasing("(Later|Then) {A} (sits|rests).")
    ('Later {A} sits.', 'Later {A} rests.', 'Then {A} sits.', 'Then {A} rests.')
    """
    count = math.prod(len(_BAR.split(choice)) for choice in _CHOICE.findall(phrasing))
    if count > MOST:
        raise ValueError(f"{phrasing:.40}... stands for {count:,} phrasings; expected at most {MOST:,}")
    match = _CHOICE.search(phrasing)
    if match is None:
        return (re.sub(r"\s+", " ", phrasing).strip(),)
    before, after = phrasing[: match.start()], phrasing[match.end() :]
    return tuple(one for choice in _BAR.split(match[1]) for one in expand_phrasing(before + choice + after))


FOLDER = "dataset/worlds"
SHARED = "shared"

Word = Annotated[str, StringConstraints(min_length=1, max_length=80)]
Several = Annotated[list[Word], Field(min_length=1)]


class Names(Strict):
    """Given names of one culture, by the gender of whom they are usual for."""

    culture: Word
    women: Several
    men: Several
    either: list[Word] = []


class Surrounding(Strict):
    """Somewhere indoors, and the places in which small things are kept there."""

    in_: Word = Field(alias="in")
    places: Annotated[list[Word], Field(min_length=3)]


class Thing(Strict):
    """A small thing, and what one may want it for."""

    name: Word
    for_: Several = Field(alias="for")


class Theme(Strict):
    """What goes together: containers, and contents that each of them may hold."""

    theme: Word
    containers: Several
    contents: Annotated[list[Word], Field(min_length=3)]


class Words(Strict):
    """The lists of words.yaml."""

    schema_: int = Field(alias="schema", default=1)
    names: Annotated[list[Names], Field(min_length=1)]
    surroundings: Annotated[list[Surrounding], Field(min_length=1)]
    objects: Annotated[list[Thing], Field(min_length=1)]
    containers: Several
    contents: Annotated[list[Theme], Field(min_length=1)]
    occupations: Several
    relations: Several


class Phrases(BaseModel):
    """The phrasings of one family, with whatever else its file has, such as its scenarios."""

    model_config = ConfigDict(extra="allow", frozen=True)
    roles: dict[str, list[str]] = {}  # for each role of a sentence
    questions: dict[str, list[str]] = {}  # for each role of a question
    first_person: dict[str, str] = {}  # what comes before its choices where they are said in the first person
    short: dict[str, list[str]] = {}  # for each role of a sentence how it is said briefly


class Lexicon:
    """The words and phrasings of one folder; ``shared.yaml`` holds phrasings that every family may use. folder: that of
    words.yaml and phrases/. Raises ContentError by file for what cannot be read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.words: Mapping[str, Any] = validation.load_model(self.words_file, Words).model_dump(by_alias=True)
        self._files: dict[str, Phrases] = {}
        self._phrasings: dict[tuple[str, str, str], tuple[str, ...]] = {}  # asked for with every sentence

    @property
    def words_file(self) -> Path:
        """The file of the words."""
        return self.folder / "words.yaml"

    def phrasings(self, family: str, role: str, part: str = "roles") -> tuple[str, ...]:
        """All phrasings of a role, alternatives written out. part: "roles", "questions" or "short". Raises ContentError
        with the known roles for one that neither the family's file nor the shared one has."""
        if (found := self._phrasings.get((family, role, part))) is None:
            found = tuple(one for alternatives in self.group_phrasings(family, role, part) for one in alternatives)
            self._phrasings[family, role, part] = found
        return found

    def group_phrasings(self, family: str, role: str, part: str = "roles") -> tuple[tuple[str, ...], ...]:
        """The phrasings of a role as their file lists them: for each of them all that its alternatives stand for. part,
        and what it raises: as for `phrasings`."""
        own, shared = getattr(self.phrases(family), part), getattr(self.phrases(SHARED), part)
        if not (found := own.get(role) or shared.get(role)):
            known = ", ".join(sorted({*own, *shared}))
            raise ContentError(f"{part}: no phrasings of {role!r}; known: {known}", path=self._path(family))
        try:
            return tuple(expand_phrasing(phrasing) for phrasing in found)
        except ValueError as error:
            raise ContentError(f"{part}.{role}: {error}", path=self._path(family)) from None

    def extra(self, family: str, name: str) -> Any:
        """Another part of a family's file, such as its scenarios. Raises ContentError where there is none."""
        try:
            return self.extras(family)[name]
        except KeyError:
            raise ContentError(f"{name!r} is missing", path=self._path(family)) from None

    def extras(self, family: str) -> Mapping[str, Any]:
        """All that a family's file has beside its phrasings."""
        return self.phrases(family).model_extra or {}

    def first_person(self, family: str, role: str) -> str:
        """What comes before a choice of this role of question where it is said in the first person, such as "I am ";
        empty where the files have nothing for it."""
        return self.phrases(family).first_person.get(role) or self.phrases(SHARED).first_person.get(role, "")

    def phrases(self, family: str) -> Phrases:
        """The file of a family, or SHARED."""
        if family not in self._files:
            self._files[family] = validation.load_model(self._path(family), Phrases)
        return self._files[family]

    def _path(self, family: str) -> Path:
        return self.folder / "phrases" / f"{family}.yaml"


@cache
def built_in() -> Lexicon:
    """The words and phrasings that come with tomserve. Raises ConfigError where they are not installed."""
    return Lexicon(content.require(FOLDER))
