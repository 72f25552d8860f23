"""A cluster whose nodes fail, in virtual time: the real planner, run folders, journals, engine and merger, on nodes that
are simulated.

    python bench/nodes.py                                            # a hundred nodes

Every node starts a server, takes the next part from a queue, asks it by the real engine, and goes on. Meanwhile nodes

- die: what was written since the journal was last forced to the disk is lost, but for some bytes of it;
- are preempted, or come to the end of their time limit: they are told, and have half a minute for what is in flight;
- are slow, or a zombie: taken for dead, its part is given to another node, and it goes on with a copy on its own disk.

A part whose node is gone goes back to the queue, as `--requeue` does, and the node comes back later. Replies follow from
the requests alone, so that whatever is asked twice is answered alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from tests.conftest import make_item
from tests.helpers import batches
from tests.helpers.virtual import VirtualLoop, VirtualRunner
from tomserve.engine.runner import Runner
from tomserve.engine.transport import Reply, read_reply
from tomserve.items import Item
from tomserve.runs import planning
from tomserve.runs.evaluation import Evaluation, resumed
from tomserve.runs.journal import Journal
from tomserve.runs.listening import Silent
from tomserve.runs.manifest import Session
from tomserve.runs.planning import EvalOptions
from tomserve.runs.questions import finished
from tomserve.runs.runfolder import RunFolder
from tomserve.runs.stock import Stock
from tomserve.runs.stopping import Stop
from tomserve.runs.talking import Talks
from tomserve.shards.merging import Merged, merge
from tomserve.shards.planning import divide
from tomserve.shards.record import Shards, part_folder
from tomserve.shards.working import Connection, options_of

SYNC = 0.5
"""Seconds after which the engine forces a journal to the disk."""


@dataclass(frozen=True)
class Cluster:
    """The cluster. All times are in seconds, and those of failures the means of what is drawn.

    nodes: how many. concurrency: requests that a node has in flight. answer: how long a request takes. between: from
    the start of a node to its death; preempted: to its preemption. limit: how long a node may work. back: until a node
    that was lost is there again. start: until its server answers. slow: the share of nodes that take three times as
    long. zombies: how many nodes are taken for dead and go on. failing: the share of requests that fail once.
    """

    nodes: int = 100
    concurrency: int = 16
    answer: float = 8.0
    between: float = 1500.0
    preempted: float = 3000.0
    limit: float = 900.0
    back: float = 60.0
    start: float = 30.0
    slow: float = 0.1
    zombies: int = 2
    failing: float = 0.01
    seed: int = 0


@dataclass
class Report:
    """What happened. sent: how many requests were sent, but for those that the server itself failed; wanted: how many
    there are, all different. ends: how often nodes ended in which way. lost: rows that were on no disk when their node
    died. makespan: until the last part was complete. busy: seconds that nodes asked, of all that there were. ideal: the
    makespan of the same nodes without any failure, start and end. copies: the folders that zombies have kept."""

    wanted: int = 0
    sent: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    makespan: float = 0.0
    busy: float = 0.0
    ideal: float = 0.0
    nodes: int = 0
    copies: list[Path] = field(default_factory=list)

    @property
    def repeated(self) -> float:
        """The share of requests that were sent again, over all."""
        return (self.sent - self.wanted) / self.wanted

    @property
    def idle(self) -> float:
        """The share of the nodes' time until the end in which they did not ask."""
        return 1 - self.busy / (self.nodes * self.makespan)

    def lines(self) -> Iterator[str]:
        """The report in sentences."""
        yield f"{self.wanted:,} requests on {self.nodes} nodes; ends of nodes: {dict(sorted(self.ends.items()))}"
        yield f"sent again: {self.repeated:.2%}; rows lost with a disk that was not written: {self.lost}"
        yield f"time: {self.makespan:,.0f} s, {self.makespan / self.ideal:.2f} times the ideal; idle: {self.idle:.0%}"


