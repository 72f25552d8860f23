"""The runner: workers take requests from one line, and every reply becomes one row of the journal.

There are as many workers as requests may be in flight: a fixed number, or the sum of the endpoints' adaptive limits.
Requests with equal keys are sent only once. A request is made when a worker is free for it, so that a million requests
take no more memory than a thousand. What follows from a reply, in a conversation of several turns, is asked before new
questions (see tomserve.engine.following). A stop ends the asking and leaves what is in flight some seconds to complete;
everything that has completed is in the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tomserve.engine.adaptive import MOST
from tomserve.engine.answering import Answering
from tomserve.engine.fleet import GOOD, Fleet
from tomserve.engine.following import Follower, Line, Next
from tomserve.engine.hedging import hedged
from tomserve.engine.observe import Observer, Silent, Watch
from tomserve.engine.prefix import PrefixMeter
from tomserve.engine.refusals import FirstRefusals
from tomserve.engine.request import Identity, Request
from tomserve.engine.retry import RetryPolicy
from tomserve.engine.rows import Row, Rows, answering, row_of
from tomserve.engine.transport import Reply, Transport
from tomserve.errors import JournalError, ServerError, ServerLostError
from tomserve.status import BUSY, KEY_REFUSED, MAYBE_GONE, NOT_FOUND, transient

PROBE_EVERY = 2.0
"""Seconds between two probes of a server that could not be reached, or that fails."""

PROBE_WAITS = 30.0
"""Seconds within which a server must answer the simple question that probes it."""

FEW = 8
"""How many workers there may be in any case, even if some wait to ask again and the adaptive limits are lower."""

WAITING = 1024
"""How many more workers than the adaptive limits there may be while some wait to ask again and the others need not."""


@dataclass
class Runner:
    """Sends requests to endpoints until each has its final row.

    endpoints: their addresses, each ``.../v1``.
    transport: sends a request and returns the reply.
    journal: keeps the rows, and tells which requests need no asking.
    concurrency: requests in flight over all endpoints; None has the number found out (see tomserve.engine.adaptive).
    most: the highest number that may be found out, for each endpoint.
    policy: how often and when to ask again.
    observer: told every row and, several times a second, the status.
    stop: set it to stop asking. drain: seconds that requests in flight then have to complete.
    alive: returns a reason once an embedded server's process has ended, else None.
    hedge: seconds after which a second endpoint is asked, too, and the first answer counts; None for never.
    probe: the body of a simple request that tells a failing server from failing items.
    answering: compares the model that replies name with that of earlier replies and sessions.
    follower: holds the conversations of several turns, if there are any.
    clock: returns monotonic seconds.
    prefix: after a run, the prompt tokens that the servers' prefix cache saved and could have saved.
    """

    endpoints: list[str]
    transport: Transport
    journal: Rows
    concurrency: int | None = None
    most: int = MOST
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    observer: Observer = field(default_factory=Silent)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    drain: float = 30.0
    alive: Callable[[], str | None] = lambda: None
    hedge: float | None = None
    probe: bytes | None = None
    answering: Answering = field(default_factory=Answering)
    follower: Follower | None = None
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.prefix = PrefixMeter()
        self._pending: dict[str, list[Identity]] = {}
        self._fleet = self._new_fleet()
        self._refusals = FirstRefusals(decided=bool(self.journal.final))
        self._line = Line((), self.journal, self.follower, self._write)
        self._workers: set[asyncio.Task[None]] = set()
        self._retrying, self._probed = 0, -PROBE_EVERY
        self._room: asyncio.Future[None] | None = None

    def _new_fleet(self) -> Fleet:
        return Fleet(self.endpoints, self.policy.lost_after, self.clock, self.concurrency, self.most)

    async def run(self, requests: Iterable[Request]) -> bool:
        """Ask everything that has no final row yet. Returns True when all was asked, False when `stop` ended it early.

        Raises ServerLostError after `policy.lost_after` seconds without contact, or with nothing but failures.
        Raises ServerError for a refused API key, where the first requests are all refused for the same reason, and
        where a reply names another model than those before it (that reply is not kept; a resumed run asks it again).
        Raises JournalError where rows cannot be written, ConfigError where a program of a strategy makes a mistake. In
        all cases everything that completed is kept.
        """
        self._line = Line(requests, self.journal, self.follower, self._write)
        self._fleet = self._new_fleet()
        self._finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        counts = (lambda: self._retrying, lambda: self._line.grown)
        watch = Watch(self._fleet, self.transport, self.prefix, self.observer, *counts)
        endless = [asyncio.create_task(job) for job in (self._sync(), watch.run(self._start_workers))]
        helpers = [asyncio.create_task(job) for job in (self._revive(), self._drain())]
        self._start_workers()
        try:
            await asyncio.wait([self._finished, *endless], return_when=asyncio.FIRST_COMPLETED)
            for task in endless:
                if task.done():  # these tasks end only by an error, such as a full disk, which is raised here
                    await task
            await self._finished
            if not self.stop.is_set():
                self._write(*self._refusals.finish())
        except asyncio.CancelledError:
            if not self.stop.is_set():
                raise
        finally:
            workers = list(self._workers)
            for task in (*workers, *helpers, *endless):
                task.cancel()
            self._finished.cancel()
            await asyncio.gather(*workers, *helpers, *endless, return_exceptions=True)
            with contextlib.suppress(JournalError):  # a full disk is being reported already
                self._write(*self._refusals.give_up())
            self.journal.sync()
            watch.tell()
        return not self.stop.is_set()

    def _start_workers(self) -> None:
        """Start workers up to the number of requests that may be in flight; surplus workers end by themselves."""
        if self.stop.is_set() or self._finished.done():
            return
        room = self._fleet.capacity - len(self._workers) + self._idle
        for _ in range(min(room, self._line.waiting) if self._line.used_up else room):
            worker = asyncio.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._worker_ended)

    @property
    def _idle(self) -> int:
        """How many waiting workers are not counted: at a low limit a failing question must not hold up the others."""
        if self.concurrency or not self._retrying:
            return 0
        return min(self._retrying, max(0, FEW - self._fleet.capacity) if self._fleet.pause > 0 else WAITING)

    def _worker_ended(self, worker: asyncio.Task[None]) -> None:
        """Called when a worker has ended: an error, or the end of the last worker, ends the run."""
        self._workers.discard(worker)
        error = None if worker.cancelled() else worker.exception()  # asyncio logs each exception that nobody retrieves
        if self._finished.done():
            return
        if worker.cancelled():
            self._finished.cancel()
        elif error is not None:
            self._finished.set_exception(error)
        elif not self._workers:  # the last worker is never surplus, so it ended because no request was left
            self._finished.set_result(None)

    async def _drain(self) -> None:
        """Once the run is stopped, leave requests in flight `drain` seconds, then cancel their workers."""
        await self.stop.wait()
        await asyncio.sleep(self.drain)
        for worker in list(self._workers):
            worker.cancel()

    async def _sync(self) -> None:
        """Make sure twice a second that the rows survive a power cut."""
        while True:
            await asyncio.sleep(0.5)
            await asyncio.to_thread(self.journal.sync)

    async def _revive(self) -> None:
        """Give replicas that were down requests again as soon as they answer a probe."""
        while len(self.endpoints) > 1:
            await asyncio.sleep(PROBE_EVERY)
            for endpoint in list(self._fleet.down):
                if await self.transport.alive(endpoint):
                    self._fleet.revived(endpoint)

    async def _work(self) -> None:
        """One worker: it asks one request after the other while the limits allow it."""
        while len(self._workers) - self._idle <= self._fleet.capacity and not self.stop.is_set():
            if (found := self._line.take()) is None:
                break
            request = found[0]
            if request.key in self._pending:  # an equal prompt is being asked: wait for its answer
                self._pending[request.key].append(request.identity)
            elif (row := self.journal.find(request.key)) is not None:
                self._keep([answering(row, request.identity)], request)
            else:
                await self._ask(found)
        if (task := asyncio.current_task()) is not None:
            self._workers.discard(task)  # already here, so that the other workers do not count it

    async def _ask(self, found: Next) -> None:
        """Ask one request, and write its row and those of equal requests that came meanwhile."""
        request, before, near = found
        self._pending[request.key] = []
        shared = self.prefix.share(request, before)
        try:
            answered = await self._exchange(request, near)
            if answered is None:
                return
            self.answering.note_reply(answered[0], answered[1])
            self.prefix.answered(shared, request.prefix, answered[0].usage)
            row = row_of(request, *answered)
            self._keep([row, *[answering(row, one) for one in self._pending[request.key]]], request)
        finally:
            del self._pending[request.key]

    def _keep(self, rows: list[Row], request: Request) -> None:
        """Write the rows of the reply to a request, and queue what follows; an error there loses no reply."""
        following: list[Next] = []
        for row in rows:
            try:
                if self.follower is not None:
                    following += self._line.follow(row, request)
            finally:
                self._write(*self._refusals.take(row))
        if following and self._line.push(following) > 1:  # one of them is taken by this worker
            self._start_workers()

    def _write(self, *rows: Row) -> None:
        for row in rows:
            self.journal.append(row)
            self.observer.row(row)

    async def _exchange(self, request: Request, near: str | None) -> tuple[Reply, str, int] | None:
        """Ask until the reply is final or the policy gives up. Returns the reply, the endpoint and how often it was
        sent; None where the run was stopped while this request waited to be asked again. near: see Fleet.pick.

        Failures of a server that cannot be reached, or fails for every item, do not count as attempts of the policy:
        either the server comes back, or the run ends because it is lost.
        """
        attempt = sent = 0
        endpoint: str | None = None
        missing: set[str] = set()
        while True:
            while (pause := self._fleet.pause) > 0:
                if await self._wait(pause):
                    return None
            if self.concurrency is None:  # a fixed number is kept by the number of workers
                await self._wait_for_room()
            sent += 1
            if self.hedge is None or len(self.endpoints) < 2:
                endpoint = self._fleet.pick(request, endpoint, near)
                reply = await self._send(endpoint, request)
            else:
                reply, endpoint = await hedged(self._send, self._fleet, request, endpoint, near, self.hedge)
            if self._fleet.suspected:
                await self._probe_when_suspected()
            self._raise_if_hopeless(reply, endpoint)
            if reply.final and reply.status != NOT_FOUND:
                return reply, endpoint, sent
            if reply.status == NOT_FOUND and endpoint not in missing and len(missing) + 1 < len(self.endpoints):
                missing.add(endpoint)  # one replica may have lost its model; 404 counts once all replicas say it
                continue
            outage = not reply.reached or (self._fleet.suspected and transient(reply.status))
            outage = outage or self._crowded(reply, endpoint)
            attempt += not outage
            if not outage and not self.policy.again(reply, attempt):
                return reply, endpoint, sent
            if not reply.reached and self._fleet.others_up:
                continue  # another replica is asked without waiting
            if await self._wait(self.policy.seconds(reply, min(sent, 10))):
                return None

    def _crowded(self, reply: Reply, endpoint: str) -> bool:
        """Whether a refusal is due to the number of requests rather than to this question."""
        if reply.status not in BUSY:
            return False
        return self._fleet.refusing or (self.concurrency is None and len(self._fleet.out[endpoint]) > 0)

    async def _wait_for_room(self) -> None:
        """Wait until the limits have room: there may be more workers than that, as some wait to ask again."""
        while self._fleet.in_flight >= self._fleet.capacity and not self.stop.is_set():
            if self._room is None or self._room.done():
                self._room = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._room], timeout=1.0)

    async def _wait(self, seconds: float) -> bool:
        """Wait to ask again. Returns whether the run was stopped meanwhile."""
        self._retrying += 1
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stop.wait(), seconds)
        finally:
            self._retrying -= 1
        return self.stop.is_set()

    async def _probe_when_suspected(self) -> None:
        """Where many items fail, ask the server a simple question: if it answers, the failures are due to the items."""
        if self.probe is None or self.clock() - self._probed < PROBE_EVERY:
            return
        self._probed = self.clock()
        endpoint = self._fleet.up[0]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PROBE_WAITS):
                if (await self.transport.send(endpoint, self.probe)).status in GOOD:
                    self._fleet.suspect_items()

    async def _send(self, endpoint: str, request: Request) -> Reply:
        """Send a request once, and let the fleet know when it is sent and what comes back."""
        self._fleet.sent(endpoint, request.identity)
        began = None
        try:
            reply = await self.transport.send(endpoint, request.body)
        finally:
            began = self._fleet.returned(endpoint, request.identity)
            if self._room is not None and not self._room.done():
                self._room.set_result(None)
        self._fleet.note_reply(endpoint, reply, request.identity, began)
        return reply

    def _raise_if_hopeless(self, reply: Reply, endpoint: str) -> None:
        if reply.status in KEY_REFUSED:
            raise ServerError(
                f"{endpoint}: the API key was refused in mid-run ({reply.error}); set a valid key and resume"
            )
        gone = self.alive() if reply.status in MAYBE_GONE else None
        if reason := gone or (self._fleet.lost() if not reply.final else None):
            raise ServerLostError(f"{endpoint}: server lost ({reason}); repeat the command to resume")
