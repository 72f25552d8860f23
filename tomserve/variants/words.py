"""English words: plurals, articles, lists of words, and one word put in the place of another in every form.

>>> things = NounReplacer({"box": "urn"})
>>> things.replace_all("A box, two boxes and the box's lid.")
"An urn, two urns and the urn's lid."
>>> NameReplacer({"Ann": "Rahel"}).replace_all("Ann's cap is Anna's, says Ann.")
"Rahel's cap is Anna's, says Rahel."
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from tomserve.content.validation import load_yaml


@cache
def english() -> Mapping[str, Any]:
    """The lists of words and names of english.yaml, by their names."""
    found: dict[str, Any] = load_yaml(Path(__file__).with_name("english.yaml"))[0]
    return found


def word_set(name: str) -> frozenset[str]:
    """The words of one of these lists."""
    return frozenset(english()[name].split())


_SINGULAR = ("gas", "atlas", "canvas", "thermos", "chaos", "pampas")
"""Singulars that look like plurals, by the end of the word."""

_CONSONANT = re.compile(r"eu|ewe|u(?=ni(?!n|m)|s[aeiu]|t[aei]|ku|bi|ra)|one\b|once\b|oui", re.I)
_VOWEL = re.compile(r"[aeiou]|hour|hono|honest|heir", re.I)
_ARTICLE = r"(?P<article>\b[Aa]n?)(?P<space>\s+[\"'“‘(]?)"
_DERIVED = ("ed", "d", "ing", "er", "ers", "ful", "fuls", "y", "let", "lets", "like", "less")
_JOINED = ("hole", "holes", "box", "boxes", "man", "woman", "room", "maker", "keeper", "shop", "work", "board", "foil")


def _plurals() -> Mapping[str, str]:
    """Plurals that no rule gives, by the end of the word."""
    found: dict[str, str] = english()["plurals"]
    return found


def plural(word: str) -> str:
    """The plural of a noun."""
    for end, made in _plurals().items():
        if word.endswith(end):
            return word[: -len(end)] + made
    if word.endswith("man"):
        return word[:-2] + "en"
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + ("es" if re.search(r"(s|x|z|ch|sh)$", word) else "s")


def looks_plural(word: str) -> bool:
    """Whether a noun has the ending of a plural."""
    return word in _plurals().values() or bool(re.search(r"(?<![sui])s$", word) and not word.endswith(_SINGULAR))


def article(word: str) -> str:
    """The indefinite article before a word, by its first sound: "a" or "an"."""
    return "an" if _VOWEL.match(word) and not _CONSONANT.match(word) else "a"


def fix_articles(text: str, words: Iterable[str]) -> str:
    """The text with "a" or "an" before each of these words as the word needs it."""
    return pattern.sub(_with_article, text) if (pattern := _behind_article(tuple(words))) is not None else text


@lru_cache(maxsize=256)
def _behind_article(words: tuple[str, ...]) -> re.Pattern[str] | None:
    listed = alternatives(words)
    return re.compile(_ARTICLE + rf"(?P<word>{listed})(?!\w)", re.I) if listed else None


def _with_article(match: re.Match[str]) -> str:
    return _like(match["article"], article(match["word"])) + match["space"] + match["word"]


def _like(model: str, word: str) -> str:
    """The word with a capital letter where the model has one."""
    return word[:1].upper() + word[1:] if model[:1].isupper() else word


def alternatives(words: Iterable[str]) -> str:
    """A pattern for any of these words, the longest first, in which a space stands for any white space."""
    ordered = sorted(set(words), key=lambda word: (-len(word), word))
    return "|".join(r"\s+".join(map(re.escape, word.split())) for word in ordered)


class NounReplacer:
    """Replaces nouns. words: the new noun by the old one, both in the singular. Plurals, possessives and capital
    letters follow, and "a" or "an" right before."""

    def __init__(self, words: Mapping[str, str]) -> None:
        self.forms = {form: made for old, new in words.items() for form, made in _forms(old, new)}
        self._pattern = re.compile(rf"(?:{_ARTICLE})?\b(?P<word>{alternatives(self.forms)})(?!\w)(?!-\w)(?<!\w-)", re.I)

    def replace_all(self, text: str) -> str:
        """The text with the new nouns."""
        return self._pattern.sub(self._new, text) if self.forms else text

    def _new(self, match: re.Match[str]) -> str:
        old = match["word"]
        new = _like(old, self.forms[" ".join(old.split()).lower()])
        return f"{_like(match['article'], article(new))}{match['space']}{new}" if match["article"] else new

    def occurs(self, text: str) -> bool:
        """Whether one of the old nouns stands in the text."""
        return bool(self.forms) and self._pattern.search(text) is not None


def _forms(old: str, new: str) -> Iterator[tuple[str, str]]:
    yield old.lower(), new
    yield plural(old.lower()), plural(new)


class NameReplacer:
    """Replaces names of persons, which are written with capital letters; a possessive needs no rule of its own, but
    "James'" becomes "Rahel's". names: the new name by the old one."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = dict(names)
        self._pattern = re.compile(rf"(?<!\w)(?P<word>{alternatives(names)})(?P<own>['’](?=\s+\w))?(?!\w)")

    def replace_all(self, text: str) -> str:
        """The text with the new names."""
        return self._pattern.sub(self._new, text) if self.names else text

    def _new(self, match: re.Match[str]) -> str:
        quoted = match.string[: match.start()].endswith(("'", "‘"))
        own = match["own"] and match["word"].endswith("s") and not quoted
        return self.names[match["word"]] + (match["own"] + "s" if own else match["own"] or "")


