"""Computes beside the server what takes longer than a page may, and keeps it in ``runs/.web/cache``.

A page says what it wants, and is told that it is being computed or where it lies. What is kept is known by a digest of
the code, of the files of the runs and of what was wanted, so that it is believed by content alone; its record carries
the user's own code (see tomserve.content.seal). Each is computed by a process of its own, at most two at once; whoever
else wants the same waits for the same. What was used longest ago is removed first.

>>> beside().wanted(Wish("panels", ("example",)))                                           # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
import importlib
import os
import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any

import orjson

import tomserve
from tomserve import content
from tomserve.content import seal
from tomserve.content.find import CODE
from tomserve.content.inert import inert
from tomserve.content.places import runs_root
from tomserve.errors import ConfigError, TomserveError
from tomserve.runs.runfolder import run_path
from tomserve.web.beside import keyless
from tomserve.web.digests import Digests

WORKS = {
    "panels": "tomserve.web.analysing",
    "report": "tomserve.web.exporting",
    "scores": "tomserve.web.exporting",
    "answers": "tomserve.web.answerindex",
    "compare": "tomserve.web.comparing",
}
"""The module of each work, whose function of that name does it: it is given the folder to write to, the names of the
runs, and the options of the wish."""

JOURNAL = "responses.jsonl"
SOURCES = ("manifest.json", JOURNAL, "items.jsonl", "noise.jsonl", "reader.jsonl", "reader.json")
MEASURED = "scores.parquet"
"""The files of a run that count, and the table of a run without a journal, which was measured and is no result."""

ROOM = 4 << 30
"""Bytes that the cache may take."""

MOST = 2
"""How many processes compute at once."""

WAITING = 100
"""How many wishes may wait; others are told to come again."""

LEFT = 24 * 3600 * 10**9
"""Nanoseconds after which an unfinished folder is taken for one whose server was killed."""

RECORD = "record.json"
_CODE = content.code_digest([Path(tomserve.__file__).parent])


@dataclass(frozen=True)
class Wish:
    """What is wanted. work: one of WORKS. runs: the names of runs that it is made from. options: what else counts, as
    JSON holds it. upto: for a run that still grows, how far it had grown when this was wanted: then that decides and
    not the content of its files, which would be another one each time."""

    work: str
    runs: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    upto: int | None = None


@dataclass(frozen=True)
class Result:
    """What came of a wish. folder: where it lies. facts: what its record says. error: why there is none, in words."""

    folder: Path
    facts: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""


class Computing:
    """What is computed beside one server, and what is kept of it in a folder."""

    def __init__(self, folder: Path, room: int = ROOM) -> None:
        self.folder, self._room = folder, room
        self._digests = Digests()
        self._lock = threading.Lock()
        self._places = threading.Semaphore(MOST)
        self._done: dict[str, Result] = {}
        self._working: set[str] = set()

    def wanted(self, wish: Wish, *, again: bool = False) -> Result | None:
        """What is wanted, or why it cannot be computed; None while it is computed, which this begins.

        again: whether to try once more what has failed.
        """
        if (key := self.key(wish)) is None:
            return None
        with self._lock:
            if (done := self._done.get(key)) is not None and (done.folder.is_dir() or (done.error and not again)):
                if not done.error:
                    _use(done.folder)
                return done
            if key in self._working or len(self._working) >= WAITING:
                return None
            self._working.add(key)
        if (kept := self._believed(key, small=True)) is not None:
            return self._end(key, kept)
        threading.Thread(target=self._work, args=(key, wish), daemon=True, name="computing").start()
        return None

    def key(self, wish: Wish) -> str | None:
        """The digest by which a result is known; None while the files of its runs are read."""
        state: list[Any] = []
        for run in wish.runs:
            folder = run_path(run)
            names = SOURCES if wish.upto is None else SOURCES[:1]  # its other files are changing
            digests = {name: self._digests.of(folder / name) for name in names}
            if digests.get(JOURNAL) == "":
                digests[MEASURED] = self._digests.of(folder / MEASURED)
            if None in digests.values():
                return None
            state.append([run, digests, str(folder.resolve())])
        studies = self._studies()
        made = [1, _CODE, studies, wish.work, state, dict(wish.options), wish.upto]
        return content.digest(orjson.dumps(made, option=orjson.OPT_SORT_KEYS)).removeprefix("sha256:")

    def _studies(self) -> list[list[str | None]]:
        """The digests of all studies at hand."""
        folders = (root / "analysis" for root in content.roots())
        paths = (path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix in CODE)
        return [[str(path), self._digests.of(path)] for path in paths]

    def working(self) -> int:
        """How many wishes are computed or wait."""
        with self._lock:
            return len(self._working)

    def _end(self, key: str, result: Result) -> Result:
        with self._lock:
            self._done[key] = result
            self._working.discard(key)
        return result

    def _work(self, key: str, wish: Wish) -> None:
        error = "it could not be computed, for a reason that the server's log tells"
        result = None
        try:
            with self._places:
                result = self._believed(key) or self._made(key, wish)
        except (OSError, TomserveError) as problem:
            error = str(problem)
        finally:
            self._end(key, result or Result(self.folder / key, error=error))

    def _believed(self, key: str, *, small: bool = False) -> Result | None:
        """What is kept under that key, if this user's tomserve has made it; small: only where that is quickly known."""
        folder = self.folder / key
        if (record := seal.kept(folder / RECORD)) is None or record.get("key") != key:
            return None
        described: Mapping[str, Mapping[str, Any]] = record["files"]
        if small and sum(one["bytes"] for one in described.values()) > 16 << 20:
            return None
        if any(_described(folder / name) != about for name, about in described.items()):
            return None
        _use(folder)
        return Result(folder, record.get("facts") or {})

    def _made(self, key: str, wish: Wish) -> Result:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._lock:
            self._trim()
        scratch, folder = self.folder / f".{secrets.token_hex(8)}", self.folder / key
        scratch.mkdir(mode=0o700)
        try:
            said = self._process(scratch, wish)
            if error := said.get("error"):
                return Result(folder, error=str(error))
            facts = said.get("facts") or {}
            described = {path.name: _described(path) for path in sorted(scratch.iterdir())}
            seal.keep(scratch / RECORD, {"key": key, "files": described, "facts": facts})
            shutil.rmtree(folder, ignore_errors=True)
            os.rename(scratch, folder)
            return Result(folder, facts)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _process(self, out: Path, wish: Wish) -> dict[str, Any]:
        """Let a process of its own do the work; returns what it says. It ends where this process does."""
        command = [sys.executable, "-m", "tomserve.web.computing"]
        asked = {"out": str(out), "work": wish.work, "runs": wish.runs, "options": dict(wish.options), "code": _CODE}
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=keyless(), start_new_session=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(OSError):
                process.stdin.write(orjson.dumps(asked) + b"\n")
                process.stdin.flush()
            said = process.stdout.read(1 << 24)
            code = process.wait()
        try:
            found = orjson.loads(said)
        except orjson.JSONDecodeError:
            return {"error": f"the process that computes it ended with exit code {code} before it was done; try again"}
        return found if isinstance(found, dict) else {}

    def _trim(self) -> None:
        """Remove what was used longest ago until the cache has room, and what a server left that was killed."""
        kept: list[tuple[int, int, Path]] = []
        for folder in self.folder.iterdir():
            with contextlib.suppress(OSError):
                size = sum(path.stat().st_size for path in folder.iterdir())
                kept.append((folder.stat().st_mtime_ns, size, folder))
        total = sum(size for _, size, _ in kept)
        for used, size, folder in sorted(kept):
            left = folder.name.startswith(".") and time.time_ns() - used > LEFT
            if left or (total > self._room and not folder.name.startswith(".")):
                shutil.rmtree(folder, ignore_errors=True)
                total -= size


