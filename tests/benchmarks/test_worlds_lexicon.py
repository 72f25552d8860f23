"""The words of the generated social stories: enough of each kind, new to the reference model, and never confused."""

import calendar
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from itertools import permutations
from typing import Any

import yaml

from tests.conftest import ROOT

WORDS: dict[str, Any] = yaml.safe_load((ROOT / "dataset/worlds/words.yaml").read_text("utf-8"))
TRAINED: dict[str, str] = yaml.safe_load((ROOT / "launch/reference/words.yaml").read_text("utf-8"))

NAMES = [name for block in WORDS["names"] for key in ("women", "men", "either") for name in block.get(key, ())]
SETTINGS = [surrounding["in"] for surrounding in WORDS["surroundings"]]
PLACES = [place for surrounding in WORDS["surroundings"] for place in surrounding["places"]]
OBJECTS = [thing["name"] for thing in WORDS["objects"]]
PURPOSES = [purpose for thing in WORDS["objects"] for purpose in thing["for"]]
CONTENTS = [word for theme in WORDS["contents"] for word in theme["contents"]]
CONTAINERS, OCCUPATIONS, RELATIONS = (WORDS[name] for name in ("containers", "occupations", "relations"))
NOUNS = [*SETTINGS, *PLACES, *OBJECTS, *CONTAINERS, *CONTENTS, *OCCUPATIONS]


def parts(words: Iterable[str]) -> set[str]:
    """The single words of these nouns, in small letters."""
    return {part for word in words for part in re.findall(r"[^\W\d_]+", word.lower())}


def forms(words: Iterable[str]) -> set[str]:
    """These words, each with and without a final s or es."""
    stems = {word: [word.removesuffix(ending) for ending in ("s", "es") if word.endswith(ending)] for word in words}
    return {form for word in stems for form in (word, f"{word}s", f"{word}es", *stems[word]) if len(form) > 2}


def plain(name: str) -> str:
    """A name in small letters without diacritics."""
    return "".join(letter for letter in unicodedata.normalize("NFD", name.lower()) if not unicodedata.combining(letter))


def contained(words: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of words of which the first is part of the second."""
    return [(one, other) for one, other in permutations(set(words), 2) if one in other]


def repeated(words: Iterable[str]) -> list[str]:
    return [word for word, count in Counter(words).items() if count > 1]


def test_names_are_single_words_that_are_no_other_words_and_stand_in_no_other_stories() -> None:
    assert not [name for name in NAMES if not (3 <= len(name) <= 9 and name.isalpha() and name == name.capitalize())]
    assert not repeated(NAMES)
    assert not contained(map(plain, NAMES))
    assert sum(not name.isascii() for name in NAMES) <= len(NAMES) / 5
    months = [month.lower() for month in calendar.month_name if month]
    others = parts([*NOUNS, *PURPOSES, *RELATIONS, *months]) | parts(block["culture"] for block in WORDS["names"])
    english = set(re.findall(r"\b[a-z]+\b", " ".join(file.read_text() for file in (ROOT / "docs").rglob("*.md"))))
    rooms = (("dataset", "*.yaml"), ("prompts", "*.yaml"), ("prompts", "*.j2"))
    files = [
        file for room, form in rooms for file in (ROOT / room).rglob(form) if not {"worlds", "hitom"} & {*file.parts}
    ]
    used = parts(re.sub(r"\{%.*?%\}", " ", file.read_text()) for file in files)  # what a template commands is no story
    assert not {plain(name) for name in NAMES} & (forms(others) | english | {plain(word) for word in used})


def test_the_reference_model_has_seen_none_of_the_words() -> None:
    seen = forms(word for listed in TRAINED.values() for word in listed.lower().split())
    assert not seen & (parts([*NAMES, *NOUNS]) | parts(RELATIONS) | {plain(name) for name in NAMES})


def test_no_word_of_a_kind_is_part_of_another_one() -> None:
    places = (surrounding["places"] for surrounding in WORDS["surroundings"])
    contents = (theme["contents"] for theme in WORDS["contents"])
    for words in (*places, *contents, SETTINGS, OBJECTS, PURPOSES):
        assert not [*contained(words), *repeated(words)]
