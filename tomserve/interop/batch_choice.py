"""Which evaluation a batch file belongs to: the options that make its requests, and the model, without a server.

>>> options, chosen = wanted(EvalOptions("perturbed", model="gpt-4o-mini"))
>>> chosen.model, chosen.endpoints
('gpt-4o-mini', [])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tomserve import benchmarks
from tomserve.distributed.shards import FILE, Shards
from tomserve.distributed.worker import Connection, part_options
from tomserve.errors import ConfigError
from tomserve.interop.batch_record import Exports
from tomserve.runs import runfolder
from tomserve.runs.planning import EvalOptions, load_strategy_folders
from tomserve.serving import checkpoint, endpoint
from tomserve.serving.endpoint import REFERENCE, Target
from tomserve.serving.presets import Preset


def part_of(folder: Path) -> int | None:
    """The number of the part that a folder is; None where it is no part of an evaluation that was divided."""
    is_part = folder.name.isdecimal() and (folder.resolve().parent / FILE).exists()
    return int(folder.name) if is_part else None


def exports_of(
    folder: Path, benchmark: str | None = None, strategies: Sequence[str] = ()
) -> list[tuple[EvalOptions, Target]]:
    """What was exported of a run, or what a part is to ask: the options, and the model.

    benchmark, strategies: the user's own file and folders, as the record holds their names alone. Raises ConfigError
    where the record is broken, and where it does not name these strategies.
    """
    if benchmark is not None:
        benchmarks.get(benchmark)  # from now on known by its name
    if (number := part_of(folder)) is None:
        exports = Exports.read(folder).exports
        load_strategy_folders([name for one in exports for name in one.strategies], strategies)
        named = [load_strategy_folders(one.strategies, strategies, some=True) for one in exports]
        found = [(one.options(folder), one.model.target()) for one in exports]
        return [(replace(options, strategies=own), to) for (options, to), own in zip(found, named, strict=True)]
    shards = Shards.read(folder.parent)
    options = part_options(folder.parent, shards, number, Connection(strategies=tuple(strategies)))
    options = replace(options, noise_check=None)
    preset = None if shards.preset is None else Preset.load(shards.preset)
    return [(options, Target(shards.model, shards.revision, preset))]


def wanted(options: EvalOptions) -> tuple[EvalOptions, Target]:
    """The options of an export, and its model. Raises ConfigError where no model is named."""
    own: dict[str, Any] = {"benchmark": options.benchmark, "strategies": options.strategies}
    paths = all("/" in one for one in options.strategies) and (options.benchmark or ".py").endswith(".py")
    repeated = paths and options == EvalOptions(run=options.run, policy=options.policy, **own)
    before = exports_of(runfolder.run_path(options.run), **own) if repeated and options.run is not None else []
    if before:
        return before[-1]
    if options.noise_check:
        raise ConfigError(
            "--noise-check compares numbers of requests in flight, which a batch queue chooses; leave it out, or ask a "
            "server by `tomserve eval`"
        )
    if options.base_urls:
        return options, endpoint.choose_target(options.base_urls, options.model, options.revision)
    if options.model is None:
        raise ConfigError("name the model by --model, as the batch queue knows it, or a preset; or give --base-url")
    if options.model == REFERENCE:
        return options, Target(REFERENCE, checkpoint.reference_revision(), Preset.load(REFERENCE))
    preset = Preset.lookup(options.model)
    if preset is None:
        return options, Target(options.model, options.revision, None)
    return options, Target(preset.served_name, options.revision or preset.revision, preset)
