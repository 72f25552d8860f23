"""The commands `shard`, which divides an evaluation into parts, and `work`, which asks them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tomserve.cli import interrupts
from tomserve.cli.evaluate import ConfigOption, make_options
from tomserve.cli.options import (
    NoiseCheckOption,
    OwnBenchmarkOption,
    OwnStrategyOption,
    Questions,
    QuietOption,
    Sampling,
    SetupOption,
    VariantsOption,
    console,
    with_groups,
)
from tomserve.errors import InUseError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rich.console import Console

    from tomserve.distributed.worker import Connection


@with_groups
def shard(
    *,
    parts: Annotated[int | None, typer.Option(min=1, help="How many parts to make.")] = None,
    part_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="About how many tokens a part may have, instead of how many there are."),
    ] = None,
    config: ConfigOption = None,
    run: Annotated[
        str | None,
        typer.Option(help="Name of the run that the parts will make together. Default: <benchmark>-<model>."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Name of the model or of its preset, which need not be served yet.")
    ] = None,
    base_url: Annotated[
        list[str] | None, typer.Option(help="Address of an endpoint that serves the model. Repeatable.")
    ] = None,
    questions: Questions,
    sampling: Sampling,
    noise_check: NoiseCheckOption = None,
    variants: VariantsOption = None,
    quiet: QuietOption = False,
) -> int:
    """Divide an evaluation into parts that any number of machines can run.

    The parts are even in tokens, and prompts with a common beginning stay together. Nothing is asked yet:
    `tomserve work` asks the parts, and `tomserve merge` makes one run of them.
    """
    from tomserve.distributed.planning import divide
    from tomserve.distributed.shards import find_folder
    from tomserve.reporting.progress import RunScreen
    from tomserve.reporting.shards import show_shards

    options, experiment = make_options(
        config, questions, sampling, model=model, base_url=base_url, run=run, noise_check=noise_check, variants=variants
    )
    screen = console()
    key = experiment.key if experiment is not None else None
    place = find_folder(options.run) if options.run else None
    found = divide(
        options, place, parts=parts, part_tokens=part_tokens, listener=RunScreen(screen, quiet=quiet), key=key
    )
    show_shards(found, place or find_folder(found.run), screen)
    return 0


def work(
    run: Annotated[str, typer.Argument(metavar="NAME", help="Name of the run, or the folder of its parts.")],
    part: Annotated[
        list[int] | None,
        typer.Option(
            min=0,
            help="Number of a part to ask, from 0; repeatable. Default: one after the other of those that are not "
            "complete and that nobody else asks.",
        ),
    ] = None,
    base_url: Annotated[
        list[str] | None,
        typer.Option(
            help="Address of an endpoint; repeatable. Default: those of `tomserve shard`, else a server on this "
            "machine, which is started where none runs."
        ),
    ] = None,
    benchmark: OwnBenchmarkOption = None,
    strategy: OwnStrategyOption = None,
    here: Annotated[
        bool, typer.Option("--here", help="Use a server on this machine, also where `tomserve shard` named addresses.")
    ] = False,
    timeout: Annotated[
        float | None, typer.Option(min=1, max=1e6, help="Seconds to wait for the reply to one request.")
    ] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, max=65536, help="Concurrent requests.")] = None,
    transport: Annotated[str | None, typer.Option(help="HTTP client: httptools, or openai.")] = None,
    hedge: Annotated[
        float | None,
        typer.Option(min=1, help="Seconds after which an unanswered request is also sent to another endpoint."),
    ] = None,
    patience: Annotated[
        float | None, typer.Option(min=1, max=1e6, help="Seconds to wait for a server that is loading.")
    ] = None,
    gpu_share: Annotated[
        float,
        typer.Option(
            min=0.01,
            max=1,
            metavar="SHARE",
            help="How much of each GPU's memory a server that is started may take, of what it otherwise would; for "
            "parts that share a GPU.",
        ),
    ] = 1.0,
    accept_change: Annotated[
        bool, typer.Option("--accept-change", help="Continue a part although its server or model has changed.")
    ] = False,
    setup: SetupOption = False,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Store to copy each part to once it is complete, such as s3://bucket/mine.parts. Default: none.",
        ),
    ] = None,
    quiet: QuietOption = False,
) -> int:
    """Run parts of an evaluation divided by `tomserve shard`.

    Where no server of the model runs, one is started, kept for all parts, and stopped at the end. If interrupted,
    repeat the command: it resumes where it stopped. The exit code is 0 where the parts are complete, and 1 where
    requests failed that may be sent again.
    """
    from tomserve import benchmarks
    from tomserve.distributed.shards import find_folder
    from tomserve.distributed.worker import Connection

    if benchmark is not None:
        benchmarks.get(benchmark)  # from now on known by its name, so that its own metrics score the parts
    how = Connection(
        base_urls=tuple(base_url or ()), timeout=timeout, concurrency=concurrency, transport=transport, hedge=hedge,
        patience=patience, here=here, setup=setup, accept_change=accept_change, strategies=tuple(strategy or ()),
    )  # fmt: skip
    if to is not None:
        from tomserve.distributed import storage

        storage.open_store(to)  # before anything is asked
    return work_on_parts(find_folder(run), part or (), how, console(), quiet=quiet, to=to, share=gpu_share)


def work_on_parts(
    folder: Path,
    numbers: Sequence[int],
    how: Connection,
    screen: Console,
    *,
    quiet: bool,
    to: str | None = None,
    share: float = 1.0,
) -> int:
    """Ask these parts, or for none one after the other that is free; returns the exit code. Raises TomserveError.

    share: how much of each GPU's memory a server that is started may take of what it otherwise would.
    """
    from tomserve.cli.output import tell_failures
    from tomserve.distributed.shards import Shards
    from tomserve.distributed.worker import ask_part, next_part
    from tomserve.reporting.progress import RunScreen
    from tomserve.runs.evaluation import Servers
    from tomserve.runs.scores import scores_of
    from tomserve.status import FINAL

    shards = Shards.read(folder)
    code, passed = 0, set[int]()
    with Servers(share) as servers:
        for number in numbers or iter(lambda: next_part(folder, passed), None):
            passed.add(number)
            if not quiet:
                screen.print(f"part {number} of {len(shards.parts)} of {shards.run}", markup=False, highlight=False)
            try:
                result = ask_part(
                    folder, number, how, RunScreen(screen, quiet=quiet), interrupts.ask_with_signals, servers=servers
                )
            except InUseError:
                if numbers:
                    raise
                continue  # another process has taken it since
            scores_of(result.folder)
            screen.print(f"run: {result.folder}", soft_wrap=True, markup=False)
            tell_failures(result.failures, screen)
            failed = bool(set(result.failures) - FINAL)
            code = max(code, int(failed))
            if to is not None and not failed:
                from tomserve.distributed import storage  # fsspec takes long

                place = storage.upload_part(result.folder, to, RunScreen(screen, quiet=quiet))
                screen.print(f"copied to {place}", soft_wrap=True, markup=False, highlight=False)
    _tell_progress(folder, passed, screen)
    return code


def _tell_progress(folder: Path, passed: Collection[int], screen: Console) -> None:
    """Say how many parts are complete, and what comes next."""
    from tomserve.distributed.shards import part_states, shown_name

    found = part_states(folder)
    complete = sum(one.state == "complete" for one in found)
    running = sum(one.state == "running" for one in found)
    if not passed and running:
        screen.print(f"nothing to take: other processes ask {running} of the parts", highlight=False)
    said = f"{complete} of {len(found)} parts complete"
    end = f"; `tomserve merge {shown_name(folder)}` makes one run of them" if complete == len(found) else ""
    screen.print(said + end, highlight=False, markup=False, soft_wrap=True)
