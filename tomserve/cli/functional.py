"""The command `functional`: behaviour, stability and mechanism of one or several models, and a score of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from tomserve.cli import interrupts
from tomserve.cli import options as shared
from tomserve.cli.options import console
from tomserve.engine import transports
from tomserve.errors import ConfigError, one_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.console import Console

    from tomserve.causal.experiment import ExperimentResult, Hardware
    from tomserve.causal.settings import Settings
    from tomserve.runs.evaluation import EvalResult, Servers
    from tomserve.runs.planning import EvalOptions
    from tomserve.stats.functional import Formula
    from tomserve.workflows.functional import FunctionalPlan, FunctionalResult, PartRunner


def plan_models(
    plan: FunctionalPlan, models: Sequence[str], weights: Sequence[str], *, one: str | None
) -> dict[str, FunctionalPlan]:
    """The plan of each model, by its name, with a folder of its own below that of all.

    models: NAME or NAME@URL. weights: MODEL=DIR. one: what --model says, which must be nothing. Raises ConfigError for
    what is given twice, or of a model that is not named.
    """
    from tomserve.causal.experiment import Hardware
    from tomserve.causal.settings import Settings
    from tomserve.runs.runfolder import default_name
    from tomserve.workflows.functional import NO_WEIGHTS

    if one is not None:
        raise ConfigError(f"--model {one} and --models are both given; expected one of them")
    of: dict[str, str] = {}
    without = list(weights) == [NO_WEIGHTS]  # said once, for all models
    for given in () if without else weights:
        name, equals, place = given.partition("=")
        if not equals or not place or name in of:
            raise ConfigError(f"--weights {given!r}: expected MODEL=DIR, once for each model, or `none` for all")
        of[name] = place
    found: dict[str, FunctionalPlan] = {}
    run = plan.run or "functional"
    for name, url in map(_split_model, models):
        if name in found:
            raise ConfigError(f"--models: {name!r} is named twice")
        evaluation = replace(plan.evaluation, model=name, base_urls=(url,) if url else plan.evaluation.base_urls)
        folder = default_name("model", name).removeprefix("model-")
        own = NO_WEIGHTS if without else of.pop(name, None)
        found[name] = replace(plan, evaluation=evaluation, weights=own, run=f"{run.rstrip('/')}/{folder}")
        if not own and weights and evaluation.base_urls:  # how to measure inside concerns those whose weights are named
            found[name] = replace(found[name], mechanism=Settings(), hardware=Hardware())
    if of:
        raise ConfigError(f"--weights: {one_of('model', next(iter(of)), found)}")
    if len({each.run for each in found.values()}) < len(found):
        raise ConfigError(f"--models: {', '.join(found)} would share a folder; run them one by one with --run")
    return found


def _split_model(given: str) -> tuple[str, str]:
    """A model's name and its address, such as my-model@http://host:8000/v1; names may hold an @ themselves."""
    at = max(given.find("@http://"), given.find("@https://"))
    return (given, "") if at < 0 else (given[:at], given[at + 1 :])


def parse_formula(given: str) -> Formula:
    """The formula of an option such as .5,.3,.2. Raises ConfigError for what is no three numbers."""
    from tomserve.workflows.functional import make_formula

    try:
        weights = [float(part) for part in given.split(",")]
    except ValueError:
        raise ConfigError(f"--weights-bcs {given!r}: expected three numbers such as .5,.3,.2") from None
    return make_formula(weights)


