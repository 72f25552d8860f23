"""Which evaluation a batch file belongs to: the options that make its requests, and the model, without a server.

>>> options, chosen = wanted(EvalOptions("perturbed", model="gpt-4o-mini"))
>>> chosen.model, chosen.endpoints
('gpt-4o-mini', [])
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tomserve.content.places import lies_in
from tomserve.errors import ConfigError, RunMismatchError
from tomserve.interop.batch_record import FILE as RECORD
from tomserve.interop.batch_record import Exports
from tomserve.runs import runfolder
from tomserve.runs.planning import EvalOptions
from tomserve.serving import reference, target
from tomserve.serving.presets import Preset
from tomserve.serving.target import REFERENCE, Target
from tomserve.shards.record import FILE, Shards
from tomserve.shards.working import Connection, options_of


def part_of(folder: Path) -> int | None:
    """The number of the part that a folder is; None where it is no part of an evaluation that was divided."""
    is_part = folder.name.isdecimal() and (folder.resolve().parent / FILE).exists()
    return int(folder.name) if is_part else None


def exports_of(folder: Path) -> list[tuple[EvalOptions, Target]]:
    """What was exported of a run, or what a part is to ask: the options, and the model.

    Raises ConfigError where the record is broken, and where it names a program in the run's own folder: that may have
    come from somebody else, and would be run.
    """
    if (number := part_of(folder)) is None:
        exports = Exports.read(folder).exports
        for one in exports:
            for name in (one.benchmark, *one.strategies):
                if lies_in(folder, name) is not None:
                    raise RunMismatchError(
                        f"{folder / RECORD}: {name} lies in the folder of the run; programs and prompts are taken from "
                        "outside only, so export again with a strategy or benchmark that lies elsewhere"
                    )
        return [(one.options(folder), one.model.target()) for one in exports]
    shards = Shards.read(folder.parent)
    options = replace(options_of(folder.parent, shards, number, Connection()), noise_check=None)
    preset = None if shards.preset is None else Preset.load(shards.preset)
    return [(options, Target(shards.model, shards.revision, preset))]


def wanted(options: EvalOptions) -> tuple[EvalOptions, Target]:
    """The options of an export, and its model. Raises ConfigError where no model is named."""
    named = EvalOptions(run=options.run, policy=options.policy)
    before = exports_of(runfolder.run_path(options.run)) if options == named and options.run is not None else []
    if before:
        return before[-1]
    if options.noise_check:
        raise ConfigError(
            "--noise-check compares numbers of requests in flight, which a batch queue chooses; leave it out, or ask a "
            "server by `tomserve eval`"
        )
    if options.base_urls:
        return options, target.choose(options.base_urls, options.model, options.revision)
    if options.model is None:
        raise ConfigError("name the model by --model, as the batch queue knows it, or a preset; or give --base-url")
    if options.model == REFERENCE:
        return options, Target(REFERENCE, reference.revision(), Preset.load(REFERENCE))
    preset = Preset.lookup(options.model)
    if preset is None:
        return options, Target(options.model, options.revision, None)
    return options, Target(preset.served_name, options.revision or preset.revision, preset)
