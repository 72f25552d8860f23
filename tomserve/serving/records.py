"""Servers that `tomserve serve` runs: one JSON file a port in ``runs/.servers/``, probed before it is believed."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pydantic

from tomserve.content.places import runs_root
from tomserve.engine.clock import now
from tomserve.errors import ServerError
from tomserve.serving.probe import healthy

PATIENCE = 10.0
"""Seconds that /health of a recorded server may take."""


@dataclass(frozen=True)
class Record:
    """A running server: where, which preset, what exactly it serves; `server` as serving.provenance tells it."""

    pid: int
    url: str
    model: str
    revision: str | None
    command: list[str]
    started: str
    host: str
    server: dict[str, Any] = field(default_factory=dict)


def folder() -> Path:
    """``runs/.servers``."""
    return runs_root() / ".servers"


def write(port: int, **fields: Any) -> Path:
    """Record the server on `port` as this process's."""
    folder().mkdir(parents=True, exist_ok=True)
    path = folder() / f"{port}.json"
    partial = path.with_suffix(".part")
    record = Record(pid=os.getpid(), started=now(), host=socket.gethostname(), **fields)
    partial.write_bytes(orjson.dumps(asdict(record)))
    partial.replace(path)
    return path


def live() -> list[Record]:
    """Records of servers that answer /health, by port. Those whose process is gone are removed.

    Raises ServerError for a server whose process lives but which does not answer: it may only be busy, so it is
    neither forgotten nor silently replaced by another.
    """
    found = []
    for path in sorted(folder().glob("*.json")):
        record = _read(path)
        if record is None or not _alive(record):
            with contextlib.suppress(OSError):
                path.unlink()
        elif healthy(record.url.removesuffix("/v1"), PATIENCE):
            found.append(record)
        else:
            raise ServerError(
                f"{record.model} at {record.url} (pid {record.pid} on {record.host}) is running but does not answer; "
                f"wait for it, stop it, or give --base-url ({path} records it)"
            )
    return found


def started_here(urls: Sequence[str]) -> list[Record] | None:
    """The records of servers at these addresses, where every one is a living one of ours; else None. Asks nobody."""
    here = (record for path in folder().glob("*.json") if (record := _read(path)) and _alive(record))
    known = {_place(record.url): record for record in here if record.host == socket.gethostname()}
    places = [_place(url) for url in urls]
    return [known[place] for place in places] if places and all(place in known for place in places) else None


def remove(path: Path) -> None:
    """Remove a record that is this process's; another's stays."""
    record = _read(path)
    if record is not None and (record.pid, record.host) == (os.getpid(), socket.gethostname()):
        with contextlib.suppress(OSError):
            path.unlink()


def _place(url: str) -> str:
    return url.replace("//localhost:", "//127.0.0.1:")


def _read(path: Path) -> Record | None:
    try:
        return pydantic.TypeAdapter(Record).validate_json(path.read_bytes(), strict=True)
    except (OSError, pydantic.ValidationError):
        return None


def _alive(record: Record) -> bool:
    """Whether the process exists; one on another machine (a shared folder) is taken to."""
    if record.host != socket.gethostname():
        return True
    try:
        os.kill(record.pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
