"""Progress of a run and of a measurement, as a bar or in lines."""

import io
import re

import pytest
from rich.console import Console

from tomserve.engine.request import Identity
from tomserve.engine.runner import RunStatus
from tomserve.reporting import progress
from tomserve.reporting.progress import MeasureScreen, RunScreen
from tomserve.runs.progress import MeasureListener

ROW = {"status": "ok", "reused": False, "attempts": 2, "usage": {"prompt": 300, "completion": 9, "cached": 200}}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.0)
    return io.StringIO()


def begun(console: Console, total: int, done: int) -> RunScreen:
    screen = RunScreen(console)
    screen.begin_phase(total, done)
    return screen


def watch(shown: io.StringIO, **changes: object) -> RunScreen:
    watched = begun(Console(file=shown, width=300), 100, 10)
    watched.row(ROW)
    watched.status(RunStatus(**{"in_flight": 12, "limit": 16, "limit_found": True, **changes}))
    return watched


def test_the_line_tells_what_is_known_and_no_more(shown: io.StringIO) -> None:
    watch(shown)
    assert not {"queue", "cached", "limit", "slowest"} & set(shown.getvalue().replace(",", " ").split())
    slow = (Identity("C1\x1b[2J", "cot", 0), 31.0)
    watch(shown, queue=3, cached=0.66, retrying=2, pause=38.2, client_bound=True, oldest=slow)
    assert "11/100" in shown.getvalue()
    paused = r"2 waiting to retry, paused by the server until \d\d:\d\d:\d\d \(38 s\), this client is the limit"
    assert re.search(f"12 in flight, queue 3, 66% cached, {paused}", shown.getvalue())
    assert [" left" in line for line in shown.getvalue().splitlines()] == [True, False], "a pause has no end of the run"
    assert r"slowest C1\x1b[2J (cot) 31 s" in shown.getvalue()


def test_the_summary_sets_the_cached_share_beside_the_bound(shown: io.StringIO) -> None:
    summary = watch(shown, cached=0.66, shareable=0.7).summary()
    assert "(66% cached, about 70% shareable)" in summary
    assert "concurrency found: 16" in summary
    assert "1 retries" in summary
    assert "found" not in watch(shown, limit_found=False).summary(), "a fixed concurrency"


def test_the_total_grows_with_the_requests_that_programs_find_out(shown: io.StringIO) -> None:
    progress = begun(Console(file=shown, width=120), 10, 2)
    progress.status(RunStatus(extra_requests=30))
    assert progress.total == 40
    progress.row({"status": "ok", "reused": False, "attempts": 1, "usage": None})
    progress.status(RunStatus(extra_requests=29))
    assert "  3/39  " in shown.getvalue()


def test_quiet_shows_warnings_and_what_answers_a_signal_alone() -> None:
    file = io.StringIO()
    screen = RunScreen(Console(file=file, width=300), quiet=True)
    screen.message("3 of 4 questions left")
    screen.begin_phase(4, 1)
    screen.row(ROW)
    screen.end_phase()
    assert file.getvalue() == ""
    said = ["warning: torn", "stopping: waiting", "change: another model", "accepted change: another model"]
    for text in said:
        screen.message(text)
    assert file.getvalue().splitlines() == said


class Clock:
    """A time that only goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def measure(screen: MeasureListener, clock: Clock) -> None:
    """A hundred steps of a second each, in one phase, and a second phase that is left early."""
    screen.phase("reading states", 100)
    for _ in range(100):
        clock.now += 1
        screen.advance(1)
    screen.note("the map of layer 3 is [none] at all")
    screen.phase("moving states", 50)
    clock.now += 4
    screen.advance(20)
    screen.done()
    screen.done()


def shown_phases(*, quiet: bool = False, terminal: bool = False) -> str:
    file, clock = io.StringIO(), Clock()
    console = Console(file=file, width=80, force_terminal=terminal, color_system=None)
    measure(MeasureScreen(console, quiet=quiet, clock=clock), clock)
    return file.getvalue()


END = ["reading states: 100 in 100 s (1/s)", "moving states: 20 of 50 in 4 s (5/s)"]


def test_without_a_terminal_there_is_a_line_every_ten_seconds() -> None:
    lines = shown_phases().splitlines()
    assert lines[0] == "  reading states: 10/100  1/s, about 90 s left"
    assert lines[4] == "  reading states: 50/100  1/s, about 50 s left"
    assert lines[9] == "  reading states: 100/100  1/s"
    assert lines[10:] == ["the map of layer 3 is [none] at all", *END]


def test_a_phase_of_nothing_and_a_clock_that_stands_are_no_error() -> None:
    file, clock = io.StringIO(), Clock()
    screen = MeasureScreen(Console(file=file, width=80), clock=clock)
    screen.phase("nothing", 0)
    screen.done()
    assert file.getvalue() == "nothing: 0 in 0 s (0/s)\n"
