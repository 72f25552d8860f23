"""The command `eval`, which asks a model a benchmark's questions, and its options and report for `stability`, too.

With --config FILE.yaml it takes an experiment from a file, over which the command line wins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tomserve.cli import interrupts
from tomserve.cli.options import (
    AcceptChangeOption,
    AgainOption,
    BaseUrlOption,
    ConcurrencyOption,
    ModelOption,
    NoiseCheckOption,
    Questions,
    Sampling,
    SetupOption,
    Showing,
    TransportOption,
    VariantsOption,
    console,
    with_groups,
)
from tomserve.engine import transports
from tomserve.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection

    from rich.console import Console

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
        help="YAML file of an experiment with these options as fields; the command line takes precedence.",
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


def run_faithfulness_after(result: EvalResult, options: planning.EvalOptions, showing: Showing) -> int:
    """Edit the chains of the run that was asked just now and ask again; returns the exit code. Raises TomserveError."""
    from tomserve.cli.faithfulness import measure_and_report
    from tomserve.faithfulness.settings import Connection, Settings

    connection = Connection(
        base_urls=options.base_urls,
        revision=options.revision,
        timeout=options.timeout,
        concurrency=options.concurrency,
        transport=options.transport,
        setup=options.setup,
        patience=options.patience,
    )
    return measure_and_report(Settings(run=result.folder), connection, None, replace(showing, opened=False))


@with_groups
def evaluate_command(
    *,
    config: ConfigOption = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    questions: Questions,
    run: Annotated[
        str | None,
        typer.Option(
            help="Name of the run, such as mine or pilot/mine, or a path such as ./mine. Default: <benchmark>-<model>."
        ),
    ] = None,
    sampling: Sampling,
    timeout: Annotated[
        float, typer.Option(min=1, max=1e6, help="Seconds to wait for the reply to one request.")
    ] = 600.0,
    concurrency: ConcurrencyOption = None,
    transport: TransportOption = transports.DEFAULT,
    hedge: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="Seconds after which an unanswered request is also sent to another endpoint; the first reply counts.",
        ),
    ] = None,
    noise_check: NoiseCheckOption = None,
    variants: VariantsOption = None,
    patience: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=1e6,
            help="Seconds to wait for a server that is loading, or that refuses requests. Default: 1800 and 60.",
        ),
    ] = None,
    again: AgainOption = None,
    accept_change: AcceptChangeOption = False,
    setup: SetupOption = False,
    showing: Showing,
) -> int:
    """Evaluate a model on a benchmark.

    A summary is printed, and a report is written. If interrupted, repeat the command: it resumes where it stopped. The
    exit code is 1 where a request failed, or where more than one in ten answers could not be read.
    """
    options, experiment = make_options(
        config, questions, sampling, model=model, base_url=base_url, run=run, timeout=timeout, concurrency=concurrency,
        transport=transport, hedge=hedge, noise_check=noise_check, variants=variants, setup=setup,
        again=again, accept_change=accept_change, patience=patience,
    )  # fmt: skip
    return run_and_report(options, showing, experiment)


def make_options(
    config: Path | None,
    questions: Questions,
    sampling: Sampling,
    *,
    base_url: Sequence[str] | None,
    variants: Sequence[str] | None = None,
    again: Sequence[str] | None = None,
    **options: Any,
) -> tuple[planning.EvalOptions, Experiment | None]:
    """The options of an evaluation: those of the command line, over those of the file where one is given.

    Also returns the experiment of that file. Raises ContentError where the file is wrong, and where a key, or
    a file of items, would be sent to an address that only the file names.
    """
    from urllib.parse import urlsplit

    from tomserve.engine.addresses import redact_url
    from tomserve.engine.network import is_loopback
    from tomserve.runs.planning import EvalOptions
    from tomserve.serving import keys
    from tomserve.workflows import evaluate

    line = EvalOptions(
        benchmark=questions.benchmark,
        path=questions.path,
        gold=questions.gold,
        where=tuple(questions.where or ()),
        strategies=tuple(questions.strategy or ()),
        base_urls=tuple(base_url or ()),
        variants=tuple(variants or ()),
        again=tuple(again or ()),
        **{**vars(sampling), "extra_body": sampling.extra_body or {}},
        **options,
    )
    if config is None:
        return line, None
    experiment, named = read_config(config), options_on_line()
    if experiment.base_url and "base_url" not in named and keys.any_secret() is not None:  # it may be a stranger's
        said = f"the API key would be sent to {', '.join(map(redact_url, experiment.base_url))}"
        error = f"{said}, which only this file names; say so by --base-url URL"
        raise evaluate.experiment_error(config.expanduser(), "base-url", error)
    elsewhere = [one for one in experiment.base_url if not is_loopback(urlsplit(one).hostname or "")]
    if elsewhere and experiment.path and not {"base_url", "path"} & set(named):  # which may be private
        said = f"the items of {experiment.path} would be sent to {redact_url(elsewhere[0])}"
        error = f"{said}, and only this file names both; say so by --base-url URL or --path FILE"
        raise evaluate.experiment_error(config.expanduser(), "path", error)
    merged = merge_options(experiment, line, named)
    if experiment.search is not None:
        from tomserve.workflows.search import search_as_experiment

        try:
            merged = search_as_experiment(experiment.search, merged)
        except ConfigError as error:
            raise evaluate.experiment_error(config.expanduser(), "search", str(error)) from None
    return merged, experiment


def run_and_report(
    options: planning.EvalOptions,
    showing: Showing,
    experiment: Experiment | None = None,
    *,
    show: Callable[[EvalResult, Analysis, Console], None] | None = None,
) -> int:
    """Ask what the options say, score the answers, print tables, write the report; returns the exit code.

    experiment: the file that the options come from, which may want more than the asking. show: prints what is to be
    seen of the analysis instead. Raises TomserveError.
    """
    from tomserve.cli.output import show_result, tell_failures, tell_unread, warn, warn_gaps, write_run_report
    from tomserve.reporting.progress import RunScreen
    from tomserve.runs import evaluation
    from tomserve.runs.scores import scores_of
    from tomserve.status import REFUSAL
    from tomserve.studies import compute, noise

    screen = console()
    result = evaluation.evaluate(options, RunScreen(screen, quiet=showing.quiet), interrupts.ask_with_signals)
    scores = scores_of(result.folder, note=warn)
    if result.added and not showing.quiet:
        screen.print(f"{result.seconds:.0f} s in all, start-up included", highlight=False)
    elif not result.added:
        screen.print("nothing left to ask", highlight=False)
    lacking = warn_gaps(result.folder, scores)
    analysis = compute(scores, named=None if options.rounds is None else options.rounds.study)
    if show is not None:
        show(result, analysis, screen)
    else:
        show_result(analysis, screen, whole=showing.whole)
    if (floor := noise.noise_line(scores)) is not None:
        screen.print(floor, highlight=False)
    screen.print(f"run: {result.folder}", soft_wrap=True, markup=False)
    if showing.report:
        write_run_report(result.folder, analysis, screen, opened=showing.opened)
    tell_failures(result.failures, screen)
    unread = tell_unread(lacking)
    code = 1 if unread or set(result.failures) - {REFUSAL} else 0
    if experiment is None or not experiment.faithfulness:
        return code
    return max(code, run_faithfulness_after(result, options, showing))
