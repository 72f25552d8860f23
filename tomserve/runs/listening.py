"""Who is told what an evaluation does: a screen, a notebook, a log, or nobody."""

from __future__ import annotations

from collections import Counter
from typing import Any, Protocol

from tomserve.engine.observe import Status


class Listener(Protocol):
    """Told what an evaluation does, always from the thread that does it.

    Between `started` and `finished` lies one phase (see tomserve.runs.phases), and `row` and `status` belong to it.
    """

    def message(self, text: str) -> None:
        """One line for whoever waits: what happens now, or a warning."""
        ...

    def started(self, total: int, done: int) -> None:
        """A phase of `total` rows begins, `done` of which were there before."""
        ...

    def row(self, row: dict[str, Any]) -> None:
        """A row was written."""
        ...

    def status(self, status: Status) -> None:
        """How things are; several times a second."""
        ...

    def finished(self) -> None:
        """The phase has ended, well or not."""
        ...


class Silent:
    """A Listener that says nothing."""

    def message(self, text: str) -> None:
        """See Listener."""

    def started(self, total: int, done: int) -> None:
        """See Listener."""

    def row(self, row: dict[str, Any]) -> None:
        """See Listener."""

    def status(self, status: Status) -> None:
        """See Listener."""

    def finished(self) -> None:
        """See Listener."""


class Tally:
    """Counts what one phase writes and tells its listener: `written` and `reused` rows, `statuses` with how many rows
    each, and `now`, the last status. It is an Observer of the runner."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.written = self.reused = 0
        self.statuses: Counter[str] = Counter()
        self.now = Status()

    def row(self, row: dict[str, Any]) -> None:
        """See Listener."""
        self.written += 1
        self.reused += bool(row["reused"])
        self.statuses[row["status"]] += 1
        self._listener.row(row)

    def status(self, status: Status) -> None:
        """See Listener."""
        self.now = status
        self._listener.status(status)
