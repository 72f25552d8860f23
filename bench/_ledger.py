"""What bench/soak.py knows of a run from outside, and what it finds wrong with its files: rows lost, twice or swapped,
keys, and what was left behind."""

from __future__ import annotations

import base64
import os
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from _misbehaving import mark_of, text_of

from tomserve.status import ANSWERS, FINAL

Place = tuple[int, int]
"""The number of a question, and the turn of its conversation."""

KEPT = {
    *("responses.jsonl", "responses.parquet", "items.jsonl", "manifest.json", "progress.json", "log.txt", ".lock"),
    *("scores.parquet", "batch.json"),
}
"""What a run's folder may hold in the end; beside it, what a torn line was moved to."""

FAULTS = (
    *("rows lost", "rows twice", "answers swapped", "keys found", "temporary files left", "orphaned processes"),
    *("tracebacks", "signals unheard", "changes unnoticed", "asked too often"),
)
"""What must never happen, whatever the server does and whenever a process is killed."""


@dataclass
class Ledger:
    """Everything that was ever final in one run, by what its journal said at each look.

    turns: how many turns each question has. found: how often each fault was found, by its name in FAULTS.
    """

    questions: int
    turns: int
    found: Counter[str] = field(default_factory=Counter)
    final: dict[Place, int] = field(default_factory=dict)
    statuses: Counter[str] = field(default_factory=Counter)
    closed: int = 0
    _named: set[tuple[str, Place]] = field(default_factory=set)

    def look(self, journal: Path) -> None:
        """Read the whole journal and hold it against what it said before."""
        counts: Counter[Place] = Counter()
        now: dict[Place, int] = {}
        self.statuses.clear()
        closed = set()
        for row in _rows(journal):
            place = int(row["item"].rpartition("/")[2]), int(row["turn"])
            self.statuses[row["status"]] += 1
            if "closes" in row:
                closed.add(place[0])
            if row["status"] not in FINAL:
                continue
            counts[place] += 1
            now[place] = zlib.crc32(str(row["text"]).encode())
            mark = str(row["reasoning"]).partition(" ")[0]
            if row["status"] not in ANSWERS or row["text"] != text_of(*place) or mark != mark_of(*place):
                self._name("answers swapped", place)
        for place, text in self.final.items():
            if now.get(place) != text:
                self._name("rows lost", place)
        for place, count in counts.items():
            if count > 1:
                self._name("rows twice", place)
        self.final, self.closed = {**self.final, **now}, len(closed)

    def _name(self, fault: str, place: Place) -> None:
        """Count a fault once for each row that it concerns."""
        if (fault, place) not in self._named:
            self._named.add((fault, place))
            self.found[fault] += 1

    @property
    def complete(self) -> bool:
        """Whether every turn of every question is final."""
        conversations = self.turns == 1 or self.closed == self.questions
        return len(self.final) == self.questions * self.turns and conversations


def _rows(journal: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a journal."""
    if journal.exists():
        with journal.open("rb") as file:
            yield from (orjson.loads(line) for line in file if line.endswith(b"\n"))


def again(logs: list[Path]) -> int:
    """How many whole answers were sent to a question that had got one before, by what the servers noted."""
    sent: Counter[bytes] = Counter()
    for log in logs:
        sent.update(log.read_bytes().split() if log.exists() else ())
    return sum(sent.values()) - len(sent)


class Secrets:
    """Finds a key, or sixteen of its characters in a row, as it is or in base64."""

    def __init__(self, key: str) -> None:
        whole = [key, base64.b64encode(f"Bearer {key}".encode()).decode(), base64.b64encode(key.encode()).decode()]
        self._pieces = [text[at : at + 16].encode() for text in whole for at in range(8, len(text) - 15, 4)]

    def files(self, *folders: Path) -> list[Path]:
        """The files below these folders that hold it."""
        found = []
        for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
            data = path.read_bytes()
            if any(piece in data for piece in self._pieces):
                found.append(path)
        return found


def left_behind(run: Path, scratch: Path) -> list[Path]:
    """Files in a run's folder that do not belong there, and everything in the folder for temporary files."""
    found = list(run.iterdir()) if run.exists() else []  # a run that the soak's end met before it had a folder
    inside = [path for path in found if path.name not in KEPT and ".torn-" not in path.name]
    return inside + list(scratch.iterdir())


def of_session(leader: int) -> list[int]:
    """The processes of the session that a process began, without those that have ended already."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == leader and fields[0] not in "ZX":
                found.append(int(entry.name))
    return found


def orphans(leader: int, patience: float = 5.0) -> list[int]:
    """The processes that a process started and that still run some seconds after its end."""
    until = time.monotonic() + patience
    while (found := of_session(leader)) and time.monotonic() < until:
        time.sleep(0.05)
    return found


@dataclass
class Samples:
    """What one process took, by time: megabytes of memory, open files, and how many bytes its journal had."""

    memory: list[float] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)

    def take(self, process: int, journal: Path) -> None:
        """Take one sample of a process, unless it has ended."""
        try:
            status = Path(f"/proc/{process}/status").read_text()
            files = len(os.listdir(f"/proc/{process}/fd"))
            written = journal.stat().st_size
        except OSError:
            return
        if "VmRSS:" in status:
            self.memory.append(int(status.split("VmRSS:")[1].split()[0]) / 1000)
            self.files.append(files)
            self.written.append(written)

    def asking(self) -> list[int]:
        """The samples that were taken while rows were added, without the first fifth of the rows: everything that is
        loaded once is there by then."""
        first, last = self.written[0], self.written[-1]
        begins = first + (last - first) / 5
        return [at for at, size in enumerate(self.written) if begins <= size < last]

    def slope(self, rows: int) -> float | None:
        """By how many megabytes the memory grows in 100,000 rows. rows: how many the journal has in the end."""
        if not self.written or len(chosen := self.asking()) < 10:
            return None
        scale = rows / self.written[-1] / 100_000
        return float(np.polyfit([self.written[at] * scale for at in chosen], [self.memory[at] for at in chosen], 1)[0])

    def more_files(self) -> float | None:
        """By how many the open files grow from the first quarter of the asking to the last, in the median."""
        if not self.written or len(chosen := self.asking()) < 10:
            return None
        quarter = len(chosen) // 4
        first, last = ([self.files[at] for at in part] for part in (chosen[:quarter], chosen[-quarter:]))
        return float(np.median(last) - np.median(first))
