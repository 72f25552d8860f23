"""The commands about clusters: `tomserve submit slurm`, `tomserve submit ray`, `tomserve status` and `tomserve
cancel`.
"""

from __future__ import annotations

import functools
import inspect
import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tomserve.cli import evaluate, shard
from tomserve.cli.options import console, group, lasting, with_content
from tomserve.content.paths import PARTS_ENDING
from tomserve.content.python_file import module_command
from tomserve.content.text import say
from tomserve.errors import ConfigError, ConflictError, MachineError
from tomserve.serving.keys import HEADERS

if TYPE_CHECKING:
    from tomserve.distributed.cluster import Cluster, Job, Task
    from tomserve.distributed.ray import TaskDemand


NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the run that was divided, or the folder of its parts.")
]

EVERY = 2.0
"""Seconds between two looks at a job that is waited for."""
HANDED = ("TOMSERVE_CONTENT", "TOMSERVE_DATA", "TOMSERVE_API_KEY_FILE")
"""Variables that tasks are given as they are set here: all of them are paths, and none is a secret."""


def ray(
    *,
    name: NameArgument,
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
        float | None, typer.Option(min=0, metavar="N", help="Cores that a part takes. Default: 4 a GPU, else 1.")
    ] = None,
    max_restarts: Annotated[
        int, typer.Option(min=0, max=1000, help="How often a part is begun again that was not completed.")
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
    from tomserve.distributed import ray as rays
    from tomserve.distributed.shards import find_folder

    rays.require_ray()
    rays.check_address(address)
    folder = find_folder(name)
    asked_for = evaluate.options_on_line() & dividing.keys()
    divide = bool(asked_for - {"base_url", "quiet"})
    if divide and dividing["parts"] is None and dividing["part_tokens"] is None:
        raise ConfigError("say by --parts or --part-tokens into how many parts the evaluation is divided")
    if to is not None:
        from tomserve.distributed import storage

        storage.open_store(to)  # before anything is handed over
    parts, model = parts_left(name, folder, 1, dividing, divide=divide)
    served, words = bool(dividing["base_url"]), options_for_work(dividing)
    demand = make_demand(None if served else model, gpus, gpus_per_part, cpus_per_part, max_restarts, words)
    if to is not None:
        demand = replace(demand, words=(*demand.words, "--to", to))
    if not parts:
        say(f"all parts of {folder} are complete; `tomserve merge {name}` makes one run of them")
        return 0
    check_no_job(folder, parts)
    _warn(address, demand)
    job = rays.submit(folder, folder.name.removesuffix(PARTS_ENDING), list(parts), demand, address)
    say(f"job {job.id}: {len(parts)} parts; `tomserve status {name}` tells how far they are")
    return _wait_for_parts(folder, job) if wait else 0


def make_demand(
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
    env += [(HEADERS, os.environ[HEADERS])] if os.environ.get(HEADERS) else []
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
    if os.environ.get(HEADERS):
        say(
            "warning: the variables that --header names are not handed on, as Ray would show them; set them where the "
            "nodes are started",
            error=True,
        )
    if os.environ.get("TOMSERVE_API_KEY"):
        say(
            "warning: TOMSERVE_API_KEY is not handed on, as Ray would show it; put the key into a file that all nodes "
            "see, and name that by TOMSERVE_API_KEY_FILE, or set the variable where the nodes are started",
            error=True,
        )


def _wait_for_parts(folder: Path, job: Job) -> int:
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


app = group("Hand an evaluation that is divided into parts to a cluster, which asks them on many machines.")

TEMPLATE = "launch/slurm/array.sh.jinja"
"""The template of the batch script, where the user names no other."""


def _dividing(command: Callable[..., int]) -> Callable[..., int]:
    """The command with the options of `tomserve shard` besides its own; it is given them as `dividing`."""
    own = inspect.signature(command, eval_str=True).parameters
    added = inspect.signature(shard.shard, eval_str=True).parameters
    both = {name: one for name, one in added.items() if name not in own and name != "run"}

    @functools.wraps(command)
    def wrapped(**options: Any) -> int:
        return command(dividing={name: options.pop(name) for name in both}, **options)

    kept = [one for name, one in own.items() if name != "dividing"]
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*kept, *both.values())]
    wrapped.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    return wrapped


