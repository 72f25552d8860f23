"""A server that behaves like a language model under load and costs next to nothing: a continuous batcher, simulated.

    python tests/helpers/simulated.py --port 0 --slots 48                         # prints its URL, then serves until SIGTERM
    python tests/helpers/simulated.py --slots 16 --at '10 slots=64' --no-metrics  # four times the room after ten seconds
    curl -d '{"knee": 32, "schedule": [[10, {"slots": 16}]], "reset": true}' localhost:PORT/simulate

Up to `slots` requests run at once, the rest wait, first come first served. Each of n running ones makes
1 / (base + slope * n) tokens a second, so throughput grows with n and saturates at 1 / slope. Beyond `knee` running
requests the key-value cache is full: the total falls by `thrash` for every further `knee` requests, preemptions are
counted and kv_cache_usage_perc stays at 1 (harder than vLLM, where preempted requests show as waiting). A request takes
`work` tokens, give or take `spread`. Paths: /v1/models, /v1/chat/completions, /health, /version, /metrics with the
names and labels of vLLM 0.32, and /simulate (GET: what happened since the last reset; POST: change any setting).

Time is continuous: between two events all running requests advance alike, so one number, the work done for each, stands
for all of them and only the next event needs a timer. One that fires late is made up for: nothing drifts under load.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import heapq
import itertools
import os
import random
import signal
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

MODEL = "tiny"
ANSWER = '{"answer":"tea"}'
BLOCK = 64
"""Characters of a block of the prefix cache: 16 tokens of 4 characters, vLLM's default on GPUs."""

BLOCKS = 65536
"""Blocks that the prefix cache holds; the one not used for longest goes first."""

PREEMPTIONS = 0.5
"""Preemptions a second for every running request beyond the knee."""

BUSY = "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance."
METRICS = (
    ("num_requests_running", "gauge", "Number of requests in model execution batches.", ""),
    ("num_requests_waiting", "gauge", "Number of requests waiting to be processed.", ""),
    ("num_requests_waiting_by_reason", "gauge", "Number of waiting requests by reason.", ',reason="capacity"'),
    ("kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", ""),
    ("prefix_cache_queries", "counter", "Prefix cache queries, in terms of number of queried tokens.", ""),
    ("prefix_cache_hits", "counter", "Prefix cache hits, in terms of number of cached tokens.", ""),
    ("num_preemptions", "counter", "Cumulative number of preemption from the engine.", ""),
)


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


