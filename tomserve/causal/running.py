"""A whole measurement: cases, states, folds, moves, probes, and the run folder that keeps it.

    result = measure(Settings(model="reference", items="worlds"))

Interrupted at any moment, the same call goes on after the last batch of states, or the last part of the moves.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from tomserve.causal import moving
from tomserve.causal.asked import Asked, eligible
from tomserve.causal.asking import answered
from tomserve.causal.backend import Backend, Readings
from tomserve.causal.estimate import Machine
from tomserve.causal.finding import Found, On, Subject, estimated, find, load, machine
from tomserve.causal.folds import folds as drawn_folds
from tomserve.causal.probing import probed
from tomserve.causal.settings import ALPHAS, FEWEST, FOLDS, STRATEGY, Settings
from tomserve.causal.states import States
from tomserve.causal.table import SCHEMA
from tomserve.content import files
from tomserve.content.paths import run_name, runs_root
from tomserve.errors import ConfigError, MachineError
from tomserve.runs.measurement import MeasuredRun
from tomserve.runs.progress import MeasureListener, SilentMeasureListener
from tomserve.runs.runfolder import default_name, run_path
from tomserve.serving.install import installed_version as version

STUDY = "causal"
"""The study that reads the table."""

BATCH = 64
"""So many prompts are run before their states are kept."""


NOTED = ("devices", "hardware", "dtype", "attention", "reruns")
"""What the manifest notes of a session besides, as the backend describes itself: the numbers may depend on it."""


@dataclass(frozen=True)
class Measured:
    """A finished measurement. folder: of its run. measured: whether anything was left to do."""

    folder: Path
    measured: bool


def run_states(asked: Asked, states: States, backend: Backend, listener: MeasureListener) -> None:
    """Run every prompt whose states are not there yet.

    Raises MachineError for states that are not finite, as a model has whose numbers are too large for its dtype.
    """
    missing = states.missing
    listener.phase("states", states.prompts)
    listener.advance(states.prompts - len(missing))
    order = sorted(missing.tolist(), key=lambda place: len(asked.prompts[place].tokens))  # little padding in a batch
    for start in range(0, len(order), BATCH):
        places = order[start : start + BATCH]
        found: Readings = backend.run([asked.prompts[place] for place in places])
        if not np.isfinite(found.states).all():
            layer = int(np.flatnonzero(~np.isfinite(found.states).all(axis=(0, 2)))[0]) + 1
            raise MachineError(
                f"the model's states after layer {layer} are not finite, so that they overflow its dtype or its "
                "weights are broken; measure with --dtype float32, or bfloat16 where that does not fit"
            )
        states.keep(np.array(places, np.int64), found)
        listener.advance(len(places))
    listener.done()


def check_eligible(asked: Asked, states: States, settings: Settings) -> int:
    """How many cases are eligible. Raises ConfigError where they are fewer than the settings want."""
    count = sum(eligible(asked, states.answers))
    if count < settings.fewest:
        raise ConfigError(
            f"{count} of {len(asked.cases)} false-belief items are eligible (answered by the false-belief choice in "
            f"both orders, the likeliest token being a choice); {settings.fewest} are needed. Use more cases, another "
            "strategy that this model answers, or --fewest N if wide intervals are wanted"
        )
    return count


def measured(
    found: Found, subject: Subject, settings: Settings, run: MeasuredRun, listener: MeasureListener, on: Machine
) -> None:
    """Measure everything and finish the run. Raises ConfigError where too few cases are eligible."""
    asked, backend = subject.asked, subject.backend
    layers = settings.chosen(backend.layers)
    states = States(
        run.work / "states",
        prompts=len(asked.prompts),
        layers=backend.layers,
        width=backend.width,
        choices=asked.choices,
        digest=asked.digest,
    )
    run_states(asked, states, backend, listener)
    count = check_eligible(asked, states, settings)
    listener.note(f"{count} of {len(asked.cases)} false-belief questions are eligible")
    folds = drawn_folds(asked.clusters, settings.folds, settings.seed, [case.family for case in asked.cases])
    moves = moving.Moves(asked, states, folds, settings.alphas, settings.seed, on.for_steps)
    listener.phase("re-runs", moving.expected(moves, len(layers)))
    parts = list(moving.move(moves, backend, layers, run.work / "moves" / asked.digest[-12:], listener.advance))
    listener.done()
    listener.phase("probes", len(layers))
    read = probed(asked, states, folds, layers, settings.seed, listener.advance)
    listener.done()
    _finish(run, found, settings.strategy, pl.concat([answered(asked, states.answers), read]), parts)


def _finish(run: MeasuredRun, found: Found, asked_by: str, first: pl.DataFrame, parts: Sequence[Path]) -> None:
    """Put the table together, without holding all of it in memory, and keep it."""
    named = {"run": run_name(run.path), "model": found.checkpoint.name, "benchmark": found.benchmark}
    named["asked_by"] = asked_by

    def whole(frame: pl.LazyFrame) -> pl.LazyFrame:
        return frame.with_columns(pl.lit(value).cast(SCHEMA[name]).alias(name) for name, value in named.items())

    path = run.work_file("table.parquet")
    with files.replace_file(path) as file:
        frames = [first.lazy(), *(pl.scan_parquet(part, glob=False) for part in parts)]
        pl.concat([whole(frame) for frame in frames]).sink_parquet(file.name)
    run.finish(path)
    run.clear_work()


def measure(
    settings: Settings, place: str | Path | None = None, listener: MeasureListener | None = None, on: On | None = None
) -> Measured:
    """Measure what the settings say, or go on with it, and return the finished run.

    place: the name or folder of the run; None for ``causal-<benchmark>-<model>``. listener: is told what happens. on:
    the device and the like, which may differ from session to session.

    Raises ConfigError for what cannot be measured (see tomserve.causal.finding.find, and where too few cases are
    eligible), RunMismatchError where the folder holds another measurement, MachineError where the model cannot be
    loaded.
    """
    on, listener = on or On(), listener or SilentMeasureListener()
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError(
            "several processes of torchrun would write into one run; start one without torchrun, with --device auto to "
            "spread the model over all GPUs"
        )
    found = find(settings, on)
    settings.chosen(found.checkpoint.layers)
    for reason, count in found.left_out.most_common():
        listener.note(f"{count:,} false-belief question{'s make' if count > 1 else ' makes'} no case: {reason}")
    folder = run_path(str(place)) if place is not None else runs_root() / default_run(found)
    with MeasuredRun.open(
        folder,
        study=STUDY,
        model=found.checkpoint.name,
        revision=found.checkpoint.revision or found.checkpoint.digest,
        benchmark=found.benchmark,
        benchmark_digest=found.digest,
        settings=settings.recorded(),
        command=command_of(settings),
    ) as run:
        if run.complete:
            return Measured(folder, False)
        run.write_items(found.items)
        listener.note(f"loading {found.checkpoint.name} from {found.checkpoint.place}")
        subject = load(found, settings, on)
        run.log(f"model: {subject.about}")
        run.measured_on({**environment(on), **{name: subject.about[name] for name in NOTED}})
        for reason, count in subject.asked.left_out.most_common():
            listener.note(f"{count:,} case{'s are' if count > 1 else ' is'} left out: {reason}")
        here = machine(on)
        for line in estimated(found, settings, subject.asked.mean_tokens, here).lines():
            listener.note(line)
        measured(found, subject, settings, run, listener, here)
    return Measured(folder, True)


def default_run(found: Found) -> str:
    """The name of the run where none is given."""
    return default_name(f"{STUDY}-{found.benchmark}", found.checkpoint.name)


def environment(on: On) -> dict[str, object]:
    """What the manifest notes of a session beside what the backend says: the versions of the libraries, and the
    batch."""
    versions = {name: version(name) for name in ("torch", "transformers", "numpy", "polars")}
    return {**versions, "batch": on.batch or "as many as fit"}


def command_of(settings: Settings) -> str:
    """The command that makes such a run, for whoever wants to make it again."""
    parts = ["tomserve", "causal", settings.model, "--items", settings.items]
    if settings.path is not None:
        parts += ["--path", str(settings.path)]
    for condition in settings.where:
        parts += ["--where", condition]
    if settings.limit is not None:
        parts += ["--limit", str(settings.limit)]
    for name, value, usual in (
        ("strategy", settings.strategy, STRATEGY),
        ("layers", settings.layers and ",".join(map(str, settings.layers)), None),
        ("alphas", ",".join(f"{alpha:g}" for alpha in settings.alphas), ",".join(f"{alpha:g}" for alpha in ALPHAS)),
        ("folds", str(settings.folds), str(FOLDS)),
        ("seed", str(settings.seed), "0"),
        ("fewest", str(settings.fewest), str(FEWEST)),
    ):
        if value != usual:
            parts += [f"--{name}", str(value)]
    return " ".join(parts)
