"""The option `--config FILE.yaml` of `tomserve eval`: an experiment in a file, over which the command line wins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tomserve.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection

    from tomserve.runs import planning
    from tomserve.runs.evaluation import EvalResult
    from tomserve.workflows.evaluate import Experiment


_lines: list[typer.Context] = []
"""The command line that names a file, once it has been read."""


def remember(context: typer.Context, config: Path | None) -> Path | None:
    """Keep the command line that names a file, so that `given` can tell what else stands on it."""
    _lines[:] = [context]
    return config


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        callback=remember,
        help="YAML file of an experiment, whose fields are called as these options; the command line wins over it.",
    ),
]
"""The option by which a command takes an experiment from a file."""


def given() -> frozenset[str]:
    """The parameters that stand on the command line, by their names in the program; what is only a default does not."""
    sources = {name: line.get_parameter_source(name) for line in _lines for name in line.params}
    return frozenset(name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE")


def read(path: Path) -> Experiment:
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


def merged(experiment: Experiment, options: planning.EvalOptions, named: Collection[str]) -> planning.EvalOptions:
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


def probed(result: EvalResult, options: planning.EvalOptions, *, report: bool, quiet: bool) -> int:
    """Edit the chains of the run that was asked just now and ask again; returns the exit code. Raises TomserveError."""
    from tomserve.cli.faithfulness import measured
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
    return measured(Settings(run=result.folder), how, None, report=report, opened=False, quiet=quiet)
