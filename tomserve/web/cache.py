"""Cache of what takes longer to compute than a page may, in the user's cache, filled by processes beside the server.

What is kept is known by a digest of the code, of the files that it is made from and of what was wanted, so that it is
believed by content alone. At most two processes compute at once; what was used longest ago is removed first.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from tomserve import content
from tomserve.content import files
from tomserve.content.paths import CODE, absolute_runs_root, cache_root
from tomserve.errors import ConfigError, TomserveError
from tomserve.web import process
from tomserve.web.process import Process

AT_ONCE = 32 << 20  # so many bytes are read while a page waits, which takes some 50 ms; what is longer is read beside
SETTLED = 2.0  # seconds after which a file's last change can be told from a later one

_State = tuple[int, ...]


@dataclass(slots=True)
class Allowance:
    """How many bytes may still be read while a page waits for all of its files."""

    left: int = -1

    def __post_init__(self) -> None:
        self.left = AT_ONCE if self.left < 0 else self.left

    def covers(self, size: int) -> bool:
        """Whether a file of that size may be read, which is then taken off."""
        if size > self.left:
            return False
        self.left -= size
        return True


class Digests:
    """The digests of files, kept in memory."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[_State, str]] = {}
        self._waiting: dict[Path, _State] = {}
        self._reader = False
        self._lock = threading.Lock()

    def of(self, path: Path, allowance: Allowance | None = None) -> str | None:
        """The SHA-256 digest of a file, "" where there is none or it cannot be read; None while it is read beside.

        allowance: what may be read before this returns, of this file and of others; None for this file alone.
        """
        try:
            status = path.lstat()
        except OSError:
            return ""
        state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        with self._lock:
            if (known := self._known.get(path)) is not None and known[0] == state:
                return known[1]
        if (allowance or Allowance()).covers(status.st_size):
            return self._read(path, state)
        with self._lock:
            self._waiting.setdefault(path, state)
            begin, self._reader = not self._reader, True
        if begin:
            threading.Thread(target=self._read_all, daemon=True, name="digest").start()
        return None

    def _read_all(self) -> None:
        """Read what waits, one file after the other."""
        while True:
            with self._lock:
                if (path := next(iter(self._waiting), None)) is None:
                    self._reader = False
                    return
                state = self._waiting[path]
            try:
                self._read(path, state)
            finally:
                with self._lock:
                    del self._waiting[path]

    def _read(self, path: Path, state: _State) -> str:
        begun = time.time()
        try:
            with files.open_for_reading(path) as file:
                sha = hashlib.sha256()
                while piece := file.read(1 << 20):
                    sha.update(piece)
                found = sha.hexdigest()
                after = os.fstat(file.fileno())
        except (OSError, ConfigError):
            found, after = "", None
        settled = begun - state[-1] / 1e9 > SETTLED
        same = after is None or (after.st_size, after.st_ctime_ns) == (state[2], state[4])
        if settled and same:
            with self._lock:
                self._known[path] = state, found
        return found


JOURNAL, PACKED = "responses.jsonl", "responses.parquet"
SOURCES = ("manifest.json", JOURNAL, PACKED, "items.jsonl", "noise.jsonl", "reader.jsonl", "reader.json")
MEASURED = "scores.parquet"
"""The files of a run that count, and the table of a run without a journal, which was measured and is no result."""

ROOM = 4 << 30  # bytes that the cache may take
PIECES = 10_000  # how many results the cache may hold, most of which are small
MOST = 2  # how many processes compute at once
TOGETHER = 100  # how many computations that belong together one process computes, one after the other
WAITING = 100  # how many processes may wait; whoever wants more is told to come again

TRY_AGAIN = 300.0
"""Seconds after which what has failed is computed again once somebody looks, as what was in its way may be gone."""

REMEMBERED = 10_000  # how many results are kept in memory
LEFT = 24 * 3600 * 10**9  # nanoseconds after which an unfinished folder is taken for one whose server was killed

RECORD = "record.json"


@dataclass(frozen=True)
class Computation:
    """What is to be computed."""

    work: str  # one of `process.WORKS`
    runs: tuple[Path, ...] = ()  # the folders of runs that it is made from
    options: Mapping[str, Any] = field(default_factory=dict)  # what else counts, as JSON holds it
    upto: int | None = None
    """Of a run that still grows, how far it had grown: that decides and not the content of its files, which would be
    another one each time."""
    sources: tuple[Path, ...] = ()  # further files whose content counts


