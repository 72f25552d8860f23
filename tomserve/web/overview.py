"""What the Dashboard shows: which runs there are, which go on, what came of the last ones, and what room there is.

overview(register, person, Filters(model="llama3-70b", sort="rows")).rows
"""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tomserve.content.paths import runs_root
from tomserve.runs import progress
from tomserve.runs.progress import Progress
from tomserve.serving import registry
from tomserve.serving.registry import LiveRecord
from tomserve.web.cards import State
from tomserve.web.people import Person
from tomserve.web.register import Line, Register
from tomserve.web.streaming import state_of

PAGE = 50
"""Runs on a page of the list."""

NEWEST = 5
"""So many of the runs that ended last are shown, and so many of those that failed."""

LONGEST = 200
"""Characters of a filter that are looked at."""

FOUND_FOR = 5.0
"""Seconds for which what servers said is believed before they are asked again."""


@dataclass(frozen=True, slots=True)
class Row:
    """A run in the list, and where it stands, in a word (see streaming.state_of)."""

    line: Line
    state: str

    @property
    def ended(self) -> str:
        """When it ended, as far as that is known, else when it was begun or submitted; in UTC."""
        job = self.line.card.job
        return (job.ended if job else None) or self.line.made or (job.submitted if job else "")


@dataclass(frozen=True, slots=True)
class Filters:
    """Which runs are listed, in which order. text: stands in the name, the model, the benchmark or the notes.

    The other texts have to be equal to what the run says; "" for any. sort: one of SORTS. down: the largest first.
    page: from 1.
    """

    text: str = ""
    model: str = ""
    benchmark: str = ""
    tag: str = ""
    state: str = ""
    kind: str = ""
    sort: str = "made"
    down: bool = True
    page: int = 1

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Filters:
        """The filters that an address holds; what is none is taken for the default."""
        told = {name: query.get(name, "")[:LONGEST].strip() for name in NAMES}
        sort = query.get("sort", "made")
        page = query.get("page", "1")
        number = int(page) if page.isascii() and page.isdigit() and len(page) < 9 else 1
        known = sort if sort in SORTS else "made"
        down = query.get("down", "yes" if known in DOWN_FIRST else "no") != "no"
        return cls(**told, sort=known, down=down, page=max(1, number))

    def address(self, **changes: Any) -> str:
        """The address of the same list with some filters changed; of its first page unless that is given."""
        changed = replace(self, **{"page": 1, **changes})
        told = {name: getattr(changed, name) for name in NAMES if getattr(changed, name)}
        if (changed.sort, changed.down) != ("made", True):
            told |= {"sort": changed.sort, "down": "yes" if changed.down else "no"}
        if changed.page > 1:
            told["page"] = changed.page
        return f"/?{urlencode(told)}" if told else "/"

    def turned(self, sort: str) -> str:
        """The address of the list sorted by that column; the other way round where it is already."""
        return self.address(sort=sort, down=not self.down if sort == self.sort else sort in DOWN_FIRST)

    def pages(self) -> str:
        """The address of the same list, to which ``page=N`` is appended."""
        address = self.address()
        return f"{address}{'&' if '?' in address else '?'}"

    def fits(self, row: Row) -> bool:
        """Whether a run is listed."""
        line = row.line
        words = f"{line.name} {line.model} {line.benchmark} {line.study} {line.card.notes}".lower()
        return (
            all(word in words for word in self.text.lower().split())
            and self.model in ("", line.model)
            and self.benchmark in ("", line.benchmark)
            and self.tag in ("", *line.card.tags)
            and self.state in ("", row.state)
            and self.kind in ("", line.kind)
        )


NAMES = ("text", "model", "benchmark", "tag", "state", "kind")
"""The filters that are texts."""

SORTS: Mapping[str, Callable[[Row], Any]] = {
    "name": lambda row: row.line.name,
    "state": lambda row: row.state,
    "model": lambda row: row.line.model.lower(),
    "benchmark": lambda row: row.line.benchmark,
    "rows": lambda row: row.line.rows,
    "size": lambda row: row.line.size,
    "made": lambda row: row.line.made or (row.line.card.job.submitted if row.line.card.job else ""),
}
"""The columns by which runs can be sorted."""

