"""The command `causal`: is there a perspective-taking map inside of a model, and does it cause the answer?"""

from typing import Annotated

import typer

from tomserve.cli.options import (
    AlphasOption,
    DeviceOption,
    DtypeOption,
    FewestOption,
    LayersOption,
    PathOption,
    Showing,
    console,
    with_groups,
)
from tomserve.errors import ConfigError


@with_groups
def causal(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="The model: a preset, ORG/NAME on the hub, or ./FOLDER with its weights. Default: the small model "
            "that comes with tomserve.",
        ),
    ] = None,
    items: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|NAME",
            help="A benchmark that tells its false-belief stories from the protagonist's place, too, or a JSONL file "
            "of items with such versions. Default: tomserve's generated stories.",
        ),
    ] = None,
    path: PathOption = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="Only false-belief questions with this factor=value; repeatable; all selects every question. Default: "
            "those that the benchmark measures by default."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of false-belief questions, drawn as whole stories.")
    ] = None,
    strategy: Annotated[
        str | None, typer.Option(help="Prompting strategy; its reply has to begin with the answer. Default: vanilla.")
    ] = None,
    layers: LayersOption = None,
    alphas: AlphasOption = None,
    folds: Annotated[
        int | None, typer.Option(min=2, help="Number of cross-validation folds over stories. Default: 5.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Random seed.")] = 0,
    fewest: FewestOption = None,
    true_pairs: Annotated[
        bool,
        typer.Option("--true-pairs", help="Fit a second map on pairs of true beliefs, too, with its own controls."),
    ] = False,
    revision: Annotated[str | None, typer.Option(help="Revision of a model on the hub.")] = None,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Batch size in prompts. Default: as many as fit in memory.")
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(help="Name of the run, such as mine, or a path such as ./mine. Default: causal-<items>-<model>."),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print an estimate of time, memory and disk, and end; no weights are read.")
    ] = False,
    gpus: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="With --plan: for a machine with so many GPUs.")
    ] = None,
    *,
    showing: Showing,
) -> int:
    """Look for a perspective-taking map inside a model, and test whether it causes the answer.

    A linear map fitted on other stories is applied to the residual stream of false-belief questions, and the model
    answers again; controls are measured alike. If interrupted, repeat the command: it resumes where it stopped. Needs
    torch and transformers: pip install 'tomserve[causal]'.
    """
    from tomserve.causal.experiment import Hardware, measure, plan_experiment
    from tomserve.causal.settings import FEWEST, FOLDS, ITEMS, REFERENCE, STRATEGY, Settings, alphas_of, layers_of
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
        true_pairs=true_pairs,
    )
    on = Hardware(device=device, dtype=dtype, batch=batch, revision=revision)
    screen = console()
    if plan:
        print_figures(plan_experiment(settings, on, gpus), screen, whole=showing.whole)
        return 0
    if gpus is not None:
        raise ConfigError("--gpus belongs to --plan; which device is used is said by --device")
    result = measure(settings, run, MeasureScreen(screen, quiet=showing.quiet), on)
    if not result.measured:
        screen.print("nothing left to measure", highlight=False)
    show_measurement(result.folder, screen, showing)
    return 0
