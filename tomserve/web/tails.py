"""Reads the last rows of a journal that is being written, from its end, so that its length does not matter."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from tomserve.content import files
from tomserve.errors import ConfigError

BYTES = 1 << 20
"""Bytes of the end of a journal that are read."""


def tail(path: Path, most: int = 50, size: int = BYTES) -> tuple[Mapping[str, Any], ...]:
    """The last rows of a journal, the newest first; none where it cannot be read. A line that is being written, and
    what is no row, is left out.

    most: how many. size: how many bytes of the end are read.
    """
    try:
        with files.open_for_reading(path) as file:
            start = max(0, os.fstat(file.fileno()).st_size - size)
            file.seek(start)
            text = file.read(size)
    except (OSError, ConfigError):
        return ()
    lines = text.split(b"\n")[:-1]
    rows = [row for line in reversed(lines[1:] if start else lines) if (row := _row(line)) is not None]
    return tuple(rows[:most])


def _row(line: bytes) -> Mapping[str, Any] | None:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(row, dict) or not isinstance(row.get("item"), str):
        return None
    text = row.get("text")
    return {
        "item": row["item"],
        "strategy": str(row.get("strategy") or ""),
        "model": "",
        "sample": row["sample"] if type(row.get("sample")) is int else 0,
        "turn": row["turn"] if type(row.get("turn")) is int else 0,
        "status": str(row.get("status") or ""),
        "text": text if isinstance(text, str) else "",
        "time": str(row.get("time") or ""),
    }
