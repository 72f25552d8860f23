"""What a model needs of a cluster: how many GPUs of how many nodes, and what starts it where one node does not do.

>>> needed("llama3-70b", "8xA100-80GB").gpus                                                      # doctest: +SKIP
4
"""

from __future__ import annotations

from dataclasses import dataclass

from tomserve.errors import ConfigError
from tomserve.serving import command as serving_command
from tomserve.serving.auto_preset import resolve_preset
from tomserve.serving.serve import ServeOptions, plan_replicas


@dataclass(frozen=True)
class Need:
    """What one task needs.

    gpus: of each of its nodes. nodes: how many nodes. ranks: for several nodes, the shell text that starts the model's
    server on each of them, in their order; ``$HEAD`` in it stands for the first node and ``$PORT`` for a port there.
    """

    gpus: int = 0
    nodes: int = 1
    ranks: tuple[str, ...] = ()


def needed(model: str | None, gpus: str | None, *, served: bool = False) -> Need:
    """What a task needs that asks this model.

    model: as `tomserve serve` takes it; None where nobody knows. gpus: those of a node, or of several, as `tomserve
    serve --gpus` takes them. served: whether something else serves the model, so that tasks only ask. Raises
    ConfigError where the model needs GPUs and none are named, and as `tomserve serve --dry-run` does.
    """
    if served or model is None:
        return Need()
    preset, _ = resolve_preset(model, gpus=gpus)
    if preset.device != "cuda":
        return Need()
    if gpus is None:
        raise ConfigError(
            f"{preset.name} needs GPUs: say which ones a node has, such as --gpus 4xA100-80GB; where a server of it "
            "runs elsewhere, give its address by --base-url"
        )
    (server,) = plan_replicas(ServeOptions(model, gpus=gpus), dry=True)
    assert server.layout is not None, "a model on GPUs has a layout"
    own = serving_command.set_port(server.ranks)
    ranks = tuple(" && ".join(serving_command.shell_line(command) for command in commands) for commands in own)
    return Need(server.layout.gpus // server.layout.nodes, server.layout.nodes, ranks)
