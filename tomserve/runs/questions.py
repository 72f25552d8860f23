"""What a run asks: items, the strategies that ask about each of them, and how much of that is answered already.

A question is an item that one strategy asks about, once or, as several samples, several times. Each sample takes one
request, or a conversation of several. How many requests are left is counted by the journal alone, without beginning any
conversation anew.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tomserve.content.compact_index import FirstPlaces
from tomserve.engine.request import Identity, Request
from tomserve.prompting.conversation import Asker
from tomserve.prompting.strategy import Strategy
from tomserve.runs.journal import Journal
from tomserve.runs.sorting import ordered, places_in_order
from tomserve.runs.stock import Stock
from tomserve.runs.talking import Talks


class Question(NamedTuple):
    """An item, by its id, the strategy (or the like) that asks about it, and which sample it is where it is asked
    several times."""

    item: str
    strategy: Asker
    sample: int = 0

    def turn(self, number: int) -> Identity:
        """The identity of one of its turns."""
        return Identity(self.item, self.strategy.name, number, self.sample)


Wanted = Callable[[Question], bool]
"""A function that says whether a question is to be asked."""


class Count(NamedTuple):
    """How many requests are left to ask, and how many there are in all.

    A program says only in the course of a conversation how many requests it takes, so that each of its conversations
    that is not finished counts as one request more than it has had.

    open: how many conversations of programs are not finished.
    several: whether any question takes a conversation rather than one request.
    """

    left: int
    total: int
    open: int = 0
    several: bool = False


@dataclass(frozen=True)
class Questions:
    """Items, the strategies that ask about each of them, and how many times each asks the same (repeats)."""

    items: Stock
    strategies: Sequence[Strategy]
    repeats: int = 1
    _counts: list[tuple[Journal, int, Count]] = field(default_factory=list, repr=False, compare=False)

    @property
    def ids(self) -> FirstPlaces:
        """The ids of the items, to look for one of them."""
        return FirstPlaces(self.items.ids)

    def __iter__(self) -> Iterator[Question]:
        return (
            Question(item, strategy, sample)
            for strategy in self.strategies
            for item in self.items.ids
            for sample in range(self.repeats)
        )

    def counted(self, journal: Journal) -> Count:
        """How many requests of these questions are left, and how many there are in all.

        Before a run asks its first question this is wanted several times, and so it is kept until the journal grows.
        """
        for known, size, count in self._counts:
            if known is journal and size == journal.size:
                return count
        count = _counted(journal, self) if any(one.several for one in self.strategies) else self._counted_once(journal)
        self._counts[:] = [(journal, journal.size, count)]
        return count

    def _counted_once(self, journal: Journal) -> Count:
        """What `counted` gives where each sample of a question takes one request, in half the time."""
        final, samples, items, left = journal.final, range(self.repeats), self.items.ids, 0
        for name in (strategy.name for strategy in self.strategies):
            left += sum((item, name, 0, sample) not in final for item in items for sample in samples)
        return Count(left, len(self.items) * len(self.strategies) * self.repeats)

    def requests(self, talks: Talks, wanted: Wanted = lambda question: True) -> Iterator[Request]:
        """Make the first requests one by one, in an order in which prompts that share a long beginning come together.

        talks: makes the requests, and holds the conversations that these requests begin.
        wanted: tells which questions are to be asked, so that a resumed run renders only those that are left.
        """
        for strategy in self.strategies:
            for place in self._in_order(strategy, wanted):
                for question in self._samples(self.items.ids[place], strategy):
                    if self.repeats == 1 or wanted(question):
                        yield from talks.begin(strategy, self.items[place], question.sample)

    def _in_order(self, strategy: Strategy, wanted: Wanted) -> Iterator[int]:
        """The places of the items that the strategy still has to ask about, in the order in which it asks them."""
        names = enumerate(self.items.ids)
        if self.repeats == 1:
            left = array("Q", (place for place, item in names if wanted(Question(item, strategy))))
        else:
            left = array("Q", (place for place, item in names if any(map(wanted, self._samples(item, strategy)))))
        order = places_in_order(ordered(strategy.order(self.items[place])) for place in left)
        return (left[place] for place in order)

    def _samples(self, item: str, strategy: Strategy) -> Iterator[Question]:
        """The samples of an item."""
        return (Question(item, strategy, sample) for sample in range(self.repeats))


def finished(journal: Journal, question: Question) -> bool:
    """Whether a question needs no further request: it has its final row, or a row that closes its conversation."""
    item, strategy, sample = question
    # The same as question.turn(0), in a form that takes half the time: this is asked of every question.
    return (item, strategy.name, 0, sample) in (journal.closed if strategy.several else journal.final)


def begun(journal: Journal, question: Question) -> bool:
    """Whether any turn of a question has its final row."""
    first = question.turn(0)
    return first in journal.final or first.question in journal.further


def answered(journal: Journal, questions: Iterable[Question]) -> Iterator[Question]:
    """Those of the questions whose answer (status ok or length) is in the journal."""
    failed = {identity.question for identity in journal.failed}
    return (one for one in questions if finished(journal, one) and one.turn(0).question not in failed)


def counted(journal: Journal, questions: Iterable[Question]) -> Count:
    """How many requests of these questions are left to ask, and how many there are in all."""
    return questions.counted(journal) if isinstance(questions, Questions) else _counted(journal, questions)


def _counted(journal: Journal, questions: Iterable[Question]) -> Count:
    left = total = unknown = 0
    several = False
    for question in questions:
        strategy, done = question.strategy, finished(journal, question)
        if not strategy.several:
            left += not done
            total += 1
            continue
        several = True
        had = turns_had(journal, question)
        missing = 0 if done else max(1, (strategy.turns or 0) - had)
        unknown += strategy.turns is None and not done
        left += missing
        total += had + missing
    return Count(left, total, unknown, several)


def turns_had(journal: Journal, question: Question) -> int:
    """How many turns of a conversation have their final row."""
    if not begun(journal, question):
        return 0
    had = 0
    for turn in range(question.strategy.calls):  # turns of a list may have their rows in any order
        if question.turn(turn) in journal.final:
            had += 1
        elif finished(journal, question):
            break
    return had
