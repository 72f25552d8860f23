"""Work that takes longer than a page may, done by huey in a process beside the server; results are kept in the user's
cache.

What is wanted stands in a file, and huey's entry, which is JSON and never pickled, only names it: whoever can write to
a Redis cannot say what is computed. A result is known by a digest of the code, of how the files look that it is made
from, and of what was wanted.
"""

import contextlib
import hashlib
import importlib
import itertools
import os
import re
import secrets
import shutil
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson
from huey import Huey, PriorityRedisHuey, SqliteHuey  # type: ignore[import-untyped]  # huey has no types
from huey.consumer import Consumer  # type: ignore[import-untyped]  # huey has no types
from huey.registry import Message  # type: ignore[import-untyped]  # huey has no types
from huey.serializer import Serializer  # type: ignore[import-untyped]  # huey has no types

from tomserve import content
from tomserve.content import files
from tomserve.content.paths import CODE as SUFFIXES
from tomserve.content.paths import PACKAGE, absolute_runs_root, cache_root, runs_root
from tomserve.content.text import sanitize, say
from tomserve.engine.redact import is_secret_variable
from tomserve.errors import ConfigError, TomserveError
from tomserve.serving import keys
from tomserve.web.settings import Settings

WORKS = {
    **dict.fromkeys(("panels", "report", "scores", "rescore", "compare"), "tomserve.web.analyses"),
    "answers": "tomserve.web.answer_index",
    **dict.fromkeys(("items", "varieties"), "tomserve.web.items"),
    "tally": "tomserve.web.tally",
    "plan": "tomserve.web.planning",
}
"""The module of each work, whose function of that name does it: it is given the folder to write to, the folders of the
runs, and the options, and returns what is to be known of it."""

CODE = content.code_digest([PACKAGE])  # of this version, which the process that computes has to share with the server

JOURNAL, PACKED = "responses.jsonl", "responses.parquet"
SOURCES = ("manifest.json", JOURNAL, PACKED, "items.jsonl", "noise.jsonl", "reader.jsonl", "reader.json")
MEASURED = "scores.parquet"
"""The files of a run that count, and the table of a run without a journal, which was measured and is no result."""

RECORD = "record.json"
ROOM, PIECES = 4 << 30, 10_000  # bytes and results that the cache may hold
AT_ONCE = 2  # works that are done side by side
WAITING, WAITING_EACH = 1000, 20  # works that may wait, and of the same runs; whoever wants more comes again
TRY_AGAIN = 300.0  # seconds after which what has failed is done again once somebody looks
LEFT = 24 * 3600  # seconds after which an unfinished folder is taken for one whose process was killed
TRIMMED = 50  # works between two looks at how much the cache holds
SECONDS = 5.0  # that a database may take to answer
LONGEST = 7200.0  # seconds that a work may take

DIED = "the analysis process ended unexpectedly, or took more than two hours; try again"

_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Computation:
    """What is to be computed."""

    work: str  # one of WORKS
    runs: tuple[Path, ...] = ()  # the folders of runs that it is made from
    options: Mapping[str, Any] = field(default_factory=dict)  # what else counts, as JSON holds it
    upto: int | None = None  # of a run that still grows, how far it had grown, which then decides and not its journal
    sources: tuple[Path, ...] = ()  # further files that it is made from

    def key(self, studies: Sequence[Any]) -> str:
        """The digest by which the result is known. studies: how the files of all studies look."""
        state = []
        for folder in self.runs:
            found: dict[str, Any] = {
                name: stamp(folder / name) for name in (SOURCES if self.upto is None else SOURCES[:1])
            }
            if not found.get(JOURNAL) and not found.get(PACKED):
                # By its content, as a run without answers is scored again and again.
                with contextlib.suppress(OSError, ConfigError), files.open_for_reading(folder / MEASURED) as file:
                    found[MEASURED] = hashlib.file_digest(file, "sha256").hexdigest()
            state.append([str(folder), found])
        sources = [[str(path), stamp(path)] for path in self.sources]
        made = [CODE, studies, self.work, state, dict(self.options), self.upto, sources]
        return content.digest(orjson.dumps(made, option=orjson.OPT_SORT_KEYS)).removeprefix("sha256:")


