"""A disk that is full or cannot be written, and files that somebody else changes in mid-run: one line, nothing lost."""

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import Endpoint, make_item
from tests.helpers.command import TOMSERVE, environment
from tomserve.errors import JournalError, MachineError
from tomserve.items import write_items
from tomserve.runs.journal import Journal, read_rows
from tomserve.runs.runfolder import RunFolder

LEFT = (".tomserve-*", ".scoring-*", "tmp*")


@pytest.fixture
def run(endpoint: Endpoint, cli, tmp_path: Path) -> Path:
    """A run of twelve questions that has been asked, and not been scored."""
    write_items(tmp_path / "items.jsonl", [make_item(number) for number in range(12)])
    asked = ("--benchmark", "items", "--path", tmp_path / "items.jsonl", "--base-url", endpoint.url)
    assert cli("eval", *asked, "--run", "r").code == 0
    shutil.rmtree(Path(os.environ["XDG_CACHE_HOME"]) / "tomserve/scores")
    (tmp_path / "runs/r/scores.parquet").unlink()
    return tmp_path / "runs/r"


COMMANDS: dict[str, tuple[str, ...]] = {
    "score": ("score", "r", "--out", "out/scores.csv"),
    "foreign": ("score", "--responses", "runs/r/responses.jsonl", "--items", "items.jsonl", "--out", "out/s.parquet"),
    "analyze": ("analyze", "r", "--study", "accuracy", "--out", "out/tables"),
    "report": ("report", "r", "--out", "out/r.html"),
    "compare": ("compare", "r", "--strategies", "vanilla,cot", "--out", "out/compared"),
    "items": ("items", "items", "--path", "items.jsonl", "--out", "out/i.jsonl"),
    "generate": ("generate", "worlds", "--worlds", "4", "--seed", "5", "--out", "out/w.jsonl"),
    "questionnaire": (
        *("dataset", "questionnaire", "items", "--path", "items.jsonl", "--stories", "4", "--out", "out/forms"),
    ),
}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def nothing_left(folder: Path) -> None:
    assert not [path for name in LEFT for path in folder.rglob(name) if path != folder / "tmp"]


def the_last_line(said: str) -> str:
    *warnings, last = said.splitlines()
    assert all(line.startswith("warning: ") for line in warnings), said
    assert last.startswith("tomserve: "), said
    return last


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with an empty folder for what is written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    return tmp_path


