"""What a person sees while a run goes on, and at its end."""

import io
import re

import pytest
from rich.console import Console

from tomserve.engine.request import Identity
from tomserve.engine.runner import RunStatus
from tomserve.reporting import progress
from tomserve.reporting.progress import RunProgress, RunScreen

ROW = {"status": "ok", "reused": False, "attempts": 2, "usage": {"prompt": 300, "completion": 9, "cached": 200}}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.0)
    return io.StringIO()


def watch(shown: io.StringIO, **changes: object) -> RunProgress:
    watched = RunProgress(Console(file=shown, width=300), 100, 10)
    watched.row(ROW)
    watched.status(RunStatus(**{"in_flight": 12, "limit": 16, "limit_found": True, **changes}))
    return watched


def test_the_line_tells_what_is_known_and_no_more(shown: io.StringIO) -> None:
    watch(shown)
    assert not {"queue", "cached", "limit", "slowest"} & set(shown.getvalue().replace(",", " ").split())
    slow = (Identity("C1\x1b[2J", "cot", 0), 31.0)
    watch(shown, queue=3, cached=0.66, retrying=2, client_bound=True, oldest=slow)
    assert "11/100" in shown.getvalue()
    assert "12 of 16 in flight, queue 3, 66% cached, 2 waiting to retry, this client is the limit" in shown.getvalue()
    assert r"slowest C1\x1b[2J (cot) 31 s" in shown.getvalue()


def test_the_summary_sets_the_cached_share_beside_the_bound(shown: io.StringIO) -> None:
    summary = watch(shown, cached=0.66, shareable=0.7).summary()
    assert "(66% cached, about 70% shareable)" in summary
    assert "concurrency found: 16" in summary
    assert "1 retries" in summary
    assert "found" not in watch(shown, limit_found=False).summary(), "a fixed concurrency"


def test_the_total_grows_with_the_requests_that_programs_find_out(shown: io.StringIO) -> None:
    progress = RunProgress(Console(file=shown, width=120), total=10, done=2)
    progress.status(RunStatus(extra_requests=30))
    assert progress.total == 40
    progress.row({"status": "ok", "reused": False, "attempts": 1, "usage": None})
    progress.status(RunStatus(extra_requests=29))
    assert "  3/39  " in shown.getvalue()


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_terminal_shows_everything_below_the_bar(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, legacy_windows=False)
    with RunProgress(console, 2176, 10) as watched:
        watched.row(ROW)
        more = {"queue": 3, "cached": 0.66, "retrying": 2, "oldest": (Identity("C1/late_label/q", "cot", 0), 31.0)}
        watched.status(RunStatus(**{"in_flight": 12, "limit": 16, "client_bound": True, **more}))
        assert watched._live is not None
        with console.capture() as captured:
            console.print(watched._live.get_renderable())
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", captured.get()).splitlines()
    assert max(map(len, lines)) <= width
    said = " ".join(" ".join(lines).split())
    assert "11/2176" in said
    assert "…" not in said
    assert "12 of 16 in flight, queue 3, 66% cached, 2 waiting to retry, this client is the limit, slowest" in said
    assert "C1/late_label/q (cot) 31 s" in said


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
