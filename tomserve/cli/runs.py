"""The commands `tomserve items`, which exports a benchmark's items, and `tomserve runs`, which lists the runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tomserve.cli.options import GoldOption, PathOption, VariantsOption, console
from tomserve.errors import ConfigError

if TYPE_CHECKING:
    from tomserve.items import Item
    from tomserve.stability import Retell


def items(
    benchmark: Annotated[str, typer.Argument(help="Name of a benchmark, or a FILE.py that declares one.")],
    path: PathOption = None,
    gold: GoldOption = None,
    where: Annotated[
        list[str] | None, typer.Option(help="Keep only items with this factor=value; repeat it for several conditions.")
    ] = None,
    variants: VariantsOption = None,
    out: Annotated[Path | None, typer.Option(help="File to write. If left out: standard output.")] = None,
) -> None:
    """Export the items of a benchmark as JSONL.

    Each line is one question. `tomserve eval --benchmark items --path FILE` asks such a file. With --variants, each
    question is followed by its variants, and why some could not be made is said at the end.
    """
    from tomserve import benchmarks
    from tomserve import items as items_module

    asked = benchmarks.get(benchmark)
    found = items_module.where(asked.items(path, gold), where or [])
    if variants:
        found = iter(_with_variants(found, variants, benchmarks.retelling(asked, path)))
    if out is None:
        for item in found:
            sys.stdout.buffer.write(item.to_json() + b"\n")
        return
    kept = list(found)
    items_module.write_items(out, kept)
    print(f"written: {len(kept)} items to {out}")


def _with_variants(found: Iterable[Item], kinds: Sequence[str], retelling: Callable[[str], Retell]) -> Sequence[Item]:
    """The items, each followed by its variants; a table of those that could not be made goes to standard error."""
    from rich.console import Console

    from tomserve import stability
    from tomserve.reporting import tables
    from tomserve.reporting import variants as shown
    from tomserve.runs.stock import Stock
    from tomserve.runs.varying import varied

    originals, given = Stock(found).apart()
    made = varied(originals, given, stability.named(kinds), retelling)
    screen = Console(stderr=True, highlight=False)
    screen.print(made.described() or "no variants", markup=False, soft_wrap=True)
    left_out = shown.left_out(made.record())
    if not left_out.is_empty():
        tables.show({shown.TITLE: left_out}, screen, {})
    told: dict[str, list[Item]] = {}
    for item in made.variants:
        told.setdefault(str(item.base), []).append(item)
    return [one for item in made.originals for one in (item, *told.get(item.id, ()))]


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
    from tomserve.reporting import listing

    if unread is not None:
        from tomserve.cli import rescore
        from tomserve.reporting.unread import show_unread

        show_unread(*rescore.unread(run, unread, items, benchmark, path), console())
    elif items is not None or benchmark is not None or path is not None:
        raise ConfigError("--items, --benchmark and --path say what a file of replies answers; they need --unread")
    else:
        listing.show_run(run, console()) if run else listing.list_runs(console())
