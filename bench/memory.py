"""Measures how the engine's peak memory grows with the number of requests, in a fresh run and in a resumed one.

    python bench/memory.py [--counts 200000] [--rounds 5] [--in-flight 64] [--http]
    python bench/memory.py --counts 200000 1000000 --rounds 1

A lazy generator of unique, tiny requests goes through the real Runner and Journal. The transport answers within the
process, at once; with --http it is the real one, and nginx answers (Debian package nginx-light, see bench/client.py).
Each run is a process of its own, the peak is its VmHWM (ru_maxrss would begin with what its parent had). A round runs
10,000 requests and then each of --counts, fresh, and then on the journal that this left (resuming: every row is read
again, every request made again, none asked). Bytes a key are (peak of N - peak of 10,000 of the same round and kind) /
(N - 10,000). Medians over rounds, with lowest and highest. Aim: at most 40, fresh and resuming.

Not measured is what an evaluation itself holds: the items and what it keeps for each of them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _figures import spread_figure

from tomserve.engine import transports
from tomserve.engine.httptools_transport import HttptoolsTransport
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.engine.runner import Runner
from tomserve.engine.transport import Reply, Transport
from tomserve.prompting.conversation import Turn
from tomserve.runs.journal import Journal

AIM = 40
FLOOR = 10_000
NOWHERE = "http://nowhere.invalid/v1"
KINDS = ("fresh", "resuming")
Found = dict[str, float]


class Instant:
    """A transport that answers every request at once, within this process."""

    async def send(self, endpoint: str, body: bytes) -> Reply:
        """Answer the request at once."""
        await asyncio.sleep(0)
        usage = {"prompt": 350, "completion": 9}
        return Reply(
            "ok", '{"answer":"tea"}', finish_reason="stop", usage=usage, model="tiny", timings={"total_s": 0.1}
        )

    async def alive(self, endpoint: str) -> bool:
        """Say that the server is alive, always."""
        return True

    async def metrics(self, endpoint: str) -> bytes | None:
        """Say that there are no metrics."""
        return None

    async def close(self) -> None:
        """Close nothing, since nothing was opened."""


def requests(count: int) -> Iterator[Request]:
    """So many different requests, each made only when it is asked for."""
    sampling = Sampling()
    for number in range(count):
        turn = Turn(({"role": "user", "content": f"{number}: where is the cup?"},), {"type": "object"}, 16)
        identity = Identity(f"C1/none/false_belief/reality/{number}", "vanilla", 0)
        yield Request.build(identity, turn, model="tiny", revision=None, sampling=sampling)


def peak() -> int:
    """The peak memory of this process since it began, in bytes."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


async def fill(path: Path, count: int, url: str, in_flight: int | None) -> Found:
    """Run the requests in this process; returns how many rows that added, the peak memory and the seconds."""
    transport: Transport = Instant() if url == NOWHERE else HttptoolsTransport()
    began = time.perf_counter()
    with Journal(path) as journal:
        before = len(journal.final)
        opened = time.perf_counter() - began
        finished = await Runner([url], transport, journal, concurrency=in_flight).run(requests(count))
        added = len(journal.final) - before
    await transport.close()
    if not finished or before + added != count:
        raise SystemExit(f"{before} + {added} requests were completed where {count} were to be")
    return {"added": added, "peak": peak(), "seconds": time.perf_counter() - began, "opened": opened}


def child(path: Path, count: int, url: str, in_flight: int) -> Found:
    """Do what `fill` does, in a process of its own."""
    command = [sys.executable, __file__, "--child", str(path), str(count), url, "--in-flight", str(in_flight)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise SystemExit(f"{count} requests: exit code {done.returncode}\n{done.stderr[-3000:]}")
    found: Found = json.loads(done.stdout)
    return found


def round_of(counts: list[int], url: str, in_flight: int) -> dict[tuple[str, int], Found]:
    """Measure every number of requests once, fresh and resuming."""
    found = {}
    for count in (FLOOR, *counts):
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "responses.jsonl"
            for kind, wanted in zip(KINDS, (count, 0), strict=True):
                found[kind, count] = run = child(path, count, url, in_flight)
                if run["added"] != wanted:
                    raise SystemExit(f"{kind}: {run['added']:.0f} rows were added where {wanted} were to be")
            run["bytes"] = os.path.getsize(path)
    return found


def spread(values: list[float], digits: int) -> str:
    """Text for the median of the values, with the lowest and the highest in brackets."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def show(rounds: list[dict[tuple[str, int], Found]], counts: list[int]) -> bool:
    """Print the table; returns whether the aim is met."""
    met = True
    print(f"  {'requests':>9s} {'kind':8s} {'peak MB':28s} {'bytes a key':22s} {'ms a request':24s} {'s to open':>9s}")
    for kind in KINDS:
        for count in (FLOOR, *counts):
            runs = [found[kind, count] for found in rounds]
            each = "-"
            if count > FLOOR:
                grown = [
                    (found[kind, count]["peak"] - found[kind, FLOOR]["peak"]) / (count - FLOOR) for found in rounds
                ]
                each, met = spread(grown, 1), met and statistics.median(grown) <= AIM
                spread_figure(f"{kind}, {count:,} requests, a key", grown, unit="bytes", at_most=AIM)
            print(
                f"  {count:9d} {kind:8s} {spread([run['peak'] / 2**20 for run in runs], 1):28s} {each:22s} "
                f"{spread([1000 * (run['seconds'] - run['opened']) / count for run in runs], 4):24s} "
                f"{statistics.median(run['opened'] for run in runs):9.2f}"
            )
    sizes = ", ".join(f"{rounds[0]['resuming', count]['bytes'] / 2**20:.0f} MB" for count in counts)
    print(f"  journals of {sizes}; aim of {AIM} bytes a key {'met' if met else 'missed'}", flush=True)
    return met


def main() -> int:
    """Run all rounds and print the table; returns 1 where the aim is missed, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=int, nargs="+", default=[200_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--in-flight", type=int, default=64, help="0: adaptive")
    parser.add_argument("--http", action="store_true", help="ask nginx")
    parser.add_argument("--child", nargs=3, metavar=("JOURNAL", "COUNT", "URL"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        path, count, url = chosen.child
        print(json.dumps(transports.run_loop(fill(Path(path), int(count), url, chosen.in_flight or None))))
        return 0
    if min(chosen.counts) <= FLOOR:
        parser.error(f"--counts must be above {FLOOR}")
    with contextlib.ExitStack() as stack:
        url = NOWHERE
        if chosen.http:
            sys.path.insert(0, str(Path(__file__).parent))
            from client import nginx

            url = stack.enter_context(nginx())
        rounds: list[dict[tuple[str, int], Any]] = []
        for _ in range(chosen.rounds):
            rounds.append(round_of(chosen.counts, url, chosen.in_flight))
        how = f"{chosen.in_flight} in flight" if chosen.in_flight else "adaptive"
        print(f"{'nginx' if chosen.http else 'a transport without HTTP'}, {how}, {chosen.rounds} rounds")
        return 0 if show(rounds, chosen.counts) else 1


if __name__ == "__main__":
    sys.exit(main())
