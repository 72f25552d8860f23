"""Readers of worlds who follow nobody's mind: rules that look at words, and a bag of words learned on other worlds.

Their names stand in the tables of ``tomserve dataset audit worlds``, and the rules of RULES beside every accuracy.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from zlib import crc32

from tomserve.benchmarks.perturbed.fitting import held_out
from tomserve.benchmarks.worlds.record import World
from tomserve.benchmarks.worlds.rules import Case, answer
from tomserve.items import UNKNOWN, Item
from tomserve.scoring.baselines import (
    Baseline,
    first_mentioned,
    last_mentioned,
    list_mentions,
    most_mentioned,
)

FOLDS = 5
"""Into how many parts the worlds are split for what is learned: each part is answered by what the others taught."""

BAG = "bag of words"
"""The name of the reader that is learned."""

_WORD = re.compile(r"\w+")


def reality(item: Item) -> str | None:
    """What is really so; None where the item does not say or that is no choice."""
    real = item.factors.get("reality")
    return real if isinstance(real, str) and real in item.choices else None


def beside_the_name(item: Item) -> str | None:
    """The choice that is named last in the last sentence that names both a choice and whoever is asked about last in
    the question."""
    people = _people(item)
    asked = [name for name in _WORD.findall(item.question) if name in people]
    for sentence in reversed(item.story):
        if asked and asked[-1] in sentence:
            found = [choice for choice in item.choices if choice in sentence]
            if found:
                return max(found, key=sentence.rfind)
    return None


def longest(item: Item) -> str:
    """The longest choice, of several the first."""
    return max(item.choices, key=len)


def shortest(item: Item) -> str:
    """The shortest choice, of several the first."""
    return min(item.choices, key=len)


OMNISCIENT = "everybody knows all"
"""The name of the reader who goes by the rules, but takes everybody to know what is really so."""


class _AllKnow(Case):
    """A case in which everybody believes what is really so."""

    __slots__ = ()

    def believed(self, who: tuple[str, ...] | None = None, at: int | None = None) -> str:
        del who
        return super().believed((), at)


def all_knowing(item: Item) -> str | None:
    """The answer by the rules, were everybody to know what is really so; None where they settle none."""
    if not item.world:
        return None
    world = World.model_validate(item.world)
    question = world.questions[0]
    found = answer(world, question, case=_AllKnow)
    return item.choices[question.choices.index(found)] if found is not None else None


def second_mentioned(item: Item) -> str | None:
    """The choice that the story mentions second; None where it mentions fewer."""
    found = list(dict.fromkeys(list_mentions(item)))
    return found[1] if len(found) > 1 else None


RULES = (
    Baseline("always reality", reality, "constant"),
    Baseline("beside the name", beside_the_name),
    Baseline("longest choice", longest),
    Baseline("shortest choice", shortest),
)
"""The rules of the benchmark's field `rules`."""

LOOKING: Mapping[str, Callable[[Item], str | None]] = {
    "first mentioned": first_mentioned,
    "second mentioned": second_mentioned,
    "last mentioned": last_mentioned,
    "most mentioned": most_mentioned,
    **{rule.name: rule.answer for rule in RULES},
}
"""The readers that need no fit, by name."""


def _people(item: Item) -> dict[str, str]:
    """The names of the people of an item's world, each with the word that stands for it: by order in the story."""
    record = item.world or {}
    names = [str(person["name"]) for person in record.get("people", {}).values()]
    text = " ".join(item.story)
    found = sorted((name for name in names if name in text), key=text.index)
    return {name: f"person{place}" for place, name in enumerate(found)}


def roles(items: Sequence[Item]) -> Callable[[Item], dict[str, str]]:
    """A function that gives an item's choices by what can be seen of them without knowing the answer.

    items: those of one class. A choice that is the same in at least a tenth of them, such as "glad" or "unknown", is
    known by itself; the others by the order in which the story mentions them first, or in which they are listed. All
    items get the same names, with an empty text where an item has no such choice.
    """
    common = Counter(choice for item in items for choice in item.choices)
    fixed = sorted(choice for choice, count in common.items() if count * 10 >= len(items))
    most = max(len(item.choices) for item in items)
    names = [
        *(f"={choice}" for choice in fixed),
        *(f"mentioned{k}" for k in range(most)),
        *(f"place{k}" for k in range(most)),
    ]

    def of(item: Item) -> dict[str, str]:
        found = dict.fromkeys(names, "")
        seen = [choice for choice in dict.fromkeys(list_mentions(item)) if choice not in fixed]
        for place, choice in enumerate(seen):
            found[f"mentioned{place}"] = choice
        rest = [choice for choice in item.choices if choice not in fixed and choice not in seen]
        for place, choice in enumerate(rest):
            found[f"place{place}"] = choice
        for choice in item.choices:
            if choice in fixed:
                found[f"={choice}"] = choice
        return found

    return of


def bag_of_words(items: Sequence[Item]) -> dict[str, str]:
    """The answers of a bag of words by item id: how often each word occurs in story and question, learned on other
    worlds. items: those of one class. People and choices are known by their order in the story."""
    known = roles(items)

    def words(item: Item) -> list[str]:
        named = {choice: role for role, choice in known(item).items() if choice and choice != UNKNOWN}
        people = _people(item)
        story, question = _replaced(" ".join(item.story), named, people), _replaced(item.question, named, people)
        return [*story, *question, *(f"? {word}" for word in question)]

    split = [
        item.model_copy(update={"factors": {"stage": str(crc32(item.cluster.encode()) % FOLDS)}}) for item in items
    ]
    return held_out(split, words, known)


def _replaced(text: str, labels: Mapping[str, str], people: Mapping[str, str]) -> list[str]:
    """The words of a text in small letters, with labels and names by what stands for them."""
    for label in sorted(labels, key=len, reverse=True):
        text = text.replace(label, re.sub(r"\W", "", labels[label]))
    return [people.get(word) or word.casefold() for word in _WORD.findall(text)]
