"""The current time in the form in which the rows of a journal and the manifest of a run hold it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache


def now() -> str:
    """The current time in UTC as ISO 8601 with whole seconds, such as ``2026-11-21T12:00:00Z``."""
    return _moment(int(time.time()))


@lru_cache(maxsize=2)
def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
