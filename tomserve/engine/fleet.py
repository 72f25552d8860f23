"""The endpoints of a run: which one gets the next request, which are out, and when the run has lost them all.

A request goes to the endpoint with the fewest out. One that cannot be reached is taken out and probed until it is back.
An outage is told from a bad item by counting: when many different items fail in a row and nothing succeeds, no item is
given up any more, and after `lost_after` seconds the run ends with a diagnosis instead of thousands of error rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from tomserve.engine.request import Identity
from tomserve.engine.transport import Reply

SUSPECT = 8
"""Different items that fail in a row, without a success of any other, before an outage is suspected."""

ALIVE = frozenset({"ok", "length", "refusal", "http_400", "http_404", "http_413", "http_422", "http_429"})
"""Statuses of a server that works, whatever it thinks of the request."""


class Fleet:
    """`clock`: monotonic seconds, injectable. A single endpoint is a fleet of one."""

    def __init__(
        self, endpoints: Sequence[str], lost_after: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.endpoints = list(endpoints)
        self.lost_after, self.clock = lost_after, clock
        self.out: dict[str, int] = dict.fromkeys(self.endpoints, 0)
        self.down: dict[str, float] = {}
        self._good = self._reached = clock()
        self._failing: set[Identity] = set()
        self._last = ""

    def pick(self) -> str:
        """The endpoint with the fewest requests out, of those that are up; of all where none is."""
        if len(self.endpoints) == 1:
            return self.endpoints[0]
        up = [endpoint for endpoint in self.endpoints if endpoint not in self.down] or self.endpoints
        return min(up, key=self.out.__getitem__)

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
        if reply.reached:
            self.down.pop(endpoint, None)
            if reply.status != "timeout":
                self._reached = self.clock()
        else:
            self.down.setdefault(endpoint, self.clock())
        if reply.status in ALIVE:
            self._good = self.clock()
            self._failing.clear()
        elif reply.status != "timeout":  # slow is not gone
            self._failing.add(identity)
            self._last = f"{endpoint}: {reply.status}" + (f" ({reply.error})" if reply.error else "")

    def revived(self, endpoint: str) -> None:
        """A probe was answered: the endpoint gets requests again."""
        self.down.pop(endpoint, None)

    def lost(self) -> str | None:
        """Why the run is to end: since when, how many failed, the last error. None while there is hope."""
        now = self.clock()
        silence, fruitless = now - self._reached, now - self._good
        if self.down and not self.others_up and silence > self.lost_after:
            return f"no contact for {silence:.0f} s{self._since(silence)}; last error: {self._last}"
        if self.suspected and fruitless > self.lost_after:
            return (
                f"no answer for {fruitless:.0f} s{self._since(fruitless)}, {len(self._failing)} questions in a row "
                f"failed; last error: {self._last}"
            )
        return None

    def _since(self, seconds: float) -> str:
        began = datetime.fromtimestamp(time.time() - seconds, UTC)
        return f" (since {began:%H:%M:%S} UTC)"
