"""The process that asks an experiment, what it prints, and what becomes of its experiment once it has ended."""

import os
from pathlib import Path

import pytest
from aiohttp import web

from tests.conftest import Endpoint
from tests.helpers.queues import Workers, experiment, free_port, until
from tomserve.content.paths import runs_root
from tomserve.errors import ConfigError
from tomserve.runs.runfolder import RunFolder
from tomserve.serving import registry
from tomserve.web import jobs
from tomserve.web.jobs import DEATHS, ProcessEnd, job_after, waiting_reason
from tomserve.web.run_index import Job, State
from tomserve.web.settings import Settings
from tomserve.workflows.evaluate import Experiment

NAME = "r"


@pytest.fixture
def folder() -> Path:
    made = runs_root() / NAME
    made.mkdir(parents=True)
    (made / "experiment.yaml").write_text(experiment("http://127.0.0.1:9/v1").text())
    return made


def begun(folder: Path, turn: int = 1) -> jobs.Child:
    found = jobs.begin_child(NAME, folder, dict(os.environ), turn)
    assert found is not None
    return found


def test_a_run_is_asked_by_one_process_at_a_time_which_is_asked_to_end_twice_and_then_killed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = Workers(Settings(), monkeypatch)
    first = begun(folder, 7)
    assert "begins, turn 7" in (folder / jobs.CONSOLE).read_text()
    assert jobs.is_alive(NAME)
    assert jobs.begin_child(NAME, folder, {}, 1) is None
    assert jobs.pid_of(NAME) == workers.begun[0].pid
    adopted, moments = jobs.Child(NAME, folder), iter([0.0, 10.0, 76.0, 90.0, 101.0, 102.0])
    monkeypatch.setattr(workers.begun[0], "end", lambda code, said="": None)
    monkeypatch.setattr(jobs, "time", type("Clock", (), {"monotonic": staticmethod(lambda: next(moments))}))
    for _ in range(6):
        adopted.stop()
    assert workers.kills == [15, 15, 9]
    monkeypatch.undo()
    workers.begun[0].end(3)
    assert (first.alive, first.code, jobs.is_alive(NAME), adopted.code) == (False, 3, False, None)


def test_a_process_that_is_another_one_by_now_is_not_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Workers(Settings(), monkeypatch)
    begun(folder)
    noted = next((runs_root() / ".web/jobs").iterdir())
    for text in (f"{workers.begun[0].pid} another-boot/123\n", f"{workers.begun[0].pid}\n", "x y\n", ""):
        noted.write_text(text)
        assert jobs.pid_of(NAME) is None
        jobs.Child(NAME, folder).stop()
    assert workers.kills == []
    workers.begun[0].end()


def test_what_is_printed_is_bounded_and_its_last_line_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert jobs.last_line(folder) == ""
    monkeypatch.setenv("TOMSERVE_API_KEY", "sk-0123456789")
    console = folder / jobs.CONSOLE
    console.write_bytes(b"x" * 5000 + b"\nfailures: 3 timeout\ntomserve: no sk-0123456789 \x1b[31m\xff here\n\n")
    assert jobs.last_line(folder) == "no *** \\x1b[31m\N{REPLACEMENT CHARACTER} here"
    assert jobs.last_line(folder, "failures: ") == "failures: 3 timeout"
    assert jobs.last_line(folder, "other: ") == ""
    jobs.Child(NAME, folder).bound()
    assert console.stat().st_size > 5000
    monkeypatch.setattr(jobs, "LONGEST_CONSOLE", 4000)
    jobs.Child(NAME, folder).bound()
    assert console.stat().st_size == 0


