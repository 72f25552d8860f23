"""The command `eval`: ask, score, print the table, write the report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tomserve.cli import signals
from tomserve.cli.options import GoldOption, PathOption, console
from tomserve.errors import TomserveError

if TYPE_CHECKING:
    from tomserve.studies import Analysis


def evaluate_command(
    model: Annotated[str | None, typer.Option(help="Model or preset to ask [what is served; else reference].")] = None,
    base_url: Annotated[list[str] | None, typer.Option(help="Endpoint(s), e.g. http://host:8000/v1.")] = None,
    benchmark: Annotated[str | None, typer.Option(help="Benchmark, or FILE.py of your own [the default one].")] = None,
    path: PathOption = None,
    gold: GoldOption = None,
    strategy: Annotated[list[str] | None, typer.Option(help="Strategies [the benchmark's: vanilla, cot].")] = None,
    run: Annotated[str | None, typer.Option(help="Run name or path [<benchmark>-<model>].")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only N items, spread over the classes.")] = None,
    revision: Annotated[str | None, typer.Option(help="Model revision, where only you know it.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, max=2**31, help="Tokens a reply [the strategy's].")] = None,
    thinking: Annotated[
        str | None, typer.Option(help="Of a model that thinks: on, off, or its tokens [its preset's].")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, max=1e6, help="Seconds a request.")] = 600.0,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=65536, help="Requests in flight [found out while running].")
    ] = None,
    transport: Annotated[str, typer.Option(help="aiohttp, or openai (its SDK) for hosted providers.")] = "aiohttp",
    hedge: Annotated[
        float | None, typer.Option(min=1, help="Ask a second endpoint too where the first is silent for S seconds.")
    ] = None,
    noise_check: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Re-ask that share with others in flight: the noise floor.")
    ] = None,
    accept_change: Annotated[
        bool, typer.Option("--accept-change", help="Resume although another server or model answers; it is recorded.")
    ] = False,
    setup: Annotated[bool, typer.Option("--setup", help="Install vLLM where a server must be started.")] = False,
    report: Annotated[bool, typer.Option(help="Write report.html at the end.")] = True,
    opened: Annotated[bool, typer.Option("--open", help="Open the report in the browser.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> int:
    """Ask a model a benchmark's questions, score the answers, print the table. Repeat to resume."""
    from tomserve.cli.rescore import warn
    from tomserve.reporting import tables
    from tomserve.reporting.progress import Screen
    from tomserve.runs import evaluation, planning
    from tomserve.runs.scores import scores_of
    from tomserve.status import FINAL, REFUSAL, listed
    from tomserve.studies import compute, noise

    screen = console()
    options = planning.EvalOptions(
        benchmark=benchmark,
        path=path,
        gold=gold,
        strategies=tuple(strategy or ()),
        model=model,
        base_urls=tuple(base_url or ()),
        run=run,
        limit=limit,
        revision=revision,
        max_tokens=max_tokens,
        thinking=thinking,
        timeout=timeout,
        concurrency=concurrency,
        transport=transport,
        hedge=hedge,
        noise_check=noise_check,
        setup=setup,
        accept_change=accept_change,
    )
    result = evaluation.evaluate(options, Screen(screen, quiet=quiet), signals.heard)
    scores = scores_of(result.folder, note=warn)
    if result.added:
        screen.print(f"{result.seconds:.0f} s in all, start-up included", highlight=False)
    else:
        screen.print("nothing left to ask", highlight=False)
    analysis = compute(scores)
    tables.show_analysis(analysis, screen)
    if (floor := noise.line(scores)) is not None:
        screen.print(floor, highlight=False)
    screen.print(f"run: {result.folder}", soft_wrap=True, markup=False)
    if report and (path := _report(result.folder, analysis)) is not None:
        screen.print(f"report: {path}", soft_wrap=True, markup=False)
        if opened:
            typer.launch(str(path.resolve()))
    if result.failures:
        again = "; repeat the command to ask again" if set(result.failures) - FINAL else "; final, not asked again"
        screen.print(f"failures: {listed(result.failures)}{again}", markup=False)
    return 1 if set(result.failures) - {REFUSAL} else 0


def _report(folder: Path, analysis: Analysis) -> Path | None:
    """The run's report, the one that is there where it still says the same; what goes wrong with a picture must not
    look like a failed run."""
    from tomserve.reporting.html.build import write_report
    from tomserve.reporting.html.standing import standing

    try:
        return standing(folder) or write_report([str(folder) + "/"], analysis=analysis)
    except TomserveError as error:
        print(f"warning: no report ({error})", file=sys.stderr)
        return None
