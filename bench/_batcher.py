"""A language model under load, at next to no cost: a continuous batcher, simulated. bench/_simulated.py serves it.

Up to `slots` requests run at once, the rest wait, first come first served. Each of n running ones makes
1 / (base + slope * n) tokens a second, so throughput grows with n and saturates at 1 / slope. Beyond `knee` running
requests the key-value cache is full: the total falls by `thrash` for every further `knee` requests, preemptions are
counted and kv_cache_usage_perc stays at 1 (harder than vLLM, where preempted requests show as waiting). A request takes
`work` tokens, give or take `spread`.

Time is continuous: between two events all running requests advance alike, so one number, the work done for each, stands
for all of them and only the next event needs a timer. One that fires late is made up for: nothing drifts under load.
"""

from __future__ import annotations

import asyncio
import dataclasses
import heapq
import itertools
import random
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

PREEMPTIONS = 0.5
"""Preemptions a second for every running request beyond the knee."""


@dataclass
class Settings:
    """What the server is like; every field can change at any time.

    base, slope: seconds a token. knee, bound, rate: 0 is none. bound: of running and waiting requests together, as
    vLLM's --max-num-queued-reqs counts; what is above gets `refuse` (503, 429). rate: requests a second, with `burst`
    at once; what is above gets 429. flaky: share of the requests that get 429 at random, whatever the load.
    retry_after: seconds in that header; negative: no header.
    """

    slots: int = 48
    base: float = 0.003
    slope: float = 0.00005
    work: float = 40.0
    spread: float = 0.3
    knee: int = 0
    thrash: float = 0.5
    bound: int = 0
    refuse: int = 503
    rate: float = 0.0
    burst: float = 20.0
    flaky: float = 0.0
    retry_after: float = -1.0
    metrics: bool = True
    seed: int = 0

    def speed(self, running: int) -> float:
        """How many tokens a second each request makes while `running` of them run."""
        fit = min(running, self.knee) if self.knee else running
        crowded = 1 + self.thrash * (running - fit) / fit
        return fit / (self.base + self.slope * fit) / crowded / running

    def changed(self, changes: dict[str, Any]) -> Settings:
        """A copy with some fields replaced. Raises ValueError for an unknown field or a value that it cannot have."""
        kinds = {entry.name: type(getattr(self, entry.name)) for entry in dataclasses.fields(self)}
        if unknown := set(changes) - set(kinds):
            raise ValueError(f"no setting {sorted(unknown)}; there are {sorted(kinds)}")
        new = dataclasses.replace(self, **{name: kinds[name](value) for name, value in changes.items()})
        if min(new.slots, new.base, new.work) <= 0 or new.slope < 0 or not 0 <= new.spread < 1:
            raise ValueError("slots, base and work are positive, slope is not negative, spread from 0 to below 1")
        return new


Schedule = list[tuple[float, dict[str, Any]]]


@dataclass(eq=False, slots=True)
class Job:
    """A request in the batcher. end: it is finished once the work done for each running request has reached this."""

    work: float
    done: asyncio.Future[None]
    end: float = 0.0
    running: bool = False


