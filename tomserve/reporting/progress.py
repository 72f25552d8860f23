"""Progress of a run: a live bar on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PLAIN_EVERY = 5.0  # seconds


class RunProgress:
    """An Observer of the runner (see tomserve.engine.runner). `done` rows were there before."""

    def __init__(self, console: Console, total: int, done: int, *, quiet: bool = False) -> None:
        self.console, self.total, self.before, self.quiet = console, total, done, quiet
        self.statuses: Counter[str] = Counter()
        self.written = self.reused = self.in_flight = self.waiting = 0
        self._began = self._printed = time.monotonic()
        self._live: Progress | None = None
        if console.is_terminal and not quiet:
            columns = (TextColumn("asking"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[more]}"))
            self._live = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
            self._task = self._live.add_task("asking", total=total, completed=done, more="")

    def __enter__(self) -> RunProgress:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    @property
    def rate(self) -> float:
        """Rows a second since the start."""
        return self.written / max(time.monotonic() - self._began, 1e-9)

    @property
    def failures(self) -> dict[str, int]:
        """Rows of this session that are neither ok nor length, by status."""
        return {status: count for status, count in sorted(self.statuses.items()) if status not in ("ok", "length")}

    def row(self, status: str, reused: bool) -> None:
        """See Observer."""
        self.written += 1
        self.reused += reused
        self.statuses[status] += 1
        self._show()

    def sending(self, delta: int) -> None:
        """See Observer."""
        self.in_flight += delta

    def retrying(self, delta: int) -> None:
        """See Observer."""
        self.waiting += delta
        self._show()

    def _more(self) -> str:
        parts = [f"{self.rate:.1f}/s", f"{self.in_flight} in flight"]
        if self.waiting:
            parts.append(f"{self.waiting} waiting to retry")
        parts += [f"{count} {status}" for status, count in self.failures.items()]
        return ", ".join(parts)

    def _show(self) -> None:
        done = self.before + self.written
        if self._live:
            self._live.update(self._task, completed=done, more=self._more())
        elif not self.quiet and time.monotonic() - self._printed >= PLAIN_EVERY:
            self._printed = time.monotonic()
            left = (self.total - done) / self.rate if self.written else float("nan")
            self.console.print(f"  {done}/{self.total}  {self._more()}, about {left:.0f} s left", markup=False)
