"""Kills runs at 100 random moments each, resumes them each time, and counts what is lost and what is asked twice.

    python bench/kill.py [--rounds 100] [--kinds one-turn two-turns fan-out]

A real HTTP server (in this process) answers with 50 ms delay and counts what it is asked; `tomserve eval` runs as a
process of its own and is killed (SIGKILL) at a random moment between its first request and its end. There is a run of
each kind: two strategies of a single turn, one of two turns, and one whose program asks once, then five at the same
time, then once more. Exits with 1 unless every identity ends with one final row, every conversation with one row that
closes it, no completed row was ever lost, and at most the requests in flight were asked again.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from aiohttp import web

sys.path.insert(0, str(Path(__file__).parents[1]))

from _figures import figure

from tests.conftest import Endpoint, make_item
from tests.helpers.talking import FAN_OUT, write_strategy
from tomserve.items import write_items
from tomserve.runs.journal import read_rows

CONCURRENCY = 16
KINDS = {"one-turn": 2, "two-turns": 2, "fan-out": 7}
"""The kinds of runs, each with its requests a question."""

Identity = tuple[str, str, int]


def start() -> Endpoint:
    """Run an endpoint that answers after 50 ms, in a thread of this process."""
    endpoint, loop = Endpoint(delay=0.05), asyncio.new_event_loop()
    runner = web.AppRunner(endpoint.app())

    async def serve() -> None:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        endpoint.port = runner.addresses[0][1]

    loop.run_until_complete(serve())
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return endpoint


def strategies(kind: str, folder: Path) -> list[str]:
    """The options that name the strategies of a run of that kind; their folders are written into `folder`."""
    if kind == "one-turn":
        return []
    program, turns = (FAN_OUT, 3) if kind == "fan-out" else (None, 2)
    return ["--strategy", str(write_strategy(folder / kind, turns, program))]


def identities(journal: Path) -> list[Identity]:
    """What each row of a journal answers."""
    return [(row["item"], row["strategy"], row["turn"]) for _, row in read_rows(journal)] if journal.exists() else []


def kill(command: list[str], endpoint: Endpoint, moments: random.Random) -> bool:
    """Run the command and kill it at a random moment after its first request; returns whether it was still running."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        before = len(endpoint.requests)
        while len(endpoint.requests) == before and process.poll() is None:
            time.sleep(0.001)
        time.sleep(moments.random() * 0.1)
        running = process.poll() is None
        process.kill()
    return running


def measure(kind: str, rounds: int, folder: Path) -> bool:
    """Kill and resume one run so many times, then count what was lost or asked twice; returns whether all is well."""
    endpoint, moments = start(), random.Random(0)
    items = max(1, rounds * 60 // KINDS[kind])
    write_items(folder / "items.jsonl", [make_item(n) for n in range(items)])
    command = [sys.executable, "-m", "tomserve", "eval", "--benchmark", "items", "--quiet", "--no-report"]
    command += ["--run", str(folder / "r/"), "--path", str(folder / "items.jsonl"), "--base-url", endpoint.url]
    command += ["--concurrency", str(CONCURRENCY), *strategies(kind, folder)]
    journal = folder / "r/responses.jsonl"
    kept: set[Identity] = set()
    lost = killed = 0
    for number in range(rounds):
        killed += kill(command, endpoint, moments)
        now = set(identities(journal))
        lost += len(kept - now)
        kept = now
        if sys.stderr.isatty():
            print(f"\r{kind}: {number + 1}/{rounds} rounds, {len(kept)} rows", end="", file=sys.stderr)
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode
    counts, wanted = Counter(identities(journal)), KINDS[kind] * items
    closed = Counter((row["item"], row["strategy"]) for _, row in read_rows(journal) if "closes" in row)
    conversations = 0 if kind == "one-turn" else items
    twice = len(endpoint.requests) - wanted
    double = sum(count > 1 for count in (*counts.values(), *closed.values()))
    print(
        f"{kind}: {killed} kills in {rounds} rounds: {len(counts)} of {wanted} identities final, {len(closed)} of "
        f"{conversations} conversations closed, {lost} rows lost, {double} twice, {twice} requests asked again "
        f"(at most {killed * CONCURRENCY})"
    )
    for what, number in (("rows lost", lost), ("rows twice", double)):
        figure(f"{kind}, {what}", number, at_most=0, rounds=rounds)
    figure(f"{kind}, asked again", twice, at_most=killed * CONCURRENCY, rounds=rounds)
    whole = done == 0 and len(counts) == wanted and len(closed) == conversations and not lost and not double
    return whole and 0 <= twice <= killed * CONCURRENCY


def main() -> int:
    """Measure each kind of run; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    chosen = parser.parse_args()
    good = True
    for kind in chosen.kinds:
        with tempfile.TemporaryDirectory() as scratch:
            good &= measure(kind, chosen.rounds, Path(scratch))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
