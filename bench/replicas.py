"""Measures whether throughput adds up over replicas: two servers under one runner against each of them alone.

    python bench/replicas.py [--seconds 10] [--settle 4] [--rounds 5]      # two simulated servers of 48 slots
    python bench/replicas.py --slow                                        # one with 16 slots, one with 48
    python bench/replicas.py --vllm                                        # two vLLM CPU servers, a core each

A run asks, for --seconds after --settle seconds of start-up that do not count, the dataset over and over (32 stories at
a time, vanilla and cot, in the order of an evaluation; every time and run begins its stories otherwise, so that none
finds the last one's prefixes) with adaptive concurrency, or --concurrency for each server. A round runs four things,
every second round backwards: server A alone, server B alone, one runner over both, and two runners at the same time,
one for each server and with half of the stories each ("apart": what this machine gives with both busy, whoever divides
the requests). Each run is a process of its own.

Printed are the rates, both / (A + B), both / apart, B's share of the requests, the share of prompt tokens that came
from the prefix cache (two caches that each see half of the stories should have what one has) beside what a perfect
cache would have had (the engine's estimate), and the client's CPU. On two cores a client takes its time from the
servers: with A's rate r on a core of its own and c seconds of client a request, two servers can give no more than
2 / (1 + c * r) times one, which is printed as the most. Aim: both / (A + B) at least 0.9 (1.8 times one of two equal
servers), or with --vllm at least 0.9 of that most. On a machine that is busy with other things the two lose and the
one does not: look at "apart", at the rounds, and run it again when it is quiet.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _figures import need, spread_figure

from tomserve.benchmarks import get
from tomserve.engine import transports
from tomserve.engine.httptools_transport import HttptoolsTransport
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.engine.runner import Runner, RunStatus, SilentObserver
from tomserve.errors import TomserveError
from tomserve.prompting.strategy import Strategy
from tomserve.runs.journal import Journal
from tomserve.serving import checkpoint
from tomserve.serving.command import vllm_command
from tomserve.serving.presets import Preset
from tomserve.serving.probe import is_healthy
from tomserve.serving.server import Server, free_port, wait_healthy
from tomserve.status import ANSWERS

AIM = 0.9
A, B, BOTH, APART = "A alone", "B alone", "both", "apart"
STRATEGIES = ("vanilla", "cot")
SLICE = 32
"""Stories asked about with both strategies before the next ones: every run, however fast, sees the same mixture."""

SIMULATED = {"base": 0.006, "slope": 0.00002}  # throughput nearly in proportion to what runs
TOKENS = ("prompt", "cached", "shareable")
Run = dict[str, Any]


class Watch(SilentObserver):
    """Records when each answer came and from which server, and keeps the newest status of the run."""

    def __init__(self) -> None:
        self.answers: list[tuple[float, str]] = []
        self.failed: Counter[str] = Counter()
        self.now = RunStatus()

    def row(self, row: dict[str, Any]) -> None:
        """Note an answer when its row is written, as Observer says."""
        if row["status"] in ANSWERS and not row["reused"]:
            self.answers.append((time.monotonic(), row["endpoint"]))
        else:
            self.failed["reused" if row["reused"] else row["status"]] += 1

    def status(self, status: RunStatus) -> None:
        """Keep the newest status, as Observer says."""
        self.now = status


def requests(model: str, tag: str, max_tokens: int, part: int, parts: int) -> Iterator[Request]:
    """Requests over the repeated dataset, without end: SLICE stories at a time, each slice in an evaluation's order.

    The stories are divided into `parts`, of which those of number `part` are asked. `tag` makes the prompts of a run
    differ from those of any other.
    """
    items = list(get("perturbed").items())
    stories = sorted({item.story for item in items})
    strategies = [Strategy.load(name, max_tokens=max_tokens) for name in STRATEGIES]
    sampling = Sampling()
    for number in itertools.count():
        start = number * SLICE % len(stories) + part * SLICE // parts
        chosen = set(stories[start : start + SLICE // parts])
        base = [item for item in items if item.story in chosen]
        for strategy in strategies:
            for item in sorted(base, key=strategy.order):
                story = (f"Story {tag}-{number}.", *item.story)
                changed = item.model_copy(update={"id": f"{number}/{item.id}", "story": story, "gold": None})
                turn, identity = strategy.turn(changed), Identity(changed.id, strategy.name, 0)
                yield Request.build(identity, turn, model=model, revision=None, sampling=sampling)


async def ask(job: dict[str, Any], urls: list[str], part: int, parts: int, scratch: Path) -> Run:
    """Ask the servers by one runner; returns the figures of the job's `seconds` that follow its `settle` seconds."""
    watch, stop, transport = Watch(), asyncio.Event(), HttptoolsTransport()
    asked = requests(job["model"], job["tag"], job["max_tokens"], part, parts)
    asked = itertools.chain([next(asked)], asked)  # the dataset is read before the clock starts
    fixed = job["concurrency"] and job["concurrency"] * len(urls)
    problem = None
    with Journal(scratch / f"responses-{part}.jsonl") as journal:
        runner = Runner(urls, transport, journal, concurrency=fixed or None, observer=watch, stop=stop, drain=0.2)
        loop, began = asyncio.get_running_loop(), time.monotonic()
        edges = (began + job["settle"], began + job["settle"] + job["seconds"])
        used: list[float] = []
        loop.call_later(job["settle"], lambda: used.append(time.process_time()))
        loop.call_later(job["settle"] + job["seconds"], lambda: used.append(time.process_time()))
        loop.call_later(job["settle"] + job["seconds"], stop.set)
        try:
            await runner.run(asked)
        except TomserveError as error:
            problem = str(error)
    await transport.close()
    return {
        "served": dict(Counter(url for at, url in watch.answers if edges[0] <= at < edges[1])),
        "prefix": runner.prefix.to_dict(),
        "cpu": used[-1] - used[0] if len(used) == 2 else 0.0,
        "limit": watch.now.limit,
        "failed": dict(watch.failed),
        "problem": problem,
    }


