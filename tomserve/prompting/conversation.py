"""A conversation about one item: its turns, and the replies to them from which the next turns are made.

A strategy of several turns is a *program*: a generator that yields a turn, or a list of turns that may be asked at
the same time, and receives the reply, or the list of replies. Its last turn, or the text that it returns, is the
answer. It must be deterministic given its replies, since a resume feeds it those that the journal holds.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import orjson

from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.scoring.thoughts import split_thoughts
from tomserve.status import LENGTH, OK

Message = dict[str, str]
"""One message of a chat, with its `role` and its `content`."""


class Turn(NamedTuple):
    """What one request of a strategy asks."""

    messages: Sequence[Message]
    schema: dict[str, Any] | None = None  # of the reply; None for free text
    max_tokens: int = 0  # 0 for the number of the strategy
    fields: Mapping[str, Any] = {}  # further fields of the request body, which replace those of the run
    number: int = 0  # the place of the turn in its conversation, which numbers its turns itself


class Reply(NamedTuple):
    """What came back for a turn."""

    text: str = ""
    reasoning: str | None = None  # its thinking, where the server returns it apart from the answer
    status: str = OK  # or "length" for a text that was cut off at its number of tokens
    tokens: Sequence[tuple[str, float | None]] | None = None  # those asked for, with log-probabilities where known
    skipped: int = 0  # how many tokens stood before these, where only the last ones were kept

    @property
    def cut(self) -> bool:
        """Whether the text was cut off at its number of tokens."""
        return self.status == LENGTH

    def without_thoughts(self) -> Reply:
        """The reply without thoughts that a server left in its text (see tomserve.scoring.thoughts).

        >>> Reply("<think>Ann left.</think>\\n\\ntea").without_thoughts().text
        'tea'

        Thoughts that were cut off leave no text.
        """
        said = split_thoughts(self.text)
        return self if said.text is self.text else self._replace(text=said.text.lstrip())

    def json(self) -> Any:
        """The text as JSON. Raises ValueError where it is none, such as a text that was cut off."""
        return orjson.loads(self.text)


Program = Generator[Turn | list[Turn], Any, str | None]
"""A running program: it yields turns, receives replies, and may return the text that is its answer."""


class Conversation:
    """The turns of one running program, numbered in the order in which they were yielded. what: names it in errors.

    open: the turns that wait for a reply. count: how many turns there were so far. conclusion: the text that is scored
    where that is not the reply to the turn that was answered last, else None.

    Raises ConfigError where the program has more turns than `calls`, or yields something else than turns.
    """

    def __init__(self, program: Program, calls: int, what: str = "the program") -> None:
        self._program, self._calls, self._what = program, calls, what
        self._single = True
        self._replies: dict[int, Reply] = {}
        self._asked: list[int] = []
        self.open: list[Turn] = []
        self.count = 0
        self.ended = False
        self.conclusion: str | None = None
        self._advance(None)

    def reply(self, number: int, reply: Reply) -> list[Turn]:
        """Take the reply to the turn with that number, of which the program sees what was said after any thoughts.
        Returns the turns to ask next: none while others of the same list wait, or where the program has ended."""
        if self._single:
            self.open = []
            self._advance(reply.without_thoughts())
            return self.open
        self.open = [turn for turn in self.open if turn.number != number]
        self._replies[number] = reply.without_thoughts()
        if self.open:
            return []
        replies = [self._replies.pop(one) for one in self._asked]
        if number != self._asked[-1]:
            self.conclusion = replies[-1].text  # unless the program returns another, or asks once more
        self._advance(replies)
        return self.open

    def _advance(self, value: Reply | list[Reply] | None) -> None:
        """Let the program go on with the replies that it waits for."""
        try:
            yielded = self._program.send(value)
        except StopIteration as end:
            self.ended = True
            if end.value is not None:
                self.conclusion = self._text(end.value)
            if not self.count:
                raise ConfigError(f"{self._what}: asks nothing; it must yield at least one Turn") from None
            return
        self.conclusion = None
        self._single = isinstance(yielded, Turn)
        turns = [yielded] if isinstance(yielded, Turn) else yielded
        if not self._single and (
            not isinstance(turns, list) or not turns or not all(isinstance(t, Turn) for t in turns)
        ):
            raise ConfigError(f"{self._what}: yielded {yielded!r:.60}; expected a Turn or a list of them")
        for turn in turns:
            messages = turn.messages
            if not isinstance(messages, list | tuple) or set(map(type, messages)) != {dict}:
                raise ConfigError(f"{self._what}: yielded a Turn of {messages!r:.60}; expected a list of messages")
        if self.count + len(turns) > self._calls:
            raise ConfigError(
                f"{self._what}: wants more than {self._calls} calls for one question; mend what makes it go on, or "
                "raise `calls` in strategy.yaml"
            )
        self.open = [
            turn if turn.number == number else turn._replace(number=number)
            for number, turn in enumerate(turns, self.count)
        ]
        self._asked = [turn.number for turn in self.open]
        self.count += len(turns)

    def _text(self, value: Any) -> str:
        """The text that a program returned. Raises ConfigError where it is something else."""
        if not isinstance(value, str):
            raise ConfigError(f"{self._what}: returned {value!r:.60}; expected the text of the answer, or nothing")
        try:
            value.encode()
        except UnicodeEncodeError:  # the journal could not keep it
            raise ConfigError(f"{self._what}: returned {value!a:.60}, which holds half a character") from None
        return value


class Asker(Protocol):
    """What asks about an item: a strategy, or anything else that asks as one does."""

    @property
    def name(self) -> str:
        """What tells its questions from those of others."""

    @property
    def turns(self) -> int | None:
        """How many requests a conversation takes; None where only a program knows."""

    @property
    def calls(self) -> int:
        """How many requests a conversation may take at most."""

    @property
    def is_multi_turn(self) -> bool:
        """Whether a conversation may take another number of requests than one."""

    def conversation(self, item: Item) -> Conversation:
        """A new conversation about the item, from its first turn."""

    def turn(self, item: Item) -> Turn:
        """The first turn about an item."""