def functional(
    more: Annotated[list[str] | None, typer.Argument(metavar="[MODEL]...", help="Further models of --models.")] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A B C",
            help="Several models, one after the other, with a leaderboard: names or presets, or NAME@URL where each "
            "has an address of its own.",
        ),
    ] = None,
    model: shared.ModelOption = None,
    base_url: shared.BaseUrlOption = None,
    transport: shared.TransportOption = transports.DEFAULT,
    weights: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIR|NAME",
            help="The model's weights, for the mechanism: a ./FOLDER, a preset, or ORG/NAME on the hub; with --models "
            "MODEL=DIR, repeated; `none` for no mechanism. Default: those of a server that is started here.",
        ),
    ] = None,
    benchmark: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=PATH]",
            help="A further benchmark that is asked besides the generated stories, with the file or folder that it "
            "reads; repeatable.",
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FACTOR=VALUE",
            help="Ask only those questions about generated stories that meet it, such as task=belief; repeatable.",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="At most this many questions of each benchmark, each asked with its variants and by two strategies, "
            "about eleven requests a question. Default: 300.",
        ),
    ] = None,
    items: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|NAME",
            help="What is measured inside, as for `tomserve causal`. Default: the same generated stories.",
        ),
    ] = None,
    cases: Annotated[
        int | None,
        typer.Option(min=1, help="At most this many false-belief questions inside. Default: all of them."),
    ] = None,
    layers: shared.LayersOption = None,
    alphas: shared.AlphasOption = None,
    fewest: shared.FewestOption = None,
    device: shared.DeviceOption = None,
    dtype: shared.DtypeOption = None,
    revision: Annotated[
        str | None, typer.Option(help="Revision of the weights on the hub. Default: the preset's, or the newest.")
    ] = None,
    weights_bcs: Annotated[
        str,
        typer.Option(
            metavar="B,C,S", help="Weights of the layers B, C and S; the score has another name with others than these."
        ),
    ] = ".5,.3,.2",
    plan: Annotated[
        bool, typer.Option("--plan", help="Print how many questions would be asked and what is measured, and end.")
    ] = False,
    gpus: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="With --plan: the mechanism on a machine with so many GPUs.")
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(help="Name of the folder of all parts, such as mine, or a path. Default: functional-<model>."),
    ] = None,
    concurrency: shared.ConcurrencyOption = None,
    again: shared.AgainOption = None,
    accept_change: shared.AcceptChangeOption = False,
    setup: shared.SetupOption = False,
    report: Annotated[bool, typer.Option(help="Write report.html into the folder at the end.")] = True,
    opened: shared.OpenOption = False,
    whole: shared.AllOption = False,
    quiet: shared.QuietOption = False,
) -> int:
    """Measure behaviour, stability and, where weights are available, mechanism of a model, and compute its score.

    Questions on generated worlds are asked with variants, a perspective-taking map is measured inside the model, and
    one report has it all. Each part is a run of its own in one folder; if interrupted, repeat the command: it resumes
    where it stopped. The exit code is 1 where a request failed, where more than one in ten answers could not be read,
    or where the mechanism was requested and could not be measured.
    """
    from tomserve.causal.settings import alphas_of, layers_of
    from tomserve.workflows.functional import plan_layers

    options = {
        "base_url": base_url, "transport": transport, "where": where, "limit": limit, "concurrency": concurrency,
        "accept_change": accept_change, "benchmarks": benchmark, "items": items, "cases": cases, "fewest": fewest,
        "layers": None if layers is None else layers_of(layers),
        "alphas": None if alphas is None else alphas_of(alphas),
        "device": device, "dtype": dtype, "revision": revision, "run": run,
    }  # fmt: skip
    wanted = plan_layers(model, {name: value for name, value in options.items() if value is not None})
    evaluation = replace(wanted.evaluation, again=tuple(again or ()), setup=setup)
    wanted = replace(wanted, evaluation=evaluation, formula=parse_formula(weights_bcs))
    if gpus is not None and not plan:
        raise ConfigError("--gpus belongs to --plan; which device is used is said by --device")
    if models:
        plans = plan_models(wanted, [*models, *(more or ())], weights or (), one=model)
        if plan:
            return _print_plan(plans, gpus)
        return _measure_several(plans, wanted, report=report, opened=opened, quiet=quiet, whole=whole)
    if more:
        raise ConfigError(f"{more[0]!r} is a surplus word; expected --model {more[0]}, or --models for several")
    if len(weights or ()) > 1:
        raise ConfigError("--weights is given more than once; expected one, or --models for several models")
    wanted = replace(wanted, weights=weights[0] if weights else None)
    if plan:
        return _print_plan({model or "": wanted}, gpus)
    return _measure_one(wanted, report=report, opened=opened, quiet=quiet, whole=whole)


def _print_plan(plans: Mapping[str, FunctionalPlan], gpus: int | None) -> int:
    """Print what each plan would do; returns the exit code."""
    from tomserve.content.text import sanitize
    from tomserve.workflows.functional import estimate_cost

    screen = console()
    for number, (name, plan) in enumerate(plans.items(), 1):
        if len(plans) > 1:
            screen.print(sanitize(f"model {number} of {len(plans)}: {name}"), markup=False, highlight=False)
        for line in estimate_cost(plan, gpus):
            screen.print(sanitize(line), markup=False, highlight=False)
    return 0


