"""The command line in a process of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def until(true: Callable[[], object], seconds: float = 300.0) -> bool:
    """Wait for something to come true; returns whether it has."""
    deadline = time.monotonic() + seconds
    while not (found := bool(true())) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def children(pid: int) -> list[int]:
    """The ids of the children of a process."""
    return sorted(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def group_of(pid: int) -> list[int]:
    """The ids of the living processes of a process group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[2]) == pid:
            found.append(int(stat.parent.name))
    return found


def journal(run: Path, name: str = "responses.jsonl") -> list[dict[str, Any]]:
    """The rows of a run, or of another of its journals, as far as they are written."""
    path = run / name
    return [orjson.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] if path.exists() else []