@dataclass(frozen=True)
class Result:
    """What came of a computation."""

    folder: Path  # where it lies
    facts: Mapping[str, Any] = field(default_factory=dict)  # what the work has returned
    error: str = ""  # why there is none, in words


def stamp(path: Path) -> tuple[int, ...]:
    """How a file looks: its inode, size, and times of change; () where there is none."""
    try:
        status = path.lstat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def compute(work: str, *runs: Path, upto: int | None = None, again: bool = False, **options: Any) -> Result | None:
    """What is wanted of the runs in those folders, as `find` says."""
    return find(Computation(work, runs, options, upto), again=again)


def find(computation: Computation, *, again: bool = False) -> Result | None:
    """What is wanted, or why it cannot be computed; None while it is computed, which this begins. again: whether to
    compute it once more."""
    return find_all([computation], again=again)[0]


def require(computation: Computation) -> Result | None:
    """As `find`. Raises ConfigError with the reason where what is wanted cannot be computed."""
    found = find(computation)
    if found is not None and found.error:
        raise ConfigError(found.error)
    return found


def find_all(computations: Sequence[Computation], *, again: bool = False) -> list[Result | None]:
    """What is wanted, each as `find` says; what is wanted alone goes before what is wanted with much else."""
    studies, alone = _studies(), len(computations) == 1
    return [_find(one, one.key(studies), again=again, alone=alone) for one in computations]


def peek(computation: Computation) -> tuple[bool, Result | None]:
    """Whether something waits or is being computed, and what there is of it; begins nothing."""
    key = computation.key(_studies())
    return _waits(key), _read(key)


def _studies() -> list[Any]:
    paths = (path for root in content.roots() for path in sorted((root / "analysis").rglob("*")))
    return [[str(path), stamp(path)] for path in paths if path.suffix in SUFFIXES]


def _find(computation: Computation, key: str, *, again: bool, alone: bool) -> Result | None:
    if not again and (found := _read(key)) is not None:
        return found
    try:
        if not _waits(key):
            _want(computation, key, alone=alone)
    except (OSError, ConfigError) as error:
        return Result(results() / key, error=str(error))
    return None


_IMMEDIATE: list[Callable[[str], None]] = []
"""What does a work at once instead of huey, for whoever has no process beside."""


def results() -> Path:
    """The folder of all results."""
    return cache_root() / "tomserve/web/results"


def wanted() -> Path:
    """The folder of what the workbench of this folder of runs wants: ``KEY.json``, ``KEY.begun`` while it is computed,
    ``KEY.failed`` with the reason where it could not be."""
    return cache_root() / "tomserve/web" / content.digest(str(absolute_runs_root()).encode())[-16:]


def _read(key: str) -> Result | None:
    folder = results() / key
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        facts = orjson.loads(files.read_bytes(folder / RECORD))["facts"]
        os.utime(folder)  # what was used longest ago is removed first
        return Result(folder, facts)
    with contextlib.suppress(OSError):
        failed = wanted() / f"{key}.failed"
        if time.time() - failed.stat().st_mtime < TRY_AGAIN:
            return Result(folder, error=files.read_bytes(failed).decode("utf-8"))
    return None


def _waits(key: str) -> bool:
    return any((wanted() / f"{key}.{ending}").exists() for ending in ("json", "begun"))


def _want(computation: Computation, key: str, *, alone: bool) -> None:
    """Have it computed, unless too much waits already. Raises OSError and ConfigError where that fails."""
    folder = wanted()
    files.make_private(folder)
    waiting = [name for name in os.listdir(folder) if name.endswith(".json")]
    runs = list(map(str, computation.runs))
    if len(waiting) >= WAITING or (len(waiting) >= WAITING_EACH and _count_waiting(waiting, runs) >= WAITING_EACH):
        return
    shutil.rmtree(results() / key, ignore_errors=True)
    path = folder / f"{key}.json"
    path.with_suffix(".failed").unlink(missing_ok=True)
    wish = {"work": computation.work, "runs": runs, "options": dict(computation.options)}
    files.replace_bytes(path, orjson.dumps({**wish, "code": CODE}), 0o600)
    try:
        enqueue(key, alone=alone)
    except ConfigError:
        path.unlink(missing_ok=True)
        raise


