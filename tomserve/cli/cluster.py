"""The commands about clusters: `tomserve submit`, `tomserve status` and `tomserve cancel`."""

from __future__ import annotations

import functools
import inspect
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tomserve.cli import configured, ray_cluster, shard
from tomserve.cli.options import ContentOption, console, lasting, with_content
from tomserve.content.text import say
from tomserve.errors import ConfigError, ConflictError, MachineError

if TYPE_CHECKING:
    from tomserve.distributed.cluster import Task

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

TEMPLATE = "launch/slurm/array.sh.jinja"
"""The template of the batch script, where the user names no other."""

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the run that was divided, or the folder of its parts.")
]


@app.callback()
def _group(content: ContentOption = None) -> None:
    """Hand an evaluation that is divided into parts to a cluster, which asks them on many machines."""
    del content


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
    nodes: Annotated[
        int, typer.Option(min=1, max=10_000, metavar="N", help="How many parts are asked at once at most.")
    ] = 1,
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
        typer.Option(min=1, max=4096, metavar="N", help="Cores of each task. If left out: 4 a GPU, without GPUs 2."),
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
        int,
        typer.Option(min=1, max=1000, metavar="N", help="After how many starts without an answer a task gives up."),
    ] = 3,
    sbatch: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="A further word for sbatch, such as --constraint=a100; may be repeated."),
    ] = None,
    template: Annotated[
        Path | None, typer.Option(metavar="FILE", help=f"Template of the batch script. If left out: {TEMPLATE}.")
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
    asked_for = configured.given() & dividing.keys()
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
        folder=folder.resolve(), tomserve=_tomserve(), tries=tries, patience=grace // 2, ranks=need.ranks,
        options=options_for_work(dividing),
        final=f'"status":"({"|".join(sorted(FINAL))})"',
    )  # fmt: skip
    if dry_run:
        say(f"{script}\n{_shown(cluster.sbatch_command(folder, name, parts, wanted))}")
        return 0
    if not parts:
        say(f"all parts of {folder} are complete; `tomserve merge {name}` makes one run of them")
        return 0
    check_free(folder, parts)
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
    from tomserve.serving import keys
    from tomserve.serving.endpoint import redact_url

    there = (folder / FILE).exists()
    if divide:
        if dividing["parts"] is None and dividing["part_tokens"] is None:
            dividing["parts"] = len(Shards.read(folder).parts) if there else nodes
        shard.shard(run=name, **dividing)
    shards = Shards.read(folder)
    wish = shards.wish
    if wish.base_url and not dividing["base_url"] and keys.api_key() is not None:
        raise ConfigError(
            f"tasks would send the API key to {', '.join(map(redact_url, wish.base_url))}, which {FILE} names; say so by "
            "--base-url URL"
        )
    left = [one.number for one in part_states(folder) if one.state != "complete"]
    return left, None if wish.base_url else wish.model


def _tomserve() -> list[str]:
    """The words that run this tomserve on a machine that sees the same folders."""
    return [sys.executable, "-m", "tomserve"]


def _shown(words: Sequence[str]) -> str:
    """A command as it would be typed."""
    return shlex.join(words)


def check_free(folder: Path, parts: Sequence[int]) -> None:
    """Raise ConflictError where an earlier job still asks one of these parts."""
    from tomserve.content.paths import PARTS_ENDING
    from tomserve.distributed.cluster import Job
    from tomserve.distributed.slurm import cluster_of

    if (job := Job.read(folder)) is None:
        return
    try:
        busy = cluster_of(job).alive(job) & set(parts)
    except MachineError as error:
        say(f"warning: whether job {job.id} still asks these parts cannot be told ({error})", error=True)
        return
    if busy:
        raise ConflictError(
            f"{folder}: job {job.id} still asks {len(busy)} of these parts; wait for it, or end it by `tomserve cancel "
            f"{folder.name.removesuffix(PARTS_ENDING)}`"
        )


BelieveOption = Annotated[
    bool,
    typer.Option("--believe-job", help="Go by job.json in the folder, although somebody else has written it."),
]


def status(name: NameArgument, believe_job: BelieveOption = False) -> int:
    """Show how far each part of a divided evaluation is, and what the cluster says of it.

    Works on every machine that sees the folder, also without a cluster. The exit code is 0 where all parts are
    complete, 1 where requests of a part failed, and else 3: there is something left to ask.
    """
    from tomserve.distributed.cluster import Job
    from tomserve.distributed.shards import find_folder, part_states
    from tomserve.distributed.slurm import cluster_of
    from tomserve.reporting.shards import show_status

    folder = find_folder(name)
    found = part_states(folder)
    job = Job.read(folder)
    tasks: Mapping[int, Task] = {}
    if job is not None:
        try:
            tasks = cluster_of(job, believe=believe_job).states(job)
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
    from tomserve.distributed.slurm import cluster_of

    folder = find_folder(name)
    Shards.read(folder)
    if (job := Job.read(folder)) is None:
        raise ConfigError(f"{folder}: nothing was submitted; `tomserve submit` hands its parts to a cluster")
    cluster = cluster_of(job, believe=believe_job)
    left = cluster.alive(job)
    if left:
        cluster.cancel(job)
    say(f"job {job.id}: {len(left)} of {len(job.parts)} parts ended" if left else f"job {job.id} has ended already")
    return 0


app.command(name="slurm")(with_content(lasting(_dividing(slurm))))
app.command(name="ray")(with_content(lasting(_dividing(ray_cluster.ray))))
