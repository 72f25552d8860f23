"""Open, create and replace files in folders that may come from somebody else, without being led to another place.

A run folder that was downloaded is data, and its entries are not to be trusted: ``responses.jsonl`` may be a symbolic
link to a private key, which a report would then show; ``report.html`` may be a link to one of the user's own files,
which would be overwritten; ``log.txt`` may be a named pipe, which blocks whoever opens it for ever. Therefore no link
at the end of a path is followed, only regular files are opened, and a file is replaced through a temporary one whose
name nobody can know beforehand. The folder itself may still be reached through a link (``runs/`` on another disk).

>>> with replacing(Path("table.csv")) as file:                                    # doctest: +SKIP
...     file.write(b"a,b")
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tomserve.content import temporary
from tomserve.errors import ConfigError

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
"""What stands at a path that is no regular file, in words for messages."""


def one_line(text: str) -> str:
    r"""The text with every character that cannot be printed written as an escape, so that a message stays on one line.

    >>> one_line("done\n2026 all 10 right")
    'done\\n2026 all 10 right'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def check(path: Path, *, alone: bool = False) -> None:
    """Raise ConfigError unless `path` is a regular file or nothing is there.

    alone: refuse a file with a second name (hard link), too. This is for files that are changed in place, where whoever
        knows the file by its other name would find it changed.
    """
    try:
        status = path.lstat()
    except OSError:
        return  # nothing is there, or opening it will say what is wrong
    if stat.S_ISLNK(status.st_mode):
        raise ConfigError(
            f"{path}: is a symbolic link{_target(path)}, which is not followed; put the file itself there (`cp -L` "
            "copies it), or delete the link"
        )
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(f"{path}: is {kind(status.st_mode)}; expected a regular file, so move it away")
    if alone and status.st_nlink > 1:
        raise ConfigError(
            f"{path}: has {status.st_nlink} names (hard links), and writing would change the file under all of them; "
            "put a copy in its place"
        )


def opened(path: Path, flags: int) -> int:
    """Open the regular file `path` and return its file descriptor.

    A new file gets the permissions that the user's umask leaves.

    flags: those of `os.open`, but not O_TRUNC; to empty a file use `emptied`.

    Raises ConfigError for a link or anything else that is no regular file, and, where the flags allow writing, for a
    file with a second name; OSError where it cannot be opened.
    """
    writing = bool(flags & (os.O_WRONLY | os.O_RDWR))
    check(path, alone=writing)
    # Another process may have put something else there since `check` looked: O_NOFOLLOW refuses a link, and O_NONBLOCK
    # does not wait for the other end of a named pipe.
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    try:
        if not stat.S_ISREG(mode := os.fstat(descriptor).st_mode):
            raise ConfigError(f"{path}: is {kind(mode)}; expected a regular file, so move it away")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def reading(path: Path) -> IO[bytes]:
    """Open the regular file `path` for reading. Raises ConfigError and OSError as `opened` does."""
    return os.fdopen(opened(path, os.O_RDONLY), "rb")


def emptied(path: Path) -> IO[bytes]:
    """Open the regular file `path` for writing, created where it is missing and emptied where it is not. Raises
    ConfigError and OSError as `opened` does.
    """
    file = os.fdopen(opened(path, os.O_WRONLY | os.O_CREAT), "wb")
    file.truncate(0)
    return file


def created(path: Path) -> IO[bytes]:
    """Create a new file and open it for writing, under a name that is not taken.

    The name is `path`, or where something has that name, the same with a number before the suffix (``log-2.txt``). The
    file's attribute `name` holds the path. Raises OSError where it cannot be created.
    """
    number, name = 1, path
    while True:
        try:
            return open(name, "xb", opener=_without_links)
        except FileExistsError:
            number += 1
            name = path.with_name(f"{path.stem}-{number}{path.suffix}")


def _without_links(path: str, flags: int) -> int:
    """An opener for `open` that refuses a symbolic link at the end of the path."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


@contextlib.contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Yield a new file that takes the place of `path` in one step when the block ends: readers see the old file or the
    new one.

    The file's attribute `name` holds its temporary path, for code that has to write it by name. What stood at `path`
    before, even a link, is replaced and not written to. If the block raises, the new file is removed; what a process
    leaves behind that is killed with SIGKILL is removed the next time a file of that folder is replaced.

    mode: the new file's permissions, before the umask.

    Raises ConfigError where `path` is a folder, a device or the like, OSError where the file cannot be written.
    """
    check_replaceable(path)
    with temporary.file(path.parent, mode) as file:
        yield file
        put_in_place(file, path)


def put_in_place(file: IO[bytes], path: Path) -> None:
    """Give a temporary file that was written the name `path`, once its content is on the disk. Raises OSError."""
    file.flush()
    os.fsync(file.fileno())
    os.replace(file.name, path)
    sync_folder(path.parent)


def check_replaceable(path: Path) -> None:
    """Raise ConfigError where `path` is something that must not be replaced by a file."""
    try:
        status = path.stat()
    except OSError:
        return  # nothing is there, or a link that leads nowhere; both can be replaced
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(f"{path}: is {kind(status.st_mode)}; expected a file or a new name")
    # such as /dev/stdout where the output goes to a file
    if path.is_symlink() and os.readlink(path).startswith(("/proc/", "/dev/")):
        raise ConfigError(f"{path}: stands for an open stream; expected a file or a new name")


def sync_folder(folder: Path) -> None:
    """Make sure that a new name in this folder survives a power failure, where the file system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _target(path: Path) -> str:
    """The words that say where the link leads; none where the link has just been removed."""
    try:
        return f" to {one_line(os.readlink(path))}"
    except OSError:
        return ""


def kind(mode: int) -> str:
    """What a file of this mode is, in words for a message."""
    return _KINDS.get(stat.S_IFMT(mode), "no regular file")
