"""The command `tomserve`: all of its commands, and how each of them ends.

It starts quickly because every command imports what it needs only when it runs.

    tomserve eval --base-url http://localhost:8000/v1 --limit 16
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from tomserve import __version__
from tomserve.cli import (
    causal,
    dataset,
    evaluate,
    faithfulness,
    functional,
    generate,
    items,
    runs,
    sealing,
    serve,
    stability,
    study,
)
from tomserve.cli.insisting import Insisted, Insisting, stopped
from tomserve.cli.options import ContentOption, with_content
from tomserve.errors import ConfigError, StoppedError, TomserveError, one_of

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Evaluate the Theory of Mind of language models behind vLLM or any OpenAI-compatible endpoint.",
)
app.add_typer(dataset.app, name="dataset")
app.add_typer(generate.app, name="generate")

# Every environment variable that tomserve reads; any other that begins with TOMSERVE_ is taken for a slip of the pen.
VARIABLES = {
    "TOMSERVE_API_KEY",
    "TOMSERVE_API_KEY_FILE",
    "TOMSERVE_CONTENT",
    "TOMSERVE_DATA",
    "TOMSERVE_PARENT_FD",
    "TOMSERVE_RUNS",
}

_SIGNALS = Insisting()


def main() -> None:
    """Entry point: expected failures end in one line on stderr and their exit code, never in a traceback."""
    _SIGNALS.listen()
    try:
        _check_variables()
        ours, extra = _split(_counted(sys.argv[1:]))
        serve.EXTRA[:] = extra
        code = app(args=ours, standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except (StoppedError, Insisted) as error:
        _SIGNALS.arrived()
        ended = stopped(error.number) if isinstance(error, Insisted) else error
        _fail(str(ended), ended.exit_code)
    except TomserveError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted; repeat the command to go on", 130)
    except typer.Exit as error:
        sys.exit(error.exit_code)
    except typer.Abort:
        _fail("interrupted", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # `tomserve items ... | head`
        sys.exit(0)
    except Exception as error:
        if (
            type(error).__name__ == "NoArgsIsHelpError"
        ):  # a group of commands without a command: its help is printed as it is
            print(error.format_message(), file=sys.stderr)  # type: ignore[attr-defined]
            sys.exit(2)
        if hasattr(error, "format_message"):  # click's own usage errors
            context = getattr(error, "ctx", None)
            hint = f" Try `{context.command_path} --help`." if context is not None else ""
            said = error.format_message().strip()
            end = "" if said.endswith((".", "?", "!")) else "."  # some end with a full stop, and some do not
            _fail(f"{said}{end}{hint}", 2)
        raise
    finally:
        _SIGNALS.forget()


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The arguments before and after the first ``--``. Raises ConfigError unless the command is `serve`."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    if "serve" not in arguments[:at]:
        raise ConfigError("`--` hands flags to vLLM and belongs to `tomserve serve`")
    return arguments[:at], arguments[at + 1 :]


def _counted(arguments: list[str]) -> list[str]:
    """The arguments with a number after --unread, which may stand alone: then it lists UNREAD replies."""
    following = [*arguments, ""][1:]
    alone = [one == "--unread" and not after.isdecimal() for one, after in zip(arguments, following, strict=True)]
    return [f"{one}={runs.UNREAD}" if bare else one for one, bare in zip(arguments, alone, strict=True)]


def _fail(message: str, code: int) -> None:
    """End the process with that exit code, after one line on standard error."""
    # The message may quote a stranger's file or server, so it must not be able to control the terminal.
    line = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(message.split()))
    if sys.stderr.isatty():  # broken between words, as wide as the terminal
        from rich.console import Console
        from rich.text import Text

        Console(stderr=True, highlight=False).print(Text(f"tomserve: {line}"))
    else:
        print(f"tomserve: {line}", file=sys.stderr)
    sys.exit(code)


def _check_variables() -> None:
    """Raise ConfigError for an environment variable that begins with TOMSERVE_ and that nothing reads."""
    for name in sorted(os.environ):
        if name.startswith("TOMSERVE_") and name not in VARIABLES:
            raise ConfigError(one_of("environment variable", name, VARIABLES))


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tomserve {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    content: ContentOption = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    del content, version  # both have been dealt with while the line was read


app.command(name="eval")(with_content(evaluate.evaluate_command))
for _command in (
    stability.stability,
    causal.causal,
    faithfulness.faithfulness,
    functional.functional,
    *(serve.serve, study.score, study.analyze, study.report, study.compare, study.plan),
    *(sealing.seal, sealing.verify),
    *(items.items, runs.runs, serve.setup, serve.doctor),
):
    app.command()(with_content(_command))
