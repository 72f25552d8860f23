"""Standard output and standard error that may be closed, full, or a pipe that nobody reads any more.

Where standard output is what a command is for (`items`, `runs`), it ends when it cannot be written: without a word
where nobody reads any more (``| head``), else with a line. Where the result lies in files (`eval`), the command goes on
after a warning, because what is printed is the least of it. What cannot be written on standard error is lost.

A stream that was closed before the command began (``>&-``) is opened for reading: otherwise the next file that is
opened would get its number, and what is printed would stand in the middle of that file.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from collections.abc import Callable
from typing import Any, TextIO

from tomserve.errors import OutputError

_going_on: list[bool] = [False]
"""Whether the command goes on without standard output."""

_replaced: dict[str, TextIO | None] = {}
"""The streams that `guard` has replaced, by name."""


def go_on() -> None:
    """Let the command go on where standard output cannot be written, because its result lies in files."""
    _going_on[0] = True


class _Watched(io.FileIO):
    """A stream of which it is told once, by `lost`, that it cannot be written; afterwards what is written is lost."""

    def __init__(self, number: int, lost: Callable[[OSError], None]) -> None:
        super().__init__(number, "wb", closefd=False)
        self._lost = lost

    def write(self, data: Any) -> int:
        """Write as much as is possible at once, or nothing where the stream is lost; wait for a slow reader."""
        try:
            while (written := super().write(data)) is None:  # somebody has made it a stream that does not wait
                select.select((), (self,), ())
            return written
        except OSError as error:
            _lead_nowhere(self.fileno())
            self._lost(error)
        return memoryview(data).nbytes


def _output_lost(error: OSError) -> None:
    reason = error.strerror or str(error)
    if _going_on[0]:
        print(
            f"warning: standard output cannot be written any more ({reason}); the command goes on without it",
            file=sys.stderr,
            flush=True,
        )
    elif error.errno == errno.EPIPE:
        raise SystemExit(0)
    else:
        raise OutputError(f"standard output cannot be written ({reason}); let it lead elsewhere")


def _unseen(error: OSError) -> None:
    """Nobody is left who could be told."""


def guard() -> None:
    """Replace standard output and standard error by streams that can be lost. Streams that somebody else has replaced
    already are left alone."""
    _going_on[0] = False
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_WRONLY if number == 2 else os.O_RDONLY)  # gets the lowest number that is free
    for name, number, lost in (("stderr", 2, _unseen), ("stdout", 1, _output_lost)):
        there: Any = getattr(sys, name)
        if there is not None and (there is not getattr(sys, f"__{name}__") or _number_of(there) != number):
            continue
        if there is not None:
            there.flush()
        stream = io.TextIOWrapper(
            io.BufferedWriter(_Watched(number, lost)),
            encoding=getattr(there, "encoding", "utf-8"),
            errors="backslashreplace",  # also for names of files that are no text
            line_buffering=name == "stderr" or getattr(there, "line_buffering", False),
            write_through=getattr(there, "write_through", False),
        )
        _replaced[name] = there
        setattr(sys, name, stream)


def restore() -> None:
    """Write what is left, and put the streams back that `guard` has replaced."""
    for name in list(_replaced):
        stream: Any = getattr(sys, name)
        try:
            stream.flush()
        except (OSError, ValueError, SystemExit, OutputError):
            continue  # it was told before
    for name, before in _replaced.items():
        setattr(sys, name, before)
    _replaced.clear()


def hurry() -> None:
    """Lose what nobody takes in at once: the process is to end, and must not wait for whoever reads its output."""
    for number in (1, 2):
        if not select.select((), (number,), (), 0)[1]:
            _lead_nowhere(number)


def _lead_nowhere(number: int) -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, number)
    os.close(nothing)


def _number_of(stream: Any) -> int:
    try:
        return int(stream.fileno())
    except (OSError, ValueError):
        return -1
