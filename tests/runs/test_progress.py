"""The record of how far a run is: written by whatever asks, believed by nobody, and never in the way of a run."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

import tomserve
from tests.conftest import Cli, Endpoint, make_item
from tomserve.engine.request import Identity
from tomserve.engine.runner import RunStatus
from tomserve.errors import ServerError
from tomserve.runs import progress
from tomserve.runs.progress import Listener
from tomserve.runs.runfolder import RunFolder

SLOW = Identity("i", "cot", 0, 0)


def row(status: str = "ok") -> dict[str, Any]:
    return {"status": status}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    moment = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: moment[0])
    return moment


def test_a_run_of_a_terminal_is_recorded_to_its_end(cli: Cli, asking: tuple[object, ...]) -> None:
    assert cli(*asking).code == 0
    found = progress.read_progress(Path(os.environ["TOMSERVE_RUNS"]) / "r")
    assert (found.total, found.done, found.written, found.statuses) == (20, 20, 20, {"ok": 20})
    assert (found.phase, found.eta, found.outcome, found.running) == (1, None, "", False)


def test_how_fast_it_goes_lately_and_how_long_it_takes_yet(tmp_path: Path, clock: list[float]) -> None:
    with RunFolder(tmp_path / "r") as folder:
        recording = progress.ProgressRecorder(Listener(), folder.path)
        recording.message("asking m at h")
        recording.begin_phase(1000, 100)
        for second in range(100):
            clock[0] += 1
            for _ in range(1 if second < 50 else 5):
                recording.row(row("timeout" if second == 3 else "ok"))
            recording.status(RunStatus(in_flight=8, limit=16, queue=3, cached=0.5, retrying=2, oldest=(SLOW, 2.0)))
        found = progress.read_progress(folder.path)
        assert (found.done, found.written, found.statuses) == (400, 300, {"ok": 299, "timeout": 1})
        assert (found.rate, found.eta) == (5.0, 120.0)
        assert (found.out, found.limit, found.queue, found.cached, found.retrying) == (8, 16, 3, 0.5, 2)
        assert (found.running, found.doing, found.slowest.strategy) == (True, "asking m at h", "cot")
        clock[0] += 1
        recording.status(RunStatus(pause=90.0))
        found = progress.read_progress(folder.path)
        assert (found.pause, found.eta) == (90.0, None)
        recording.begin_phase(10, 0)
        found = progress.read_progress(folder.path)
        assert (found.phase, found.total, found.done, found.statuses, found.out) == (2, 10, 0, {}, 0)


def test_what_it_ended_by_is_kept_and_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOMSERVE_API_KEY", "sk-0123456789abcdef")

    def ended() -> None:
        with progress.record_progress(Listener(), tmp_path) as listener:
            listener.message("a line with sk-0123456789abcdef")
            raise ServerError("the server said sk-0123456789abcdef")

    with pytest.raises(ServerError):
        ended()
    found = progress.read_progress(tmp_path)
    assert (found.outcome, found.message, found.eta) == ("the server said ***", "a line with ***", None)


@pytest.mark.parametrize("kind", ["folder", "full"])
def test_a_run_needs_no_record(endpoint: Endpoint, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    if kind == "full":
        monkeypatch.setattr(progress, "files", SimpleNamespace(**{**vars(progress.files), "temporary_file": full}))
    items = [make_item(number) for number in range(4)]
    run = tomserve.ask(items, "vanilla", base_url=endpoint.url, run="r")
    assert run.scores().height == 4
    if kind == "folder":
        recording = progress.ProgressRecorder(Listener(), run.folder)
        (run.folder / progress.FILE).unlink()
        (run.folder / progress.FILE).mkdir()
        recording.end("")
    assert progress.read_progress(run.folder) is None


def test_a_record_that_cannot_be_right_is_none(tmp_path: Path) -> None:
    right = {"pid": 1, "began": "", "updated": ""}
    changes: tuple[dict[str, Any], ...] = (
        *({"schema": 2}, {"pid": -1}, {"began": 3}, {"statuses": {"ok": "many"}}, {"message": "x" * 5000}),
        {"statuses": dict.fromkeys(map(str, range(101)), 1)},
    )
    texts = (b"", b"[]", b"{}", b"{", b'"x"', b"\xff\xfe", b"null", b"[" * 100_000)
    numbers = (orjson.dumps(right).replace(b"}", b', "%b}' % more) for more in (b'total": 1e400', b'eta": NaN'))
    for text in (*texts, *numbers, *(orjson.dumps({**right, **change}) for change in changes)):
        (tmp_path / progress.FILE).write_bytes(text)
        assert progress.read_progress(tmp_path) is None, text[:100]
    (tmp_path / progress.FILE).write_bytes(orjson.dumps(right))
    assert progress.read_progress(tmp_path) is not None


def test_a_record_that_another_process_than_the_holder_wrote_is_not_running(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as folder:
        progress.ProgressRecorder(Listener(), folder.path)
        assert (found := progress.read_progress(tmp_path)) is not None
        assert found.running
        record = orjson.loads((tmp_path / progress.FILE).read_bytes())
        (tmp_path / progress.FILE).write_bytes(orjson.dumps({**record, "pid": 1}))
        assert (found := progress.read_progress(tmp_path)) is not None
        assert not found.running


@pytest.mark.system
def test_looking_whether_a_run_is_held_never_keeps_it_from_being_opened(tmp_path: Path) -> None:
    """Each look takes a shared lock for a moment, and there are many looks while experiments begin."""
    (tmp_path / "r").mkdir()
    code = "from tomserve.runs.progress import is_locked; from pathlib import Path; p = Path('r')\nwhile True: is_locked(p)"
    lookers = [subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path) for _ in range(2)]
    try:
        with RunFolder(tmp_path / "r"):
            assert progress.is_locked(tmp_path / "r")
        for _ in range(200):
            with RunFolder(tmp_path / "r"):
                pass
    finally:
        for looker in lookers:
            looker.kill()
            looker.wait()
