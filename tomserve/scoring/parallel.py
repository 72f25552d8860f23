"""Score many responses part by part into files, with a second process where that pays.

This process takes the parts from the first on, the other one from the last on, until they meet. The second one only
helps: what it has not finished, for whatever reason, is scored here, so that every error is raised here and is the one
that a single process would meet first. It is a new interpreter, as a fork could not use Polars; it inherits the open
files, so that it reads what the first one reads even where a file was replaced since.
"""

import contextlib
import itertools
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from tomserve.content.python_file import module_command
from tomserve.scoring.responses import ItemFile, NoiseFile, ResponseFile
from tomserve.scoring.score import Answers, TableSpec, build_frame, pause_gc

MANY = 30_000
"""From how many rows on a second process is started; fewer are scored in about the time that it takes to start."""


@dataclass
class ScoringWork:
    """What is scored, which a second process can share."""

    items: ItemFile
    responses: ResponseFile
    order: pl.DataFrame  # the responses that count, as ResponseFile.sort_rows gives them
    spec: TableSpec
    noise: NoiseFile | None = None

    def frame(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The score table of these rows of `order`."""
        with pause_gc():
            return build_frame(self._iterate(rows), self.spec)

    def _iterate(self, rows: pl.DataFrame) -> Iterator[Answers]:
        read, item, others, noise = self.responses.row, self.items.item, self.items.others, self.noise
        for _, samples in itertools.groupby(rows.iter_rows(), key=lambda row: row[3]):
            places = [(place, arm, offset) for place, arm, offset, _ in samples]
            replies, place = [read(*one) for one in places], places[0][0]
            again = noise.find_repeats(place, replies[0]["strategy"]) if noise is not None else ()
            yield item(place), replies, others(place), again

    @property
    def descriptors(self) -> list[int]:
        """The open files that a second process has to inherit."""
        read = [file.file for file in (self.items, self.responses, self.noise) if file is not None]
        return [file.descriptor for file in (*read, *(self.spec.reader.files if self.spec.reader is not None else ()))]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "order": None, "spec": replace(self.spec, original=None)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self.items.varied:
            self.spec = replace(self.spec, original=self.items.original)


def score_parts(work: ScoringWork, scratch: Path, parts: list[pl.DataFrame]) -> list[Path]:
    """Score parts of the work's rows into files in an empty folder, and return these in order. Raises the error that
    scoring the parts one after the other would raise, OSError where a file cannot be written."""
    paths = [scratch / f"{number:06d}.parquet" for number in range(len(parts))]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # Another process would not find the rules of a user's own benchmark.
    alone = len(work.order) < MANY or cores == 1 or not all(work.spec.rules(n).shipped for n in work.items.benchmarks)
    numbered = [*zip(paths, parts, strict=True)]
    with contextlib.nullcontext() if alone else _helper(work, numbered[::-1]) as helper:
        _take(work, numbered)
        if helper is not None:
            helper.wait()  # for its last part
    for path, rows in numbered:
        if not path.exists():
            _score(work, path, rows)
    return paths


def _take(work: ScoringWork, parts: list[tuple[Path, pl.DataFrame]]) -> None:
    """Score the parts that the other process has not taken."""
    for path, rows in parts:
        with contextlib.suppress(FileExistsError):
            path.with_suffix(".taken").touch(exist_ok=False)
            _score(work, path, rows)


def _score(work: ScoringWork, path: Path, rows: pl.DataFrame) -> None:
    begun = path.with_suffix(f".{os.getpid()}")
    work.frame(rows).write_parquet(begun, compression="lz4")
    begun.rename(path)


@contextlib.contextmanager
def _helper(work: ScoringWork, parts: list[tuple[Path, pl.DataFrame]]) -> Iterator[subprocess.Popen[bytes] | None]:
    """A second process that scores parts while the block runs; None where it cannot be started."""
    try:  # serialized here, since Polars can wait for ever where one thread serializes a frame that another reads
        told = pickle.dumps((work, parts))
        process = subprocess.Popen(
            module_command("tomserve.scoring.parallel"),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=work.descriptors,
            env={**os.environ, "POLARS_MAX_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    except (OSError, pickle.PicklingError):  # the work is done without it
        yield None
        return

    def tell() -> None:
        # By a pipe, as whoever owns a run's folder could put another file there, and what is unpickled can do anything.
        assert process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            process.stdin.write(told)
            process.stdin.flush()

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield process
    finally:
        process.kill()
        teller.join()
        process.communicate()


def _help() -> None:
    """What the second process does. It ends when its standard input is closed, also where the parent is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what Ctrl-C ends is said by the parent
    work, parts = pickle.load(sys.stdin.buffer)

    def watch() -> None:
        while os.read(0, 1):
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    _take(work, parts)


if __name__ == "__main__":
    _help()
