"""What the register remembers of run folders, in a file of SQLite that can be thrown away at any time.

Nothing depends on the file: where it is damaged or somebody else's it is made anew, and where it cannot be written, the
register does without.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import threading
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tomserve import __version__
from tomserve.content import files
from tomserve.errors import ConfigError

APPLICATION = 0x746F6D73
"""What the header of our own files says, so that a foreign one is known."""

AT_ONCE = 1 << 25
"""Bytes of journals that are counted at a time: a page never waits for the rows of a journal of gigabytes."""

PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Stamp:
    """How files looked when they were read: name, inode, size and times of each."""

    parts: tuple[tuple[str, int, int, int, int], ...] = ()


@dataclass(slots=True)
class Counted:
    """How many lines of a journal were counted: inode of the file, bytes and lines so far."""

    inode: int = 0
    bytes: int = 0
    lines: int = 0

    def about(self, size: int) -> int:
        """How many lines a journal of that size has, by those that were counted."""
        return self.lines if self.bytes >= size or not self.bytes else self.lines * size // self.bytes


class Memory:
    """Facts of runs by their names and stamps. Any thread may use it; its methods raise nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._base: sqlite3.Connection | None = None
        self._opened = False
        self._facts: dict[str, tuple[Stamp, dict[str, Any]]] = {}
        self._counted: dict[str, Counted] = {}
        self._changed: set[str] = set()
        self._left = AT_ONCE

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Use it within this: one thread at a time, and everything new is written at the end."""
        with self._lock:
            if not self._opened:
                self._opened = True
                self._load()
            self._left = AT_ONCE
            yield
            if self._changed:
                self._write()

    def recall(self, name: str, stamp: Stamp) -> dict[str, Any] | None:
        """What is known of a run whose files look like that; None where they have changed."""
        known = self._facts.get(name)
        return known[1] if known is not None and known[0] == stamp else None

    def keep(self, name: str, stamp: Stamp, facts: dict[str, Any]) -> None:
        """Remember what was read of a run."""
        self._facts[name] = (stamp, facts)
        self._changed.add(name)

    def count(self, name: str, path: Path, status: tuple[int, int, int, int]) -> Counted:
        """Count further lines of a run's journal, where there are any. status: inode, size and times of the file."""
        inode, size = status[:2]
        counted = self._counted.get(name)
        if counted is None or counted.inode != inode or counted.bytes > size:
            counted = self._counted[name] = Counted(inode)
        if counted.bytes < size and self._left > 0:
            before = counted.bytes
            with contextlib.suppress(OSError, ConfigError), files.open_for_reading(path) as file:
                file.seek(before)
                while self._left > 0 and (piece := file.read(PIECE)):
                    counted.bytes += len(piece)
                    counted.lines += piece.count(b"\n")
                    self._left -= len(piece)
            if counted.bytes - before > PIECE:
                self._changed.add(name)
        return counted

    def forget(self, there: Collection[str]) -> None:
        """Forget every run that is not among these."""
        for name in [name for name in self._facts if name not in there]:
            del self._facts[name]
            self._counted.pop(name, None)
            self._changed.add(name)

    def clear(self) -> None:
        """Forget everything, the file included."""
        with self._lock:
            self._close()
            remove(self._path)
            self._facts.clear()
            self._counted.clear()
            self._changed.clear()
            self._opened = False

    def _load(self) -> None:
        """Read everything that is in the file, which is made anew where it is not ours or not sound."""
        for _ in range(2):
            try:
                base = self._base = self._connected()
                for name, stamp, facts, counted in base.execute("select name, stamp, facts, counted from runs"):
                    self._facts[name] = (
                        Stamp(tuple(tuple(part) for part in orjson.loads(stamp))),
                        _checked(orjson.loads(facts)),
                    )
                    self._counted[name] = Counted(*orjson.loads(counted))
                return
            except (sqlite3.DatabaseError, OSError, ValueError, TypeError, KeyError):
                self._close()
                self._facts.clear()
                self._counted.clear()
                remove(self._path)

    def _connected(self) -> sqlite3.Connection:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        base = opened(self._path)
        if base.execute("pragma user_version").fetchone()[0] != version():
            base.execute("drop table if exists runs")
            base.execute(f"pragma user_version = {version()}")
        columns = "name text primary key, stamp blob, facts blob, counted blob"
        base.execute(f"create table if not exists runs ({columns}) without rowid")
        return base

    def _write(self) -> None:
        changed, self._changed = self._changed, set()
        if self._base is None:
            return
        try:
            with self._base:
                self._base.execute("begin immediate")
                for name in changed:
                    if name not in self._facts:
                        self._base.execute("delete from runs where name = ?", (name,))
                        continue
                    stamp, facts = self._facts[name]
                    counted = self._counted.get(name, Counted())
                    self._base.execute(
                        "insert or replace into runs values (?, ?, ?, ?)",
                        (name, orjson.dumps(stamp.parts), orjson.dumps(facts),
                         orjson.dumps((counted.inode, counted.bytes, counted.lines))),
                    )  # fmt: skip
        except sqlite3.OperationalError:  # another process is writing, or the disk is full: it is read again next time
            pass
        except sqlite3.DatabaseError:
            self._close()
            remove(self._path)
            self._opened = False

    def _close(self) -> None:
        base, self._base = self._base, None
        if base is not None:
            with contextlib.suppress(sqlite3.Error):
                base.close()


def opened(path: Path) -> sqlite3.Connection:
    """A file of SQLite of ours, open. Raises sqlite3.DatabaseError where it is damaged or somebody else's."""
    if not usable(path):
        raise sqlite3.OperationalError("a folder is in its place")
    base = sqlite3.connect(path, timeout=2.0, check_same_thread=False, isolation_level=None)
    try:
        base.execute("pragma journal_mode = wal")
        base.execute("pragma synchronous = normal")
        known = base.execute("pragma application_id").fetchone()[0]
        if known not in (0, APPLICATION) or (known == 0 and base.execute("select 1 from sqlite_master").fetchone()):
            raise sqlite3.DatabaseError("a file of another program")
        base.execute(f"pragma application_id = {APPLICATION}")
    except BaseException:
        base.close()
        raise
    return base


def remove(path: Path) -> None:
    """Remove a file of SQLite with what lies beside it; a folder in its place is left alone."""
    for name in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        with contextlib.suppress(OSError):
            name.unlink()


def usable(path: Path) -> bool:
    """Whether a file of SQLite can be there: a link, a pipe or the like is removed, and only a folder is in the way."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return True
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        remove(path)
    return not stat.S_ISDIR(mode)


def version() -> int:
    """A number that another version of the programs has another one of, as what they remember may differ."""
    return zlib.crc32(__version__.encode()) & 0x7FFFFFFF


def _checked(facts: Any) -> dict[str, Any]:
    """What the file says of a run, if it has the parts that a line needs. Raises ValueError."""
    if (
        not isinstance(facts, dict)
        or not isinstance(facts.get("card"), dict)
        or not isinstance(facts.get("line"), dict)
    ):
        raise ValueError("no facts of a run")
    return facts
