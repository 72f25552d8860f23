"""The command `eval`: ask a model, score its answers, print the tables, write the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tomserve.cli import configured, signals
from tomserve.cli.options import (
    BenchmarkOption,
    GoldOption,
    LimitOption,
    MaxTokensOption,
    NoiseCheckOption,
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
from tomserve.content.text import say
from tomserve.engine import transports
from tomserve.errors import TomserveError

if TYPE_CHECKING:
    from rich.console import Console

    from tomserve.runs import planning
    from tomserve.runs.evaluation import EvalResult
    from tomserve.studies import Analysis
    from tomserve.workflows.evaluate import Experiment


def evaluate_command(
    config: configured.ConfigOption = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Name of the model or of its preset. If left out: the model that the server offers, else `reference`."
        ),
    ] = None,
    base_url: Annotated[
        list[str] | None,
        typer.Option(
            help="Address of an endpoint, such as http://host:8000/v1. Repeat it to use several side by side."
        ),
    ] = None,
    benchmark: BenchmarkOption = None,
    path: PathOption = None,
    gold: GoldOption = None,
    where: WhereOption = None,
    strategy: StrategyOption = None,
    run: Annotated[
        str | None,
        typer.Option(
            help="Name of the run, such as mine or pilot/mine, or a path such as ./mine. "
            "If left out: <benchmark>-<model>."
        ),
    ] = None,
    limit: LimitOption = None,
    revision: RevisionOption = None,
    max_tokens: MaxTokensOption = None,
    thinking: ThinkingOption = None,
    temperature: TemperatureOption = 0.0,
    seed: SeedOption = 0,
    repeats: RepeatsOption = 1,
    timeout: Annotated[
        float, typer.Option(min=1, max=1e6, help="Seconds to wait for the reply to one request.")
    ] = 600.0,
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, max=65536, help="Requests that are out at once. If left out: found while running."),
    ] = None,
    transport: Annotated[
        str,
        typer.Option(
            help="Library that sends requests: httptools, aiohttp, or openai (OpenAI's own, for hosted providers)."
        ),
    ] = transports.DEFAULT,
    hedge: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="Seconds after which a silent endpoint's question is also put to another; the first reply counts.",
        ),
    ] = None,
    noise_check: NoiseCheckOption = None,
    variants: VariantsOption = None,
    patience: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=1e6,
            help="Seconds to wait for a server that still loads, or that only refuses. If left out: 1800 and 60.",
        ),
    ] = None,
    accept_change: Annotated[
        bool,
        typer.Option(
            "--accept-change",
            help="Go on with a run although its server or model has changed. The change is recorded in the run.",
        ),
    ] = False,
    setup: Annotated[
        bool, typer.Option("--setup", help="Install vLLM first, if a server has to be started and vLLM is missing.")
    ] = False,
    report: Annotated[bool, typer.Option(help="Whether to write report.html into the run's folder at the end.")] = True,
    opened: Annotated[bool, typer.Option("--open", help="Open the report in the browser at the end.")] = False,
    quiet: QuietOption = False,
) -> int:
    """Ask a model a benchmark's questions and score its answers.

    At the end the tables are printed and a report is written. If the command is interrupted, repeat it: it goes on
    where it was and asks no answered question again. The exit code is 1 where a request failed, or where more than one
    in ten of the answers could not be read.
    """
    return asked(
        *as_options(
            config,
            benchmark=benchmark,
            path=path,
            gold=gold,
            where=where,
            strategy=strategy,
            model=model,
            base_url=base_url,
            run=run,
            limit=limit,
            revision=revision,
            max_tokens=max_tokens,
            thinking=thinking,
            temperature=temperature,
            seed=seed,
            repeats=repeats,
            timeout=timeout,
            concurrency=concurrency,
            transport=transport,
            hedge=hedge,
            noise_check=noise_check,
            variants=variants,
            setup=setup,
            accept_change=accept_change,
            patience=patience,
        ),
        report=report,
        opened=opened,
        quiet=quiet,
    )


def as_options(
    config: Path | None,
    *,
    strategy: Sequence[str] | None,
    base_url: Sequence[str] | None,
    variants: Sequence[str] | None,
    where: Sequence[str] | None,
    **options: Any,
) -> tuple[planning.EvalOptions, Experiment | None]:
    """The options of an evaluation: those of the command line, over those of the file where one is given.

    Also returns the experiment of that file. Raises ContentError where the file is wrong.
    """
    from tomserve.runs.planning import EvalOptions

    line = EvalOptions(
        strategies=tuple(strategy or ()),
        base_urls=tuple(base_url or ()),
        variants=tuple(variants or ()),
        where=tuple(where or ()),
        **options,
    )
    if config is None:
        return line, None
    experiment = configured.read(config)
    return configured.merged(experiment, line, configured.given()), experiment


def asked(
    options: planning.EvalOptions,
    experiment: Experiment | None = None,
    *,
    report: bool,
    opened: bool,
    quiet: bool,
    show: Callable[[EvalResult, Analysis, Console], None] | None = None,
) -> int:
    """Ask what the options say, score the answers, print tables, write the report; returns the exit code.

    experiment: the file that the options come from, which may want more than the asking. report, opened: whether to
    write the report, and to open it. quiet: show no progress. show: prints what is to be seen of the analysis, None for
    all of it. Raises TomserveError.
    """
    from tomserve.cli.telling import tell_unread, warn
    from tomserve.reporting import tables
    from tomserve.reporting.progress import RunScreen
    from tomserve.runs import evaluation
    from tomserve.runs.scores import scores_of
    from tomserve.status import FINAL, REFUSAL, listed
    from tomserve.studies import compute, missing_data, noise

    screen = console()
    result = evaluation.evaluate(options, RunScreen(screen, quiet=quiet), signals.heard)
    scores = scores_of(result.folder, note=warn)
    if result.added and not quiet:
        screen.print(f"{result.seconds:.0f} s in all, start-up included", highlight=False)
    elif not result.added:
        screen.print("nothing left to ask", highlight=False)
    lacking = missing_data.gaps_of_source(result.folder, scores)
    for gap in missing_data.gap_sentences(lacking):
        warn(gap)
    analysis = compute(scores)
    for doubt in analysis.warnings:
        warn(doubt)
    if show is not None:
        show(result, analysis, screen)
    else:
        tables.show_analysis(analysis, screen)
    if (floor := noise.noise_line(scores)) is not None:
        screen.print(floor, highlight=False)
    screen.print(f"run: {result.folder}", soft_wrap=True, markup=False)
    if report and (path := write_report_of(result.folder, analysis)) is not None:
        screen.print(f"report: {path}", soft_wrap=True, markup=False)
        if opened:
            typer.launch(str(path.resolve()))
    if result.failures:
        again = "; repeat the command to ask again" if set(result.failures) - FINAL else "; final, not asked again"
        screen.print(f"failures: {listed(result.failures)}{again}", markup=False)
    unread = tell_unread(lacking)
    code = 1 if unread or set(result.failures) - {REFUSAL} else 0
    if experiment is None or not experiment.faithfulness:
        return code
    return max(code, configured.probed(result, options, report=report, quiet=quiet))


def write_report_of(folder: Path, analysis: Analysis) -> Path | None:
    """The path of the run's report, which is written anew unless the one in the folder is still up to date.

    None where it could not be written: that is only a warning, so that it does not look like a failed run.
    """
    from tomserve.reporting.html.report import write_report
    from tomserve.reporting.html.sources import find_current_report

    try:
        return find_current_report(folder) or write_report([str(folder) + "/"], analysis=analysis)
    except TomserveError as error:
        say(f"warning: no report ({error})", error=True)
        return None
