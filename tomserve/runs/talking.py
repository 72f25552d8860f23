"""The open conversations of a run: what the replies to their turns are, and what is asked next.

Each is a strategy's program in the middle of its work (see tomserve.prompting.conversation). A conversation is open
from its first request until it ends or cannot go on, so that there are no more of them than requests that are in flight
or about to be sent, however many items there are. Nothing of it is kept but the rows of the journal: a run that was
interrupted begins the conversation anew, and is given the replies from there (see tomserve.engine.runner).

>>> talks = Talks(build, journal.final)                                             # doctest: +SKIP
>>> [request.identity.turn for request in talks.begin(strategy, item)]              # doctest: +SKIP
[0]
>>> [request.identity.turn for request in talks.follow(row)]                        # doctest: +SKIP
[1]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tomserve.engine.records import CLOSES, CONCLUSION, Row
from tomserve.engine.request import Identity, Request
from tomserve.items import Item
from tomserve.prompting.conversation import Asker, Conversation, Reply, Turn
from tomserve.status import ANSWERS, FINAL

ENDING = FINAL - ANSWERS
"""Statuses of replies that are no answer and never will be."""

Build = Callable[[Identity, Turn], Request]
"""A function that makes the request of a turn."""


@dataclass(slots=True)
class _Talk:
    """An open conversation.

    counted: how many requests it is taken to have. failed: how many of its open turns have no reply in this session.
    program: whether only its program knows how many requests it takes.
    """

    conversation: Conversation
    counted: int
    program: bool
    failed: int = 0


class Talks:
    """The open conversations of one phase of a run; it is the runner's Follower (see tomserve.engine.runner).

    build: makes the request of a turn. had: tells how many requests a conversation, given by strategy, item and sample,
    had in earlier sessions.
    ahead: how many conversations of programs are still to be begun, whose number of requests nobody knows.
    """

    def __init__(self, build: Build, had: Callable[[Asker, str, int], int] = lambda *of: 0) -> None:
        self._build, self._had = build, had
        self._several: set[str] = set()
        self._open: dict[tuple[str, str, int], _Talk] = {}
        self._more = 0  # requests beyond those that were counted before the conversations began
        self._ended = self._extra = 0  # conversations of programs that ended, and how many requests more they took
        self.ahead = 0

    @property
    def grown(self) -> int:
        """How many more requests are wanted than were announced.

        Conversations of programs that have not begun are expected to take as many as those that have ended.
        """
        expected = self._extra / self._ended * self.ahead if self._ended else 0.0
        return self._more + round(expected)

    def __len__(self) -> int:
        """How many conversations are open."""
        return len(self._open)

    def begin(self, strategy: Asker, item: Item, sample: int = 0) -> Iterable[Request]:
        """The first requests about an item: the only one of a strategy of one turn, else those of a new conversation.

        sample: which one it is, where the same is asked several times.
        Raises ConfigError where the strategy's program makes a mistake.
        """
        if not strategy.several:
            return (self._build(Identity(item.id, strategy.name, 0, sample), strategy.turn(item)),)
        conversation = strategy.conversation(item)
        self._several.add(strategy.name)
        turns, question = strategy.turns, (item.id, strategy.name, sample)
        counted = turns or self._had(strategy, item.id, sample) + 1
        talk = self._open[question] = _Talk(conversation, counted, turns is None)
        if turns is None:
            self.ahead -= 1
            self._count(talk)
        return self._requests(question, conversation.open)

    def waits(self, identity: Identity) -> bool:
        """Whether an open conversation waits for the reply to that turn."""
        return identity.question in self._open

    def over(self, identity: Identity) -> bool:
        """Whether that is a turn of a conversation that has ended."""
        return identity.strategy in self._several and identity.question not in self._open

    def leave(self, identity: Identity) -> None:
        """Hold the conversation of that turn no longer, as its next reply does not come in this session."""
        self._open.pop(identity.question, None)

    def follow(self, row: Row) -> list[Request]:
        """Take a reply, and return the requests that follow from it (see tomserve.engine.runner.Follower).

        A reply that is no answer and never will be ends the conversation. Where there is no reply at all, the
        conversation waits for another session, once the other turns of its list have had theirs.
        """
        question = (row["item"], row["strategy"], row.get("sample") or 0)
        if (talk := self._open.get(question)) is None:
            return []
        following: list[Turn] = []
        conversation, status = talk.conversation, row["status"]
        if status in ANSWERS:
            tokens, skipped = row.get("tokens"), row.get("tokens_skipped") or 0
            reply = Reply(row.get("text") or "", row.get("reasoning"), status, tokens, skipped)
            following = conversation.reply(row["turn"], reply)
        if conversation.ended or status in ENDING:
            row[CLOSES] = conversation.count
            if conversation.ended and conversation.conclusion is not None:
                row[CONCLUSION] = conversation.conclusion
            self._end(talk, question)
            return []
        if following:
            if talk.program:
                self._count(talk)
            return self._requests(question, following)
        talk.failed += status not in ANSWERS
        if len(conversation.open) == talk.failed:
            del self._open[question]
        return []

    def _requests(self, question: tuple[str, str, int], turns: Iterable[Turn]) -> list[Request]:
        item, strategy, sample = question
        return [self._build(Identity(item, strategy, turn.number, sample), turn) for turn in turns]

    def _count(self, talk: _Talk) -> None:
        """Count the requests that a conversation takes beyond those that it was taken to have."""
        more = max(0, talk.conversation.count - talk.counted)
        talk.counted += more
        self._more += more

    def _end(self, talk: _Talk, question: tuple[str, str, int]) -> None:
        """Close a conversation, and correct what it was taken to take."""
        del self._open[question]
        self._more += talk.conversation.count - talk.counted
        if talk.program:
            self._ended += 1
            self._extra += talk.conversation.count - 1
