"""Score many questions part by part into files, where it pays in two processes.

The parts are taken in turn by whoever is free: by this process and, where there are many rows and a second core, by one
more (tomserve.scoring.beside). Who takes a part makes an empty file with its number, which only one can do. The second
process only helps: a part that it took and did not finish, for whatever reason, is scored by this one, so that every
error is raised here and is the one that a single process would meet first.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from tomserve.scoring.choices import Choices
from tomserve.scoring.frames import Answered, Columns, frame, uncollected
from tomserve.scoring.latest import Ordered, place_of
from tomserve.scoring.sources import ItemFile, NoiseFile, ResponseFile

MANY = 30_000
"""From how many rows on a second process is started; fewer are scored in about the time that it takes to start."""

Range = tuple[int, int]
"""The first question of a part, and the one after its last."""


@dataclass
class Work:
    """What is scored. Two processes can share it, as the second inherits the open files.

    order: which responses count, in the order of the table. The other fields are those of tomserve.scoring.table and
    tomserve.scoring.frames.
    """

    run: str
    items: ItemFile
    responses: ResponseFile
    order: Ordered
    chains: Collection[str]
    lettered: Collection[str]
    columns: Columns
    again: NoiseFile | None = None
    reader: Choices | None = None

    def frame(self, first: int, last: int) -> pl.DataFrame:
        """The score table of the questions from `first` on, before `last`."""
        with uncollected():
            return frame(self.run, self._answered(first, last), self.chains, self.lettered, self.columns, self.reader)

    def _answered(self, first: int, last: int) -> Iterator[Answered]:
        keys, values, starts = self.order
        read, item, others, again = self.responses.row, self.items.item, self.items.others, self.again
        for question in range(first, last):
            begin, end = starts[question], starts[question + 1]
            rows = [read(keys[at], values[at]) for at in range(begin, end)]
            place = place_of(keys[begin])
            asked = again.again(place, rows[0]["strategy"]) if again is not None else ()
            yield item(place), rows, others(place), asked

    @property
    def descriptors(self) -> list[int]:
        """The open files that a second process has to inherit."""
        read = [file.file for file in (self.items, self.responses, self.again) if file is not None]
        return [file.descriptor for file in (*read, *(self.reader.files if self.reader is not None else ()))]

    @property
    def shared(self) -> bool:
        """Whether a second process would find the same rules of the benchmarks, so that it would score the same."""
        return all(self.columns.rules(name).shipped for name in self.items.benchmarks)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "columns": replace(self.columns, original=None)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self.items.varied:
            self.columns = replace(self.columns, original=self.items.original)


def written(work: Work, scratch: Path, ranges: Sequence[Range]) -> list[Path]:
    """Score the parts into files in an empty folder, and return these in order.

    Raises the error that scoring the parts one after the other would raise, OSError where a file cannot be written.
    """
    paths = [_path(scratch, number) for number in range(len(ranges))]
    with contextlib.ExitStack() as stack:
        helper = None
        if len(work.order.keys) >= MANY and _cores() > 1 and work.shared:
            from tomserve.scoring.beside import helping  # what starts processes is not imported for a few rows

            helper = stack.enter_context(helping(work, scratch, ranges))
        try:
            take(work, scratch, ranges)
        except Exception:
            (scratch / _STOP).touch()
            if helper is not None:
                helper.wait()
            _finish(work, scratch, ranges)  # where an earlier part has an error, that one is raised
            raise
        if helper is not None:
            helper.wait()
        _finish(work, scratch, ranges)
    return paths


def _cores() -> int:
    """How many cores this process may use; all there are, where the system cannot say (macOS)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def take(work: Work, scratch: Path, ranges: Sequence[Range]) -> None:
    """Score the parts that nobody else has taken, until there are none, or somebody has met an error."""
    for number, (first, last) in enumerate(ranges):
        if (scratch / _STOP).exists():
            return
        try:
            os.close(os.open(scratch / f"{number:06d}.taken", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            continue
        _score(work, scratch, number, first, last)


def _finish(work: Work, scratch: Path, ranges: Sequence[Range]) -> None:
    """Score the parts that somebody took and did not finish."""
    for number, (first, last) in enumerate(ranges):
        if not _path(scratch, number).exists():
            _score(work, scratch, number, first, last)


def _score(work: Work, scratch: Path, number: int, first: int, last: int) -> None:
    begun = scratch / f"{number:06d}.{os.getpid()}"
    work.frame(first, last).write_parquet(begun, compression="lz4")
    begun.rename(_path(scratch, number))


def _path(scratch: Path, number: int) -> Path:
    return scratch / f"{number:06d}.parquet"


_STOP = "stop"
"""Name of the file that says that somebody has met an error."""
