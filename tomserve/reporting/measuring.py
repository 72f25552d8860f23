"""Shows the progress of a long measurement: as a live bar on a terminal, elsewhere as a line every ten seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from tomserve.content.text import sanitize
from tomserve.runs.progress import LOUD

PLAIN_EVERY = 10.0
"""Seconds between two lines of progress where there is no terminal."""

SETTLED = 2.0
"""Seconds after which the rate of a phase says something about the time that is left."""


class MeasureScreen:
    """A MeasureListener (see tomserve.runs.progress) that writes to a console.

    console: where to write. quiet: write only what is noted and begins as one of LOUD. clock: the time in seconds, for
    tests.
    """

    def __init__(self, console: Console, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._quiet, self._clock = console, quiet, clock
        self._name = ""
        self._total = self._done = self._failures = 0
        self._began = self._printed = clock()
        self._live: Progress | None = None

    def phase(self, name: str, total: int) -> None:
        """End the phase before with a line that sums it up, and begin to show another. name: what is done now, in a few
        words. total: in how many steps."""
        self.done()
        self._name, self._total, self._done, self._failures = name, total, 0, 0
        self._began = self._printed = self._clock()
        if self._console.is_terminal and not self._quiet:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[more]}"),
            )
            self._live = Progress(*columns, console=self._console, transient=True)
            self._task = self._live.add_task(name, total=total, more="")
            self._live.start()

    def advance(self, n: int, failures: int = 0) -> None:
        """Show that n more steps are done, `failures` of which came to nothing."""
        self._done += n
        self._failures += failures
        if self._live is not None:
            self._live.update(self._task, completed=self._done, more=self._more())
        elif not self._quiet and self._clock() - self._printed >= PLAIN_EVERY:
            self._printed = self._clock()
            self._line(f"  {self._name}: {self._done:,}/{self._total:,}  {self._more()}")

    def note(self, text: str) -> None:
        """Print a line for the user, above the bar where there is one."""
        if not self._quiet or text.startswith(LOUD):
            self._line(text)

    def done(self) -> None:
        """End the display of the phase with a line that says what was done in which time; nothing where there is none,
        so that it may be called twice."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()
        name, self._name = self._name, ""
        if name and not self._quiet:
            counted = f"{self._done:,}" if self._done >= self._total else f"{self._done:,} of {self._total:,}"
            failed = f", {self._failures:,} failed" if self._failures else ""
            self._line(f"{name}: {counted} in {duration(self._seconds)} ({self._rate:.3g}/s){failed}")

    @property
    def _seconds(self) -> float:
        return max(self._clock() - self._began, 1e-9)

    @property
    def _rate(self) -> float:
        return self._done / self._seconds

    def _more(self) -> str:
        """The rate, what failed, and how long it will still take where that can be said."""
        parts = [f"{self._rate:.3g}/s"]
        if self._failures:
            parts.append(f"{self._failures:,} failed")
        if self._done and self._seconds >= SETTLED and self._done < self._total:
            parts.append(f"about {duration((self._total - self._done) / self._rate)} left")
        return ", ".join(parts)

    def _line(self, text: str) -> None:
        # It may quote a stranger's file, so it must not be able to control the terminal.
        self._console.print(sanitize(text), markup=False, highlight=False, soft_wrap=not self._console.is_terminal)


def duration(seconds: float) -> str:
    """A time as a reader wants it: seconds below two minutes, else minutes, else hours and minutes.

    >>> duration(7.4), duration(150), duration(7300)
    ('7 s', '2 min 30 s', '2 h 1 min')
    """
    whole = timedelta(seconds=round(seconds))
    minutes, rest = divmod(int(whole.total_seconds()), 60)
    if minutes < 2:
        return f"{int(whole.total_seconds())} s"
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
