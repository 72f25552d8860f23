"""The command `tomserve runs`, which lists the runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tomserve.cli.options import PathOption, console
from tomserve.errors import ConfigError

UNREAD = 10
"""How many replies that could not be read are listed where no number is given."""


def runs(
    run: Annotated[
        str | None,
        typer.Argument(
            help="Name or path of the run to show. If left out: list all. With --unread also a score table, or a file "
            "of replies with --items or --benchmark; if left out then: the newest run."
        ),
    ] = None,
    unread: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"List the replies that could not be read, at most N ({UNREAD} where no number stands there): why, "
            "and how each of them ends.",
        ),
    ] = None,
    items: Annotated[Path | None, typer.Option(help="JSONL file of the items that a file of replies answers.")] = None,
    benchmark: Annotated[
        str | None, typer.Option(help="Benchmark that a file of replies answers, or the FILE.py that declares it.")
    ] = None,
    path: PathOption = None,
) -> None:
    """List all runs, show the questions and failures of one, or list its replies that could not be read."""
    from tomserve.reporting import run_list

    if unread is not None:
        from tomserve.cli import rescore
        from tomserve.reporting.run_list import show_unread

        show_unread(*rescore.unread(run, unread, items, benchmark, path), console())
    elif items is not None or benchmark is not None or path is not None:
        raise ConfigError("--items, --benchmark and --path say what a file of replies answers; they need --unread")
    else:
        run_list.show_run(run, console()) if run else run_list.list_runs(console())
