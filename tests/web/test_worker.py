"""The worker: experiments are asked in order, each by one process, and what happens to either loses and repeats nothing.
The process that asks an experiment, what it prints, and what becomes of its experiment once it has ended."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.conftest import Endpoint
from tests.helpers.queues import (
    Workers,
    asked,
    experiment,
    job,
    kill,
    processes,
    queue_of,
    reaches,
    state,
    until,
)
from tomserve.content.paths import runs_root
from tomserve.errors import ConfigError
from tomserve.runs.runfolder import RunFolder
from tomserve.serving import registry
from tomserve.web import jobs
from tomserve.web.accounts import Person
from tomserve.web.jobs import DEATHS, ProcessEnd, job_after, waiting_reason
from tomserve.web.queue import Queue
from tomserve.web.run_index import Job, State
from tomserve.web.settings import Settings
from tomserve.web.worker import keep_workers
from tomserve.workflows.evaluate import Experiment

ME = Person()
URL, OTHER = "http://127.0.0.1:9/v1", "http://127.0.0.1:10/v1"


@pytest.fixture
def queue() -> Queue:
    return queue_of(Settings())


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    return Workers(Settings(), monkeypatch)


def submit(queue: Queue, *names: str, url: str = URL, **fields: Any) -> None:
    for name in names:
        queue.submit(experiment(url, run=name, **fields), ME)


def test_experiments_of_a_group_are_asked_one_by_one_in_their_order(queue: Queue, workers: Workers) -> None:
    submit(queue, "r0", "r1", "r2")
    queue.act("move", "r2", ME, "first")
    with workers.one():
        for name in ("r2", "r0", "r1"):
            process = workers.runs(name)
            assert workers.running() == [process]
            process.end(0, "report: there")
            found = reaches(name, "done")
            assert (found.exit_code, found.said, bool(found.began and found.ended)) == (0, "", True)
    assert [one.name for one in workers.begun] == ["r2", "r0", "r1"]


def test_groups_go_on_side_by_side_and_more_of_a_group_where_that_is_set(queue: Queue, workers: Workers) -> None:
    workers.settings = replace(Settings(), workers=2)
    submit(queue, "a", "b", "c")
    submit(queue, "other", url=OTHER)
    with workers.one():
        both = [workers.runs(name) for name in ("a", "b", "other")]
        assert state("c") == "queued"
        both[0].end()
        workers.runs("c")


def test_an_experiment_waits_for_its_server_and_others_go_on(queue: Queue, workers: Workers) -> None:
    workers.why = "no server answers there yet"
    submit(queue, "early", "gone")
    with workers.one():
        assert reaches("early", "waiting").said == workers.why
        reaches("gone", "waiting")
        queue.act("cancel", "gone", ME)
        assert (state("gone"), workers.begun) == ("cancelled", [])
        workers.why = ""
        workers.runs("early").end()
        reaches("early", "done")
        assert [one.name for one in workers.begun] == ["early"]
        queue.act("retry", "gone", ME)
        workers.runs("gone").end()


@pytest.mark.parametrize(("how", "then", "again"), [("pause", "paused", "resume"), ("cancel", "cancelled", "retry")])
def test_one_that_runs_is_told_to_end_and_goes_on(
    queue: Queue, workers: Workers, how: str, then: str, again: str
) -> None:
    submit(queue, "r")
    with workers.one():
        first = workers.runs("r")
        queue.act(how, "r", ME)
        assert reaches("r", then).state == then
        assert (first.returncode, workers.kills) == (143, [signal.SIGTERM])
        queue.act(again, "r", ME)
        workers.runs("r").end()
        assert reaches("r", "done").turn > 1


def test_one_whose_process_died_is_asked_again_until_it_dies_without_getting_further(
    queue: Queue, workers: Workers
) -> None:
    submit(queue, "r")
    with workers.one():
        first = workers.runs("r")
        (first.folder / "responses.jsonl").write_text("{}\n")
        first.end(-9)
        for number in range(3):
            until(lambda number=number: len(workers.begun) == number + 2)
            assert job("r").turn == number + 2
            workers.runs("r").end(-9)
        found = reaches("r", "failed")
    assert len(workers.begun) == 4
    assert (found.said, found.deaths) == ("its process was killed by signal 9; that came 3 times in a row", DEATHS)


def test_a_process_that_outlives_its_worker_is_adopted_and_can_be_ended(queue: Queue, workers: Workers) -> None:
    submit(queue, "r", "next")
    with workers.one(leaves=True):
        process = workers.runs("r")
    assert (process.returncode, state("r")) == (None, "running")
    with workers.one():
        queue.act("pause", "r", ME)
        reaches("r", "paused")
        assert (process.returncode, job("r").exit_code) == (143, None)
        workers.runs("next").end()
        reaches("next", "done")
    assert len(workers.begun) == 2


def test_what_runs_stops_with_the_workbench_and_goes_on_with_the_next(queue: Queue, workers: Workers) -> None:
    submit(queue, "r")
    with workers.one():
        process = workers.runs("r")
    assert process.returncode == 143
    assert (job("r").state, job("r").said) == (
        "queued",
        "stopped with the workbench, and goes on when that is started again",
    )
    with workers.one():
        workers.runs("r").end()
        reaches("r", "done")


def test_an_experiment_that_this_workbench_has_not_queued_is_not_asked(queue: Queue, workers: Workers) -> None:
    """The card of a run that was downloaded may say that it is queued."""
    submit(queue, "r")
    file = runs_root() / "r/experiment.yaml"
    file.write_text(file.read_text().replace("vanilla", "cot"))
    with workers.one():
        assert "has not queued it" in reaches("r", "paused").said
        assert workers.begun == []
        queue.act("resume", "r", ME)
        workers.runs("r").end()


def test_what_cannot_be_read_has_failed_and_says_why_without_the_place(
    queue: Queue, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(queue, "r")
    file = runs_root() / "r/experiment.yaml"
    file.write_text("limit: x\n")
    monkeypatch.setattr("tomserve.web.queue.is_sealed", lambda *_: True)
    with workers.one():
        found = reaches("r", "failed")
    assert "experiment.yaml:1: limit" in found.said
    assert str(runs_root()) not in found.said


def test_a_process_has_no_key_that_its_experiment_does_not_name(queue: Queue, workers: Workers, monkeypatch) -> None:
    for name in ("TOMSERVE_API_KEY", "OPENAI_API_KEY", "SOME_API_KEY"):
        monkeypatch.setenv(name, f"sk-{name}-0123456789")
    submit(queue, "without")
    submit(queue, "named", key="TOMSERVE_API_KEY")
    with workers.one():
        for name in ("without", "named"):
            workers.runs(name).end()
            reaches(name, "done")
    keys = [{name for name, value in one.env.items() if value.startswith("sk-")} for one in workers.begun]
    assert keys == [set(), {"TOMSERVE_API_KEY"}]


WORKER, EVAL = "-m tomserve.web.worker", "-m tomserve eval"


@pytest.fixture
def real() -> Iterator[Settings]:
    """The settings of a workbench whose worker is a process; nothing that it began is left."""
    yield Settings()
    for pid in (*processes("-m tomserve.web"), *processes(EVAL)):
        kill(pid)


@pytest.mark.system
def test_nothing_is_lost_or_asked_twice_whatever_is_killed(real: Settings, endpoint: Endpoint) -> None:
    """Workers and the processes that ask are killed after numbers of questions that are drawn; one that outlives its
    worker goes on."""
    draw, queue = random.Random(3), queue_of(real)
    endpoint.delay = 0.1
    names = [queue.submit(experiment(endpoint, 12, run=f"r{number}"), ME) for number in range(2)]
    with keep_workers(real):
        for victims in ((WORKER,), (EVAL,), (WORKER, EVAL)):
            goal = len(endpoint.requests) + draw.randint(1, 4)
            until(lambda goal=goal: len(endpoint.requests) >= goal)
            for pid in (pid for what in victims for pid in processes(what)):
                kill(pid)
        endpoint.delay = 0
        for name in names:
            assert reaches(name, "done", "failed").state == "done", job(name)
    assert processes(WORKER) == processes(EVAL) == []
    for name in names:
        assert len(asked(name)) == len(set(asked(name))) == 12


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


RUNS = Job(state=State.RUNNING, turn=3, deaths=1)


PAUSED, CANCELLED = State.PAUSED, State.CANCELLED
ENDS: dict[str, list[tuple[int | None, State | None, bool]]] = {
    "done": [(0, None, False), (1, None, False), (0, None, True), (0, PAUSED, False), (0, CANCELLED, False)],
    "failed": [(2, None, False), (2, None, True), (2, PAUSED, False)],
    "queued": [(3, None, False), (-9, None, False), (None, None, False), (143, None, True), (-15, None, True)],
    "paused": [(143, None, False), (130, None, False), (143, PAUSED, False), (143, PAUSED, True), (None, PAUSED, False)],
    "cancelled": [(code, CANCELLED, False) for code in (143, -9, 3, 2)] + [(143, CANCELLED, True)],
}  # fmt: skip


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
    assert job_after(RUNS, ProcessEnd(2, said="no such model")).said == "no such model"
    assert job_after(RUNS, ProcessEnd(7)).said == "ended with exit code 7"


def why(folder: Path, *urls: str, model: str | None = None, start: bool = False) -> str:
    return waiting_reason(Experiment(base_url=urls, model=model, start=start), folder)


def test_a_server_that_answers_is_not_waited_for_and_is_sent_no_key(tmp_path: Path, endpoint, monkeypatch) -> None:
    monkeypatch.setenv("TOMSERVE_API_KEY", "sk-0123456789")
    endpoint.key = "sk-0123456789"  # it refuses us, and that is for the evaluation to say
    assert why(tmp_path, endpoint.url) == ""
    assert why(tmp_path, endpoint.url, "127.0.0.1:1") == "no server answers at http://127.0.0.1:1/v1 yet"
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
    assert why(tmp_path, endpoint.url) == f"the server at {endpoint.url} is loading its model"
    registry.write_record(endpoint.port, model="yi-34b", **fields)
    for model in ("yi-34b", "org/model", None):
        assert why(tmp_path, model=model) == ""
    registry.write_record(endpoint.port, model="yi-34b", **{**fields, "url": "http://127.0.0.1:1/v1"})
    assert why(tmp_path, model="yi-34b") == "the server of yi-34b does not answer now"
