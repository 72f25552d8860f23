"""Every error tomserve raises on purpose, on one page.

    TomserveError                exit code 2 unless said otherwise
    ├── ConfigError              what the user gave is wrong: file, line, field, found, expected, way out
    │   ├── ContentError         a preset, prompt, stage or study file with a mistake in it
    │   └── RunMismatchError     the run folder belongs to another configuration
    ├── MachineError       the machine cannot do it: no vllm, too little memory, port in use
    ├── ServerError              a server did not start, is not there, or is not what it should be
    │   └── ServerLostError      exit 3: it went away in mid-run; the run can be resumed
    ├── JournalError             exit 3: the run's files cannot be written any more; resumable
    └── StoppedError              exit 130 or 143: Ctrl-C or SIGTERM; resumable

The command line prints ``str(error)`` on one line and exits with ``error.exit_code``; a traceback means a bug.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

__all__ = [
    "ConfigError",
    "ContentError",
    "JournalError",
    "MachineError",
    "RunMismatchError",
    "ServerError",
    "ServerLostError",
    "StoppedError",
    "TomserveError",
    "nearest",
    "one_of",
]


class TomserveError(Exception):
    """Base of every expected failure; its text is one line that ends with the way out."""

    exit_code = 2


class ConfigError(TomserveError):
    """Something the user gave (option, variable, file) is wrong."""


class ContentError(ConfigError):
    """A mistake in a content file, located as ``file:line: field: reason``."""

    def __init__(self, reason: str, *, path: Path | str, line: int | None = None, field: str = "") -> None:
        self.reason, self.path, self.line, self.field = reason, Path(path), line, field
        where = f"{path}:{line}" if line else str(path)
        super().__init__(f"{where}: {field}: {reason}" if field else f"{where}: {reason}")


class RunMismatchError(ConfigError):
    """The run folder was made by another configuration; names the first difference."""


class MachineError(TomserveError):
    """This machine lacks something the job needs."""


class ServerError(TomserveError):
    """A model server is missing, broken, or serves something else."""


class ServerLostError(ServerError):
    """The server went away in mid-run; everything that completed is kept."""

    exit_code = 3


class JournalError(TomserveError):
    """The run folder can no longer be written; everything that completed is kept."""

    exit_code = 3


class StoppedError(TomserveError):
    """Stopped by a signal after what was in flight had been kept."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def nearest(found: str, known: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` for the closest known name, or an empty string."""
    close = difflib.get_close_matches(found, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def one_of(kind: str, found: str, known: Iterable[str]) -> str:
    """One line for an unknown name: what was found, the nearest known one, all known ones."""
    names = sorted(known)
    return f"unknown {kind} {found!r}{nearest(found, names) or '.'} Known: {', '.join(names) or 'none'}"
