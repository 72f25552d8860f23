"""Options that several commands share, and the console they print to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

PathOption = Annotated[Path | None, typer.Option("--path", help="File (or folder) of the benchmark.")]
GoldOption = Annotated[str | None, typer.Option("--gold", help="Which answers count, where a benchmark has several.")]
RunArgument = Annotated[list[str] | None, typer.Argument(metavar="RUN...", help="Run names or paths [the newest].")]


def console() -> Console:
    """Where tables go; they must not be cut where there is no terminal to fit into."""
    from rich.console import Console

    found = Console(highlight=False)
    return found if found.is_terminal else Console(width=200, highlight=False)
