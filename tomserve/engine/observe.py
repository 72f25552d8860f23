"""What a run is doing: the status that an observer is told, and the watch that measures it while the run goes on.

A few times a second the watch reports the status; every second or so it asks the endpoints for their load and passes it
on to the adaptive limits. It also looks at the client itself: where the event loop wakes up late, or one CPU core is
used up, more requests would only wait in this process, and the limits must not grow.
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
"""Seconds between two reports of the status."""

ASK_EVERY = (0.5, 2.0)
"""Seconds between two requests for an endpoint's metrics: where they steer an adaptive limit, and where the limit is
fixed and they are only shown."""

SILENT = (3, 30.0)
"""After how many requests for metrics without an answer an endpoint is asked less often, and then how many seconds
apart."""

LATE = 0.15
"""The client counts as too busy where its event loop wakes up this many seconds late."""

BUSY_CORE = 0.9
"""The client counts as too busy where it uses at least this share of one CPU core."""


@dataclass(frozen=True, slots=True)
class Status:
    """What a run is doing at one moment.

    out: requests in flight.
    limit: how many requests may be in flight.
    found: whether that limit was found out while running rather than given by the user.
    retrying: requests that wait to be asked again.
    queue: requests that wait in the servers' queues; None where no server reports it.
    cached: the share of the prompt tokens that came from the servers' prefix cache; None where it is not known.
    shareable: the largest share that a prefix cache of any size could have reached; None before the first answer.
    client_bound: whether this process, rather than a server, keeps the run from going faster.
    oldest: the request that has been in flight for longest, with its age in seconds; None without any.
    grown: how many more requests are wanted than were announced when the phase began, by what is known of the
    conversations of several turns.
    """

    out: int = 0
    limit: int = 0
    found: bool = False
    retrying: int = 0
    queue: int | None = None
    cached: float | None = None
    shareable: float | None = None
    client_bound: bool = False
    oldest: tuple[Identity, float] | None = None
    grown: int = 0


class Observer(Protocol):
    """Something that is told what a run does, such as a progress display."""

    def row(self, row: dict[str, Any]) -> None:
        """Called for every row that was written to the journal."""

    def status(self, status: Status) -> None:
        """Called several times a second with what the run is doing."""


class Silent:
    """An Observer that shows nothing."""

    def row(self, row: dict[str, Any]) -> None:
        """Ignore the row that was written."""

    def status(self, status: Status) -> None:
        """Ignore what the run is doing."""


class Watch:
    """Measures what a run is doing, and tells the adaptive limits and an observer.

    fleet: the endpoints with their limits.
    transport: asks the endpoints for their metrics.
    prefix: counts the prompt tokens that came from the prefix cache.
    observer: told the status.
    retrying: returns how many requests wait to be asked again.
    grown: returns how many more requests are wanted than were announced.
    """

    def __init__(
        self,
        fleet: Fleet,
        transport: Transport,
        prefix: PrefixMeter,
        observer: Observer,
        retrying: Callable[[], int],
        grown: Callable[[], int] = lambda: 0,
    ) -> None:
        self.fleet, self.transport, self.prefix = fleet, transport, prefix
        self.observer, self.retrying, self.grown = observer, retrying, grown
        self.client_bound = False
        self._loads: dict[str, Load] = {}
        self._counted: dict[str, Load] = {}  # the first load of each endpoint: its counters began before this run
        self._silent = dict.fromkeys(fleet.endpoints, 0)
        self._asked = dict.fromkeys(fleet.endpoints, -1e9)

    async def run(self, changed: Callable[[], None]) -> None:
        """Measure and report until cancelled; `changed` is called each time after the limits may have moved."""
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
        """The endpoints whose metrics are to be asked for now."""
        usual, now = ASK_EVERY[self.fleet.fixed is not None], self.fleet.clock()
        every = {e: SILENT[1] if self._silent[e] >= SILENT[0] else usual for e in self.fleet.up}
        due = [endpoint for endpoint, seconds in every.items() if now - self._asked[endpoint] >= seconds]
        self._asked.update(dict.fromkeys(due, now))
        return due

    async def _ask(self, endpoint: str) -> None:
        """Ask an endpoint for its load, and pass it on to its limit."""
        page = await self.transport.metrics(endpoint)
        load = read_load(page) if page else None
        if load is None:
            self._silent[endpoint] += 1
            self._loads.pop(endpoint, None)
            return
        self._silent[endpoint] = 0
        self._loads[endpoint] = load
        first = self._counted.setdefault(endpoint, load)
        if load.queried < first.queried:  # the server was restarted, and its counters began at 0 again
            self._counted[endpoint] = load
        if load.block:
            self.prefix.block = load.block
        if self.fleet.fixed is None:
            self.fleet.limits[endpoint].load(load, len(self.fleet.out[endpoint]))

    def _cached(self) -> float | None:
        """The share of prompt tokens from the cache: by the answers where they report it, else by servers' counters."""
        if self.prefix.reported:
            return self.prefix.cached_share
        pairs = [(self._counted[endpoint], load) for endpoint, load in self._loads.items()]
        queried = sum(load.queried - first.queried for first, load in pairs)
        return sum(load.hit - first.hit for first, load in pairs) / queried if queried > 0 else None

    def tell(self) -> None:
        """Tell the observer what the run is doing now."""
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
                grown=self.grown(),
            )
        )
