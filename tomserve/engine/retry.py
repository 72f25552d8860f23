"""When a failed request is sent again, and how long to wait before; waiting times come from tenacity's wait objects.

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

LONGEST_WAIT = 120.0
"""Seconds for which a server's Retry-After is obeyed at most."""


def announced(reply: Reply) -> float | None:
    """The seconds to wait that a reply asks for by Retry-After, at most LONGEST_WAIT; None where it does not ask."""
    return None if reply.retry_after is None else min(reply.retry_after, LONGEST_WAIT)


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how long a run tries.

    attempts: how many times a request is sent at most.
    wait: tenacity's rule for the seconds between two attempts.
    lost_after: seconds without any contact, or without any answer, after which the run ends.
    """

    attempts: int = 6
    wait: wait_base = field(default_factory=lambda: wait_random_exponential(multiplier=0.5, max=20))
    lost_after: float = 60.0

    def again(self, reply: Reply, attempt: int) -> bool:
        """Whether to send a request again after the reply to its `attempt`-th attempt (from 1).

        Only failures that may go away by themselves are sent again; after a timeout only once, as it costs so long.
        """
        limit = min(self.attempts, 2) if reply.status == TIMEOUT else self.attempts
        return attempt < limit and transient(reply.status)

    def seconds(self, reply: Reply, attempt: int) -> float:
        """The seconds to wait after the `attempt`-th attempt: the server's Retry-After or our own, the longer one."""
        # A server that answers Retry-After: 0 must not be flooded with requests.
        return max(announced(reply) or 0.0, self._backoff(attempt))

    def _backoff(self, attempt: int) -> float:
        state = RetryCallState(retry_object=None, fn=None, args=(), kwargs={})  # type: ignore[arg-type]
        state.attempt_number = attempt
        return float(self.wait(state))


MOMENT = 1e-6
"""Seconds that are too short to be waited for."""


class Pause:
    """A pause of all requests to an endpoint that refuses some with 429 or 503, so that it can recover.

    The pause lasts as long as the server asks for by its Retry-After header. Without that header it lasts a quarter of
    a second, and twice as long as the one before (at most 8 s) for each further refusal without a success in between.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._until = self._began = -math.inf
        self._rounds = 0

    @property
    def left(self) -> float:
        """Seconds still to wait; 0 or less for none.

        Less than a microsecond counts as none: an event loop would end such a wait before its clock has moved, and
        whoever asks again and again would not get on.
        """
        left = self._until - self.clock()
        return left if left > MOMENT else min(left, 0.0)

    def refused(self, reply: Reply, sent: float) -> None:
        """Begin a pause, or prolong it, because a request that was sent at `sent` was refused.

        Refusals of requests that were in flight together count as one.
        """
        if sent > self._began:
            self._began = self.clock()
            self._rounds += 1
        asked = announced(reply)
        seconds = min(0.25 * 2 ** (self._rounds - 1), 8.0) if asked is None else asked
        self._until = max(self._until, self._began + seconds)

    def answered(self) -> None:
        """Take note that the server answers again: the next pause is a short one."""
        self._rounds = 0
