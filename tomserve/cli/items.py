"""The command `tomserve items`, which exports a benchmark's items and, where they are wanted, variants of them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tomserve.cli.options import GoldOption, PathOption, VariantsOption, WhereOption, console
from tomserve.errors import ConfigError

if TYPE_CHECKING:
    from tomserve.benchmarks import Benchmark
    from tomserve.items import Item
    from tomserve.runs.manifest_parts import VariantsRecord

RewriterOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL|MODEL",
        help="Model that rewrites the stories of variants that no rule can make; never one that is to be evaluated.",
    ),
]
RewriterModelOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Which model rewrites, where the address of --rewriter serves several."),
]
VerifierOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL|MODEL",
        help="Model that answers originals and rewritings, so that the same answer proves them alike. If left out: the "
        "rewriter.",
    ),
]


def items(
    benchmark: Annotated[str, typer.Argument(help="Name of a benchmark, or a FILE.py that declares one.")],
    path: PathOption = None,
    gold: GoldOption = None,
    where: WhereOption = None,
    variants: VariantsOption = None,
    rewriter: RewriterOption = None,
    rewriter_model: RewriterModelOption = None,
    verifier: VerifierOption = None,
    out: Annotated[Path | None, typer.Option(help="File to write. If left out: standard output.")] = None,
) -> int:
    """Export the items of a benchmark as JSONL.

    Each line is one question. `tomserve eval --benchmark items --path FILE` asks such a file. With --variants, each
    question is followed by its variants, and at the end is said why some could not be made. With --rewriter, a model
    rewrites stories for those; its replies are kept beside FILE, so that the command can be stopped and repeated. The
    exit code is 1 where it did not reply about some.
    """
    from tomserve import benchmarks
    from tomserve import items as items_module

    asked = benchmarks.get(benchmark)
    found: Iterable[Item] = asked.items(path, gold, where)
    if rewriter is not None or rewriter_model is not None or verifier is not None:
        if rewriter is None or not variants or out is None:
            raise ConfigError("--rewriter URL or MODEL goes with --variants KINDS and --out FILE")
        return _rewritten(list(found), variants, (asked, path), (rewriter, rewriter_model, verifier), out)
    if variants:
        found = _with_variants(found, variants, asked, path)
    if out is None:
        for item in found:
            sys.stdout.buffer.write(item.to_json() + b"\n")
        return 0
    print(f"written: {items_module.write_items(out, found):,} items to {out}")
    return 0


def _with_variants(found: Iterable[Item], kinds: Sequence[str], asked: Benchmark, path: Path | None) -> list[Item]:
    """The items, each followed by its variants; how many there are of them goes to standard error."""
    from tomserve import benchmarks, stability
    from tomserve.runs.stock import Stock
    from tomserve.runs.varying import apart, varied

    originals, given = apart(Stock(found))
    made = varied(originals, given, stability.named(kinds), benchmarks.retelling(asked, path))
    _say(made.described(), made.record())
    told: dict[str, list[Item]] = {}
    for item in made.variants:
        told.setdefault(str(item.base), []).append(item)
    return [one for item in made.originals for one in (item, *told.get(item.id, ()))]


def _rewritten(
    found: list[Item],
    kinds: Sequence[str],
    asked: tuple[Benchmark, Path | None],
    models: tuple[str, str | None, str | None],
    out: Path,
) -> int:
    """Write the items and their variants, those of a rewriter among them; returns the exit code.

    asked: the benchmark and its path. models: the rewriter, which of the models at its address, and the verifier.
    """
    from tomserve import benchmarks, stability
    from tomserve.cli import signals
    from tomserve.reporting.progress import Screen
    from tomserve.runs import rewriting
    from tomserve.serving.waiting import Waiting

    waiting = Waiting(note=lambda text: print(text, file=sys.stderr))
    rewriter, model, verifier = models
    report = rewriting.write_variants(
        found,
        stability.named(kinds),
        benchmarks.retelling(*asked),
        rewriting.find_rewriter(rewriter, model, waiting),
        out,
        Screen(console()),
        verifier=None if verifier is None else rewriting.find_verifier(verifier, None, waiting),
        drive=signals.heard,
    )
    for line in report.lines():
        print(line)
    print(f"written: {len(found):,} items and {report.made.total():,} variants to {out}")
    return int(bool(report.failures))


def _say(line: str | None, record: VariantsRecord | None) -> None:
    """Tell on standard error how many variants there are, and for which reasons others are left out."""
    from rich.console import Console

    from tomserve.reporting import tables
    from tomserve.reporting import variants as shown

    screen = Console(stderr=True, highlight=False)
    if line is not None:
        screen.print(line, markup=False, soft_wrap=True)
    left_out = shown.left_out(record)
    if not left_out.is_empty():
        tables.show({shown.TITLE: left_out}, screen, {})
