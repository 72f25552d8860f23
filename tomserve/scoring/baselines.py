"""Shortcut baselines: rules that answer an item without following anybody's belief, so that no accuracy is read alone.

Whether a baseline's answer is right stands in the score table beside every reply. Those of GENERIC are computed for
every benchmark; a benchmark adds its own by its field `rules`.

>>> item = Item(id="q", story=["Tea is here, no salt.", "More tea."], question="What is here?",
...             choices=["salt", "tea"], answer="tea")
>>> {rule.name: rule.answer(item) for rule in GENERIC[:2]}, list_mentions(item)
({'first choice': 'salt', 'last choice': 'tea'}, ('tea', 'salt', 'tea'))
>>> Baseline("first mentioned", lambda item: list_mentions(item)[0]).column
'rule_first_mentioned'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from tomserve.errors import ConfigError, one_of
from tomserve.items import UNKNOWN, Item

BEGINNING = "rule_"
"""With this the names of the columns begin that say whether a rule answers the item right."""

KINDS = {
    "constant": "constant or positional: it gives one sort of answer, whatever the story tells",
    "surface": "surface: it goes by words of the story or of the question",
    "simpler": "simpler question: it answers an easier question about the same story",
    "learned": "learned: it was fitted to the right answers of other stories",
}
"""The kinds of rules, from the plainest on, and what each of them means."""

_LETTER = r"[^\W\u2e80-\uffef]"
"""A character that belongs to a word with its neighbours: none of Chinese and the like, where no spaces stand."""

NAME = re.compile(r"[a-z0-9]+(?: [a-z0-9]+)*")


@dataclass(frozen=True)
class Baseline:
    """A rule that answers items.

    name: what tables call it, in small letters, digits and single spaces ("always reality"). answer: a function of the
    item that returns one of its choices, or None where the rule says nothing of it. It may look at all of the item, the
    design factors and the right answer included, since "always reality" has to know what is real; its name should say
    what it knows. kind: one of KINDS. Raises ConfigError for a field that makes no sense.
    """

    name: str
    answer: Callable[[Item], str | None]
    kind: str = "surface"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name) or len(self.name) > 60:
            raise ConfigError(
                f"rules: the name of a rule is {self.name!r:.80}; expected small letters, digits and single spaces, at "
                "most 60 characters, such as 'always yes'"
            )
        if not callable(self.answer):
            raise ConfigError(
                f"rules: the answer of rule {self.name!r} is {self.answer!r:.60}; expected a function of the item"
            )
        if self.kind not in KINDS:
            raise ConfigError(f"rules: rule {self.name!r}: {one_of('kind', str(self.kind), KINDS)}")

    @property
    def column(self) -> str:
        """The column of the score table that says whether the rule answers the item right."""
        return BEGINNING + self.name.replace(" ", "_")


def baseline_name(column: str) -> str:
    """The name of the rule whose column that is."""
    return column.removeprefix(BEGINNING).replace("_", " ")


@lru_cache(maxsize=256)
def _labels(choices: tuple[str, ...]) -> tuple[tuple[tuple[str, str], ...], bool]:
    """The choices but "unknown" as pairs of folded and own form, and whether one of them contains another."""
    labels = tuple((label.casefold(), label) for label in choices if label != UNKNOWN)
    folded = [fold for fold, _ in labels]
    return labels, any(a in b for i, a in enumerate(folded) for j, b in enumerate(folded) if i != j)


@lru_cache(maxsize=256)
def _pattern(choices: tuple[str, ...]) -> re.Pattern[str]:
    folded = sorted((fold for fold, _ in _labels(choices)[0]), key=len, reverse=True)
    return re.compile(rf"(?<!{_LETTER})(?:{'|'.join(map(re.escape, folded))})(?!{_LETTER})")


@lru_cache(maxsize=64)
def _mentions(story: tuple[str, ...], choices: tuple[str, ...]) -> tuple[str, ...]:
    labels, nested = _labels(choices)
    text = " ".join(story).casefold()
    if nested:  # the longer label is meant where one begins or ends within another
        by_fold = dict(labels)
        return tuple(by_fold[found] for found in _pattern(choices).findall(text)) if labels else ()
    found = []
    for fold, label in labels:
        size, at = len(fold), text.find(fold)
        while at >= 0:
            end = at + size
            if not (at and _of_word(text[at - 1])) and not (end < len(text) and _of_word(text[end])):
                found.append((at, label))
                at = text.find(fold, end)
            else:
                at = text.find(fold, at + 1)
    found.sort()
    return tuple(label for _, label in found)


def _of_word(character: str) -> bool:
    return (character.isalnum() or character == "_") and not "\u2e80" <= character <= "\uffef"


def list_mentions(item: Item) -> tuple[str, ...]:
    """The choices in the order in which the story mentions them as whole words, in whatever case, as often as it does;
    "unknown" is left out."""
    return _mentions(item.story, item.choices)


@lru_cache(maxsize=64)
def _places(story: tuple[str, ...], choices: tuple[str, ...]) -> tuple[str | None, str | None, str | None]:
    """The label that the story mentions first, last, and most often (of several the first)."""
    found = _mentions(story, choices)
    if not found:
        return (UNKNOWN,) * 3 if UNKNOWN in choices else (None,) * 3
    return found[0], found[-1], max(dict.fromkeys(found), key=found.count)


def find_first_mention(item: Item) -> str | None:
    """The label that the story mentions first; where it mentions none, "unknown", or None where that is no choice."""
    return _places(item.story, item.choices)[0]


def find_last_mention(item: Item) -> str | None:
    """The label that the story mentions last; where it mentions none, as first_mentioned."""
    return _places(item.story, item.choices)[1]


def find_commonest(item: Item) -> str | None:
    """The label that the story mentions most often, of several the first; where it mentions none, as
    first_mentioned."""
    return _places(item.story, item.choices)[2]


@lru_cache(maxsize=256)
def _find_choice(choices: tuple[str, ...], label: str) -> str | None:
    return next((choice for choice in choices if choice.casefold() == label), None)


def always(label: str) -> Callable[[Item], str | None]:
    """The answer of a rule that always gives this label, in whatever case the item writes it; None where that is no
    choice."""
    return lambda item: _find_choice(item.choices, label)


GENERIC = (
    Baseline("first choice", lambda item: item.choices[0], "constant"),
    Baseline("last choice", lambda item: item.choices[-1], "constant"),
    Baseline("always unknown", always(UNKNOWN), "constant"),
    Baseline("always yes", always("yes"), "constant"),
    Baseline("always no", always("no"), "constant"),
    Baseline("first mentioned", find_first_mention, "constant"),
    Baseline("last mentioned", find_last_mention, "constant"),
    Baseline("most mentioned", find_commonest, "constant"),
)
"""The rules that need nothing but an item, computed for every benchmark."""
