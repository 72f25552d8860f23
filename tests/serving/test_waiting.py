"""A server that is busy, or still loads, is waited for before the first question, and what is waited for is said.

Time is virtual: only sleeping moves it, or what a test does whenever something is waited for.
"""

import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import orjson
import pytest
from aiohttp import web

from tests.conftest import Endpoint, running
from tomserve.errors import ServerError
from tomserve.serving import registry, serve
from tomserve.serving.command import Command
from tomserve.serving.presets import Preset
from tomserve.serving.probe import WaitPolicy
from tomserve.serving.server import free_port
from tomserve.serving.weights import find_weights


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def waiting(self, note: Callable[[str], None] = lambda text: None, **options: object) -> WaitPolicy:
        return WaitPolicy(note, clock=self, sleep=self.sleep, **options)  # type: ignore[arg-type]


def meanwhile(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Nothing is waited for in earnest: instead this happens."""
    monkeypatch.setattr(WaitPolicy, "rest", lambda self, seconds: (happens(), self.check()))


# ── 429 and 503 before the first question ───────────────────────────────────────────────────────────────────────────


def answers(*statuses: int, **headers: str) -> Callable[[], httpx.Response]:
    every = itertools.chain(statuses, itertools.repeat(statuses[-1]))
    return lambda: httpx.Response(next(every), headers=headers)


def test_retry_after_is_obeyed_and_said() -> None:
    clock, said = Clock(), []
    response = clock.waiting(said.append).ask("http://h/v1", answers(429, 503, 200, **{"Retry-After": "7"}))
    assert response.status_code == 200
    assert 14 <= clock.now < 20
    assert "HTTP 429 (too many requests) and asks to wait 7 s" in said[0]
    assert "HTTP 503 (busy, or still loading)" in said[1]


def test_what_may_pass_is_asked_again_a_few_times_and_an_empty_account_never() -> None:
    for statuses, asked, last in (((502, 409, 200), 3, 200), ((502,), 6, 502), ((500, 200), 1, 500), ((400,), 1, 400)):
        clock, sent = Clock(), []
        ask = answers(*statuses)
        response = clock.waiting().ask("http://h/v1", lambda ask=ask, sent=sent: sent.append(1) or ask())
        assert (response.status_code, len(sent)) == (last, asked)
    empty = httpx.Response(429, json={"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}})
    clock = Clock()
    assert clock.waiting().ask("http://h/v1", lambda: empty).status_code == 429
    assert clock.now == 0.0
    within = [httpx.Response(200, json={"error": {"code": 429, "message": "slower"}}), httpx.Response(200, json={})]
    clock.waiting().ask("http://h/v1", lambda: within.pop(0))
    assert within == []


@pytest.mark.parametrize(("patience", "busy", "loads"), [(None, 60.0, 1800.0), (5.0, 5.0, 5.0)])
def test_patience_ends(
    endpoint: Endpoint, patience: float | None, busy: float, loads: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    with pytest.raises(ServerError, match=f"HTTP 429 .too many requests. after {busy:.0f} s.*--patience SECONDS"):
        clock.waiting(patience=patience).ask("http://h/v1", answers(429))
    assert clock.now == pytest.approx(busy)
    recorded(endpoint, loading=True)
    known = registry.believed_records()
    monkeypatch.setattr(registry, "believed_records", lambda urls=None: known)  # half an hour has many looks
    clock = Clock()
    with pytest.raises(ServerError, match=f"is still loading after {loads:.0f} s.*--patience SECONDS"):
        registry.wait_until_ready("tiny", clock.waiting(patience=patience))
    assert clock.now == pytest.approx(loads)


def refusing(monkeypatch: pytest.MonkeyPatch, first: int, status: int, **headers: str) -> list[str]:
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


def test_a_run_begins_although_the_first_requests_are_refused(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    refused, waited = refusing(monkeypatch, 1, 429, **{"Retry-After": "9"}), []
    meanwhile(monkeypatch, lambda: waited.append(1))
    with running() as endpoint:
        done = cli("eval", "--base-url", endpoint.url, "--limit", 2)
    assert done.code == 0, done.err
    assert {"/v1/models", "/version", "/tokenize", "/v1/chat/completions"} <= set(refused)
    assert len(waited) >= 4
    assert "the server answers HTTP 429 (too many requests) and asks to wait 9 s" in done.out
    manifest = orjson.loads((Path(os.environ["TOMSERVE_RUNS"]) / "perturbed-tiny/manifest.json").read_bytes())
    assert manifest["server"]["engine_version"] == "0.0.test", "a refusal is no answer to what the version is"


# ── a server that `tomserve serve` recorded and that still loads ────────────────────────────────────────────────────


def recorded(endpoint: Endpoint, loading: bool, model: str = "tiny") -> Path:
    about = {"model": model, "revision": "r1", "command": ["vllm", "serve", f"org/{model}"]}
    path = registry.write_record(endpoint.port, url=endpoint.url, loading=loading, **about)
    if loading:
        path.with_suffix(".log").write_text("INFO [loader] Loading weights:  50%\r\x1b[31mLoading weights:  75%\n")
    return path


@pytest.mark.parametrize("how", [(), ("--base-url", "localhost")])
def test_eval_waits_for_a_server_that_loads(cli, endpoint: Endpoint, monkeypatch, how: tuple[str, ...]) -> None:
    recorded(endpoint, loading=True)
    looked: list[str] = []
    healthy = registry.is_healthy
    monkeypatch.setattr(registry, "is_healthy", lambda *given: looked.append(given[0]) or healthy(*given))

    def loaded() -> None:
        assert looked == [], "nothing is asked there while it loads"
        recorded(endpoint, loading=False)

    meanwhile(monkeypatch, loaded)
    how = tuple(f"http://localhost:{endpoint.port}/v1" if word == "localhost" else word for word in how)
    done = cli("eval", "--limit", 2, *how)
    assert f"waiting for tiny at {endpoint.url} to load ... 0 s of at most 1800; its log says: " in done.out
    assert "Loading weights:  75%" in done.out
    assert "\x1b[31m" not in done.out
    assert "perturbed-tiny" in done.out, done.err
    assert len(endpoint.requests) == 4


def test_a_server_that_dies_while_it_loads(cli, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    path = recorded(endpoint, loading=True)

    def dies() -> None:
        path.with_suffix(".log").write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
        path.write_bytes(orjson.dumps({**orjson.loads(path.read_bytes()), "born": "0/0"}))

    meanwhile(monkeypatch, dies)
    done = cli("eval", "--limit", 2)
    assert done.code == 2
    assert f"tiny at {endpoint.url} (pid " in done.err
    assert "has ended while it was waited for (the GPU ran out of memory" in done.err
    assert "start it again by `tomserve serve`" in done.err
    assert not path.exists()


def test_serve_records_its_server_as_loading_from_the_beginning() -> None:
    """vLLM needs minutes to load; a record that was written after that let `eval` start another server meanwhile."""
    port = free_port()
    command = Command([sys.executable, "-c", "import time; time.sleep(100)"], {})
    preset = Preset.load("reference")
    replica = serve.Replica(preset, find_weights(preset), command, port, None)
    with serve._RunningReplica.begin(replica, serve.ServeOptions(port=port), several=False) as started:
        (one,) = registry.believed_records()
        assert (one.state, one.record.model, one.record.url) == ("loading", "reference", f"http://127.0.0.1:{port}/v1")
        assert [one.state for one in registry.believed_records()] == ["loading"], "nothing is asked there"
        record = started.record
        assert record is not None
    assert not record.exists()


# ── presets that cannot be read ─────────────────────────────────────────────────────────────────────────────────────
