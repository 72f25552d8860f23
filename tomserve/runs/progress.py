"""The record of how far a run is, ``progress.json``: written about once a second by whatever asks, read by anybody.

It is written by a Listener around the one that a caller gives, so that a run which a terminal, a Python program or the
workbench has started can be watched from any other process. It is no part of what a run has found out: nothing is
computed from it, and where it cannot be written, the run goes on without.

    with recorded(listener, folder) as listener:
        ...                                           # ask, and tell the listener what happens

What `read` returns has been checked, but anybody may have written it: its texts are for showing only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import orjson
import pydantic

from tomserve.content import files, temporary
from tomserve.engine.records import utc_now
from tomserve.engine.redact import Redactor
from tomserve.engine.runner import RunStatus
from tomserve.errors import ConfigError
from tomserve.runs.listening import Listener
from tomserve.serving import keys

FILE = "progress.json"

WRITE_EVERY = 1.0
"""Seconds between two records while something is asked."""

WINDOW = 30.0
"""Seconds over which the rate is taken."""

LONGEST_TEXT = 1000
"""Characters of a message, or of an item's name, that the record holds at most."""

Count = Annotated[int, pydantic.Field(ge=0, lt=2**53)]
Number = Annotated[float, pydantic.Field(ge=0, lt=1e15, allow_inf_nan=False)]
Text = Annotated[str, pydantic.Field(max_length=LONGEST_TEXT)]


class Slowest(pydantic.BaseModel):
    """The request that has been in flight for longest, and for how many seconds."""

    model_config = pydantic.ConfigDict(extra="ignore", frozen=True)

    item: Text
    strategy: Text
    seconds: Number


class Progress(pydantic.BaseModel):
    """How far a run is.

    pid: of the process that works on it. began, updated, ended: times in UTC, ISO 8601; ended is None until it has.
    outcome: what it ended by, "" where nothing went wrong or it has not ended. phase: which phase it is in, counted
    from 1, and 0 before the first. doing: what that phase does, in words. total, done: rows of the phase, and how many
    of them there are, those of earlier sessions included. written: rows of this session and phase; statuses: how many
    of these have which status. rate: rows a second lately; eta: seconds that are left, None where nobody knows. out,
    limit: requests in flight, and how many may be; found: whether that limit was found out while running. queue:
    requests that wait in the servers, None where no server tells. cached: the share of prompt tokens from the servers'
    caches, None where it is not known. retrying: requests that wait to be asked again. slowest: see Slowest. message:
    the last line for the user. running: whether the process still works on the run, which is not in the file.
    """

    model_config = pydantic.ConfigDict(extra="ignore", frozen=True, populate_by_name=True)

    schema_: Annotated[int, pydantic.Field(alias="schema", ge=1, le=1)] = 1
    pid: Count
    began: Text
    updated: Text
    ended: Text | None = None
    outcome: Text = ""
    phase: Count = 0
    doing: Text = ""
    total: Count = 0
    done: Count = 0
    written: Count = 0
    statuses: Annotated[dict[Text, Count], pydantic.Field(max_length=100)] = pydantic.Field(default_factory=dict)
    rate: Number = 0.0
    eta: Number | None = None
    out: Count = 0
    limit: Count = 0
    found: bool = False
    queue: Count | None = None
    cached: Annotated[float, pydantic.Field(ge=0, le=1)] | None = None
    retrying: Count = 0
    client_bound: bool = False
    slowest: Slowest | None = None
    message: Text = ""
    running: bool = False


def read(folder: Path) -> Progress | None:
    """How far the run in that folder is; None where it has no record, or one that cannot be believed.

    Whether it is running is known by the lock of the folder, which ends with the process that holds it.
    """
    try:
        found = files.read_json(folder / FILE, "delete it")
        progress = Progress.model_validate(found)
    except (OSError, ConfigError, pydantic.ValidationError):
        return None
    running = progress.ended is None and holder(folder) in (0, progress.pid)
    return progress.model_copy(update={"running": running})


def held(folder: Path) -> bool:
    """Whether a process works on a run now: it holds the lock of the folder, which ends with it."""
    return holder(folder) is not None


def holder(folder: Path) -> int | None:
    """The id of the process that works on a run now, 0 where it does not say; None where none does."""
    try:
        lock = files.open_regular(folder / ".lock", os.O_RDONLY)
    except (OSError, ConfigError):
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        said = os.pread(lock, 32, 0).strip()
        return int(said) if said.isdigit() else 0
    finally:
        os.close(lock)
    return None


