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
    shutil.copytree(ROOT / "runs/example", folder)
    return folder


@pytest.fixture
def runs() -> Register:
    return Register(Settings().folder)


def names(found: list[Line]) -> set[str]:
    return {line.name for line in found}


def settled() -> None:
    """Wait until files that were written are remembered, too."""
    time.sleep(2 * register.SETTLED / 1e9)


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
    settled()
    runs.lines(ME)
    read: list[str] = []
    own = register._facts
    monkeypatch.setattr(register, "_facts", lambda folder: (read.append(folder.name), own(folder))[1])
    runs.lines(ME)
    Register(Settings().folder).lines(ME)  # another process finds what the first one has kept
    assert read == []
    cards.write(runs_root() / "r3", Card(notes="look at it"))
    settled()
    assert runs.line("r3", ME).card.notes == "look at it"
    assert names(runs.lines(ME)) == {f"r{number}" for number in range(5)}
    assert read == ["r3"]


def test_two_changes_in_the_same_moment_are_seen(runs: Register) -> None:
    """Files that are replaced twice may get the inode, the size and, where a clock is coarse, the time of the first."""
    folder = made("r")
    for number in range(60):
        cards.write(folder, Card(notes=f"{number:02}"))
        assert runs.line("r", ME).card.notes == f"{number:02}"


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


def test_a_broken_card_has_a_line_that_says_so(runs: Register) -> None:
    (made("bad") / cards.FILE).write_text('{"owner": 3}')
    assert "workbench.json: owner: " in runs.line("bad", ME).broken


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


def test_folders_whose_names_cannot_be_shown_are_passed_over(runs: Register) -> None:
    made("r")
    for name in (b"a\x80b", b"a\nb", b".hidden", "a\u202eb".encode()):
        shutil.copytree(ROOT / "runs/example", os.fsdecode(os.fsencode(runs_root()) + b"/" + name))
    assert names(runs.lines(ME)) == {"r"}


def test_what_lies_in_a_run_is_no_run(runs: Register) -> None:
    made("r")
    made("r/inner")
    assert names(runs.lines(ME)) == {"r"}
    with pytest.raises(NoSuchRunError):
        runs.line("r/inner", ME)


def test_a_measurement_belongs_to_whom_the_run_belongs_that_it_measures(runs: Register, endpoint: Endpoint) -> None:
    items = list(tomserve.load("perturbed"))
    endpoint.script = Answerer(items, follows=1.0, wrong=0.15)
    run = tomserve.ask("perturbed", "cot", base_url=endpoint.url, run="mine", limit=60)
    cards.write(run.folder, Card(owner="ada", private=True))
    measure(Measuring(run=run.folder, limit=3), Connection(base_urls=(endpoint.url,)))
    assert names(runs.lines(ADA)) == {"mine", "faithfulness-mine"}
    line = runs.line("faithfulness-mine", ADA)
    assert (line.kind, line.of, line.card.owner) == ("measured", "mine", "ada")
    assert names(runs.lines(BEN)) == set()
    with pytest.raises(NoSuchRunError):
        runs.line("faithfulness-mine", BEN)


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


def damaged(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)


def torn(path: Path) -> None:
    text = path.read_bytes()
    path.write_bytes(text[: len(text) // 2] + b"\0" * (len(text) // 2))


def foreign(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as base:
        base.execute("create table runs (a, b)")
        base.execute("insert into runs values (1, 2)")


def not_ours(path: Path) -> None:
    path.unlink()
    path.write_text("hello")


def linked(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def wrong(path: Path) -> None:
    with sqlite3.connect(path) as base:
        base.execute("update runs set facts = ?, stamp = ?", (b"[1]", b"3"))


@pytest.mark.parametrize("how", [damaged, torn, foreign, not_ours, linked, piped, wrong])
def test_a_database_that_cannot_be_used_is_made_anew(runs: Register, how: object) -> None:
    made("r")
    settled()
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


def test_without_a_database_the_register_goes_on(runs: Register) -> None:
    made("r")
    (Settings().folder / "register.db").mkdir(parents=True)
    assert names(runs.lines(ME)) == {"r"}


def test_rebuilding_changes_nothing(runs: Register) -> None:
    for number in range(3):
        made(f"r{number}")
    before = runs.lines(ME)
    assert runs.rebuild() == 3
    assert runs.lines(ME) == before
    shutil.rmtree(runs_root() / "r1")
    assert names(runs.lines(ME)) == {"r0", "r2"}
    assert Register(Settings().folder).rebuild() == 2


def test_threads_and_processes_use_it_at_once(runs: Register) -> None:
    for number in range(10):
        made(f"r{number}")
    code = (
        "from tomserve.web.register import Register; from tomserve.web.settings import Settings\n"
        "from tomserve.web.people import Person\n"
        "print(all(len(Register(Settings().folder).lines(Person())) == 10 for _ in range(20)))"
    )
    others = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    found: list[bool] = []

    def look() -> None:
        for number in range(60):
            cards.change(
                runs_root() / f"r{number % 10}", lambda card: card.model_copy(update={"notes": card.notes + "x"})
            )
            found.append(len(runs.lines(ME)) == 10 and runs.line("r1", ME).name == "r1")

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 240
    assert sum(len(line.card.notes) for line in runs.lines(ME)) == 240  # no change was lost
    for other in others:
        assert other.communicate()[0].strip() == "True"


def test_hundreds_of_runs_are_listed_without_reading_any(runs: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(200):
        made(f"r{number:03}")
    settled()
    for _ in range(10):  # rows are counted a part at a time
        runs.lines(ME)
    read: list[Path] = []
    own = memory.files.reading
    monkeypatch.setattr(memory.files, "reading", lambda path: (read.append(path), own(path))[1])
    assert len(runs.lines(ME)) == 200
    assert read == []
