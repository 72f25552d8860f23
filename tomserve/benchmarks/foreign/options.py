"""Rules that answer by the options and the words of the question, for benchmarks whose options are sentences.

>>> item = Item(id="q", story=["Ivo left."], question="What does Ivo think of the tea?",
...             choices=["Ivo does not know.", "Ivo thinks that the tea is cold."], answer="Ivo does not know.")
>>> [rule.name for rule in RULES if rule.answer(item) == item.answer]
['shortest choice', 'denying choice', 'nearest the question']
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tomserve.items import Item
from tomserve.scoring.baselines import Baseline

_WORD = re.compile(r"\w+")
_DENIAL = re.compile(r"\b(?:not|no|never|nothing|unaware|unable|unknown)\b|n['\u2019]t\b", re.I)


def sole(value: Callable[[Item, str], float]) -> Callable[[Item], str | None]:
    """The answer of a rule that gives the choice with the highest value; None where several have it."""

    def answer(item: Item) -> str | None:
        values = [value(item, choice) for choice in item.choices]
        best = max(values)
        return item.choices[values.index(best)] if values.count(best) == 1 else None

    return answer


def denies(choice: str) -> bool:
    """Whether a choice holds a word such as "not" or "unaware"."""
    return _DENIAL.search(choice) is not None


def words(text: str) -> set[str]:
    """The words of a text in small letters."""
    return set(_WORD.findall(text.casefold()))


def _shared(item: Item, choice: str) -> float:
    """The share of a choice's words that the question has, too."""
    return len(words(choice) & words(item.question)) / max(1, len(words(choice)))


RULES = (
    Baseline("shortest choice", sole(lambda _, choice: -len(choice))),
    Baseline("longest choice", sole(lambda _, choice: len(choice))),
    Baseline("denying choice", sole(lambda _, choice: denies(choice))),
    Baseline("affirming choice", sole(lambda _, choice: not denies(choice))),
    Baseline("nearest the question", sole(_shared)),
    Baseline("farthest from the question", sole(lambda item, choice: -_shared(item, choice))),
)