@contextlib.contextmanager
def recorded(listener: Listener, folder: Path) -> Iterator[Recording]:
    """A listener that tells another one everything and keeps the record of the run in that folder meanwhile.

    listener: is told everything. folder: of the run, which exists and is locked by this process.
    """
    recording = Recording(listener, folder)
    try:
        yield recording
    except BaseException as error:
        recording.end(str(error) or type(error).__name__)
        raise
    recording.end("")


class Recording:
    """A Listener that writes the record of a run, at most about once a second. Everything is passed on."""

    def __init__(self, listener: Listener, folder: Path) -> None:
        self._listener, self._path = listener, folder / FILE
        self._mask = Redactor(*keys.all_keys())
        self._began = utc_now()
        self._statuses: Counter[str] = Counter()
        self._phase, self._total, self._before = 0, 0, 0
        self._doing = self._message = ""
        self._status = RunStatus()
        self._written_at = -WRITE_EVERY
        self._lately: deque[tuple[float, int]] = deque()
        self._write()

    def message(self, text: str) -> None:
        """Pass the message on, and keep it as the last one."""
        self._message = text
        self._listener.message(text)
        self._seldom()

    def started(self, total: int, done: int) -> None:
        """Begin a phase."""
        self._phase, self._total, self._before = self._phase + 1, total, done
        self._doing, self._status = self._message, RunStatus()
        self._statuses.clear()
        self._lately.clear()
        self._listener.started(total, done)
        self._write()

    def row(self, row: dict[str, Any]) -> None:
        """Count a row, and pass it on; nothing is written here, because this is called for each of a million rows."""
        self._statuses[row["status"]] += 1
        self._listener.row(row)

    def status(self, status: RunStatus) -> None:
        """Keep what the run is doing, pass it on, and write the record where it is time."""
        self._status = status
        self._listener.status(status)
        self._seldom()

    def finished(self) -> None:
        """End a phase."""
        self._status = RunStatus()
        self._listener.finished()
        self._write()

    def end(self, outcome: str) -> None:
        """Write the last record. outcome: what the run ended by, "" where nothing went wrong."""
        self._status = RunStatus()
        self._write(ended=utc_now(), outcome=outcome)

    def _seldom(self) -> None:
        if time.monotonic() - self._written_at >= WRITE_EVERY:
            self._write()

    def _rate(self, written: int) -> float:
        """Rows a second over the last WINDOW, or since the phase began where that is less."""
        moment = time.monotonic()
        self._lately.append((moment, written))
        while moment - self._lately[0][0] > WINDOW:
            self._lately.popleft()
        since, there = self._lately[0]
        return (written - there) / (moment - since) if moment > since else 0.0

    def _write(self, ended: str | None = None, outcome: str = "") -> None:
        """Replace the record. It is not forced onto the disk, so that the asking never waits for that."""
        self._written_at = time.monotonic()
        status, written = self._status, self._statuses.total()
        rate, total = self._rate(written), self._total + status.grown
        left = max(total - self._before - written, 0)
        known = self._phase and not ended  # before the first phase nobody knows how much there is to ask
        eta = None if not known else 0.0 if not left else left / rate if rate > 0 else None
        oldest = status.oldest
        record = {
            "schema": 1, "pid": os.getpid(), "began": self._began, "updated": utc_now(), "ended": ended,
            "outcome": self._said(outcome), "phase": self._phase, "doing": self._said(self._doing),
            "total": max(total, 0), "done": self._before + written, "written": written,
            "statuses": dict(self._statuses), "rate": round(rate, 3), "eta": None if eta is None else round(eta, 1),
            "out": status.out, "limit": status.limit, "found": status.found, "queue": status.queue,
            "cached": status.cached, "retrying": status.retrying, "client_bound": status.client_bound,
            "slowest": None if oldest is None else {
                "item": oldest[0].item[:LONGEST_TEXT], "strategy": oldest[0].strategy[:LONGEST_TEXT],
                "seconds": round(oldest[1], 1),
            },
            "message": self._said(self._message),
        }  # fmt: skip
        with contextlib.suppress(OSError, ConfigError, orjson.JSONEncodeError):
            files.check_replaceable(self._path)
            with temporary.file(self._path.parent) as file:
                file.write(orjson.dumps(record) + b"\n")
                file.flush()
                os.replace(file.name, self._path)

    def _said(self, text: str) -> str:
        return self._mask(text)[:LONGEST_TEXT]
