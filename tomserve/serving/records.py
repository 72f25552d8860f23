"""Servers that `tomserve serve` runs: one JSON file a port in ``runs/.servers/``, probed before it is believed."""

from __future__ import annotations

import contextlib
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson

from tomserve.engine.runfolder import now, runs_root


@dataclass(frozen=True)
class Record:
    """A running server: where, which preset, what exactly it serves."""

    pid: int
    url: str
    model: str
    revision: str | None
    command: list[str]
    started: str


def folder() -> Path:
    """``runs/.servers``."""
    return runs_root() / ".servers"


def write(port: int, **fields: Any) -> Path:
    """Record the server on `port` as this process's."""
    folder().mkdir(parents=True, exist_ok=True)
    path = folder() / f"{port}.json"
    partial = path.with_suffix(".part")
    partial.write_bytes(orjson.dumps(asdict(Record(pid=os.getpid(), started=now(), **fields))))
    partial.replace(path)
    return path


def live() -> list[Record]:
    """Records whose process exists and whose /health answers, by port; the others are removed."""
    found = []
    for path in sorted(folder().glob("*.json")):
        record = _read(path)
        if record is not None and _answers(record):
            found.append(record)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
    return found


def _read(path: Path) -> Record | None:
    try:
        return Record(**orjson.loads(path.read_bytes()))
    except (OSError, TypeError, orjson.JSONDecodeError):
        return None


def _answers(record: Record) -> bool:
    try:
        os.kill(record.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    try:
        return httpx.get(f"{record.url.removesuffix('/v1')}/health", timeout=3.0, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False
