"""Why an experiment whose turn has come has to wait, in words."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from tests.conftest import Endpoint
from tests.helpers.queues import free_port
from tomserve.api.experiments import Experiment
from tomserve.runs.runfolder import RunFolder
from tomserve.serving import records
from tomserve.web.waiting import reason


def why(folder: Path, *urls: str, model: str | None = None, start: bool = False) -> str:
    return reason(Experiment(base_url=urls, model=model, start=start), folder)


def test_a_server_that_answers_is_not_waited_for_and_is_sent_no_key(
    tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOMSERVE_API_KEY", "sk-0123456789")
    endpoint.key = "sk-0123456789"  # it refuses us, and that is for the evaluation to say
    assert why(tmp_path, endpoint.url) == ""
    port = free_port()
    assert why(tmp_path, endpoint.url, f"127.0.0.1:{port}") == f"no server answers at http://127.0.0.1:{port}/v1 yet"
    heard: list[str | None] = []
    monkeypatch.setattr(Endpoint, "_refused", lambda self, request: heard.append(request.headers.get("Authorization")))
    assert why(tmp_path, endpoint.url) == ""
    assert heard == [None]
    for status in (502, 503, 504):
        monkeypatch.setattr(Endpoint, "_refused", lambda self, request, status=status: web.Response(status=status))
        assert why(tmp_path, endpoint.url) == f"the server at {endpoint.url} is busy, or still loads"


def test_a_run_that_somebody_works_on_is_waited_for(tmp_path: Path, endpoint: Endpoint) -> None:
    with RunFolder(tmp_path / "r") as folder:
        assert "works on this run; it goes on once that has ended" in why(folder.path, endpoint.url)
    assert why(tmp_path / "r", endpoint.url) == ""


def test_servers_of_this_machine(tmp_path: Path, endpoint: Endpoint) -> None:
    assert why(tmp_path) == why(tmp_path, model="reference") == ""  # the embedded one is started
    missing = "no server of yi-34b runs; start one with `tomserve serve yi-34b`"
    assert why(tmp_path, model="yi-34b") == missing
    assert why(tmp_path, model="yi-34b", start=True) == ""
    fields = {"url": endpoint.url, "revision": None, "command": ["vllm", "serve", "org/model"]}
    records.write(endpoint.port, model="yi-34b", loading=True, **fields)
    for model in ("yi-34b", "org/model", None):
        assert why(tmp_path, model=model) == "the server of yi-34b is loading its model"
    assert why(tmp_path, endpoint.url) == f"the server at {endpoint.url} is loading its model"
    records.write(endpoint.port, model="yi-34b", **fields)
    for model in ("yi-34b", "org/model", None):
        assert why(tmp_path, model=model) == ""
    assert why(tmp_path, model="reference") == ""
    records.write(endpoint.port, model="yi-34b", **{**fields, "url": f"http://127.0.0.1:{free_port()}/v1"})
    assert why(tmp_path, model="yi-34b") == "the server of yi-34b does not answer now"
