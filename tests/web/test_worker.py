"""The worker, as a real process with real ones below it: experiments are asked in order, and nothing is lost or asked
twice whatever is killed, on SQLite and on a real Redis."""

from __future__ import annotations

import random
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.conftest import Endpoint, running
from tests.helpers.command import TOMSERVE, environment
from tests.helpers.queues import (
    LONG,
    asked,
    experiment,
    free_port,
    job,
    kill,
    processes,
    queue_of,
    reaches,
    redis_server,
    state,
    until,
)
from tomserve.content.places import runs_root
from tomserve.runs.progress import holder, read
from tomserve.web import cards
from tomserve.web.people import Person
from tomserve.web.queue import Queue
from tomserve.web.settings import Settings
from tomserve.web.worker import kept_alive

ME = Person()
WORKER = "-m tomserve.web.worker"
EVAL = "-m tomserve eval"
MANY = 400
"""So many questions take a minute at a slow endpoint: nothing is finished before a test has done its part."""


BOTH = pytest.mark.parametrize("settings", ["sqlite", "redis"], indirect=True)
"""Marks tests of what the queue itself does; what only depends on cards and processes is tested on one of them."""


@pytest.fixture
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Settings]:
    if getattr(request, "param", "sqlite") == "sqlite":
        yield Settings()
        return
    with redis_server(tmp_path) as url:
        yield Settings(queue=url)


@pytest.fixture
def queue(settings: Settings) -> Queue:
    return queue_of(settings)


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    for pid in (*processes(WORKER), *processes(EVAL)):
        kill(pid)


def slow(endpoint: Endpoint, seconds: float = 0.15) -> None:
    endpoint.delay = seconds


@BOTH
def test_experiments_of_a_group_are_asked_one_by_one_in_their_order(
    queue: Queue, settings: Settings, endpoint: Endpoint
) -> None:
    names = [queue.submit(experiment(endpoint, run=f"r{number}"), ME) for number in range(3)]
    queue.move("r2", ME, "first")
    with kept_alive(settings):
        for name in names:
            assert reaches(name, "done", "failed").exit_code == 0
    began = sorted(names, key=lambda name: str((runs_root() / name / "console.txt").stat().st_ctime_ns))
    assert began == ["r2", "r0", "r1"]
    assert endpoint.peak == 1
    assert [len(asked(name)) for name in names] == [6, 6, 6]
    assert len(endpoint.requests) == 18
    assert [line.name for line in queue.lines(ME)] == ["r1", "r0", "r2"]


def test_groups_are_asked_side_by_side(queue: Queue, settings: Settings, endpoint: Endpoint) -> None:
    """The first waits for the second, which would never come if they were asked one after the other."""
    both = threading.Barrier(2, timeout=100)
    seen: set[int] = set()

    def meet(at: Endpoint) -> Callable[[dict[str, Any], int], None]:
        def answer(body: dict[str, Any], number: int) -> None:
            if number == 1 and id(at) not in seen:
                seen.add(id(at))
                both.wait()

        return answer

    with running() as other:
        endpoint.script, other.script = meet(endpoint), meet(other)
        queue.submit(experiment(endpoint, run="a"), ME)
        queue.submit(experiment(other, run="b"), ME)
        with kept_alive(settings):
            assert reaches("a", "done", "failed").state == reaches("b", "done", "failed").state == "done"


@BOTH
def test_an_experiment_waits_for_its_server_and_others_go_on(queue: Queue, settings: Settings) -> None:
    port = free_port()
    queue.submit(experiment(f"http://127.0.0.1:{port}/v1", run="early"), ME)
    with kept_alive(settings):
        found = reaches("early", "waiting")
        assert found.said == f"no server answers at http://127.0.0.1:{port}/v1 yet"
        with running(port=port):
            assert reaches("early", "done", "failed").state == "done"
    assert len(asked("early")) == 6


def test_an_experiment_that_waits_can_be_cancelled_and_tried_again(queue: Queue, settings: Settings) -> None:
    port = free_port()
    queue.submit(experiment(f"http://127.0.0.1:{port}/v1", run="r"), ME)
    with kept_alive(settings):
        reaches("r", "waiting")
        queue.cancel("r", ME)
        assert state("r") == "cancelled"
        with running(port=port):
            queue.retry("r", ME)
            assert reaches("r", "done", "failed").state == "done"


