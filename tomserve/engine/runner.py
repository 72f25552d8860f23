"""The runner: workers take requests from one queue, every reply becomes a row of the journal, an observer is told.

Equal requests are sent once, and each is made when a worker is free for it. A stop ends the asking and leaves what is
in flight some seconds to complete; everything that has completed is in the journal.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tomserve.engine.concurrency import MOST, ServerLoad, read_load
from tomserve.engine.endpoints import EndpointPool, send_hedged
from tomserve.engine.prompt_tokens import PrefixMeter
from tomserve.engine.records import CLOSES, Row, Rows, build_row, reuse_row
from tomserve.engine.refusals import (
    GATEWAY_ADVICE,
    Refusals,
    explain_hopeless,
    in_words,
    is_answered,
    is_foreign,
    is_refusal,
)
from tomserve.engine.request import Identity, Request, build_ahead
from tomserve.engine.retry import ModelGuard, RetryPolicy
from tomserve.engine.transport import Reply, Transport
from tomserve.errors import ConfigError, ServerError, ServerLostError
from tomserve.status import (
    ANSWERS,
    BUSY,
    CONNECTION,
    FINAL,
    FORBIDDEN,
    GATEWAY_TIMEOUTS,
    KEY_REFUSED,
    MALFORMED,
    MAYBE_GONE,
    NOT_FOUND,
    REFUSAL,
    transient,
)

TICK = 0.25  # seconds between two reports of the status
ASK_EVERY = (0.5, 2.0)
"""Seconds between two requests for an endpoint's metrics: where they steer an adaptive limit, and where the limit is
fixed and they are only shown."""

SILENT = (3, 30.0)
"""After how many requests for metrics without an answer an endpoint is asked less often, and then how many seconds
apart."""

LATE = 0.15  # the client counts as too busy where its event loop wakes up this many seconds late
BUSY_CORE = 0.9  # the client counts as too busy where it uses at least this share of one CPU core


@dataclass(frozen=True, slots=True)
class RunStatus:
    in_flight: int = 0
    limit: int = 0  # how many requests may be in flight
    limit_found: bool = False  # whether that was found out while running rather than given by the user
    retrying: int = 0  # requests that wait to be asked again
    pause: float = 0.0  # seconds until some server takes requests again, as far as these have said
    queue: int | None = None  # requests that wait in the servers' queues; None where no server reports it
    # the share of the prompt tokens from the servers' prefix cache; None where it is not known
    cached: float | None = None
    # the largest share that a prefix cache of any size could have reached; None before the first answer
    shareable: float | None = None
    client_bound: bool = False  # whether this process, rather than a server, keeps the run from going faster
    # the request that has been in flight for longest, with its age in seconds
    oldest: tuple[Identity, float] | None = None
    extra_requests: int = 0  # requests of conversations that were not announced when the phase began


class Observer(Protocol):
    """Something that is told what a run does, such as a progress display."""

    def row(self, row: dict[str, Any]) -> None:
        """Called for every row that was written to the journal."""

    def status(self, status: RunStatus) -> None:
        """Called several times a second with what the run is doing."""


class SilentObserver(Observer):
    """An Observer that shows nothing."""


class RunWatch:
    """Measures what a run is doing, and tells the adaptive limits and an observer.

    A few times a second the status is reported; every second or so the endpoints are asked for their load. Where the
    event loop wakes up late, or one CPU core is used up, the limits must not grow.
    """

    def __init__(
        self,
        pool: EndpointPool,
        transport: Transport,
        prefix: PrefixMeter,
        observer: Observer,
        retrying: Callable[[], int],
        extra_requests: Callable[[], int] = lambda: 0,
    ) -> None:
        self.pool, self.transport, self.prefix = pool, transport, prefix
        self.observer, self.retrying, self.extra_requests = observer, retrying, extra_requests
        self.client_bound = False
        self._loads: dict[str, ServerLoad] = {}
        self._counted: dict[str, ServerLoad] = {}  # the first load of each endpoint: its counters began before this run
        self._silent = dict.fromkeys(pool.endpoints, 0)
        self._asked = dict.fromkeys(pool.endpoints, -1e9)

    async def run(self, changed: Callable[[], None]) -> None:
        """Measure and report until cancelled; `changed` is called each time after the limits may have moved."""
        asking: dict[str, asyncio.Task[None]] = {}
        suspicious = 0
        try:
            while True:
                for endpoint in self._due():
                    if endpoint not in asking or asking[endpoint].done():
                        asking[endpoint] = asyncio.create_task(self._ask(endpoint))
                wall, cpu = self.pool.clock(), time.process_time()
                await asyncio.sleep(TICK)
                passed = max(self.pool.clock() - wall, 1e-9)
                busy = (time.process_time() - cpu) / passed > BUSY_CORE or passed > TICK + LATE
                suspicious = min(suspicious + 1, 4) if busy else max(suspicious - 1, 0)
                self.client_bound = suspicious >= 3
                if self.pool.fixed is None:
                    for endpoint, limit in self.pool.limits.items():
                        limit.held_back = self.client_bound
                        limit.tick(len(self.pool.out[endpoint]))
                changed()
                self.tell()
        finally:
            for task in asking.values():
                task.cancel()
            await asyncio.gather(*asking.values(), return_exceptions=True)

    def _due(self) -> list[str]:
        usual, now = ASK_EVERY[self.pool.fixed is not None], self.pool.clock()
        every = {e: SILENT[1] if self._silent[e] >= SILENT[0] else usual for e in self.pool.available}
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
        if load.queried < first.queried:  # the server was restarted, and its counters began at 0 again
            self._counted[endpoint] = load
        if load.block:
            self.prefix.block = load.block
        if self.pool.fixed is None:
            self.pool.limits[endpoint].note_load(load, len(self.pool.out[endpoint]))

    def _cached_share(self) -> float | None:
        """The share of prompt tokens from the cache: by the answers where they report it, else by servers' counters."""
        if self.prefix.reported:
            return self.prefix.cached_share
        pairs = [(self._counted[endpoint], load) for endpoint, load in self._loads.items()]
        queried = sum(load.queried - first.queried for first, load in pairs)
        return sum(load.hit - first.hit for first, load in pairs) / queried if queried > 0 else None

    def tell(self) -> None:
        oldest = self.pool.oldest()
        self.observer.status(
            RunStatus(
                in_flight=self.pool.in_flight,
                limit=self.pool.capacity,
                limit_found=self.pool.fixed is None and any(limit.found for limit in self.pool.limits.values()),
                retrying=self.retrying(),
                pause=max(self.pool.pause, 0.0),
                queue=sum(load.waiting for load in self._loads.values()) if self._loads else None,
                cached=self._cached_share(),
                shareable=self.prefix.bound,
                client_bound=self.client_bound,
                oldest=(oldest[0], self.pool.clock() - oldest[1]) if oldest else None,
                extra_requests=self.extra_requests(),
            )
        )


