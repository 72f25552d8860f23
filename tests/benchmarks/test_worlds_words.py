"""The words of the generated social stories: enough of each kind, new to the reference model, and never confused."""

from __future__ import annotations

import calendar
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import permutations
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT

WORDS: dict[str, Any] = yaml.safe_load((ROOT / "dataset/worlds/words.yaml").read_text("utf-8"))
TRAINED: dict[str, str] = yaml.safe_load((ROOT / "launch/reference/words.yaml").read_text("utf-8"))

GENDERS = ("women", "men", "either")
MONTHS = [month.lower() for month in calendar.month_name if month]


def names() -> list[str]:
    """All given names, in the order of the file."""
    return [name for block in WORDS["names"] for key in GENDERS for name in block.get(key, ())]


def places() -> list[str]:
    """All places, as often as surroundings have them."""
    return [place for surrounding in WORDS["surroundings"] for place in surrounding["places"]]


def objects() -> list[str]:
    """All things."""
    return [thing["name"] for thing in WORDS["objects"]]


def purposes() -> list[str]:
    """All that things are wanted for."""
    return [purpose for thing in WORDS["objects"] for purpose in thing["for"]]


def contents() -> list[str]:
    """All that containers hold."""
    return [word for theme in WORDS["contents"] for word in theme["contents"]]


def settings() -> list[str]:
    """All surroundings by what follows "in the"."""
    return [surrounding["in"] for surrounding in WORDS["surroundings"]]


def nouns() -> list[str]:
    """Everything of which a story says where it is or what it holds, and who does what, without names."""
    return [*settings(), *places(), *objects(), *WORDS["containers"], *contents(), *WORDS["occupations"]]


def parts(words: Iterable[str]) -> set[str]:
    """The single words of these nouns, in small letters."""
    return {part for word in words for part in re.findall(r"[^\W\d_]+", word.lower())}


def forms(words: Iterable[str]) -> set[str]:
    """These words, each with and without a final s or es."""
    return {form for word in words for form in (word, f"{word}s", f"{word}es", *stems(word)) if len(form) > 2}


def stems(word: str) -> Iterator[str]:
    """A word without a final s or es, where it has one."""
    for ending in ("s", "es"):
        if word.endswith(ending):
            yield word.removesuffix(ending)


def plain(name: str) -> str:
    """A name in small letters without diacritics."""
    return "".join(letter for letter in unicodedata.normalize("NFD", name.lower()) if not unicodedata.combining(letter))