@BOTH
@pytest.mark.parametrize("how", ["pause", "cancel"])
def test_one_that_runs_ends_with_everything_kept_and_goes_on(
    queue: Queue, settings: Settings, endpoint: Endpoint, how: str
) -> None:
    slow(endpoint)
    queue.submit(experiment(endpoint, MANY, run="r"), ME)
    with kept_alive(settings):
        until(lambda: len(endpoint.requests) >= 4)
        assert state("r") == "running"
        getattr(queue, how)("r", ME)
        assert state("r") == "stopping"
        found = reaches("r", "paused", "cancelled", "done", "failed")
        assert found.state == {"pause": "paused", "cancel": "cancelled"}[how]
        there = len(asked("r"))
        assert 0 < there < MANY
        assert holder(runs_root() / "r") is None
        endpoint.delay = 0
        (queue.resume if how == "pause" else queue.retry)("r", ME)
        assert reaches("r", "done", "failed").state == "done"
    assert len(asked("r")) == len(set(asked("r"))) == MANY
    assert len(endpoint.requests) <= MANY + 1


def test_what_failed_is_said_and_asked_again_by_retry(queue: Queue, settings: Settings, endpoint: Endpoint) -> None:
    endpoint.script = lambda body, number: (
        web.json_response({"error": {"message": "no"}}, status=400) if number == 2 else None
    )
    queue.submit(experiment(endpoint, run="r"), ME)
    with kept_alive(settings):
        found = reaches("r", "done", "failed")
        assert (found.state, found.exit_code) == ("done", 1)
        assert found.said.startswith("failures: 1 ")
        assert found.ended is not None


def test_what_cannot_be_asked_at_all_has_failed_and_says_why(
    queue: Queue, settings: Settings, endpoint: Endpoint
) -> None:
    queue.submit(experiment(endpoint, run="r", model="another"), ME)
    with kept_alive(settings):
        found = reaches("r", "failed", "done")
    assert (found.state, found.exit_code) == ("failed", 2)
    assert "another" in found.said


@pytest.mark.parametrize(("settings", "seed"), [("sqlite", 1), ("sqlite", 2), ("redis", 3)], indirect=["settings"])
def test_nothing_is_lost_or_asked_twice_whatever_is_killed(
    queue: Queue, settings: Settings, endpoint: Endpoint, seed: int
) -> None:
    """Workers and the processes that ask are killed after numbers of questions that are drawn."""
    draw = random.Random(seed)
    slow(endpoint, 0.1)
    names = [queue.submit(experiment(endpoint, 12, run=f"r{number}"), ME) for number in range(2)]
    with kept_alive(settings):
        for _ in range(4):
            goal = len(endpoint.requests) + draw.randint(1, 6)
            until(lambda goal=goal: len(endpoint.requests) >= goal or all(state(name) == "done" for name in names))
            for what in draw.choice([(WORKER,), (EVAL,), (WORKER, EVAL), (EVAL, WORKER)]):
                for pid in processes(what):
                    kill(pid)
        endpoint.delay = 0
        for name in names:
            assert reaches(name, "done", "failed").state == "done", job(name)
    for name in names:
        assert len(asked(name)) == len(set(asked(name))) == 12


def test_a_process_that_outlives_its_worker_is_waited_for(queue: Queue, settings: Settings, endpoint: Endpoint) -> None:
    slow(endpoint)
    queue.submit(experiment(endpoint, MANY, run="r"), ME)
    with kept_alive(settings):
        until(lambda: len(endpoint.requests) >= 2)
        (pid,) = processes(EVAL)
        (worker,) = processes(WORKER)
        kill(worker)
        until(lambda: [one for one in processes(WORKER) if one != worker])
        assert processes(EVAL) == [pid]
        queue.pause("r", ME)  # the next worker can end it, too
        assert reaches("r", "paused", "done", "failed").state == "paused"
        assert 0 < len(asked("r")) < MANY


@BOTH
def test_what_runs_stops_with_the_workbench_and_goes_on_with_the_next(
    queue: Queue, settings: Settings, endpoint: Endpoint
) -> None:
    slow(endpoint)
    queue.submit(experiment(endpoint, MANY, run="r"), ME)
    with kept_alive(settings):
        until(lambda: len(endpoint.requests) >= 3)
    assert processes(EVAL) == []
    assert processes(WORKER) == []
    found = job("r")
    assert found.state == "queued"
    assert found.said == "stopped with the workbench, and goes on when that is started again"
    assert 0 < len(asked("r")) < MANY
    endpoint.delay = 0
    with kept_alive(settings):
        assert reaches("r", "done", "failed").state == "done"
    assert len(asked("r")) == len(set(asked("r"))) == MANY


