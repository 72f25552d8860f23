"""The command `tomserve`: all of its commands and groups (tomserve.cli.main says how each of them ends).

It starts quickly because every command imports what it needs only when it runs.

    tomserve eval --base-url http://localhost:8000/v1 --limit 16
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from tomserve import __version__
from tomserve.cli import (
    analyze,
    causal,
    dataset,
    evaluate,
    functional,
    interop,
    items,
    merge,
    plan,
    runs,
    serve,
    shard,
    submit,
    web,
)
from tomserve.cli.options import ContentOption, lasting, with_content
from tomserve.errors import ConfigError, one_of

exports = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Write what other tools read, from logs to files for batch queues.",
)
imports = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Read what other tools wrote, from logs to files for batch queues.",
)


@exports.callback()
def _export(content: ContentOption = None) -> None:
    del content  # it was dealt with while the line was read


@imports.callback()
def _import(content: ContentOption = None) -> None:
    del content  # it was dealt with while the line was read


app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Evaluate the Theory of Mind of language models behind vLLM or any OpenAI-compatible endpoint.",
)
app.add_typer(dataset.app, name="dataset")
app.add_typer(dataset.generators, name="generate")
app.add_typer(submit.app, name="submit")
app.add_typer(exports, name="export")
app.add_typer(imports, name="import")

# Every environment variable that tomserve reads; any other that begins with TOMSERVE_ is taken for a slip of the pen.
VARIABLES = {
    "TOMSERVE_API_KEY",
    "TOMSERVE_API_KEY_FILE",
    "TOMSERVE_CONTENT",
    "TOMSERVE_DATA",
    "TOMSERVE_PARENT_FD",
    "TOMSERVE_QUEUE",
    "TOMSERVE_RUNS",
}


def command() -> int:
    """Run the command that the command line names, and return its exit code. Raises what the command raises."""
    _check_variables()
    ours, extra = _split(_counted(sys.argv[1:]))
    serve.EXTRA[:] = extra
    code = app(args=ours, standalone_mode=False)
    return code if isinstance(code, int) else 0


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


app.command(name="eval")(with_content(lasting(evaluate.evaluate_command)))
_lasting: tuple[Callable[..., Any], ...] = (
    evaluate.stability,
    causal.causal,
    evaluate.faithfulness,
    functional.functional,
    serve.serve,
    analyze.score,
    analyze.report,
    analyze.figures,
    serve.setup,
    runs.seal,
    merge.merge,
    merge.pack,
    merge.unpack,
)
_others: tuple[Callable[..., Any], ...] = (
    analyze.analyze,
    analyze.compare,
    plan.plan,
    runs.verify,
    items.items,
    runs.runs,
    serve.doctor,
    shard.shard,
    shard.work,
    submit.status,
    submit.cancel,
    web.web,
)
for _command in (*map(lasting, _lasting), *_others):
    app.command()(with_content(_command))

_exports: dict[str, Callable[..., Any]] = {
    "artefact": interop.export_artefact,
    "batch": interop.export_batch,
    "every-eval-ever": interop.export_every_eval_ever,
    "hub": interop.export_hub,
    "inspect": interop.export_inspect,
    "lm-eval": interop.export_lm_eval,
}
_imports: dict[str, Callable[..., Any]] = {
    "batch": interop.import_batch,
    "csv": interop.import_csv,
    "inspect": interop.import_inspect,
    "jsonl": interop.import_jsonl,
    "lm-eval": interop.import_lm_eval,
}
for _group, _members in ((exports, _exports), (imports, _imports)):
    for _name, _command in _members.items():
        _group.command(_name)(with_content(lasting(_command)))
