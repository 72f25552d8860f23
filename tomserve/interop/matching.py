"""Finds out which item of a benchmark another tool's sample is, by the text that the model was shown.

A sample is an item if the whole story and then the question of the item stand in that text. Only letters and digits
count: not case, white space, punctuation or the numbers before sentences, which every prompt sets otherwise. Where
several items stand there, as in a prompt with demonstrations, it is the last one. What stands between story and
question may be instructions or choices, and no more of a story: a story that goes on there is another one.

>>> from tomserve.items import Item
>>> item = Item(id="q", story=["The box holds tea.", "Ann looks in."], question="What is in it?",
...             choices=["tea", "salt"], answer="tea")
>>> Known("demo", [item]).find("Story: 1. The box holds TEA.  2. Ann looks in.\\nQ: What is in it?")
'q'
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tomserve.items import Item
from tomserve.runs.item_store import ItemStore

WORDS = 8
"""Stories are looked up by so many of their first words."""

FEW = 20
"""Of fewer stories it cannot be told which of their words are common; then those of up to three letters are."""

COMMON = 0.2
"""A word that is in so large a share of the stories says nothing of any of them."""

ASKING = frozenset(
    (
        *("according", "answer", "answers", "asked", "based", "below", "carefully", "choice", "choices", "choose"),
        *("correct", "following", "label", "labels", "one", "option", "options", "passage", "pick", "please"),
        *("question", "questions", "read", "reply", "respond", "right", "statement", "step", "story", "text"),
        *("think", "use"),
    )
)
"""Words by which prompts lead to a question, also where a story has them."""

_NUMBER = re.compile(
    r"""(?:^|(?<=[.!?:])|(?<=[.!?:]["')\]]))\s*(?:sentence\s+)?[(\[]?\d{1,4}[.):\]]*(?=\s)""", re.M | re.I
)
_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """The words of a text in small letters, without the numbers that lines and sentences begin with."""
    return _WORD.findall(_NUMBER.sub(" ", text).casefold())


def story_words(item: Item) -> list[str]:
    """The words of an item's story."""
    return [word for sentence in item.story for word in words(sentence)]


class Told(NamedTuple):
    """A story, the questions that items ask about it with their choices and ids, all as words with single spaces."""

    story: str
    questions: list[tuple[str, tuple[str, ...], str]]


class Known:
    """The items of a benchmark, by their stories.

    name: of the benchmark. stock: all its items. answers, choices: of each item, by its id; places: where it is in the
    stock. It needs some ten times the memory of the items' texts.
    """

    def __init__(self, name: str, items: Iterable[Item]) -> None:
        self.name = name
        self.answers: dict[str, str] = {}
        self.choices: dict[str, tuple[str, ...]] = {}
        self.places: dict[str, int] = {}
        self._stories: dict[str, Told] = {}
        self._begin: dict[str, list[Told]] = {}
        self.stock = ItemStore(self._seen(items))
        self._lengths = sorted({key.count(" ") + 1 for key in self._begin})
        counts = Counter(word for story in self._stories for word in set(story.split()))
        many = len(self._stories) >= FEW
        self._common = frozenset(
            word for word, count in counts.items() if (count >= COMMON * len(self._stories) if many else len(word) <= 3)
        )

    def _seen(self, items: Iterable[Item]) -> Iterator[Item]:
        same: dict[tuple[str, ...], tuple[str, ...]] = {}
        for item in items:
            parts = story_words(item)
            story = " ".join(parts)
            if (told := self._stories.get(story)) is None:
                told = self._stories[story] = Told(story, [])
                self._begin.setdefault(" ".join(parts[:WORDS]), []).append(told)
            choices = tuple(" ".join(words(choice)) for choice in item.choices)
            told.questions.append((" ".join(words(item.question)), choices, item.id))
            self.answers[item.id] = item.answer
            self.choices[item.id] = same.setdefault(item.choices, item.choices)
            self.places[item.id] = len(self.places)
            yield item

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
                if found := self._asked(told, whole[starts[place] + len(told.story) :], item):
                    return item if item in found else found[0] if len(found) == 1 else None
        return None

    def _asked(self, told: Told, rest: str, item: str | None) -> list[str]:
        """The ids of the items about this story whose question is the last that the text after it asks and, where
        several have that question, those whose choices stand there, too, in their order; none where the story goes on,
        unless the file names one of them (`item`), as of a conversation whose earlier replies stand between the two.

        A question that ends with another one is the longer of the two.
        """
        ends = {question: rest.rfind(f" {question} ") + len(question) for question, _, _ in told.questions if question}
        there = {question: (end, len(question)) for question, end in ends.items() if end >= len(question)}
        if not there:
            return []
        last = max(there, key=there.__getitem__)
        found = [one for one in told.questions if one[0] == last]
        named = any(identity == item for _, _, identity in found)
        if not named and self._goes_on(told, rest[: there[last][0] - len(last)], found):
            return []
        if len(found) > 1:
            after = rest[there[last][0] :]
            found = [one for one in found if _in_order(one[1], after)] or found
        return [identity for _, _, identity in found]

    def _goes_on(self, told: Told, between: str, asked: Sequence[tuple[str, tuple[str, ...], str]]) -> bool:
        """Whether the text between a story and its question tells more of it: whether it has a word of that story
        which most others do not have. Other questions about the story, and choices, may stand there, too."""
        others = {question for question, _, _ in told.questions} | {label for one in asked for label in one[1]}
        for text in sorted(others, key=len, reverse=True):
            between = between.replace(f" {text} ", " ")
        rare = {word for word in between.split() if word not in self._common} - ASKING
        return any(f" {word} " in f" {told.story} " for word in rare)


def _in_order(choices: tuple[str, ...], text: str) -> bool:
    """Whether the choices stand in the text in this order."""
    place = 0
    for choice in choices:
        place = text.find(f" {choice} ", place)
        if place < 0:
            return False
        place += len(choice) + 1
    return True