def contained(words: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of words of which the first is part of the second."""
    return [(one, other) for one, other in permutations(set(words), 2) if one in other]


def repeated(words: Iterable[str]) -> list[str]:
    """Words that occur more than once."""
    return [word for word, count in Counter(words).items() if count > 1]


def test_there_are_enough_words_of_each_kind() -> None:
    assert len(names()) >= 480
    assert len(WORDS["names"]) >= 16
    assert len(WORDS["surroundings"]) >= 24
    assert min(len(surrounding["places"]) for surrounding in WORDS["surroundings"]) >= 8
    assert len(WORDS["objects"]) >= 80
    assert {len(thing["for"]) for thing in WORDS["objects"]} <= {2, 3}
    assert len(WORDS["containers"]) >= 30
    assert len(WORDS["contents"]) >= 16
    assert min(len(theme["contents"]) for theme in WORDS["contents"]) >= 6
    assert min(len(theme["containers"]) for theme in WORDS["contents"]) >= 3
    assert len(WORDS["occupations"]) >= 40
    assert len(WORDS["relations"]) >= 12


def test_every_culture_has_women_and_men() -> None:
    for block in WORDS["names"]:
        assert set(block) - {"either"} == {"culture", "women", "men"}, block
        assert min(len(block["women"]), len(block["men"])) >= 5, block["culture"]
        # A story gives its people names that begin with different letters, and may ask for four of one gender.
        for gender in ("women", "men"):
            assert len({plain(name)[0] for name in block[gender]}) >= 4, block["culture"]


def test_names_are_single_words_that_are_part_of_no_other_name() -> None:
    wrong = [name for name in names() if not (3 <= len(name) <= 9 and name.isalpha() and name == name.capitalize())]
    assert not wrong
    assert not repeated(names())
    assert not contained(map(plain, names()))
    assert sum(not name.isascii() for name in names()) <= len(names()) / 5


def test_names_are_no_other_words() -> None:
    others = parts([*nouns(), *purposes(), *WORDS["relations"], *MONTHS])
    others |= parts(block["culture"] for block in WORDS["names"])
    assert not {plain(name) for name in names()} & forms(others)


def test_names_are_no_words_of_english() -> None:
    """No name stands in small letters in the documentation or the hand-written stories."""
    texts = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "dataset/stages").glob("*.yaml")]
    english = {word for text in texts for word in re.findall(r"\b[a-z]+\b", text.read_text("utf-8"))}
    assert len(english) > 1000
    assert not english & {plain(name) for name in names()}


def test_names_stand_in_no_other_stories() -> None:
    files = [*(ROOT / "dataset").rglob("*.yaml"), *(ROOT / "prompts").rglob("*.yaml")]
    files += (ROOT / "prompts").rglob("*.j2")
    texts = [file.read_text("utf-8") for file in files if "worlds" not in file.parts]
    used = parts(re.sub(r"\{%.*?%\}", " ", text) for text in texts)  # what a template commands is no story: "elif"
    assert not {plain(word) for word in used} & {plain(name) for name in names()}


def test_the_reference_model_has_seen_none_of_the_words() -> None:
    seen = forms(word for listed in TRAINED.values() for word in listed.lower().split())
    relations = parts(WORDS["relations"])
    assert not seen & (parts([*names(), *nouns()]) | relations | {plain(name) for name in names()})


@pytest.mark.parametrize("surrounding", WORDS["surroundings"], ids=lambda surrounding: surrounding["in"])
def test_places_of_a_surrounding_are_never_confused(surrounding: dict[str, Any]) -> None:
    assert not repeated(surrounding["places"])
    assert not contained(surrounding["places"])
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)?( [a-z]+)?", place) for place in surrounding["places"])
    assert not parts(surrounding["places"]) & {"glass", "transparent", "clear", "open", "rack", "shelf", "tray", "net"}


def test_surroundings_differ_and_are_no_places() -> None:
    assert not repeated(settings())
    assert not contained(settings())
    assert not forms(settings()) & set(places())
    assert all(re.fullmatch(r"[a-z]+( [a-z]+)*", setting) for setting in settings())


def test_things_are_never_confused() -> None:
    assert all(re.fullmatch(r"[a-z]+", word) for word in objects())
    assert not repeated(objects())
    assert not contained(objects())
    assert not forms(objects()) & parts([*places(), *settings(), *WORDS["containers"], *contents()])


def test_purposes_belong_to_one_thing_and_name_nothing_else() -> None:
    assert not repeated(purposes())
    assert not contained(purposes())
    assert all(re.fullmatch(r"to [A-Za-z' -]+[a-z]", purpose) for purpose in purposes())
    known = {*places(), *(place.split()[-1] for place in places())}
    known |= forms([*objects(), *WORDS["containers"], *contents()])
    known |= {"he", "she", "they", "his", "her", "their", "it"}
    named = re.compile(rf"\b({'|'.join(map(re.escape, sorted(known)))})\b")
    assert not [(purpose, named.findall(purpose)) for purpose in purposes() if named.search(purpose)]


def test_containers_are_never_confused() -> None:
    assert all(re.fullmatch(r"[a-z]+", word) for word in WORDS["containers"])
    assert not repeated(WORDS["containers"])
    assert not set(WORDS["containers"]) & set(places())


def test_every_theme_has_known_containers_and_every_container_a_theme() -> None:
    used = [container for theme in WORDS["contents"] for container in theme["containers"]]
    assert set(used) == set(WORDS["containers"])
    assert not repeated(theme["theme"] for theme in WORDS["contents"])


@pytest.mark.parametrize("theme", WORDS["contents"], ids=lambda theme: theme["theme"])
def test_contents_of_a_theme_are_never_confused(theme: dict[str, Any]) -> None:
    assert not contained(theme["contents"])
    assert not repeated(theme["containers"])
    assert all(re.fullmatch(r"[a-z]+", word) for word in theme["contents"])


def test_contents_stand_in_one_theme_and_are_nothing_else() -> None:
    assert not repeated(contents())
    assert not {f"{word}s" for word in contents()} & set(contents())
    assert not forms(contents()) & set(WORDS["containers"])


def test_occupations_and_relations_are_single_words() -> None:
    for words in (WORDS["occupations"], WORDS["relations"]):
        assert all(re.fullmatch(r"[a-z]+", word) for word in words)
        assert not repeated(words)
    assert not set(WORDS["occupations"]) & set(WORDS["relations"])


def test_the_article_follows_from_the_spelling() -> None:
    """No word that may follow "a" begins with a vowel letter spoken as a consonant, or with a silent h."""
    misleading = re.compile(r"eu|ew|one|once|ubi|uni[^mn]|us[eu]|ut[ei]|ura|hour|heir|honest|honou?r")
    assert all(map(misleading.match, ["hourglass", "unicorn", "utensil", "heirloom"]))
    counted = [*places(), *objects(), *WORDS["containers"], *WORDS["occupations"], *WORDS["relations"]]
    assert not [word for word in counted if misleading.match(word)]


AMERICAN = re.compile(
    r"\b(\w*(olor|avor|ibor|ighbor)(s|ed|ing|ful)?|center|meter(?!\b)|jewelry|gray|plow|tire|license|"
    r"program|catalog|practice|aluminum|mom|cookie\w*|faucet|flashlight|diaper|eggplant\w*|zucchini\w*|"
    r"sneaker\w*|pajama\w*|\w+[iylt]ize[ds]?|movie|mailman|apartment|yogurt|mold|donut\w*)\b"
)


def test_the_spelling_is_british() -> None:
    found = [word for word in [*nouns(), *purposes(), *WORDS["relations"]] if AMERICAN.search(word)]
    assert not found


def test_every_word_is_text() -> None:
    """YAML reads some words, such as "no", as something else."""

    def leaves(value: Any) -> Iterator[Any]:
        if isinstance(value, dict):
            for inner in value.values():
                yield from leaves(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from leaves(inner)
        else:
            yield value

    assert WORDS["schema"] == 1
    listed = {key: value for key, value in WORDS.items() if key != "schema"}
    wrong = [
        word for word in leaves(listed) if not (isinstance(word, str) and word == unicodedata.normalize("NFC", word))
    ]
    assert not wrong
