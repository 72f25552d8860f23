"""The command `faithfulness`: does a model's answer follow from the chain of thought that it wrote?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tomserve.cli import interrupts
from tomserve.cli.options import SetupOption, Showing, console, with_groups

if TYPE_CHECKING:
    from tomserve.faithfulness.settings import Connection, Settings


@with_groups
def faithfulness(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="Name of a finished run whose model reasoned before it answered, such as mine, or a path such as "
            "./mine. Default: the newest run of answers.",
        ),
    ] = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            help="Strategy whose chains are edited; repeatable. Default: all of the run that mark where their "
            "reasoning is."
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="Only questions with this factor=value; repeatable; all selects every question. Default: the "
            "benchmark's, mostly questions about false beliefs."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of chains a strategy, spread over stages. Default: 300.")
    ] = None,
    probe: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="What the model is asked: edits (its chains after they were edited), hints (its prompts with hints "
            "in them), continued (to go on itself with a chain after a mistake in the middle); repeatable. Default: "
            "edits and hints.",
        ),
    ] = None,
    edit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Way to edit a chain, such as last_corrupted; repeatable. Default: all of them. full and paraphrase "
            "are always asked, as the others are compared with them.",
        ),
    ] = None,
    hint: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Where hints stand: user, metadata, pattern, authority, grader, earlier, sum; repeatable. Default: "
            "all of them.",
        ),
    ] = None,
    shown: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="How a chain is shown: prefill (as the beginning of the model's reply), call (in an earlier message, "
            "after which a second call asks), or both. Default: what the strategy and the server allow.",
        ),
    ] = None,
    predictor: Annotated[
        str | None,
        typer.Option(
            metavar="URL|MODEL", help="A second model that predicts the answer from the chain alone. Default: none."
        ),
    ] = None,
    predictor_model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which of the models at the address of --predictor.")
    ] = None,
    rewriter: Annotated[
        str | None,
        typer.Option(
            metavar="URL|MODEL",
            help="A model that puts chains of prose in other words. Default: rules paraphrase them.",
        ),
    ] = None,
    rewriter_model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which of the models at the address of --rewriter.")
    ] = None,
    reader: Annotated[
        str | None,
        typer.Option(
            metavar="URL|MODEL",
            help="A model that says whether chains speak of the hints that they followed. Default: rules look for the "
            "words, and miss some.",
        ),
    ] = None,
    reader_model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which of the models at the address of --reader.")
    ] = None,
    unlearn: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="The checkpoint of the run's model, a preset such as reference or ./FOLDER: a step of each chain is "
            "unlearned in it by a few gradient steps. Then nothing is asked of a server but what --probe names, and at "
            "most 40 chains are taken unless --limit says otherwise.",
        ),
    ] = None,
    base_url: Annotated[
        list[str] | None,
        typer.Option(
            help="Address of the server of the run's model; repeatable, for replicas. Default: one that runs on this "
            "machine, else one is started."
        ),
    ] = None,
    revision: Annotated[str | None, typer.Option(help="Revision of the served model, as you know it.")] = None,
    new: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="NEW",
            help="Name of the run that keeps the measurement, such as mine, or a path such as ./mine. Default: "
            "faithfulness-<RUN>.",
        ),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds to wait for the reply to one request.")] = 600.0,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Concurrent requests at each endpoint. Default: found during the run.")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print how many requests it would take, and end; no server is needed.")
    ] = False,
    setup: SetupOption = False,
    *,
    showing: Showing,
) -> int:
    """Measure whether the answers of a finished run depend on their chains of thought.

    Chains are truncated, replaced by filler, corrupted or exchanged, and the model answers again; hints in the prompt
    and a second model are further probes. The run is not changed; the measurement is a run of its own. If interrupted,
    repeat the command: it resumes where it stopped. The exit code is 1 where requests had no reply.
    """
    from tomserve.faithfulness.measurement import preview
    from tomserve.faithfulness.settings import AUTO, Connection, Settings, usual_settings
    from tomserve.faithfulness.table import EDITS, FULL, PARAPHRASE, PLACES
    from tomserve.reporting.table_layout import print_figures
    from tomserve.runs.runfolder import find_answered_run

    usual = usual_settings(unlearn)
    edits = EDITS if not edit else tuple(one for one in dict.fromkeys((FULL, PARAPHRASE, *edit)))
    settings = Settings(
        run=find_answered_run(run),
        strategies=tuple(strategy or ()),
        where=tuple(where or ()),
        limit=limit or usual["limit"],
        probes=tuple(dict.fromkeys(probe or usual["probes"])),
        edits=edits,
        hints=tuple(dict.fromkeys(hint or PLACES)),
        shown=shown or AUTO,
        predictor=predictor,
        predictor_model=predictor_model,
        rewriter=rewriter,
        rewriter_model=rewriter_model,
        reader=reader,
        reader_model=reader_model,
        unlearn=unlearn,
    )
    if plan:
        print_figures(preview(settings), console(), whole=showing.whole)
        return 0
    connection = Connection(
        base_urls=tuple(base_url or ()), revision=revision, timeout=timeout, concurrency=concurrency, setup=setup
    )
    return measure_and_report(settings, connection, new, showing)


def measure_and_report(settings: Settings, connection: Connection, new: str | None, showing: Showing) -> int:
    """Measure, print the study's tables, write the report; returns the exit code.

    new: the name of the run that keeps the measurement, None for the default. Raises TomserveError.
    """
    from tomserve.cli.output import show_measurement, tell_failures
    from tomserve.faithfulness.measurement import measure
    from tomserve.reporting.progress import RunScreen
    from tomserve.status import REFUSAL

    screen = console()
    result = measure(settings, connection, new, RunScreen(screen, quiet=showing.quiet), interrupts.ask_with_signals)
    if not result.asked_now:
        screen.print("nothing left to ask", highlight=False)
    cache = None
    if not showing.quiet and result.tokens is not None and result.cached is not None:
        cache = f"prompts: {result.tokens:,} tokens, {result.cached:.0%} of them from the server's cache"
    show_measurement(result.folder, screen, showing, note=cache)
    tell_failures(result.failures, screen)
    return 1 if set(result.failures) - {REFUSAL} else 0
