"""All errors that tomserve raises on purpose, on one page.

    TomserveError                exit code 2 unless said otherwise
    ├── ConfigError              what the user gave is wrong: file, line, field, found, expected, way out
    │   ├── ContentError         a preset, prompt, stage or study file has a mistake in it
    │   ├── RunMismatchError     the run folder belongs to another configuration
    │   ├── NoSuchRunError       there is no run of that name, or none that this person may see
    │   ├── NotAllowedError      this person may not do that
    │   └── ConflictError        that cannot be done to a run in the state that it is in
    ├── OutputError              standard output cannot be written
    ├── MachineError             the machine cannot do it: no vllm, too little memory, port in use
    │   └── InUseError           another process works on the run folder
    ├── ServerError              a server did not start, is not there, or is not what it should be
    │   └── ServerLostError      exit code 3: the server went away during a run, which can be resumed
    ├── JournalError             exit code 3: the run's files can no longer be written; it can be resumed
    ├── InapplicableError        a variant of some kind cannot be made of an item; it is left out and counted
    └── StoppedError             exit code 130, 143 or 129: a signal stopped the asking; the run can be resumed
    Interrupted                  the same exit codes: what a signal raises anywhere else; no Exception, so that nothing
                                 that handles errors handles it

The command line prints ``str(error)`` on one line and exits with ``error.exit_code``. A traceback means a bug.
"""

from __future__ import annotations

import difflib
import signal
from collections.abc import Iterable
from pathlib import Path

__all__ = [
    "ConfigError",
    "ConflictError",
    "ContentError",
    "InUseError",
    "InapplicableError",
    "Interrupted",
    "JournalError",
    "MachineError",
    "NoSuchRunError",
    "NotAllowedError",
    "OutputError",
    "RunMismatchError",
    "ServerError",
    "ServerLostError",
    "StoppedError",
    "TomserveError",
    "nearest",
    "one_of",
]


class TomserveError(Exception):
    """Base of all expected failures. Its text is one line that ends with what the user can do."""

    exit_code = 2


class ConfigError(TomserveError):
    """Something that the user gave (an option, variable or file) is wrong."""


class ContentError(ConfigError):
    """A content file has a mistake; the text is ``file:line: field: reason``, without the parts that are not known."""

    def __init__(self, reason: str, *, path: Path | str, line: int | None = None, field: str = "") -> None:
        """Build the text of the error from its parts, which are kept as attributes.

        reason: what is wrong, in words.
        path: the file.
        line: its line, counted from 1, if known.
        field: the field, as the file names it, if there is one.
        """
        self.reason, self.path, self.line, self.field = reason, Path(path), line, field
        where = f"{path}:{line}" if line else str(path)
        super().__init__(f"{where}: {field}: {reason}" if field else f"{where}: {reason}")


class RunMismatchError(ConfigError):
    """The run folder was made with another configuration; the text names the first difference."""


class NoSuchRunError(ConfigError):
    """There is no run of that name, or none that this person may see; nobody is told which of the two."""


class NotAllowedError(ConfigError):
    """Whoever asks the workbench for something may not have it or do it."""


class ConflictError(ConfigError):
    """Something cannot be done to a run in the state that it is in, or its name is taken."""


class NoSuchAnswerError(NoSuchRunError):
    """A run holds no answer to that item by that strategy."""


class MachineError(TomserveError):
    """This machine lacks something that the job needs."""


class InUseError(MachineError):
    """Another process works on the run folder."""


class OutputError(TomserveError):
    """Standard output, which is where the result belongs, cannot be written."""


class ServerError(TomserveError):
    """A model server is missing, is broken, or serves something else than asked."""


class ServerLostError(ServerError):
    """The server went away during a run; all answers that had arrived are kept."""

    exit_code = 3


class JournalError(TomserveError):
    """The run folder can no longer be written; all answers that were written before are kept."""

    exit_code = 3


class InapplicableError(TomserveError):
    """A variant of some kind cannot be made of an item. The text is the reason, in the same words for all items of one
    sort, so that items can be counted by it."""


class StoppedError(TomserveError):
    """A signal has stopped the run; the answers to requests under way were kept first."""

    def __init__(self, message: str, exit_code: int) -> None:
        """Give the text of the error and the exit code, which tells which signal it was (130, 143 or 129)."""
        super().__init__(message)
        self.exit_code = exit_code


class Interrupted(SystemExit):
    """A signal ends the command, wherever it is. It is no Exception, because nothing that handles errors is to handle
    it, and a SystemExit, because asyncio passes that on at once. Whoever catches SystemExit has to let it pass."""

    def __init__(self, number: int, doing: str = "") -> None:
        """Give the signal's number and, where that is worth saying, what it interrupted."""
        super().__init__(128 + number)
        self.number, self.exit_code = number, 128 + number
        self._doing = doing

    def __str__(self) -> str:
        """The line that the command ends with."""
        return f"stopped by {signal.Signals(self.number).name}{self._doing}; repeat the command to go on"


def nearest(found: str, known: Iterable[str]) -> str:
    """The words ``"; did you mean 'x'?"`` for the known name that is closest to `found`; empty where none is close."""
    close = difflib.get_close_matches(found, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def one_of(kind: str, found: str, known: Iterable[str]) -> str:
    """One line for an unknown name of that kind: the name found, the closest known one, and all known ones."""
    names = sorted(known)
    return f"unknown {kind} {found!r}{nearest(found, names) or '.'} Known: {', '.join(names) or 'none'}"
