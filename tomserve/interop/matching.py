"""Finds out which item of a benchmark another tool's sample is, by the text that the model was shown.

A sample is an item if the whole story and then the question of the item stand in that text. Only letters and digits
count: not case, white space, punctuation or the numbers before sentences, which every prompt sets otherwise. Where
several items stand there, as in a prompt with demonstrations, it is the last one.

>>> from tomserve.items import Item
>>> item = Item(id="q", story=["The box holds tea.", "Ann looks in."], question="What is in it?",
...             choices=["tea", "salt"], answer="tea")
>>> Known("demo", [item]).find("Story: 1. The box holds TEA.  2. Ann looks in.\\nQ: What is in it?")
'q'
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tomserve import benchmarks
from tomserve.errors import TomserveError
from tomserve.items import Item

WORDS = 8
"""Stories are looked up by so many of their first words."""

_NUMBER = re.compile(r"^\s*(?:sentence\s+)?\(?\d{1,4}[.):](?=\s)", re.M | re.I)
_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """The words of a text in small letters, without the numbers that lines begin with."""
    return _WORD.findall(_NUMBER.sub(" ", text).casefold())


class Told(NamedTuple):
    """A story, the questions that items ask about it with their choices and ids, all as words with single spaces."""

    story: str
    questions: list[tuple[str, tuple[str, ...], str]]


class Known:
    """The items of a benchmark, by their stories. name: of the benchmark. Items need some ten times the memory of their
    texts."""

    def __init__(self, name: str, items: Iterable[Item]) -> None:
        self.name = name
        self.targets: dict[str, str] = {}
        self._stories: dict[str, Told] = {}
        self._begin: dict[str, list[Told]] = {}
        for item in items:
            self._add(item)
        self._lengths = sorted({key.count(" ") + 1 for key in self._begin})

    def _add(self, item: Item) -> None:
        # Sentence by sentence: a number at the beginning of one is text, though a prompt may put its own before it.
        parts = [word for sentence in item.story for word in words(sentence)]
        story = " ".join(parts)
        if (told := self._stories.get(story)) is None:
            told = self._stories[story] = Told(story, [])
            self._begin.setdefault(" ".join(parts[:WORDS]), []).append(told)
        choices = tuple(" ".join(words(choice)) for choice in item.choices)
        told.questions.append((" ".join(words(item.question)), choices, item.id))
        self.targets[item.id] = item.answer

    def find(self, asked: str, item: str | None = None) -> str | None:
        """The id of the item whose story and question the text holds, None where it holds none, or where several fit.

        item: the id that the file names, which is chosen among several that fit.
        """
        text = words(asked)
        whole = f" {' '.join(text)} "
        starts = [1]
        for word in text:
            starts.append(starts[-1] + len(word) + 1)
        for place in range(len(text) - 1, -1, -1):
            here = [
                told
                for length in self._lengths
                for told in self._begin.get(" ".join(text[place : place + length]), ())
                if whole.startswith(f"{told.story} ", starts[place])
            ]
            # Of a story and one that goes on where it ends, the whole one was told.
            for told in sorted(here, key=lambda one: len(one.story), reverse=True):
                if found := _asked(told, whole[starts[place] + len(told.story) :]):
                    return item if item in found else found[0] if len(found) == 1 else None
        return None


def _asked(told: Told, rest: str) -> list[str]:
    """The ids of the items about this story whose question stands in the text after it: those of the longest question
    that does and, where several have it, those whose choices stand there, too, in this order."""
    there = [one for one in told.questions if one[0] and f" {one[0]} " in rest]
    longest = max((len(one[0]) for one in there), default=0)
    there = [one for one in there if len(one[0]) == longest]
    if len(there) > 1:
        after = rest[rest.rindex(f" {there[0][0]} ") + longest :]
        there = [one for one in there if _in_order(one[1], after)] or there
    return [one[2] for one in there]


def _in_order(choices: tuple[str, ...], text: str) -> bool:
    place = 0
    for choice in choices:
        place = text.find(f" {choice} ", place)
        if place < 0:
            return False
        place += len(choice) + 1
    return True


def candidates() -> Iterator[Known]:
    """The benchmarks that come with tomserve and need no file, one after the other, as they take time to load."""
    for name in benchmarks.names():
        try:
            yield Known(name, benchmarks.load(name, None, None, benchmarks.ALL))
        except TomserveError:  # one that needs a file of its own
            continue
