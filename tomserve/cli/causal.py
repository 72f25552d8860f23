"""The command `causal`: is there a perspective-taking map inside of a model, and does it cause the answer?"""

from __future__ import annotations

from typing import Annotated

import typer

from tomserve.cli.options import (
    AllOption,
    AlphasOption,
    DeviceOption,
    DtypeOption,
    FewestOption,
    LayersOption,
    OpenOption,
    PathOption,
    QuietOption,
    ReportOption,
    console,
)
from tomserve.errors import ConfigError


def causal(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="The model: a preset, ORG/NAME on the hub, or ./FOLDER with its weights. If left out: the small model "
            "that comes with tomserve.",
        ),
    ] = None,
    items: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|NAME",
            help="A benchmark that tells its false-belief stories from the protagonist's place, too, or a JSONL file "
            "of items with such versions. If left out: tomserve's generated stories.",
        ),
    ] = None,
    path: PathOption = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="Only false-belief questions with this factor=value; repeat it for several conditions, or say all for "
            "every question. If left out: those that the benchmark measures by default."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="At most this many false-belief questions: whole stories of them.")
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(help="Strategy whose prompt asks; its reply has to begin with the answer. If left out: vanilla."),
    ] = None,
    layers: LayersOption = None,
    alphas: AlphasOption = None,
    folds: Annotated[
        int | None,
        typer.Option(min=2, help="Into how many parts the stories are divided for holding out. If left out: 5."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of the parts and of all that is random.")] = 0,
    fewest: FewestOption = None,
    revision: Annotated[str | None, typer.Option(help="Revision of a model on the hub.")] = None,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Prompts that run at once. If left out: as many as the memory holds.")
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            help="Name of the run, such as mine, or a path such as ./mine. If left out: causal-<items>-<model>."
        ),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what it takes (time, memory, disk) and end; no weights are read.")
    ] = False,
    gpus: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="With --plan: for a machine with so many GPUs.")
    ] = None,
    report: ReportOption = True,
    opened: OpenOption = False,
    whole: AllOption = False,
    quiet: QuietOption = False,
) -> int:
    """Look for a perspective-taking map inside a model, and test whether it causes the answer.

    The residual stream of false-belief questions is moved by a linear map that was fitted on other stories, and the
    model answers again; every control is measured beside it. Interrupted, the same command goes on where it was. Needs
    torch and transformers: pip install 'tomserve[causal]'.
    """
    from tomserve.causal.experiment import Hardware, measure, plan_experiment
    from tomserve.causal.settings import (
        FEWEST,
        FOLDS,
        ITEMS,
        REFERENCE,
        STRATEGY,
        Settings,
        alphas_of,
        layers_of,
    )
    from tomserve.cli.output import show_measurement
    from tomserve.reporting.progress import MeasureScreen
    from tomserve.reporting.table_layout import print_figures

    settings = Settings(
        model=model or REFERENCE,
        items=items or ITEMS,
        path=path,
        where=tuple(where or ()),
        limit=limit,
        strategy=strategy or STRATEGY,
        layers=None if layers is None else layers_of(layers),
        alphas=None if alphas is None else alphas_of(alphas),
        folds=folds or FOLDS,
        seed=seed,
        fewest=fewest or FEWEST,
    )
    on = Hardware(device=device, dtype=dtype, batch=batch, revision=revision)
    screen = console()
    if plan:
        print_figures(plan_experiment(settings, on, gpus), screen)
        return 0
    if gpus is not None:
        raise ConfigError("--gpus belongs to --plan; which device is used is said by --device")
    result = measure(settings, run, MeasureScreen(screen, quiet=quiet), on)
    if not result.measured:
        screen.print("nothing left to measure", highlight=False)
    show_measurement(result.folder, screen, report=report, opened=opened, whole=whole)
    return 0
