"""`tomserve web` as a process: it starts, says where, lets in, and ends cleanly."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import orjson
import pytest

from tests.conftest import ROOT
from tests.helpers.command import TOMSERVE, environment
from tomserve.web.client import Workbench

PATIENCE = 120.0
Start = Callable[..., "Running"]


class Running:
    """A `tomserve web` that runs. address: the one that it printed."""

    def __init__(self, runs: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*TOMSERVE, "web", "--port", "0", *arguments],
            env=environment(runs),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.address = ""

    def ready(self) -> Running:
        assert self.process.stdout is not None
        until = time.monotonic() + PATIENCE
        while not select.select([self.process.stdout], [], [], 1)[0]:
            assert time.monotonic() < until, "it says nothing"
        line = self.process.stdout.readline()
        found = re.match(r"workbench: (\S+)$", line)
        assert found, (line, self.process.stderr and self.process.stderr.read())
        self.address = found[1]
        return self

    @property
    def base(self) -> str:
        return self.address.split("/?")[0].rstrip("/")

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a workbench of a folder; what still runs when the test ends is killed."""
    begun: list[Running] = []

    def starting(*arguments: str, runs: Path = tmp_path / "runs") -> Running:
        begun.append(Running(runs, *arguments))
        return begun[-1]

    yield starting
    for one in begun:
        if one.process.poll() is None:
            one.process.kill()
        one.process.communicate()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_it_lets_in_whoever_has_the_address_and_ends_by_a_signal(
    start: Start, tmp_path: Path, number: int, code: int
) -> None:
    running = start().ready()
    assert httpx.get(f"{running.base}/api/v1/health").json() == {"status": "ok"}
    assert httpx.get(running.base).status_code == 401
    with httpx.Client(follow_redirects=True) as person:
        assert person.get(f"{running.base}/nothing?{running.address.split('?')[1]}").status_code == 404
        answer = person.get(f"{running.base}/static/workbench.css")
    assert answer.status_code == 200
    assert "server" not in answer.headers
    token = running.address.split("token=")[1]
    for kept in ("token", "lock"):
        assert (tmp_path / "runs/.web" / kept).stat().st_mode & 0o077 == 0 or kept == "lock"
    ended, out, err = running.end(number)
    assert ended == code
    assert err == f"tomserve: stopped by {signal.Signals(number).name}; repeat the command to go on\n"
    assert token not in out + err  # it was told once, in the first line
    assert start().ready().address.split("token=")[1] == token


def test_one_folder_has_one_workbench(start: Start, tmp_path: Path) -> None:
    first = start().ready()
    second = start()
    out, err = second.process.communicate(timeout=PATIENCE)
    assert second.process.returncode == 2
    assert f"pid {first.process.pid}" in err
    assert first.base in err
    assert "token" not in err + out
    first.process.kill()
    first.process.communicate()
    assert start().ready().address  # the lock ends with its process, however that ends


def test_a_port_in_use_says_whose_it_is(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        late = start("--port", str(port))
        _, err = late.process.communicate(timeout=PATIENCE)
    assert late.process.returncode == 2
    assert f"127.0.0.1:{port}: cannot listen" in err
    assert f"pid {os.getpid()}" in err
    assert "--port" in err


def test_it_ends_while_somebody_is_still_connected(start: Start) -> None:
    running = start().ready()
    host, port = running.base.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as idle:
        idle.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")  # and nothing more
        assert running.end()[0] == 143


def test_what_is_computed_beside_ends_with_it_and_leaves_nothing(start: Start, tmp_path: Path) -> None:
    running, cache = start().ready(), tmp_path / "runs/.web/cache"
    head = {"Authorization": f"Bearer {running.address.split('token=')[1]}"}
    assert "being read" in httpx.get(f"{running.base}/items?benchmark=perturbed", headers=head, timeout=PATIENCE).text
    until = time.monotonic() + PATIENCE
    while not cache.exists() or not list(cache.iterdir()):
        assert time.monotonic() < until, "nothing is computed"
        time.sleep(0.01)
    assert running.end()[0] == 143
    assert not list(cache.glob(".*"))


def test_databases_are_made_again_from_the_folders_unless_a_workbench_runs(start: Start, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(ROOT / "runs/example", runs / "example")

    def rebuilt() -> subprocess.CompletedProcess[str]:
        line = [*TOMSERVE, "web", "--rebuild"]
        return subprocess.run(line, env=environment(runs), capture_output=True, text=True, timeout=PATIENCE)

    assert rebuilt().stdout == "made anew: the register, with 1 runs, and the queue, in which 0 wait\n"
    running = start().ready()
    refused = rebuilt()
    assert refused.returncode == 2
    assert running.base in refused.stderr
    assert running.end()[0] == 143


def test_what_runs_when_it_ends_goes_on_when_it_is_started_again(start: Start, endpoint, tmp_path: Path) -> None:
    endpoint.delay = 0.2
    running = start().ready()
    with Workbench(running.address) as bench:
        assert 0 < bench.plan(benchmark="perturbed", limit=9)["questions"] <= 9  # by a process that has to end, too
        name = bench.start(base_url=[endpoint.url], model="tiny", benchmark="perturbed", limit=300, concurrency=2)
        asked = next(seen["done"] for seen in bench.follow(name) if seen["done"])
    code, _, err = running.end()
    assert code == 143
    assert f"started again: {name}" in err
    endpoint.delay = 0.0
    with Workbench(start().ready().address) as bench:
        ended = bench.wait(name)
        assert ended["complete"] is True
        assert ended["rows"] >= asked
    rows = [orjson.loads(line) for line in (tmp_path / "runs" / name / "responses.jsonl").read_bytes().splitlines()]
    assert len({(row["item"], row["strategy"]) for row in rows}) == len(rows)
