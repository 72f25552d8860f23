"""Retries of failed requests, and the failures that end a run: refusals from the start, replies by another model."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tenacity import RetryCallState, wait_random_exponential
from tenacity.wait import wait_base

from tomserve.engine.records import Row
from tomserve.engine.transport import Reply
from tomserve.errors import ServerError
from tomserve.status import REFUSED, SPOKEN, TIMEOUT, transient

LONGEST_WAIT = 120.0  # seconds for which a server's Retry-After is obeyed at most


def announced_wait(reply: Reply) -> float | None:
    """The seconds to wait that a reply asks for by Retry-After, at most LONGEST_WAIT; None where it does not ask."""
    return None if reply.retry_after is None else min(reply.retry_after, LONGEST_WAIT)


@dataclass(frozen=True)
class RetryPolicy:
    attempts: int = 6  # how many times a request is sent at most
    # tenacity's rule for the seconds between two attempts
    wait: wait_base = field(default_factory=lambda: wait_random_exponential(multiplier=0.5, max=20))
    lost_after: float = 60.0  # seconds without any contact, or without any answer, after which the run ends

    def again(self, reply: Reply, attempt: int) -> bool:
        """Whether to send a request again after its `attempt`-th attempt (from 1) where the failure may go away by
        itself; after a timeout only once, as it costs so long."""
        limit = min(self.attempts, 2) if reply.status == TIMEOUT else self.attempts
        return attempt < limit and transient(reply.status)

    def seconds(self, reply: Reply, attempt: int) -> float:
        """The seconds to wait after the `attempt`-th attempt: the server's Retry-After or our own, the longer one."""
        state = RetryCallState(retry_object=None, fn=None, args=(), kwargs={})  # type: ignore[arg-type]
        state.attempt_number = attempt
        # A server that answers Retry-After: 0 must not be flooded with requests.
        return max(announced_wait(reply) or 0.0, float(self.wait(state)))


MOMENT = 1e-6  # seconds that are too short to be waited for


class Pause:
    """A pause of all requests to an endpoint that refuses some with 429 or 503, so that it can recover.

    It lasts as long as the server asks for by Retry-After; else a quarter of a second, and twice as long as the one
    before (at most 8 s) for each further refusal without a success in between.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._until = self._began = -math.inf
        self._rounds = 0

    @property
    def left(self) -> float:
        """Seconds still to wait; 0 or less for none. Less than a microsecond counts as none: an event loop would end
        such a wait before its clock has moved."""
        left = self._until - self.clock()
        return left if left > MOMENT else min(left, 0.0)

    def note_refusal(self, reply: Reply, sent: float) -> None:
        """Begin or prolong a pause, because a request sent at `sent` was refused; requests in flight together count
        once."""
        if sent > self._began:
            self._began = self.clock()
            self._rounds += 1
        asked = announced_wait(reply)
        seconds = min(0.25 * 2 ** (self._rounds - 1), 8.0) if asked is None else asked
        self._until = max(self._until, self._began + seconds)

    def note_answer(self) -> None:
        """The server answers again: the next pause is a short one."""
        self._rounds = 0


LIMIT = 8  # how many different questions must be refused for the same reason, with nothing else before, to end the run


class FirstRefusals:
    """Ends a run whose first requests are all refused for the same reason.

    Until a request succeeds, rows with a final refusal are held back. Once LIMIT questions were refused alike, the run
    ends and none of them is written, since they would never be asked again; so the command can be repeated when the
    mistake is mended. As soon as a reply differs they are written. decided: True where rows are written at once,
    because a reply has shown that requests are well-formed.
    """

    def __init__(self, decided: bool = False) -> None:
        self.decided = decided
        self._held: list[Row] = []
        self._ended: ServerError | None = None

    def take(self, row: Row) -> list[Row]:
        """The rows that may be written now, in order. Raises ServerError where this was the last refusal needed."""
        if self.decided:
            return [row]
        if self._ended is not None:  # this request was in flight when the run ended; its worker must end, too
            raise self._ended
        same = not self._held or _refusal(row) == _refusal(self._held[0])
        self._held.append(row)
        if row["status"] not in REFUSED or not same:
            self.decided = True
            return self.give_up()
        if self._questions() >= LIMIT:
            self._end()
        return []

    def finish(self) -> list[Row]:
        """The row still held back at the end, if any. Raises ServerError where several questions were asked and all
        were refused for the same reason."""
        if self._questions() > 1:
            self._end()
        return self.give_up()

    def _questions(self) -> int:
        return len({held["key"] for held in self._held})

    def give_up(self) -> list[Row]:
        """The rows still held back when the run is stopped; they are kept, as everything that completed."""
        held, self._held = self._held, []
        return held

    def _end(self) -> None:
        row, count = self._held[0], self._questions()
        self._held = []
        self._ended = ServerError(
            f"{row['endpoint']}: the first {count} questions were all refused with {row['status']} ({row['error']}); "
            "nothing was written: mend the request (model, options, preset) or the server, then repeat the command"
        )
        raise self._ended


def _refusal(row: Row) -> tuple[str, str]:
    """Status and error without their numbers: "requested 1,234 tokens" is the same reason for every question."""
    return row["status"], re.sub(r"[0-9]+", "#", row["error"] or "")


MOST = 64
"""How many different names are kept at most: a server that makes up a name for each reply must not fill the memory."""


class ModelGuard:
    """Ends a run in which a reply names another model than the replies before, whatever endpoint it came from.

    known: the names that replies gave in earlier sessions of the run; `named` are those of this one. accept: called
    with (endpoint, the names so far, the new name) where the user accepts a change; without it a change raises an
    error. acceptable: whether the user could accept one, so that the error says how.
    """

    def __init__(
        self,
        known: Iterable[str] = (),
        accept: Callable[[str, list[str], str], None] | None = None,
        *,
        acceptable: bool = True,
    ) -> None:
        self.known, self._acceptable = set(known), acceptable
        self.named: set[str] = set()
        self._accept = accept

    def note_reply(self, reply: Reply, endpoint: str) -> None:
        """Take note of the model that a reply names. Raises ServerError where it is another one and that is not
        accepted."""
        name = reply.model
        if name is None or name in self.named or reply.status not in SPOKEN:
            return
        before = sorted(self.known | self.named)
        if before and name not in self.known:
            if self._accept is None:
                earlier = ", ".join(map(repr, before[:3])) + (", ..." if len(before) > 3 else "")
                both = ", or go on with both by --accept-change, which the manifest records"
                raise ServerError(
                    f"{endpoint}: a reply names the model {name!r} where earlier ones named {earlier}; it was not "
                    f"kept, all earlier ones are: use --run NEW (make: RUN=NEW){both if self._acceptable else ''}"
                )
            if len(before) < MOST:
                self._accept(endpoint, before, name)
        if len(self.named) < MOST:
            self.named.add(name)
