"""The Python client, against a real server."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from fastapi import FastAPI

from tests.conftest import ROOT
from tests.helpers.workbenches import lab, served
from tomserve.api.experiments import Experiment
from tomserve.content.places import runs_root
from tomserve.errors import ConfigError, ConflictError, NoSuchRunError, NotAllowedError, ServerError, ServerLostError
from tomserve.web import client
from tomserve.web.app import make
from tomserve.web.client import Workbench
from tomserve.web.settings import Settings

FIELDS = {"model": "yi-34b", "benchmark": "items", "path": "questions.jsonl"}


@pytest.fixture
def app() -> FastAPI:
    shutil.copytree(ROOT / "runs/example", runs_root() / "pilot/example")
    return make(Settings())


@pytest.fixture
def bench(app: FastAPI) -> Iterator[Workbench]:
    with served(app) as url, Workbench(f"{url}/?token={app.state.access.token}") as found:
        yield found


def test_it_is_imported_without_the_server() -> None:
    code = "import sys, tomserve.web.client; print([n for n in ('fastapi', 'uvicorn', 'huey', 'polars') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_runs_are_listed_read_and_changed(bench: Workbench) -> None:
    assert [run["name"] for run in bench.runs()] == ["pilot/example"]
    assert bench.runs(model="none such") == []
    told = bench.change("pilot/example", tags=["pilot"], notes="A first look.")
    assert told["tags"] == ["pilot"]
    assert bench.runs(tag="pilot")[0]["notes"] == "A first look."
    assert bench.run("pilot/example")["manifest"]["complete"] is True
    assert bench.progress("pilot/example")["state"] == "complete"


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
    assert bench.pause("mine")["job"]["state"] == "paused"
    assert bench.resume("mine")["job"]["state"] == "queued"
    assert bench.cancel("mine")["job"]["state"] == "cancelled"
    with pytest.raises(ConflictError, match="cancelled"):
        bench.cancel("mine")
    assert bench.retry("mine")["job"]["state"] == "queued"
    assert "seal" not in bench.run("mine")["job"]


def test_errors_are_ours_with_the_sentence_of_the_workbench(bench: Workbench) -> None:
    with pytest.raises(NoSuchRunError, match="there is no run 'none'"):
        bench.run("none")
    with pytest.raises(NoSuchRunError):
        list(bench.follow("none"))
    with pytest.raises(ConfigError, match="limit"):
        bench.start(model="yi-34b", limit=0)
    with pytest.raises(ConfigError, match="benchmark"):
        bench.start(model="yi-34b", benchmark="no such")
    with pytest.raises(NoSuchRunError):
        bench.run("../../etc/passwd")


def test_a_reader_is_refused(app: FastAPI) -> None:
    shared = lab()
    token = shared.state.access.users.add_token("eve", "")
    with served(shared) as url, Workbench(url, token) as bench:
        assert bench.runs()
        with pytest.raises(NotAllowedError, match="role runner"):
            bench.start(model="yi-34b")
    with served(shared) as url, Workbench(url) as nobody, pytest.raises(NotAllowedError, match="sign in"):
        nobody.runs()


def test_the_token_is_in_no_repr_and_no_error(app: FastAPI) -> None:
    token = app.state.access.token
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    bench = Workbench(f"http://127.0.0.1:{port}/?token={token}")
    assert token not in repr(bench) + str(vars(bench)["url"])
    with pytest.raises(ServerError) as error:
        bench.runs()
    assert token not in str(error.value)
    assert error.value.__cause__ is None
    for wrong in ("ftp://x", "localhost:8321", f"http://user:{token}@localhost"):
        with pytest.raises(ConfigError) as refused:
            Workbench(wrong)
        assert token not in str(refused.value)


def test_what_is_no_workbench_is_told(endpoint) -> None:
    with pytest.raises(NoSuchRunError, match="is a workbench there"):
        Workbench(f"http://127.0.0.1:{endpoint.port}", "a long token").runs()


def test_a_lost_connection_comes_back(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    """The workbench ends while a run is followed, and starts again on the same port."""
    token = app.state.access.token
    with served(app) as url:
        bench = Workbench(f"{url}/?token={token}")
        name = bench.start(model="yi-34b")
        following = bench.follow(name)
        assert next(following)["state"] == "queued"
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.extend(one["state"] for one in following))
    reader.start()
    with served(make(Settings()), int(url.rsplit(":", 1)[1])):
        bench.cancel(name)
        reader.join(60)
    assert found[-1] == "cancelled"
    monkeypatch.setattr(client, "LOST", 0.0)
    with pytest.raises(ServerLostError, match="does not answer any more"):
        list(bench.follow(name))