class Server:
    """The transport to a node's server. told: counts what is sent; factor: how many times as long as usual it takes."""

    def __init__(self, cluster: Cluster, told: Report, drawn: random.Random, factor: float, failed: set[bytes]) -> None:
        self._cluster, self._told, self._drawn, self._factor, self._failed = cluster, told, drawn, factor, failed

    async def send(self, endpoint: str, body: bytes) -> Reply:
        self._told.sent += 1
        await asyncio.sleep(self._cluster.answer * self._factor * self._drawn.uniform(0.5, 1.5))
        if body not in self._failed and self._drawn.random() < self._cluster.failing:
            self._failed.add(body)
            self._told.sent -= 1  # it is sent again because of the server, not because of a node
            return Reply("http_500", error="out of order")
        return read_reply(200, orjson.dumps(batches.answer(orjson.loads(body))))

    async def alive(self, endpoint: str) -> bool:
        return True

    async def metrics(self, endpoint: str) -> bytes | None:
        return None

    async def close(self) -> None:
        pass


@contextlib.contextmanager
def opened(options: EvalOptions, path: Path) -> Iterator[tuple[Evaluation, Journal]]:
    """A run folder that is opened as `tomserve eval` opens it, but for the server."""
    made = planning.plan(options)
    with RunFolder(path) as folder, Journal(path / "responses.jsonl") as journal:
        evaluation = resumed(made, folder, journal, Silent(), Stop(), 0.0)
        evaluation.target.endpoints = ["http://node/v1"]
        session = evaluation.session = Session.begun(evaluation.target, {}, asked=True, limit=None)
        evaluation.manifest.add_session(session, {})
        evaluation.save()
        yield evaluation, journal


@dataclass
class _Part:
    """A part that waits to be asked. number: of it. at: its folder."""

    number: int
    at: Path


