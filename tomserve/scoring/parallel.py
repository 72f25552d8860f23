"""Score many responses part by part into files, in a second process where that pays.

The parts are taken in turn by whoever is free: by this process and, where there are many rows and a second core, by one
more. Who takes a part makes an empty file with its number, which only one can do. The second process only helps: a part
that it took and did not finish, for whatever reason, is scored by this one, so that every error is raised here and is
the one that a single process would meet first.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from tomserve.scoring.grades import GraderChoices
from tomserve.scoring.responses import ItemFile, NoiseFile, OrderedRows, ResponseFile, place_of
from tomserve.scoring.score import Answers, Columns, build_frame, pause_gc

MANY = 30_000
"""From how many rows on a second process is started; fewer are scored in about the time that it takes to start."""

Range = tuple[int, int]
"""The first question of a part, and the one after its last."""


@dataclass
class ScoringWork:
    """What is scored. Two processes can share it, as the second inherits the open files.

    order: which responses count, in the order of the table. The other fields are the parameters of
    tomserve.scoring.table.write_score_table.
    """

    run: str
    items: ItemFile
    responses: ResponseFile
    order: OrderedRows
    chains: Collection[str]
    lettered: Collection[str]
    columns: Columns
    noise: NoiseFile | None = None
    reader: GraderChoices | None = None

    def frame(self, first: int, last: int) -> pl.DataFrame:
        """The score table of the questions from `first` on, before `last`."""
        with pause_gc():
            return build_frame(
                self.run, self._iterate(first, last), self.chains, self.lettered, self.columns, self.reader
            )

    def _iterate(self, first: int, last: int) -> Iterator[Answers]:
        keys, values, starts = self.order
        read, item, others, noise = self.responses.row, self.items.item, self.items.others, self.noise
        for question in range(first, last):
            begin, end = starts[question], starts[question + 1]
            rows = [read(keys[at], values[at]) for at in range(begin, end)]
            place = place_of(keys[begin])
            again = noise.find_repeats(place, rows[0]["strategy"]) if noise is not None else ()
            yield item(place), rows, others(place), again

    @property
    def descriptors(self) -> list[int]:
        """The open files that a second process has to inherit."""
        read = [file.file for file in (self.items, self.responses, self.noise) if file is not None]
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


def score_parts(work: ScoringWork, scratch: Path, ranges: Sequence[Range]) -> list[Path]:
    """Score the parts into files in an empty folder, and return these in order.

    Raises the error that scoring the parts one after the other would raise, OSError where a file cannot be written.
    """
    paths = [_path(scratch, number) for number in range(len(ranges))]
    with contextlib.ExitStack() as stack:
        helper = None
        if len(work.order.keys) >= MANY and _cores() > 1 and work.shared:
            helper = stack.enter_context(start_helper(work, scratch, ranges))
        try:
            take_parts(work, scratch, ranges)
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


def take_parts(work: ScoringWork, scratch: Path, ranges: Sequence[Range]) -> None:
    """Score the parts that nobody else has taken, until there are none, or somebody has met an error."""
    for number, (first, last) in enumerate(ranges):
        if (scratch / _STOP).exists():
            return
        try:
            os.close(os.open(scratch / f"{number:06d}.taken", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            continue
        _score(work, scratch, number, first, last)


def _finish(work: ScoringWork, scratch: Path, ranges: Sequence[Range]) -> None:
    """Score the parts that somebody took and did not finish."""
    for number, (first, last) in enumerate(ranges):
        if not _path(scratch, number).exists():
            _score(work, scratch, number, first, last)


def _score(work: ScoringWork, scratch: Path, number: int, first: int, last: int) -> None:
    begun = scratch / f"{number:06d}.{os.getpid()}"
    work.frame(first, last).write_parquet(begun, compression="lz4")
    begun.rename(_path(scratch, number))


def _path(scratch: Path, number: int) -> Path:
    return scratch / f"{number:06d}.parquet"


_STOP = "stop"
"""Name of the file that says that somebody has met an error."""


_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from tomserve.scoring import parallel; parallel.run_helper()"
)
_SIZE = 8
"""How many bytes say how long the description of the work is."""


class Helper:
    """A second process. wait: waits until it has no more to do."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def wait(self) -> None:
        """Wait until the process has ended."""
        self._process.wait()


@contextlib.contextmanager
def start_helper(work: ScoringWork, scratch: Path, ranges: Sequence[Range]) -> Iterator[Helper | None]:
    """A second process that takes parts of the work; None where it cannot be started. It is ended with the block.

    It is a new interpreter, because one that was forked could not use Polars. It inherits the open files, so that it
    reads what the first process reads even where a file was replaced since. It ends with the first process, however
    that ends.

    work: what is scored. scratch, ranges: the folder and the parts, as for tomserve.scoring.parallel.score_parts.
    """
    from tomserve.scoring.version import SCORER  # on import it reads all code, which only large runs are to pay for

    try:
        description = pickle.dumps((work, ranges))
    except (pickle.PicklingError, AttributeError):  # the rules are no function that another process could find
        yield None
        return
    command = [sys.executable, "-P", "-c", _PROGRAM, json.dumps(sys.path), str(scratch), SCORER]
    try:
        process = subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=work.descriptors,
            env={**os.environ, "POLARS_MAX_THREADS": "1"},
        )
    except OSError:
        yield None
        return
    sender = threading.Thread(target=_send_work, args=(process, description), daemon=True)
    sender.start()
    del description
    with process:
        try:
            yield Helper(process)
        finally:
            process.kill()
            sender.join()


def _send_work(process: subprocess.Popen[bytes], description: bytes) -> None:
    """Tell the process what its work is. It goes through a pipe, because whoever owns the folder of a run could put
    another file into the place of one there, and what is unpickled can do anything."""
    assert process.stdin is not None
    left = memoryview(len(description).to_bytes(_SIZE, "big") + description)
    with contextlib.suppress(OSError):  # the process has ended, or is ended: the work is done without it
        while left:
            left = left[process.stdin.write(left) :]


def run_helper() -> None:
    """What the second process does: it takes parts until there are none, or its parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what Ctrl-C ends is said by the parent
    from tomserve.scoring.version import SCORER

    description = sys.stdin.buffer.read(int.from_bytes(sys.stdin.buffer.read(_SIZE), "big"))
    threading.Thread(target=_end_with_parent, daemon=True).start()

    scratch, scorer = Path(sys.argv[2]), sys.argv[3]
    if scorer != SCORER:  # other code was installed since the parent has loaded its own
        return
    work, ranges = pickle.loads(description)  # by the parent, which alone has the other end
    del description
    take_parts(work, scratch, ranges)


def _end_with_parent() -> None:
    """End this process when its standard input is closed, which also happens where the parent is killed."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)
