"""When to ask again, and how long to wait first: a value made of tenacity's wait objects.

>>> RetryPolicy(attempts=3).again(Reply("http_503"), attempt=1)
True
>>> RetryPolicy(attempts=3).again(Reply("http_400"), attempt=1)
False
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tenacity import RetryCallState, wait_random_exponential
from tenacity.wait import wait_base

from tomserve.engine.transport import Reply
from tomserve.status import TIMEOUT, transient

LONGEST_WAIT = 120.0  # seconds; what a server asks for beyond that is not honoured


def announced(reply: Reply) -> float | None:
    """The seconds that a server asked to be left alone, as far as that is honoured; None where it did not ask."""
    return None if reply.retry_after is None else min(reply.retry_after, LONGEST_WAIT)


@dataclass(frozen=True)
class RetryPolicy:
    """`attempts` a request in all; `wait` between them; `lost_after` seconds without any contact end the run."""

    attempts: int = 6
    wait: wait_base = field(default_factory=lambda: wait_random_exponential(multiplier=0.5, max=20))
    lost_after: float = 60.0

    def again(self, reply: Reply, attempt: int) -> bool:
        """Whether a reply to the `attempt`-th copy (from 1) calls for another; a timeout gets one more."""
        limit = min(self.attempts, 2) if reply.status == TIMEOUT else self.attempts
        return attempt < limit and transient(reply.status)

    def seconds(self, reply: Reply, attempt: int) -> float:
        """How long to wait after the `attempt`-th copy; a server's Retry-After is honoured up to two minutes."""
        # Never quicker than our own backing off: a server that says 0 is not to be hammered.
        return max(announced(reply) or 0.0, self._backoff(attempt))

    def _backoff(self, attempt: int) -> float:
        state = RetryCallState(retry_object=None, fn=None, args=(), kwargs={})  # type: ignore[arg-type]
        state.attempt_number = attempt
        return float(self.wait(state))


class Pause:
    """Nobody sends while a server that refuses (429, 503) recovers: one refusal stops all workers, not one.

    As long as the server asks for by Retry-After; else a quarter of a second, doubled while nothing succeeds between.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._until = self._began = -math.inf
        self._rounds = 0

    @property
    def left(self) -> float:
        """Seconds still to wait; 0 or less for none."""
        return self._until - self.clock()

    def refused(self, reply: Reply, sent: float) -> None:
        """A refusal of what went out at `sent`; of those that were out together the first begins a round."""
        if sent > self._began:
            self._began = self.clock()
            self._rounds += 1
        asked = announced(reply)
        seconds = min(0.25 * 2 ** (self._rounds - 1), 8.0) if asked is None else asked
        self._until = max(self._until, self._began + seconds)

    def answered(self) -> None:
        """The server works again."""
        self._rounds = 0
