"""What a run asks: items, the strategies that ask about each of them, and how much of that is answered already.

A question is an item that one strategy asks about. It takes one request, or a conversation of several. How many
requests are left is counted by the journal alone, without beginning any conversation anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tomserve.engine.request import Identity, Request
from tomserve.prompting.strategy import Strategy
from tomserve.runs.journal import Journal
from tomserve.runs.stock import Stock
from tomserve.runs.talking import Talks


class Question(NamedTuple):
    """An item, by its id, and the strategy that asks about it."""

    item: str
    strategy: Strategy


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
    """Items, and the strategies that ask about each of them."""

    items: Stock
    strategies: Sequence[Strategy]

    def __iter__(self) -> Iterator[Question]:
        return (Question(item, strategy) for strategy in self.strategies for item in self.items.ids)

    def requests(self, talks: Talks, wanted: Wanted = lambda question: True) -> Iterator[Request]:
        """Make the first requests one by one, in an order in which prompts that share a long beginning come together.

        talks: makes the requests, and holds the conversations that these requests begin.
        wanted: tells which questions are to be asked, so that a resumed run renders only those that are left.
        """
        for strategy in self.strategies:
            for place in self._in_order(strategy, wanted):
                yield from talks.begin(strategy, self.items[place])

    def _in_order(self, strategy: Strategy, wanted: Wanted) -> list[int]:
        """The places of the items that the strategy still has to ask about, in the order in which it asks them."""
        left = [place for place, item in enumerate(self.items.ids) if wanted(Question(item, strategy))]
        keys = {place: strategy.order(self.items[place]) for place in left}
        return sorted(keys, key=keys.__getitem__)


def finished(journal: Journal, question: Question) -> bool:
    """Whether a question needs no further request: it has its final row, or a row that closes its conversation."""
    return Identity(question.item, question.strategy.name, 0) in (
        journal.closed if question.strategy.several else journal.final
    )


def begun(journal: Journal, question: Question) -> bool:
    """Whether any turn of a question has its final row."""
    first = Identity(question.item, question.strategy.name, 0)
    return first in journal.final or first[:2] in journal.further


def answered(journal: Journal, questions: Iterable[Question]) -> Iterator[Question]:
    """Those of the questions whose answer (status ok or length) is in the journal."""
    failed = {(identity.item, identity.strategy) for identity in journal.failed}
    return (one for one in questions if finished(journal, one) and (one.item, one.strategy.name) not in failed)


def counted(journal: Journal, questions: Iterable[Question]) -> Count:
    """How many requests of these questions are left to ask, and how many there are in all."""
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
    item, strategy = question
    if not begun(journal, question):
        return 0
    had = 0
    for turn in range(strategy.calls):  # turns of a list may have their rows in any order
        if Identity(item, strategy.name, turn) in journal.final:
            had += 1
        elif finished(journal, question):
            break
    return had