class Follower(Protocol):
    """The open conversations of several turns. Requests of a single turn are no conversations."""

    @property
    def extra_requests(self) -> int:
        """How many more requests are wanted than were announced before the run."""

    def is_waiting(self, identity: Identity) -> bool:
        """Whether an open conversation waits for the reply to that turn."""

    def is_over(self, identity: Identity) -> bool:
        """Whether that is a turn of a conversation which has ended, so that nobody needs a reply any more."""

    def follow(self, row: Row) -> Sequence[Request]:
        """Take a reply, as the row that is about to be written, and return the requests that follow from it. Where it
        ends its conversation, the row gets the fields CLOSES and, where the answer is another text, CONCLUSION.
        Raises ConfigError where the strategy's program makes a mistake."""


Next = tuple[Request, Request | None, str | None]
"""A request that is to be asked next, that of the turn before in its conversation, if any, and the endpoint that
answered the turn before. It is a plain tuple, because one is made for every request."""


class RequestQueue:
    """The requests of a run, in the order in which they are asked: what follows from a reply before new questions.

    A conversation of an earlier session is begun anew: turns that the journal has answers to are answered from there,
    without a row. used_up: whether there are no new questions any more.
    """

    def __init__(
        self, requests: Iterable[Request], journal: Rows, follower: Follower | None, write: Callable[[Row], None]
    ) -> None:
        self._requests = build_ahead(requests)
        self._journal, self._follower, self._write = journal, follower, write
        self._following: list[Next] = []
        self.used_up = False

    @property
    def waiting(self) -> int:
        return len(self._following)

    @property
    def extra_requests(self) -> int:
        return 0 if self._follower is None else self._follower.extra_requests

    def take(self) -> Next | None:
        """The next request that has no final row yet; None where nothing is left at the moment. Raises ConfigError
        where a program asks something else than in an earlier session."""
        while True:
            if self._following:
                found = self._following.pop()
            elif (new := next(self._requests, None)) is not None:
                found = (new, None, None)
            else:
                self.used_up = True
                return None
            request, follower = found[0], self._follower
            if follower is not None and follower.is_over(request.identity):
                continue
            if request.identity not in self._journal.final:
                return found
            if follower is not None and follower.is_waiting(request.identity):
                self._replay(request)

    def follow(self, row: Row, request: Request) -> list[Next]:
        """What follows from the reply in a row, which may get further fields. request: what was asked, for this row or,
        in the same words, for another one."""
        if self._follower is None:
            return []
        return [(one, request, row.get("endpoint")) for one in self._follower.follow(row)]

    def push(self, following: Sequence[Next]) -> int:
        """Put follow-ups at the head of the queue, the first of them first. Returns how many wait now."""
        self._following.extend(reversed(following))
        return len(self._following)

    def _replay(self, request: Request) -> None:
        item, strategy, turn, _ = request.identity
        if (found := self._journal.find(request.key)) is None:
            raise ConfigError(
                f"strategy {strategy!r}, item {item!r}, turn {turn} (counted from 0): the program asks something else "
                "than when this turn was answered, though the replies before it are the same; make it depend on the "
                "item and the replies alone, or use --run NEW (make: RUN=NEW)"
            )
        row = reuse_row(found, request.identity)
        self.push(self.follow(row, request))
        if CLOSES in row:  # the program went on longer when this turn was answered, and was stopped by its budget
            self._write(row)


