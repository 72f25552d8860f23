"""The record of the starts of a part's task, ``slurm/0002.starts`` beside the parts, written by the script of the task.

It is for people: it tells how often a part was begun, and where. Whoever can write to the folder can write it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tomserve.content import files
from tomserve.errors import ConfigError

LONGEST = 1 << 16
"""Bytes of a record that are read, its last ones: a task that starts a thousand times writes less."""


@dataclass(frozen=True)
class Starts:
    """How often the task of a part was started by one job, and on which node it was started last."""

    count: int
    node: str


def read(path: Path, job: str) -> Starts | None:
    """The starts by the job of that number; None where there are none, or where the record cannot be read."""
    try:
        with files.open_for_reading(path) as file:
            file.seek(max(0, file.seek(0, 2) - LONGEST))
            lines = file.read(LONGEST).decode("utf-8", "replace").splitlines()
    except (OSError, ConfigError):
        return None
    own = [words for line in lines if len(words := line.split()) == 4 and words[0] == job]
    return Starts(len(own), own[-1][2][:100]) if own else None
