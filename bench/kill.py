"""Kills one run at 100 random moments, resumes it each time, and counts what is lost and what is asked twice.

    python bench/kill.py [--rounds 100]

A real HTTP server (in this process) answers with 50 ms delay; `tomserve eval` runs as a process of its
own and is killed at a random moment between its first request and its end. Exits with 1 unless every identity ends with
one final row, no completed row was ever lost, and at most the requests in flight were asked again.
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
from pathlib import Path

from aiohttp import web

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.conftest import Endpoint, make_item
from tomserve.items import write_items
from tomserve.runs.journal import read_rows

CONCURRENCY = 16


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


def main() -> int:
    """Kill and resume one run so many times, then count what was lost or asked twice; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    rounds = parser.parse_args().rounds
    endpoint, moments = start(), random.Random(0)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        items = rounds * 30
        write_items(folder / "items.jsonl", [make_item(n) for n in range(items)])
        command = [
            sys.executable,
            "-m",
            "tomserve",
            "eval",
            "--benchmark",
            "items",
            "--quiet",
            "--run",
            str(folder / "r/"),
        ]
        command += [
            "--path",
            str(folder / "items.jsonl"),
            "--base-url",
            endpoint.url,
            "--concurrency",
            str(CONCURRENCY),
        ]
        journal = folder / "r/responses.jsonl"
        kept: set[tuple[str, str]] = set()
        lost = killed = 0
        for number in range(rounds):
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                before = len(endpoint.requests)
                while len(endpoint.requests) == before and process.poll() is None:
                    time.sleep(0.001)
                time.sleep(moments.random() * 0.1)
                killed += process.poll() is None
                process.kill()
            now = {(row["item"], row["strategy"]) for _, row in read_rows(journal)} if journal.exists() else set()
            lost += len(kept - now)
            kept = now
            if sys.stderr.isatty():
                print(f"\r{number + 1}/{rounds} rounds, {len(kept)} rows", end="", file=sys.stderr)
        done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode
        counts: dict[tuple[str, str], int] = {}
        for _, row in read_rows(journal):
            key = (row["item"], row["strategy"])
            counts[key] = counts.get(key, 0) + 1
        twice = len(endpoint.requests) - 2 * items
        good = done == 0 and len(counts) == 2 * items and set(counts.values()) == {1} and not lost
        good = good and 0 <= twice <= killed * CONCURRENCY
    double = sum(count > 1 for count in counts.values())
    print(
        f"{killed} kills in {rounds} rounds: {len(counts)} of {2 * items} identities final, {lost} rows lost, "
        f"{double} twice, {twice} requests asked again (at most {killed * CONCURRENCY})"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
