"""One client process of bench/adaptive.py: it asks unique prompts for some seconds and reports what came of it."""

from __future__ import annotations

import asyncio
import itertools
import resource
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tomserve.benchmarks import get
from tomserve.engine.httptools_transport import HttptoolsTransport
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.engine.runner import Runner, SilentObserver
from tomserve.engine.transport import Reply
from tomserve.errors import TomserveError
from tomserve.prompting.strategy import Strategy
from tomserve.runs.journal import Journal
from tomserve.status import ANSWERS

TRACE_EVERY = 0.5


class Counting(HttptoolsTransport):
    """The real transport, which also counts requests in flight and their outcomes."""

    def __init__(self) -> None:
        super().__init__()
        self.statuses: Counter[str] = Counter()
        self.out = self.peak = 0

    async def send(self, endpoint: str, body: bytes) -> Reply:
        """Send a request as Transport says, and count it while it is in flight."""
        self.out += 1
        self.peak = max(self.peak, self.out)
        try:
            reply = await super().send(endpoint, body)
        finally:
            self.out -= 1
        self.statuses[reply.status] += 1
        return reply


class Watch(SilentObserver):
    """Records when each answer came and how many tokens it had, and keeps the newest status of the run."""

    def __init__(self) -> None:
        self.answers: list[tuple[float, int]] = []
        self.lost = 0
        self.limit = self.queue = None

    def row(self, row: dict[str, Any]) -> None:
        """Note an answer when its row is written, as Observer says."""
        if row["status"] not in ANSWERS:
            self.lost += 1
        elif not row["reused"]:
            self.answers.append((time.monotonic(), (row["usage"] or {}).get("completion", 0)))

    def status(self, status: Any) -> None:
        """Keep the newest limit and queue, as Observer says."""
        self.limit, self.queue = status.limit, status.queue


def requests(model: str, strategy_name: str, tag: str) -> Iterator[Request]:
    """Requests over the repeated dataset, without end. No prompt comes twice, nor in two runs whose `tag` differs."""
    strategy, sampling = Strategy.load(strategy_name), Sampling()
    base = list(get("perturbed").items())
    for number, item in enumerate(itertools.cycle(base)):
        story = (f"Story {tag}-{number}.", *item.story)
        changed = item.model_copy(update={"id": f"{number}/{item.id}", "story": story, "gold": None})
        turn, identity = strategy.turn(changed), Identity(changed.id, strategy_name, 0)
        yield Request.build(identity, turn, model=model, revision=None, sampling=sampling)


async def client(job: dict[str, Any], scratch: Path) -> dict[str, Any]:
    """Ask for `phases` of `seconds` each, with `limit` requests in flight (None: adaptive); returns the figures."""
    transport, watch, stop = Counting(), Watch(), asyncio.Event()
    whole = job["seconds"] * job["phases"]
    trace: list[list[float | None]] = []
    problem = None
    with Journal(scratch / "responses.jsonl") as journal:
        runner = Runner(
            [job["url"]], transport, journal, concurrency=job["limit"], observer=watch, stop=stop, drain=0.2
        )
        asked = requests(job["model"], job["strategy"], job["tag"])
        first = next(asked)  # the dataset is read and the templates are compiled before the clock starts
        began, cpu = time.monotonic(), time.process_time()
        refused = answered = 0
        lag = 0.0

        def look() -> None:
            nonlocal refused, answered
            bad = sum(count for status, count in transport.statuses.items() if status not in ANSWERS)
            rate = (len(watch.answers) - answered) / TRACE_EVERY
            trace.append(
                [round(time.monotonic() - began, 2), watch.limit, transport.out, watch.queue, rate, bad - refused]
            )
            refused, answered = bad, len(watch.answers)

        async def tracing() -> None:
            nonlocal lag
            for number in itertools.count(1):
                await asyncio.sleep(max(0.0, began + number * TRACE_EVERY - time.monotonic()))
                lag = max(lag, time.monotonic() - began - number * TRACE_EVERY)
                look()

        looking = asyncio.create_task(tracing())
        asyncio.get_running_loop().call_later(whole, stop.set)
        try:
            await runner.run(itertools.chain([first], asked))
        except TomserveError as error:
            problem = str(error)
        looking.cancel()
        used, took, final = time.process_time() - cpu, time.monotonic() - began, watch.limit
    await transport.close()
    phases = [[0, 0] for _ in range(job["phases"])]
    for at, tokens in watch.answers:
        if at - began < whole:
            phase = phases[int((at - began) / job["seconds"])]
            phase[0], phase[1] = phase[0] + 1, phase[1] + tokens
    return {
        "phases": phases,
        "statuses": dict(transport.statuses),
        "lost": watch.lost,
        "limit": final,
        "peak": transport.peak,
        "cpu": used / took,
        "lag": lag,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "trace": trace,
        "problem": problem,
    }