@dataclass
class Batcher:
    """Runs jobs in batches. schedule: pairs of seconds since the first job and the settings that change then.

    clock: returns the time in seconds; tests replace it.
    """

    settings: Settings
    schedule: Schedule = field(default_factory=list)
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.running = 0
        self.preemptions = 0.0
        self._each = 0.0  # tokens made so far for any request that ran all the time
        self._now = self.clock()
        self._heap: list[tuple[float, int, Job]] = []
        self._queue: deque[Job] = deque()
        self._serial = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self.reset()

    def reset(self) -> None:
        """Start random draws, figures and the schedule anew; jobs that are running go on."""
        self.began: float | None = None
        self._noise, self._fate = random.Random(self.settings.seed), random.Random(self.settings.seed + 1)
        self._tokens = self.settings.burst
        self.counts: Counter[str] = Counter()
        self.peak, self.busy = (0, 0), 0.0
        self._cpu = time.process_time()

    @property
    def waiting(self) -> int:
        """How many jobs wait for a slot."""
        return len(self._queue)

    def enter(self) -> Job | int:
        """Take a request; returns its job, or the HTTP status that refuses it."""
        self.advance()
        if self.began is None:
            self.began = self._now
            self._arm()
        self.counts["asked"] += 1
        settings = self.settings
        refused = 0
        if settings.bound and self.running + self.waiting >= settings.bound:
            refused = settings.refuse
        elif (settings.rate and self._tokens < 1) or self._fate.random() < settings.flaky:
            refused = 429
        if refused:
            self.counts[f"http_{refused}"] += 1
            return refused
        if settings.rate:
            self._tokens -= 1
        work = settings.work * self._noise.uniform(1 - settings.spread, 1 + settings.spread)
        job = Job(work, asyncio.get_running_loop().create_future())
        self._queue.append(job)
        self._admit()
        self._arm()
        self.peak = (max(self.peak[0], self.running), max(self.peak[1], self.waiting))
        return job

    def leave(self, job: Job) -> None:
        """Drop a job whose client has gone, unless it is finished, as vLLM aborts it."""
        self.advance()
        if job.running:
            self._heap = [entry for entry in self._heap if entry[2] is not job]
            heapq.heapify(self._heap)
            self.running -= 1
        elif job in self._queue:
            self._queue.remove(job)
        else:  # over
            return
        self.counts["dropped"] += 1
        self._admit()
        self._arm()

    def change(self, changes: dict[str, Any]) -> None:
        """Change some settings from now on."""
        new = self.settings.changed(changes)
        self.advance()
        self.settings = new
        self._admit()
        self._arm()

    def advance(self) -> None:
        """Bring the state up to the present by handling every event until now, each at its own time."""
        now = self.clock()
        while True:
            at, over = self._next()
            if at is None or at > now:
                break
            self._elapse(at)
            if over:
                self._each, _, job = heapq.heappop(self._heap)
                job.running = False
                self.running -= 1
                self.counts["answered"] += 1
                if not job.done.done():
                    job.done.set_result(None)
            else:
                self.settings = self.settings.changed(self.schedule.pop(0)[1])
            self._admit()
        self._elapse(now)

    def _next(self) -> tuple[float | None, bool]:
        """The time of the next event, and whether it is the end of a job (else it is a change of settings)."""
        change = self.began + self.schedule[0][0] if self.began is not None and self.schedule else None
        if not self._heap:
            return change, False
        end = self._now + max(0.0, self._heap[0][0] - self._each) / self.settings.speed(self.running)
        return (change, False) if change is not None and change <= end else (end, True)

    def _elapse(self, until: float) -> None:
        seconds, settings = until - self._now, self.settings
        if seconds <= 0:
            return
        if self.running:
            self._each += seconds * settings.speed(self.running)
            self.busy += seconds * self.running
            if settings.knee:
                self.preemptions += seconds * max(0, self.running - settings.knee) * PREEMPTIONS
        if settings.rate:
            self._tokens = min(settings.burst, self._tokens + seconds * settings.rate)
        self._now = until

    def _admit(self) -> None:
        while self._queue and self.running < self.settings.slots:
            job = self._queue.popleft()
            job.running, job.end = True, self._each + job.work
            heapq.heappush(self._heap, (job.end, next(self._serial), job))
            self.running += 1

    def _arm(self) -> None:
        """Set the one timer to the next event."""
        if self._timer:
            self._timer.cancel()
        at, _ = self._next()
        self._timer = None
        if at is not None:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, at - self.clock()), self._fire)

    def _fire(self) -> None:
        self.advance()
        self._arm()

    def report(self) -> dict[str, Any]:
        """The figures of what happened since the last reset."""
        self.advance()
        seconds = self._now - self.began if self.began is not None else 0.0
        return {
            **self.counts,
            "seconds": seconds,
            "running": self.running,
            "waiting": self.waiting,
            "peak_running": self.peak[0],
            "peak_waiting": self.peak[1],
            "mean_running": self.busy / seconds if seconds else 0.0,
            "preemptions": int(self.preemptions),
            "cpu": time.process_time() - self._cpu,
            "settings": dataclasses.asdict(self.settings),
        }