def slurm(
    *,
    name: NameArgument,
    nodes: Annotated[int, typer.Option(min=1, max=10_000, help="How many parts are asked at once at most.")] = 1,
    gpus: Annotated[
        str | None,
        typer.Option(
            metavar="GPUS",
            help="GPUs of one node, such as 4xA100-80GB, or of several that hold one model together: 2x8xA100-40GB. "
            "Each task asks for as many of them as the model needs.",
        ),
    ] = None,
    cpus: Annotated[
        int | None,
        typer.Option(min=1, max=4096, help="Cores of each task. Default: 4 a GPU, without GPUs 2."),
    ] = None,
    mem: Annotated[str | None, typer.Option(metavar="SIZE", help="Memory of each node of a task, such as 64G.")] = None,
    time: Annotated[
        str | None,
        typer.Option(metavar="LIMIT", help="Longest time of a task before it starts again, such as 8:00:00."),
    ] = None,
    partition: Annotated[str | None, typer.Option(metavar="NAME", help="Partition of the cluster.")] = None,
    account: Annotated[str | None, typer.Option(metavar="NAME", help="Account that is charged.")] = None,
    qos: Annotated[str | None, typer.Option(metavar="NAME", help="Quality of service.")] = None,
    exclude: Annotated[
        str | None, typer.Option(metavar="NODES", help="Nodes on which no task is to run, such as gpu[07-09].")
    ] = None,
    grace: Annotated[
        int,
        typer.Option(
            min=2, max=65535, metavar="SECONDS", help="How long before the limit of time a task stops to start again."
        ),
    ] = 120,
    tries: Annotated[
        int, typer.Option(min=1, max=1000, help="After how many starts without an answer a task gives up.")
    ] = 3,
    sbatch: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="A further word for sbatch, such as --constraint=a100; repeatable."),
    ] = None,
    template: Annotated[
        Path | None, typer.Option(metavar="FILE", help=f"Template of the batch script. Default: {TEMPLATE}.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the script and the command; hand over nothing.")] = (
        False
    ),
    dividing: dict[str, Any],
) -> int:
    """Hand the parts of an evaluation to Slurm as a job array, of which each task asks one part.

    A task starts a server of the model on its GPUs, asks, and stops the server. It is started again after its limit of
    time, after preemption, and after its node has died. With options of `tomserve shard`, the evaluation is divided
    first, into as many parts as --nodes unless --parts says otherwise. Repeat the command to ask what was left over.
    """
    from tomserve import content
    from tomserve.distributed import slurm as cluster
    from tomserve.distributed.cluster import size_task
    from tomserve.distributed.shards import FILE, find_folder
    from tomserve.distributed.slurm import render_script
    from tomserve.status import FINAL

    folder = find_folder(name)
    asked_for = evaluate.options_on_line() & dividing.keys()
    if dry_run and not (folder / FILE).exists():
        parts, model = list(range(dividing["parts"] or nodes)), dividing["model"]
    else:
        parts, model = parts_left(name, folder, nodes, dividing, divide=bool(asked_for - {"base_url", "quiet"}))
    urls: list[str] = dividing["base_url"] or []
    need = size_task(model, gpus, served=bool(urls) or model is None)
    wanted = cluster.ArrayOptions(
        nodes=nodes, gpus=need.gpus, nodes_each=need.nodes, cpus=cpus or (4 * need.gpus or 2), mem=mem, time=time,
        partition=partition, account=account, qos=qos, exclude=exclude, grace=grace, words=tuple(sbatch or ()),
    )  # fmt: skip
    script = render_script(
        template.expanduser() if template is not None else content.require(TEMPLATE),
        folder=folder.resolve(), tomserve=module_command("tomserve"), tries=tries, patience=grace // 2,
        ranks=need.ranks, options=options_for_work(dividing),
        final=f'"status":"({"|".join(sorted(FINAL))})"',
    )  # fmt: skip
    if dry_run:
        say(f"{script}\n{shlex.join(cluster.sbatch_command(folder, name, parts, wanted))}")
        return 0
    if not parts:
        say(f"all parts of {folder} are complete; `tomserve merge {name}` makes one run of them")
        return 0
    check_no_job(folder, parts)
    job = cluster.submit(folder, name, parts, wanted, script)
    say(f"job {job.id}: {len(parts)} parts, at most {nodes} at once; `tomserve status {name}` tells how far they are")
    return 0


def options_for_work(dividing: dict[str, Any]) -> list[str]:
    """The options of `tomserve work` in a task: what the user gives here that no record of parts may say, which are
    addresses, and the paths of a benchmark and of strategies."""
    given = [("--base-url", url) for url in dividing["base_url"] or ()]
    if (benchmark := dividing["benchmark"]) is not None and benchmark.endswith(".py"):
        given.append(("--benchmark", str(Path(benchmark).expanduser().resolve())))
    own = (one for one in dividing["strategy"] or () if "/" in one)
    given += [("--strategy", str(Path(one).expanduser().resolve())) for one in own]
    return [word for option in given for word in option]


