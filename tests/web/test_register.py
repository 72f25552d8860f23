"""The register lists runs quickly, by what stands in their folders, and shows nothing that it should not."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import orjson
import pytest

import tomserve
from tests.conftest import ROOT, Endpoint
from tests.helpers.answerers import Answerer
from tomserve.content.places import runs_root
from tomserve.errors import NoSuchRunError
from tomserve.faithfulness.running import measure
from tomserve.faithfulness.settings import Connection
from tomserve.faithfulness.settings import Settings as Measuring
from tomserve.runs.manifest import Manifest
from tomserve.runs.runfolder import RunFolder
from tomserve.web import cards, memory, register
from tomserve.web.cards import Card, Job
from tomserve.web.people import Person
from tomserve.web.register import Line, Register
from tomserve.web.settings import Settings

ME = Person()
ADA, BEN = Person("ada"), Person("ben")


def made(name: str) -> Path:
    """A copy of the committed run under that name."""
    folder = runs_root() / name
    return copied_run(folder)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Register:
    monkeypatch.setattr(register, "SETTLED", -1)  # as if all were written long ago
    monkeypatch.setattr(memory, "SETTLED", -1, raising=False)
    return Register(Settings().folder)


def names(found: list[Line]) -> set[str]:
    return {line.name for line in found}


def test_a_line_says_what_the_folder_says(runs: Register) -> None:
    folder = made("pilot/first")
    (line,) = runs.lines(ME)
    manifest = Manifest.read(folder)
    assert manifest is not None
    assert (line.name, line.kind, line.folder) == ("pilot/first", "answers", folder)
    assert (line.benchmark, line.model, line.made) == (manifest.benchmark, manifest.model, manifest.created)
    assert line.strategies == tuple(manifest.strategies)
    assert line.rows == len((folder / "responses.jsonl").read_bytes().splitlines())
    assert line.size == sum(path.stat().st_size for path in folder.iterdir())
    assert (line.complete, line.running, line.broken, line.card) == (manifest.complete, False, "", Card())
    assert runs.line("pilot/first", ME) == line


def test_only_what_has_changed_is_read_again(runs: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        made(f"r{number}")
    runs.lines(ME)
    read: list[str] = []
    own = register._facts
    monkeypatch.setattr(register, "_facts", lambda folder: (read.append(folder.name), own(folder))[1])
    runs.lines(ME)
    Register(Settings().folder).lines(ME)  # another process finds what the first one has kept
    assert read == []
    cards.write(runs_root() / "r3", Card(notes="look at it"))
    assert runs.line("r3", ME).card.notes == "look at it"
    assert names(runs.lines(ME)) == {f"r{number}" for number in range(5)}
    assert read == ["r3"]


def test_rows_are_counted_as_they_come(runs: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made("r")
    journal = folder / "responses.jsonl"
    before = runs.line("r", ME).rows
    with journal.open("ab") as file:
        file.write(b"{}\n" * 7)
    assert runs.line("r", ME).rows == before + 7
    journal.write_bytes(b"{}\n" * 3)
    assert runs.line("r", ME).rows == 3
    monkeypatch.setattr(memory, "AT_ONCE", 1 << 20)
    other = folder / "other"  # beside the journal, so that it cannot be taken for the same file, grown
    other.write_bytes(b"x" * 99 + b"\n" + (b"y" * 99 + b"\n") * 49_999)
    other.replace(journal)
    assert abs(runs.line("r", ME).rows - 50_000) < 500  # by the first megabyte of five
    for _ in range(6):
        found = runs.line("r", ME).rows
    assert found == 50_000


def test_whether_a_process_works_on_it_now(runs: Register) -> None:
    folder = made("r")
    (folder / ".lock").touch()
    assert not runs.line("r", ME).running
    with RunFolder(folder):
        assert runs.line("r", ME).running
    assert not runs.line("r", ME).running


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff", b'{"kind": 3}', b'{"strategies": "x"}'])
def test_a_broken_run_has_a_line_that_says_so(runs: Register, text: bytes) -> None:
    made("good")
    (made("bad") / "manifest.json").write_bytes(text)
    found = {line.name: line for line in runs.lines(ME)}
    assert "manifest.json" in found["bad"].broken
    assert str(runs_root()) not in found["bad"].broken
    assert found["good"].broken == ""


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../r", "r/..", "r/../r", "/r", "//r", "r/", "./r", ".web", "~", "~/r", "r\0", "r\n", "a\\b", "x" * 300,
     "r/manifest.json", "/etc/passwd", "%2e%2e", "none", "r/" * 40 + "r", "\udc80", "outside", "way/r"],
)  # fmt: skip
def test_a_name_is_no_path(runs: Register, tmp_path: Path, name: str) -> None:
    made("r")
    (runs_root() / ".web").mkdir()
    (runs_root() / ".web/manifest.json").write_text("{}")
    shutil.copytree(ROOT / "runs/example", tmp_path / "elsewhere/r")
    (runs_root() / "outside").symlink_to(tmp_path / "elsewhere/r")
    (runs_root() / "way").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NoSuchRunError, match="there is no run"):
        runs.line(name, ME)
    with pytest.raises(NoSuchRunError):
        register.safe_path(name)
    assert names(runs.lines(ME)) == {"r"}


def test_an_experiment_that_waits_has_a_line(runs: Register) -> None:
    folder = runs_root() / "soon"
    cards.write(folder, Card(owner="ada", job=Job(submitted="2026-11-23T12:00:00Z")))
    (folder / "experiment.yaml").write_text("model: m\nbenchmark: perturbed\nstrategy: [cot]\n")
    (line,) = runs.lines(ME)
    assert (line.kind, line.model, line.benchmark, line.strategies) == ("", "m", "perturbed", ("cot",))
    assert line.card.job is not None


def test_the_newest_comes_first(runs: Register) -> None:
    for name, moment in (("old", "2020-01-01T00:00:00Z"), ("new", "2030-01-01T00:00:00Z")):
        path = made(name) / "manifest.json"
        path.write_bytes(orjson.dumps({**orjson.loads(path.read_bytes()), "created": moment}))
    cards.write(runs_root() / "soon", Card(job=Job(submitted="2025-01-01T00:00:00Z")))
    assert [line.name for line in runs.lines(ME)] == ["new", "soon", "old"]


def torn(path: Path) -> None:
    text = path.read_bytes()
    path.write_bytes(text[: len(text) // 2] + b"\0" * (len(text) // 2))


def not_ours(path: Path) -> None:
    path.unlink()
    path.write_text("hello")


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("how", [damaged, torn, foreign, not_ours, linked, piped, wrong])
def test_a_database_that_cannot_be_used_is_made_anew(runs: Register, how: object) -> None:
    made("r")
    before = runs.lines(ME)
    path = Settings().folder / "register.db"
    runs._memory._close()
    for beside in ("-wal", "-shm"):
        path.with_name(path.name + beside).unlink(missing_ok=True)
    with sqlite3.connect(path) as base:
        base.execute("select 1")
    how(path)  # type: ignore[operator]
    assert Register(Settings().folder).lines(ME) == before
    assert Register(Settings().folder).lines(ME) == before
    with sqlite3.connect(path) as base:
        assert base.execute("select name from runs").fetchall() == [("r",)]


def test_rebuilding_changes_nothing(runs: Register) -> None:
    for number in range(3):
        made(f"r{number}")
    before = runs.lines(ME)
    assert runs.rebuild() == 3
    assert runs.lines(ME) == before
    shutil.rmtree(runs_root() / "r1")
    assert names(runs.lines(ME)) == {"r0", "r2"}
    assert Register(Settings().folder).rebuild() == 2
