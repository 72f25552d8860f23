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

from tomserve.engine.journal import Journal
from tomserve.engine.request import Identity, Request
from tomserve.engine.retry import REFUSED_KEY, RetryPolicy
from tomserve.engine.runfolder import now
from tomserve.engine.transport import Reply, Transport
from tomserve.errors import ServerError, ServerLostError

DOWN_FOR = 5.0
"""Seconds for which a replica that could not be reached is left alone while another answers."""


class Observer(Protocol):
    """Told what happens; a progress display or nothing."""

    def row(self, status: str, reused: bool) -> None:
        """A row was written."""

    def sending(self, delta: int) -> None:
        """The number in flight changed by `delta`."""

    def retrying(self, delta: int) -> None:
        """The number waiting to ask again changed by `delta`."""


class Silent:
    """An Observer that shows nothing."""

    def row(self, status: str, reused: bool) -> None:
        """See Observer."""

    def sending(self, delta: int) -> None:
        """See Observer."""

    def retrying(self, delta: int) -> None:
        """See Observer."""


@dataclass
class Runner:
    """Drives `endpoints` (each ``.../v1``) through `transport`, writing to `journal`.

    stop: set it to stop asking; what is in flight gets `drain` seconds. alive: returns a reason once the server is
    known to be gone (an embedded one whose process ended), else None. clock: seconds, injectable for tests.
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
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._pending: dict[str, list[Identity]] = {}
        self._contact = self.clock()
        self._outstanding = dict.fromkeys(self.endpoints, 0)
        self._down: dict[str, float] = {}

    async def run(self, requests: Iterable[Request]) -> bool:
        """Ask everything not final yet; True when all was asked, False when stopped early by `stop`.

        Raises ServerLostError after `policy.lost_after` seconds without contact, ServerError for a refused key,
        JournalError when rows cannot be written. In all cases what completed is kept.
        """
        iterator = iter(requests)
        self._contact = self.clock()
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
        except asyncio.CancelledError:
            if not self.stop.is_set():
                raise
        finally:
            for task in (*workers, syncing, stopping):
                task.cancel()
            await asyncio.gather(finished, syncing, stopping, return_exceptions=True)
            await asyncio.gather(*workers, return_exceptions=True)
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
            reply, endpoint, attempts = answered
            row = _row(request, reply, endpoint, attempts)
            self.journal.append(row)
            self.observer.row(reply.status, False)
            self._reuse(row, self._pending[request.key])
        finally:
            del self._pending[request.key]

    def _reuse(self, row: dict[str, Any], identities: list[Identity]) -> None:
        for item, strategy, turn in identities:
            self.journal.append({**row, "item": item, "strategy": strategy, "turn": turn, "reused": True})
            self.observer.row(row["status"], True)

    async def _exchange(self, request: Request) -> tuple[Reply, str, int] | None:
        """Ask until the policy is satisfied; None when the run was stopped while waiting to ask again.

        A server that cannot be reached costs no attempt: either it comes back, or the run ends as lost.
        """
        attempt = sent = 0
        while True:
            sent += 1
            endpoint = self._pick()
            self._outstanding[endpoint] += 1
            self.observer.sending(1)
            try:
                reply = await self.transport.send(endpoint, request.body)
            finally:
                self._outstanding[endpoint] -= 1
                self.observer.sending(-1)
            if reply.reached:
                self._down.pop(endpoint, None)
                attempt += 1
                if reply.status != "timeout":
                    self._contact = self.clock()
            else:
                self._down[endpoint] = self.clock() + DOWN_FOR
            self._raise_if_hopeless(reply, endpoint)
            if reply.reached and not self.policy.again(reply, attempt):
                return reply, endpoint, sent
            if not reply.reached and len(self._down) < len(self.endpoints):
                continue  # another replica can have it at once
            self.observer.retrying(1)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stop.wait(), self.policy.seconds(reply, min(sent, 10)))
            self.observer.retrying(-1)
            if self.stop.is_set():
                return None

    def _pick(self) -> str:
        """The endpoint with the fewest requests out, of those not known to be down; of all where all are."""
        if len(self.endpoints) == 1:
            return self.endpoints[0]
        now_ = self.clock()
        self._down = {endpoint: until for endpoint, until in self._down.items() if until > now_}
        up = [endpoint for endpoint in self.endpoints if endpoint not in self._down] or self.endpoints
        return min(up, key=self._outstanding.__getitem__)

    def _raise_if_hopeless(self, reply: Reply, endpoint: str) -> None:
        if reply.status in REFUSED_KEY:
            raise ServerError(
                f"{endpoint}: the API key was refused in mid-run ({reply.error}); set a valid key and resume"
            )
        silence = self.clock() - self._contact
        gone = self.alive() if reply.status in ("connection", "http_500", "http_503") else None
        if gone or (not reply.reached and silence > self.policy.lost_after):
            since = f"no contact for {silence:.0f} s; last error: {reply.error}"
            raise ServerLostError(f"{endpoint}: server lost ({gone or since}); repeat the command to resume")


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
