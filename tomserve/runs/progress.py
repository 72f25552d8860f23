"""The progress of a run: listeners that are told what happens, the record ``progress.json``, and the switch that
stops a run.

Whatever asks writes the record about once a second, and any process may read it. Nothing is computed from it, and
anybody may have written it: its texts are for showing only.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import orjson
import pydantic

from tomserve.content import files
from tomserve.engine.records import MASKED, utc_now
from tomserve.engine.redact import Redactor
from tomserve.engine.runner import RunStatus
from tomserve.errors import ConfigError, StoppedError
from tomserve.serving import keys
from tomserve.status import KINDS, strange_reason

LOUD = ("warning: ", "stopping: ", "change: ", "accepted change: ")
"""How those lines begin that are shown to a user who wants to see no progress."""


class Listener:
    """Is told what an evaluation does, from the thread that evaluates. It shows nothing of it; a subclass may. Every
    `row` and `status` belongs to the phase that has begun."""

    def message(self, text: str) -> None:
        """Called with one line for the user: what happens now, or something that begins as one of LOUD."""

    def begin_phase(self, total: int, done: int) -> None:
        """Called when a phase of `total` rows begins, of which `done` were there before."""

    def row(self, row: dict[str, Any]) -> None:
        """Called for every row that was written to the journal."""

    def status(self, status: RunStatus) -> None:
        """Called several times a second with what the run is doing."""

    def end_phase(self) -> None:
        """Called when the phase has ended, whether everything was asked or not."""


class MeasureListener:
    """Is told how far a long measurement is. It shows nothing of it; a subclass may. A measurement consists of phases,
    one after the other."""

    def phase(self, name: str, total: int) -> None:
        """Called when a phase begins. name: what is done now, such as "reading states". total: in how many steps."""

    def advance(self, n: int) -> None:
        """Called when n more steps of the phase are done."""

    def note(self, text: str) -> None:
        """Called with one line for the user: what happens now, or something that begins as one of LOUD."""

    def done(self) -> None:
        """Called when the last phase has ended, whether everything was measured or not."""


class RowCounter:
    """Counts the rows of one phase and passes everything on to a listener; it is the runner's Observer."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.written = 0
        self.reused = 0  # rows that repeat the answer to an equal request
        self.masked = 0  # replies in which the API key stood
        self.statuses: Counter[str] = Counter()
        self.strange: Counter[str] = Counter()  # whole texts by the unknown reasons for which they ended, at most KINDS
        self.providers: Counter[str] = Counter()  # replies by who a router says answered, at most KINDS
        self.now = RunStatus()  # the last that was reported

    def row(self, row: dict[str, Any]) -> None:
        """Count a row that was written, and pass it on."""
        self.written += 1
        self.reused += bool(row["reused"])
        self.masked += MASKED in row
        self.statuses[row["status"]] += 1
        if strange_reason(reason := row["finish_reason"]) and (reason in self.strange or len(self.strange) < KINDS):
            self.strange[reason] += 1
        if (provider := row.get("provider")) and (provider in self.providers or len(self.providers) < KINDS):
            self.providers[provider] += 1
        self._listener.row(row)

    def status(self, status: RunStatus) -> None:
        """Keep what the run is doing, and pass it on."""
        self.now = status
        self._listener.status(status)


FILE, LOCK = "progress.json", ".lock"  # the files of a run with its record, and with its lock

WRITE_EVERY = 1.0  # seconds between two records while something is asked
WINDOW = 30.0  # seconds over which the rate is taken
LONG_PAUSE = 1.0  # seconds of a server that takes no requests from which it is shown, and no time left is told
LONGEST_TEXT = 1000  # characters of a message, or of an item's name, that the record holds at most

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
    """How far a run is; times are in UTC, by ISO 8601."""

    model_config = pydantic.ConfigDict(extra="ignore", frozen=True, populate_by_name=True)

    schema_: Annotated[int, pydantic.Field(alias="schema", ge=1, le=1)] = 1
    pid: Count  # of the process that works on it
    began: Text
    updated: Text
    ended: Text | None = None  # None until it has ended
    outcome: Text = ""  # the error that it ended by; "" where nothing went wrong, or it has not ended
    phase: Count = 0  # which phase it is in, counted from 1; 0 before the first
    doing: Text = ""  # what that phase does, in words
    total: Count = 0  # rows of the phase
    done: Count = 0  # how many of them there are, those of earlier sessions included
    written: Count = 0  # rows of this session and phase
    statuses: Annotated[dict[Text, Count], pydantic.Field(max_length=100)] = {}  # of the rows written
    before: Annotated[dict[Text, Count], pydantic.Field(max_length=100)] = {}  # of the first phase, in later ones
    rate: Number = 0.0  # rows a second over the last WINDOW seconds
    eta: Number | None = None  # seconds that are left; None where nobody knows
    out: Count = 0  # requests in flight
    limit: Count = 0  # how many may be in flight
    found: bool = False  # whether that limit was found out while running
    queue: Count | None = None  # requests that wait in the servers; None where no server tells
    cached: Annotated[float, pydantic.Field(ge=0, le=1)] | None = None  # share of prompt tokens from servers' caches
    retrying: Count = 0  # requests that wait to be asked again
    pause: Number = 0.0  # seconds until a server takes requests again
    client_bound: bool = False
    slowest: Slowest | None = None
    message: Text = ""  # the last line for the user
    running: bool = False  # whether the process still works on the run, which is not in the file


