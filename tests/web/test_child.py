"""The process that asks an experiment, and what it prints."""

import os
from pathlib import Path

import pytest

from tests.conftest import Endpoint
from tests.helpers.queues import Workers, experiment, until
from tomserve.content.paths import runs_root
from tomserve.errors import ConfigError
from tomserve.web import jobs
from tomserve.web.settings import Settings

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