async def client(job: dict[str, Any]) -> Run:
    """Run one setting of a round: a runner for each list of URLs, all at the same time."""
    groups = job["groups"]
    with tempfile.TemporaryDirectory() as scratch:
        each = (ask(job, urls, part, len(groups), Path(scratch)) for part, urls in enumerate(groups))
        found = await asyncio.gather(*each)
    served: Counter[str] = Counter()
    for run in found:
        served.update(run["served"])
    if any(run["problem"] or run["failed"] for run in found) or not served:
        raise SystemExit(f"not all were answered: {found}")
    prompt, cached, shareable = (sum(run["prefix"].get(name, 0) for run in found) for name in TOKENS)
    return {
        "rate": served.total() / job["seconds"],
        "served": dict(served),
        "cached": cached / max(prompt, 1),
        "shareable": shareable / max(prompt, 1),
        "cpu": found[0]["cpu"] / served.total(),  # of the process, so of all runners
        "limit": sum(run["limit"] for run in found),
    }


def run(name: str, urls: list[str], model: str, chosen: argparse.Namespace) -> Run:
    """Run one of the four settings of a round in a process of its own."""
    groups = {A: [urls[:1]], B: [urls[1:]], BOTH: [urls], APART: [urls[:1], urls[1:]]}[name]
    job = {name: getattr(chosen, name) for name in ("seconds", "settle", "concurrency")}
    max_tokens = chosen.max_tokens if chosen.vllm else 0
    job |= {"groups": groups, "model": model, "tag": str(time.time_ns() % 10**9), "max_tokens": max_tokens}
    command = [sys.executable, __file__, "--one", json.dumps(job)]
    limit = chosen.settle + chosen.seconds + 60
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    if done.returncode:
        gone = [url for url in urls if not is_healthy(url.removesuffix("/v1"), 2.0)]
        raise SystemExit(f"{name}: exit code {done.returncode}, servers gone: {gone}\n{done.stderr[-3000:]}")
    time.sleep(1)  # what was dropped at the end is still being aborted
    found: Run = json.loads(done.stdout.splitlines()[-1])
    found["share"] = found["served"].get(urls[1], 0) / sum(found["served"].values())
    return found


@contextlib.contextmanager
def simulated_servers(slots: list[int]) -> Iterator[list[str]]:
    """Start a simulated server with each number of slots, until the block ends; yields their URLs."""
    with contextlib.ExitStack() as stack:
        urls = []
        for number in slots:
            command = [sys.executable, str(Path(__file__).with_name("_simulated.py")), "--with-parent"]
            command += [f"--{name}={value}" for name, value in {**SIMULATED, "slots": number}.items()]
            server = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            stack.callback(server.terminate)
            assert server.stdout is not None
            urls.append(server.stdout.readline().strip())
        yield urls


@contextlib.contextmanager
def vllm_servers(cores: list[int], preset: Preset) -> Iterator[list[str]]:
    """Serve the reference preset by one vLLM on each of the cores, until the block ends; yields their URLs."""
    folder = checkpoint.reference_folder()
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as scratch:
        servers = []
        for core in cores:
            port = free_port()
            command = vllm_command(preset, str(folder), port=port)
            bound = {**command.env, "VLLM_CPU_OMP_THREADS_BIND": str(core)}
            command = dataclasses.replace(command, argv=["taskset", "-c", str(core), *command.argv], env=bound)
            log = Path(scratch) / f"server-{core}.log"
            servers.append(stack.enter_context(Server(command, host="127.0.0.1", port=port, log=log)))
        for server in servers:
            wait_healthy([server], lambda _: None)
        yield [server.url for server in servers]


