"""Jobs on a cluster: the record ``job.json`` of what was submitted, what every cluster can do, and the GPUs a task
needs.

`tomserve status` and `tomserve cancel` find by this record what `tomserve submit` has started, on any machine that
sees the folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import orjson
import pydantic

from tomserve.content import files
from tomserve.content.validation import is_own, note_own, read_record
from tomserve.errors import ConfigError
from tomserve.serving.auto_preset import resolve_preset
from tomserve.serving.command import set_port, shell_line
from tomserve.serving.serve import ServeOptions, plan_replicas

FILE = "job.json"  # the name of the record in the folder of the parts

WAY_OUT = "restore the file, or submit the parts again"


class Job(pydantic.BaseModel):
    """Work that was handed to a cluster."""

    model_config = pydantic.ConfigDict(extra="ignore", frozen=True)

    schema_: Literal[1] = pydantic.Field(alias="schema", default=1)
    cluster: Literal["slurm", "ray"]
    id: str  # by which the cluster knows it
    time: str  # when it was submitted, in UTC
    parts: tuple[int, ...]
    command: tuple[str, ...] = ()  # the words that started it, for people
    details: dict[str, Any] = {}  # what is needed to find it again, such as the address of Ray
    # Whether this user has submitted it, rather than whoever the folder comes from: a stranger's record could
    # name any job of the user's, or an address of Ray that answers with a program.
    ours: bool = pydantic.Field(default=True, exclude=True)

    def record(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True)

    def write(self, folder: Path) -> None:
        """Write the record beside the parts, and note for this user that it is his. Raises OSError where the record
        cannot be written."""
        record = self.record()
        files.replace_bytes(folder / FILE, orjson.dumps(record, option=orjson.OPT_INDENT_2) + b"\n")
        note_own("jobs", record)

    @classmethod
    def read(cls, folder: Path) -> Job | None:
        """The record beside these parts; None where nothing was submitted. Raises ConfigError where it is broken."""
        found = read_record(folder / FILE, cls, WAY_OUT)
        return None if found is None else found.model_copy(update={"ours": is_own("jobs", found.record())})


@dataclass(frozen=True)
class Task:
    """What a cluster says of the task that asks one part."""

    state: str  # in the cluster's own word, such as PENDING
    node: str = ""  # where it runs, or ran last
    restarts: int | None = None  # how often the cluster has started it again; None where nobody knows
    note: str = ""  # why it waits, or how it ended


class Cluster(Protocol):
    """What every kind of cluster can do with a job that was submitted."""

    def states(self, job: Job) -> Mapping[int, Task]:
        """What the cluster says of each part, by its number; a part that it does not know any more is left out. Raises
        MachineError where the cluster cannot be asked."""

    def alive(self, job: Job) -> frozenset[int]:
        """The parts that the cluster still asks, or is going to ask. Raises MachineError where it cannot be asked."""

    def cancel(self, job: Job) -> None:
        """End what is left of the job; parts keep what they have. Raises MachineError where that is not possible."""


@dataclass(frozen=True)
class ModelNeeds:
    """What one task needs."""

    gpus: int = 0  # of each of its nodes
    nodes: int = 1
    # For several nodes: the shell text that starts the server on each, with $HEAD for the first and $PORT for a port.
    ranks: tuple[str, ...] = ()


def size_task(model: str | None, gpus: str | None, *, served: bool = False) -> ModelNeeds:
    """What a task needs that asks this model; None where nobody knows which.

    gpus: those of a node, or of several, as `tomserve serve --gpus` takes them. served: whether something else serves
    the model. Raises ConfigError where the model needs GPUs and none are named, and as `tomserve serve --dry-run` does.
    """
    if served or model is None:
        return ModelNeeds()
    preset, _ = resolve_preset(model, gpus=gpus)
    if preset.device != "cuda":
        return ModelNeeds()
    if gpus is None:
        raise ConfigError(
            f"{preset.name} needs GPUs: say which ones a node has, such as --gpus 4xA100-80GB; where a server of it "
            "runs elsewhere, give its address by --base-url"
        )
    (server,) = plan_replicas(ServeOptions(model, gpus=gpus), dry=True)
    assert server.layout is not None, "a model on GPUs has a layout"
    own = set_port(server.node_commands)
    ranks = tuple(" && ".join(map(shell_line, commands)) for commands in own)
    return ModelNeeds(server.layout.gpus // server.layout.nodes, server.layout.nodes, ranks)