@cache
def _computing(folder: Path) -> Computing:
    return Computing(folder)


def beside() -> Computing:
    """What is computed beside this server for the folder of runs in use."""
    return _computing((runs_root() / ".web" / "cache").absolute())


def wanted(work: str, *runs: str, upto: int | None = None, again: bool = False, **options: Any) -> Result | None:
    """What is wanted of those runs, as `Computing.wanted` says."""
    return beside().wanted(Wish(work, runs, options, upto), again=again)


def _use(folder: Path) -> None:
    with contextlib.suppress(OSError):
        os.utime(folder)


def _described(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            found = content.digest_of(iter(lambda: file.read(1 << 20), b""))
            return {"bytes": file.tell(), "digest": found}
    except OSError:
        return None


def main(given: IO[bytes], says: IO[bytes]) -> None:
    """Do one work: what is wanted stands on the first line of what is given, and what came of it is said as JSON.

    The process ends as soon as nobody holds the other end of `given` any more, that is when the server has ended.
    """
    asked = orjson.loads(given.readline())
    threading.Thread(target=_watch, args=(given,), daemon=True).start()
    try:
        if asked["code"] != _CODE:
            raise ConfigError("tomserve was changed since the workbench was started; start it anew")
        module = importlib.import_module(WORKS[asked["work"]])
        work: Callable[[Path, Sequence[str], Mapping[str, Any]], Mapping[str, Any] | None] = vars(module)[asked["work"]]
        said: dict[str, Any] = {"facts": work(Path(asked["out"]), asked["runs"], asked["options"]) or {}}
    except TomserveError as error:
        said = {"error": inert(without_paths(str(error)))}
    except Exception as error:  # whatever a study or a file of strangers brings about is told rather than lost
        sys.excepthook(type(error), error, error.__traceback__)
        said = {"error": inert(f"it could not be computed ({type(error).__name__}: {without_paths(str(error))[:300]})")}
    says.write(orjson.dumps(said))
    says.flush()


def without_paths(text: str) -> str:
    """The text with names of runs in the place of the paths of their folders on this machine."""
    return text.replace(f"{runs_root()}/", "").replace(f"{runs_root().resolve()}/", "")


def _watch(given: IO[bytes]) -> None:
    given.read()
    os._exit(1)


if __name__ == "__main__":
    with contextlib.suppress(OSError):
        os.nice(10)
    _says = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a study prints is no answer of ours
    from tomserve.web import computing

    computing.main(sys.stdin.buffer, _says)
    _says.flush()
    os._exit(0)  # without waiting for the thread that waits for the server