@pytest.fixture
def small_files(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """No file may grow beyond some hundred bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("name", ["score", "foreign", "compare", "items", "questionnaire"])
def test_no_room_for_a_file_is_one_line(run: Path, here: Path, cli, name: str, request) -> None:
    before = contents(run)
    request.getfixturevalue("small_files")
    done = cli(*COMMANDS[name])
    assert done.code in (2, 3), done.err
    assert re.search("File too large|cannot be written", the_last_line(done.err))
    assert contents(run) == before
    nothing_left(here)
    assert not [path for path in (here / "out").rglob("*") if path.is_file() and not path.stat().st_size]


def test_no_folder_for_temporary_files(run: Path, here: Path, cli, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = str(here / "scratch")
    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "tempdir", scratch)
        done = cli(*COMMANDS["foreign"])
    assert done.code == 2, done.err
    assert scratch in the_last_line(done.err)
    nothing_left(here)


# ── somebody else changes the journal in mid-run ────────────────────────────────────────────────────────────────────


def row(number: int) -> dict[str, object]:
    return {"item": f"i{number}", "strategy": "s", "turn": 0, "key": f"k{number}", "status": "ok", "text": "x" * 50}


def test_a_row_that_is_gone_is_told_and_waited_for_by_nobody(tmp_path: Path) -> None:
    path = tmp_path / "responses.jsonl"
    with pytest.raises(JournalError, match="is shorter than it was"), Journal(path) as journal:  # noqa: PT012
        for number in range(5):
            journal.append(row(number))
        os.truncate(path, 10)
        with pytest.raises(JournalError, match="is shorter than it was"):
            journal.find("k3")
    os.truncate(path, 0)
    with pytest.raises(JournalError, match="holds other rows"), Journal(path) as journal:  # noqa: PT012
        journal.append(row(0))
        journal.append(row(1))
        path.write_bytes(b"[]\n" * 300)
        journal.find("k1")


def test_a_file_to_which_somebody_else_appends_is_read_at_the_right_places(tmp_path: Path) -> None:
    path = tmp_path / "responses.jsonl"
    with Journal(path) as journal:
        journal.append(row(0))
        with path.open("ab") as other:
            other.write(b'{"item":"z","strategy":"s","turn":0,"key":"z","status":"ok"}\n')
        journal.append(row(1))
        assert [journal.find(f"k{number}")["item"] for number in (0, 1)] == ["i0", "i1"]  # type: ignore[index]  # both are there
    assert len(list(read_rows(path))) == 3


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (lambda run: os.truncate(run / "responses.jsonl", 100), "is shorter than it was"),
    "removed": (lambda run: (run / "responses.jsonl").unlink(), "is not there any more"),
    "replaced": (lambda run: replace(run), "is another file than before"),
    "folder renamed": (lambda run: rename(run), "is not there any more"),
}


def replace(run: Path) -> None:
    (run / "items.jsonl").rename(run / "responses.jsonl")


def rename(run: Path) -> None:
    run.rename(run.with_name("other"))


@pytest.mark.parametrize("change", CHANGES)
def test_a_journal_that_is_changed_in_mid_run_ends_it(endpoint: Endpoint, cli, tmp_path: Path, change: str) -> None:
    do, said = CHANGES[change]
    endpoint.script = lambda body, n: do(tmp_path / "runs/r") if n == 10 else None
    write_items(tmp_path / "items.jsonl", [make_item(number) for number in range(40)])
    asked = ("--benchmark", "items", "--path", tmp_path / "items.jsonl", "--base-url", endpoint.url)
    done = cli("eval", *asked, "--run", "r", "--concurrency", 2)
    assert done.code == 3, done.err
    assert said in the_last_line(done.err)
    assert done.err.count("\n") == 1


def test_a_place_without_locks_is_said_to_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(descriptor: int, how: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", without)
    with pytest.raises(MachineError, match=r"cannot be locked \(Operation not supported\)"):
        RunFolder(tmp_path / "r")


@pytest.mark.system
@pytest.mark.parametrize("streams", ['"$@" > /dev/full', 'set -o pipefail; "$@" | true', '"$@" <&- >&- 2>&-'])
def test_an_evaluation_goes_on_without_standard_output(endpoint: Endpoint, tmp_path: Path, streams: str) -> None:
    """Where all three streams are closed, the next files that are opened would get their numbers."""
    write_items(tmp_path / "items.jsonl", [make_item(number) for number in range(4)])
    command = [*TOMSERVE, "eval", "--benchmark", "items", "--path", str(tmp_path / "items.jsonl"), "--no-report"]
    command += ["--base-url", endpoint.url, "--run", "r"]
    done = subprocess.run(
        ["bash", "-c", streams, "bash", *command],
        env=environment(tmp_path / "runs"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("standard output cannot be written any more") == ("2>&-" not in streams)
    assert "Traceback" not in done.stderr
    assert len([found for _, found in read_rows(tmp_path / "runs/r/responses.jsonl")]) == 8
    assert (tmp_path / "runs/r/.lock").read_text().strip().isdigit()


@pytest.mark.system
def test_nohup_is_respected(tmp_path: Path) -> None:
    script = "from tomserve.cli import app, main\nimport os, signal\n"
    script += "def command(**options): os.kill(os.getpid(), signal.SIGHUP); print('went on')\napp.build_app = lambda *names: command; main()"
    done = subprocess.run(
        [sys.executable, "-c", script],
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "went on\n", "")
