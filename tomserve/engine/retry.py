"""Retries of failed requests and pauses between them, and the end of a run whose replies name another model."""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tenacity import RetryCallState, wait_random_exponential
from tenacity.wait import wait_base

from tomserve.engine.rate_limits import Room
from tomserve.engine.transport import Reply
from tomserve.errors import ServerError
from tomserve.status import GATEWAY_TIMEOUTS, SPOKEN, TIMEOUT, transient

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
        itself; only once after a timeout, also that of a gateway, as it costs so long, and where the same reply is
        likely to come again."""
        once = reply.lasting or reply.status == TIMEOUT or reply.status in GATEWAY_TIMEOUTS
        limit = min(self.attempts, 2) if once else self.attempts
        return attempt < limit and transient(reply.status)

    def seconds(self, reply: Reply, attempt: int) -> float:
        """The seconds to wait after the `attempt`-th attempt: the server's Retry-After or our own, the longer one."""
        state = RetryCallState(retry_object=None, fn=None, args=(), kwargs={})  # type: ignore[arg-type]
        state.attempt_number = attempt
        # A server that answers Retry-After: 0 must not be flooded with requests.
        return max(announced_wait(reply) or 0.0, float(self.wait(state)))


MOMENT = 1e-6  # seconds that are too short to be waited for


class Pause:
    """A pause of all requests to an endpoint that refuses some with 429 or 503, so that it can recover, or that has
    announced how many it takes until a certain time.

    After a refusal it lasts as long as the server asks for by its headers; else a quarter of a second, and twice as
    long as the one before (at most 8 s) for each further refusal without a success in between. room: how many requests
    the endpoint still takes, None where it announces none.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.room: int | None = None
        self._until = self._began = self._reset = self._learned = -math.inf
        self._rounds, self._window, self._fewest = 0, 0.0, math.inf
        self._limit: int | None = None

    @property
    def left(self) -> float:
        """Seconds still to wait; 0 or less for none. Less than a microsecond counts as none: an event loop would end
        such a wait before its clock has moved."""
        full = self.room is not None and self.room <= 0
        left = (max(self._until, self._reset) if full else self._until) - self.clock()
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

    def note_room(self, room: Room, sent: float, out: int) -> None:
        """Note what a reply to a request that was sent at `sent` announces. out: how many are in flight, which the
        server may not have counted yet. Of replies that may have come out of order the one with the fewest counts."""
        now, seconds = self.clock(), min(room.seconds, LONGEST_WAIT)
        if sent > self._learned or room.requests <= self._fewest:
            self._learned, self._fewest = now, room.requests
        self._reset = now + seconds
        self._window, self._limit = max(self._window, seconds), room.limit
        self.room = int(self._fewest) - out

    def note_sent(self) -> None:
        """Count a request, where it is announced how many are taken."""
        if self.room is not None:
            if (now := self.clock()) >= self._reset - MOMENT:
                self.room, self._reset = self._limit, now + self._window
                self._learned, self._fewest = now, math.inf
            if self.room is not None:
                self.room -= 1


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
