"""Who is signed in, for how long, and how fast somebody may try passwords."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import orjson
import pydantic

from tomserve.content import files
from tomserve.errors import ConfigError
from tomserve.web import tokens

HOURS = 12
MOST = 1000
"""Sessions that are kept; where there are more, the oldest end."""


class Session(pydantic.BaseModel):
    """Somebody who is signed in. stamp: that of their password when they signed in. until: seconds since 1970."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    name: str
    stamp: str
    until: float


_SESSIONS = pydantic.TypeAdapter(dict[Annotated[str, pydantic.Field(pattern=r"^[0-9a-f]{64}$")], Session])


class Sessions:
    """All sessions, by the digests of their secrets; they outlive a restart of the workbench.

    clock: seconds since 1970. A file that is broken is forgotten: everybody signs in again.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self.path, self._clock, self._lock = path, clock, threading.Lock()
        self._all = self._read()

    def begin(self, name: str, stamp: str) -> str:
        """Begin a session of somebody and return its secret, which is kept nowhere else."""
        secret = tokens.drawn()
        with self._lock:
            self._all[tokens.digest(secret)] = Session(name=name, stamp=stamp, until=self._clock() + HOURS * 3600)
            self._write()
        return secret

    def find(self, secret: str) -> Session | None:
        """The session of that secret, unless it has ended."""
        found = self._all.get(tokens.digest(secret))
        return found if found is not None and found.until > self._clock() else None

    def end(self, secret: str) -> None:
        """End a session; nothing happens where there is none."""
        with self._lock:
            if self._all.pop(tokens.digest(secret), None) is not None:
                self._write()

    def _read(self) -> dict[str, Session]:
        try:
            return _SESSIONS.validate_python(files.read_json(self.path, "delete it"))
        except (OSError, ConfigError, pydantic.ValidationError):
            return {}

    def _write(self) -> None:
        living = sorted(((one.until, key) for key, one in self._all.items() if one.until > self._clock()), reverse=True)
        self._all = {key: self._all[key] for _, key in living[:MOST]}
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with files.replace_file(self.path, 0o600) as file:
            file.write(orjson.dumps({key: one.model_dump() for key, one in self._all.items()}))


@dataclass
class _Tries:
    failed: int = 0
    until: float = 0.0


FREE = {"both": 5, "address": 20, "name": 100}
"""Failed tries before anybody has to wait: of one name from one address, from one address, and of one name."""

LONGEST_WAIT = {"both": 900.0, "address": 300.0, "name": 10.0}
"""Seconds. A stranger who tries somebody's name from everywhere shall not shut them out, so that this wait is short."""

REMEMBERED = 10_000


class SlowDown:
    """Has somebody who tries wrong passwords wait: twice as long after each. clock: seconds that never go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._tries: OrderedDict[tuple[str, str, str], _Tries] = OrderedDict()

    def wait(self, name: str, address: str) -> float:
        """Seconds until the next try is looked at; 0 for at once. A try is then counted as a failure until `worked`
        says otherwise, so that many at once do not slip through."""
        with self._lock:
            now = self._clock()
            keys = self._keys(name, address)
            if (left := max((self._tries[key].until - now for key in keys if key in self._tries), default=0.0)) > 0:
                return left
            for key in keys:
                tries = self._tries.setdefault(key, _Tries())
                tries.failed += 1
                if (over := tries.failed - FREE[key[0]]) >= 0:
                    tries.until = now + min(2.0 ** min(over, 30), LONGEST_WAIT[key[0]])
                self._tries.move_to_end(key)
            while len(self._tries) > REMEMBERED:
                self._tries.popitem(last=False)
            return 0.0

    def worked(self, name: str, address: str) -> None:
        """Somebody has signed in: their own failures are forgotten, and the try no longer counts for the others."""
        with self._lock:
            both, *others = self._keys(name, address)
            self._tries.pop(both, None)
            for key in others:
                if key in self._tries:
                    self._tries[key].failed -= 1

    @staticmethod
    def _keys(name: str, address: str) -> tuple[tuple[str, str, str], ...]:
        name = name[:100]
        return ("both", name, address), ("address", "", address), ("name", name, "")