def _count_waiting(names: Sequence[str], runs: Sequence[str]) -> int:
    """How many of these works are about just these runs, whatever else was chosen."""
    found = 0
    for name in names:
        with contextlib.suppress(OSError, ValueError):
            found += orjson.loads(files.read_bytes(wanted() / name))["runs"] == runs
    return found


class JsonSerializer(Serializer):  # type: ignore[misc]  # huey has no types
    """Writes messages as JSON."""

    def _serialize(self, data: Any) -> bytes:
        return orjson.dumps(list(data) if isinstance(data, tuple) else data)

    def _deserialize(self, data: bytes) -> Any:
        found = orjson.loads(data)
        return Message(*found) if isinstance(found, list) else found


def enqueue(key: str, *, alone: bool = False) -> None:
    """Tell huey what is wanted. Raises ConfigError where its database does not answer."""
    import redis

    if _IMMEDIATE:
        _IMMEDIATE[0](key)
        return
    try:
        huey, task = connect()
        huey.enqueue(task.s(key, priority=int(alone)))
    except (sqlite3.Error, redis.RedisError, OSError) as error:
        said = f"the job queue does not answer ({type(error).__name__}); try again"
        raise ConfigError(said) from None


def connect() -> tuple[Huey, Any]:
    """The queue of this workbench, on SQLite, or on the Redis of TOMSERVE_QUEUE; and its one task."""
    return _connect(os.environ.get("TOMSERVE_QUEUE") or None, wanted())


@lru_cache(maxsize=4)
def _connect(address: str | None, folder: Path) -> tuple[Huey, Any]:
    fixed: dict[str, Any] = {"serializer": JsonSerializer(), "results": False}
    if address is not None:
        from redis import ConnectionPool

        pool = ConnectionPool.from_url(address, socket_timeout=SECONDS, socket_connect_timeout=SECONDS)
        huey = PriorityRedisHuey(f"tomserve-{folder.name}", connection_pool=pool, blocking=False, **fixed)
    else:
        files.make_private(folder)
        huey = SqliteHuey("tomserve", filename=str(folder / "queue.db"), timeout=SECONDS, **fixed)
    return huey, huey.task(name="compute")(perform)


def perform(key: str) -> None:
    """Do the work that the file of that key names, and keep what comes of it; nothing where there is no such file."""
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        return
    begun, scratch = wanted() / f"{key}.begun", results() / f".{secrets.token_hex(8)}"
    try:
        begun.with_suffix(".json").rename(begun)
        wish = orjson.loads(files.read_bytes(begun))
    except (OSError, ValueError):
        return
    try:
        files.make_private(results())
        scratch.mkdir(mode=0o700)
        with _limit(key):
            found = do_work({**wish, "out": str(scratch)})
        if "error" in found:
            _fail(key, found["error"])
        else:
            (scratch / RECORD).write_bytes(orjson.dumps(found))
            shutil.rmtree(results() / key, ignore_errors=True)
            scratch.rename(results() / key)
        if next(_performed) % TRIMMED == 0:
            trim()
    except OSError as error:
        with contextlib.suppress(OSError):  # a full disk; it is done again once somebody asks
            _fail(key, str(error))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        begun.unlink(missing_ok=True)


_performed = itertools.count(1)
_ends: dict[str, float] = {}
"""When each work that is under way has to be done, by its key."""


