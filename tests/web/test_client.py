"""The Python client."""

import subprocess
import sys
from types import SimpleNamespace

import httpx
import pytest
from aiohttp import web
from fastapi import FastAPI

from tests.conftest import Endpoint
from tests.helpers.examples import copied_run
from tests.helpers.queues import put
from tests.helpers.workbenches import by_python, lab
from tomserve.content.paths import runs_root
from tomserve.errors import ConfigError, ConflictError, NoSuchRunError, NotAllowedError, ServerError, ServerLostError
from tomserve.web import client
from tomserve.web.app import make_app
from tomserve.web.client import Workbench
from tomserve.web.run_index import State
from tomserve.web.settings import Settings
from tomserve.workflows.evaluate import Experiment


@pytest.fixture
def app() -> FastAPI:
    copied_run(runs_root() / "pilot/example")
    return make_app(Settings())


@pytest.fixture
def bench(app: FastAPI) -> Workbench:
    return by_python(app)


@pytest.mark.system
def test_it_is_imported_without_the_server() -> None:
    code = "import sys, tomserve.web.client; print([n for n in ('fastapi', 'uvicorn', 'huey', 'polars') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_run_that_has_ended_is_followed_to_its_end(bench: Workbench) -> None:
    seen = list(bench.follow("pilot/example"))
    assert [one["state"] for one in seen] == ["complete"]
    assert seen[0]["answers"]
    told: list[str] = []
    assert bench.wait("pilot/example", lambda one: told.append(one["state"]))["complete"] is True
    assert told == ["complete"]


def test_an_experiment_is_started_moved_and_ended(bench: Workbench) -> None:
    first = bench.start(Experiment(model="yi-34b", limit=3), noise_check=0.5)
    second = bench.start({"model": "yi-34b", "strategy": ["vanilla"]}, run="mine")
    assert second == "mine"
    assert [one["name"] for one in bench.queue()] == [first, "mine"]
    assert "noise-check: 0.5" in (runs_root() / first / "experiment.yaml").read_text()
    assert bench.move("mine", "first")["job"]["state"] == "queued"
    assert [one["name"] for one in bench.queue()] == ["mine", first]
    assert bench.cancel("mine")["job"]["state"] == "cancelled"
    with pytest.raises(ConflictError, match="cancelled"):
        bench.cancel("mine")
    assert "seal" not in bench.run("mine")["job"]


def test_a_reader_and_a_stranger_are_refused() -> None:
    shared = lab()
    bench = by_python(shared)
    with pytest.raises(NotAllowedError, match="sign in"):
        bench.runs()
    bench._client.headers["Authorization"] = f"Bearer {shared.state.access.users.add_token('eve', '')}"
    assert bench.runs() == []
    with pytest.raises(NotAllowedError, match="role runner"):
        bench.start(model="yi-34b")


def test_the_token_is_in_no_repr_and_no_error(app: FastAPI) -> None:
    token = app.state.access.token
    bench = Workbench(f"http://127.0.0.1:1/?token={token}")
    assert token not in repr(bench) + str(vars(bench)["url"])
    with pytest.raises(ServerError) as error:
        bench.runs()
    assert token not in str(error.value)
    assert error.value.__cause__ is None
    for wrong in ("ftp://x", "localhost:8321", f"http://user:{token}@localhost"):
        with pytest.raises(ConfigError) as refused:
            Workbench(wrong)
        assert token not in str(refused.value)


def test_what_is_no_workbench_is_told(endpoint: Endpoint) -> None:
    with pytest.raises(NoSuchRunError, match="is a workbench there"):
        Workbench(f"http://127.0.0.1:{endpoint.port}", "a long token").runs()


def test_an_answer_without_an_end_is_refused(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MOST", 1 << 10)
    endpoint.first = lambda request, body: web.Response(body=b'{"runs": [' + b" " * (1 << 11))
    with pytest.raises(ServerError, match="sends more than 0 MB"):
        Workbench(f"http://127.0.0.1:{endpoint.port}").runs()
    endless = httpx.Response(200, content="data: x\n" * 100, request=httpx.Request("GET", "http://127.0.0.1"))
    monkeypatch.setattr(client, "MOST_EVENT", 100)
    with pytest.raises(ServerError, match="an event without an end"):
        list(client._lines(endless))


class Lost:
    """A connection that tells what it is given: an error that is raised, or what a stream of events holds."""

    def __init__(self, *parts: Exception | str) -> None:
        self.parts, self.tries = list(parts), 0

    def handle(self, request: httpx.Request) -> httpx.Response:
        self.tries += 1
        part = self.parts.pop(0) if self.parts else httpx.ConnectError("gone")
        if isinstance(part, Exception):
            raise part
        return httpx.Response(200, content=part.encode())


def test_a_lost_connection_comes_back_and_is_given_up_at_last(bench: Workbench, monkeypatch) -> None:
    moments = iter(range(0, 10_000, 70))
    monkeypatch.setattr(client, "time", SimpleNamespace(monotonic=lambda: next(moments), sleep=lambda _: None))
    first, second = ('data: {"state": "running", "done": 1}\n\n', 'event: now\ndata: {"state":\ndata: "done"}\n\n')
    lost = Lost(first, httpx.ReadError("gone"), first, httpx.ConnectError("gone"), second + "event: end\n\n")
    bench._client = httpx.Client(transport=httpx.MockTransport(lost.handle), base_url="http://127.0.0.1:9")
    assert [seen["state"] for seen in bench.follow("r")] == ["running", "done"]  # what is told twice is said once
    assert lost.parts == []
    lost.tries = 0
    with pytest.raises(ServerLostError, match="does not answer any more"):
        list(bench.follow("r"))
    assert lost.tries > 2


def test_a_run_that_failed_is_an_error_and_what_is_computed_is_waited_for(bench: Workbench, monkeypatch) -> None:
    name = bench.start(model="yi-34b")
    put(name, state=State.FAILED, said="no such model")
    with pytest.raises(ServerError, match="failed: no such model"):
        bench.wait(name)
    monkeypatch.setattr(client, "PATIENCE", -1.0)
    bench._client = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(202)), base_url="http://h")
    with pytest.raises(ServerError, match="still being computed"):
        bench.scores(name)
