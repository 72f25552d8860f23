"""What a run is doing, for whoever looks: the observer's protocol, and the watch that keeps it and the limits informed.

A few times a second the watch takes stock; once in a while it asks the endpoints for their load. It also looks at the
client itself: an event loop that wakes up late, or a core used up, means that more requests would only wait here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from tomserve.engine.fleet import Fleet
from tomserve.engine.load import Load, read_load
from tomserve.engine.prefix import PrefixMeter
from tomserve.engine.request import Identity
from tomserve.engine.transport import Transport

TICK = 0.25
"""Seconds between two looks."""

ASK_EVERY = (0.5, 2.0)
"""Seconds between two questions for an endpoint's load: where they steer, and where they are only shown."""

SILENT = (3, 30.0)
"""After so many questions for metrics without an answer, the seconds between two further ones."""

LATE = 0.15
BUSY_CORE = 0.9
"""Seconds by which the event loop wakes up late, and share of one core, from which on the client is the limit."""


@dataclass(frozen=True, slots=True)
class Status:
    """What a run is doing. out, limit: requests in flight and how many may be; found: whether the limit was found out
    rather than given; queue: requests waiting in the servers
    (None: unknown); cached, shareable: shares of the prompt tokens from the prefix cache, and the most it could be;
    client_bound: whether the client is what limits; oldest: the longest request out, with its seconds."""

    out: int = 0
    limit: int = 0
    found: bool = False
    retrying: int = 0
    queue: int | None = None
    cached: float | None = None
    shareable: float | None = None
    client_bound: bool = False
    oldest: tuple[Identity, float] | None = None


class Observer(Protocol):
    """Told what happens; a progress display or nothing."""

    def row(self, row: dict[str, Any]) -> None:
        """A row was written."""

    def status(self, status: Status) -> None:
        """Now and then: how things are."""


class Silent:
    """An Observer that shows nothing."""

    def row(self, row: dict[str, Any]) -> None:
        """See Observer."""

    def status(self, status: Status) -> None:
        """See Observer."""


class Watch:
    """Looks at `fleet` and tells `observer`. retrying: how many requests wait to be asked again."""

    def __init__(
        self,
        fleet: Fleet,
        transport: Transport,
        prefix: PrefixMeter,
        observer: Observer,
        retrying: Callable[[], int],
    ) -> None:
        self.fleet, self.transport, self.prefix = fleet, transport, prefix
        self.observer, self.retrying = observer, retrying
        self.client_bound = False
        self._loads: dict[str, Load] = {}
        self._counted: dict[str, Load] = {}  # the first seen, for counters since the run's start
        self._silent = dict.fromkeys(fleet.endpoints, 0)
        self._asked = dict.fromkeys(fleet.endpoints, -1e9)

    async def run(self, changed: Callable[[], None]) -> None:
        """Look until cancelled; `changed` is called where limits may have moved."""
        asking: dict[str, asyncio.Task[None]] = {}
        suspicious = 0
        try:
            while True:
                for endpoint in self._due():
                    if endpoint not in asking or asking[endpoint].done():
                        asking[endpoint] = asyncio.create_task(self._ask(endpoint))
                wall, cpu = self.fleet.clock(), time.process_time()
                await asyncio.sleep(TICK)
                passed = max(self.fleet.clock() - wall, 1e-9)
                busy = (time.process_time() - cpu) / passed > BUSY_CORE or passed > TICK + LATE
                suspicious = min(suspicious + 1, 4) if busy else max(suspicious - 1, 0)
                self.client_bound = suspicious >= 3
                if self.fleet.fixed is None:
                    for endpoint, limit in self.fleet.limits.items():
                        limit.held_back = self.client_bound
                        limit.tick(len(self.fleet.out[endpoint]))
                changed()
                self.tell()
        finally:
            for task in asking.values():
                task.cancel()
            await asyncio.gather(*asking.values(), return_exceptions=True)

    def _due(self) -> list[str]:
        usual, now = ASK_EVERY[self.fleet.fixed is not None], self.fleet.clock()
        every = {e: SILENT[1] if self._silent[e] >= SILENT[0] else usual for e in self.fleet.up}
        due = [endpoint for endpoint, seconds in every.items() if now - self._asked[endpoint] >= seconds]
        self._asked.update(dict.fromkeys(due, now))
        return due

    async def _ask(self, endpoint: str) -> None:
        page = await self.transport.metrics(endpoint)
        load = read_load(page) if page else None
        if load is None:
            self._silent[endpoint] += 1
            self._loads.pop(endpoint, None)
            return
        self._silent[endpoint] = 0
        self._loads[endpoint] = load
        first = self._counted.setdefault(endpoint, load)
        if load.queried < first.queried:  # the server was started anew
            self._counted[endpoint] = load
        if load.block:
            self.prefix.block = load.block
        if self.fleet.fixed is None:
            self.fleet.limits[endpoint].load(load, len(self.fleet.out[endpoint]))

    def _cached(self) -> float | None:
        """From the answers where they tell, else from the servers' own counters."""
        if self.prefix.told:
            return self.prefix.cached_share
        pairs = [(self._counted[endpoint], load) for endpoint, load in self._loads.items()]
        queried = sum(load.queried - first.queried for first, load in pairs)
        return sum(load.hit - first.hit for first, load in pairs) / queried if queried > 0 else None

    def tell(self) -> None:
        """Tell the observer how things are."""
        oldest = self.fleet.oldest()
        self.observer.status(
            Status(
                out=self.fleet.in_flight,
                limit=self.fleet.capacity,
                found=self.fleet.fixed is None and any(limit.found for limit in self.fleet.limits.values()),
                retrying=self.retrying(),
                queue=sum(load.waiting for load in self._loads.values()) if self._loads else None,
                cached=self._cached(),
                shareable=self.prefix.bound,
                client_bound=self.client_bound,
                oldest=(oldest[0], self.fleet.clock() - oldest[1]) if oldest else None,
            )
        )
