"""The commands that ask a model about items: `eval` (with --config FILE.yaml), `stability` and `faithfulness`.

The command line wins over the file of an experiment.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tomserve.cli import interrupts
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
from tomserve.errors import ConfigError, TomserveError

if TYPE_CHECKING:
    from collections.abc import Collection

    from rich.console import Console

    from tomserve.faithfulness.measurement import MeasurementResult
    from tomserve.faithfulness.settings import Connection, Settings
    from tomserve.runs import planning
    from tomserve.runs.evaluation import EvalResult
    from tomserve.studies import Analysis
    from tomserve.workflows.evaluate import Experiment


_lines: list[typer.Context] = []
"""The command line that names a file, once it has been read."""


def remember_line(context: typer.Context, config: Path | None) -> Path | None:
    """Keep the command line that names a file, so that `options_on_line` can tell what else stands on it."""
    _lines[:] = [context]
    return config


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        callback=remember_line,
        help="YAML file of an experiment, whose fields are called as these options; the command line wins over it.",
    ),
]
"""The option by which a command takes an experiment from a file."""


def options_on_line() -> frozenset[str]:
    """The parameters that stand on the command line, by their names in the program; what is only a default does not."""
    sources = {name: line.get_parameter_source(name) for line in _lines for name in line.params}
    return frozenset(name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE")


def read_config(path: Path) -> Experiment:
    """The experiment in a file, whose API key is used from now on where it names one.

    Raises ContentError that names file, line and field, also where the variable of the key is not set.
    """
    from tomserve.serving import keys
    from tomserve.workflows import evaluate

    experiment = evaluate.read_experiment(path.expanduser())
    if experiment.key is not None:
        try:
            keys.use_key(experiment.key)
        except ConfigError as error:
            raise evaluate.experiment_error(path.expanduser(), "key", str(error)) from None
    return experiment


def merge_options(
    experiment: Experiment, options: planning.EvalOptions, named: Collection[str]
) -> planning.EvalOptions:
    """The options of the file, over which those of the command line that are `named` win.

    options: what the command line says, with its defaults. named: by the names of the command's parameters.
    """
    fields = {"base_url": "base_urls", "strategy": "strategies"}
    own: dict[str, Any] = {}
    for name in named:
        field = fields.get(name, name)
        if hasattr(options, field):
            own[field] = getattr(options, field)
    return replace(experiment.options(), setup=options.setup, **{k: v for k, v in own.items() if k != "setup"})


def run_faithfulness_after(result: EvalResult, options: planning.EvalOptions, *, report: bool, quiet: bool) -> int:
    """Edit the chains of the run that was asked just now and ask again; returns the exit code. Raises TomserveError."""
    from tomserve.faithfulness.settings import Connection, Settings

    how = Connection(
        base_urls=options.base_urls,
        revision=options.revision,
        timeout=options.timeout,
        concurrency=options.concurrency,
        transport=options.transport,
        setup=options.setup,
        patience=options.patience,
    )
    return measure_and_report(Settings(run=result.folder), how, None, report=report, opened=False, quiet=quiet)


def evaluate_command(
    config: ConfigOption = None,
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
    return run_and_report(
        *make_options(
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


def make_options(
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
    experiment = read_config(config)
    return merge_options(experiment, line, options_on_line()), experiment


def run_and_report(
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
    from tomserve.cli.output import tell_unread, warn
    from tomserve.reporting import tables
    from tomserve.reporting.progress import RunScreen
    from tomserve.runs import evaluation
    from tomserve.runs.scores import scores_of
    from tomserve.status import FINAL, REFUSAL, listed
    from tomserve.studies import compute, missing_data, noise

    screen = console()
    result = evaluation.evaluate(options, RunScreen(screen, quiet=quiet), interrupts.ask_with_signals)
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
    if report and (path := write_run_report(result.folder, analysis)) is not None:
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
    return max(code, run_faithfulness_after(result, options, report=report, quiet=quiet))


def write_run_report(folder: Path, analysis: Analysis) -> Path | None:
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


def stability(
    *, config: Path | None, report: bool, opened: bool, quiet: bool, variants: list[str] | None, **options: Any
) -> int:
    """Ask a benchmark's questions and variants of them, and count how often the answer stays the same.

    A variant changes what should not matter: an object, the person, the length, the order of the choices, the wording,
    or the order of sentences; "again" sends the same prompt among other requests, as the noise floor. This is `tomserve
    eval --variants all` (or the kinds given by --variants), in the same run, of which the tables of stability are
    printed with the reasons why variants were left out. Interrupted, it goes on where it was.
    """
    chosen, experiment = make_options(config, variants=variants, **options)
    chosen = replace(chosen, variants=chosen.variants or ("all",))
    return run_and_report(chosen, experiment, report=report, opened=opened, quiet=quiet, show=_show)


stability.__signature__ = inspect.signature(evaluate_command, eval_str=True)  # type: ignore[attr-defined]


def _show(result: EvalResult, analysis: Analysis, screen: Console) -> None:
    """Print the tables of stability, and why variants were left out."""
    from tomserve.reporting import run_list, tables
    from tomserve.runs.manifest import Manifest

    if analysis.beside is None:
        screen.print("no variant could be made of these questions", highlight=False)
    else:
        tables.show_analysis(analysis.beside, screen)
    manifest = Manifest.read(result.folder)
    left_out = run_list.left_out_variants(manifest.variants if manifest is not None else None)
    tables.show_tables({run_list.TITLE: left_out} if not left_out.is_empty() else {}, screen, {})


def faithfulness(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="Name of a finished run whose model reasoned before it answered, such as mine, or a path such as "
            "./mine. If left out: the newest run of answers.",
        ),
    ] = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            help="Strategy whose chains are edited; repeat it for several. If left out: all of the run that mark where "
            "their reasoning is."
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="Only questions with this factor=value; repeat it for several conditions, or say all for every "
            "question. If left out: those that the benchmark names, mostly questions about false beliefs."
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="At most so many chains of a strategy, spread over stages. If left out: 300."),
    ] = None,
    probe: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="What the model is asked: edits (its chains after they were edited), hints (its prompts with hints in "
            "them); repeat it for both. If left out: both.",
        ),
    ] = None,
    edit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Way to edit a chain, such as last_corrupted; repeat it for several. If left out: all of them. full "
            "and paraphrase are always asked, as the others are compared with them.",
        ),
    ] = None,
    shown: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="How a chain is shown: prefill (as the beginning of the model's reply), call (in an earlier message, "
            "after which a second call asks), or both. If left out: what the strategy and the server allow.",
        ),
    ] = None,
    predictor: Annotated[
        str | None,
        typer.Option(
            metavar="URL|MODEL",
            help="A second model that predicts the answer from the chain alone. If left out: that is not asked.",
        ),
    ] = None,
    predictor_model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which of the models at the address of --predictor.")
    ] = None,
    rewriter: Annotated[
        str | None,
        typer.Option(
            metavar="URL|MODEL",
            help="A model that puts chains of prose in other words. If left out: rules paraphrase them.",
        ),
    ] = None,
    rewriter_model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which of the models at the address of --rewriter.")
    ] = None,
    base_url: Annotated[
        list[str] | None,
        typer.Option(
            help="Address of the server of the run's model; repeat it for replicas. If left out: one that runs on this "
            "machine, else one is started."
        ),
    ] = None,
    revision: Annotated[str | None, typer.Option(help="Revision of the served model, as you know it.")] = None,
    new: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="NEW",
            help="Name of the run that keeps the measurement, such as mine, or a path such as ./mine. If left out: "
            "faithfulness-<RUN>.",
        ),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds that one request may take.")] = 600.0,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Requests in flight at each endpoint. If left out: found out.")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say how much would be asked and end; no server is needed.")
    ] = False,
    setup: Annotated[
        bool, typer.Option("--setup", help="Install vLLM first, if a server has to be started and vLLM is missing.")
    ] = False,
    report: Annotated[bool, typer.Option(help="Whether to write report.html into the run's folder at the end.")] = True,
    opened: Annotated[bool, typer.Option("--open", help="Open the report in the browser at the end.")] = False,
    quiet: QuietOption = False,
) -> int:
    """Edit the chains of a finished run, ask its model again, and find out whether the answer follows from the chain.

    Chains are cut, filled with dots, corrupted, exchanged and more, and the model only has to answer; hints in the
    prompt and a second model look at them from outside. The run stays as it is; what is measured goes into a run of its
    own. Interrupted, the same command goes on where it was. The exit code is 1 where requests had no reply.
    """
    from tomserve.faithfulness.settings import AUTO, LIMIT, PROBES
    from tomserve.faithfulness.settings import Connection as How
    from tomserve.faithfulness.settings import Settings as Chosen
    from tomserve.faithfulness.table import EDITS, FULL, PARAPHRASE
    from tomserve.runs.runfolder import find_answered_run

    edits = EDITS if not edit else tuple(one for one in dict.fromkeys((FULL, PARAPHRASE, *edit)))
    settings = Chosen(
        run=find_answered_run(run),
        strategies=tuple(strategy or ()),
        where=tuple(where or ()),
        limit=limit or LIMIT,
        probes=tuple(dict.fromkeys(probe or PROBES)),
        edits=edits,
        shown=shown or AUTO,
        predictor=predictor,
        predictor_model=predictor_model,
        rewriter=rewriter,
        rewriter_model=rewriter_model,
    )
    if plan:
        return _plan(settings)
    how = How(base_urls=tuple(base_url or ()), revision=revision, timeout=timeout, concurrency=concurrency, setup=setup)
    return measure_and_report(settings, how, new, report=report, opened=opened, quiet=quiet)


def _plan(settings: Settings) -> int:
    """Print how much would be asked."""
    from tomserve.faithfulness.measurement import preview

    for line in preview(settings).lines():
        say(line)
    return 0


def measure_and_report(
    settings: Settings, how: Connection, new: str | None, *, report: bool, opened: bool, quiet: bool
) -> int:
    """Measure, print the study's tables, write the report; returns the exit code.

    new: the name of the run that keeps the measurement, None for the usual one. report, opened: whether to write the
    report, and to open it. quiet: show no progress. Raises TomserveError.
    """
    from tomserve.cli import interrupts
    from tomserve.cli.output import warn
    from tomserve.faithfulness.measurement import measure
    from tomserve.reporting import tables
    from tomserve.reporting.progress import RunScreen
    from tomserve.runs.scores import scores_of
    from tomserve.studies import compute

    screen = console()
    result = measure(settings, how, new, RunScreen(screen, quiet=quiet), interrupts.ask_with_signals)
    if not result.asked:
        screen.print("nothing left to ask", highlight=False)
    analysis = compute(scores_of(result.folder, note=warn))
    for doubt in analysis.warnings:
        warn(doubt)
    tables.show_analysis(analysis, screen)
    if (line := _cached(result)) is not None and not quiet:
        screen.print(line, highlight=False)
    screen.print(f"run: {result.folder}", soft_wrap=True, markup=False)
    if report and (path := write_run_report(result.folder, analysis)) is not None:
        screen.print(f"report: {path}", soft_wrap=True, markup=False)
        if opened:
            typer.launch(str(path.resolve()))
    return _tell_failures(result)


def _cached(result: MeasurementResult) -> str | None:
    """How many of the prompt tokens the server had in its cache, in words; None where it does not tell."""
    if result.tokens is None or result.cached is None:
        return None
    return f"prompts: {result.tokens:,} tokens, {result.cached:.0%} of them from the server's cache"


def _tell_failures(result: MeasurementResult) -> int:
    """Say which requests had no reply; returns the exit code."""
    from tomserve.status import FINAL, REFUSAL, listed

    if not result.failures:
        return 0
    again = "; repeat the command to ask again" if set(result.failures) - FINAL else "; final, not asked again"
    console().print(f"failures: {listed(result.failures)}{again}", markup=False)
    return 1 if set(result.failures) - {REFUSAL} else 0
