"""The status of runs: one followed while it goes on, with its last answers and log, or all of them in a list with
what runs and waits.

Whatever evaluates writes ``progress.json`` and appends to the journal; here both are read, the journal from its end
and within bounds, so that following a run costs it nothing.

    async for seen in events(folder, "pilot/first"):
        print(seen.state, seen.done, seen.total)
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

import orjson
from pydantic import BaseModel, Field, computed_field

from tomserve.content import files
from tomserve.content.paths import runs_root
from tomserve.errors import ConfigError
from tomserve.runs import progress
from tomserve.runs.manifest import Manifest
from tomserve.runs.progress import Progress
from tomserve.status import ANSWERS as READABLE
from tomserve.web import run_index
from tomserve.web.accounts import Person
from tomserve.web.background import without_paths
from tomserve.web.page_templates import read_moment
from tomserve.web.run_index import ENDED, Card, RunEntry, RunIndex, State
from tomserve.web.tally import Tally, find_tallies

EVERY = 1.0  # seconds between two looks at a run
SLICES = 4  # so often between two looks it is asked whether the server ends

JOURNALS = ("responses.jsonl", "noise.jsonl")
TAIL = 1 << 18  # so many bytes of the end of a journal, and of a log, are read at most
ANSWERS = 12  # so many of the last answers are shown

LOG_LINES = 80
LONGEST_TEXT = 400
"""Characters of an answer, and of a line of the log, that are shown; the whole answer stands on its own page."""

SHORTEST = 2.0  # seconds over which rows must have come for their rate to be told, as their times are whole seconds


class LatestAnswer(BaseModel, frozen=True):
    """One of the last answers of a run."""

    item: str
    strategy: str
    sample: Annotated[int, Field(description="Its number among several of the same question, from 0.")]
    status: str
    text: Annotated[str, Field(description="Its beginning, or the error where there is none.")]
    seconds: Annotated[float | None, Field(description="That it took; null where unknown.")]
    time: Annotated[str, Field(description="When it came, in UTC.")]
    reused: bool


class RunStatus(BaseModel, frozen=True):
    """How far a run is, as it was seen at one moment."""

    name: str
    state: Annotated[
        str, Field(description="Its state in the queue, or `running`, `complete`, `incomplete`, `broken`.")
    ]
    said: Annotated[str, Field(description="Why it is so; mostly empty.")]
    following: Annotated[bool, Field(description="Whether this may still change.")]
    done: Annotated[int, Field(description="Rows of the present phase that are there.")]
    total: Annotated[int | None, Field(description="How many there are to be; null where nobody knows.")]
    progress: Annotated[
        Progress | None, Field(description="What the process that works on it has recorded; null without.")
    ]
    answers: Annotated[tuple[LatestAnswer, ...], Field(description="The last ones, the newest first.")]
    log: Annotated[str, Field(description="The end of its log.")]
    console: Annotated[str, Field(description="The end of what its process has printed.")]

    @computed_field(description="Rows that are no answers, by their status.")  # type: ignore[prop-decorator]
    @property
    def failures(self) -> dict[str, int]:
        """How many of the rows of this session's phase are no answers, by their status."""
        counts = self.progress.statuses if self.progress else {}
        return {name: count for name, count in counts.items() if name not in READABLE and count}


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


def look(folder: Path, name: str, rows: int = 0) -> RunStatus:
    """What there is to see of a run now; everything unreadable is shown as missing. folder, name: of the run. rows: how
    many rows it has, which is shown where no process has recorded its progress."""
    told = progress.read_progress(folder)
    running = told.running if told is not None else progress.is_locked(folder)
    card, said, complete = Card(), "", False
    try:
        card = run_index.read_card(folder)
    except ConfigError as error:
        said = without_paths(str(error))
    with contextlib.suppress(ConfigError):
        complete = not running and (manifest := Manifest.read(folder)) is not None and manifest.complete
    state = state_of(card, running=running, complete=complete)
    if card.job is not None and card.job.said:
        said = card.job.said
    elif told is not None and not running:
        said = told.outcome
    answers = [one for journal in JOURNALS for one in latest_answers(folder / journal)]
    return RunStatus(
        name=name,
        state=state,
        said=said,
        following=running or (card.job is not None and card.job.state not in ENDED),
        done=told.done if told is not None else rows,
        total=None if told is None else told.total,
        progress=told,
        answers=tuple(sorted(answers, key=lambda one: one.time, reverse=True)[:ANSWERS]),
        log=_log(folder / "log.txt"),
        console=_log(folder / "console.txt"),
    )


