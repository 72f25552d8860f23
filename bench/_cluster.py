"""A cluster whose nodes fail, in virtual time: the real planner, run folders, journals, engine and merger, on simulated
nodes. bench/nodes.py runs a hundred of them.

Every node starts a server, takes the next part from a queue, asks it by the real engine, and goes on. Meanwhile nodes

- die: what was written since the journal was last forced to the disk is lost, but for some bytes of it;
- are preempted, or come to the end of their time limit: they are told, and have half a minute for what is in flight;
- are slow, or a zombie: taken for dead, its part is given to another node, and it goes on with a copy on its own disk.

A part whose node is gone goes back to the queue, as `--requeue` does, and the node comes back later. Replies follow
from the requests alone, so that whatever is asked twice is answered alike.
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
from tomserve.distributed.merge import MergeResult, merge
from tomserve.distributed.planning import divide
from tomserve.distributed.shards import Shards, part_folder
from tomserve.distributed.worker import Connection, part_options
from tomserve.engine.replies import read_reply
from tomserve.engine.runner import Runner
from tomserve.engine.transport import Reply
from tomserve.runs import planning
from tomserve.runs.conversations import Conversations, is_finished
from tomserve.runs.evaluation import Evaluation, resume_evaluation
from tomserve.runs.item_store import ItemStore
from tomserve.runs.journal import Journal
from tomserve.runs.manifest import Session
from tomserve.runs.planning import EvalOptions
from tomserve.runs.progress import Listener, Stop
from tomserve.runs.runfolder import RunFolder

NODE = "http://node/v1"
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
    """What happened. sent: requests, but for those that the server itself failed; wanted: all different ones. ends: how
    often nodes ended in which way. lost: rows that were on no disk when their node died. makespan: until the last part
    was complete; ideal: the same without any failure, start and end. busy: seconds that nodes asked. copies: the
    folders that zombies have kept."""

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
    """The transport to a node's server. factor: how many times as long as usual it takes. failed: bodies that it has
    failed once."""

    def __init__(self, simulation: Simulation, drawn: random.Random, factor: float) -> None:
        self._simulation, self._drawn, self._factor = simulation, drawn, factor

    async def send(self, endpoint: str, body: bytes) -> Reply:
        cluster, report, failed = self._simulation.cluster, self._simulation.report, self._simulation.failed
        report.sent += 1
        await asyncio.sleep(cluster.answer * self._factor * self._drawn.uniform(0.5, 1.5))
        if body not in failed and self._drawn.random() < cluster.failing:
            failed.add(body)
            report.sent -= 1  # it is sent again because of the server, not because of a node
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
    made = planning.make_plan(options)
    with RunFolder(path) as folder, Journal(path / "responses.jsonl") as journal:
        evaluation = resume_evaluation(made, folder, journal, Listener(), Stop(), 0.0)
        evaluation.target.endpoints = [NODE]
        session = evaluation.session = Session.begin(evaluation.target, {}, asked=True, limit=None)
        evaluation.manifest.add_session(session, {})
        evaluation.save()
        yield evaluation, journal


Part = tuple[int, Path]
"""A part that waits to be asked: its number, and where it lies."""


class Simulation:
    """Asks all parts in a folder on a cluster.

    folder: of the parts. scratch: where zombies keep their copies. Afterwards `report` tells what happened.
    """

    def __init__(self, folder: Path, cluster: Cluster, scratch: Path) -> None:
        self.folder, self.cluster, self.scratch = folder, cluster, scratch
        self.shards = Shards.read(folder)
        self.report = Report(sum(part.requests for part in self.shards.parts), nodes=cluster.nodes)
        self.failed: set[bytes] = set()
        self._drawn = random.Random(cluster.seed)
        self._queue = deque((number, part_folder(folder, number)) for number in range(len(self.shards.parts)))
        self._left = len(self._queue)
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
        clock, cluster = asyncio.get_running_loop().time, self.cluster
        drawn = random.Random(f"{cluster.seed}/{number}")
        while self._left:
            await asyncio.sleep(cluster.start * drawn.uniform(0.5, 1.5))
            died, preempted = (drawn.expovariate(1 / mean) for mean in (cluster.between, cluster.preempted))
            how, end = min(
                (("died", clock() + died), ("preempted", clock() + preempted), ("time limit", clock() + cluster.limit)),
                key=lambda one: one[1],
            )
            while self._left and clock() < end:
                if not self._queue:
                    await asyncio.sleep(min(5.0, end - clock()))
                    continue
                part = self._queue.popleft()
                if number in self._haunted:
                    self._haunted.discard(number)
                    self._zombies.append(asyncio.create_task(self._haunt(part, factor, drawn)))
                    self.report.ends["taken for dead"] += 1
                    self._queue.append(part)
                    break
                began = clock()
                complete = await self._ask(part, Server(self, drawn, factor), drawn, end, how)
                self.report.busy += clock() - began
                if complete:
                    self._left -= 1
                    self.report.makespan = clock()
                else:
                    self._queue.append(part)
            if self._left and clock() >= end:
                self.report.ends[how] += 1
                await asyncio.sleep(cluster.back * drawn.uniform(0.5, 1.5))

    async def _haunt(self, part: Part, factor: float, drawn: random.Random) -> None:
        """A node that goes on with a copy of its part, which somebody else asks, too, and dies at some time."""
        copy = self.scratch / f"zombie-{part[0]:04}"
        shutil.copytree(part[1], copy)
        self.report.copies.append(copy)
        until = asyncio.get_running_loop().time() + self.cluster.answer * 2
        await self._ask((part[0], copy), Server(self, drawn, factor), drawn, until, "died")

    async def _ask(self, part: Part, server: Server, drawn: random.Random, until: float, how: str) -> bool:
        """Ask a part until it is complete, or the node ends. Returns whether it is complete."""
        clock, stop = asyncio.get_running_loop().time, asyncio.Event()
        options, written = part_options(self.folder, self.shards, part[0], Connection()), [0]
        with opened(options, part[1]) as (evaluation, journal):
            most = self.cluster.concurrency
            runner = VirtualRunner([NODE], server, journal, concurrency=most, stop=stop, clock=clock)
            requests = evaluation.plan.questions.requests(
                Conversations(evaluation.request), lambda question: not is_finished(journal, question)
            )
            asking = asyncio.create_task(runner.run(requests))
            syncing = asyncio.create_task(self._sync(journal, written))
            await asyncio.wait([asking], timeout=max(0.0, until - clock()))
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
        self._tear(part[1] / "responses.jsonl", drawn.randint(written[-1], size), size)
        return False

    async def _sync(self, journal: Journal, written: list[int]) -> None:
        """Note how much of the journal is on the disk for certain, as often as the engine sees to that."""
        while True:
            written[:] = [journal.size]
            await asyncio.sleep(SYNC)

    def _tear(self, path: Path, cut: int, size: int) -> None:
        """Cut off a journal in what was not yet on the disk when its node died."""
        self.report.lost += path.read_bytes()[cut:size].count(b"\n")
        os.truncate(path, cut)


def evaluation_of(questions: int) -> EvalOptions:
    """So many questions, in stories of four."""
    items = ItemStore(make_item(number, cluster=f"demo/{number // 4}") for number in range(questions))
    return EvalOptions(items=items, strategies=("vanilla",), model="reference")


def divided(folder: Path, questions: int, parts: int) -> Shards:
    """Divide so many questions into parts, by the real planner."""
    return divide(evaluation_of(questions), folder, parts=parts, listener=Listener())


class Answering(Server):
    """A server that answers at once and never fails."""

    def __init__(self) -> None:
        pass

    async def send(self, endpoint: str, body: bytes) -> Reply:
        return read_reply(200, orjson.dumps(batches.answer(orjson.loads(body))))


def unsplit(folder: Path, questions: int) -> None:
    """The same questions as one run, asked by the same engine of a node that never fails."""
    with opened(evaluation_of(questions), folder) as (evaluation, journal):
        runner = Runner([NODE], Answering(), journal, concurrency=64)
        asyncio.run(runner.run(evaluation.plan.questions.requests(Conversations(evaluation.request))))
        evaluation.save()


def merged(simulation: Simulation, into: Path) -> MergeResult:
    """Merge all parts, and what zombies have kept."""
    return merge([simulation.folder, *simulation.report.copies], into)