_SUBJECT = re.compile(
    r"to|she|he|they|it|who|we|i|you|will|would|can|could|must|may|might|should|shall|does|did|do|not|never|cannot"
)
_OBJECT = re.compile(r"the|an?|her|him|his|them|it|their|this|that")
_DETERMINER = re.compile(
    r"an?|the|this|that|these|those|her|his|their|its|my|your|our|no|every|each|another|one|two|three|four|five|both|"
    r"any|some|which|whose|old|new|empty|small|big|little|.*['’]s"
)
WORDS = re.compile(r"[\w'’]+")
_TOKEN = re.compile(r"\{[\w.]+\}|[\w'’]+|[.,;:!?\"“”]")


def find_verb_uses(text: str, word: str, names: Iterable[str]) -> Iterator[str]:
    """What is wrong where a noun seems to be a verb instead ("watch" in "she watches him"), which must not be replaced.
    text: a sentence. word: the noun in the singular. names: of persons, who may be the subject."""
    subjects = {*(name.lower() for name in names), "{asked}"}
    forms = {word.lower(), plural(word.lower())}
    tokens = [token.lower() for token in _TOKEN.findall(text)]
    for place, token in enumerate(tokens):
        if token not in forms:
            continue
        before, after = tokens[max(place - 3, 0) : place], tokens[place + 1 : place + 2]
        determined = any(map(_DETERMINER.fullmatch, before))
        subject = before and (before[-1] in subjects or _SUBJECT.fullmatch(before[-1]))
        if subject or (not determined and any(map(_OBJECT.fullmatch, after))):
            yield f"{token!r} seems to be a verb here"


def find_derived(text: str, word: str) -> Iterator[str]:
    """What is wrong with words that are made of a noun ("lambing" of "lamb", "tin-opener" of "tin"), and with proper
    names that hold it: they would stay as they are and tell the old word."""
    forms = "|".join(map(re.escape, (word, plural(word))))
    for match in re.finditer(rf"(?<![\w-])({forms})-\w+|(?<!\w)\w+-({forms})(?!\w)", text, re.I):
        yield f"{match[0]!r} is made of it and would stay"
    for match in re.finditer(rf"\b{re.escape(word)}({'|'.join((*_DERIVED, *_JOINED))})\b", text, re.I):
        if match[0].lower() != plural(word.lower()):
            yield f"{match[0]!r} is made of it and would stay"
    forms = "|".join(rf"[{one[0].lower()}{one[0].upper()}]{re.escape(one[1:])}" for one in (word, plural(word)))
    for match in re.finditer(rf"(?<=[a-z,;] )({forms})(?!\w)|\b{re.escape(word.upper())}\b", text):
        if match[0] != match[0].lower():
            yield f"{match[0]!r} is written like a name"


def is_part_of_label(word: str, label: str) -> bool:
    """Whether a word, in the singular or plural, is one of a label's words or the beginning or end of one."""
    return any(
        part.startswith(one) or part.endswith(one)
        for part in WORDS.findall(label.casefold())
        for one in (word.casefold(), plural(word.casefold()))
    )
