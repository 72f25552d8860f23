"""The command `tomserve submit ray`."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tomserve.cli import configured
from tomserve.cli.options import console
from tomserve.content.paths import PARTS_ENDING
from tomserve.content.text import say
from tomserve.errors import ConfigError

if TYPE_CHECKING:
    from tomserve.distributed.cluster import Job
    from tomserve.distributed.ray import TaskDemand

EVERY = 2.0
"""Seconds between two looks at a job that is waited for."""
HANDED = ("TOMSERVE_CONTENT", "TOMSERVE_DATA", "TOMSERVE_API_KEY_FILE")
"""Variables that tasks are given as they are set here: all of them are paths, and none is a secret."""


def ray(
    *,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the run that was divided, or the folder of its parts.")
    ],
    address: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="The Ray cluster: auto for that of this machine, HOST:6379 from one of its nodes, ray://HOST:10001.",
        ),
    ] = "auto",
    gpus: Annotated[
        str | None,
        typer.Option(
            metavar="GPUS", help="GPUs of one node, such as 4xA100-80GB, of which a part takes what its model needs."
        ),
    ] = None,
    gpus_per_part: Annotated[
        float | None,
        typer.Option(
            min=0, metavar="N", help="GPUs that a part takes; 0.5 lets two parts share one, each with half its memory."
        ),
    ] = None,
    cpus_per_part: Annotated[
        float | None, typer.Option(min=0, metavar="N", help="Cores that a part takes. If left out: 4 a GPU, else 1.")
    ] = None,
    max_restarts: Annotated[
        int,
        typer.Option(min=0, max=1000, metavar="N", help="How often a part is begun again that was not completed."),
    ] = 3,
    to: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Store to copy each part to that is complete, as `tomserve work` does."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--detach", help="Stay until all parts have ended, or come back at once.")
    ] = False,
    dividing: dict[str, Any],
) -> int:
    """Hand the parts of an evaluation to a Ray cluster, of which each task asks one part.

    A task starts a server of the model on the GPUs that Ray gives it, asks, and stops the server. Ray runs it again
    where its node dies. All nodes have to see the folder of the parts. With options of `tomserve shard`, the evaluation
    is divided first. Repeat the command to ask what was left over.
    """
    from tomserve.cli import cluster
    from tomserve.distributed import ray as rays
    from tomserve.distributed.shards import find_folder

    rays.require_ray()
    rays.check_address(address)
    folder = find_folder(name)
    asked_for = configured.given() & dividing.keys()
    divide = bool(asked_for - {"base_url", "quiet"})
    if divide and dividing["parts"] is None and dividing["part_tokens"] is None:
        raise ConfigError("say by --parts or --part-tokens into how many parts the evaluation is divided")
    if to is not None:
        from tomserve.distributed import storage as stores

        stores.open_store(to)  # before anything is handed over
    parts, model = cluster.parts_left(name, folder, 1, dividing, divide=divide)
    served, words = bool(dividing["base_url"]), cluster.options_for_work(dividing)
    demand = demanded(None if served else model, gpus, gpus_per_part, cpus_per_part, max_restarts, words)
    if to is not None:
        demand = replace(demand, words=(*demand.words, "--to", to))
    if not parts:
        say(f"all parts of {folder} are complete; `tomserve merge {name}` makes one run of them")
        return 0
    cluster.check_free(folder, parts)
    _warn(address, demand)
    job = rays.submit(folder, folder.name.removesuffix(PARTS_ENDING), list(parts), demand, address)
    say(f"job {job.id}: {len(parts)} parts; `tomserve status {name}` tells how far they are")
    return _waited(folder, job) if wait else 0


def demanded(
    model: str | None,
    gpus: str | None,
    gpus_per_part: float | None,
    cpus_per_part: float | None,
    restarts: int,
    words: Sequence[str],
) -> TaskDemand:
    """What each task needs. model: that it serves; None where something else does. words: options of
    `tomserve work`. The others are the options.

    Raises ConfigError where a part would take several nodes, or a part of several GPUs and a bit.
    """
    from tomserve.distributed.cluster import size_task
    from tomserve.distributed.ray import TaskDemand

    if gpus_per_part is None:
        need = size_task(model, gpus, served=model is None)
        if need.nodes > 1:
            raise ConfigError(
                f"{model} takes {need.nodes} nodes, and a task of Ray runs on one; start it over several (as `tomserve "
                f"serve {model} --dry-run --backend ray --gpus {gpus}` prints), and give its address by --base-url"
            )
        number = float(need.gpus)
    else:
        number = gpus_per_part
    if number > 1 and number % 1:
        raise ConfigError(f"--gpus-per-part {number:g}: expected a whole number, or less than 1 to share a GPU")
    cpus = cpus_per_part if cpus_per_part is not None else max(1.0, 4 * number)
    env = [(name, os.environ[name]) for name in HANDED if os.environ.get(name)]
    env = [(name, value if value.startswith("/") else str(Path(value).expanduser().resolve())) for name, value in env]
    return TaskDemand(cpus, number, restarts, tuple(words), tuple(env))


def _warn(address: str, demand: TaskDemand) -> None:
    """Say what keeps parts waiting, or keys from them."""
    from tomserve.distributed import ray as rays

    cpus, gpus = rays.largest_node(address)
    if cpus < demand.cpus or gpus < demand.gpus:
        say(
            f"warning: no node of the cluster has {demand.cpus:g} cores and {demand.gpus:g} GPUs now (the largest has "
            f"{cpus:g} and {gpus:g}); the parts wait until one is added",
            error=True,
        )
    if os.environ.get("TOMSERVE_API_KEY"):
        say(
            "warning: TOMSERVE_API_KEY is not handed on, as Ray would show it; put the key into a file that all nodes "
            "see, and name that by TOMSERVE_API_KEY_FILE, or set the variable where the nodes are started",
            error=True,
        )


def _waited(folder: Path, job: Job) -> int:
    """Wait until no part of the job is asked any more, and say how each has ended; returns the exit code."""
    from tomserve.distributed.ray import LEFT, Ray
    from tomserve.distributed.shards import part_states

    screen, said = console(), dict[int, str]()
    while True:
        found = Ray().states(job)
        for number, task in sorted(found.items()):
            if said.get(number) != task.state:
                said[number] = task.state
                where = f" on {task.node}" if task.node else ""
                note = f": {task.note}" if task.note else ""
                screen.print(f"part {number}: {task.state}{where}{note}", markup=False, highlight=False, soft_wrap=True)
        if not any(task.state in LEFT for task in found.values()):
            break
        time.sleep(EVERY)
    ended = part_states(folder)
    complete = sum(one.state == "complete" for one in ended)
    screen.print(f"{complete} of {len(ended)} parts complete", highlight=False)
    if complete == len(ended):
        return 0
    return 1 if any(one.state == "failures" for one in ended) else 3
