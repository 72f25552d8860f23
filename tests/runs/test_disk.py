"""A disk that is full or cannot be written, and files that somebody else changes in mid-run: one line, nothing lost.
Nothing is lost, nothing asked twice: kill -9 at random moments, a server that dies, a power cut, a full disk."""

import functools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web
from tenacity import wait_fixed

from tests.conftest import Endpoint, make_item
from tests.helpers.command import TOMSERVE, environment, journal
from tests.helpers.outcomes import refuses
from tests.helpers.talking import conversing
from tomserve.engine.retry import RetryPolicy
from tomserve.errors import JournalError, MachineError
from tomserve.items import write_items
from tomserve.runs import planning
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
    "compare": ("compare", "r", "--strategies", "vanilla,cot", "--out", "out/compared"),
    "items": ("items", "items", "--path", "items.jsonl", "--out", "out/i.jsonl"),
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


def test_no_room_for_a_file_is_one_line(run: Path, here: Path, cli, request) -> None:
    before = contents(run)
    request.getfixturevalue("small_files")
    for words in COMMANDS.values():
        done = cli(*words)
        assert done.code in (2, 3), done.err
        assert re.search("File too large|cannot be written", the_last_line(done.err))
        assert contents(run) == before, words
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
    "replaced": (lambda run: (run / "items.jsonl").rename(run / "responses.jsonl"), "is another file than before"),
    "folder renamed": (lambda run: run.rename(run.with_name("other")), "is not there any more"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_journal_that_is_changed_in_mid_run_ends_it(endpoint: Endpoint, cli, asking, tmp_path, change: str) -> None:
    do, said = CHANGES[change]
    endpoint.script = lambda body, n: do(tmp_path / "runs/r") if n == 10 else None
    done = cli(*asking, "--concurrency", 2)
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
def test_an_evaluation_goes_on_without_standard_output(asking, tmp_path: Path, streams: str) -> None:
    """Where all three streams are closed, the next files that are opened would get their numbers."""
    command = [*TOMSERVE, *map(str, asking), "--no-report"]
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
    assert len(journal(tmp_path / "runs/r")) == 20
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


def final(tmp_path: Path) -> Counter[tuple[str, str, int]]:
    """How often each turn of each conversation has a final row."""
    rows = journal(tmp_path / "runs/r")
    return Counter((row["item"], row["strategy"], row["turn"]) for row in rows if row["status"] == "ok")


@pytest.mark.system
def test_kill_9_at_random_moments(endpoint: Endpoint, tmp_path: Path, cli) -> None:
    """Of questions, and of conversations between their turns; bench/kill.py does this a hundred times."""
    conversing(tmp_path, items := 8)
    strategies = [part for name in ("vanilla", tmp_path / "two", tmp_path / "fan") for part in ("--strategy", name)]
    where = ("--benchmark", "items", "--path", tmp_path / "items.jsonl", "--base-url", endpoint.url)
    job = [*map(str, ("eval", *where, "--run", "r", "--concurrency", 4, *strategies))]
    command = [sys.executable, "-m", "tomserve", *job, "--no-report"]
    endpoint.delay, moments, kept = 0.01, random.Random(7), set[tuple[str, str, int]]()
    for number in range(3):
        endpoint.hold = lambda body, first=not number: first
        with subprocess.Popen(command, stdout=-3, stderr=-3) as process:
            seen = len(endpoint.requests) + 1 + moments.randrange(12) * (number > 0)
            while len(endpoint.requests) < seen and process.poll() is None:
                time.sleep(0.002)
            if not number:
                refuses(cli(*job), f"pid {process.pid}")
            time.sleep(moments.random() * 0.05)
            process.kill()
        if (tmp_path / "runs/r/responses.jsonl").exists():
            now = set(final(tmp_path))
            assert now >= kept, "a completed row was lost"
            kept = now
    endpoint.hold = lambda body: False
    assert subprocess.run(command, check=False, stdout=-3).returncode == 0, "and the lock of the dead is taken over"
    counts = final(tmp_path)
    assert (len(counts), set(counts.values())) == (items * (1 + 2 + 7), {1})
    closed = Counter((row["item"], row["strategy"]) for row in journal(tmp_path / "runs/r") if "closes" in row)
    assert closed == {(f"demo/{number}", name): 1 for number in range(items) for name in ("two", "fan")}
    assert len(endpoint.requests) <= items * 10 + 3 * 4, "at most what was in flight is asked again"


@pytest.mark.system
def test_a_server_that_stays_away_ends_the_run_resumably(endpoint, cli, asking, tmp_path: Path, monkeypatch) -> None:
    impatient = functools.partial(planning.EvalOptions, policy=RetryPolicy(lost_after=0.5, wait=wait_fixed(0.2)))
    monkeypatch.setattr(planning, "EvalOptions", impatient)
    command = (*asking, "--concurrency", 4)
    endpoint.drop = lambda body: len(endpoint.requests) > 12
    endpoint.script = lambda body, n: web.Response(status=503) if len(endpoint.requests) > 12 else None
    done = cli(*command)
    assert done.code == 3, done.err
    assert "server lost (no answer for" in done.err
    assert "left to ask" in done.err
    kept = set(final(tmp_path))
    assert kept
    endpoint.drop = lambda body: False
    endpoint.script = lambda body, n: None
    assert cli(*command).code in (0, 1)
    assert len(final(tmp_path)) == 20
    assert set(final(tmp_path)) >= kept
