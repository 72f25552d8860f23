"""A workbench's queue with a real worker: experiments, databases, and conditions that are waited for."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.conftest import Endpoint, make_item
from tomserve.api.experiments import Experiment
from tomserve.content.places import runs_root
from tomserve.items import write_items
from tomserve.runs.journal import read_rows
from tomserve.web import cards
from tomserve.web.cards import Job
from tomserve.web.queue import Queue
from tomserve.web.register import Register
from tomserve.web.settings import Settings

LONG = 120.0
"""Seconds after which a test gives up to wait; a machine that is busy is no failure."""


def until(found: Callable[[], Any], what: str = "") -> Any:
    """What a function returns, once that is true."""
    end = time.monotonic() + LONG
    while not (value := found()):
        assert time.monotonic() < end, f"waited in vain{f' for {what}' if what else ''}"
        time.sleep(0.02)
    return value


def queue_of(settings: Settings) -> Queue:
    return Queue(Register(settings.folder), settings)


def items(count: int) -> Path:
    """Questions within the folder of runs, where experiments of a workbench may read them."""
    folder = runs_root() / "given"
    folder.mkdir(parents=True, exist_ok=True)
    cards.write(folder, cards.Card())  # what is no run is seen by nobody
    path = folder / f"{count}.jsonl"
    if not path.exists():
        write_items(path, [make_item(number) for number in range(count)])
    return path


def experiment(endpoint: Endpoint | str, count: int = 6, **fields: Any) -> Experiment:
    """One that asks a few questions at an endpoint, one after the other."""
    url = endpoint if isinstance(endpoint, str) else endpoint.url
    given: dict[str, Any] = {
        "strategy": ("vanilla",),
        "concurrency": 1,
        "benchmark": "items",
        "path": str(items(count)),
    }
    return Experiment(base_url=(url,), **{**given, **fields})


def job(name: str) -> Job:
    found = cards.read(runs_root() / name).job
    assert found is not None
    return found


def state(name: str) -> str:
    return job(name).state.value


def reaches(name: str, *states: str) -> Job:
    """The place of an experiment in the queue, once it is in one of these states."""
    until(lambda: state(name) in states, f"{name} to be {' or '.join(states)}, not {job(name)}")
    return job(name)


def asked(name: str) -> list[tuple[Any, ...]]:
    """What the rows of a run's journal are about, each as often as it stands there."""
    path = runs_root() / name / "responses.jsonl"
    found = [row for _, row in read_rows(path)] if path.exists() else []
    return sorted((row["item"], row["strategy"], row.get("turn", 0), row.get("sample", 0)) for row in found)


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """A Redis that keeps nothing on the disk; yields its address. The test is skipped where there is none."""
    program = shutil.which("redis-server")
    if program is None:
        if os.environ.get("NEED_REDIS"):
            pytest.fail("redis-server is missing, and NEED_REDIS is set")
        pytest.skip("needs redis-server")
    port = free_port()
    process = subprocess.Popen(
        [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(folder)],
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        client = redis.Redis(port=port)

        def answers() -> bool:
            with contextlib.suppress(redis.RedisError):
                return bool(client.ping())
            return False

        until(answers, "Redis")
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait()


def processes(of: str) -> list[int]:
    """The processes of this test whose command line holds a text, by their ids."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            environment = (path.parent / "environ").read_bytes().split(b"\0")
            line = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if of in line and f"TOMSERVE_RUNS={runs_root()}".encode() in environment:
                found.append(int(path.parent.name))
    return found


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
