"""The commands `export batch` and `import batch`: somebody else's queue asks, by the files of OpenAI's Batch API.

tomserve export batch --benchmark perturbed --model gpt-4o-mini --run mine --out asked.jsonl
tomserve import batch answered.jsonl errors.jsonl --run mine
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tomserve.cli import configured
from tomserve.cli.evaluate import as_options
from tomserve.cli.options import (
    BenchmarkOption,
    GoldOption,
    LimitOption,
    MaxTokensOption,
    OwnBenchmarkOption,
    OwnStrategyOption,
    PathOption,
    QuietOption,
    RepeatsOption,
    RevisionOption,
    SeedOption,
    StrategyOption,
    TemperatureOption,
    ThinkingOption,
    VariantsOption,
    WhereOption,
    console,
)
from tomserve.content.output_path import parse_file

if TYPE_CHECKING:
    from tomserve.interop.batch import ExportResult, ImportResult


def export_batch(
    out: Annotated[
        Path,
        typer.Option(
            parser=parse_file, help="File of requests to write, such as asked.jsonl; further ones get a number."
        ),
    ],
    config: configured.ConfigOption = None,
    model: Annotated[
        str | None, typer.Option(help="Name of the model as the queue knows it, or of a preset. It need not be served.")
    ] = None,
    base_url: Annotated[
        list[str] | None,
        typer.Option(help="Address of an endpoint that tells the model's name, where --model does not say it."),
    ] = None,
    benchmark: BenchmarkOption = None,
    path: PathOption = None,
    gold: GoldOption = None,
    where: WhereOption = None,
    strategy: StrategyOption = None,
    run: Annotated[
        str | None, typer.Option(help="Name of the run that takes the results. If left out: <benchmark>-<model>.")
    ] = None,
    limit: LimitOption = None,
    revision: RevisionOption = None,
    max_tokens: MaxTokensOption = None,
    thinking: ThinkingOption = None,
    temperature: TemperatureOption = 0.0,
    seed: SeedOption = 0,
    repeats: RepeatsOption = 1,
    variants: VariantsOption = None,
    per_file: Annotated[int, typer.Option(min=1, help="Most requests in one file; OpenAI takes 50,000.")] = 50_000,
    max_bytes: Annotated[
        int, typer.Option(min=1000, help="Most bytes in one file; OpenAI takes 200 MB.")
    ] = 200_000_000,
    quiet: QuietOption = False,
) -> None:
    """Write the requests of an evaluation to files for a batch queue.

    The files have the form of OpenAI's Batch API, which vLLM's run-batch and other queues read, too. Only what has no
    final reply yet is written, so that the command is repeated after every import: failures are asked again, and so are
    the next turns of a conversation. With nothing but --run and --out, and the paths of your own benchmark and
    strategies, it asks what was exported last.
    """
    from tomserve.interop.batch import export_requests
    from tomserve.reporting.progress import RunScreen

    options, _ = as_options(
        config,
        strategy=strategy,
        base_url=base_url,
        variants=variants,
        where=where,
        benchmark=benchmark,
        path=path,
        gold=gold,
        model=model,
        run=run,
        limit=limit,
        revision=revision,
        max_tokens=max_tokens,
        thinking=thinking,
        temperature=temperature,
        seed=seed,
        repeats=repeats,
    )
    screen = console()
    _show_exported(
        export_requests(options, out, per_file=per_file, most_bytes=max_bytes, listener=RunScreen(screen, quiet=quiet))
    )


def _show_exported(done: ExportResult) -> None:
    """Print which files were written, and what to do with them."""
    from tomserve.content.paths import run_name
    from tomserve.content.text import say

    for file in done.files:
        say(f"written: {file.requests:,} requests, {file.bytes:,} bytes, to {file.path}")
    say(f"run: {done.folder}")
    if not done.files:
        say(f"nothing left to ask: all {done.total:,} questions have their answers")
        return
    say(f"they ask {done.questions:,} of {done.total:,} questions, each strategy and sample counted")
    say("next: hand them to the queue; read what it gives back by")
    say(f"  tomserve import batch RESULTS.jsonl --run {run_name(done.folder)}")
    if done.turns:
        say("some strategies ask again: export once more after the import, until nothing is left")


def import_batch(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Files of results and of errors, in any order, also again.")
    ],
    run: Annotated[str, typer.Option(help="Name of the run that the requests were exported from.")],
    benchmark: OwnBenchmarkOption = None,
    strategy: OwnStrategyOption = None,
    accept_change: Annotated[
        bool,
        typer.Option("--accept-change", help="Go on although replies name another model. It is recorded in the run."),
    ] = False,
    quiet: QuietOption = False,
) -> int:
    """Read the results of a batch queue into a run.

    They become answers as if tomserve had asked itself: the run can be scored, compared, and gone on with. Reading a
    file again changes nothing. The exit code is 1 where a request failed, or a result belongs to no request of the run.
    """
    from tomserve.interop.batch import import_results
    from tomserve.reporting.progress import RunScreen

    done = import_results(
        run, files, benchmark=benchmark, strategies=strategy or (), accept_change=accept_change,
        listener=RunScreen(console(), quiet=quiet),
    )  # fmt: skip
    return _show_imported(done, run)


def _show_imported(done: ImportResult, run: str) -> int:
    """Print what was read and what is left; returns the exit code."""
    from tomserve.content.text import say
    from tomserve.status import REFUSAL, listed

    rows = done.added.total()
    say(f"{rows:,} rows added from {done.results:,} results" + (f": {listed(done.added)}" if rows else ""))
    if done.known:
        say(f"{done.known:,} results were there before")
    if done.unknown:
        shown = ", ".join(f"{one:.40}" for one in done.strange) + (", ..." if done.unknown > len(done.strange) else "")
        say(
            f"warning: {done.unknown:,} results belong to no request of this run ({shown}); is it the run that they "
            "were exported from?",
            error=True,
        )
    for path in done.cut_off:
        say(
            f"warning: {path} ends within a line, which was left out; download it again and import it once more",
            error=True,
        )
    say(f"run: {done.folder}")
    if done.left:
        say(
            f"{done.left:,} requests have no answer yet: what is not in a queue still is written by `tomserve export "
            f"batch --run {run} --out NEW.jsonl`"
        )
    else:
        say(f"nothing is left to ask; `tomserve analyze {run}` shows the tables")
    return 1 if done.unknown or done.cut_off or set(done.failures) - {REFUSAL} else 0
