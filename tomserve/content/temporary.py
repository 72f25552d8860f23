"""Temporary files and folders, which are removed whatever ends the process, and the critical sections that no signal
breaks in two.

Each is locked as long as it is in use. What a process leaves behind that is killed with SIGKILL is therefore known by
its lock, which nobody holds any more, and is removed by whoever makes the next one in the same folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO


class critical_section:  # noqa: N801  # it is used like a function, as contextlib.suppress is
    """A context in which a signal raises nothing: what it would raise is raised when the context is left.

    It is meant for steps that take no time. In other threads than the main one, where no signal arrives, it does
    nothing.
    """

    depth = 0
    pending: Callable[[], None] | None = None

    def __init__(self) -> None:
        self._counts = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> None:
        if self._counts:
            critical_section.depth += 1

    def __exit__(self, *_: object) -> None:
        if self._counts:
            critical_section.depth -= 1
            if not critical_section.depth and (pending := critical_section.pending) is not None:
                critical_section.pending = None
                pending()


def defer(what: Callable[[], None]) -> bool:
    """Have `what` called when the step under way is done; returns whether there is such a step.

    what: raises what a signal raises. It is called by the handler of a signal, in the main thread.
    """
    if critical_section.depth:
        critical_section.pending = what
    return bool(critical_section.depth)


_FILES = re.compile(r"\.tomserve-[0-9a-f]{16}\.part")
"""The names of temporary files, which lie beside the file whose place they take."""

_FOLDERS = re.compile(r"\.tomserve-[0-9a-f]{16}\.work")
"""The names of temporary folders."""

_in_use: set[str] = set()
"""The paths of the temporary files and folders of this process."""


@contextlib.contextmanager
def file(parent: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A new file in a folder, open for writing and locked. If it still has its name when the block ends, it is removed.

    parent: the folder. mode: the file's permissions, before the umask. The file's attribute `name` is its path. Raises
    OSError where it cannot be created.
    """
    sweep(parent)
    made: IO[bytes] | None = None
    try:
        with critical_section():
            made = _create_file(parent, mode)
        with made:
            yield made
    finally:
        if made is not None:
            with critical_section():
                with contextlib.suppress(OSError):
                    if _same(made.name, _known.pop(made.name)):
                        os.unlink(made.name)
                _in_use.discard(made.name)


_known: dict[str, tuple[int, int]] = {}
"""By the paths of the temporary files of this process, which file each is."""


def _same(path: str, known: tuple[int, int]) -> bool:
    status = os.lstat(path)
    return (status.st_dev, status.st_ino) == known


def _create_file(parent: Path, mode: int) -> IO[bytes]:
    while True:
        name = str(parent / f".tomserve-{secrets.token_hex(8)}.part")
        made = open(name, "xb", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW, mode))  # noqa: SIM115
        with contextlib.suppress(OSError):  # some file systems have no locks
            fcntl.flock(made, fcntl.LOCK_EX)  # at most `sweep` of another process holds it, for a moment
        if (status := os.fstat(made.fileno())).st_nlink:
            _in_use.add(name)
            _known[name] = (status.st_dev, status.st_ino)
            return made
        made.close()  # another process removed it as left behind, before it was locked


@contextlib.contextmanager
def folder(within: Path | None = None) -> Iterator[Path]:
    """A new folder that nobody else can read, which is removed with all that is in it when the block ends.

    within: where it is made; None for the system's folder for temporary files. Raises OSError where it cannot be made.
    """
    place = Path(tempfile.gettempdir()) if within is None else within
    sweep(place)
    made: str | None = None
    lock = -1
    try:
        with critical_section():
            made, lock = _make_folder(place)
        yield Path(made)
    finally:
        if made is not None:
            try:
                shutil.rmtree(made, ignore_errors=True)
            finally:  # a signal may have come in the middle of it
                with critical_section():
                    shutil.rmtree(made, ignore_errors=True)
                    _in_use.discard(made)
                    if lock >= 0:
                        os.close(lock)


def _make_folder(place: Path) -> tuple[str, int]:
    """A new folder, and the descriptor that holds its lock; -1 where the file system has no locks."""
    while True:
        made = str(place / f".tomserve-{secrets.token_hex(8)}.work")
        os.mkdir(made, 0o700)
        _in_use.add(made)
        try:
            lock = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:  # another process removed it as left behind, before it was locked
            _in_use.discard(made)
            continue
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(made):
            return made, lock
        os.close(lock)
        _in_use.discard(made)


def sweep(place: Path) -> None:
    """Remove the temporary files and folders in that folder whose lock nobody holds: killed processes have left them.

    What belongs to another user is left alone, and so is what is no file or folder of ours but a link or a pipe.
    """
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if not entry.name.startswith(".tomserve-") or entry.path in _in_use:
                continue
            with contextlib.suppress(OSError):
                if _FILES.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                    _remove(entry, os.O_RDWR)
                elif _FOLDERS.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                    _remove(entry, os.O_RDONLY | os.O_DIRECTORY)


def _remove(entry: os.DirEntry[str], flags: int) -> None:
    """Remove an entry unless its lock is held. Raises OSError where it is held, or cannot be opened."""
    if entry.stat(follow_symlinks=False).st_uid != os.geteuid():
        return
    descriptor = os.open(entry.path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)
    finally:
        os.close(descriptor)


def abandon() -> None:
    """Remove the temporary files and folders of this process at once, as it is about to be ended in mid-work."""
    for path in list(_in_use):
        with contextlib.suppress(OSError):
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
