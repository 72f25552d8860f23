"""The listener: whoever is told what an evaluation or a measurement does, such as a screen, a log, or nobody."""

from __future__ import annotations

from collections import Counter
from typing import Any, Protocol

from tomserve.engine.records import MASKED
from tomserve.engine.runner import RunStatus
from tomserve.status import KINDS, strange_reason

LOUD = ("warning: ", "stopping: ", "change: ", "accepted change: ")
"""How those lines begin that are shown to a user who wants to see no progress."""


class Listener(Protocol):
    """Something that is told what an evaluation does. Its methods are called from the thread that evaluates.

    An evaluation has one or several phases (see tomserve.runs.phases). `started` begins a phase and `finished` ends it;
    every `row` and `status` between them belongs to that phase.
    """

    def message(self, text: str) -> None:
        """Called with one line for the user: what happens now, or something that begins as one of LOUD."""
        ...

    def started(self, total: int, done: int) -> None:
        """Called when a phase of `total` rows begins, of which `done` were there before."""
        ...

    def row(self, row: dict[str, Any]) -> None:
        """Called for every row that was written to the journal."""
        ...

    def status(self, status: RunStatus) -> None:
        """Called several times a second with what the run is doing."""
        ...

    def finished(self) -> None:
        """Called when the phase has ended, whether everything was asked or not."""
        ...


class MeasureListener(Protocol):
    """Something that is told how far a long measurement is. It consists of phases, one after the other."""

    def phase(self, name: str, total: int) -> None:
        """Called when a phase begins. name: what is done now, such as "reading states". total: in how many steps."""
        ...

    def advance(self, n: int, failures: int = 0) -> None:
        """Called when n more steps of the phase are done. failures: how many of these n came to nothing."""
        ...

    def note(self, text: str) -> None:
        """Called with one line for the user: what happens now, or something that begins as one of LOUD."""
        ...

    def done(self) -> None:
        """Called when the last phase has ended, whether everything was measured or not."""
        ...


class Unheard:
    """A MeasureListener that shows nothing."""

    def phase(self, name: str, total: int) -> None:
        """Ignore the beginning of a phase."""

    def advance(self, n: int, failures: int = 0) -> None:
        """Ignore the steps."""

    def note(self, text: str) -> None:
        """Ignore the line."""

    def done(self) -> None:
        """Ignore the end."""


class Silent:
    """A Listener that shows nothing."""

    def message(self, text: str) -> None:
        """Ignore the message."""

    def started(self, total: int, done: int) -> None:
        """Ignore the beginning of a phase."""

    def row(self, row: dict[str, Any]) -> None:
        """Ignore the row that was written."""

    def status(self, status: RunStatus) -> None:
        """Ignore what the run is doing."""

    def finished(self) -> None:
        """Ignore the end of a phase."""


class Tally:
    """Counts the rows of one phase and passes everything on to a listener; it is the runner's Observer.

    written: how many rows were written.
    reused: how many of them repeat the answer to an equal request.
    statuses: how many rows have which status.
    masked: how many of them are replies in which the API key stood.
    strange: how many whole texts ended for which reason of a name that is not known; of many names only the first.
    now: the last status of the run that was reported.
    """

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.written = self.reused = self.masked = 0
        self.statuses: Counter[str] = Counter()
        self.strange: Counter[str] = Counter()
        self.now = RunStatus()

    def row(self, row: dict[str, Any]) -> None:
        """Count a row that was written, and pass it on."""
        self.written += 1
        self.reused += bool(row["reused"])
        self.masked += MASKED in row
        self.statuses[row["status"]] += 1
        if strange_reason(reason := row["finish_reason"]) and (reason in self.strange or len(self.strange) < KINDS):
            self.strange[reason] += 1
        self._listener.row(row)

    def status(self, status: RunStatus) -> None:
        """Keep what the run is doing, and pass it on."""
        self.now = status
        self._listener.status(status)