DOWN_FIRST = ("rows", "size", "made")
"""Columns whose largest value is wanted first."""


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything of the Dashboard but the servers.

    rows: the runs of this page of the list. total: how many fit the filters. pages: of how many pages. every: how many
    runs there are. running: those that some process works on, with what it says. waiting: those that wait in the
    queue, in their order. finished, failed: the newest that ended well, and that did not. models, benchmarks, tags,
    states, kinds: what there is, each with how many runs have it. size: bytes of all runs. free: bytes that are free.
    """

    filters: Filters
    rows: tuple[Row, ...]
    total: int
    pages: int
    every: int
    running: tuple[tuple[Row, Progress | None], ...]
    waiting: tuple[Row, ...]
    finished: tuple[Row, ...]
    failed: tuple[Row, ...]
    models: Counter[str] = field(default_factory=Counter)
    benchmarks: Counter[str] = field(default_factory=Counter)
    tags: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    size: int = 0
    free: int | None = None


def row_of(line: Line) -> Row:
    """A run as the list shows it."""
    state = state_of(line.card, running=line.running, complete=line.complete, broken=bool(line.broken))
    return Row(line, state)


def overview(register: Register, person: Person, filters: Filters = Filters()) -> Overview:
    """What the Dashboard shows to that person."""
    rows = [row_of(line) for line in register.lines(person)]
    fitting = sorted(filter(filters.fits, rows), key=lambda row: (SORTS[filters.sort](row), row.line.name))
    if filters.down:
        fitting.reverse()
    pages = max(1, -(-len(fitting) // PAGE))
    shown = replace(filters, page=min(filters.page, pages))
    newest = sorted(rows, key=lambda row: row.ended, reverse=True)
    lines = [row.line for row in rows]
    return Overview(
        filters=shown,
        rows=tuple(fitting[(shown.page - 1) * PAGE : shown.page * PAGE]),
        total=len(fitting),
        pages=pages,
        every=len(rows),
        running=running(rows),
        waiting=waiting(rows),
        finished=tuple(row for row in newest if row.state == "complete")[:NEWEST],
        failed=tuple(row for row in newest if row.state in ("failed", "broken"))[:NEWEST],
        models=Counter(line.model for line in lines if line.model),
        benchmarks=Counter(line.benchmark for line in lines if line.benchmark),
        tags=Counter(tag for line in lines for tag in line.card.tags),
        states=Counter(row.state for row in rows),
        kinds=Counter(line.kind for line in lines if line.kind),
        size=sum(line.size for line in lines),
        free=free(runs_root()),
    )


def running(rows: list[Row]) -> tuple[tuple[Row, Progress | None], ...]:
    """The runs that some process works on, with what it says of its progress."""
    now = (State.RUNNING.value, State.STOPPING.value)
    return tuple((row, progress.read_progress(row.line.folder)) for row in rows if row.state in now)


def waiting(rows: list[Row]) -> tuple[Row, ...]:
    """The runs that wait in the queue, in their order."""
    told = [(row.line.card.job, row) for row in rows]
    wait = [(job.order, row.line.name, row) for job, row in told if job is not None and job.active and not job.runs]
    return tuple(row for _, _, row in sorted(wait, key=lambda one: one[:2]))


def free(folder: Path) -> int | None:
    """Bytes that are free where the runs lie, or will lie; None where that cannot be told."""
    for place in (folder, *folder.absolute().parents):
        try:
            return shutil.disk_usage(place).free
        except OSError:
            continue
    return None


class Servers:
    """The servers that this user started on this machine, as last seen; a busy one may take seconds to answer, so that
    they are asked at most every FOUND_FOR seconds, by one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: list[LiveRecord] = []
        self._at = -FOUND_FOR

    def seen(self) -> list[LiveRecord]:
        """The servers with their states: ready, loading or silent. It may take as long as a server is silent."""
        with self._lock:
            if time.monotonic() - self._at > FOUND_FOR:
                self._seen, self._at = registry.believed_records(), time.monotonic()
            return self._seen


SERVERS = Servers()
"""The servers of this machine, for all pages."""