def last_rows(journal: Path, size: int = TAIL) -> Iterator[dict[str, Any]]:
    """The rows in the last bytes of a journal, the newest first; what is no row is passed over."""
    for line in reversed(files.read_tail(journal, size).split("\n")):
        with contextlib.suppress(orjson.JSONDecodeError):
            row = orjson.loads(line)
            if isinstance(row, dict) and isinstance(row.get("item"), str):
                yield row


def latest_answers(journal: Path, most: int = ANSWERS, size: int = TAIL) -> list[LatestAnswer]:
    """The last answers in a journal, the newest first; none where it cannot be read."""
    return [_answer(row) for row in islice(last_rows(journal, size), most)]


def pace(folder: Path) -> float | None:
    """How many rows a second the run wrote, by the times of its last rows; None where these do not tell."""
    times = []
    for row in last_rows(folder / JOURNALS[0], 4 * TAIL):
        if not row.get("reused") and (moment := read_moment(row.get("time"))):
            times.append(moment.timestamp())
    lasted = max(times) - min(times) if times else 0.0
    return len(times) / lasted if lasted >= SHORTEST else None


def _log(path: Path) -> str:
    last = files.read_tail(path, TAIL).splitlines()[-LOG_LINES:]
    return "\n".join(line[:LONGEST_TEXT] + " …" * (len(line) > LONGEST_TEXT) for line in last)


def _answer(row: Mapping[str, Any]) -> LatestAnswer:
    timings = row.get("timings")
    seconds = timings.get("total_s") if isinstance(timings, dict) else None
    text = row.get("text") or row.get("error") or ""
    sample = row.get("sample")
    return LatestAnswer(
        item=row["item"][:LONGEST_TEXT],
        strategy=str(row.get("strategy") or "")[:LONGEST_TEXT],
        sample=sample if isinstance(sample, int) else 0,
        status=str(row.get("status") or "")[:LONGEST_TEXT],
        text=str(text)[:LONGEST_TEXT],
        seconds=float(seconds) if isinstance(seconds, int | float) else None,
        time=str(row.get("time") or "")[:LONGEST_TEXT],
        reused=row.get("reused") is True,
    )


STREAMED = 600.0
"""Seconds after which a stream ends: whoever connects again is let in only if they may still see the run."""


async def events(
    folder: Path, name: str, rows: int = 0, every: float = EVERY, ending: threading.Event | None = None
) -> AsyncIterator[RunStatus]:
    """What `look` sees of a run, once at the beginning and then whenever it has changed, until nothing works on it and
    nothing waits to, or STREAMED seconds have passed. The last one says by `following` which of them.

    every: seconds between two looks, so that no more events come than that. ending: set when the server ends; then no
    more events come, whatever the run does.
    """
    before, until = None, time.monotonic() + STREAMED
    while True:
        seen = await asyncio.to_thread(look, folder, name, rows)
        if seen != before:
            yield seen
            before = seen
        if not seen.following or time.monotonic() > until:
            return
        for _ in range(SLICES):
            await asyncio.sleep(every / SLICES)
            if ending is not None and ending.is_set():
                return


PAGE = 50  # runs on a page of the list
NEWEST = 5  # so many of the runs that failed last are shown
LONGEST = 200  # characters of a filter that are looked at


@dataclass(frozen=True, slots=True)
class Row:
    """A run in the list, and where it stands, in a word (see streaming.state_of)."""

    line: RunEntry
    state: str
    tally: Tally | None = None  # None also while it is being counted

    @property
    def countable(self) -> bool:
        """Whether it has a result, as a run with answers has on which nothing works."""
        line = self.line
        return line.kind == "answers" and line.rows > 0 and not line.broken and not line.running

    @property
    def result(self) -> float:
        """The highest accuracy of its strategies, by which runs are sorted; -1 where there is none."""
        shares = self.tally.shares if self.tally else ()
        return max((share.estimate for share in shares if share.estimate is not None), default=-1.0)

    @property
    def ended(self) -> str:
        """When it ended, as far as that is known, else when it was begun or submitted; in UTC."""
        job = self.line.card.job
        return (job.ended if job else None) or self.line.begun


