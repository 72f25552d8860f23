"""Compares adaptive concurrency with the best fixed limit, on a simulated server whose capacity changes or a real one.

    python bench/adaptive.py [--scenarios plain thrash ...] [--fixed 1 2 4 ...] [--rounds 5] [--seconds 10]
    python bench/adaptive.py --vllm                          # vLLM on the CPU with the reference model
    python bench/adaptive.py --scenarios less --trace        # the adaptive limit over time instead of a table
    python bench/adaptive.py --stand-in 64                   # 64 in place of the adaptive limit: shows the noise

A run asks unique prompts of the dataset for a number of phases of --seconds each and counts the answers that come
within them, start-up ramp included; what is in flight at the end is dropped. Every setting sees the same server with
the same schedule, whose clock starts with the first request. First a sweep over --fixed, then --rounds rounds of the
best of them and of the adaptive runner, with and without /metrics, interleaved, every second round backwards. Ratios
are to the best fixed run of the same round. Each client, and the server, is a process of its own. Aim: a median of at
least 0.9. Rates are answers only: refused attempts are asked again by the runner, items are lost when it gives up.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import _simulated as simulated
from _asking import client
from _figures import need, spread_figure

from tomserve.engine.runner import Runner
from tomserve.status import ANSWERS

AIM = 0.9
FIXED = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Scenario:
    """A server: its `settings` (see bench/_batcher.py) and what changes when a phase begins; vLLM has none.

    tokens: whether rates are in tokens, because the requests of the phases differ in size.
    """

    about: str
    settings: dict[str, Any] = field(default_factory=dict)
    changes: tuple[dict[str, Any], ...] = ()
    tokens: bool = False

    def edges(self) -> set[int]:
        """The fixed limits that somebody who knew the server would try: those at which its behaviour changes."""
        every = [{"slots": simulated.Settings.slots} | self.settings, *self.changes] if self.settings else []
        found = {state[name] for state in every for name in ("slots", "knee", "bound") if name in state}
        return {value for value in found if value <= 128}

    def body(self, seconds: float, metrics: bool) -> dict[str, Any]:
        """The request body that sets the simulated server up for one run of so many seconds."""
        schedule = [[seconds * number, changes] for number, changes in enumerate(self.changes, 1)]
        whole = dataclasses.asdict(simulated.Settings(**self.settings, metrics=metrics))
        return {**whole, "schedule": schedule, "reset": True}


FLAT = {"base": 0.006, "slope": 0.00002}  # throughput nearly in proportion to what runs: room is all that counts
SCENARIOS = {
    "plain": Scenario("room for 48, the rest waits", {"slots": 48}),
    "thrash": Scenario("room for 256, beyond 32 the total falls", {"slots": 256, "knee": 32}),
    "thrash-low": Scenario("room for 256, beyond 10 the total falls", {"slots": 256, "knee": 10}),
    "thrash-high": Scenario("room for 512, beyond 100 the total falls", {"slots": 512, "knee": 100}),
    "more": Scenario("room for 16, then 64", {"slots": 16, **FLAT}, ({"slots": 64},)),
    "less": Scenario("room for 64, then 16", {"slots": 64, **FLAT}, ({"slots": 16},)),
    "knee-more": Scenario("falls beyond 16, then beyond 64", {"slots": 256, "knee": 16, **FLAT}, ({"knee": 64},)),
    "knee-less": Scenario("falls beyond 64, then beyond 16", {"slots": 256, "knee": 64, **FLAT}, ({"knee": 16},)),
    "rate": Scenario("429 above 100 requests/s, no Retry-After", {"rate": 100.0}),
    "rate-after": Scenario("429 above 100 requests/s, Retry-After: 1", {"rate": 100.0, "retry_after": 1.0}),
    "flaky": Scenario("room for 48, 30% of all requests get 429 at random", {"flaky": 0.3}),
    "flaky-after": Scenario("the same, with Retry-After: 1", {"flaky": 0.3, "retry_after": 1.0}),
    "bound": Scenario("room for 32, 503 above 40 in all", {"slots": 32, "bound": 40}),
    "shift": Scenario("room for 48, then requests of 10 times the size", {"work": 20.0}, ({"work": 200.0},), True),
}


def post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    """Send a body to the simulated server, which changes it, and return the report that it answers."""
    with urllib.request.urlopen(f"{url.removesuffix('/v1')}/simulate", json.dumps(body).encode(), timeout=10) as reply:
        return dict(json.loads(reply.read()))


@dataclass
class Bench:
    """Runs clients against the server at `url`; `simulated` tells whether the bench can change its behaviour."""

    url: str
    model: str
    chosen: argparse.Namespace
    simulated: bool = True
    number: int = 0

    def run(self, scenario: Scenario, limit: int | None, metrics: bool = True) -> dict[str, Any]:
        """Run one client process; returns its figures, among them the `rate` and the `rates` of the phases."""
        self.number += 1
        phases = len(scenario.changes) + 1
        job = {"url": self.url, "model": self.model, "strategy": self.chosen.strategy, "limit": limit, "phases": phases}
        job |= {"seconds": self.chosen.seconds, "tag": f"{time.time_ns() % 10**9}{self.number}"}
        if not self.simulated:
            time.sleep(1)  # what the last run dropped is still being aborted
        else:
            post(self.url, scenario.body(self.chosen.seconds, metrics))
        command = [sys.executable, __file__, "--one", json.dumps(job)]
        limit_s = phases * self.chosen.seconds + 60
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_s)
        if done.returncode:
            raise SystemExit(f"the client failed (exit code {done.returncode})\n{done.stderr[-3000:]}")
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        if self.simulated:
            found["server"] = post(self.url, {})
            busy = found["server"]["cpu"] / max(found["server"]["seconds"], 0.1)
            if max(busy, found["cpu"]) > 0.8:
                print(f"  careful: server {busy:.0%}, client {found['cpu']:.0%} of a core: they are the limit here")
        if found["lag"] > 0.1:
            print(f"  careful: the client stood still for {found['lag']:.1f} s (a busy machine?)")
        if found["problem"]:
            print(f"  careful: with {limit or 'adaptive'} the run ended early: {found['problem'][:200]}")
        column = int(scenario.tokens)
        found["rates"] = [phase[column] / self.chosen.seconds for phase in found["phases"]]
        found["rate"] = statistics.mean(found["rates"])
        found["refused"] = sum(n for status, n in found["statuses"].items() if status not in ANSWERS)
        return found

    def sweep(self, scenario: Scenario) -> int:
        """Run every fixed limit, print its figures, and return the limit with the best rate."""
        settings = sorted({*self.chosen.fixed, *scenario.edges()})
        runs: dict[int, list[dict[str, Any]]] = {limit: [] for limit in settings}
        for _ in range(self.chosen.sweeps):
            for limit, found in runs.items():
                found.append(self.run(scenario, limit))
        rates = {limit: statistics.median(run["rate"] for run in found) for limit, found in runs.items()}
        row("fixed", list(rates))
        row("tokens/s" if scenario.tokens else "requests/s", [f"{rate:.1f}" for rate in rates.values()])
        for number in range(len(scenario.changes) + 1 if scenario.changes else 0):
            phase = (statistics.median(run["rates"][number] for run in found) for found in runs.values())
            row(f"  phase {number + 1}", [f"{rate:.1f}" for rate in phase])
        for name in ("refused", "lost"):
            if any(counts := [sum(run[name] for run in found) for found in runs.values()]):
                row(name, counts)
        return max(rates, key=lambda limit: rates[limit])

    def rounds(self, scenario: Scenario, best: int, modes: dict[str, bool]) -> None:
        """Run the best fixed limit and the adaptive runner in turn; `modes` maps labels to whether /metrics is read."""
        plan: dict[str, tuple[int | None, bool]] = {f"fixed at {best}": (best, True)}
        plan |= {f"adaptive, {label}": (self.chosen.stand_in, metrics) for label, metrics in modes.items()}
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in plan}
        for number in range(self.chosen.rounds):
            for name in plan if number % 2 == 0 else reversed(plan):
                runs[name].append(self.run(scenario, *plan[name]))
        floor, *others = runs
        rates = spread([run["rate"] for run in runs[floor]], 1)
        print(f"  {floor:27s} {rates:24s} {extras(runs[floor])}")
        for name in others:
            pairs = list(zip(runs[name], runs[floor], strict=True))
            ratios = [ours["rate"] / max(theirs["rate"], 1e-9) for ours, theirs in pairs]
            spread_figure(f"{scenario.about}; {name}"[:60], ratios, at_least=AIM)
            met = "met" if statistics.median(ratios) >= AIM else "MISSED"
            rates = spread([run["rate"] for run in runs[name]], 1)
            print(f"  {name:27s} {rates:24s} {extras(runs[name])}")
            text = f"    ratio {spread(ratios, 3)}, {met}"
            if scenario.changes:
                phases = (
                    statistics.median(ours["rates"][at] / max(theirs["rates"][at], 1e-9) for ours, theirs in pairs)
                    for at in range(len(scenario.changes) + 1)
                )
                text += "; by phase " + ", ".join(f"{ratio:.2f}" for ratio in phases)
            print(text, flush=True)

    def trace(self, scenario: Scenario, modes: dict[str, bool]) -> None:
        """Print the adaptive limit over time, for one run in each mode."""
        for label, metrics in modes.items():
            found = self.run(scenario, self.chosen.stand_in, metrics)
            print(f"  {label}: {found['rate']:.1f}, by phase {', '.join(f'{rate:.1f}' for rate in found['rates'])}")
            print(f"  {'s':>6s} {'limit':>6s} {'out':>5s} {'queue':>6s} {'answers/s':>9s} {'refused':>7s}")
            for at, limit, out, queue, rate, refused in found["trace"]:
                print(f"  {at:6.1f} {shown(limit):>6s} {out:5d} {shown(queue):>6s} {rate:9.1f} {refused:7d}")


def shown(value: int | None) -> str:
    """Text for a figure that may be unknown, which is then a question mark."""
    return "?" if value is None else str(value)


def row(label: str, values: list[Any]) -> None:
    """Print one row of the sweep's table."""
    print(f"  {label:12s}" + "".join(f"{value!s:>9s}" for value in values), flush=True)


