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
from pathlib import Path

from tomserve.content import files
from tomserve.errors import ConfigError

AT_ONCE = 32 << 20
"""A file of at most so many bytes is read while a page waits, which takes some 50 ms; a longer one is read beside."""

SETTLED = 2.0
"""Seconds after which a file's last change can be told from a later one."""

_State = tuple[int, ...]


class Digests:
    """The digests of files, kept in memory."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[_State, str]] = {}
        self._reading: dict[Path, _State] = {}
        self._lock = threading.Lock()

    def of(self, path: Path) -> str | None:
        """The SHA-256 digest of a file, "" where there is none or it cannot be read; None while a long file is read."""
        try:
            status = path.lstat()
        except OSError:
            return ""
        state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        with self._lock:
            if (known := self._known.get(path)) is not None and known[0] == state:
                return known[1]
        if status.st_size <= AT_ONCE:
            return self._read(path, state)
        with self._lock:
            if path not in self._reading:
                self._reading[path] = state
                threading.Thread(target=self._read, args=(path, state), daemon=True, name="digest").start()
        return None

    def _read(self, path: Path, state: _State) -> str:
        begun = time.time()
        try:
            with files.reading(path) as file:
                sha = hashlib.sha256()
                while piece := file.read(1 << 20):
                    sha.update(piece)
                found = sha.hexdigest()
                after = os.fstat(file.fileno())
        except (OSError, ConfigError):
            found, after = "", None
        settled = begun - state[-1] / 1e9 > SETTLED
        same = after is not None and (after.st_size, after.st_ctime_ns) == (state[2], state[4])
        with self._lock:
            if settled and same:
                self._known[path] = state, found
            self._reading.pop(path, None)
        return found
