"""The command line in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import orjson

TOMSERVE = [sys.executable, "-m", "tomserve"]


def environment(runs: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOMSERVE_")}
    return {**kept, "TOMSERVE_RUNS": str(runs), "PYTHONUNBUFFERED": "1"}


def tomserve(runs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TOMSERVE, *arguments], env=environment(runs), capture_output=True, text=True, timeout=500, check=False
    )


def ready(record: Path) -> bool:
    """Whether `tomserve serve` has recorded its server there, and the record says no longer that the server loads."""
    return record.exists() and not orjson.loads(record.read_bytes())["loading"]
