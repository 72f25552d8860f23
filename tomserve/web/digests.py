"""Digests of the files of runs, read once for each state of a file, so that pages can ask for them.

What is up to date is decided by the content of files. A file that was read is not read again as long as its inode, its
length and the time of its last change (ctime, which nobody can set) stay the same. A change within the same tick of the
clock would leave them as they are; therefore a file that has just been changed is read anew each time.

>>> Digests().of(Path("no/such/file"))
''
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tomserve.content import files
from tomserve.errors import ConfigError

AT_ONCE = 32 << 20
"""So many bytes are read while a page waits, which takes some 50 ms; what is longer is read beside."""

SETTLED = 2.0
"""Seconds after which a file's last change can be told from a later one."""

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
