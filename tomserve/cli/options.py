"""Options that several commands share, and the console they print to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

PathOption = Annotated[
    Path | None, typer.Option("--path", help="File or folder that the benchmark reads instead of its own data.")
]
GoldOption = Annotated[
    str | None,
    typer.Option("--gold", help="Which of the benchmark's sets of right answers counts, where it has several."),
]
RunArgument = Annotated[
    list[str] | None, typer.Argument(metavar="RUN...", help="Names or paths of runs. If left out: the newest run.")
]


def console() -> Console:
    """The console to print tables to: as wide as the terminal, or 200 columns where the output is a file or a pipe."""
    from rich.console import Console

    found = Console(highlight=False)
    return found if found.is_terminal else Console(width=200, highlight=False)