def spread(values: list[float], digits: int) -> str:
    """Text for the median of the values, with the lowest and the highest in brackets."""
    low, middle, high = (f"{value:.{digits}f}" for value in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low} to {high})"


def extras(runs: list[dict[str, Any]]) -> str:
    """Text for the other figures: medians over the runs, and how many requests were refused or lost in all of them."""
    limits = [run["limit"] for run in runs if run["limit"] is not None]
    text = f"limit at the end {statistics.median(limits):.0f}, " if limits else ""
    text += f"peak {statistics.median(run['peak'] for run in runs):.0f} out"
    text += f", client {statistics.median(run['cpu'] for run in runs):.0%} of a core"
    for name, what in (("refused", "refused attempts"), ("lost", "items lost")):
        if total := sum(run[name] for run in runs):
            text += f", {total} {what}"
    return text


@contextlib.contextmanager
def simulation() -> Iterator[str]:
    """Run a simulated server in a process of its own until the block ends; yields its URL."""
    command = [sys.executable, simulated.__file__, "--port", "0", "--with-parent"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def on_vllm(chosen: argparse.Namespace, adaptive: bool) -> None:
    """Run the bench against vLLM with figures in its /metrics, then without; only one sweep unless `adaptive`."""
    from _vllm import vllm

    scenario, best = Scenario("vLLM on the CPU, reference model"), 0
    for label, metrics, extra in (("with /metrics", True, ()), ("no /metrics", False, ("--disable-log-stats",))):
        print(f"vllm: {scenario.about}, {label}", flush=True)
        with vllm(*extra) as (url, model):
            bench = Bench(url, model, chosen, simulated=False)
            bench.run(scenario, 16)  # the first requests compile grammars and kernels
            if chosen.trace:
                bench.trace(scenario, {label: metrics})
                continue
            best = chosen.best or best or bench.sweep(scenario)
            if not adaptive:
                return
            bench.rounds(scenario, best, {label: metrics})


def main() -> None:
    """Run the chosen scenarios and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", nargs="+", choices=list(SCENARIOS), default=list(SCENARIOS), metavar="NAME")
    parser.add_argument("--vllm", action="store_true", help="a real server instead of the scenarios")
    parser.add_argument("--fixed", type=int, nargs="+", default=list(FIXED), metavar="N")
    parser.add_argument("--best", type=int, help="no sweep: this is the best fixed setting")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sweeps", type=int, default=1, help="runs of every fixed setting in the sweep (%(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a phase (%(default)s)")
    parser.add_argument("--strategy", default="vanilla")
    parser.add_argument("--trace", action="store_true", help="print the adaptive limit over time, nothing else")
    parser.add_argument("--stand-in", type=int, metavar="N", help="a fixed setting in the place of the adaptive one")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers end with us
    if chosen.one:
        with tempfile.TemporaryDirectory() as scratch:
            print(json.dumps(asyncio.run(client(json.loads(chosen.one), Path(scratch)))))
        return
    adaptive = chosen.stand_in is not None or "None" in str(Runner.__dataclass_fields__["concurrency"].type)
    if not adaptive:
        print("Runner(concurrency=None) does not exist here: fixed settings only")
    if chosen.vllm:
        need("vllm")
        on_vllm(chosen, adaptive)
        return
    modes = {"with /metrics": True, "no /metrics": False}
    with simulation() as url:
        bench = Bench(url, simulated.MODEL, chosen)
        for name in chosen.scenarios:
            scenario = SCENARIOS[name]
            print(f"{name}: {scenario.about}", flush=True)
            if chosen.trace:
                bench.trace(scenario, modes)
                continue
            best = chosen.best or bench.sweep(scenario)
            if adaptive:
                bench.rounds(scenario, best, modes)


if __name__ == "__main__":
    main()
