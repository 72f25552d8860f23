"""Scores runs anew, each in a process of its own, while the workbench goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from tomserve.errors import ConflictError
from tomserve.web.process import without_paths

AT_ONCE = 2
"""So many runs are scored side by side; others wait."""

KEPT = 4096
"""Characters of what the command has said that are kept."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How far the scoring of a run is. going: whether it goes on. failed: whether it has ended without scores. said:
    the last line that the command has said."""

    going: bool
    failed: bool = False
    said: str = ""


class Rescoring:
    """All scoring of one workbench. Any thread may use it."""

    def __init__(self) -> None:
        self._standing: dict[str, Standing] = {}
        self._lock = threading.Lock()
        self._places = threading.Semaphore(AT_ONCE)

    def begin(self, name: str, folder: Path) -> None:
        """Begin to score a run. Raises ConflictError where it is being scored."""
        with self._lock:
            known = self._standing.get(name)
            if known is not None and known.going:
                raise ConflictError(f"{name} is being scored already")
            self._standing[name] = Standing(going=True)
        threading.Thread(target=self._score, args=(name, folder), name=f"rescore-{name}", daemon=True).start()

    def standing(self, name: str) -> Standing | None:
        """How far the scoring of a run is; None where none was begun."""
        with self._lock:
            return self._standing.get(name)

    def _score(self, name: str, folder: Path) -> None:
        with self._places:
            try:
                done = subprocess.run(
                    [sys.executable, "-m", "tomserve", "score", str(folder.absolute())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, "PYTHONUNBUFFERED": "1"},
                    start_new_session=True,
                    check=False,
                )
                lines = done.stdout[-KEPT:].decode("utf-8", "replace").strip().splitlines()
                said = without_paths(lines[-1].removeprefix("tomserve: ")) if lines else ""
                ended = Standing(going=False, failed=done.returncode not in (0, 1), said=said)
            except OSError as error:
                ended = Standing(going=False, failed=True, said=str(error))
        with self._lock:
            self._standing[name] = ended