class Simulation:
    """Asks all parts in a folder on a cluster.

    folder: of the parts. scratch: where zombies keep their copies. Afterwards `report` tells what happened.
    """

    def __init__(self, folder: Path, cluster: Cluster, scratch: Path) -> None:
        self.folder, self.cluster, self.scratch = folder, cluster, scratch
        self.shards = Shards.read(folder)
        self.report = Report(sum(part.requests for part in self.shards.parts), nodes=cluster.nodes)
        self._drawn = random.Random(cluster.seed)
        self._queue = deque(_Part(number, part_folder(folder, number)) for number in range(len(self.shards.parts)))
        self._left = len(self._queue)
        self._failed: set[bytes] = set()
        self._haunted = set(self._drawn.sample(range(cluster.nodes), cluster.zombies))
        self._zombies: list[asyncio.Task[None]] = []

    def run(self) -> Report:
        """Ask until every part is complete."""
        random.seed(self.cluster.seed)  # by which the engine draws its waits
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(self._run())
        return self.report

    async def _run(self) -> None:
        factors = [3.0 if self._drawn.random() < self.cluster.slow else 1.0 for _ in range(self.cluster.nodes)]
        work = self.report.wanted * self.cluster.answer / self.cluster.concurrency
        self.report.ideal = work / sum(1 / factor for factor in factors)
        async with asyncio.TaskGroup() as group:
            for number, factor in enumerate(factors):
                group.create_task(self._node(number, factor))
        await asyncio.gather(*self._zombies)

    async def _node(self, number: int, factor: float) -> None:
        """A node: it starts, asks parts until it is lost, and comes back, until no part is left."""
        clock = asyncio.get_running_loop().time
        drawn, cluster = random.Random(f"{self.cluster.seed}/{number}"), self.cluster
        while self._left:
            await asyncio.sleep(cluster.start * drawn.uniform(0.5, 1.5))
            ends = {
                "died": clock() + drawn.expovariate(1 / cluster.between),
                "preempted": clock() + drawn.expovariate(1 / cluster.preempted),
                "time limit": clock() + cluster.limit,
            }
            how = min(ends, key=lambda name: ends[name])
            while self._left and clock() < ends[how]:
                if not self._queue:
                    await asyncio.sleep(min(5.0, ends[how] - clock()))
                    continue
                part = self._queue.popleft()
                if number in self._haunted:
                    self._haunted.discard(number)
                    self._zombies.append(asyncio.create_task(self._haunt(part, factor, drawn)))
                    self.report.ends["taken for dead"] += 1
                    self._queue.append(part)
                    break
                began = clock()
                complete = await self._ask(part, factor, drawn, ends[how], how)
                self.report.busy += clock() - began
                if complete:
                    self._left -= 1
                    self.report.makespan = clock()
                else:
                    self._queue.append(part)
            if self._left and clock() >= ends[how]:
                self.report.ends[how] += 1
                await asyncio.sleep(cluster.back * drawn.uniform(0.5, 1.5))

    async def _haunt(self, part: _Part, factor: float, drawn: random.Random) -> None:
        """A node that goes on with a copy of its part, which somebody else asks, too, and dies at some time."""
        copy = self.scratch / f"zombie-{part.number:04}"
        shutil.copytree(part.at, copy)
        self.report.copies.append(copy)
        until = asyncio.get_running_loop().time() + self.cluster.answer * 2
        await self._ask(_Part(part.number, copy), factor, drawn, until, "died")

    async def _ask(self, part: _Part, factor: float, drawn: random.Random, until: float, how: str) -> bool:
        """Ask a part until it is complete, or the node ends. Returns whether it is complete."""
        loop = asyncio.get_running_loop()
        options = options_of(self.folder, self.shards, part.number, Connection())
        written = [0]
        with opened(options, part.at) as (evaluation, journal):
            stop = asyncio.Event()
            server = Server(self.cluster, self.report, drawn, factor, self._failed)
            runner = self._runner(server, journal, stop)
            questions, talks = evaluation.plan.questions, Talks(evaluation.request)
            asking = asyncio.create_task(
                runner.run(questions.requests(talks, lambda question: not finished(journal, question)))
            )
            syncing = asyncio.create_task(self._sync(journal, written))
            await asyncio.wait([asking], timeout=max(0.0, until - loop.time()))
            if not asking.done() and how != "died":  # told, as by SIGTERM
                stop.set()
                await asyncio.wait([asking])
            ended, size = asking.done(), journal.size
            for task in (asking, syncing):
                task.cancel()
            results = await asyncio.gather(asking, syncing, return_exceptions=True)
            if ended:
                if isinstance(results[0], BaseException):
                    raise results[0]
                evaluation.save()
                return bool(results[0])
        self._tear(part.at / "responses.jsonl", written[-1], size, drawn)
        return False

    def _runner(self, server: Server, journal: Journal, stop: asyncio.Event) -> Runner:
        return VirtualRunner(
            ["http://node/v1"],
            server,
            journal,
            concurrency=self.cluster.concurrency,
            stop=stop,
            clock=asyncio.get_running_loop().time,
        )

    async def _sync(self, journal: Journal, written: list[int]) -> None:
        """Note how much of the journal is on the disk for certain, as often as the engine sees to that."""
        while True:
            written[:] = [journal.size]
            await asyncio.sleep(SYNC)

    def _tear(self, path: Path, synced: int, size: int, drawn: random.Random) -> None:
        """Cut off a journal somewhere in what was not yet on the disk when its node died."""
        cut = drawn.randint(synced, size)
        whole = path.read_bytes()
        self.report.lost += whole[:size].count(b"\n") - whole[:cut].count(b"\n")
        os.truncate(path, cut)


def items(count: int) -> list[Item]:
    """Questions in stories of four."""
    return [make_item(number, cluster=f"demo/{number // 4}") for number in range(count)]


def divided(folder: Path, questions: int, parts: int) -> Shards:
    """Divide so many questions into parts, by the real planner."""
    options = EvalOptions(items=Stock(items(questions)), strategies=("vanilla",), model="reference")
    return divide(options, folder, parts=parts, listener=Silent())


def unsplit(folder: Path, questions: int) -> None:
    """The same questions as one run, asked by the same engine of a node that never fails."""

    async def go() -> None:
        options = EvalOptions(items=Stock(items(questions)), strategies=("vanilla",), model="reference")
        with opened(options, folder) as (evaluation, journal):
            server = Server(Cluster(failing=0.0), Report(), random.Random(0), 1.0, set())
            runner = Runner(["http://node/v1"], server, journal, concurrency=64, clock=asyncio.get_running_loop().time)
            await runner.run(evaluation.plan.questions.requests(Talks(evaluation.request)))
            evaluation.save()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(go())


def merged(simulation: Simulation, into: Path) -> Merged:
    """Merge all parts, and what zombies have kept."""
    return merge([simulation.folder, *simulation.report.copies], into)
