"""Files that are written, and read in folders from somebody else, without being led to another place.

A run folder that was downloaded is data, and its entries are not to be trusted: ``responses.jsonl`` may be a symbolic
link to a private key, which a report would show, ``report.html`` one to a file of the user's that would be overwritten,
``log.txt`` a named pipe that blocks for ever. So no link at the end of a path is followed, only regular files are
opened, and a file is replaced through a temporary one whose name nobody can know beforehand. A folder may still be
reached through a link (``runs/`` on another disk).

>>> with replacing(Path("table.csv")) as file:                                    # doctest: +SKIP
...     file.write(b"a,b")
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tomserve.errors import ConfigError

_TEMPORARY = re.compile(r"\.tomserve-[0-9a-f]{16}\.part")

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def one_line(text: str) -> str:
    r"""The text with everything escaped that is no printable character: a message stays one line, whatever it holds.

    >>> one_line("done\n2026 all 10 right")
    'done\\n2026 all 10 right'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def check(path: Path, *, alone: bool = False) -> None:
    """Raise ConfigError unless `path` is a regular file, or nothing is there.

    alone: the file is going to be changed in place, so it may have no second name (hard link), whose owner would find
    his file changed, too.
    """
    try:
        found = path.lstat()
    except OSError:
        return  # nothing is there, or opening it will say what is wrong
    if stat.S_ISLNK(found.st_mode):
        raise ConfigError(
            f"{path}: is a symbolic link{_target(path)}, which is not followed; put the file itself there (`cp -L` "
            "copies it), or delete the link"
        )
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(f"{path}: is {_kind(found.st_mode)}; expected a regular file, so move it away")
    if alone and found.st_nlink > 1:
        raise ConfigError(
            f"{path}: has {found.st_nlink} names (hard links), and writing would change the file under all of them; "
            "put a copy in its place"
        )


def opened(path: Path, flags: int) -> int:
    """A descriptor of the regular file `path`, opened with these flags of `os.open` (not O_TRUNC; see `emptied`).

    A new file gets the permissions that the user's umask leaves. Raises ConfigError for a link or anything else that
    is no regular file, and where it is opened for writing for a file with a second name; otherwise OSError.
    """
    writing = bool(flags & (os.O_WRONLY | os.O_RDWR))
    check(path, alone=writing)
    # What `check` has seen may have been exchanged since: O_NOFOLLOW refuses a link, O_NONBLOCK does not wait for the
    # other end of a pipe.
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    try:
        if not stat.S_ISREG(mode := os.fstat(descriptor).st_mode):
            raise ConfigError(f"{path}: is {_kind(mode)}; expected a regular file, so move it away")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def reading(path: Path) -> IO[bytes]:
    """The regular file `path`, open for reading. Raises as `opened` does."""
    return os.fdopen(opened(path, os.O_RDONLY), "rb")


def emptied(path: Path) -> IO[bytes]:
    """The regular file `path`, made or emptied, open for writing. Raises as `opened` does."""
    file = os.fdopen(opened(path, os.O_WRONLY | os.O_CREAT), "wb")
    file.truncate(0)
    return file


def created(path: Path) -> IO[bytes]:
    """A new file, open for writing: `path`, or where something has that name, the same with a number before the
    suffix. Its `name` is its path. Raises OSError."""
    number, name = 1, path
    while True:
        try:
            return open(name, "xb", opener=_without_links)
        except FileExistsError:
            number += 1
            name = path.with_name(f"{path.stem}-{number}{path.suffix}")


def _without_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


@contextlib.contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A new file that takes the place of `path` in one step when the block ends: a reader sees the old or the new one.

    Its `name` is its path, for who has to write it by name. mode: its permissions, before the umask. What had the name
    `path` before, a link included, is replaced and not written to. Whatever the block raises, kill -9 apart, nothing is
    left behind; what a killed process has left is removed the next time. Raises ConfigError where a folder, a device or
    the like has that name, OSError where it cannot be written.
    """
    _check_replaceable(path)
    _sweep(path.parent)
    file = _temporary(path.parent, mode)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(file.name)
        raise
    _sync_folder(path.parent)


def _check_replaceable(path: Path) -> None:
    try:
        found = path.stat()
    except OSError:
        return  # nothing is there, or a link to nothing, which can be replaced
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(f"{path}: is {_kind(found.st_mode)}; expected a file or a new name")
    if path.is_symlink() and os.readlink(path).startswith(("/proc/", "/dev/")):  # /dev/stdout, sent to a file
        raise ConfigError(f"{path}: stands for an open stream; expected a file or a new name")


def _temporary(folder: Path, mode: int) -> IO[bytes]:
    """A new file in that folder, locked as long as it is open: so `_sweep` sees that it is in use."""
    while True:
        name = folder / f".tomserve-{secrets.token_hex(8)}.part"
        file = open(name, "xb", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW, mode))  # noqa: SIM115
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)  # waits for `_sweep` of another process at most, which is done at once
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # another process took it for left behind before it was locked


def _sweep(folder: Path) -> None:
    """Remove what a killed process has left in that folder: temporary files that nobody holds the lock of."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _TEMPORARY.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError), os.fdopen(_without_links(entry.path, os.O_RDWR), "r+b") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(entry.path)


def _sync_folder(folder: Path) -> None:
    """Make a new name durable; some file systems cannot."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _target(path: Path) -> str:
    try:
        return f" to {one_line(os.readlink(path))}"
    except OSError:  # it has just gone
        return ""


def _kind(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "no regular file")
