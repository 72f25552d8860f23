"""Read a file of lines that another process may still be appending to, and know the digest of what was read.

A run may be scored while it is still being asked. Then only the beginning of its journal is read, as long as the file
was when it was opened, and the digest that is recorded is that of exactly these bytes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from tomserve.errors import ConfigError

CHUNK = 1 << 20
"""Bytes that are read at once where lines do not matter."""


class PinnedFile:
    """A file as it was when it was opened; what is appended later is not seen. Raises OSError where it cannot be read.

    path: the file. size: how many of its bytes to read, None for all that it has now; a file that has become shorter is
    read to its end. The attribute `digest` is ``sha256:`` and the 64 hexadecimal digits that ``sha256sum`` prints for
    these bytes; it is empty until `lines` has been read to its end.
    """

    def __init__(self, path: Path, size: int | None = None) -> None:
        self.path = path
        self.digest = ""
        self._file = path.open("rb")
        there = os.fstat(self._file.fileno()).st_size
        self.size = there if size is None else min(size, there)

    def lines(self) -> Iterator[tuple[int, int, bytes]]:
        """The number (from 1), the offset in bytes and the bytes of every line, with the newline if there is one."""
        self._file.seek(0)
        found, number, offset = hashlib.sha256(), 0, 0
        while line := self._file.readline(self.size - offset):
            number += 1
            yield number, offset, line
            found.update(line)
            offset += len(line)
        self.size, self.digest = offset, _name(found.hexdigest())

    def line(self, offset: int) -> bytes:
        """The line that begins at that offset in bytes."""
        self._file.seek(offset)
        return self._file.readline(self.size - offset)

    def unchanged(self) -> bool:
        """Whether the file still holds the bytes that `lines` gave; they are read once more."""
        found, offset = hashlib.sha256(), 0
        # Not through the file object, whose buffer may still hold what the file held before.
        while chunk := os.pread(self._file.fileno(), min(CHUNK, self.size - offset), offset):
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


def changed(path: Path) -> ConfigError:
    """The error to raise for a file that was changed while it was read."""
    return ConfigError(f"{path}: was changed while it was read; repeat the command")


def _name(digits: str) -> str:
    return f"sha256:{digits}"
