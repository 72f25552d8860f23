"""Nothing is lost, nothing asked twice: kill -9 at random moments, a server that dies, a power cut, a full disk."""

import functools
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import orjson
import pytest
from aiohttp import web

from tests.conftest import Endpoint, make_item
from tests.helpers.asking import request
from tomserve.engine.retry import RetryPolicy
from tomserve.items import write_items
from tomserve.runs import planning
from tomserve.runs.journal import Journal, read_rows

ITEMS = 40
EVAL = [
    sys.executable,
    "-m",
    "tomserve",
    "eval",
    "--benchmark",
    "items",
    "--run",
    "r",
    "--concurrency",
    "4",
    "--no-report",
]


@pytest.fixture
def job(tmp_path: Path) -> list[str]:
    """The command, but for the endpoint: 40 items, two strategies."""
    write_items(tmp_path / "items.jsonl", [make_item(n) for n in range(ITEMS)])
    return [*EVAL, "--path", str(tmp_path / "items.jsonl")]


def asking(endpoint: Endpoint, tmp_path: Path) -> tuple[object, ...]:
    """The same for a command in this process."""
    return (*EVAL[3:-3], "--path", tmp_path / "items.jsonl", "--base-url", endpoint.url)


def rows(tmp_path: Path) -> list[dict]:
    return [row for _, row in read_rows(tmp_path / "runs/r/responses.jsonl")]


def final(tmp_path: Path) -> dict[tuple[str, str], int]:
    """How often each identity has a final row."""
    return Counter((row["item"], row["strategy"]) for row in rows(tmp_path) if row["status"] == "ok")


def test_kill_9_at_random_moments(endpoint: Endpoint, job: list[str], tmp_path: Path) -> None:
    """bench/kill.py does this a hundred times."""
    endpoint.delay = 0.02
    moments = random.Random(7)
    kept: set[tuple[str, str]] = set()
    for _ in range(5):
        with subprocess.Popen([*job, "--base-url", endpoint.url], stdout=-3, stderr=-3) as process:
            seen = len(endpoint.requests) + moments.randrange(12)
            deadline = time.monotonic() + 30
            while len(endpoint.requests) < seen and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.002)
            time.sleep(moments.random() * 0.05)
            process.kill()
        if (tmp_path / "runs/r/responses.jsonl").exists():
            now = set(final(tmp_path))
            assert now >= kept, "a completed row was lost"
            kept = now
    assert subprocess.run([*job, "--base-url", endpoint.url, "--quiet"], check=False, stdout=-3).returncode == 0
    counts = final(tmp_path)
    assert len(counts) == 2 * ITEMS
    assert set(counts.values()) == {1}
    assert len(endpoint.requests) <= 2 * ITEMS + 5 * 4, "at most what was in flight is asked again"


SERVER = """
import asyncio, sys
from aiohttp import web
from tests.conftest import Endpoint
endpoint = Endpoint(delay=0.02)
web.run_app(endpoint.app(), host="127.0.0.1", port=int(sys.argv[1]), print=None, reuse_address=True)
"""


def serve(port: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(port)])
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process
        time.sleep(0.02)
    raise AssertionError("the server did not start")