@contextlib.contextmanager
def _limit(key: str) -> Iterator[None]:
    """End the process of the analyses where the work takes too long. The system does so, by SIGALRM, and no thread:
    none runs while a regular expression looks through a text. Nothing is limited where the signal has another use."""
    limited = signal.getsignal(signal.SIGALRM) == signal.SIG_DFL

    def set_timer() -> None:
        if limited:
            signal.setitimer(signal.ITIMER_REAL, max(min(_ends.values()) - time.monotonic(), 0.001) if _ends else 0)

    _ends[key] = time.monotonic() + LONGEST
    set_timer()
    try:
        yield
    finally:
        del _ends[key]
        set_timer()


def _fail(key: str, error: str) -> None:
    files.replace_bytes(wanted() / f"{key}.failed", error.encode(), 0o600)


def do_work(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Do a work, and say what came of it: `facts`, or an `error` in words."""
    try:
        if asked["code"] != CODE:
            raise ConfigError("tomserve has changed since the workbench was started; restart it")
        work = vars(importlib.import_module(WORKS[asked["work"]]))[asked["work"]]
        return {"facts": work(Path(asked["out"]), asked["runs"], asked["options"]) or {}}
    except TomserveError as error:
        return {"error": sanitize(without_paths(str(error)))}
    except MemoryError:
        return {"error": "not enough memory for the computation"}
    except Exception as error:  # whatever a study or a file of strangers brings about is told rather than lost
        sys.excepthook(type(error), error, error.__traceback__)
        said = without_paths(str(error))[:300]
        return {"error": sanitize(f"the computation failed ({type(error).__name__}: {said})")}


def without_paths(text: str) -> str:
    """The text with names of runs in the place of the paths of their folders on this machine."""
    return text.replace(f"{absolute_runs_root()}/", "").replace(f"{runs_root().absolute()}/", "")


def keyless(settings: Settings, allowed: Collection[str] = ()) -> dict[str, str]:
    """The environment without what holds a key or may hold another secret, and without what says where one stands.

    settings: which name further variables that hold keys. allowed: variables that are kept nevertheless.
    """
    places, values = {*dict(settings.keys), "TOMSERVE_API_KEY_FILE", keys.HEADERS, keys.KEYS}, set(keys.all_keys())
    return {
        name: value
        for name, value in os.environ.items()
        if name in allowed or not (is_secret_variable(name) or name in places or value.strip() in values)
    }


def trim() -> None:
    """Remove what was used longest ago until the cache has room, and what a process left that was killed."""
    kept: list[tuple[float, int, Path]] = []
    for folder in results().iterdir() if results().is_dir() else ():
        with contextlib.suppress(OSError):
            size = sum(path.stat().st_size for path in folder.iterdir())
            kept.append((folder.stat().st_mtime, size, folder))
    total, count = sum(size for _, size, _ in kept), len(kept)
    for used, size, folder in sorted(kept):
        unfinished = folder.name.startswith(".")
        if time.time() - used > LEFT if unfinished else total > ROOM or count > PIECES:
            shutil.rmtree(folder, ignore_errors=True)
            total, count = total - size, count - 1


def forget() -> None:
    """Forget what is wanted, as a workbench does that begins or ends; whoever wants it again says so."""
    _connect.cache_clear()
    shutil.rmtree(wanted(), ignore_errors=True)


def restore(huey: Huey) -> None:
    """Put what waits into the queue, and say of what an earlier process has begun that it died."""
    huey.flush()
    for path in sorted(wanted().glob("*.begun")):
        _fail(path.stem, DIED)
        path.unlink()
    for path in sorted(wanted().glob("*.json")):
        enqueue(path.stem)


def main() -> None:
    """Do what is wanted, until whoever has started this process has ended."""

    def watch() -> None:
        sys.stdin.buffer.read()
        os._exit(0)

    threading.Thread(target=watch, name="watch", daemon=True).start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    with contextlib.suppress(OSError):
        os.nice(10)
    huey, _ = connect()
    try:
        restore(huey)
        trim()
    except (OSError, ConfigError) as error:
        say(str(error), error=True)
    Consumer(huey, workers=AT_ONCE, periodic=False, max_delay=0.25).run()
    os._exit(0)


if __name__ == "__main__":
    from tomserve.web import background

    background.main()
