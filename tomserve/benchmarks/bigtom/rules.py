"""Rules that answer BigToM without following anybody's mind, and where the right answer stands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

import polars as pl

from tomserve.items import Item
from tomserve.scoring.answers import Reading
from tomserve.scoring.baselines import Baseline
from tomserve.scoring.metrics import Metric

_WORD = re.compile(r"[a-z0-9][\w'-]*")


def after_event(item: Item) -> str | None:
    """The answer that fits somebody who noticed the event; None for an item with other than two choices."""
    if len(item.choices) != 2:
        return None
    other = next(choice for choice in item.choices if choice != item.answer)
    return item.answer if item.factors.get("condition") == "true_belief" else other


def before_event(item: Item) -> str | None:
    """The answer that fits somebody who did not notice the event, or where there is none."""
    after = after_event(item)
    return next((choice for choice in item.choices if choice != after), None) if after is not None else None


def _reality(item: Item) -> str | None:
    """What is so at the end: the event where the story tells it, whoever noticed."""
    happened = item.factors.get("condition") in ("true_belief", "false_belief")
    return after_event(item) if happened else before_event(item)


@lru_cache(maxsize=64)
def _named(question: str, choices: tuple[str, ...]) -> str | None:
    words = [set(_WORD.findall(choice.casefold())) for choice in choices]
    asked = _WORD.findall(question.casefold())
    for word in asked:
        having = [choice for choice, own in zip(choices, words, strict=True) if word in own]
        if len(having) == 1:
            return having[0]
    return None


def named_first(item: Item) -> str | None:
    """The choice that the question names first: the first word of it that only one choice has, decides. None where
    there is no such word, as in a question that names no state."""
    return _named(item.question, item.choices)


def _named_last(item: Item) -> str | None:
    first = named_first(item)
    return None if first is None else next(choice for choice in item.choices if choice != first)


RULES = (
    Baseline("state after the event", _reality, "simpler"),
    Baseline("state before the event", before_event, "simpler"),
    Baseline("named first in the question", named_first, "surface"),
    Baseline("named last in the question", _named_last, "surface"),
)
"""The first two know which answer fits which state of the world, and nothing of who noticed; the others go by the
question alone."""


def _places(item: Item, reading: Reading) -> Mapping[str, object]:
    del reading
    first = named_first(item)
    return {
        "answer_place": item.choices.index(item.answer) + 1,
        "named_first": None if first is None else first == item.answer,
    }


PLACES = Metric({"answer_place": pl.Int64, "named_first": pl.Boolean}, _places, of_item=True)
"""answer_place: whether the right answer is shown as the first or second choice; named_first: whether the question
names it first."""