def parts_left(
    name: str, folder: Path, nodes: int, dividing: dict[str, Any], *, divide: bool
) -> tuple[list[int], str | None]:
    """The numbers of the parts that are not complete, and the model that is to be started for them, None for none.

    divide: whether the evaluation is to be divided first, as far as that is not done. Raises ConfigError where tasks
    would refuse to send a key to addresses that only the record names.
    """
    from tomserve.distributed.shards import FILE, Shards, part_states
    from tomserve.engine.addresses import redact_url
    from tomserve.serving import keys

    there = (folder / FILE).exists()
    if divide:
        if dividing["parts"] is None and dividing["part_tokens"] is None:
            dividing["parts"] = len(Shards.read(folder).parts) if there else nodes
        shard.shard(run=name, **dividing)
    shards = Shards.read(folder)
    options = shards.options
    if options.base_url and not dividing["base_url"] and keys.any_secret() is not None:
        raise ConfigError(
            f"tasks would send the API key to {', '.join(map(redact_url, options.base_url))}, which {FILE} names; say "
            "so by --base-url URL"
        )
    left = [one.number for one in part_states(folder) if one.state != "complete"]
    return left, None if options.base_url else options.model


def _cluster_of(job: Job, *, believe: bool = False) -> Cluster:
    """The cluster that a job was handed to."""
    from tomserve.distributed.cluster import FILE
    from tomserve.distributed.slurm import Slurm

    if not (job.ours or believe):
        raise MachineError(
            f"{FILE} was written by somebody else, or on a machine that does not share your home folder; if you trust "
            "the folder, `tomserve status` and `tomserve cancel` go by it with --believe-job"
        )
    if job.cluster == "slurm":
        return Slurm()
    from tomserve.distributed.ray import Ray

    return Ray()


def check_no_job(folder: Path, parts: Sequence[int]) -> None:
    """Raise ConflictError where an earlier job still asks one of these parts."""
    from tomserve.distributed.cluster import Job

    if (job := Job.read(folder)) is None:
        return
    try:
        busy = _cluster_of(job).alive(job) & set(parts)
    except MachineError as error:
        say(f"warning: whether job {job.id} still asks these parts cannot be told ({error})", error=True)
        return
    if busy:
        raise ConflictError(
            f"{folder}: job {job.id} still asks {len(busy)} of these parts; wait for it, or end it by `tomserve cancel "
            f"{folder.name.removesuffix(PARTS_ENDING)}`"
        )


BelieveOption = Annotated[
    bool, typer.Option("--believe-job", help="Go by job.json in the folder, although somebody else has written it.")
]


def status(name: NameArgument, believe_job: BelieveOption = False) -> int:
    """Show how far each part of a divided evaluation is, and what the cluster says of it.

    Works on every machine that sees the folder, also without a cluster. The exit code is 0 where all parts are
    complete, 1 where requests of a part failed, and else 3: there is something left to ask.
    """
    from tomserve.distributed.cluster import Job
    from tomserve.distributed.shards import find_folder, part_states
    from tomserve.reporting.shards import show_status

    folder = find_folder(name)
    found = part_states(folder)
    job = Job.read(folder)
    tasks: Mapping[int, Task] = {}
    if job is not None:
        try:
            tasks = _cluster_of(job, believe=believe_job).states(job)
        except MachineError as error:
            say(f"warning: the cluster cannot be asked ({error})", error=True)
    show_status(folder, found, job, tasks, console())
    if all(one.state == "complete" for one in found):
        return 0
    return 1 if any(one.state == "failures" for one in found) else 3


def cancel(name: NameArgument, believe_job: BelieveOption = False) -> int:
    """End the job that asks the parts of a divided evaluation.

    Parts keep what they have: `tomserve submit`, or `tomserve work`, goes on with them.
    """
    from tomserve.distributed.cluster import Job
    from tomserve.distributed.shards import Shards, find_folder

    folder = find_folder(name)
    Shards.read(folder)
    if (job := Job.read(folder)) is None:
        raise ConfigError(f"{folder}: nothing was submitted; `tomserve submit` hands its parts to a cluster")
    cluster = _cluster_of(job, believe=believe_job)
    left = cluster.alive(job)
    if left:
        cluster.cancel(job)
    say(f"job {job.id}: {len(left)} of {len(job.parts)} parts ended" if left else f"job {job.id} has ended already")
    return 0


app.command(name="slurm")(with_content(lasting(_dividing(slurm))))
app.command(name="ray")(with_content(lasting(_dividing(ray))))
