"""A disk that is full or cannot be written, and files that somebody else changes in mid-run: one line, nothing lost."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import Endpoint, make_item
from tests.helpers.command import TOMSERVE, environment
from tests.helpers.prepared import prepared
from tomserve.errors import JournalError, MachineError
from tomserve.items import write_items
from tomserve.runs.journal import Journal, read_rows
from tomserve.runs.runfolder import RunFolder

QUOTA = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))"
MAIN = "from tomserve.cli import main; main()"
LEFT = (".tomserve-*", ".scoring-*", "tmp*")


@pytest.fixture
def run(endpoint: Endpoint, cli, tmp_path: Path) -> Path:
    """A run of twelve questions that has been asked, and not been scored."""
    write_items(tmp_path / "items.jsonl", [make_item(number) for number in range(12)])
    asked = ("--benchmark", "items", "--path", tmp_path / "items.jsonl", "--base-url", endpoint.url)
    assert cli("eval", *asked, "--run", "r").code == 0
    for name in ("scores.parquet", "scores.json"):
        (tmp_path / "runs/r" / name).unlink()
    return tmp_path / "runs/r"


COMMANDS: dict[str, tuple[str, ...]] = {
    "score": ("score", "r", "--out", "out/scores.csv"),
    "foreign": ("score", "--responses", "runs/r/responses.jsonl", "--items", "items.jsonl", "--out", "out/s.parquet"),
    "analyze": ("analyze", "r", "--out", "out/tables"),
    "report": ("report", "r", "--out", "out/r.html"),
    "compare": ("compare", "r", "--strategies", "vanilla,cot", "--out", "out/compared"),
    "items": ("items", "items", "--path", "items.jsonl", "--out", "out/i.jsonl"),
    "generate": ("generate", "worlds", "--worlds", "4", "--seed", "5", "--out", "out/w.jsonl"),
    "questionnaire": (
        "dataset",
        "questionnaire",
        "items",
        "--path",
        "items.jsonl",
        "--stories",
        "4",
        "--out",
        "out/forms",
    ),
}


def started(folder: Path, before: str, *arguments: str) -> tuple[int, str]:
    """Run a command after some lines of Python in its process; returns its exit code, and what it said of errors."""
    (folder / "tmp").mkdir(exist_ok=True)
    done = subprocess.run(
        [*prepared(), "-c", f"{before}\n{MAIN}", *arguments],
        cwd=folder,
        env={**environment(folder / "runs"), "TMPDIR": str(folder / "tmp")},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def nothing_left(folder: Path) -> None:
    assert not [path for name in LEFT for path in folder.rglob(name) if path != folder / "tmp"]


def the_last_line(said: str) -> str:
    *warnings, last = said.splitlines()
    assert all(line.startswith("warning: ") for line in warnings), said
    assert last.startswith("tomserve: "), said
    return last


@pytest.mark.parametrize("name", COMMANDS)
def test_no_room_for_a_file_is_one_line(run: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "out").mkdir()
    before = contents(run)
    code, said = started(tmp_path, QUOTA, *COMMANDS[name])
    assert code in (2, 3), said
    assert re.search("File too large|cannot be written", the_last_line(said))
    assert contents(run) == before
    nothing_left(tmp_path)
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file() and not path.stat().st_size]


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Mounts something, and takes it away again; the test is skipped where that is not allowed."""
    places: list[Path] = []

    def mount(place: Path, *options: str) -> None:
        done = subprocess.run(["mount", *options, place], check=False, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"cannot mount here: {done.stderr.strip()}")
        places.append(place)

    yield mount
    for place in reversed(places):
        subprocess.run(["umount", "-l", place], check=False)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_read_only_mount(run: Path, tmp_path: Path, mounted: Callable[..., None], name: str) -> None:
    (tmp_path / "out").mkdir()
    for place in (run, tmp_path / "out"):
        mounted(place, "--bind", str(place))
        mounted(place, "-o", "remount,bind,ro")
    code, said = started(tmp_path, "", *COMMANDS[name])
    assert code in (2, 3), said
    assert "Read-only file system" in the_last_line(said)
    nothing_left(tmp_path)


@pytest.mark.parametrize("name", ["score", "analyze", "compare"])
def test_a_run_that_cannot_be_written_can_be_read(
    run: Path, tmp_path: Path, mounted: Callable[..., None], name: str
) -> None:
    mounted(run, "--bind", str(run))
    mounted(run, "-o", "remount,bind,ro")
    code, said = started(tmp_path, "", name, "r", *(("--strategies", "vanilla,cot") if name == "compare" else ()))
    assert code == 0, said
    nothing_left(tmp_path)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk(run: Path, tmp_path: Path, mounted: Callable[..., None], name: str) -> None:
    (tmp_path / "out").mkdir()
    mounted(tmp_path / "out", "-t", "tmpfs", "-o", "size=8k", "tmpfs")
    (tmp_path / "out/ballast").write_bytes(b"x" * 8192)
    code, said = started(tmp_path, "", *COMMANDS[name])
    assert code in (2, 3), said
    assert re.search("No space left on device|cannot be written", the_last_line(said))
    nothing_left(tmp_path)
    (tmp_path / "out/ballast").unlink()


@pytest.mark.parametrize("place", ["not there", "full"])
def test_no_folder_for_temporary_files(run: Path, tmp_path: Path, mounted: Callable[..., None], place: str) -> None:
    scratch = tmp_path / "scratch"
    if place == "full":
        scratch.mkdir()
        mounted(scratch, "-t", "tmpfs", "-o", "size=4k,nr_inodes=1", "tmpfs")
    before = f"import os, tempfile; os.environ['TMPDIR'] = {str(scratch)!r}; tempfile.tempdir = {str(scratch)!r}"
    code, said = started(tmp_path, before, *COMMANDS["foreign"])
    assert code == 2, said
    assert str(scratch) in the_last_line(said)
    nothing_left(tmp_path)