def make_runner(screen: Console, *, quiet: bool) -> PartRunner:
    """How parts are done on a command line: each shows its own progress unless `quiet`, and hears Ctrl-C."""
    from tomserve.causal.experiment import measure
    from tomserve.cli.output import warn
    from tomserve.content.text import sanitize
    from tomserve.reporting.progress import MeasureScreen, RunScreen
    from tomserve.runs import evaluation
    from tomserve.workflows.functional import PartRunner

    def ask(options: EvalOptions, servers: Servers) -> EvalResult:
        return evaluation.evaluate(
            options, RunScreen(screen, quiet=quiet), interrupts.ask_with_signals, servers=servers
        )

    def look(settings: Settings, folder: Path, on: Hardware) -> ExperimentResult:
        return measure(settings, folder, MeasureScreen(screen, quiet=quiet), on)

    def part(text: str) -> None:
        if not quiet:
            screen.print(sanitize(text), markup=False, highlight=False)

    return PartRunner(ask, look, part, warn)


def _measure_one(plan: FunctionalPlan, *, report: bool, opened: bool, quiet: bool, whole: bool) -> int:
    """Do all parts of one model and print what its report says in short; returns the exit code."""
    from tomserve.cli.output import show_result, tell_report, tell_unread, warn_gaps
    from tomserve.runs.scores import scores_of
    from tomserve.workflows.functional import measure_layers

    screen = console()
    told = measure_layers(plan, make_runner(screen, quiet=quiet), report=report)
    lacking = [gap for part in told.answers for gap in warn_gaps(part.folder, scores_of(part.folder))]
    show_result(told.analysis, screen, whole=whole)
    for folder in told.runs:
        screen.print(f"run: {folder}", soft_wrap=True, markup=False)
    if told.report is not None:
        tell_report(told.report, screen, opened=opened)
    return max(exit_code(told, screen), tell_unread(lacking))


def _measure_several(
    plans: Mapping[str, FunctionalPlan], plan: FunctionalPlan, *, report: bool, opened: bool, quiet: bool, whole: bool
) -> int:
    """Do all parts of all models, and print and write the leaderboard; returns the exit code."""
    from rich.console import Console as Screen

    from tomserve.content.files import one_line
    from tomserve.runs.runfolder import run_path
    from tomserve.workflows.leaderboard import (
        PAGE,
        make_leaderboard,
        measure_models,
        show_leaderboard,
        write_leaderboard,
    )

    screen = console()
    if not screen.is_terminal:
        screen = Screen(width=100, highlight=False)  # no wider than a reader's: a leaderboard is sentences, too
    queue = measure_models(plans, make_runner(screen, quiet=quiet), report=report)
    folder = run_path(next(iter(plans.values())).run or "").parent
    code = 0
    if queue.done:
        board = make_leaderboard(queue, plan.formula, folder)
        code = int(bool(board.unread))
        show_leaderboard(board, screen, whole=whole)
        page = write_leaderboard(board, folder)[-1]
        for told in queue.done:
            place = told.report or told.folder
            screen.print(f"{one_line(told.model)}: {place}", soft_wrap=True, markup=False)
            code = max(code, exit_code(told, screen))
        screen.print(f"leaderboard: {page}", soft_wrap=True, markup=False)
        if opened:
            typer.launch(str(page.resolve()))
    else:
        before = f"; {folder / PAGE} is left as it was" if (folder / PAGE).exists() else ""
        screen.print(f"no leaderboard, as no model could be measured{before}", soft_wrap=True, markup=False)
    if queue.failed:
        screen.print(f"not measured: {', '.join(map(one_line, queue.failed))}", soft_wrap=True, markup=False)
    return 1 if queue.failed else code


def exit_code(told: FunctionalResult, screen: Console) -> int:
    """The exit code of what was done: 1 where requests failed, or a measurement did. Says which failed."""
    from tomserve.cli.output import tell_failures
    from tomserve.status import REFUSAL

    failed = told.failed is not None
    for one in told.answers:
        tell_failures(one.failures, screen, f" in {one.folder.name}")
        failed = failed or bool(set(one.failures) - {REFUSAL})
    return int(failed)