def test_what_it_prints_goes_to_no_other_file(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (folder / jobs.CONSOLE).symlink_to(tmp_path / "precious")
    with pytest.raises(ConfigError, match="is a symbolic link"):
        begun(folder)
    assert (tmp_path / "precious").read_text() == "mine"
    assert not jobs.is_alive(NAME)
    assert jobs.last_line(folder) == ""


@pytest.mark.system
def test_a_real_one_asks_and_another_worker_can_end_it(folder: Path, endpoint: Endpoint) -> None:
    (folder / "experiment.yaml").write_text(experiment(endpoint).text())
    endpoint.delay = 0.2
    first, adopted = begun(folder), jobs.Child(NAME, folder)
    until(lambda: endpoint.requests)
    adopted.stop()
    assert until(lambda: not first.alive and first.code) == 143
    endpoint.delay = 0.0
    again = begun(folder)
    until(lambda: not again.alive)
    assert (again.code, jobs.last_line(folder).startswith("report: ")) == (0, True)


RUNS = Job(state=State.RUNNING, turn=3, deaths=1)


PAUSED, CANCELLED = State.PAUSED, State.CANCELLED
ENDS: dict[str, list[tuple[int | None, State | None, bool]]] = {
    "done": [(0, None, False), (1, None, False), (0, None, True), (0, PAUSED, False), (0, CANCELLED, False)],
    "failed": [(2, None, False), (2, None, True), (2, PAUSED, False)],
    "queued": [(3, None, False), (-9, None, False), (None, None, False), (143, None, True), (-15, None, True)],
    "paused": [
        (143, None, False),
        (130, None, False),
        (143, PAUSED, False),
        (143, PAUSED, True),
        (None, PAUSED, False),
    ],
    "cancelled": [(code, CANCELLED, False) for code in (143, -9, 3, 2)] + [(143, CANCELLED, True)],
}


@pytest.mark.parametrize("state", ENDS)
def test_the_state_that_follows(state: str) -> None:
    for code, wanted, leaving in ENDS[state]:
        job = RUNS if wanted is None else RUNS.model_copy(update={"state": State.STOPPING, "wanted": wanted})
        found = job_after(job, ProcessEnd(code, said="the last line", leaving=leaving))
        assert (found.state.value, found.wanted, found.exit_code) == (state, None, code)
        assert (found.ended is not None) == (state in ("done", "failed", "cancelled"))
        assert found.turn == (4 if state in ("queued", "paused") else 3)


def test_what_it_ended_by_is_said() -> None:
    assert job_after(RUNS, ProcessEnd(0, said="report: x")).said == ""
    assert (
        job_after(RUNS, ProcessEnd(1, said="report: x", failures="failures: 2 timeout")).said == "failures: 2 timeout"
    )
    assert job_after(RUNS, ProcessEnd(1, said="report: x")).said == "report: x"
    assert job_after(RUNS, ProcessEnd(2, said="no such model")).said == "no such model"
    assert job_after(RUNS, ProcessEnd(7)).said == "ended with exit code 7"
    assert (
        "the server went away; it goes on by itself" in job_after(RUNS, ProcessEnd(3, said="the server went away")).said
    )


def test_one_that_dies_again_and_again_without_getting_further_has_failed() -> None:
    job = RUNS.model_copy(update={"deaths": 0})
    for number in range(1, DEATHS):
        job = job_after(job, ProcessEnd(-9, grown=False)).model_copy(update={"state": State.RUNNING})
        assert job.deaths == number
    assert job_after(job, ProcessEnd(-9, grown=True)).deaths == 0
    found = job_after(job, ProcessEnd(-9, grown=False))
    assert (found.state, found.said) == ("failed", "its process was killed by signal 9; that came 3 times in a row")


def why(folder: Path, *urls: str, model: str | None = None, start: bool = False) -> str:
    return waiting_reason(Experiment(base_url=urls, model=model, start=start), folder)


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
    registry.write_record(endpoint.port, model="yi-34b", loading=True, **fields)
    for model in ("yi-34b", "org/model", None):
        assert why(tmp_path, model=model) == "the server of yi-34b is loading its model"
    assert why(tmp_path, endpoint.url) == f"the server at {endpoint.url} is loading its model"
    registry.write_record(endpoint.port, model="yi-34b", **fields)
    for model in ("yi-34b", "org/model", None):
        assert why(tmp_path, model=model) == ""
    assert why(tmp_path, model="reference") == ""
    registry.write_record(endpoint.port, model="yi-34b", **{**fields, "url": f"http://127.0.0.1:{free_port()}/v1"})
    assert why(tmp_path, model="yi-34b") == "the server of yi-34b does not answer now"
