"""An event loop without waiting: where nothing is ready, its clock jumps to the next timer."""

import asyncio
import selectors
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pytest

from tomserve.engine.request import Request
from tomserve.engine.runner import Runner
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
