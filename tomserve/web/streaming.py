"""Follows a run while it goes on: how far it is, its last answers and its log, read from its folder.

Whatever evaluates (a worker of the workbench, a terminal, a Python program) writes ``progress.json`` and appends to
the journal; here both are read, the journal from its end and within bounds. So a run can be followed from anywhere,
and following it costs the run nothing.

    async for seen in events(folder, "pilot/first"):
        print(seen.state, seen.done, seen.total)
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from tomserve.content import files
from tomserve.errors import ConfigError
from tomserve.runs import progress
from tomserve.runs.manifest import Manifest
from tomserve.runs.progress import Progress
from tomserve.status import ANSWERS as READABLE
from tomserve.web import cards
from tomserve.web.cards import ENDED, Card, State
from tomserve.web.words import read_moment

EVERY = 1.0
"""Seconds between two looks at a run."""

SLICES = 4
"""So often between two looks it is asked whether the server ends."""

JOURNALS = ("responses.jsonl", "noise.jsonl")
TAIL = 1 << 18
"""So many bytes of the end of a journal, and of a log, are read at most."""

ANSWERS = 12
"""So many of the last answers are shown."""

LOG_LINES = 80
LONGEST_TEXT = 400
"""Characters of an answer, and of a line of the log, that are shown; the whole answer stands on its own page."""

SHORTEST = 2.0
"""Seconds over which rows must have come for their rate to be told, as their times are whole seconds."""

_PIECE = 1 << 22
"""So many bytes are counted at a time, of a journal without a record of its progress."""


@dataclass(frozen=True, slots=True)
class Answered:
    """One of the last answers. text: its beginning, or the error where there is none. seconds: that it took, None where
    unknown. time: when it came, in UTC. sample: its number among several of the same question, from 0."""

    item: str
    strategy: str
    sample: int
    status: str
    text: str
    seconds: float | None
    time: str
    reused: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a run at one moment.

    name: of the run. state: a word, see `state_of`. said: why it is so, in a line, or "". following: whether it may
    still change, so that it is worth following. done, total: rows of the present phase; total is None where nobody
    knows. progress: the record of whoever works on it, None without. answers: the last ones, the newest first. log,
    console: the last lines.
    """

    name: str
    state: str
    said: str
    following: bool
    done: int
    total: int | None
    progress: Progress | None
    answers: tuple[Answered, ...]
    log: str
    console: str

    @property
    def failures(self) -> dict[str, int]:
        """How many of the rows of this session's phase are no answers, by their status."""
        counts = self.progress.statuses if self.progress else {}
        return {name: count for name, count in counts.items() if name not in READABLE and count}

    def plain(self) -> dict[str, Any]:
        """The same as values of JSON."""
        own = asdict(self) | {"progress": self.progress.model_dump(mode="json") if self.progress else None}
        return own | {"answers": [asdict(one) for one in self.answers], "failures": self.failures}


def state_of(card: Card, *, running: bool, complete: bool, broken: bool = False) -> str:
    """Where a run stands, in a word: a State of the queue while it has a place there, else "running", "complete",
    "incomplete" (it can go on), or "broken".

    card: of the run. running: whether a process works on it. complete: whether everything was asked.
    """
    job = card.job
    if job is not None and job.state not in ENDED:
        return job.state.value
    if running:
        return "running"
    if broken:
        return "broken"
    if job is not None and (job.state is State.FAILED or (job.state is State.CANCELLED and not complete)):
        return job.state.value
    return "complete" if complete else "incomplete"