def read_progress(folder: Path) -> Progress | None:
    """How far the run in that folder is; None where it has no record, or one that cannot be believed. Whether it is
    running is known by the lock of the folder, which ends with the process that holds it."""
    try:
        found = files.read_json(folder / FILE, "delete it")
        progress = Progress.model_validate(found)
    except (OSError, ConfigError, pydantic.ValidationError):
        return None
    running = progress.ended is None and lock_holder(folder / LOCK) in (0, progress.pid)
    return progress.model_copy(update={"running": running})


def is_locked(folder: Path) -> bool:
    """Whether a process works on a run now: it holds the lock of the folder, which ends with it."""
    return lock_holder(folder / LOCK) is not None


def lock_holder(path: Path) -> int | None:
    """The id of the process that holds the lock of a file, 0 where it does not say; None where none does."""
    try:
        lock = files.open_regular(path, os.O_RDONLY)
    except (OSError, ConfigError):
        return None
    try:
        with contextlib.suppress(OSError):
            if files.try_lock(lock, shared=True):
                return None
        said = os.pread(lock, 32, 0).strip()
        return int(said) if said.isdigit() else 0
    finally:
        os.close(lock)


@contextlib.contextmanager
def record_progress(listener: Listener, folder: Path) -> Iterator[ProgressRecorder]:
    """A listener that tells another one everything and keeps the record of the run in that folder meanwhile. listener:
    is told everything. folder: of the run, which exists and is locked by this process."""
    recording = ProgressRecorder(listener, folder)
    try:
        yield recording
    except BaseException as error:
        recording.end(str(error) or type(error).__name__)
        raise
    recording.end("")


class ProgressRecorder(Listener):
    """A Listener that writes the record of a run, at most about once a second. Everything is passed on."""

    def __init__(self, listener: Listener, folder: Path) -> None:
        self._listener, self._path = listener, folder / FILE
        self._mask = Redactor(*keys.all_keys())
        self._began = utc_now()
        self._statuses: Counter[str] = Counter()
        self._first: dict[str, int] = {}
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

    def begin_phase(self, total: int, done: int) -> None:
        """Begin a phase."""
        if self._phase == 1:
            self._first = dict(self._statuses)
        self._phase, self._total, self._before = self._phase + 1, total, done
        self._doing, self._status = self._message, RunStatus()
        self._statuses.clear()
        self._lately.clear()
        self._listener.begin_phase(total, done)
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

    def end_phase(self) -> None:
        """End a phase."""
        self._status = RunStatus()
        self._listener.end_phase()
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
        rate, total = self._rate(written), self._total + status.extra_requests
        left = max(total - self._before - written, 0)
        # Before the first phase nobody knows how much there is to ask, nor in a pause how many the server will take.
        known = self._phase and not ended and status.pause < LONG_PAUSE
        eta = None if not known else 0.0 if not left else left / rate if rate > 0 else None
        oldest = status.oldest
        record = {
            "schema": 1, "pid": os.getpid(), "began": self._began, "updated": utc_now(), "ended": ended,
            "outcome": self._redact(outcome), "phase": self._phase, "doing": self._redact(self._doing),
            "total": max(total, 0), "done": self._before + written, "written": written,
            "statuses": dict(self._statuses), "before": self._first,
            "rate": round(rate, 3), "eta": None if eta is None else round(eta, 1),
            "out": status.in_flight, "limit": status.limit, "found": status.limit_found, "queue": status.queue,
            "cached": status.cached, "retrying": status.retrying,
            "pause": round(status.pause, 1), "client_bound": status.client_bound,
            "slowest": None if oldest is None else {
                "item": oldest[0].item[:LONGEST_TEXT], "strategy": oldest[0].strategy[:LONGEST_TEXT],
                "seconds": round(oldest[1], 1),
            },
            "message": self._redact(self._message),
        }  # fmt: skip
        with contextlib.suppress(OSError, ConfigError, orjson.JSONEncodeError):
            files.check_replaceable(self._path)
            with files.temporary_file(self._path.parent) as file:
                file.write(orjson.dumps(record) + b"\n")
                file.flush()
                os.replace(file.name, self._path)

    def _redact(self, text: str) -> str:
        return self._mask(text)[:LONGEST_TEXT]


INTERRUPTED = 130  # the exit code of a command that Ctrl-C ended: 128 plus the number of the signal, as shells have it


class Stop:
    """A switch that `set` turns for good: nothing new is asked then, and requests in flight have half a minute left.

    >>> stop = Stop()
    >>> stop.set()
    >>> stop.is_set()
    True
    """

    def __init__(self) -> None:
        self._turned = threading.Event()
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def set(self) -> None:
        """End the evaluation. It may be called from any thread, from an event loop's signal handler, and repeatedly."""
        self._turned.set()
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for loop, event in waiting:
            with contextlib.suppress(RuntimeError):  # that event loop has ended, so nothing waits in it any more
                loop.call_soon_threadsafe(event.set)

    def is_set(self) -> bool:
        """Whether the switch was turned."""
        return self._turned.is_set()

    def event(self) -> asyncio.Event:
        """An event of the running event loop that is set when the switch is turned."""
        event = asyncio.Event()
        with self._lock:
            if not self._turned.is_set():
                self._waiting.append((asyncio.get_running_loop(), event))
                return event
        event.set()
        return event

    def check(self) -> None:
        """Raise StoppedError if the switch was turned; called in the work before and after the asking."""
        if self.is_set():
            raise StoppedError(
                "stopped; everything that was answered is kept; repeat the command to resume", INTERRUPTED
            )
