"""The entries of the queue: huey keeps them, on SQLite by default and on Redis where the settings name one.

An entry says which run's turn has come, and no more. The truth is the card in the run's folder: an entry whose turn is
not that of the card is void, and one that is lost is put back. So nothing depends on what lies here.

Entries are JSON and never pickled: who can write to a Redis must not be able to run programs here.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import orjson
from huey import Huey, PriorityRedisHuey, SqliteHuey  # type: ignore[import-untyped]  # huey has no types
from huey.exceptions import HueyException  # type: ignore[import-untyped]  # huey has no types
from huey.registry import Message  # type: ignore[import-untyped]  # huey has no types
from huey.serializer import Serializer  # type: ignore[import-untyped]  # huey has no types

from tomserve.content import files
from tomserve.errors import ConfigError
from tomserve.web.memory import remove, usable
from tomserve.web.settings import Settings

Done = TypeVar("Done")

SECONDS = 5.0
"""How long a database may take to answer."""


class Entry(NamedTuple):
    """Whose turn has come. name: of the run. turn: that of its card."""

    name: str
    turn: int


class Plain(Serializer):  # type: ignore[misc]  # huey has no types
    """Writes messages as JSON."""

    def _serialize(self, data: Any) -> bytes:
        return orjson.dumps(list(data) if isinstance(data, tuple) else data)

    def _deserialize(self, data: bytes) -> Any:
        found = orjson.loads(data)
        return Message(*found) if isinstance(found, list) else found


class Entries:
    """All entries of a workbench, each in the queue of its group. Any thread may use it; its methods raise nothing:
    what cannot be kept now is put back by the worker later."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._file = settings.folder / "queue.db"
        self._id = ""

    def put(self, group: str, entry: Entry, order: float) -> bool:
        """Put an entry into the queue of its group; the smallest order comes first. Returns whether it is there."""

        def put(huey: Huey, task: Any) -> bool:
            huey.enqueue(task.s(entry.name, entry.turn, priority=-order))
            return True

        return self._done(group, put) or False

    def take(self, group: str) -> Entry | None:
        """Take the first entry of a group out of its queue; None where there is none."""
        found = self._done(group, lambda huey, task: huey.dequeue())
        return None if found is None else _entry(found)

    def all(self, group: str) -> set[Entry] | None:
        """The entries of a group; None where nobody knows them now."""
        found = self._done(group, lambda huey, task: huey.pending())
        return None if found is None else {entry for one in found if (entry := _entry(one)) is not None}

    def clear(self, group: str) -> None:
        """Empty the queue of a group."""
        self._done(group, lambda huey, task: huey.flush())

    def anew(self) -> None:
        """Throw the file of SQLite away; a Redis is left to `clear`."""
        if self._settings.queue is None:
            remove(self._file)

    def _done(self, group: str, do: Callable[[Huey, Any], Done]) -> Done | None:
        """What a function returns that is given the queue of a group, and the task that entries are of; None where that
        does not work now."""
        import redis

        try:
            huey = self._opened(f"tomserve-{self._workbench()}-{hashlib.sha256(group.encode()).hexdigest()[:16]}")
            try:
                return do(huey, huey.task(name="asked")(_asked))
            finally:
                _close(huey)
        except sqlite3.OperationalError:
            return None
        except sqlite3.DatabaseError:
            remove(self._file)
        except (redis.RedisError, OSError, ConfigError, HueyException, ValueError, TypeError):
            pass
        return None

    def _opened(self, name: str) -> Huey:
        if self._settings.queue is not None:
            from redis import ConnectionPool

            pool = ConnectionPool.from_url(self._settings.queue, socket_timeout=SECONDS, socket_connect_timeout=SECONDS)
            return PriorityRedisHuey(name, connection_pool=pool, serializer=Plain(), results=False, blocking=False)
        self._settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not usable(self._file):
            raise ConfigError(f"{self._file}: is a folder; expected a file, so move it away")
        return SqliteHuey(name, filename=str(self._file), serializer=Plain(), results=False, timeout=SECONDS)

    def _workbench(self) -> str:
        """What tells this workbench's entries from another one's in the same Redis; drawn once."""
        if not self._id:
            path: Path = self._settings.folder / "id"
            with contextlib.suppress(OSError), files.open_for_reading(path) as file:
                self._id = "".join(one for one in file.read(32).decode("ascii", "replace") if one.isalnum())
            if not self._id:
                self._settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._id = secrets.token_hex(8)
                with files.replace_file(path) as file:
                    file.write(self._id.encode())
        return self._id


def _asked(name: str, turn: int) -> None:
    """What huey knows the entries by."""


def _entry(task: Any) -> Entry | None:
    """What an entry says; None for one that anybody else has put there."""
    try:
        return Entry(str(task.args[0]), int(task.args[1]))
    except (TypeError, ValueError, IndexError):
        return None


def _close(huey: Huey) -> None:
    storage = huey.storage
    if isinstance(huey, SqliteHuey):
        storage.close()
    else:
        storage.conn.connection_pool.disconnect()
