"""Nothing is lost, nothing asked twice: kill -9 at random moments, a server that dies, a power cut, a full disk."""

import functools
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from aiohttp import web

from tests.conftest import Endpoint, make_item
from tests.helpers.outcomes import refuses
from tests.helpers.talking import conversing
from tomserve.engine.retry import RetryPolicy
from tomserve.items import write_items
from tomserve.runs import planning
from tomserve.runs.journal import read_rows

ITEMS = 20


def asking(endpoint: Endpoint, tmp_path: Path, count: int = ITEMS) -> tuple[object, ...]:
    """The command about so many items and two strategies, for a command in this process."""
    write_items(tmp_path / "items.jsonl", [make_item(n) for n in range(count)])
    where = ("--benchmark", "items", "--path", tmp_path / "items.jsonl", "--base-url", endpoint.url)
    return ("eval", *where, "--run", "r", "--concurrency", 4)


def final(tmp_path: Path) -> Counter[tuple[str, str, int]]:
    """How often each turn of each conversation has a final row."""
    return Counter((row["item"], row["strategy"], row["turn"]) for row in rows(tmp_path) if row["status"] == "ok")


def rows(tmp_path: Path) -> list[dict]:
    return [row for _, row in read_rows(tmp_path / "runs/r/responses.jsonl")]


@pytest.mark.system
def test_kill_9_at_random_moments(endpoint: Endpoint, tmp_path: Path, cli) -> None:
    """Of questions, and of conversations between their turns; bench/kill.py does this a hundred times."""
    conversing(tmp_path, items := 8)
    strategies = [part for name in ("vanilla", tmp_path / "two", tmp_path / "fan") for part in ("--strategy", name)]
    where = ("--benchmark", "items", "--path", tmp_path / "items.jsonl", "--base-url", endpoint.url)
    job = [*map(str, ("eval", *where, "--run", "r", "--concurrency", 4, *strategies))]
    command = [sys.executable, "-m", "tomserve", *job, "--no-report"]
    endpoint.delay, moments, kept = 0.01, random.Random(7), set[tuple[str, str, int]]()
    for number in range(4):
        endpoint.hold = lambda body, first=not number: first
        with subprocess.Popen(command, stdout=-3, stderr=-3) as process:
            seen = len(endpoint.requests) + 1 + moments.randrange(12) * (number > 0)
            while len(endpoint.requests) < seen and process.poll() is None:
                time.sleep(0.002)
            if not number:
                refuses(cli(*job), f"pid {process.pid}")
            time.sleep(moments.random() * 0.05)
            process.kill()
        if (tmp_path / "runs/r/responses.jsonl").exists():
            now = set(final(tmp_path))
            assert now >= kept, "a completed row was lost"
            kept = now
    endpoint.hold = lambda body: False
    assert subprocess.run(command, check=False, stdout=-3).returncode == 0, "and the lock of the dead is taken over"
    counts = final(tmp_path)
    assert (len(counts), set(counts.values())) == (items * (1 + 2 + 7), {1})
    closed = Counter((row["item"], row["strategy"]) for row in rows(tmp_path) if "closes" in row)
    assert closed == {(f"demo/{number}", name): 1 for number in range(items) for name in ("two", "fan")}
    assert len(endpoint.requests) <= items * 10 + 4 * 4, "at most what was in flight is asked again"


@pytest.mark.system
def test_a_server_that_stays_away_ends_the_run_resumably(
    endpoint: Endpoint, cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = functools.partial(planning.EvalOptions, policy=RetryPolicy(lost_after=0.5))
    monkeypatch.setattr(planning, "EvalOptions", impatient)
    command = asking(endpoint, tmp_path)
    endpoint.drop = lambda body: len(endpoint.requests) > 12
    endpoint.script = lambda body, n: web.Response(status=503) if len(endpoint.requests) > 12 else None
    done = cli(*command)
    assert done.code == 3, done.err
    assert "server lost (no answer for" in done.err
    assert "left to ask" in done.err
    kept = set(final(tmp_path))
    assert kept
    endpoint.drop = lambda body: False
    endpoint.script = lambda body, n: None
    assert cli(*command).code in (0, 1)
    assert len(final(tmp_path)) == 2 * ITEMS
    assert set(final(tmp_path)) >= kept