def spread(values: list[float], digits: int) -> str:
    """Text for the median of the values, with the lowest and the highest in brackets."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def show(found: dict[str, list[Run]], on_cores: bool) -> bool:
    """Print the table; returns whether the aim is met. on_cores: each server has a core, and the client uses both."""
    shape = "  {:8s} {:28s} {:>8s} {:24s} {:>9s} {:>7s} {:>14s}"
    print(shape.format("run", "requests/s", "B's", "cached", "estimate", "limit", "client ms each"))
    for name, runs in found.items():
        middle = {key: statistics.median(run[key] for run in runs) for key in ("share", "shareable", "limit", "cpu")}
        print(
            shape.format(
                name,
                spread([run["rate"] for run in runs], 1),
                f"{middle['share']:.1%}",
                spread([100 * run["cached"] for run in runs], 1) + " %",
                f"{middle['shareable']:.1%}",
                f"{middle['limit']:.0f}",
                f"{1000 * middle['cpu']:.3f}",
            )
        )
    rates = {name: [run["rate"] for run in runs] for name, runs in found.items()}
    adds = [both / (a + b) for both, a, b in zip(rates[BOTH], rates[A], rates[B], strict=True)]
    apart = [both / other for both, other in zip(rates[BOTH], rates[APART], strict=True)]
    machine = [other / (a + b) for other, a, b in zip(rates[APART], rates[A], rates[B], strict=True)]
    print(f"  both / (A + B) {spread(adds, 3)}; apart / (A + B) {spread(machine, 3)}; both / apart {spread(apart, 3)}")
    middle = statistics.median(adds)
    if on_cores:
        alone = statistics.median(rates[A])
        most = 2 / (1 + statistics.median(run["cpu"] for run in found[BOTH]) * alone)
        print(f"  two are {2 * middle:.2f} times one; with this client two full cores give at most {most:.2f}")
        middle = max(middle, 2 * middle / most)
    spread_figure("both / (A + B)", adds, at_least=None if on_cores else AIM)
    if on_cores:
        spread_figure("both / (A + B), of what two cores can give", [2 * one / most for one in adds], at_least=AIM)
    for name in (A, BOTH):
        spread_figure(f"cached, {name}", [run["cached"] for run in found[name]])
    met = "met" if statistics.median(adds) >= AIM else "met of what two cores can give" if middle >= AIM else "missed"
    each = " ".join(f"{ratio:.3f}" for ratio in adds)
    print(f"  both / (A + B) by round: {each}")
    print(f"  aim of {AIM} {met}", flush=True)
    return met != "missed"


def main() -> int:
    """Start two servers, run all rounds and print the table; returns 1 where the aim is missed, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--settle", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--concurrency", type=int, default=0, help="for each server; 0: adaptive")
    parser.add_argument("--slow", action="store_true", help="simulated servers of 16 and 48 slots")
    parser.add_argument("--vllm", action="store_true")
    parser.add_argument("--max-tokens", type=int, default=32, help="at most, with --vllm")
    parser.add_argument("--one", metavar="JOB", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(transports.run_loop(client(json.loads(chosen.one)))))
        return 0
    if chosen.vllm and chosen.slow:
        parser.error("--slow is for simulated servers")
    if chosen.vllm:
        need("vllm")
    preset = Preset.load("reference")
    model = preset.name if chosen.vllm else "tiny"
    if chosen.vllm:
        cores = sorted(os.sched_getaffinity(0))[:2]
        if len(cores) < 2:
            parser.error("--vllm needs two cores")
        servers = vllm_servers(cores, preset)
        title = f"vLLM on core {cores[0]} (A) and on core {cores[1]} (B)"
    else:
        slots = [16 if chosen.slow else 48, 48]
        servers, title = simulated_servers(slots), f"simulated servers of {slots[0]} (A) and {slots[1]} slots (B)"
    with servers as urls:
        found: dict[str, list[Run]] = {name: [] for name in (A, B, BOTH, APART)}
        for number in range(-int(chosen.vllm), chosen.rounds):  # round -1 warms the servers up
            for name in list(found) if number % 2 == 0 else reversed(list(found)):
                figures = run(name, urls, model, chosen)
                if number >= 0:
                    found[name].append(figures)
    how = f"{chosen.concurrency} in flight each" if chosen.concurrency else "adaptive"
    print(f"{title}, {how}, {chosen.rounds} rounds of {chosen.seconds:g} s after {chosen.settle:g} s")
    return 0 if show(found, on_cores=chosen.vllm) else 1


if __name__ == "__main__":
    sys.exit(main())
