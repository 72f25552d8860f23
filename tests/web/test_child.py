"""The process that asks an experiment, and what it prints."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import Endpoint
from tests.helpers.queues import experiment, kill, until
from tomserve.content.places import runs_root
from tomserve.errors import ConfigError
from tomserve.web import child

NAME = "r"


@pytest.fixture
def folder(endpoint: Endpoint) -> Path:
    made = runs_root() / NAME
    given = experiment(endpoint)
    made.mkdir(parents=True)
    (made / "experiment.yaml").write_text(given.text())
    return made


def begun(folder: Path) -> child.Child:
    found = child.begin(NAME, folder, dict(os.environ), 1)
    assert found is not None
    return found


def test_a_run_is_asked_by_one_process_at_a_time(folder: Path) -> None:
    first = begun(folder)
    assert child.alive(NAME)  # from the first moment on
    assert child.begin(NAME, folder, dict(os.environ), 1) is None
    pid = child.left_by(NAME)
    assert pid is not None
    kill(pid)
    until(lambda: not first.alive)
    assert first.code == -9
    assert not child.alive(NAME)
    assert child.left_by(NAME) is None
    again = begun(folder)
    until(lambda: not again.alive)
    assert again.code == 0
    assert child.said(folder).startswith("report: ")


def test_one_that_was_adopted_can_be_ended_and_no_other_process(folder: Path, endpoint: Endpoint) -> None:
    endpoint.delay = 0.2
    first = begun(folder)
    adopted = child.Child(NAME, folder)
    until(lambda: endpoint.requests)
    assert adopted.alive
    adopted.stop()
    until(lambda: not adopted.alive)
    assert adopted.code is None
    assert until(lambda: not first.alive and first.code) == 143
    noted = next((runs_root() / ".web/jobs").iterdir())
    noted.write_text(f"{os.getpid()} another-boot/123\n")
    assert child.left_by(NAME) is None
    child.Child(NAME, folder).stop()  # ends nothing


def test_what_is_printed_is_bounded_and_its_last_line_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert child.said(folder) == ""
    monkeypatch.setenv("TOMSERVE_API_KEY", "sk-0123456789")
    console = folder / child.CONSOLE
    console.write_bytes(b"x" * 5000 + b"\nfailures: 3 timeout\ntomserve: no sk-0123456789 \x1b[31m\xff here\n\n")
    assert child.said(folder) == "no *** \\x1b[31m\N{REPLACEMENT CHARACTER} here"
    assert child.said(folder, "failures: ") == "failures: 3 timeout"
    assert child.said(folder, "other: ") == ""
    child.Child(NAME, folder).bound()
    assert console.stat().st_size > 5000
    monkeypatch.setattr(child, "LONGEST_CONSOLE", 4000)
    child.Child(NAME, folder).bound()
    assert console.stat().st_size == 0


def test_what_it_prints_goes_to_no_other_file(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (folder / child.CONSOLE).symlink_to(tmp_path / "precious")
    with pytest.raises(ConfigError, match="is a symbolic link"):
        begun(folder)
    assert (tmp_path / "precious").read_text() == "mine"
    assert not child.alive(NAME)
    assert child.said(folder) == ""