class PrefixCache:
    """The blocks of prompts that were seen, each identified by all text before it; the least recently used are dropped."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, None] = OrderedDict()
        self.queries = self.hits = 0

    def ask(self, prompt: str) -> tuple[int, int]:
        """How many tokens a prompt has and how many of them are cached; remembers its blocks from now on."""
        found, chain, known = 0, 0, self._known
        hitting = True
        for start in range(0, len(prompt) - BLOCK, BLOCK):
            chain = hash((chain, prompt[start : start + BLOCK]))
            if chain in known:
                known.move_to_end(chain)
                found += hitting
            else:
                hitting = False
                known[chain] = None
        while len(known) > BLOCKS:
            known.popitem(last=False)
        tokens, cached = len(prompt) // 4 + 1, found * BLOCK // 4
        self.queries += tokens
        self.hits += cached
        return tokens, cached


def error(status: int, message: str, **headers: str) -> web.Response:
    """The body of an error, worded as vLLM words it."""
    kinds = {400: "BadRequestError", 404: "NotFoundError", 429: "RateLimitError", 503: "Service Unavailable"}
    body = {"error": {"message": message, "type": kinds.get(status, "Error"), "param": None, "code": status}}
    return web.json_response(body, status=status, headers=headers)


class Simulated:
    """Answers HTTP requests out of a Batcher."""

    def __init__(self, batcher: Batcher) -> None:
        self.batcher, self.cache = batcher, PrefixCache()
        self._created = time.time()

    def app(self) -> web.Application:
        """The web application with all its routes."""
        app = web.Application(client_max_size=16 * 2**20)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        app.router.add_get("/version", self._version)
        app.router.add_get("/simulate", self._report)
        app.router.add_post("/simulate", self._change)
        return app

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": "0.0.simulated"})

    async def _models(self, _: web.Request) -> web.Response:
        model = {"id": MODEL, "object": "model", "created": int(self._created), "owned_by": "vllm", "root": MODEL}
        return web.json_response({"object": "list", "data": [{**model, "max_model_len": 8192}]})

    async def _chat(self, request: web.Request) -> web.Response:
        try:
            body = orjson.loads(await request.read())
            model, prompt = body["model"], "\n".join(message["content"] for message in body["messages"])
        except (orjson.JSONDecodeError, KeyError, TypeError) as problem:
            return error(400, f"not a chat request: {problem!r}")
        if model != MODEL:
            return error(404, f"The model `{model}` does not exist.")
        job = self.batcher.enter()
        if isinstance(job, int):
            wait = self.batcher.settings.retry_after
            return error(job, BUSY, **({"Retry-After": f"{wait:g}"} if wait >= 0 else {}))
        tokens, cached = self.cache.ask(prompt)
        try:
            await job.done
        except asyncio.CancelledError:
            self.batcher.leave(job)
            raise
        made = max(1, round(job.work))
        reply = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": int(self._created),
            "model": model,
            "choices": [{"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": tokens,
                "completion_tokens": made,
                "total_tokens": tokens + made,
                "prompt_tokens_details": {"cached_tokens": cached},
            },
        }
        return web.Response(body=orjson.dumps(reply), content_type="application/json")

    async def _metrics(self, _: web.Request) -> web.Response:
        batcher, settings = self.batcher, self.batcher.settings
        if not settings.metrics:
            return web.json_response({"detail": "Not Found"}, status=404)
        batcher.advance()
        values = {
            "num_requests_running": batcher.running,
            "num_requests_waiting": batcher.waiting,
            "num_requests_waiting_by_reason": batcher.waiting,
            "kv_cache_usage_perc": min(1.0, batcher.running / (settings.knee or 2 * settings.slots)),
            "prefix_cache_queries": self.cache.queries,
            "prefix_cache_hits": self.cache.hits,
            "num_preemptions": int(batcher.preemptions),
        }
        lines = []
        for name, kind, about, label in METRICS:
            labels = f'{{engine="0",model_name="{MODEL}"{label}}}'
            total = "_total" if kind == "counter" else ""
            for suffix, shown, value in ((total, kind, float(values[name])), ("_created", "gauge", self._created)):
                if suffix != "_created" or kind == "counter":
                    full = f"vllm:{name}{suffix}"
                    figure = repr(value) if value < 1e6 else f"{value:.12e}"
                    lines += [f"# HELP {full} {about}", f"# TYPE {full} {shown}", f"{full}{labels} {figure}"]
        headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body="\n".join([*lines, ""]).encode(), headers=headers)

    async def _report(self, _: web.Request) -> web.Response:
        return web.json_response(self.batcher.report())

    async def _change(self, request: web.Request) -> web.Response:
        try:
            changes = orjson.loads(await request.read())
            schedule, reset = changes.pop("schedule", None), changes.pop("reset", False)
            checked = None if schedule is None else check(schedule, self.batcher.settings.changed(changes))
            self.batcher.change(changes)
        except (AttributeError, TypeError, ValueError) as problem:
            return error(400, str(problem))
        if checked is not None:
            self.batcher.schedule = checked
        if reset:
            self.batcher.reset()
        return web.json_response(self.batcher.report())


def check(schedule: Any, settings: Settings) -> Schedule:
    """The schedule that JSON [[seconds, {name: value}], ...] describes, in order of time. Raises TypeError, ValueError."""
    found = sorted(((float(at), dict(changes)) for at, changes in schedule), key=lambda entry: entry[0])
    for _, changes in found:
        settings.changed(changes)
    return found


def scheduled(text: str) -> tuple[float, dict[str, Any]]:
    """The change that a text such as '10 slots=64 base=0.01' describes, as seconds and settings."""
    at, *pairs = text.split()
    return float(at), {name: orjson.loads(value) for name, _, value in (pair.partition("=") for pair in pairs)}


async def serve(settings: Settings, schedule: Schedule, host: str, port: int, with_parent: bool) -> None:
    """Print the URL and serve until SIGTERM or SIGINT or, where `with_parent`, until the parent process has ended."""
    stop, parent = asyncio.Event(), os.getppid()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    app = Simulated(Batcher(settings, check(schedule, settings))).app()
    runner = web.AppRunner(
        app, access_log=None, handler_cancellation=True, shutdown_timeout=0.2, keepalive_timeout=3600.0
    )
    await runner.setup()
    await web.TCPSite(runner, host, port, backlog=2048).start()
    print(f"http://{host}:{runner.addresses[0][1]}/v1", flush=True)
    while not stop.is_set() and not (with_parent and os.getppid() != parent):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 1.0)
    await runner.cleanup()


def main() -> None:
    """Read the settings from the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--with-parent", action="store_true", help="end when the process that started this ends")
    parser.add_argument("--at", type=scheduled, action="append", default=[], metavar="'SECONDS NAME=VALUE ...'")
    for entry in dataclasses.fields(Settings):
        name = f"--{entry.name.replace('_', '-')}"
        if isinstance(entry.default, bool):
            parser.add_argument(name, action=argparse.BooleanOptionalAction, default=entry.default)
        else:
            parser.add_argument(name, type=type(entry.default), default=entry.default, help=f"{entry.default}")
    chosen = parser.parse_args()
    values = {entry.name: getattr(chosen, entry.name) for entry in dataclasses.fields(Settings)}
    try:
        settings = Settings().changed(values)
        check(chosen.at, settings)
    except ValueError as problem:
        parser.error(str(problem))
    asyncio.run(serve(settings, chosen.at, chosen.host, chosen.port, chosen.with_parent))


if __name__ == "__main__":
    main()