@dataclass(frozen=True, slots=True)
class Filters:
    """Which runs are listed, in which order.

    The other texts have to be equal to what the run says; "" for any.
    """

    text: str = ""  # stands in the name, the model, the benchmark or the notes
    model: str = ""
    benchmark: str = ""
    tag: str = ""
    state: str = ""
    kind: str = ""
    sort: str = "made"  # one of SORTS
    down: bool = True  # the largest first
    page: int = 1  # from 1

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

    def sort_address(self, sort: str) -> str:
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


NAMES = ("text", "model", "benchmark", "tag", "state", "kind")  # the filters that are texts

SORTS: Mapping[str, Callable[[Row], Any]] = {
    "name": lambda row: row.line.name,
    "state": lambda row: row.state,
    "model": lambda row: row.line.model.lower(),
    "benchmark": lambda row: row.line.benchmark,
    "result": lambda row: row.result,
    "rows": lambda row: row.line.rows,
    "made": lambda row: row.line.begun,
}
"""The columns by which runs can be sorted."""

DOWN_FIRST = ("result", "rows", "made")  # columns whose largest value is wanted first


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything of the list of runs.

    failed: the newest that did not end well. choices: by filter what there is, each with how many runs have it.
    """

    filters: Filters
    rows: tuple[Row, ...]  # the runs of this page of the list
    total: int  # how many fit the filters
    pages: int  # of how many pages
    every: int  # how many runs there are
    failed: tuple[Row, ...]
    moving: bool = False  # whether a run of this page of the list is being worked on or counted
    choices: Mapping[str, Counter[str]] = field(default_factory=dict)
    size: int = 0  # bytes of all runs
    free: int | None = None  # bytes that are free


def row_of(line: RunEntry) -> Row:
    """A run as the list shows it."""
    state = state_of(line.card, running=line.running, complete=line.complete, broken=bool(line.broken))
    return Row(line, state)


def overview(register: RunIndex, person: Person, filters: Filters = Filters()) -> Overview:
    """What the list of runs shows to that person."""
    rows = [row_of(line) for line in register.lines(person)]
    fitting = list(filter(filters.fits, rows))
    if filters.sort == "result":
        fitting = with_tallies(fitting)
    fitting.sort(key=lambda row: (SORTS[filters.sort](row), row.line.name), reverse=filters.down)
    pages = max(1, -(-len(fitting) // PAGE))
    shown = replace(filters, page=min(filters.page, pages))
    listed = fitting[(shown.page - 1) * PAGE : shown.page * PAGE]
    if filters.sort != "result":
        listed = with_tallies(listed)
    newest = sorted(rows, key=lambda row: row.ended, reverse=True)
    lines = [row.line for row in rows]
    return Overview(
        filters=shown,
        rows=tuple(listed),
        total=len(fitting),
        pages=pages,
        every=len(rows),
        moving=any(row.line.running or (row.countable and row.tally is None) for row in listed),
        failed=tuple(row for row in newest if row.state in ("failed", "broken"))[:NEWEST],
        choices={
            **{name: Counter(filter(None, (getattr(line, name) for line in lines))) for name in ("model", "benchmark")},
            "state": Counter(row.state for row in rows),
            "kind": Counter(line.kind for line in lines if line.kind),
            "tag": Counter(tag for line in lines for tag in line.card.tags),
        },
        size=sum(line.size for line in lines),
        free=free(runs_root()),
    )


def with_tallies(rows: Sequence[Row]) -> list[Row]:
    """The rows with their tallies, as far as these are there; others are begun to be counted."""
    wanted = [row for row in rows if row.countable]
    found = dict(zip((row.line.name for row in wanted), find_tallies([row.line for row in wanted]), strict=True))
    return [replace(row, tally=found.get(row.line.name)) for row in rows]


def progress_of(rows: Iterable[Row]) -> dict[str, Progress]:
    """By name what the runs that some process works on have recorded of their progress."""
    now = (State.RUNNING.value, State.STOPPING.value)
    told = ((row.line.name, progress.read_progress(row.line.folder)) for row in rows if row.state in now)
    return {name: one for name, one in told if one is not None}


def free(folder: Path) -> int | None:
    """Bytes that are free where the runs lie, or will lie; None where that cannot be told."""
    for place in (folder, *folder.absolute().parents):
        try:
            return shutil.disk_usage(place).free
        except OSError:
            continue
    return None