def test_a_server_killed_in_mid_run_and_started_again_costs_nothing(job: list[str], tmp_path: Path) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    server = serve(port)
    url = f"http://127.0.0.1:{port}/v1"
    with subprocess.Popen([*job, "--base-url", url], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 30
        while not ((path := tmp_path / "runs/r/responses.jsonl").exists() and path.stat().st_size > 5_000):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        server.kill()
        server.wait()
        time.sleep(1)
        server = serve(port)
        out, err = process.communicate(timeout=60)
    server.kill()
    server.wait()
    assert process.returncode == 0, (out, err)
    assert len(final(tmp_path)) == 2 * ITEMS
    assert {row["status"] for row in rows(tmp_path)} == {"ok"}


def test_a_server_that_stays_away_ends_the_run_resumably(
    endpoint: Endpoint, cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_items(tmp_path / "items.jsonl", [make_item(n) for n in range(ITEMS)])
    impatient = functools.partial(planning.EvalOptions, policy=RetryPolicy(lost_after=0.5))
    monkeypatch.setattr(planning, "EvalOptions", impatient)
    command = asking(endpoint, tmp_path)
    endpoint.drop = lambda body: len(endpoint.requests) > 20
    endpoint.script = lambda body, n: web.Response(status=503) if len(endpoint.requests) > 20 else None
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


def test_a_power_cut_loses_only_what_was_not_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk keeps what fsync promised, and any part of the rest; the journal opens and knows the promised rows."""
    durable = {"size": 0}
    real = os.fsync

    def fsync(fd: int) -> None:
        real(fd)
        durable["size"] = os.fstat(fd).st_size

    monkeypatch.setattr(os, "fsync", fsync)
    cut = random.Random(3)
    for attempt in range(20):
        path = tmp_path / f"{attempt}.jsonl"
        durable["size"] = promised = 0
        with Journal(path) as journal:
            for number in range(30):
                journal.append({"item": f"i{number}", "strategy": "s", "turn": 0, "key": str(number), "status": "ok"})
                if cut.random() < 0.2:
                    journal.sync()
                    promised = number + 1
            before_cut = path.read_bytes()
            keep = cut.randrange(durable["size"], len(before_cut) + 1)
        path.write_bytes(before_cut[:keep])
        with Journal(path) as journal:
            assert len(journal.final) >= promised
            journal.append({"item": "new", "strategy": "s", "turn": 0, "key": "new", "status": "ok"})
        assert len(list(read_rows(path))) >= promised + 1


def test_a_disk_that_fills_ends_the_run_resumably(endpoint: Endpoint, cli, tmp_path: Path, monkeypatch) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small tmpfs here: {mounted.stderr.decode().strip()}")
    try:
        write_items(tmp_path / "items.jsonl", [make_item(n) for n in range(200)])
        monkeypatch.setenv("TOMSERVE_RUNS", str(disk))
        command = asking(endpoint, tmp_path)
        (disk / "ballast").write_bytes(b"x" * 100_000)
        full = cli(*command)
        assert full.code == 3, full.err
        assert "No space left on device" in full.err or "disk full" in full.err
        assert full.err.count("\n") == 1
        kept = sum(1 for _ in read_rows(disk / "r/responses.jsonl"))
        assert kept > 10
        asked = len(endpoint.requests)
        (disk / "ballast").unlink()
        again = cli(*command)
        assert again.code in (0, 3), again.err
        assert sum(1 for _ in read_rows(disk / "r/responses.jsonl")) > kept
        asked_again = {orjson.dumps(body["messages"]) for body in endpoint.requests[asked:] if body["max_tokens"] > 1}
        assert len(asked_again) <= 400 - kept  # a slow answer may have been asked for twice at the same time
    finally:
        subprocess.run(["umount", "-l", disk], check=False)


def test_a_second_interrupt_ends_at_once(endpoint: Endpoint, job: list[str], tmp_path: Path) -> None:
    endpoint.delay = 20
    with subprocess.Popen([*job, "--base-url", endpoint.url], stdout=-3, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 30
        while len(endpoint.requests) < 4 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None, "the first drains"
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert time.monotonic() - began < 10
    assert process.returncode == 130
    assert "repeat the command" in err


def test_a_lock_of_a_dead_process_is_taken_over(endpoint: Endpoint, job: list[str], cli, tmp_path: Path) -> None:
    endpoint.delay = 5
    with subprocess.Popen([*job, "--base-url", endpoint.url], stdout=-3, stderr=-3) as process:
        deadline = time.monotonic() + 30
        while not endpoint.requests and time.monotonic() < deadline:
            time.sleep(0.02)
        locked = cli(*job[3:], "--base-url", endpoint.url)
        assert (locked.code, f"pid {process.pid}" in locked.err) == (2, True), locked.err
        process.kill()
    endpoint.delay = 0
    assert cli(*job[3:], "--base-url", endpoint.url).code == 0


def test_keys_are_in_no_file_and_no_process_list(
    endpoint: Endpoint, job: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-very-secret-4711"
    endpoint.key = secret
    endpoint.delay = 0.05
    monkeypatch.setenv("TOMSERVE_API_KEY", secret)
    with subprocess.Popen(
        [*job, "--base-url", endpoint.url], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        while not endpoint.requests and process.poll() is None:
            time.sleep(0.02)
        listed = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, check=True).stdout
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert secret.encode() not in listed + out
    for path in (tmp_path / "runs").rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path


def test_an_item_id_cannot_leave_the_run_folder(endpoint: Endpoint, cli, tmp_path: Path) -> None:
    write_items(tmp_path / "items.jsonl", [make_item(1, id="../../../escape"), make_item(2, id="/etc/escape")])
    command = asking(endpoint, tmp_path)
    assert cli(*command).code == 0
    assert cli("analyze", "r", "--out", tmp_path / "out").code == 0
    assert not list(tmp_path.rglob("*escape*"))
    assert {orjson.loads(line)["item"] for line in (tmp_path / "runs/r/responses.jsonl").read_bytes().splitlines()} == {
        "../../../escape",
        "/etc/escape",
    }


def test_equal_requests_have_equal_keys() -> None:
    """What makes resuming and reuse possible at all."""
    assert request(1).key == request(1).key != request(2).key
