"""An event loop without waiting: where nothing is ready, its clock jumps to the next timer.

The whole engine runs on it against the batcher of bench/_batcher.py, so that minutes of a run under load take a
second, and come out the same each time.
"""

import asyncio
import importlib
import random
import selectors
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import ROOT
from tomserve.engine.request import Identity, Request
from tomserve.engine.runner import Runner, RunStatus, SilentObserver
from tomserve.engine.transport import Reply
from tomserve.runs.journal import Journal


class _Selector(selectors.DefaultSelector):
    """A selector that never waits; it adds the time that it would have waited to `now`."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready and timeout:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


class Simulated:
    """A transport to a batcher on the same clock; each way to it takes `far` seconds."""

    def __init__(self, batcher: Any, metrics: bool, broken: bytes, far: float = 0.001) -> None:
        self.batcher, self.shown, self.broken, self.far = batcher, metrics, broken, far
        self.refused = 0

    async def send(self, endpoint: str, body: bytes) -> Reply:
        await asyncio.sleep(self.far)
        if body == self.broken:
            return Reply("http_500", error="this one never works")
        job = self.batcher.enter()
        if isinstance(job, int):
            self.refused += 1
            after = self.batcher.settings.retry_after
            return Reply(f"http_{job}", error="busy", retry_after=after if after >= 0 else None)
        try:
            await job.done
        finally:
            self.batcher.leave(job)
        return Reply("ok", '{"answer": "tea"}', usage={"prompt": 300, "completion": round(job.work), "cached": 200})

    async def metrics(self, endpoint: str) -> bytes | None:
        await asyncio.sleep(self.far)
        if not self.shown:
            return None
        self.batcher.advance()
        settings = self.batcher.settings
        full = settings.knee and self.batcher.running > settings.knee
        use = 0.99 if full else self.batcher.running / (settings.knee or settings.slots) * 0.9
        return (
            f"vllm:num_requests_running {self.batcher.running}\nvllm:num_requests_waiting {self.batcher.waiting}\n"
            f"vllm:num_preemptions_total {int(self.batcher.preemptions)}\nvllm:kv_cache_usage_perc {use}\n"
        ).encode()

    async def alive(self, endpoint: str) -> bool:
        return True

    async def close(self) -> None:
        pass


@dataclass
class Outcome(SilentObserver):
    """The figures of a run under load. answers: the seconds at which they came. limits: pairs of the second and the
    concurrency limit at that time."""

    answers: list[float] = field(default_factory=list)
    lost: int = 0
    error: BaseException | None = None
    refused: int = 0
    limits: list[tuple[float, int]] = field(default_factory=list)
    clock: Callable[[], float] = lambda: 0.0

    def row(self, row: dict[str, Any]) -> None:
        if row["status"] == "ok":
            self.answers.append(self.clock())
        else:
            self.lost += 1

    def status(self, status: RunStatus) -> None:
        self.limits.append((self.clock(), status.limit))

    def rate(self, begin: float, end: float) -> float:
        """How many answers came a second."""
        return sum(begin <= at < end for at in self.answers) / (end - begin)


class VirtualRunner(Runner):
    """The engine's runner, which leaves the disk alone: the thread that does it knows nothing of this clock."""

    async def _sync(self) -> None:
        await asyncio.Event().wait()


@dataclass
class Scripted:
    """A transport whose replies `behave(question, number, endpoint)` gives, each with the seconds until it comes.

    sent: the second, the endpoint and the question of everything that was sent. living: endpoints that answer a probe."""

    behave: Callable[[str, int, str], tuple[float, Reply]]
    living: Callable[[str], bool] = lambda endpoint: False
    sent: list[tuple[float, str, str]] = field(default_factory=list)
    peak: int = 0
    _out: int = 0

    async def send(self, endpoint: str, body: bytes) -> Reply:
        question = orjson.loads(body)["messages"][-1]["content"]
        self.sent.append((asyncio.get_running_loop().time(), endpoint, question))
        seconds, reply = self.behave(question, len(self.sent), endpoint)
        self._out += 1
        self.peak = max(self.peak, self._out)
        try:
            await asyncio.sleep(seconds)
        finally:
            self._out -= 1
        return replace(reply, timings={"total_s": seconds})

    async def metrics(self, endpoint: str) -> bytes | None:
        return None

    async def alive(self, endpoint: str) -> bool:
        return self.living(endpoint)

    async def close(self) -> None:
        pass


def virtually(
    transport: Scripted, journal: Journal, requests: Iterable[Request], urls: Sequence[str] = ("a",), **options: Any
) -> tuple[bool, float]:
    """Run the engine over these requests; whether all was asked, and how many seconds of virtual time it took."""

    async def directly(job: Callable[[], Any]) -> Any:
        return job()

    async def go() -> tuple[bool, float]:
        loop = asyncio.get_running_loop()
        runner = Runner(list(urls), transport, journal, clock=loop.time, **{"concurrency": 4, **options})
        return await runner.run(requests), loop.time()

    with pytest.MonkeyPatch.context() as patch, asyncio.Runner(loop_factory=VirtualLoop) as loop:
        patch.setattr(asyncio, "to_thread", directly)  # a thread knows nothing of this clock
        return loop.run(go())


def requests() -> Iterator[Request]:
    number = 0
    while True:
        yield Request(Identity(f"q{number}", "s", 0), f"{number:032x}", b"%d" % number, 1)
        number += 1


def under_load(
    settings: dict[str, Any],
    schedule: Sequence[tuple[float, dict[str, Any]]] = (),
    *,
    seconds: float = 20.0,
    metrics: bool = True,
    concurrency: int | None = None,
    most: int = 1024,
    broken: bytes = b"none",
) -> Outcome:
    """Run the engine for so many seconds of virtual time. broken: the question that always fails."""
    outcome = Outcome()
    random.seed(0)  # by which waits are drawn, so that a run comes out the same each time

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "bench")
        simulated = importlib.import_module("_batcher")

    async def go() -> None:
        loop = asyncio.get_running_loop()
        outcome.clock = loop.time
        batcher = simulated.Batcher(simulated.Settings(**settings), list(schedule), clock=loop.time)
        transport = Simulated(batcher, metrics, broken)
        with tempfile.TemporaryDirectory() as scratch, Journal(Path(scratch) / "responses.jsonl") as journal:
            runner = VirtualRunner(
                ["http://simulated/v1"], transport, journal,
                concurrency=concurrency, most=most, observer=outcome, clock=loop.time,
            )  # fmt: skip
            asking = asyncio.create_task(runner.run(requests()))
            await asyncio.wait([asking], timeout=seconds)
            asking.cancel()
            (error,) = await asyncio.gather(asking, return_exceptions=True)
            outcome.error = error if isinstance(error, Exception) else None
        outcome.refused = transport.refused

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(go())
    return outcome
