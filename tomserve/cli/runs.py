"""The commands `tomserve items`, which exports a benchmark's items, and `tomserve runs`, which lists the runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tomserve.cli.options import GoldOption, PathOption, console


def items(
    benchmark: Annotated[str, typer.Argument(help="Name of a benchmark, or a FILE.py that declares one.")],
    path: PathOption = None,
    gold: GoldOption = None,
    where: Annotated[
        list[str] | None, typer.Option(help="Keep only items with this factor=value; repeat it for several conditions.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File to write. If left out: standard output.")] = None,
) -> None:
    """Export the items of a benchmark as JSONL.

    Each line is one question. `tomserve eval --benchmark items --path FILE` asks such a file.
    """
    from tomserve import benchmarks
    from tomserve import items as items_module

    found = items_module.where(benchmarks.load(benchmark, path, gold), where or [])
    if out is None:
        for item in found:
            sys.stdout.buffer.write(item.to_json() + b"\n")
        return
    kept = list(found)
    items_module.write_items(out, kept)
    print(f"written: {len(kept)} items to {out}")


def runs(
    run: Annotated[str | None, typer.Argument(help="Name or path of the run to show. If left out: list all.")] = None,
) -> None:
    """List all runs, or show the questions and failures of one."""
    from tomserve.reporting import listing

    listing.show_run(run, console()) if run else listing.list_runs(console())
