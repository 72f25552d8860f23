"""Every error that tomserve raises on purpose.

The command line prints ``str(error)`` on one line and exits with ``error.exit_code``. A traceback means a bug.
"""

import difflib
import signal
from collections.abc import Iterable
from pathlib import Path


class TomserveError(Exception):
    """Base of all expected failures. Its text is one line that ends with what the user can do."""

    exit_code = 2


class ConfigError(TomserveError):
    """Something that the user gave (an option, variable or file) is wrong."""


class ContentError(ConfigError):
    """A content file has a mistake; the text is ``file:line: field: reason``, without the parts that are not known."""

    def __init__(self, reason: str, *, path: Path | str, line: int | None = None, field: str = "") -> None:
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
    """A signal has stopped the run; the answers to requests under way were kept first. exit_code: 130, 143 or 129."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Interrupted(SystemExit):
    """What a signal raises anywhere else. It is no Exception, because nothing that handles errors is to handle it, and
    a SystemExit, because asyncio passes that on at once. Whoever catches SystemExit has to let it pass."""

    def __init__(self, number: int, doing: str = "") -> None:
        super().__init__(128 + number)
        self.number, self.exit_code = number, 128 + number
        self._doing = doing

    def __str__(self) -> str:
        return f"stopped by {signal.Signals(self.number).name}{self._doing}; repeat the command to go on"


def nearest(found: str, known: Iterable[str]) -> str:
    """The words ``"; did you mean 'x'?"`` for the known name that is closest to `found`; empty where none is close."""
    close = difflib.get_close_matches(found[:200], list(known), n=1)  # which takes long for a long text
    return f"; did you mean {close[0]!r}?" if close else ""


def one_of(kind: str, found: str, known: Iterable[str]) -> str:
    """One line for an unknown name of that kind: the name found, the closest known one, and all known ones."""
    names = sorted(known)
    return f"unknown {kind} {found!r:.200}{nearest(found, names) or '.'} Known: {', '.join(names) or 'none'}"