PROBE_EVERY = 2.0  # seconds between two probes of a server that could not be reached, or that fails
PROBE_WAITS = 30.0  # seconds within which a server must answer the simple question that probes it
PROBES = 3  # how often a probe has to be refused, as a server may refuse some requests by chance
FEW = 8  # how many workers there may be in any case, even if some wait to ask again and the adaptive limits are lower
WAITING = 1024
"""How many more workers than the adaptive limits there may be while some wait to ask again and the others need not."""


@dataclass
class Runner:
    """Sends requests to endpoints until each has its final row; `prefix` then holds what the prefix caches saved."""

    endpoints: list[str]  # their addresses, each .../v1
    transport: Transport
    journal: Rows
    concurrency: int | None = None  # requests in flight over all endpoints; None has the number found out
    most: int = MOST  # the highest number that may be found out, for each endpoint
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    observer: Observer = field(default_factory=SilentObserver)
    stop: asyncio.Event = field(default_factory=asyncio.Event)  # set it to stop asking
    drain: float = 30.0  # seconds that requests in flight then have to complete
    alive: Callable[[], str | None] = lambda: None  # returns a reason once an embedded server's process has ended
    # seconds after which a second endpoint is asked, too, and the first answer counts; None for never
    hedge: float | None = None
    probe: bytes | None = None  # the body of a simple request that tells a failing server from failing items
    # reads the API key anew where it is refused; returns a transport that sends it, None where it is the same
    renew: Callable[[], Transport | None] = lambda: None
    model_guard: ModelGuard = field(default_factory=ModelGuard)
    follower: Follower | None = None  # holds the conversations of several turns, if there are any
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.prefix = PrefixMeter()
        self._pending: dict[str, list[Identity]] = {}
        self._pool = self._new_pool()
        self._refusals, self._judging = Refusals(begun=bool(self.journal.final)), asyncio.Lock()
        self._proven: bytes | None = None  # the body of the request that was answered last
        self._vouched = self._renewed = 0  # the number of the last probe that was answered; that of the last new key
        self._queue = RequestQueue((), self.journal, self.follower, self._write)
        self._workers: set[asyncio.Task[None]] = set()
        self._retrying, self._probed = 0, -PROBE_EVERY
        self._room: asyncio.Future[None] | None = None

    def _new_pool(self) -> EndpointPool:
        return EndpointPool(self.endpoints, self.policy.lost_after, self.clock, self.concurrency, self.most)

    async def run(self, requests: Iterable[Request]) -> bool:
        """Ask everything that has no final row yet. Returns True when all was asked, False when `stop` ended it early.

        Raises ServerLostError after `policy.lost_after` seconds without contact, or with nothing but failures;
        ServerError for a refused API key, for an account without credit, where many requests are refused alike and not
        for themselves, and where a reply names another model (it is not kept, and asked again); JournalError where rows
        cannot be written; ConfigError where a strategy's program makes a mistake. In all cases everything that
        completed is kept, but for refusals of which it is not known yet what they mean.
        """
        self._queue = RequestQueue(requests, self.journal, self.follower, self._write)
        self._pool = self._new_pool()
        self._finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        counts = (lambda: self._retrying, lambda: self._queue.extra_requests)
        watch = RunWatch(self._pool, self.transport, self.prefix, self.observer, *counts)
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
                self._workers.add(judging := asyncio.create_task(self._judge_refusals(last=True)))
                await judging
                self._write(*self._refusals.believe())
        except asyncio.CancelledError:
            if not self.stop.is_set():
                raise
        except ServerError:
            await self._let_finish()
            raise
        finally:
            workers = list(self._workers)
            for task in (*workers, *helpers, *endless):
                task.cancel()
            self._finished.cancel()
            await asyncio.gather(*workers, *helpers, *endless, return_exceptions=True)
            self.journal.sync()
            watch.tell()
        return not self.stop.is_set()

    async def _let_finish(self) -> None:
        """Where refusals have ended the run, wait a while for what was sent before, which may be answered, and paid."""
        until = self.clock() + self.drain
        while self._refusals.ended is not None and self._pool.in_flight and self.clock() < until:
            if self.stop.is_set():
                break
            await asyncio.sleep(TICK)

    def _start_workers(self) -> None:
        """Start workers up to the number of requests that may be in flight; surplus workers end by themselves."""
        if self.stop.is_set() or self._finished.done():
            return
        room = self._pool.capacity - len(self._workers) + self._idle
        for _ in range(min(room, self._queue.waiting) if self._queue.used_up else room):
            worker = asyncio.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._end_worker)

    @property
    def _idle(self) -> int:
        """How many waiting workers are not counted: at a low limit a failing question must not hold up the others."""
        if self.concurrency or not self._retrying:
            return 0
        return min(self._retrying, max(0, FEW - self._pool.capacity) if self._pool.pause > 0 else WAITING)

    def _end_worker(self, worker: asyncio.Task[None]) -> None:
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
        await self.stop.wait()
        await asyncio.sleep(self.drain)
        for worker in list(self._workers):
            worker.cancel()

    async def _sync(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            await asyncio.to_thread(self.journal.sync)

    async def _revive(self) -> None:
        while len(self.endpoints) > 1:
            await asyncio.sleep(PROBE_EVERY)
            for endpoint in list(self._pool.down):
                if await self.transport.alive(endpoint):
                    self._pool.revive(endpoint)

    async def _work(self) -> None:
        while len(self._workers) - self._idle <= self._pool.capacity and not self.stop.is_set():
            if (found := self._queue.take()) is None:
                break
            request = found[0]
            if request.key in self._pending:  # an equal prompt is being asked: wait for its answer
                self._pending[request.key].append(request.identity)
            elif (row := self.journal.find(request.key)) is not None:
                self._keep([reuse_row(row, request.identity)], request, 0)
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
            reply, endpoint, attempts, number = answered
            self.model_guard.note_reply(reply, endpoint)
            self.prefix.note_answer(shared, request.prefix, reply.usage)
            if reply.status in ANSWERS:
                self._proven = request.body
            row = build_row(request, reply, endpoint, attempts)
            refused = reply.status not in ANSWERS and is_refusal(row, lasting=reply.lasting)
            rows = [row, *[reuse_row(row, one) for one in self._pending[request.key]]]
            self._keep(rows, request, number, refused=refused)
        finally:
            del self._pending[request.key]
        if refused and self._refusals.suspected():
            await self._judge_refusals()

    def _keep(self, rows: list[Row], request: Request, number: int, *, refused: bool = False) -> None:
        """Write the rows of the reply to a request, that of this number, and queue what follows; an error there loses
        no reply."""
        following: list[Next] = []
        for row in rows:
            try:
                if self.follower is not None:
                    following += self._queue.follow(row, request)
            finally:
                self._write(*self._refusals.take(row, number, refused=refused))
        if following and self._queue.push(following) > 1:  # one of them is taken by this worker
            self._start_workers()

    def _write(self, *rows: Row) -> None:
        for row in rows:
            self.journal.append(row)
            self.observer.row(row)

    async def _exchange(self, request: Request, near: str | None) -> tuple[Reply, str, int, int] | None:
        """Ask until the reply is final or the policy gives up. Returns the reply, the endpoint, how often it was sent,
        and the number of the last request among all; None where the run was stopped meanwhile.

        Failures of a server that cannot be reached, or fails for every item, are no attempts of the policy: either the
        server comes back, or the run ends because it is lost.
        """
        attempt, sent, doubted = 0, 0, False
        endpoint: str | None = None
        missing: set[str] = set()
        while True:
            if self._refusals.ended is not None:
                raise self._refusals.ended
            while (pause := self._pool.pause) > 0:
                if await self._wait(pause):
                    return None
            if self.concurrency is None:  # a fixed number is kept by the number of workers
                await self._wait_for_room()
            sent += 1
            number = self._refusals.note_sent()
            if self.hedge is None or len(self.endpoints) < 2:
                endpoint = self._pool.pick(request, endpoint, near)
                reply = await self._send(endpoint, request)
            else:
                reply, endpoint = await send_hedged(self._send, self._pool, request, endpoint, near, self.hedge)
            if self._pool.suspected:
                await self._probe_server()
            if reply.final:
                return reply, endpoint, sent, number
            if reply.status == KEY_REFUSED and self._renew_key(number):
                continue
            if reply.status == FORBIDDEN and await self._is_about_question(endpoint):
                reply.status, reply.text = REFUSAL, ""
                return reply, endpoint, sent, number
            if reply.status == FORBIDDEN and self.stop.is_set():
                return None
            self._raise_if_hopeless(reply, endpoint)
            away = not reply.reached and reply.status != CONNECTION
            others = endpoint not in missing and len(missing) + 1 < len(self.endpoints)
            if reply.status == NOT_FOUND and not away and others:
                missing.add(endpoint)  # one replica may have lost its model; 404 counts once all replicas say it
                continue
            outage = not reply.reached or (self._pool.suspected and transient(reply.status) and not reply.lasting)
            outage = outage or self._is_over_limit(reply, endpoint)
            attempt += not outage
            if not outage and not self.policy.again(reply, attempt):
                return reply, endpoint, sent, number
            if not reply.reached and self._pool.others_up and len(self.endpoints) > 1:
                continue  # another replica is asked without waiting
            if away and sent % self.policy.attempts == 0 and await self._is_about_question(endpoint):
                if doubted:
                    return reply, endpoint, sent, number
                doubted = True  # the server may be back since then
            if await self._wait(self.policy.seconds(reply, min(sent, 10))):
                return None

    def _is_over_limit(self, reply: Reply, endpoint: str) -> bool:
        if reply.status not in BUSY:
            return False
        return self._pool.refusing or (self.concurrency is None and len(self._pool.out[endpoint]) > 0)

    async def _wait_for_room(self) -> None:
        """Wait until the limits have room: there may be more workers than that, as some wait to ask again."""
        while self._pool.in_flight >= self._pool.capacity and not self.stop.is_set():
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

    async def _probe_server(self) -> None:
        """Where many items fail, ask the server a simple question: if it answers, the failures are due to the items."""
        if self.probe is None or self.clock() - self._probed < PROBE_EVERY:
            return
        self._probed = self.clock()
        endpoint = self._pool.available[0]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PROBE_WAITS):
                if (await self.transport.send(endpoint, self.probe)).status in FINAL:
                    self._suspect_items(endpoint)

    def _suspect_items(self, endpoint: str) -> None:
        """Give items up that fail where a simple question is answered. Raises ServerError where nothing else was ever
        answered and all fail alike again and again, as where a server cannot do what every request asks of it."""
        alike = None if self._refusals.answered else self._pool.common_failure()
        if alike is None:
            self._pool.suspect_items()
        elif alike[2]:
            raise self._refusals.end(
                f"{endpoint}: the first questions all failed alike, with {alike[0]} ({alike[1]}), where a simple one "
                "is answered; nothing was written: mend the request (strategy, options, preset) or the server, then "
                "repeat the command"
            )
        else:
            self._probed = -PROBE_EVERY  # they are asked once more first

    async def _judge_refusals(self, *, last: bool = False) -> None:
        """Find out what the refusals mean that are held back, where they give reason to. last: after the last question.
        Raises ServerError where they are not about their questions."""
        async with self._judging:
            refusals = self._refusals
            while refusals.suspected(last=last) and not self.stop.is_set():
                if not refusals.needs_probe:
                    self._write(*refusals.judge_beginning(last=last))
                elif (found := await self._probe_refusal(endpoint := refusals.where)) is not None:
                    self._write(*refusals.judge_probe(*found, endpoint))
                elif not self.stop.is_set():  # nobody can tell
                    self._write(*refusals.believe())

    async def _is_about_question(self, endpoint: str) -> bool:
        """Whether the server answers something else than the question that it has just refused."""
        now = self._refusals.sent
        async with self._judging:
            if self._vouched <= now and (found := await self._probe_refusal(endpoint)) is not None:
                reply, number = found
                self._vouched = number if is_answered(reply) else self._vouched
            return self._vouched > now

    async def _probe_refusal(self, endpoint: str) -> tuple[Reply, int] | None:
        """The reply to the request that was answered last, else to the simple one, with its number; a refusal counts
        from the PROBES-th on. None where there is neither request, or the run is stopped. Raises ServerLostError where
        there is nothing but failures for too long."""
        began, body, refused = self.clock(), self._proven or self.probe, 0
        while body is not None and not self.stop.is_set():
            if self._refusals.ended is not None:
                raise self._refusals.ended
            number = self._refusals.note_sent()
            reply = await self.transport.send(endpoint, body)
            away = reply.status == NOT_FOUND and self._refusals.answered
            refused += reply.lasting or not (away or transient(reply.status))
            if is_answered(reply) or refused >= PROBES:
                return reply, number
            if (passed := self.clock() - began) > self.policy.lost_after:
                said = f"nothing but {in_words(reply)} for {passed:.0f} s"
                raise ServerLostError(f"{endpoint}: server lost ({said}); repeat the command to resume")
            await self._wait(self.policy.seconds(reply, 1 if refused else 4))
        return None

    def _renew_key(self, number: int) -> bool:
        """Whether the request of that number was sent with an API key that is no longer in use."""
        if number > self._renewed and (renewed := self.renew()) is not None:
            self.transport, self._renewed = renewed, self._refusals.sent
        return number <= self._renewed

    async def _send(self, endpoint: str, request: Request) -> Reply:
        self._pool.note_sent(endpoint, request.identity)
        began = None
        try:
            reply = await self.transport.send(endpoint, request.body)
        finally:
            began = self._pool.note_return(endpoint, request.identity)
            if self._room is not None and not self._room.done():
                self._room.set_result(None)
        if reply.foreign or reply.status == NOT_FOUND:
            reply.reached = not is_foreign(reply, answered=self._refusals.answered)
            reply.lasting = reply.reached and reply.status == MALFORMED  # from the start on, as a page to log in is
        self._pool.note_reply(endpoint, reply, request.identity, began)
        return reply

    def _raise_if_hopeless(self, reply: Reply, endpoint: str) -> None:
        if hopeless := explain_hopeless(reply):
            raise self._refusals.end(f"{endpoint}: {hopeless}")
        gone = self.alive() if reply.status in MAYBE_GONE else None
        if reason := gone or self._pool.explain_loss():
            advice = GATEWAY_ADVICE if reply.status in GATEWAY_TIMEOUTS else ""
            raise ServerLostError(f"{endpoint}: server lost ({reason}); {advice}repeat the command to resume")
