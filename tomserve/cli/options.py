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
BenchmarkOption = Annotated[
    str | None,
    typer.Option(
        help="Name of a benchmark, or a FILE.py that declares one. If left out: tomserve's own false-belief tasks."
    ),
]
StrategyOption = Annotated[
    list[str] | None,
    typer.Option(help="Strategy to ask by; repeat it for several. If left out: those that the benchmark names."),
]
StudyOption = Annotated[
    str | None, typer.Option(help="Name or path of a study. If left out: the study of the benchmark.")
]
IntervalsOption = Annotated[
    str | None,
    typer.Option(help="How intervals are computed: recommended or published. If left out: the study's first."),
]
RunArgument = Annotated[
    list[str] | None, typer.Argument(metavar="RUN...", help="Names or paths of runs. If left out: the newest run.")
]


PIPE = 100_000
"""Columns of the console where the output is a file or a pipe: more than any table has, so that each row is one
line."""


def console() -> Console:
    """The console to print tables to: as wide as the terminal, or PIPE columns where the output is a file or a pipe."""
    from rich.console import Console

    found = Console(highlight=False)
    return found if found.is_terminal else Console(width=PIPE, highlight=False)