class Follower:
    """Looks at one run again and again; what has not changed is not read again.

    folder, name: of the run. rows: how many rows it has, where somebody knows; otherwise those of a run without a
    record of its progress are counted, which takes a while for a journal of gigabytes.
    """

    def __init__(self, folder: Path, name: str, rows: int | None = None) -> None:
        self.folder, self.name, self._known = folder, name, rows
        self._counted = 0
        self._at = 0
        self._kept: dict[str, tuple[tuple[int, int], Any]] = {}

    def look(self) -> Seen:
        """What there is to see now. Everything unreadable is shown as missing."""
        told = progress.read_progress(self.folder)
        running = told.running if told is not None else progress.is_locked(self.folder)
        card, said = Card(), ""
        try:
            card = cards.read(self.folder)
        except ConfigError as error:
            said = str(error)
        state = state_of(card, running=running, complete=not running and self._complete())
        if card.job is not None and card.job.said:
            said = card.job.said
        elif told is not None and not running:
            said = told.outcome
        return Seen(
            name=self.name,
            state=state,
            said=said,
            following=running or (card.job is not None and card.job.state not in ENDED),
            done=told.done if told is not None else self._rows(),
            total=None if told is None else told.total,
            progress=told,
            answers=self._answers(),
            log=self._lines("log.txt"),
            console=self._lines("console.txt"),
        )

    def _complete(self) -> bool:
        try:
            manifest = Manifest.read(self.folder)
        except ConfigError:
            return False
        return manifest is not None and bool(manifest.to_dict().get("complete"))

    def _rows(self) -> int:
        """Rows of the journal, of which only what was added since the last look is counted."""
        if self._known is not None:
            return self._known
        with contextlib.suppress(OSError, ConfigError), files.open_for_reading(self.folder / JOURNALS[0]) as file:
            if os.fstat(file.fileno()).st_size < self._at:
                self._counted = self._at = 0
            file.seek(self._at)
            while piece := file.read(_PIECE):
                self._counted += piece.count(b"\n")
                self._at += len(piece)
        return self._counted

    def _answers(self) -> tuple[Answered, ...]:
        found = [one for name in JOURNALS for one in self._tail(name, _answered)]
        return tuple(sorted(found, key=lambda one: one.time, reverse=True)[:ANSWERS])

    def _lines(self, name: str) -> str:
        return "\n".join(self._tail(name, _shown))

    def _tail(self, name: str, read: Any) -> Any:
        """What `read` makes of the end of a file; the same as before where the file has not grown."""
        try:
            with files.open_for_reading(self.folder / name) as file:
                status = os.fstat(file.fileno())
                state = (status.st_ino, status.st_size)
                if name in self._kept and self._kept[name][0] == state:
                    return self._kept[name][1]
                start = max(0, status.st_size - TAIL)
                file.seek(start)
                text = file.read(TAIL)
        except (OSError, ConfigError):
            return ()
        lines = text.splitlines() if not start else text.splitlines()[1:]
        self._kept[name] = (state, read(lines))
        return self._kept[name][1]


def pace(folder: Path) -> float | None:
    """How many rows a second the run wrote, by the times of its last rows; None where these do not tell."""
    times = []
    with contextlib.suppress(OSError, ConfigError), files.open_for_reading(folder / JOURNALS[0]) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - 4 * TAIL))
        for line in file.read(4 * TAIL).splitlines():
            with contextlib.suppress(orjson.JSONDecodeError):
                row = orjson.loads(line)
                if isinstance(row, dict) and not row.get("reused") and (moment := read_moment(row.get("time"))):
                    times.append(moment.timestamp())
    lasted = max(times) - min(times) if times else 0.0
    return len(times) / lasted if lasted >= SHORTEST else None


def _shown(lines: list[bytes]) -> list[str]:
    """The last lines of a log, each cut, and of each only what stands after its last return to the beginning."""
    last = (line.decode("utf-8", "replace") for line in lines[-LOG_LINES:])
    return [line[:LONGEST_TEXT] + " …" * (len(line) > LONGEST_TEXT) for line in last]


def _answered(lines: list[bytes]) -> list[Answered]:
    """The answers in the last lines of a journal, the newest first; what is no row is passed over."""
    found: list[Answered] = []
    for line in reversed(lines):
        if len(found) == ANSWERS:
            break
        with contextlib.suppress(orjson.JSONDecodeError):
            row = orjson.loads(line)
            if isinstance(row, dict) and isinstance(row.get("item"), str):
                found.append(_answer(row))
    return found


def _answer(row: Mapping[str, Any]) -> Answered:
    timings = row.get("timings")
    seconds = timings.get("total_s") if isinstance(timings, dict) else None
    text = row.get("text") or row.get("error") or ""
    sample = row.get("sample")
    return Answered(
        item=row["item"][:LONGEST_TEXT],
        strategy=str(row.get("strategy") or "")[:LONGEST_TEXT],
        sample=sample if isinstance(sample, int) else 0,
        status=str(row.get("status") or "")[:LONGEST_TEXT],
        text=str(text)[:LONGEST_TEXT],
        seconds=float(seconds) if isinstance(seconds, int | float) else None,
        time=str(row.get("time") or "")[:LONGEST_TEXT],
        reused=row.get("reused") is True,
    )


async def events(
    folder: Path, name: str, every: float = EVERY, ending: threading.Event | None = None
) -> AsyncIterator[Seen]:
    """What is seen of a run, once at the beginning and then whenever it has changed, until nothing works on it and
    nothing waits to. The last one says so by `following`.

    folder, name: of the run. every: seconds between two looks, so that no more events come than that. ending: set when
    the server ends; then no more events come, whatever the run does.
    """
    follower, before = Follower(folder, name), None
    while True:
        seen = await asyncio.to_thread(follower.look)
        if seen != before:
            yield seen
            before = seen
        if not seen.following:
            return
        for _ in range(SLICES):
            await asyncio.sleep(every / SLICES)
            if ending is not None and ending.is_set():
                return
