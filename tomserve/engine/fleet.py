"""The endpoints of a run: which one gets the next request, which are out, and when the run has lost them all.

A request goes to the endpoint whose last prompt shares the longest beginning with its own, because that one's prefix
cache holds it, unless another has much more room; with one prompt as good as another, to the one with the most room.
Every endpoint has its own limit of requests out, fixed or adaptive.

An endpoint that cannot be reached, or that keeps failing while another works, is taken out and probed until it is back.
An outage is told from bad items by counting: when many different items fail in a row, nothing succeeds, no older
request is still being answered and a probe fails too, no item is given up any more, and after `lost_after` seconds the
run ends with a diagnosis instead of thousands of error rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from tomserve.engine.adaptive import MOST, Adaptive, work
from tomserve.engine.prefix import common
from tomserve.engine.request import Identity, Request
from tomserve.engine.retry import Pause, announced
from tomserve.engine.transport import Reply
from tomserve.status import BUSY, FINAL, NOT_FOUND, SPOKEN, TIMEOUT, TOO_MANY

SUSPECT = 8
"""Different items that fail in a row, without a success of any other, before an outage is suspected."""

STRIKES = 4
"""Failures of one endpoint in a row after which it is taken out while another works."""

PATIENCE = 3
"""Multiples of `lost_after` for which a request that is still being answered may hold up the end of a run."""

ALIVE = FINAL | {TOO_MANY}
"""Statuses of a server that works, whatever it thinks of the request."""

GOOD = FINAL - {NOT_FOUND}
"""Statuses that speak for the endpoint itself: a replica that lost its model, or is over its limit, is no help."""

IMBALANCE = 0.25
"""How much more of its limit an endpoint may have in use than the emptiest, for the sake of its prefix cache."""


class Fleet:
    """`concurrency`: requests out at most, over all endpoints (None: adaptive, each endpoint by itself). `clock`:
    monotonic seconds, injectable. A single endpoint is a fleet of one."""

    def __init__(
        self,
        endpoints: Sequence[str],
        lost_after: float,
        clock: Callable[[], float] = time.monotonic,
        concurrency: int | None = None,
        most: int = MOST,
    ) -> None:
        self.endpoints = list(endpoints)
        self.lost_after, self.clock = lost_after, clock
        self.fixed = concurrency
        self.limits = {endpoint: Adaptive(most=most, clock=clock) for endpoint in self.endpoints}
        self.pauses = {endpoint: Pause(clock) for endpoint in self.endpoints}
        self._prompts = dict.fromkeys(self.endpoints, b"")
        self.out: dict[str, dict[Identity, float]] = {endpoint: {} for endpoint in self.endpoints}
        self.down: dict[str, float] = {}
        self._good = self._reached = self._answered_at = clock()
        self._refused, self._announced = 0, 0.0
        self._failing: set[Identity] = set()
        self._bad: set[Identity] = set()
        self._strikes: dict[str, int] = dict.fromkeys(self.endpoints, 0)
        self._answered: set[str] = set()
        self._last = ""

    @property
    def up(self) -> list[str]:
        """The endpoints not known to be down; all of them where none is up."""
        return [endpoint for endpoint in self.endpoints if endpoint not in self.down] or self.endpoints

    @property
    def capacity(self) -> int:
        """Requests that may be out in all."""
        if self.fixed is not None:
            return self.fixed
        return sum(self.limits[endpoint].limit for endpoint in self.up)

    def used(self, endpoint: str) -> float:
        """The share of an endpoint's limit that is out."""
        limit = self.limits[endpoint].limit if self.fixed is None else self.fixed / len(self.up)
        return len(self.out[endpoint]) / limit

    def pick(self, request: Request, avoid: str | None = None) -> str:
        """The endpoint for a request, of those that are up (of all where none is), not `avoid` if there is another."""
        if len(self.endpoints) == 1:
            return self.endpoints[0]
        up = self.up
        free = [endpoint for endpoint in up if self.pauses[endpoint].left <= 0] or up
        others = [endpoint for endpoint in free if endpoint != avoid] or free
        used = {endpoint: self.used(endpoint) for endpoint in others}
        least = min(used.values())
        near = [endpoint for endpoint in others if used[endpoint] <= least + IMBALANCE]
        if len(near) == 1:
            chosen = near[0]
        else:
            prompt = request.prefix
            chosen = max(near, key=lambda endpoint: (common(self._prompts[endpoint], prompt), -used[endpoint]))
        self._prompts[chosen] = request.prefix
        return chosen

    @property
    def pause(self) -> float:
        """Seconds until some endpoint takes requests again; 0 or less for now."""
        if len(self.endpoints) == 1:
            return self.pauses[self.endpoints[0]].left
        return min(self.pauses[endpoint].left for endpoint in self.up)

    def sent(self, endpoint: str, identity: Identity) -> None:
        """A request goes out."""
        self.out[endpoint][identity] = self.clock()

    def over(self, endpoint: str, identity: Identity) -> float | None:
        """It came back, or was given up; when it went out."""
        return self.out[endpoint].pop(identity, None)

    @property
    def in_flight(self) -> int:
        """Requests that are out in all."""
        if len(self.endpoints) == 1:
            return len(self.out[self.endpoints[0]])
        return sum(map(len, self.out.values()))

    def oldest(self) -> tuple[Identity, float] | None:
        """The request that has been out for longest, and since when."""
        firsts = [next(iter(out.items())) for out in self.out.values() if out]
        return min(firsts, key=lambda entry: entry[1], default=None)

    @property
    def others_up(self) -> bool:
        """Whether some endpoint is not known to be down."""
        return len(self.down) < len(self.endpoints)

    @property
    def refusing(self) -> bool:
        """Whether 429 is all that is heard, again and again."""
        return self._refused >= SUSPECT

    @property
    def suspected(self) -> bool:
        """Whether so many items failed in a row that it is the server rather than they."""
        return len(self._failing) >= SUSPECT

    def heard(self, endpoint: str, reply: Reply, identity: Identity, sent: float | None = None) -> None:
        """Take note of what came back for what went out at `sent`."""
        now = self.clock()
        if sent is not None:
            self._steer(endpoint, reply, sent, now)
        if reply.reached and reply.status != TIMEOUT:
            self._reached = now
        if reply.status in GOOD:
            self._answered.add(endpoint)
            self._strikes[endpoint] = 0
            self.down.pop(endpoint, None)
        else:
            self._strikes[endpoint] += 1
            if not reply.reached or (self._strikes[endpoint] >= STRIKES and self._answered - {endpoint}):
                self.down.setdefault(endpoint, now)
        if reply.status == TOO_MANY:
            self._refused += 1
            self._announced = max(self._announced, announced(reply) or 0.0)
            self._last = _said(endpoint, reply)
        elif reply.status in FINAL:
            self._refused, self._announced, self._answered_at = 0, 0.0, now
        if reply.status in ALIVE:
            self._good = now
            self._failing.clear()
        elif identity not in self._bad:
            self._failing.add(identity)
            self._last = _said(endpoint, reply)

    def _steer(self, endpoint: str, reply: Reply, sent: float, now: float) -> None:
        """Let the endpoint's limit and pause know."""
        if reply.status in SPOKEN:
            self.pauses[endpoint].answered()
            if self.fixed is None:
                self.limits[endpoint].answered(sent, now - sent, work(reply.usage), len(self.out[endpoint]) + 1)
        elif reply.status in BUSY:
            self.pauses[endpoint].refused(reply, sent)
            if self.fixed is None:
                self.limits[endpoint].refused(sent)

    def revived(self, endpoint: str) -> None:
        """A probe was answered: the endpoint gets requests again, and may fail once before it is out again."""
        if endpoint in self.down:
            self.limits[endpoint].restart()
        self.down.pop(endpoint, None)
        self._strikes[endpoint] = STRIKES - 1

    def acquit(self) -> None:
        """The server answers a probe: it is the items that fail, and they may be given up."""
        self._bad |= self._failing
        self._failing.clear()
        self._good = self.clock()

    def lost(self) -> str | None:
        """Why the run is to end: since when, how many failed, the last error. None while there is hope."""
        now = self.clock()
        silence, fruitless = now - self._reached, now - self._good
        if self._being_answered(now):
            return None
        if self.down and not self.others_up and silence > self.lost_after:
            return f"no contact for {silence:.0f} s{self._since(silence)}; last error: {self._last}"
        unanswered = now - self._answered_at
        if self.refusing and unanswered > self.lost_after + self._announced:
            return f"only refusals for {unanswered:.0f} s{self._since(unanswered)}; last one: {self._last}"
        if self.suspected and fruitless > self.lost_after:
            return (
                f"no answer for {fruitless:.0f} s{self._since(fruitless)}, {len(self._failing)} questions in a row "
                f"failed; last error: {self._last}"
            )
        return None

    def _being_answered(self, now: float) -> bool:
        """Whether a request has been out for a while where nothing was refused: a slow server is not a lost one."""
        begun = [start for out in self.out.values() for start in out.values()]
        patient = now - self.lost_after * PATIENCE
        return any(patient < start <= now - self.lost_after / 2 for start in begun)

    def _since(self, seconds: float) -> str:
        began = datetime.fromtimestamp(time.time() - seconds, UTC)
        return f" (since {began:%H:%M:%S} UTC)"


def _said(endpoint: str, reply: Reply) -> str:
    return f"{endpoint}: {reply.status}" + (f" ({reply.error})" if reply.error else "")
