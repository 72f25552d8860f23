"""Read a file of lines that another process may still be appending to, and know the digest of what was read.

A run may be scored while it is still being asked. Then only the beginning of its journal is read, as long as the file
was when it was opened, and the digest that is recorded is that of exactly these bytes.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tomserve.content.bounded import LONGEST, too_long
from tomserve.errors import ConfigError

CHUNK = 1 << 20
"""Bytes that are read at once from the beginning to the end of a file."""

_LINE = 2048
"""Bytes that are read at first of a line that is looked up: more than most lines have."""


class Mark(NamedTuple):
    """How far a file was read before: how many bytes and lines it had, and their digest, which can be continued."""

    size: int
    lines: int
    digest: hashlib._Hash


def marked(path: Path, size: int, lines: int, digest: str) -> Mark | None:
    """The mark in a file that had that size, that number of lines and that digest, and has only grown since.

    None where its beginning is another one now, or did not end with the end of a line. Raises OSError.
    """
    found, offset, end = hashlib.sha256(), 0, b""
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(min(CHUNK, size - offset)):
            found.update(chunk)
            offset, end = offset + len(chunk), chunk[-1:]
    held = offset == size and end == b"\n" and _name(found.hexdigest()) == digest
    return Mark(size, lines, found) if held else None


class PinnedFile:
    """A file as it was when it was opened; what is appended later is not seen. Raises OSError where it cannot be read.

    path: the file. size: how many of its bytes to read, None for all that it has now; a file that has become shorter is
    read to its end. The attribute `digest` is ``sha256:`` and the 64 hexadecimal digits that ``sha256sum`` prints for
    these bytes; it is empty until `lines` has been read to its end. after: the mark behind which lines are read; what
    stands before it is not read again. The attribute `count` is the number of lines.
    """

    def __init__(self, path: Path, size: int | None = None, after: Mark | None = None) -> None:
        self.path = path
        self.digest = ""
        self.count = 0
        self._after = after
        self._file = open(path, "rb", buffering=0, opener=_unwaiting)  # noqa: SIM115  # open as long as this
        status = os.fstat(self._file.fileno())
        if not stat.S_ISREG(status.st_mode):
            self._file.close()
            raise ConfigError(f"{path}: is no regular file; expected a file of lines, which is read more than once")
        there = status.st_size
        self.size = there if size is None else min(size, there)

    @property
    def descriptor(self) -> int:
        """The number under which the operating system knows the open file."""
        return self._file.fileno()

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs that has inherited the open file under the same number."""
        return {**vars(self), "_file": self.descriptor, "_after": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._file = os.fdopen(state["_file"], "rb", buffering=0)

    def lines(self) -> Iterator[tuple[int, int, bytes]]:
        """The number (from 1), the offset in bytes and the bytes of every line, with the newline if there is one."""
        offset, number, found = self._begin()
        begun: list[bytes] = []  # the pieces of a line whose end is not read yet
        for chunk in self.chunks():
            found.update(chunk)
            first, *more = chunk.split(b"\n")
            begun.append(first)
            if not more:
                if len(begun) > LONGEST // CHUNK:
                    raise too_long(self.path, number + 1)
                continue
            last = more.pop()
            for text in (b"".join(begun), *more):
                number += 1
                line = text + b"\n"
                yield number, offset, line
                offset += len(line)
            begun = [last]
        if line := b"".join(begun):
            number += 1
            yield number, offset, line
        self.count, self.size, self.digest = number, offset + len(line), _name(found.hexdigest())

    def _begin(self) -> tuple[int, int, hashlib._Hash]:
        """Where reading begins: the offset, the number of lines before it, and the digest of what stands before it."""
        return (0, 0, hashlib.sha256()) if self._after is None else (*self._after[:2], self._after.digest.copy())

    def chunks(self) -> Iterator[bytes]:
        """The bytes that are read, in large pieces."""
        offset = self._begin()[0]
        while chunk := os.pread(self.descriptor, min(CHUNK, self.size - offset), offset):
            yield chunk
            offset += len(chunk)

    def line(self, offset: int) -> bytes:
        """The line that begins at that offset in bytes."""
        line, step = b"", _LINE
        while piece := os.pread(self.descriptor, min(step, self.size - offset), offset):
            end = piece.find(b"\n")
            if end >= 0:
                return line + piece[: end + 1]
            line, step, offset = line + piece, 2 * step, offset + len(piece)
        return line

    def unchanged(self) -> bool:
        """Whether the file still holds the bytes that `lines` gave; they are read once more."""
        offset, _, found = self._begin()
        for chunk in self.chunks():
            found.update(chunk)
            offset += len(chunk)
        return offset == self.size and _name(found.hexdigest()) == self.digest


def measured(path: Path) -> tuple[int, str]:
    """Length in bytes and digest of a whole file, as a PinnedFile names it. Raises OSError."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256")
        return file.tell(), _name(found.hexdigest())


def digest_of(data: bytes) -> str:
    """The digest of bytes, as a PinnedFile names it."""
    return _name(hashlib.sha256(data).hexdigest())


def _unwaiting(path: str, flags: int) -> int:
    """An opener for `open` that does not wait for somebody to write into a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def changed(path: Path) -> ConfigError:
    """The error to raise for a file that was changed while it was read."""
    return ConfigError(f"{path}: was changed while it was read; repeat the command")


def _name(digits: str) -> str:
    return f"sha256:{digits}"
