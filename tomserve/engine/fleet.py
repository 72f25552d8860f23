"""The endpoints of a run: which one gets the next request, which are out, and when the run has lost them all.

A request goes to the endpoint with the fewest out. One that cannot be reached, or that keeps failing while another
works, is taken out and probed until it is back. An outage is told from bad items by counting: when many different items
fail in a row, nothing succeeds, no older request is still being answered and a probe fails too, no item is given up any
more, and after `lost_after` seconds the run ends with a diagnosis instead of thousands of error rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from tomserve.engine.request import Identity
from tomserve.engine.transport import FINAL, Reply

SUSPECT = 8
"""Different items that fail in a row, without a success of any other, before an outage is suspected."""

STRIKES = 4
"""Failures of one endpoint in a row after which it is taken out while another works."""

PATIENCE = 3
"""Multiples of `lost_after` for which a request that is still being answered may hold up the end of a run."""

ALIVE = FINAL | {"http_429"}
"""Statuses of a server that works, whatever it thinks of the request."""

GOOD = FINAL - {"http_404"}
"""Statuses that speak for the endpoint itself: a replica that lost its model, or is over its limit, is no help."""


class Fleet:
    """`clock`: monotonic seconds, injectable. A single endpoint is a fleet of one."""

    def __init__(
        self, endpoints: Sequence[str], lost_after: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.endpoints = list(endpoints)
        self.lost_after, self.clock = lost_after, clock
        self.out: dict[str, dict[object, float]] = {endpoint: {} for endpoint in self.endpoints}
        self.down: dict[str, float] = {}
        self._good = self._reached = clock()
        self._failing: set[Identity] = set()
        self._bad: set[Identity] = set()
        self._strikes: dict[str, int] = dict.fromkeys(self.endpoints, 0)
        self._answered: set[str] = set()
        self._last = ""

    def pick(self, avoid: str | None = None) -> str:
        """The endpoint with the fewest requests out, of those that are up (of all where none is), not `avoid` if
        there is another."""
        if len(self.endpoints) == 1:
            return self.endpoints[0]
        up = [endpoint for endpoint in self.endpoints if endpoint not in self.down] or self.endpoints
        others = [endpoint for endpoint in up if endpoint != avoid] or up
        return min(others, key=lambda endpoint: len(self.out[endpoint]))

    def sent(self, endpoint: str) -> object:
        """A request goes out; give back what this returns when it is over."""
        token = object()
        self.out[endpoint][token] = self.clock()
        return token

    def over(self, endpoint: str, token: object) -> None:
        """It came back, or was given up."""
        del self.out[endpoint][token]

    @property
    def others_up(self) -> bool:
        """Whether some endpoint is not known to be down."""
        return len(self.down) < len(self.endpoints)

    @property
    def suspected(self) -> bool:
        """Whether so many items failed in a row that it is the server rather than they."""
        return len(self._failing) >= SUSPECT

    def heard(self, endpoint: str, reply: Reply, identity: Identity) -> None:
        """Take note of what came back."""
        now = self.clock()
        if reply.reached and reply.status != "timeout":
            self._reached = now
        if reply.status in GOOD:
            self._answered.add(endpoint)
            self._strikes[endpoint] = 0
            self.down.pop(endpoint, None)
        else:
            self._strikes[endpoint] += 1
            if not reply.reached or (self._strikes[endpoint] >= STRIKES and self._answered - {endpoint}):
                self.down.setdefault(endpoint, now)
        if reply.status in ALIVE:
            self._good = now
            self._failing.clear()
        elif identity not in self._bad:
            self._failing.add(identity)
            self._last = f"{endpoint}: {reply.status}" + (f" ({reply.error})" if reply.error else "")

    def revived(self, endpoint: str) -> None:
        """A probe was answered: the endpoint gets requests again, and may fail once before it is out again."""
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
