"""The register lists runs quickly, by what stands in their folders, and shows nothing that it should not."""

import os
import shutil
from pathlib import Path

import orjson
import pytest

from tests.helpers.examples import copied_run
from tomserve.content.paths import runs_root
from tomserve.errors import NoSuchRunError
from tomserve.runs.manifest import Manifest
from tomserve.runs.runfolder import RunFolder
from tomserve.web import run_index
from tomserve.web.accounts import Person
from tomserve.web.run_index import Card, Job, RunEntry, RunIndex

ME = Person()
ADA, BEN = Person("ada"), Person("ben")


def made(name: str) -> Path:
    folder = runs_root() / name
    return copied_run(folder)


@pytest.fixture
def runs() -> RunIndex:
    return RunIndex()


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_index, "SETTLED", -(10**18))


def names(found: list[RunEntry]) -> set[str]:
    return {line.name for line in found}


def test_a_line_says_what_the_folder_says(runs: RunIndex) -> None:
    folder = made("pilot/first")
    (line,) = runs.lines(ME)
    manifest = Manifest.read(folder)
    assert (line.name, line.kind, line.folder) == ("pilot/first", "answers", folder)
    assert (line.benchmark, line.model, line.made) == (manifest.benchmark, manifest.model, manifest.created)
    assert line.strategies == tuple(manifest.strategies)
    assert line.rows == len((folder / "responses.jsonl").read_bytes().splitlines())
    assert line.size == sum(path.stat().st_size for path in folder.iterdir())
    assert (line.complete, line.running, line.broken, line.card) == (manifest.complete, False, "", Card())
    assert runs.line("pilot/first", ME) == line


@pytest.mark.usefixtures("settled")
def test_only_what_has_changed_is_read_again(runs: RunIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        made(f"r{number}")
    for _ in range(2):  # rows are counted a part at a time
        runs.lines(ME)
    facts, opened = list[str](), list[Path]()
    own, reading = run_index._read_entry, run_index.files.open_for_reading
    monkeypatch.setattr(run_index, "_read_entry", lambda name, folder: (facts.append(name), own(name, folder))[1])
    monkeypatch.setattr(run_index.files, "open_for_reading", lambda path: (opened.append(path), reading(path))[1])
    runs.lines(ME)
    assert facts == opened == []
    run_index.write_card(runs_root() / "r3", Card(notes="look at it"))
    assert runs.line("r3", ME).card.notes == "look at it"
    assert names(runs.lines(ME)) == {f"r{number}" for number in range(5)}
    assert facts == ["r3"]


def test_two_changes_in_the_same_moment_are_seen(runs: RunIndex) -> None:
    """Files that are replaced twice may get the inode, the size and, where a clock is coarse, the time of the first."""
    folder = made("r")
    for number in range(20):
        run_index.write_card(folder, Card(notes=f"{number:02}"))
        assert runs.line("r", ME).card.notes == f"{number:02}"


def test_rows_are_counted_as_they_come(runs: RunIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made("r")
    journal = folder / "responses.jsonl"
    before = runs.line("r", ME).rows
    with journal.open("ab") as file:
        file.write(b"{}\n" * 7)
    assert runs.line("r", ME).rows == before + 7
    journal.write_bytes(b"{}\n" * 3)
    assert runs.line("r", ME).rows == 3
    monkeypatch.setattr(run_index, "AT_ONCE", 1 << 20)
    other = folder / "other"  # beside the journal, so that it cannot be taken for the same file, grown
    other.write_bytes(b"x" * 99 + b"\n" + (b"y" * 99 + b"\n") * 49_999)
    other.replace(journal)
    assert abs(runs.line("r", ME).rows - 50_000) < 500  # by the first megabyte of five
    for _ in range(6):
        found = runs.line("r", ME).rows
    assert found == 50_000


def test_whether_a_process_works_on_it_now(runs: RunIndex) -> None:
    folder = made("r")
    (folder / ".lock").touch()
    assert not runs.line("r", ME).running
    with RunFolder(folder):
        assert runs.line("r", ME).running
    assert not runs.line("r", ME).running


def test_a_broken_run_and_a_broken_card_have_lines_that_say_so(runs: RunIndex) -> None:
    made("good")
    bad = made("bad") / "manifest.json"
    for text in (b"", b"[]", b"{", b"\xff", b'{"kind": 3}', b'{"strategies": "x"}'):
        bad.write_bytes(text)
        found = {line.name: line for line in runs.lines(ME)}
        assert "manifest.json" in found["bad"].broken
        assert str(runs_root()) not in found["bad"].broken
        assert found["good"].broken == ""
    (runs_root() / "good" / run_index.CARD_FILE).write_text('{"owner": 3}')
    assert "workbench.json: owner: " in runs.line("good", ME).broken


def test_a_name_is_no_path_and_what_cannot_be_shown_is_passed_over(runs: RunIndex, tmp_path: Path) -> None:
    made("r")
    made("r/inner")  # what lies in a run is none
    (runs_root() / ".web").mkdir()
    (runs_root() / ".web/manifest.json").write_text("{}")
    for name in (b"a\x80b", b"a\nb", b".hidden", "a\u202eb".encode()):
        copied_run(Path(os.fsdecode(os.fsencode(runs_root()) + b"/" + name)))
    copied_run(tmp_path / "elsewhere/r")
    (runs_root() / "outside").symlink_to(tmp_path / "elsewhere/r")
    (runs_root() / "way").symlink_to(tmp_path / "elsewhere")
    paths = ". .. ../r r/.. r/../r /r //r r/ ./r .web ~ ~/r a\\b r/manifest.json /etc/passwd %2e%2e none outside way/r"
    for name in (*paths.split(), "", "r\0", "r\n", "r/" * 40 + "r", "\udc80", "x" * 300):
        for refused in (lambda name=name: runs.line(name, ME), lambda name=name: run_index.safe_path(name)):
            with pytest.raises(NoSuchRunError, match="there is no run"):
                refused()
    with pytest.raises(NoSuchRunError):
        runs.line("r/inner", ME)
    assert names(runs.lines(ME)) == {"r"}


def test_an_experiment_that_waits_has_a_line(runs: RunIndex) -> None:
    folder = runs_root() / "soon"
    run_index.write_card(folder, Card(owner="ada", job=Job(submitted="2026-11-23T12:00:00Z")))
    (folder / "experiment.yaml").write_text("model: m\nbenchmark: perturbed\nstrategy: [cot]\n")
    (line,) = runs.lines(ME)
    assert (line.kind, line.model, line.benchmark, line.strategies) == ("", "m", "perturbed", ("cot",))
    assert line.card.job is not None


def test_the_newest_comes_first(runs: RunIndex) -> None:
    for name, moment in (("old", "2020-01-01T00:00:00Z"), ("new", "2030-01-01T00:00:00Z")):
        path = made(name) / "manifest.json"
        path.write_bytes(orjson.dumps({**orjson.loads(path.read_bytes()), "created": moment}))
    run_index.write_card(runs_root() / "soon", Card(job=Job(submitted="2025-01-01T00:00:00Z")))
    assert [line.name for line in runs.lines(ME)] == ["new", "soon", "old"]


def test_a_run_that_is_gone_has_no_line(runs: RunIndex) -> None:
    for number in range(3):
        made(f"r{number}")
    assert len(runs.lines(ME)) == 3
    shutil.rmtree(runs_root() / "r1")
    assert names(runs.lines(ME)) == {"r0", "r2"}
