"""How every command ends: in one line on standard error and its exit code, never in a traceback or a broken pipe."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

from tomserve.cli import streams
from tomserve.cli.insisting import SIGNALS
from tomserve.errors import Interrupted, TomserveError

FAILED = 2
"""The exit code of a failure that no error of tomserve describes, such as one of the disk."""

_OF_THE_MACHINE = ("sqlite3.", "polars.exceptions.ComputeError")
"""What the names of errors begin with that a library raises where the disk is full, or a file cannot be used."""


def ended(run: Callable[[], int]) -> None:
    """Run a command and end the process with its exit code; after a failure that is expected, with one line.

    run: the command, which returns its exit code. Raises SystemExit, and what nobody expects: a traceback is a bug.
    """
    code, line = 0, ""
    try:
        try:
            SIGNALS.listen()
            streams.guard()
            code = run()
            sys.stdout.flush()  # what it cannot write any more is told as whatever else fails
        except Interrupted:
            raise
        except BaseException as error:
            code, line = _told(error)
        SIGNALS.forget()
    except Interrupted as error:  # also where it comes while an error is being told
        SIGNALS.forget()
        streams.hurry()
        code, line = error.exit_code, str(error)
    if line:
        say(line)
    streams.restore()
    sys.exit(code)


def _told(error: BaseException) -> tuple[int, str]:
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
    context = getattr(error, "ctx", None)
    hint = f" Try `{context.command_path} --help`." if context is not None else ""
    said = error.format_message().strip()
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