def test_no_room_to_sort_is_one_line(tmp_path: Path, mounted: Callable[..., None]) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    mounted(scratch, "-t", "tmpfs", "-o", "size=64k", "tmpfs")
    script = (
        "import os; from tomserve.cli import app, main; from tomserve.runs import sorting; sorting.HELD = 1 << 16\n"
        "def command(**options): sorting.places_in_order(os.urandom(1000) for _ in range(3000))\n"
        "app.app = command; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**environment(tmp_path), "SQLITE_TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "cannot be sorted in a temporary file" in the_last_line(done.stderr)
    assert not list(scratch.iterdir())


def test_twelve_score_one_run_at_once(run: Path, tmp_path: Path) -> None:
    before = "from tomserve.scoring import table; table.PART = 2"
    command = [*prepared(), "-c", f"{before}\n{MAIN}", "score", "r"]
    env = environment(tmp_path / "runs")
    several = [subprocess.Popen(command, env=env, stdout=-1, stderr=-1, text=True) for _ in range(12)]
    said = [process.communicate() for process in several]
    assert [process.returncode for process in several] == [0] * 12, said
    assert not [error for _, error in said if "Traceback" in error or "tomserve:" in error]
    nothing_left(tmp_path)


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


def test_what_is_written_to_a_shorter_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "responses.jsonl"
    with pytest.raises(JournalError, match="is shorter"), Journal(path) as journal:  # noqa: PT012
        journal.append(row(0))
        journal.append(row(1))
        os.truncate(path, 0)
        journal.append(row(2))
    assert [found["item"] for _, found in read_rows(path)] == ["i2"]
    assert b"\0" not in path.read_bytes()


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
    "replaced": (lambda run: (run / "items.jsonl").rename(run / "responses.jsonl"), "is another file than before"),
    "folder renamed": (lambda run: run.rename(run.with_name("other")), "is not there any more"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_journal_that_is_changed_in_mid_run_ends_it_in_one_line(
    endpoint: Endpoint, tmp_path: Path, change: str
) -> None:
    endpoint.delay = 0.05
    write_items(tmp_path / "items.jsonl", [make_item(number) for number in range(400)])
    command = ["eval", "--benchmark", "items", "--path", str(tmp_path / "items.jsonl"), "--base-url", endpoint.url]
    command += ["--run", "r", "--no-report", "--concurrency", "2"]
    env, doing = environment(tmp_path / "runs"), CHANGES[change]
    with subprocess.Popen(
        [*prepared(), "-m", "tomserve", *command], env=env, stdout=-3, stderr=-1, text=True
    ) as process:
        deadline = time.monotonic() + 60
        while len(endpoint.requests) < 10 and time.monotonic() < deadline:
            time.sleep(0.02)
        doing[0](tmp_path / "runs/r")
        _, said = process.communicate(timeout=120)
    assert process.returncode == 3, said
    assert doing[1] in the_last_line(said)
    assert said.count("\n") == 1


def test_a_place_without_locks_is_said_to_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(descriptor: int, how: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", without)
    with pytest.raises(MachineError, match=r"cannot be locked \(Operation not supported\)"):
        RunFolder(tmp_path / "r")


@pytest.mark.parametrize("stream", ["/dev/full", "closed", "nobody reads"])
def test_an_evaluation_goes_on_without_standard_output(endpoint: Endpoint, tmp_path: Path, stream: str) -> None:
    write_items(tmp_path / "items.jsonl", [make_item(number) for number in range(4)])
    command = [*TOMSERVE, "eval", "--benchmark", "items", "--path", str(tmp_path / "items.jsonl"), "--no-report"]
    command += ["--base-url", endpoint.url, "--run", "r"]
    line = {"/dev/full": '"$@" > /dev/full', "closed": '"$@" >&-', "nobody reads": 'set -o pipefail; "$@" | true'}
    done = subprocess.run(
        ["bash", "-c", line[stream], "bash", *command],
        env=environment(tmp_path / "runs"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("standard output cannot be written any more") == 1
    assert "Traceback" not in done.stderr
    rows = [found for _, found in read_rows(tmp_path / "runs/r/responses.jsonl")]
    assert len(rows) == 8


def test_what_is_printed_never_stands_in_a_file_of_the_run(endpoint: Endpoint, tmp_path: Path) -> None:
    """Where all three streams are closed, the next files that are opened would get their numbers."""
    write_items(tmp_path / "items.jsonl", [make_item(number) for number in range(4)])
    command = [*TOMSERVE, "eval", "--benchmark", "items", "--path", str(tmp_path / "items.jsonl"), "--no-report"]
    command += ["--base-url", endpoint.url, "--run", "r"]
    done = subprocess.run(["bash", "-c", '"$@" <&- >&- 2>&-', "bash", *command], env=environment(tmp_path / "runs"))
    assert done.returncode == 0
    assert len([found for _, found in read_rows(tmp_path / "runs/r/responses.jsonl")]) == 8
    assert (tmp_path / "runs/r/.lock").read_text().strip().isdigit()


def test_nohup_is_respected(tmp_path: Path) -> None:
    script = "from tomserve.cli import app, main\nimport os, signal\n"
    script += "def command(**options): os.kill(os.getpid(), signal.SIGHUP); print('went on')\napp.app = command; main()"
    done = subprocess.run(
        [sys.executable, "-c", script],
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "went on\n", "")
