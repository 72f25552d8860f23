"""The runner: workers pull requests from one lazy iterator; every completion becomes one row.

There are as many workers as requests may be out: a fixed number, or what the endpoints' limits come to. Requests with
equal keys are sent once. Nothing is created up front, so a million requests cost no more memory than a thousand. A
stop ends the asking and drains what is in flight; what has completed is in the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tomserve.engine.adaptive import MOST
from tomserve.engine.answering import Answering
from tomserve.engine.fleet import GOOD, Fleet
from tomserve.engine.observe import Observer, Silent, Watch
from tomserve.engine.prefix import PrefixMeter
from tomserve.engine.refusals import FirstRefusals
from tomserve.engine.request import Identity, Request, ahead
from tomserve.engine.retry import RetryPolicy
from tomserve.engine.rows import Rows, row_of
from tomserve.engine.transport import Reply, Transport
from tomserve.errors import JournalError, ServerError, ServerLostError
from tomserve.status import BUSY, KEY_REFUSED, MAYBE_GONE, NOT_FOUND, transient

PROBE_EVERY = 2.0
"""Seconds between two probes of a server that could not be reached, or fails."""

PROBE_WAITS = 30.0
"""Seconds that a server has for a simple question."""

FEW = 8
"""Workers that there may be, waiting ones included, however low the limits are that were found."""


@dataclass
class Runner:
    """Drives `endpoints` (each ``.../v1``) through `transport`, writing to `journal`.

    concurrency: requests in flight, over all endpoints; None finds it out, up to `most` an endpoint (see
    tomserve.engine.adaptive). stop: set it to stop asking; what is in flight gets `drain` seconds. alive: returns a
    reason once the server is known to be gone (an embedded one whose process ended), else None. hedge: seconds after
    which a request without an answer is sent to a second endpoint as well, the first answer counting (None: never).
    probe: a simple question (a request's body) that tells a failing server from failing items. answering: the models
    that replies name, with those of earlier sessions. clock: seconds, injectable.

    After a run `prefix` has the tokens that the server's prefix cache saved, beside the most it could have.
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
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.prefix = PrefixMeter()
        self._pending: dict[str, list[Identity]] = {}
        self._fleet = self._new_fleet()
        self._probed = -PROBE_EVERY
        self._refusals = FirstRefusals(decided=bool(self.journal.final))
        self._requests: Iterator[Request] = iter(())
        self._workers: set[asyncio.Task[None]] = set()
        self._used_up = False
        self._retrying = 0
        self._room: asyncio.Future[None] | None = None

    def _new_fleet(self) -> Fleet:
        return Fleet(self.endpoints, self.policy.lost_after, self.clock, self.concurrency, self.most)

    async def run(self, requests: Iterable[Request]) -> bool:
        """Ask everything not final yet; True when all was asked, False when stopped early by `stop`.

        Raises ServerLostError after `policy.lost_after` seconds without contact, or of failures without an answer;
        ServerError for a refused key, where the first requests are all refused alike, or where a reply names another
        model than those before it (it is not kept, and its question asked again on resume); JournalError when rows
        cannot be written. In all cases what completed is kept.
        """
        self._requests = ahead(requests)
        self._fleet = self._new_fleet()
        self._finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        watch = Watch(self._fleet, self.transport, self.prefix, self.observer, lambda: self._retrying)
        endless = [asyncio.create_task(job) for job in (self._sync(), watch.run(self._hire))]
        helpers = [asyncio.create_task(job) for job in (self._probe(), self._stopped())]
        self._hire()
        try:
            await asyncio.wait([self._finished, *endless], return_when=asyncio.FIRST_COMPLETED)
            for task in endless:
                if task.done():  # they only ever end by failing: the disk takes nothing any more, say
                    await task
            await self._finished
            if not self.stop.is_set():
                self._write(self._refusals.finish())
        except asyncio.CancelledError:
            if not self.stop.is_set():
                raise
        finally:
            workers = list(self._workers)
            for task in (*workers, *helpers, *endless):
                task.cancel()
            self._finished.cancel()
            await asyncio.gather(*workers, *helpers, *endless, return_exceptions=True)
            with contextlib.suppress(JournalError):  # where the disk is full that is being reported already
                self._write(self._refusals.give_up())
            self.journal.sync()
            watch.tell()
        return not self.stop.is_set()

    def _hire(self) -> None:
        """As many workers as requests may be out; those too many leave by themselves."""
        if self._used_up or self.stop.is_set() or self._finished.done():
            return
        while len(self._workers) - self._idle < self._fleet.capacity:
            worker = asyncio.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._left)

    @property
    def _idle(self) -> int:
        """Workers that only wait to ask again, of a few: at a low limit a bad question must not hold up the others."""
        return 0 if self.concurrency else min(self._retrying, max(0, FEW - self._fleet.capacity))

    def _left(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        error = None if worker.cancelled() else worker.exception()  # looked at, or asyncio complains of each
        if self._finished.done():
            return
        if worker.cancelled():
            self._finished.cancel()
        elif error is not None:
            self._finished.set_exception(error)
        elif not self._workers:  # one alone is never too many: the requests are used up
            self._finished.set_result(None)

    async def _stopped(self) -> None:
        await self.stop.wait()
        await asyncio.sleep(self.drain)
        for worker in list(self._workers):
            worker.cancel()

    async def _sync(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            await asyncio.to_thread(self.journal.sync)

    async def _probe(self) -> None:
        """Let replicas back in that answer again."""
        while len(self.endpoints) > 1:
            await asyncio.sleep(PROBE_EVERY)
            for endpoint in list(self._fleet.down):
                if await self.transport.alive(endpoint):
                    self._fleet.revived(endpoint)

    async def _work(self) -> None:
        while len(self._workers) - self._idle <= self._fleet.capacity and not self.stop.is_set():
            request = next(self._requests, None)
            if request is None:
                self._used_up = True
                break
            if request.identity in self.journal.final:
                continue
            if request.key in self._pending:  # an equal prompt is being asked: wait for its answer
                self._pending[request.key].append(request.identity)
                continue
            if (known := self.journal.find(request.key)) is not None:
                self._reuse(known, [request.identity])
                continue
            await self._ask(request)
        if (task := asyncio.current_task()) is not None:
            self._workers.discard(task)  # at once, or others that end in the same moment would be too many as well

    async def _ask(self, request: Request) -> None:
        self._pending[request.key] = []
        shared = self.prefix.share(request)
        try:
            answered = await self._exchange(request)
            if answered is None:
                return
            self.answering.heard(answered[0], answered[1])
            self.prefix.answered(shared, request.prompt, answered[0].usage)
            row = row_of(request, *answered)
            self._write(self._refusals.take(row))
            if waiting := self._pending[request.key]:
                self._reuse(row, waiting)
        finally:
            del self._pending[request.key]

    def _write(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            self.journal.append(row)
            self.observer.row(row)

    def _reuse(self, row: dict[str, Any], identities: list[Identity]) -> None:
        copies = ({**row, "item": item, "strategy": s, "turn": turn, "reused": True} for item, s, turn in identities)
        for copy in copies:
            self._write(self._refusals.take(copy))

    async def _exchange(self, request: Request) -> tuple[Reply, str, int] | None:
        """Ask until the policy is satisfied; None when the run was stopped while waiting to ask again.

        A server that cannot be reached, or fails for everybody, costs no attempt: either it comes back, or the run ends
        as lost.
        """
        attempt = sent = 0
        endpoint: str | None = None
        missing: set[str] = set()
        while True:
            while (pause := self._fleet.pause) > 0:
                if await self._wait(pause):
                    return None
            if self.concurrency is None:  # else there are as many workers as requests may be out
                await self._turn()
            sent += 1
            if self.hedge is None or len(self.endpoints) < 2:
                endpoint = self._fleet.pick(request, endpoint)
                reply = await self._send(endpoint, request)
            else:
                reply, endpoint = await self._hedged(request, endpoint, self.hedge)
            if self._fleet.suspected:
                await self._acquit()
            self._raise_if_hopeless(reply, endpoint)
            if reply.final and reply.status != NOT_FOUND:
                return reply, endpoint, sent
            if reply.status == NOT_FOUND and endpoint not in missing and len(missing) + 1 < len(self.endpoints):
                missing.add(endpoint)  # a replica may have lost its model; what all say is true
                continue
            outage = not reply.reached or (self._fleet.suspected and transient(reply.status))
            outage = outage or self._crowded(reply, endpoint)
            attempt += not outage
            if not outage and not self.policy.again(reply, attempt):
                return reply, endpoint, sent
            if not reply.reached and self._fleet.others_up:
                continue  # another replica can have it at once
            if await self._wait(self.policy.seconds(reply, min(sent, 10))):
                return None

    def _crowded(self, reply: Reply, endpoint: str) -> bool:
        """Whether a refusal is not the question's own: the server refuses all of them, or too many were out."""
        if reply.status not in BUSY:
            return False
        return self._fleet.refusing or (self.concurrency is None and len(self._fleet.out[endpoint]) > 0)

    async def _turn(self) -> None:
        """Wait until the limits have room: more workers than that may be about, waiting to ask again."""
        while self._fleet.in_flight >= self._fleet.capacity and not self.stop.is_set():
            if self._room is None or self._room.done():
                self._room = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._room], timeout=1.0)

    async def _wait(self, seconds: float) -> bool:
        """Wait to ask again; whether the run was stopped meanwhile."""
        self._retrying += 1
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stop.wait(), seconds)
        finally:
            self._retrying -= 1
        return self.stop.is_set()

    async def _acquit(self) -> None:
        """Many items fail: ask something simple before the server is blamed, now and then."""
        if self.probe is None or self.clock() - self._probed < PROBE_EVERY:
            return
        self._probed = self.clock()
        endpoint = self._fleet.up[0]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PROBE_WAITS):
                if (await self.transport.send(endpoint, self.probe)).status in GOOD:
                    self._fleet.acquit()

    async def _hedged(self, request: Request, avoid: str | None, late: float) -> tuple[Reply, str]:
        """One exchange; once it takes `late` seconds a second copy elsewhere, and the slower one dropped."""
        first = self._fleet.pick(request, avoid)
        tasks = {asyncio.create_task(self._send(first, request)): first}
        try:
            done, _ = await asyncio.wait(tasks, timeout=late)
            second = self._fleet.pick(request, first)
            if not done and second != first:
                tasks[asyncio.create_task(self._send(second, request))] = second
            while True:
                done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                good = [task for task in done if task.result().final]
                if good or not waiting:
                    best = (good or list(done))[0]
                    return best.result(), tasks[best]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, endpoint: str, request: Request) -> Reply:
        self._fleet.sent(endpoint, request.identity)
        began = None
        try:
            reply = await self.transport.send(endpoint, request.body)
        finally:
            began = self._fleet.over(endpoint, request.identity)
            if self._room is not None and not self._room.done():
                self._room.set_result(None)
        self._fleet.heard(endpoint, reply, request.identity, began)
        return reply

    def _raise_if_hopeless(self, reply: Reply, endpoint: str) -> None:
        if reply.status in KEY_REFUSED:
            raise ServerError(
                f"{endpoint}: the API key was refused in mid-run ({reply.error}); set a valid key and resume"
            )
        gone = self.alive() if reply.status in MAYBE_GONE else None
        if reason := gone or (self._fleet.lost() if not reply.final else None):
            raise ServerLostError(f"{endpoint}: server lost ({reason}); repeat the command to resume")