@dataclass(frozen=True)
class Result:
    """What came of a computation."""

    folder: Path  # where it lies
    facts: Mapping[str, Any] = field(default_factory=dict)  # what its record says
    error: str = ""  # why there is none, in words
    at: float = field(default_factory=time.monotonic, compare=False)  # when it became known, by this server's clock


class ComputationCache:
    """What is computed beside one server, and what is kept of it in a folder. start: makes a process."""

    def __init__(self, folder: Path, room: int = ROOM, start: Callable[[], Process] = Process) -> None:
        self.folder, self._room, self._start = folder, room, start
        self._digests = Digests()
        self._lock = threading.Lock()
        self._places = threading.Semaphore(MOST)
        self._done: dict[str, Result] = {}
        self._working: set[str] = set()
        self._threads: dict[threading.Thread, Process] = {}
        self._many: threading.Thread | None = None

    def compute(self, computation: Computation, *, again: bool = False) -> Result | None:
        """What is wanted, or why it cannot be computed; None while it is computed, which this begins.

        again: whether to try once more what has failed.
        """
        return self.every([computation], again=again)[0]

    def every(self, computations: Sequence[Computation], *, again: bool = False) -> list[Result | None]:
        """What is wanted, each as `compute` says. Several are computed by one process, one after another, so that they
        leave the other place to whoever wants something else."""
        allowance, studies = Allowance(), self._studies()
        keys = [self.key(computation, studies, allowance) for computation in computations]
        found = [None if key is None else self._known(key, again=again) for key in keys]
        missing = {
            key: computation
            for key, computation, result in zip(keys, computations, found, strict=True)
            if result is None and key is not None
        }
        self._begin(missing, many=len(computations) > 1)
        return found

    def key(
        self, computation: Computation, studies: Sequence[Any] | None = None, allowance: Allowance | None = None
    ) -> str | None:
        """The digest by which a result is known; None while the files that it is made from are read.

        studies: what `_studies` has returned, None to ask for it. allowance: how much may be read before it returns.
        """
        state: list[Any] = []
        for folder in computation.runs:
            names = SOURCES if computation.upto is None else SOURCES[:1]  # its other files are changing
            digests = {name: self._digests.of(folder / name, allowance) for name in names}
            if digests.get(JOURNAL) == "" == digests.get(PACKED, ""):
                digests[MEASURED] = self._digests.of(folder / MEASURED, allowance)
            if None in digests.values():
                return None
            state.append([str(folder), digests])
        sources = [[str(path), self._digests.of(path, allowance)] for path in computation.sources]
        if any(found is None for _, found in sources):
            return None
        if studies is None:
            studies = self._studies()
        made = [3, process.CODE, studies, computation.work, state, dict(computation.options), computation.upto, sources]
        return content.digest(orjson.dumps(made, option=orjson.OPT_SORT_KEYS)).removeprefix("sha256:")

    def _studies(self) -> list[list[str | None]]:
        """The digests of all studies at hand."""
        folders = (root / "analysis" for root in content.roots())
        paths = (path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix in CODE)
        return [[str(path), self._digests.of(path)] for path in paths]

    def working(self) -> int:
        """How many computations are computed or wait."""
        with self._lock:
            return len(self._working)

    def stop(self) -> None:
        """End all processes, and forget what waits; whoever wants it again begins it anew."""
        with self._lock:
            self._working.clear()
            threads = dict(self._threads)
        for one in threads.values():
            one.stop()
        for thread in threads:
            thread.join(process.ENDS)

    def _known(self, key: str, *, again: bool) -> Result | None:
        """What came of the computation with that key; None where it is not known, or is being computed."""
        with self._lock:
            if key in self._working:
                return None
            done = self._done.get(key)
        if done is not None and done.error and not again and time.monotonic() - done.at < TRY_AGAIN:
            return done
        if done is not None and not done.error and done.folder.is_dir():
            _use(done.folder)
            return done
        kept = self._load_kept(key, small=True)
        if kept is not None:
            self._remember(key, kept)
        return kept

    def _begin(self, missing: Mapping[str, Computation], *, many: bool) -> None:
        with self._lock:
            free = ((key, computation) for key, computation in missing.items() if key not in self._working)
            computations = dict(islice(free, TOGETHER))
            if not computations or len(self._threads) >= WAITING or (many and self._many is not None):
                return
            self._working.update(computations)
            one = self._start()
            thread = threading.Thread(target=self._work, args=(one, computations), daemon=True, name="computing")
            self._threads[thread] = one
            if many:
                self._many = thread
        thread.start()

    def _work(self, one: Process, computations: Mapping[str, Computation]) -> None:
        """Compute what is wanted, one after the other, as soon as there is a place."""
        try:
            with self._places:
                for number, (key, computation) in enumerate(computations.items()):
                    if key not in self._working:  # the workbench has been ended
                        break
                    self._compute(one, key, computation, trimmed=number > 0)
        finally:
            one.close()
            thread = threading.current_thread()
            with self._lock:
                self._working.difference_update(computations)
                del self._threads[thread]
                self._many = None if self._many is thread else self._many

    def _compute(self, one: Process, key: str, computation: Computation, *, trimmed: bool) -> None:
        error = "it could not be computed, for a reason that the server's log tells"
        result = None
        try:
            if not trimmed:
                self._trim()
            result = self._load_kept(key) or self._run(one, key, computation)
        except (OSError, TomserveError) as problem:
            error = str(problem)
        finally:
            with self._lock:
                wanted = key in self._working
            if wanted:  # and not ended together with its process
                self._remember(key, result or Result(self.folder / key, error=error))

    def _remember(self, key: str, result: Result) -> None:
        with self._lock:
            self._done.pop(key, None)
            self._done[key] = result
            self._working.discard(key)
            while len(self._done) > REMEMBERED:
                del self._done[next(iter(self._done))]

    def _load_kept(self, key: str, *, small: bool = False) -> Result | None:
        """What is kept under that key; small: only where that is quickly known."""
        folder = self.folder / key
        try:
            record = files.read_json(folder / RECORD, "delete it")
        except (OSError, ConfigError):
            return None
        if small and record["bytes"] > 16 << 20:
            return None
        _use(folder)
        return Result(folder, record["facts"])

    def _run(self, one: Process, key: str, computation: Computation) -> Result:
        scratch, folder = self.folder / f".{secrets.token_hex(8)}", self.folder / key
        scratch.mkdir(mode=0o700)
        try:
            said = one.ask(scratch, computation.work, computation.runs, computation.options)
            if error := said.get("error"):
                return Result(folder, error=str(error))
            facts = said.get("facts") or {}
            record = {"bytes": sum(path.stat().st_size for path in scratch.iterdir()), "facts": facts}
            (scratch / RECORD).write_bytes(orjson.dumps(record))
            shutil.rmtree(folder, ignore_errors=True)
            os.rename(scratch, folder)
            return Result(folder, facts)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _trim(self) -> None:
        """Remove what was used longest ago until the cache has room, and what a server left that was killed."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept: list[tuple[int, int, Path]] = []
        for folder in self.folder.iterdir():
            with contextlib.suppress(OSError):
                size = sum(path.stat().st_size for path in folder.iterdir())
                kept.append((folder.stat().st_mtime_ns, size, folder))
        total, count = sum(size for _, size, _ in kept), len(kept)
        for used, size, folder in sorted(kept):
            left = folder.name.startswith(".") and time.time_ns() - used > LEFT
            full = total > self._room or count > PIECES
            if left or (full and not folder.name.startswith(".")):
                shutil.rmtree(folder, ignore_errors=True)
                total, count = total - size, count - 1


_all: dict[Path, ComputationCache] = {}


def find_cache() -> ComputationCache:
    """What is computed beside this server for the folder of runs in use."""
    name = content.digest(os.fsencode(absolute_runs_root())).removeprefix("sha256:")
    folder = cache_root() / "tomserve/web" / name
    return _all.get(folder) or _all.setdefault(folder, ComputationCache(folder))


def compute(work: str, *runs: Path, upto: int | None = None, again: bool = False, **options: Any) -> Result | None:
    """What is wanted of the runs in those folders, as `ComputationCache.compute` says."""
    return find_cache().compute(Computation(work, runs, options, upto), again=again)


def stop() -> None:
    """End what this server computes, as the workbench does when it ends."""
    for one in list(_all.values()):
        one.stop()


def _use(folder: Path) -> None:
    with contextlib.suppress(OSError):
        os.utime(folder)
