"""A server that is busy, or still loads, is waited for before the first question, and what is waited for is said."""

from __future__ import annotations

import contextlib
import email.utils
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import orjson
import pytest
from aiohttp import web

from tests.conftest import ROOT, Endpoint, running
from tomserve.errors import ConfigError, ServerError
from tomserve.serving import foreground, launching, loading, records, target
from tomserve.serving.command import Command
from tomserve.serving.ports import free_port
from tomserve.serving.presets import Preset
from tomserve.serving.probe import Probe
from tomserve.serving.waiting import Waiting

# 429 and 503 before the first question


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def answers(*statuses: int, **headers: str) -> Iterator[httpx.Response]:
    yield from (httpx.Response(status, headers=headers) for status in statuses)
    while True:
        yield httpx.Response(statuses[-1], headers=headers)


def test_retry_after_is_obeyed_and_said() -> None:
    clock, said = Clock(), []
    given = answers(429, 503, 200, **{"Retry-After": "7"})
    response = Waiting(said.append, clock=clock, sleep=clock.sleep).taken("http://h/v1", lambda: next(given))
    assert response.status_code == 200
    assert clock.now >= 14
    assert "HTTP 429 (too many requests) and asks to wait 7 s" in said[0]
    assert "HTTP 503 (busy, or still loading)" in said[1]


def test_a_date_in_retry_after_is_understood() -> None:
    clock = Clock()
    given = answers(503, 200, **{"Retry-After": email.utils.formatdate(time.time() + 30, usegmt=True)})
    Waiting(clock=clock, sleep=clock.sleep).taken("http://h/v1", lambda: next(given))
    assert 25 < clock.now < 60


@pytest.mark.parametrize(("patience", "after"), [(None, 60.0), (5.0, 5.0), (300.0, 300.0)])
def test_patience_ends(patience: float | None, after: float) -> None:
    clock = Clock()
    waiting = Waiting(patience=patience, clock=clock, sleep=clock.sleep)
    given = answers(429)
    with pytest.raises(ServerError, match=f"HTTP 429 .too many requests. after {after:.0f} s.*--patience SECONDS"):
        waiting.taken("http://h/v1", lambda: next(given))
    assert clock.now == pytest.approx(after)


def test_whoever_had_enough_is_heard_at_once() -> None:
    clock = Clock()

    def check() -> None:
        if clock.now > 1:
            raise KeyboardInterrupt

    waiting = Waiting(check=check, patience=1000, clock=clock, sleep=clock.sleep)
    given = answers(429, **{"Retry-After": "100"})
    with pytest.raises(KeyboardInterrupt):
        waiting.taken("http://h/v1", lambda: next(given))
    assert clock.now < 2


def refusing(monkeypatch: pytest.MonkeyPatch, first: int, status: int, **headers: str) -> list[str]:
    """Have endpoints refuse the first requests to each of their paths; returns the list of what was refused."""
    refused: list[str] = []

    @web.middleware
    async def gate(request: web.Request, handler):
        if refused.count(request.path) < first:
            refused.append(request.path)
            return web.json_response({"error": {"message": "busy"}}, status=status, headers=headers)
        return await handler(request)

    made = Endpoint.app

    def app(self: Endpoint) -> web.Application:
        found = made(self)
        found.middlewares.append(gate)
        return found

    monkeypatch.setattr(Endpoint, "app", app)
    return refused


@pytest.mark.parametrize(("status", "headers"), [(429, {"Retry-After": "1"}), (503, {}), (429, {"Retry-After": "0"})])
def test_a_run_begins_although_the_first_requests_are_refused(
    cli, monkeypatch: pytest.MonkeyPatch, status: int, headers: dict[str, str]
) -> None:
    refused = refusing(monkeypatch, 1, status, **headers)
    with running() as endpoint:
        done = cli("eval", "--base-url", endpoint.url, "--limit", 2)
    assert done.code == 0, done.err
    assert {"/v1/models", "/version", "/tokenize", "/v1/chat/completions"} <= set(refused)
    assert f"the server answers HTTP {status}" in done.out
    manifest = orjson.loads((Path(os.environ["TOMSERVE_RUNS"]) / "perturbed-tiny/manifest.json").read_bytes())
    assert manifest["server"]["engine_version"] == "0.0.test", "a refusal is no answer to what the version is"


