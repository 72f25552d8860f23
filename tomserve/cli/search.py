"""The command `search`: where does a model break?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from tomserve.cli import options as shared
from tomserve.cli.evaluate import run_and_report
from tomserve.content.output_path import parse_file
from tomserve.engine import transports

if TYPE_CHECKING:
    from rich.console import Console

    from tomserve.engine.adaptations import SchemaPolicy
    from tomserve.runs.evaluation import EvalResult
    from tomserve.studies import Analysis


@shared.with_groups
def search(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]", help="Name of the model or of its preset. Default: the one that the server offers."
        ),
    ] = None,
    base_url: shared.BaseUrlOption = None,
    benchmark: Annotated[
        str | None,
        typer.Option(help="Benchmark with a generator, whose design is explored. Default: stories about beliefs."),
    ] = None,
    budget: Annotated[int | None, typer.Option(help="Questions in all; half of them confirm. Default: 2000.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of the stories and of the draws.")] = 0,
    strategy: Annotated[str | None, typer.Option(help="Prompting strategy. Default: vanilla.")] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            parser=parse_file,
            metavar="FILE.jsonl",
            help="Write the questions that confirm as a frozen benchmark, with a datasheet beside it.",
        ),
    ] = None,
    run: Annotated[
        str | None, typer.Option(help="Name of the run, or a path. Default: search-<benchmark>-<model>.")
    ] = None,
    revision: shared.RevisionOption = None,
    max_tokens: shared.MaxTokensOption = None,
    thinking: shared.ThinkingOption = None,
    reasoning_effort: shared.EffortOption = None,
    extra_body: shared.ExtraBodyOption = None,
    answer_schema: shared.SchemaOption = "on",
    concurrency: shared.ConcurrencyOption = None,
    transport: shared.TransportOption = transports.DEFAULT,
    again: shared.AgainOption = None,
    accept_change: shared.AcceptChangeOption = False,
    setup: shared.SetupOption = False,
    *,
    showing: shared.Showing,
) -> int:
    """Search for the questions that a model fails.

    Questions are generated round by round where accuracy seems lowest; the weakest cells of the design are then
    confirmed on fresh stories, with intervals that hold for all of them at once. If interrupted, repeat the command: it
    resumes where it stopped. The exit code is 1 where a request failed: repeat the command to ask again and go on.
    """
    from tomserve.runs.planning import EvalOptions
    from tomserve.weakness.rounds import SearchSettings
    from tomserve.workflows.search import BENCHMARK, BUDGET, STRATEGY, datasheet_of, export_found, make_search

    if export is not None:
        datasheet_of(export)
    wanted = EvalOptions(
        model=model,
        base_urls=tuple(base_url or ()),
        strategies=(strategy or STRATEGY,),
        run=run,
        revision=revision,
        max_tokens=max_tokens,
        thinking=thinking,
        reasoning_effort=reasoning_effort,
        extra_body=extra_body or {},
        answer_schema=cast("SchemaPolicy", answer_schema),
        concurrency=concurrency,
        transport=transport,
        again=tuple(again or ()),
        accept_change=accept_change,
        setup=setup,
    )
    if not showing.quiet:
        shared.console().print("drawing stories ...", highlight=False)
    options = make_search(SearchSettings(benchmark or BENCHMARK, budget or BUDGET, seed), wanted)

    def show(result: EvalResult, analysis: Analysis, screen: Console) -> None:
        from tomserve.cli.output import show_result

        show_result(analysis, screen, whole=showing.whole)
        if export is not None and not result.failures:
            sheet = export_found(result.folder, export)
            screen.print(f"written: {export} and {sheet}", soft_wrap=True, markup=False)

    return run_and_report(options, showing, show=show)
