"""The line of requests that workers take from: follow-ups of conversations before new questions.

A strategy of several turns asks again, depending on what was answered. Whoever knows the conversations is the follower:
it is told every row before it is written, marks the one that ends a conversation, and returns the requests that follow.
A follow-up goes out before any new question, so that few conversations are open at a time, and to the endpoint that
answered the turn before, because that server's prefix cache holds its prompt.

A conversation that an earlier session began is begun anew. Its turns that the journal has answers to are answered from
there, without a row; the first one that it has none to is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from tomserve.engine.request import Identity, Request, ahead
from tomserve.engine.rows import CLOSES, Row, Rows, answering
from tomserve.errors import ConfigError


class Follower(Protocol):
    """Whoever holds the open conversations of a run. Requests of a single turn are no conversations."""

    @property
    def grown(self) -> int:
        """How many more requests are wanted than were announced before the run, as conversations go on."""
        ...

    def waits(self, identity: Identity) -> bool:
        """Whether an open conversation waits for the reply to that turn."""
        ...

    def over(self, identity: Identity) -> bool:
        """Whether that is a turn of a conversation which has ended, so that nobody needs a reply any more."""
        ...

    def follow(self, row: Row) -> Sequence[Request]:
        """Take a reply, as the row that is about to be written, and return the requests that follow from it.

        Where the reply ends its conversation, the row gets the fields CLOSES and, where the answer is another text
        than that of the row, CONCLUSION. Raises ConfigError where the strategy's program makes a mistake.
        """
        ...


Next = tuple[Request, Request | None, str | None]
"""A request that is to be asked next, that of the turn before in its conversation, if any, and the endpoint that
answered the turn before. It is a plain tuple, because one is made for every request."""


class Line:
    """The requests of a run, in the order in which they are asked.

    requests: the new questions. journal: tells what is answered already.
    follower: holds the conversations; None where every question takes a single request.
    write: writes a row. used_up: whether there are no new questions any more.
    """

    def __init__(
        self, requests: Iterable[Request], journal: Rows, follower: Follower | None, write: Callable[[Row], None]
    ) -> None:
        self._requests = ahead(requests)
        self._journal, self._follower, self._write = journal, follower, write
        self._following: list[Next] = []
        self.used_up = False

    @property
    def waiting(self) -> int:
        """How many follow-ups wait to be asked."""
        return len(self._following)

    @property
    def grown(self) -> int:
        """How many more requests are wanted than were announced before the run."""
        return 0 if self._follower is None else self._follower.grown

    def take(self) -> Next | None:
        """The next request that has no final row yet; None where nothing is left at the moment.

        Raises ConfigError where a program asks something else than in an earlier session.
        """
        while True:
            if self._following:
                found = self._following.pop()
            elif (new := next(self._requests, None)) is not None:
                found = (new, None, None)
            else:
                self.used_up = True
                return None
            request, follower = found[0], self._follower
            if follower is not None and follower.over(request.identity):
                continue
            if request.identity not in self._journal.final:
                return found
            if follower is not None and follower.waits(request.identity):
                self._replay(request)

    def follow(self, row: Row, request: Request) -> list[Next]:
        """What follows from the reply in a row; the row may get further fields (see Follower.follow).

        request: what was asked, for this row or, in the same words, for another one.
        """
        if self._follower is None:
            return []
        return [(one, request, row.get("endpoint")) for one in self._follower.follow(row)]

    def push(self, following: Sequence[Next]) -> int:
        """Put follow-ups at the head of the line, the first of them first. Returns how many wait now."""
        self._following.extend(reversed(following))
        return len(self._following)

    def _replay(self, request: Request) -> None:
        """Answer a turn from the journal."""
        item, strategy, turn, _ = request.identity
        if (found := self._journal.find(request.key)) is None:
            raise ConfigError(
                f"strategy {strategy!r}, item {item!r}, turn {turn} (counted from 0): the program asks something else "
                "than when this turn was answered, though the replies before it are the same; make it depend on the "
                "item and the replies alone, or use --run NEW (make: RUN=NEW)"
            )
        row = answering(found, request.identity)
        self.push(self.follow(row, request))
        if CLOSES in row:  # the program went on longer when this turn was answered, and was stopped by its budget
            self._write(row)
