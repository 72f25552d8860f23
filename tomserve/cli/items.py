"""The command `tomserve items`, which exports a benchmark's items and, where they are wanted, variants or cases."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tomserve.cli.options import GoldOption, PathOption, VariantsOption, WhereOption, console
from tomserve.content import output_path
from tomserve.content.output_path import parse_file
from tomserve.content.text import say
from tomserve.errors import ConfigError

if TYPE_CHECKING:
    from tomserve.benchmarks import Benchmark
    from tomserve.items import Item
    from tomserve.runs.manifest import VariantsRecord

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
        help="Model that answers originals and rewritings, so that the same answer proves them alike. Default: the "
        "rewriter.",
    ),
]
CasesOption = Annotated[
    bool,
    typer.Option(
        "--cases",
        help="The cases for `tomserve causal` instead of all questions: false-belief questions, each followed by the "
        "other tellings of its story. --where then chooses among these questions.",
    ),
]
LimitOption = Annotated[
    int | None,
    typer.Option(min=1, help="At most so many questions, or cases, drawn as `tomserve eval --limit` draws them."),
]


def items(
    benchmark: Annotated[str, typer.Argument(help="Name of a benchmark, or a FILE.py that declares one.")],
    path: PathOption = None,
    gold: GoldOption = None,
    where: WhereOption = None,
    limit: LimitOption = None,
    cases: CasesOption = False,
    variants: VariantsOption = None,
    rewriter: RewriterOption = None,
    rewriter_model: RewriterModelOption = None,
    verifier: VerifierOption = None,
    out: Annotated[
        Path | None, typer.Option(parser=parse_file, help="File to write. Default: standard output.")
    ] = None,
) -> int:
    """Export the items of a benchmark as JSONL.

    Each line is one question. `tomserve eval --benchmark items --path FILE` asks such a file. With --variants, each
    question is followed by its variants, and at the end is said why some could not be made. With --rewriter, a model
    rewrites stories for those; its replies are kept beside FILE, so that the command can be stopped and repeated. The
    exit code is 1 where it did not reply about some. With --cases, what `tomserve causal` measures is written; which
    questions make no case, and why, is said at the end.
    """
    from tomserve import benchmarks
    from tomserve.items.draw import limit_items

    asked = benchmarks.get(benchmark)
    read = (path, asked.file)
    if out is not None:
        output_path.check_output(out, *read)
    if cases:
        if variants or rewriter or rewriter_model or verifier or gold:
            raise ConfigError("--cases goes with --path, --where, --limit and --out only")
        return _write(_cases(asked, path, where, limit), out, *read)
    found: Iterable[Item] = asked.items(path, gold, where)
    if limit is not None:
        every = list(found)
        found = limit_items(every, limit, benchmarks.draw_of(asked, {item.benchmark for item in every}))
    if rewriter is not None or rewriter_model is not None or verifier is not None:
        if rewriter is None or not variants or out is None:
            raise ConfigError("--rewriter URL or MODEL goes with --variants KINDS and --out FILE")
        return _write_with_rewriter(list(found), variants, (asked, path), (rewriter, rewriter_model, verifier), out)
    if variants:
        found = _with_variants(found, variants, asked, path)
    return _write(found, out, *read)


def _write(found: Iterable[Item], out: Path | None, *inputs: Path | None) -> int:
    """Write the items to a file, or to standard output; returns the exit code."""
    from tomserve.items import write_items

    if out is None:
        for item in found:
            sys.stdout.buffer.write(item.to_json() + b"\n")
        return 0
    say(f"written: {write_items(out, found, lambda name: output_path.open_output(name, *inputs)):,} items to {out}")
    return 0


def _cases(asked: Benchmark, path: Path | None, where: list[str] | None, limit: int | None) -> list[Item]:
    """The items of all cases; how many cases there are, and what makes none, goes to standard error."""
    from tomserve import benchmarks
    from tomserve.benchmarks.counterfactuals import describe_cases, draw_cases, items_of

    left_out: Counter[str] = Counter()
    every = list(benchmarks.require_cases(asked).found_cases(path, where, left_out))
    found = draw_cases(every, limit, benchmarks.draw_of(asked, {case.f.benchmark for case in every}))
    drawn = f", drawn from {len(every):,}" if len(found) < len(every) else ""
    default = f" (--where {' --where '.join(asked.usual_cases)}; --where all takes all)"
    _say_cases(f"{describe_cases(found)}{drawn}{'' if where or not asked.usual_cases else default}", left_out)
    return [item for case in found for item in items_of(case)]


def _say_cases(line: str, left_out: Mapping[str, int]) -> None:
    """Tell on standard error how many cases there are, and how many questions make none, by reason."""
    import polars as pl

    from tomserve.reporting import tables
    from tomserve.reporting.table_layout import Terminal, print_prose

    screen = Terminal(stderr=True, highlight=False)
    print_prose(line, screen)
    if left_out:
        rows = sorted(left_out.items(), key=lambda pair: (-pair[1], pair[0]))
        frame = pl.DataFrame(rows, schema=["reason", "questions"], orient="row").select("questions", "reason")
        tables.show_tables({"questions that make no case": frame}, screen, {})


def _with_variants(found: Iterable[Item], kinds: Sequence[str], asked: Benchmark, path: Path | None) -> list[Item]:
    """The items, each followed by its variants; how many there are of them goes to standard error."""
    from tomserve import benchmarks, variants
    from tomserve.runs.item_store import ItemStore
    from tomserve.runs.planning import add_variants, split_variants

    originals, given = split_variants(ItemStore(found))
    made = add_variants(originals, given, variants.parse_kinds(kinds), benchmarks.retelling(asked, path))
    _say(made.describe(), made.record())
    told: dict[str, list[Item]] = {}
    for item in made.variants:
        told.setdefault(str(item.base), []).append(item)
    return [one for item in made.originals for one in (item, *told.get(item.id, ()))]


def _write_with_rewriter(
    found: list[Item],
    kinds: Sequence[str],
    asked: tuple[Benchmark, Path | None],
    models: tuple[str, str | None, str | None],
    out: Path,
) -> int:
    """Write the items and their variants, those of a rewriter among them; returns the exit code."""
    from tomserve import benchmarks, variants
    from tomserve.cli import interrupts
    from tomserve.reporting.progress import RunScreen
    from tomserve.runs import rewriter as rewriters
    from tomserve.runs.grader import find_reader
    from tomserve.serving import keys
    from tomserve.serving.probe import WaitPolicy

    waiting = WaitPolicy(note=lambda text: say(text, error=True))
    rewriter, model, verifier = models
    keys.check_one_host([rewriter], [verifier or ""])
    report = rewriters.write_variants(
        found,
        variants.parse_kinds(kinds),
        benchmarks.retelling(*asked),
        find_reader(rewriter, model, waiting, strategy=rewriters.REWRITER),
        out,
        RunScreen(console()),
        verifier=None if verifier is None else find_reader(verifier, None, waiting, strategy=rewriters.VERIFIER),
        drive=interrupts.ask_with_signals,
    )
    for line in report.lines():
        say(line)
    say(f"written: {len(found):,} items and {report.made.total():,} variants to {out}")
    return int(bool(report.failures))


def _say(line: str | None, record: VariantsRecord | None) -> None:
    """Tell on standard error how many variants there are, and for which reasons others are left out."""
    from tomserve.reporting import run_list, tables
    from tomserve.reporting.table_layout import Terminal

    screen = Terminal(stderr=True, highlight=False)
    if line is not None:
        screen.print(line, markup=False, soft_wrap=True)
    left_out = run_list.left_out_variants(record)
    if not left_out.is_empty():
        tables.show_tables({run_list.TITLE: left_out}, screen, {})
