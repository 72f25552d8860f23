"""Work that takes longer than a page may: done by a process of its own, which keeps what it makes in a file.

The file is named by a digest of all that decides what is in it, so that whoever wishes for the same finds it there. A
page that finds no file yet says so, and asks again a second later.

    found = wanted(Work("tomserve.web.indexing", path, ("items", "x.jsonl")))
    if found is None:
        ...  # it is being made
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from tomserve.content import bounded, files
from tomserve.errors import ConfigError, TomserveError

AT_ONCE = 2
"""How many processes work at a time; a further wish waits for one of them."""

TRY_AGAIN = 300.0
"""Seconds after which work that failed is tried once more, as what was in its way may be gone."""

MOST = 512 << 20
"""Bytes that the folder of kept files may have; what was used longest ago goes first."""

KEYS = ("TOMSERVE_API_KEY", "TOMSERVE_API_KEY_FILE", "OPENAI_API_KEY", "VLLM_API_KEY")
"""The variables that hold a key of an endpoint, or say where one stands."""

_children: list[subprocess.Popen[bytes]] = []
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be made.

    module: the module that makes it, given the file and the arguments. path: the file. arguments: texts that the module
    understands. lock: the name of the lock that one process holds meanwhile; None for one of this file's own.
    """

    module: str
    path: Path
    arguments: Sequence[str] = ()
    lock: str | None = None

    @property
    def failure(self) -> Path:
        """The file that says in words why it could not be made."""
        return self.path.with_name(f"{self.path.name}.failed")


def wanted(work: Work) -> Path | None:
    """The file, where it is there; None where it is being made, which begins now if nobody is at it.

    Raises ConfigError with the reason where it could not be made.
    """
    if (path := there(work)) is None:
        begin(work)
    return path


def there(work: Work) -> Path | None:
    """The file, where it is there, else None; nothing is begun. Raises ConfigError as `wanted` does."""
    if work.path.exists():
        with contextlib.suppress(OSError):
            os.utime(work.path)  # so that what is looked at is not taken for what nobody needs
        return work.path
    if (reason := _failed(work)) is not None:
        raise ConfigError(reason)
    return None


def _failed(work: Work) -> str | None:
    """Why the file could not be made; None where nobody knows of a reason, and while a process is at it."""
    try:
        if not work.failure.exists() or _busy(work):
            return None
        age = time.time() - work.failure.stat().st_mtime
        if age > TRY_AGAIN:
            work.failure.unlink()
            return None
        return str(bounded.json(work.failure, "it is made anew after some minutes"))
    except OSError:
        return None


def _lock_of(work: Work) -> Path:
    return work.path.with_name(f"{work.lock or work.path.name}.lock")


def _busy(work: Work) -> bool:
    with contextlib.ExitStack() as held:
        return _held(held, _lock_of(work)) is None


def begin(work: Work) -> None:
    """Start a process that makes the file, unless one is at it or as many as may be are at work.

    Raises ConfigError where the folder cannot be written.
    """
    folder = work.path.parent
    with _lock:
        _children[:] = [child for child in _children if child.poll() is None]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with contextlib.ExitStack() as held:
                own = _held(held, _lock_of(work))
                places = (_held(held, folder / f".place-{number}.lock") for number in range(AT_ONCE))
                if own is None or (place := next((one for one in places if one is not None), None)) is None:
                    return
                if work.path.exists():
                    return
                _children.append(_started(work, (own, place)))
        except OSError as error:
            raise ConfigError(f"{folder}: cannot be written ({error.strerror})") from None


def _held(stack: contextlib.ExitStack, path: Path) -> int | None:
    """The number of the locked file; None where a process holds it, which ends with that process."""
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, number)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return None
    return number


def _started(work: Work, locks: tuple[int, int]) -> subprocess.Popen[bytes]:
    """The process, which holds the locks until it ends, however it ends, and knows no key of any endpoint."""
    command = [sys.executable, "-m", work.module, str(work.path), *work.arguments]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=keyless(),
        pass_fds=locks,
        start_new_session=True,
    )


def keyless() -> dict[str, str]:
    """The environment without any key of an endpoint."""
    return {name: value for name, value in os.environ.items() if name not in KEYS}


def stop() -> None:
    """End what this process has started, as the workbench does when it ends."""
    with _lock:
        for child in _children:
            child.terminate()
        for child in _children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(10)
        _children.clear()


def run(make: Callable[[Path, Sequence[str]], None], arguments: Sequence[str]) -> int:
    """What the process does: make the file, or say why it cannot be made. Returns the exit code.

    make: writes the file in one step, given its path and the other arguments. arguments: those of the process.
    """
    work = Work("", Path(arguments[0]))
    with contextlib.suppress(OSError):
        os.nice(10)
    _say(work, "the process that makes it ended before it was done")
    try:
        make(work.path, arguments[1:])
    except TomserveError as error:
        _say(work, str(error))
        return error.exit_code
    except MemoryError:
        _say(work, "there is too little memory to make it")
        return 2
    work.failure.unlink(missing_ok=True)
    _tidy(work.path)
    return 0


def _say(work: Work, reason: str) -> None:
    with files.replacing(work.failure) as file:
        file.write(orjson.dumps(reason))


def _tidy(latest: Path) -> None:
    """Remove the files that were used longest ago where the folder has become too large."""
    found = []
    for path in latest.parent.iterdir():
        with contextlib.suppress(OSError):
            status = path.stat()
            if path.suffix != ".lock" and path.is_file() and path != latest:
                found.append((status.st_mtime, status.st_size, path))
    size = sum(one for _, one, _ in found)
    for _, one, path in sorted(found):
        if size <= MOST:
            return
        path.unlink(missing_ok=True)
        size -= one