@pytest.mark.parametrize("runs", [False, True])
def test_the_end_says_what_it_waits_for_only_where_something_runs(
    queue: Queue,
    settings: Settings,
    endpoint: Endpoint,
    runs: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A worker that has only begun to start takes its time as well, on a slow machine, and has nothing to wait for."""
    monkeypatch.setattr("tomserve.web.keeping.SOON", 0.0)
    slow(endpoint)
    if runs:
        queue.submit(experiment(endpoint, MANY, run="r"), ME)
    with kept_alive(settings):
        until(lambda: len(endpoint.requests) >= 3 if runs else processes(WORKER) != [])
    said = capsys.readouterr().err
    assert ("waits for the answers that are on their way" in said) is runs
    assert processes(WORKER) == []


@BOTH
def test_entries_that_the_queue_has_lost_are_put_back(queue: Queue, settings: Settings, endpoint: Endpoint) -> None:
    queue.submit(experiment(endpoint, run="r"), ME)
    assert queue.entries.all(endpoint.url)
    queue.entries.clear(endpoint.url)
    assert queue.entries.all(endpoint.url) == set()
    with kept_alive(settings):
        assert reaches("r", "done", "failed").state == "done"


def test_a_run_that_a_terminal_asks_is_waited_for(queue: Queue, settings: Settings, endpoint: Endpoint) -> None:
    from tomserve.runs.runfolder import RunFolder

    queue.submit(experiment(endpoint, run="r"), ME)
    with RunFolder(runs_root() / "r"), kept_alive(settings):
        assert "works on this run" in reaches("r", "waiting").said
        queue.pause("r", ME)
    queue.resume("r", ME)
    with kept_alive(settings):
        assert reaches("r", "done", "failed").state == "done"


def test_an_experiment_that_this_workbench_has_not_queued_is_not_asked(
    queue: Queue, settings: Settings, endpoint: Endpoint
) -> None:
    """The card of a run that was downloaded may say that it is queued."""
    queue.submit(experiment(endpoint, run="r"), ME)
    folder = runs_root() / "r"
    file = folder / "experiment.yaml"
    file.write_text(file.read_text().replace("vanilla", "cot"))
    with kept_alive(settings):
        found = reaches("r", "paused", "done", "failed")
        assert (found.state, len(endpoint.requests)) == ("paused", 0)
        assert "has not queued it" in found.said
        queue.resume("r", ME)
        assert reaches("r", "done", "failed").state == "done"


def test_an_experiment_has_no_key_that_it_does_not_name(
    queue: Queue, settings: Settings, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TOMSERVE_API_KEY", "OPENAI_API_KEY", "SOME_API_KEY"):
        monkeypatch.setenv(name, f"sk-{name}-0123456789")
    heard: list[str | None] = []
    own = Endpoint._refused
    monkeypatch.setattr(
        Endpoint,
        "_refused",
        lambda self, request: (heard.append(request.headers.get("Authorization")), own(self, request))[1],
    )
    queue.submit(experiment(endpoint, run="without"), ME)
    queue.submit(experiment(endpoint, run="named", key="TOMSERVE_API_KEY"), ME)
    with kept_alive(settings):
        assert reaches("without", "done", "failed").state == "done"
        assert set(heard) == {None}
        assert reaches("named", "done", "failed").state == "done"
    assert "Bearer sk-TOMSERVE_API_KEY-0123456789" in heard
    assert not any("SOME" in str(one) for one in heard)
    written = b"".join(path.read_bytes() for path in runs_root().rglob("*") if path.is_file())
    assert b"sk-" not in written


def test_progress_of_what_the_worker_has_asked_can_be_read(
    queue: Queue, settings: Settings, endpoint: Endpoint
) -> None:
    queue.submit(experiment(endpoint, run="r"), ME)
    with kept_alive(settings):
        reaches("r", "done", "failed")
    found = read(runs_root() / "r")
    assert found is not None
    assert (found.done, found.total, found.running) == (6, 6, False)
    assert cards.read(runs_root() / "r").job is not None


@pytest.fixture
def workbench() -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Starts `tomserve web`; what still runs when the test ends is killed."""
    begun: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*TOMSERVE, "web", "--port", "0"], env=environment(runs_root()), stdout=subprocess.PIPE, text=True
        )
        begun.append(process)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("workbench: ")
        return process

    yield start
    for process in begun:
        process.kill()
        process.communicate()


def test_a_workbench_that_is_killed_goes_on_when_it_is_started_again(
    endpoint: Endpoint, workbench: Callable[[], subprocess.Popen[str]]
) -> None:
    slow(endpoint)
    queue = queue_of(Settings())
    for name in ("a", "b"):
        queue.submit(experiment(endpoint, MANY, run=name), ME)
    first = workbench()
    until(lambda: len(endpoint.requests) >= 3)
    first.kill()
    until(lambda: not processes(WORKER), "the worker to end with the workbench")
    (pid,) = processes(EVAL)  # goes on
    second = workbench()
    until(lambda: processes(WORKER))
    assert processes(EVAL) == [pid]
    second.terminate()
    assert second.wait(LONG) == 143
    assert processes(EVAL) == []
    assert 0 < len(asked("a")) < MANY
    assert [state(name) for name in ("a", "b")] == ["queued", "queued"]
    endpoint.delay = 0
    workbench()
    for name in ("a", "b"):
        assert reaches(name, "done", "failed").state == "done"
        assert len(asked(name)) == len(set(asked(name))) == MANY
