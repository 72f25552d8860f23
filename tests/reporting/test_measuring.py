"""What a person sees while something is measured: on a terminal, in a file, and where nobody wants to see it."""

import io

import pytest
from rich.console import Console

from tomserve.reporting.progress import MeasureScreen, duration
from tomserve.runs.progress import MeasureListener


class Clock:
    """A time that only goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def measure(screen: MeasureListener, clock: Clock) -> None:
    """A hundred steps of a second each, in one phase, and a second phase that is left early."""
    screen.phase("reading states", 100)
    for step in range(100):
        clock.now += 1
        screen.advance(1, failures=int(step == 40))
    screen.note("the map of layer 3 is [none] at all")
    screen.phase("moving states", 50)
    clock.now += 4
    screen.advance(20)
    screen.done()
    screen.done()


def shown(*, quiet: bool = False, terminal: bool = False) -> str:
    file, clock = io.StringIO(), Clock()
    console = Console(file=file, width=80, force_terminal=terminal, color_system=None)
    measure(MeasureScreen(console, quiet=quiet, clock=clock), clock)
    return file.getvalue()


END = ["reading states: 100 in 100 s (1/s), 1 failed", "moving states: 20 of 50 in 4 s (5/s)"]


def test_without_a_terminal_there_is_a_line_every_ten_seconds() -> None:
    lines = shown().splitlines()
    assert lines[0] == "  reading states: 10/100  1/s, about 90 s left"
    assert lines[4] == "  reading states: 50/100  1/s, 1 failed, about 50 s left"
    assert lines[9] == "  reading states: 100/100  1/s, 1 failed"
    assert lines[10:] == ["the map of layer 3 is [none] at all", *END]


def test_quiet_leaves_warnings_alone() -> None:
    assert shown(quiet=True) == ""
    file = io.StringIO()
    MeasureScreen(Console(file=file), quiet=True).note("warning: the disk is nearly full")
    assert file.getvalue() == "warning: the disk is nearly full\n"


def test_a_terminal_shows_a_bar_with_the_rate_and_the_time_left() -> None:
    text = shown(terminal=True)
    assert "reading states" in text
    assert "100/100" in text
    for line in END:
        assert line in text


def test_a_phase_of_nothing_and_a_clock_that_stands_are_no_error() -> None:
    file, clock = io.StringIO(), Clock()
    screen = MeasureScreen(Console(file=file, width=80), clock=clock)
    screen.phase("nothing", 0)
    screen.done()
    assert file.getvalue() == "nothing: 0 in 0 s (0/s)\n"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "0 s"),
        (119.4, "119 s"),
        (119.6, "2 min 0 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h 0 min"),
        (90000, "25 h 0 min"),
    ],
)
def test_times_are_said_as_a_reader_wants_them(seconds: float, said: str) -> None:
    assert duration(seconds) == said