def test_a_server_that_only_refuses_ends_the_command_with_what_to_do(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(monkeypatch, 10**6, 429)
    with running() as endpoint:
        began = time.monotonic()
        done = cli("eval", "--base-url", endpoint.url, "--limit", 2, "--patience", 2)
    assert done.code == 2
    assert "still refuses every request with HTTP 429 (too many requests) after 2 s" in done.err
    assert 1.5 < time.monotonic() - began < 15


def test_ctrl_c_ends_the_wait_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(monkeypatch, 10**6, 429, **{"Retry-After": "60"})
    with running() as endpoint:
        command = [
            sys.executable,
            "-m",
            "tomserve",
            "eval",
            "--benchmark",
            "perturbed",
            "--base-url",
            endpoint.url,
            "--limit",
            "2",
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
            assert process.stdout is not None
            assert "asks to wait 60 s" in process.stdout.readline()
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=20)
    assert time.monotonic() - began < 10
    assert process.returncode == 130
    assert err.count("\n") == 1


def test_a_busy_server_is_not_taken_for_another_kind_of_server(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(monkeypatch, 10**6, 503)
    said = pytest.raises(ServerError, match=r"HTTP 503 \(busy, or still loading\); try again in a while")
    with running() as endpoint, Probe(endpoint.url) as probe, said:
        probe.models()


# a server that `tomserve serve` recorded and that still loads

SERVER = """
import os, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer
import orjson
from tomserve.serving import records

port, sign, end = int(sys.argv[1]), sys.argv[2], sys.argv[3]
ready = lambda: os.path.exists(sign)
fields = {"url": f"http://127.0.0.1:{port}/v1", "model": "tiny", "revision": "r1", "command": ["vllm", "serve", "org/tiny"]}
heard = []

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        heard.append(self.path)
        told = {"data": [{"id": "tiny", "max_model_len": 4096}], "version": "1"}
        self.answer(200 if ready() else 503, told)
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"index": 0, "message": {"role": "assistant", "content": '{"answer": "x"}'}, "finish_reason": "stop"}
        self.answer(200 if ready() else 503, {"choices": [message], "model": "tiny", "count": 3})
    def answer(self, status, body):
        raw = orjson.dumps(body)
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)
    def log_message(self, *arguments):
        pass

if end != "silent":
    path = records.write(port, loading=True, **fields)
    path.with_suffix(".log").write_text("INFO [loader] Loading weights:  50%\\r\\x1b[31mLoading weights:  75%\\n")
else:
    records.write(port, **fields)
print("recorded", flush=True)
if end == "dies":
    while not ready():
        time.sleep(0.1)
    path.with_suffix(".log").write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\\n")
    sys.exit(1)
server = HTTPServer(("127.0.0.1", port), Handler)
server.timeout = 0.1
recorded = end == "silent"
while True:
    server.handle_request()
    if ready() and not recorded:
        assert not heard, heard
        records.write(port, **fields)
        recorded = True
"""


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., AbstractContextManager[int]]:
    """Runs a process that is recorded as `serve` records one; it is ready, or dies, once somebody waits for it."""
    sign, speak = tmp_path / "somebody waits", Waiting.speak

    def noticed(self: Waiting, text: str) -> None:
        speak(self, text)
        sign.touch()

    @contextlib.contextmanager
    def run(end: str = "serves") -> Iterator[int]:
        port = free_port()
        if end != "loads":
            monkeypatch.setattr(Waiting, "speak", noticed)
        command = [sys.executable, "-c", SERVER, str(port), str(sign), end]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == b"recorded\n"
                yield port
            finally:
                process.kill()

    return run


@pytest.mark.parametrize("how", [(), ("--model", "tiny"), ("--model", "org/tiny")])
def test_eval_waits_for_a_server_that_loads(cli, serving, how: tuple[str, ...]) -> None:
    with serving() as port:
        done = cli("eval", "--limit", 2, *how)
    assert f"waiting for tiny at http://127.0.0.1:{port}/v1 to load ... 0 s of at most 1800; its log says: " in done.out
    assert "Loading weights:  75%" in done.out
    assert "\x1b[31m" not in done.out
    assert "perturbed-tiny" in done.out, done.err


def test_eval_waits_for_a_server_that_was_ready_and_is_silent(cli, serving) -> None:
    with serving("silent") as port:
        done = cli("eval", "--limit", 2)
    assert f"tiny at http://127.0.0.1:{port}/v1 (pid " in done.out
    assert "is running but does not answer; waiting for it ... 0 s of at most 60" in done.out
    assert "perturbed-tiny" in done.out, done.err


def test_an_address_that_is_known_to_load_is_waited_for(cli, serving) -> None:
    with serving() as port:
        done = cli("eval", "--limit", 2, "--base-url", f"http://localhost:{port}/v1")
    assert f"waiting for tiny at http://127.0.0.1:{port}/v1 to load" in done.out
    assert "perturbed-tiny" in done.out, done.err


def test_a_server_that_dies_while_it_loads(cli, serving) -> None:
    with serving("dies") as port:
        done = cli("eval", "--limit", 2)
    assert done.code == 2
    assert f"tiny at http://127.0.0.1:{port}/v1 (pid " in done.err
    assert "has ended while it was waited for (" in done.err
    assert "memory" in done.err
    assert "start it again by `tomserve serve`" in done.err
    assert not (records.folder() / f"{port}.json").exists()


def test_patience_with_a_server_that_loads(cli, serving) -> None:
    with serving("loads"):
        done = cli("eval", "--limit", 2, "--patience", 1)
    assert done.code == 2
    assert "is still loading after 1 s" in done.err
    assert "--patience SECONDS" in done.err


def test_another_model_is_not_waited_for(endpoint: Endpoint) -> None:
    port = free_port()
    fields = {"revision": None, "command": []}
    records.write(port, url=f"http://127.0.0.1:{port}/v1", model="large", loading=True, **fields)
    assert loading.ready("tiny", Waiting(patience=1)) == []
    records.write(endpoint.port, url=endpoint.url, model="tiny", **fields)
    assert [record.model for record in loading.ready(None, Waiting(patience=1))] == ["tiny"], "one that is ready serves"
    other = free_port()
    (records.folder() / f"{endpoint.port}.json").unlink()
    records.write(other, url=f"http://127.0.0.1:{other}/v1", model="small", loading=True, **fields)
    with pytest.raises(
        ConfigError, match=r"several models are being loaded; name one by --model \(MODEL=\): large, small"
    ):
        target.choose((), None, None, Waiting(patience=1))


def test_the_doctor_lists_what_loads(cli, serving) -> None:
    with serving("loads") as port:
        done = cli("doctor")
    line = next(line for line in done.out.splitlines() if " servers " in line)
    assert line.startswith("ok")
    assert f"none running; tiny at http://127.0.0.1:{port}/v1 is loading (pid " in line
    assert "Loading weights:  75%" in line


def test_serve_records_its_server_as_loading_from_the_beginning() -> None:
    """vLLM needs minutes to load; a record that was written after that let `eval` start another server meanwhile."""
    port = free_port()
    command = Command([sys.executable, "-c", "import time; time.sleep(100)"], {})
    replica = launching.Replica(Preset.load("reference"), command, port, None)
    with foreground._Started.begin(replica, launching.Wanted(port=port), several=False) as started:
        (one,) = records.seen()
        assert (one.state, one.record.model, one.record.url) == ("loading", "reference", f"http://127.0.0.1:{port}/v1")
        assert records.live() == [], "nothing is asked there"
        record = started.record
        assert record is not None
    assert not record.exists()


# presets that cannot be read

BROKEN = {
    "bad.yaml": ("schema: 1\nname: [\n", "broken YAML"),
    "wrong.yaml": ("schema: 1\nname: wrong\nmodel: a/b\nweights_gb: much\nmax_model_len: 4096\n", "weights_gb"),
    "other.yaml": ("schema: 1\nname: another\nmodel: a/b\nweights_gb: 1\nmax_model_len: 4096\n", "the file is called"),
}


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's content folder with three broken presets and a good one."""
    folder = tmp_path / "content/launch/models"
    folder.mkdir(parents=True)
    for name, (text, _) in BROKEN.items():
        (folder / name).write_text(text)
    (folder / "good.yaml").write_text("schema: 1\nname: good\nmodel: acme/good\nweights_gb: 1\nmax_model_len: 4096\n")
    monkeypatch.setenv("TOMSERVE_CONTENT", str(folder.parents[1]))
    return folder


def test_broken_presets_are_listed_with_the_others(cli, broken: Path) -> None:
    done = cli("serve", "--list")
    assert done.code == 0, done.err
    assert "acme/good" in done.out
    assert "qwen3-8b" in done.out
    assert "3 presets cannot be read" in done.out
    for name, (_, said) in BROKEN.items():
        line = next(
            line for line in done.out.splitlines() if line.startswith(f"broken: {name.removesuffix('.yaml')}: ")
        )
        assert str(broken / name) in line
        assert said in line
    assert f"{broken / 'wrong.yaml'}:4: weights_gb" in done.out


def test_a_broken_preset_does_not_stop_another(cli, broken: Path) -> None:
    assert cli("serve", "good", "--dry-run", "--gpus", "1xA100-80GB").code == 0
    found = Preset.lookup("acme/good")
    assert found is not None
    assert found.name == "good"
    assert Preset.lookup("acme/unknown") is None
    done = cli("serve", "wrong", "--dry-run")
    assert done.code == 2
    assert f"{broken / 'wrong.yaml'}:4: weights_gb" in done.err


def test_the_doctor_names_every_broken_preset(cli, broken: Path) -> None:
    done = cli("doctor")
    line = next(line for line in done.out.splitlines() if " presets " in line)
    assert line.startswith("FAIL")
    assert all(str(broken / name) in line for name in BROKEN)
    assert "the others can be served: dbrx, " in line
    assert done.code == 1
