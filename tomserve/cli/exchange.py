"""The groups of commands `export` and `import`: files that other tools read, and files that they wrote.

Each tool's commands are functions of a module of their own; tomserve.cli.app adds them to these groups.
"""

from __future__ import annotations

import typer

from tomserve.cli.options import ContentOption

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
