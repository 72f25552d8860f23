"""The runner: C workers pull requests from one lazy iterator; every completion becomes one row.

Requests with equal keys are sent once. Nothing is created up front, so a million requests cost no more memory than a
thousand. A first stop signal stops asking and drains what is in flight; what has completed is in the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from tomserve.engine.fleet import GOOD, Fleet
from tomserve.engine.journal import Journal
from tomserve.engine.refusals import FirstRefusals
from tomserve.engine.request import Identity, Request
from tomserve.engine.retry import REFUSED_KEY, RetryPolicy, transient
from tomserve.engine.runfolder import now
from tomserve.engine.transport import Reply, Transport
from tomserve.errors import JournalError, ServerError, ServerLostError

PROBE_EVERY = 2.0
"""Seconds between two probes of a server that could not be reached, or fails."""

PROBE_WAITS = 30.0
"""Seconds that a server has for a simple question."""


class Observer(Protocol):
    """Told what happens; a progress display or nothing."""

    def row(self, row: dict[str, Any]) -> None:
        """A row was written."""

    def sending(self, identity: Identity, delta: int) -> None:
        """A request went out (+1) or came back (-1)."""

    def retrying(self, delta: int) -> None:
        """The number waiting to ask again changed by `delta`."""


class Silent:
    """An Observer that shows nothing."""

    def row(self, row: dict[str, Any]) -> None:
        """See Observer."""

    def sending(self, identity: Identity, delta: int) -> None:
        """See Observer."""

    def retrying(self, delta: int) -> None:
        """See Observer."""


@dataclass
class Runner:
    """Drives `endpoints` (each ``.../v1``) through `transport`, writing to `journal`.

    stop: set it to stop asking; what is in flight gets `drain` seconds. alive: returns a reason once the server is
    known to be gone (an embedded one whose process ended), else None. hedge: seconds after which a request without an
    answer is sent to a second endpoint as well, the first answer counting (None: never). probe: a simple question (a
    request's body) that tells a failing server from failing items. clock: seconds, injectable.
    """

    endpoints: list[str]
    transport: Transport
    journal: Journal
    concurrency: int = 64
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    observer: Observer = field(default_factory=Silent)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    drain: float = 30.0
    alive: Callable[[], str | None] = lambda: None
    hedge: float | None = None
    probe: bytes | None = None
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._pending: dict[str, list[Identity]] = {}
        self._fleet = Fleet(self.endpoints, self.policy.lost_after, self.clock)
        self._probed = -PROBE_EVERY
        self._refusals = FirstRefusals(decided=bool(self.journal.final))

    async def run(self, requests: Iterable[Request]) -> bool:
        """Ask everything not final yet; True when all was asked, False when stopped early by `stop`.

        Raises ServerLostError after `policy.lost_after` seconds without contact, or of failures without an answer;
        ServerError for a refused key, or where the first requests are all refused alike; JournalError when rows cannot
        be written. In all cases what completed is kept.
        """
        iterator = iter(requests)
        self._fleet = Fleet(self.endpoints, self.policy.lost_after, self.clock)
        probing = asyncio.create_task(self._probe())
        workers = [asyncio.create_task(self._work(iterator)) for _ in range(self.concurrency)]
        syncing = asyncio.create_task(self._sync())
        stopping = asyncio.create_task(self._stopped(workers))
        finished = asyncio.gather(*workers)
        try:
            both: list[asyncio.Future[Any]] = [finished, syncing]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if syncing.done():  # it only ever ends by failing: the disk takes nothing any more
                await syncing
            await finished
            if not self.stop.is_set():
                self._write(self._refusals.finish())
        except asyncio.CancelledError:
            if not self.stop.is_set():
                raise
        finally:
            for task in (*workers, syncing, stopping, probing):
                task.cancel()
            await asyncio.gather(finished, syncing, stopping, probing, return_exceptions=True)
            await asyncio.gather(*workers, return_exceptions=True)
            with contextlib.suppress(JournalError):  # where the disk is full that is being reported already
                self._write(self._refusals.give_up())
            self.journal.sync()
        return not self.stop.is_set()

    async def _stopped(self, workers: list[asyncio.Task[None]]) -> None:
        await self.stop.wait()
        await asyncio.sleep(self.drain)
        for worker in workers:
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

    async def _work(self, requests: Iterator[Request]) -> None:
        for request in requests:
            if self.stop.is_set():
                return
            if request.identity in self.journal.final:
                continue
            if request.key in self._pending:  # an equal prompt is being asked: wait for its answer
                self._pending[request.key].append(request.identity)
                continue
            if (known := self.journal.find(request.key)) is not None:
                self._reuse(known, [request.identity])
                continue
            await self._ask(request)

    async def _ask(self, request: Request) -> None:
        self._pending[request.key] = []
        try:
            answered = await self._exchange(request)
            if answered is None:
                return
            row = _row(request, *answered)
            self._write(self._refusals.take(row))
            self._reuse(row, self._pending[request.key])
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
            sent += 1
            reply, endpoint = await self._hedged(request, endpoint)
            self._fleet.heard(endpoint, reply, request.identity)
            await self._acquit(endpoint)
            self._raise_if_hopeless(reply, endpoint)
            if reply.status == "http_404" and endpoint not in missing and len(missing) + 1 < len(self.endpoints):
                missing.add(endpoint)  # a replica may have lost its model; what all say is true
                continue
            outage = not reply.reached or (self._fleet.suspected and transient(reply))
            attempt += not outage
            if not outage and not self.policy.again(reply, attempt):
                return reply, endpoint, sent
            if not reply.reached and self._fleet.others_up:
                continue  # another replica can have it at once
            self.observer.retrying(1)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stop.wait(), self.policy.seconds(reply, min(sent, 10)))
            self.observer.retrying(-1)
            if self.stop.is_set():
                return None

    async def _acquit(self, endpoint: str) -> None:
        """Many items fail: ask something simple before the server is blamed, now and then."""
        if self.probe is None or not self._fleet.suspected or self.clock() - self._probed < PROBE_EVERY:
            return
        self._probed = self.clock()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PROBE_WAITS):
                if (await self.transport.send(endpoint, self.probe)).status in GOOD:
                    self._fleet.acquit()

    async def _hedged(self, request: Request, avoid: str | None) -> tuple[Reply, str]:
        """One exchange; with `hedge`, a second copy elsewhere once the first is late, and the other one dropped."""
        first = self._fleet.pick(avoid)
        if self.hedge is None or len(self.endpoints) < 2:
            return await self._send(first, request), first
        tasks = {asyncio.create_task(self._send(first, request)): first}
        try:
            done, _ = await asyncio.wait(tasks, timeout=self.hedge)
            second = self._fleet.pick(first)
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
        token = self._fleet.sent(endpoint)
        self.observer.sending(request.identity, 1)
        try:
            return await self.transport.send(endpoint, request.body)
        finally:
            self._fleet.over(endpoint, token)
            self.observer.sending(request.identity, -1)

    def _raise_if_hopeless(self, reply: Reply, endpoint: str) -> None:
        if reply.status in REFUSED_KEY:
            raise ServerError(
                f"{endpoint}: the API key was refused in mid-run ({reply.error}); set a valid key and resume"
            )
        gone = self.alive() if reply.status in ("connection", "http_500", "http_503") else None
        if reason := gone or (self._fleet.lost() if not reply.final else None):
            raise ServerLostError(f"{endpoint}: server lost ({reason}); repeat the command to resume")


def _row(request: Request, reply: Reply, endpoint: str, attempts: int) -> dict[str, Any]:
    """The journal row of one exchange (data contract: Response)."""
    item, strategy, turn = request.identity
    return {
        "item": item,
        "strategy": strategy,
        "turn": turn,
        "key": request.key,
        "status": reply.status,
        "text": reply.text,
        "reasoning": reply.reasoning,
        "finish_reason": reply.finish_reason,
        "usage": reply.usage,
        "error": reply.error,
        "timings": reply.timings,
        "attempts": attempts,
        "endpoint": endpoint,
        "time": now(),
        "reused": False,
    }
