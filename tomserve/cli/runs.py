"""The commands that show what is there: `items` of a benchmark, `runs` so far."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tomserve.cli.options import GoldOption, PathOption, console


def items(
    benchmark: Annotated[str, typer.Argument(help="Benchmark, or FILE.py of your own.")],
    path: PathOption = None,
    gold: GoldOption = None,
    where: Annotated[list[str] | None, typer.Option(help="Keep items with factor=value; may be repeated.")] = None,
    out: Annotated[Path | None, typer.Option(help="File to write [standard output].")] = None,
) -> None:
    """Export a benchmark's items as JSONL, the shape that --benchmark items takes."""
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


def runs(run: Annotated[str | None, typer.Argument(help="Show this one.")] = None) -> None:
    """List the runs, or show one."""
    from tomserve.reporting import listing

    listing.show_run(run, console()) if run else listing.list_runs(console())
