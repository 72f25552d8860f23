"""How every command ends: in one line on standard error and its exit code, also where an output is closed, full or a
broken pipe.

Where standard output is what a command is for (`items`, `runs`), it ends when it cannot be written: without a word
where nobody reads any more (``| head``), else with a line. Where the result lies in files (`eval`), the command goes
on after a warning. A stream that was closed before the command began (``>&-``) is opened for reading: otherwise the
next file that is opened would get its number, and what is printed would stand in the middle of that file.
"""

import errno
import io
import os
import select
import signal
import sys
from collections.abc import Callable
from typing import Any, TextIO

from tomserve.cli.interrupts import SIGNALS
from tomserve.errors import Interrupted, OutputError, TomserveError

_going_on: list[bool] = [False]
"""Whether the command goes on without standard output."""

_replaced: dict[str, TextIO | None] = {}
"""The streams that `guard_streams` has replaced, by name."""


def survive_lost_output() -> None:
    """Let the command go on where standard output cannot be written, because its result lies in files."""
    _going_on[0] = True


class _WatchedStream(io.FileIO):
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


def guard_streams() -> None:
    """Replace standard output and standard error by streams that can be lost. Streams that somebody else has replaced
    already are left alone."""
    _going_on[0] = False
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_WRONLY if number == 2 else os.O_RDONLY)  # gets the lowest number that is free
    # Where standard error is lost, nobody is left who could be told.
    for name, number, lost in (("stderr", 2, lambda error: None), ("stdout", 1, _output_lost)):
        there: Any = getattr(sys, name)
        if there is not None and (there is not getattr(sys, f"__{name}__") or _number_of(there) != number):
            continue
        if there is not None:
            there.flush()
        stream = io.TextIOWrapper(
            io.BufferedWriter(_WatchedStream(number, lost)),
            encoding=getattr(there, "encoding", "utf-8"),
            errors="backslashreplace",  # also for names of files that are no text
            line_buffering=name == "stderr" or getattr(there, "line_buffering", False),
            write_through=getattr(there, "write_through", False),
        )
        _replaced[name] = there
        setattr(sys, name, stream)


def restore_streams() -> None:
    """Write what is left, and put the streams back that `guard_streams` has replaced."""
    for name in list(_replaced):
        stream: Any = getattr(sys, name)
        try:
            stream.flush()
        except (OSError, ValueError, SystemExit, OutputError):
            continue  # it was told before
    for name, before in _replaced.items():
        setattr(sys, name, before)
    _replaced.clear()


def drop_pending_output() -> None:
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


FAILED = 2
"""The exit code of a failure that no error of tomserve describes, such as one of the disk."""

_OF_THE_MACHINE = ("sqlite3.", "polars.exceptions.ComputeError")
"""What the names of errors begin with that a library raises where the disk is full, or a file cannot be used."""


def run_to_end(run: Callable[[], int]) -> None:
    """Run a command and end the process with its exit code; after a failure that is expected, with one line.

    run: the command, which returns its exit code. Raises SystemExit, and what nobody expects: a traceback is a bug.
    """
    code, line = 0, ""
    try:
        try:
            guard_streams()  # first, as a pipe would get the number of a stream that is closed
            SIGNALS.listen()
            code = run()
            sys.stdout.flush()  # what it cannot write any more is told as whatever else fails
        except Interrupted:
            raise
        except BaseException as error:
            code, line = _describe_error(error)
        SIGNALS.forget()
    except Interrupted as error:  # also where it comes while an error is being told
        SIGNALS.forget()
        drop_pending_output()
        code, line = error.exit_code, str(error)
    if line:
        say(line)
    restore_streams()
    sys.exit(code)


def _describe_error(error: BaseException) -> tuple[int, str]:
    """The exit code and the line that tell of an error; the error itself is raised again where it is unexpected."""
    if isinstance(error, TomserveError):
        return error.exit_code, str(error)
    if isinstance(error, SystemExit):
        return (error.code, "") if isinstance(error.code, int) else (0 if error.code is None else 1, "")
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    if isinstance(error, KeyboardInterrupt) or name == "click.exceptions.Abort":
        return Interrupted(signal.SIGINT).exit_code, str(Interrupted(signal.SIGINT))
    if isinstance(error, OSError):
        return FAILED, _of_a_file(error)
    if isinstance(error, MemoryError):
        return FAILED, "there is not enough memory; end other programs, or use a machine that has more"
    if name.startswith(_OF_THE_MACHINE):
        return FAILED, f"a file cannot be used ({str(error)[:300] or name}); free space, and permit reading and writing"
    found = _of_the_line(error)
    if found is None:
        SIGNALS.forget()
        raise error
    return found


def _of_a_file(error: OSError) -> str:
    """What cannot be done with which file, and why."""
    reason = error.strerror or " ".join(str(error).split()) or type(error).__name__
    if error.errno is None:  # it was raised on purpose, in words
        return f"{reason}; free space, or permit reading and writing"
    if error.filename is None:
        return f"a file cannot be used ({reason}); free space, or permit reading and writing"
    name = error.filename if isinstance(error.filename, str) else repr(error.filename)
    return f"{name}: cannot be used ({reason}); free space, permit reading and writing, or choose another place"


def _of_the_line(error: BaseException) -> tuple[int, str] | None:
    """The exit code and the line for what the library that reads the command line raises; None for all else."""
    if isinstance(code := getattr(error, "exit_code", None), int) and type(error).__name__ == "Exit":
        return code, ""
    if type(error).__name__ == "NoArgsIsHelpError":  # a group without a command: its help is printed as it is
        print(error.format_message(), file=sys.stderr)  # type: ignore[attr-defined]
        return FAILED, ""
    if not hasattr(error, "format_message"):
        return None
    context: Any = getattr(error, "ctx", None)
    hint = f" Try `{context.command_path} --help`." if context is not None else ""
    said = error.format_message().strip()
    option = str(getattr(error, "option_name", ""))
    for argument in context.command.params if context is not None else ():
        name = str(argument.metavar or argument.name).strip("[]")
        if argument.param_type_name == "argument" and option.strip("-") in (argument.name, name.lower()):
            said = f"No such option: {option}; write it alone, as in `{context.command_path} {name.upper()}`"
    end = "" if said.endswith((".", "?", "!")) else "."  # some end with a full stop, and some do not
    return FAILED, f"{said}{end}{hint}"


def say(message: str) -> None:
    """Say one line on standard error."""
    # The message may quote a stranger's file or server, so it must not be able to control the terminal.
    line = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(message.split()))
    if sys.stderr.isatty():  # broken between words, as wide as the terminal
        from rich.console import Console
        from rich.text import Text

        Console(stderr=True, highlight=False).print(Text(f"tomserve: {line}"))
    else:
        print(f"tomserve: {line}", file=sys.stderr)
