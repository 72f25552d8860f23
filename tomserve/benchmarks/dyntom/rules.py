"""Readers of DynToM who follow nobody's mind: they look for the choice that repeats the words of the asked scenes.

The backgrounds of the scenes often say what the main character believes, feels and intends, so that whoever finds the
words again needs no mind for it.

    shared words           the choice whose words the asked scenes have, and other scenes have not
    first choice but no    the first choice of a "whether" question that is not "No", which is never right
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from tomserve.benchmarks.dyntom.asking import scenes
from tomserve.items import Item
from tomserve.scoring.baselines import Baseline

_WORD = re.compile(r"[^\W_]+")
_CHANGE = re.compile(r"yes, from (.*?) to (.*)", re.I)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


@lru_cache(maxsize=16)
def _weights(story: tuple[str, ...]) -> tuple[dict[str, float], ...]:
    """For each scene its words, each with what it tells: 1 where no other scene has it, less the more have it."""
    told = [frozenset(_words(" ".join(lines))) for lines in scenes(story)]
    common = Counter(word for words in told for word in words)
    return tuple({word: 1 / common[word] for word in words} for words in told)


def _shared(text: str, weights: dict[str, float]) -> float:
    """How much of a text's words a scene has, from 0 to 1."""
    words = _words(text)
    return sum(weights.get(word, 0.0) for word in words) / len(words) if words else 0.0


def _fits(choice: str, item: Item) -> float:
    """How well a choice repeats the scenes that the question names; for a course over all scenes, each its own part."""
    told, scene, until = _weights(item.story), item.factors.get("scene"), item.factors.get("until_scene")
    if not isinstance(scene, int):
        parts = choice.split("->")
        return sum(_shared(part, told[place]) for place, part in enumerate(parts[: len(told)]))
    first = told[scene - 1]
    if not isinstance(until, int):
        return _shared(choice, first)
    second = told[until - 1]
    if (found := _CHANGE.fullmatch(choice)) is not None:
        return _shared(found[1], first) + _shared(found[2], second)
    return _shared(choice, first) + _shared(choice, second)


def shared_words(item: Item) -> str:
    """The choice that repeats most of the asked scenes' words; of equal ones the first."""
    return max(item.choices, key=lambda choice: _fits(choice, item))


def but_no(item: Item) -> str | None:
    """The first choice that is not "No"; None for a question that has no such choice."""
    if not any(choice.casefold() == "no" for choice in item.choices):
        return None
    return next(choice for choice in item.choices if choice.casefold() != "no")


RULES = (
    Baseline("shared words", shared_words),
    Baseline("first choice but no", but_no, "constant"),
)
"""The rules of the benchmark's field `rules`, beside which "always no" of every benchmark has none right."""
