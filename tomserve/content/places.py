"""The folder that holds the runs, which several rooms have to know."""

from __future__ import annotations

import os
from pathlib import Path


def runs_root() -> Path:
    """The folder that holds the runs: ``TOMSERVE_RUNS`` where it is set, else ``./runs``."""
    return Path(os.environ.get("TOMSERVE_RUNS") or "runs")
