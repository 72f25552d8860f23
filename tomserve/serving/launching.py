"""Works out the commands of `tomserve serve`: one a replica, each with its port and its share of the machine.

>>> [one.port for one in prepare(Wanted("reference", replicas=2))]  # doctest: +SKIP
[8000, 8001]
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tomserve import content
from tomserve.content.text import say
from tomserve.errors import ConfigError, MachineError
from tomserve.serving import hardware, keys, nodes, provenance, reference, sizing
from tomserve.serving.command import Command, vllm_command
from tomserve.serving.deriving import resolve
from tomserve.serving.hardware import Gpu
from tomserve.serving.nodes import Backend
from tomserve.serving.presets import Preset
from tomserve.serving.sizing import Layout
from tomserve.serving.target import REFERENCE


@dataclass(frozen=True)
class Wanted:
    """What the user asks of `tomserve serve`.

    name: a preset, the path of a preset file, or a model that `deriving.resolve` derives a preset for. host: the
    address to listen on. port: of the first replica; the others take the ports after it. extra: flags for vLLM. gpus:
    GPUs to plan for, as `hardware.parse_gpus` reads them; None for those of this machine. replicas: how many servers.
    insecure: allow others to ask without a key. backend: how vLLM connects several nodes; None for the default.
    """

    name: str = REFERENCE
    host: str = "127.0.0.1"
    port: int = 8000
    extra: tuple[str, ...] = ()
    gpus: str | None = None
    replicas: int = 1
    insecure: bool = False
    backend: Backend | None = None


@dataclass(frozen=True)
class Replica:
    """One server to start: its preset, command and port, how it is spread, and the GPUs it uses (none on a CPU).

    own: the preset before the user's flags, where none of launch/models/ is like it; None where one is, by its name.
    extra: the user's flags for vLLM, the last words of the command. ranks: the commands of each node, in the order of
    the nodes, where the model is spread over several; empty for one node. `command` is then the one that answers.
    """

    preset: Preset
    command: Command
    port: int
    layout: Layout | None
    gpus: tuple[Gpu, ...] = field(default=())
    own: Preset | None = None
    extra: tuple[str, ...] = ()
    ranks: tuple[tuple[Command, ...], ...] = ()


def prepare(wanted: Wanted, *, dry: bool = False) -> list[Replica]:
    """The servers to start, in the order of their ports.

    dry: the commands will only be shown, so a machine without GPUs is planned for as `assumed` says. Raises
    ConfigError for a wrong request, ContentError for a wrong preset, MachineError where the machine cannot serve it.
    """
    found, derived = resolve(wanted.name, wanted.extra, gpus=wanted.gpus)
    for line in (derived.told(), *derived.remarks) if derived is not None else ():
        say(line, error=True)
    own = None if found.name in content.names("launch/models", ".yaml") and Preset.load(found.name) == found else found
    preset = adjusted(found, wanted.extra)
    _check(wanted)
    key = keys.server_key(wanted.host, insecure=wanted.insecure)
    model = str(reference.folder()) if preset.model == REFERENCE else preset.model
    shares = _shares(preset, wanted, dry)
    replicas = []
    for number, (gpus, env) in enumerate(shares):
        layout = sizing.choose(preset, gpus) if preset.device == "cuda" else None
        port = wanted.port + number
        command = vllm_command(
            preset, model, layout=layout, gpus=gpus, host=wanted.host, port=port, key=key, extra=wanted.extra
        )
        command.env.update(env)
        used = gpus[: layout.gpus] if layout else ()
        ranks = _over_nodes(preset, command, layout, wanted)
        if ranks:
            command = ranks[0][-1]
        replicas.append(Replica(preset, command, port, layout, used, own, wanted.extra, ranks))
    return replicas


def _over_nodes(
    preset: Preset, command: Command, layout: Layout | None, wanted: Wanted
) -> tuple[tuple[Command, ...], ...]:
    """The commands of each node where the model is spread over several; otherwise none. Raises ConfigError where the
    user chooses how to connect nodes, and there is only one."""
    if layout is not None and layout.nodes > 1:
        return tuple(nodes.spread(command, layout, wanted.extra, backend=wanted.backend or nodes.BACKENDS[0]))
    if wanted.backend is not None:
        raise ConfigError(
            f"--backend {wanted.backend}: {preset.name} takes one node, so there are no nodes to connect; leave "
            "--backend out"
        )
    return ()


def adjusted(preset: Preset, extra: Sequence[str]) -> Preset:
    """The preset as vLLM will run it once the user's own flags have overridden it, for the memory arithmetic.

    extra: the user's flags for vLLM. Those for parallelism, data type, quantization, revision, context length and
    memory utilization are taken over. Raises ConfigError for a context longer than the model was made for.
    """
    changes: dict[str, object] = {}
    for name, flags in (
        ("tensor_parallel", ("--tensor-parallel-size", "-tp")),
        ("pipeline_parallel", ("--pipeline-parallel-size", "-pp")),
        ("max_model_len", ("--max-model-len",)),
    ):
        if (value := _whole(provenance.flag(extra, *flags))) is not None:
            changes[name] = value
    length = changes.get("max_model_len")
    if isinstance(length, int) and preset.context is not None and length > preset.context:
        raise ConfigError(f"--max-model-len {length}: {preset.name} was made for at most {preset.context} tokens")
    for name in ("dtype", "quantization", "revision"):
        if (value_given := provenance.flag(extra, f"--{name}")) is not None:
            changes[name] = value_given
    with contextlib.suppress(ValueError):
        share = float(provenance.flag(extra, "--gpu-memory-utilization") or "no")
        changes["flags"] = {**preset.flags, "gpu-memory-utilization": share}
    factor = _SHRINKS.get(
        str(changes.get("quantization")), 2.0 if changes.get("dtype") in ("float32", "float") else 1.0
    )
    return preset.model_copy(update={**changes, "weights_gb": preset.weights_gb * factor})


_SHRINKS = {"fp8": 0.5, "bitsandbytes": 0.3}
"""Share of their size to which vLLM shrinks 16-bit weights while it loads them, by method of quantization.

Other methods are not listed because their weights are published in that form, with a size of their own.
"""


def _whole(text: str | None) -> int | None:
    """A positive whole number as vLLM reads it, or None where the text is not one.

    ``32k`` means 32 times 1000 and ``32K`` 32 times 1024; likewise ``m`` means 10**6 and ``M`` 2**20.
    """
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([kKmM]?)", text or "")
    scale = {"": 1, "k": 1000, "K": 1024, "m": 10**6, "M": 2**20}
    return int(float(match[1]) * scale[match[2]]) or None if match else None


def assumed(preset: Preset, text: str | None, *, dry: bool, installed: list[Gpu] | None = None) -> list[Gpu]:
    """The GPUs to plan for: those that the user names, else the usable ones of this machine.

    text: what the user names, as `hardware.parse_gpus` reads it. dry: nothing will be started, so a machine without
    GPUs is taken to be `sizing.STUDY`. installed: the GPUs of this machine where the caller has already asked for
    them. Raises ConfigError where `text` cannot be read, MachineError for slices of GPUs.
    """
    if text is not None:
        return hardware.parse_gpus(text)
    here = hardware.visible(hardware.gpus() if installed is None else installed)
    equal = hardware.alike(here)
    if len(equal) < len(here):
        say(
            f"This machine has {len(here)} GPUs of different kinds; the {len(equal)} of kind {equal[0].name} are used, "
            "because a model is spread over GPUs of one kind.",
            error=True,
        )
    return equal or (hardware.parse_gpus(sizing.STUDY) if dry and preset.device == "cuda" else [])


def _check(wanted: Wanted) -> None:
    """Raise ConfigError for flags that may not be passed to vLLM, and for replicas that run out of ports."""
    keys.check_line(wanted.extra)
    if wanted.port + wanted.replicas - 1 > 65535:
        last = wanted.port + wanted.replicas - 1
        raise ConfigError(
            f"--port {wanted.port}: {wanted.replicas} replicas would need ports up to {last}, and 65535 is the "
            "highest; choose a lower --port"
        )


def check_replicas(gpus: Sequence[Gpu], replicas: int) -> None:
    """Raise ConfigError where several replicas are wanted on several nodes."""
    if replicas > 1 and len({gpu.node for gpu in gpus}) > 1:
        raise ConfigError(
            f"--replicas {replicas}: replicas share the GPUs of one node, and --gpus names several; name the GPUs of "
            "one node, or of the nodes of one replica, and run the command for each"
        )


def _shares(preset: Preset, wanted: Wanted, dry: bool) -> list[tuple[tuple[Gpu, ...], dict[str, str]]]:
    """The GPUs and the additional environment of each replica; GPUs, or CPU cores, are divided evenly.

    Raises MachineError where there are fewer of them than replicas.
    """
    count = wanted.replicas
    if preset.device == "cpu":
        if count == 1:
            return [((), {})]
        cores = (
            sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
        )
        if len(cores) < count:
            raise MachineError(
                f"--replicas {count}: each replica needs a CPU core at least, and this machine has {len(cores)}"
            )
        each = len(cores) // count
        bound = [cores[n * each : (n + 1) * each] for n in range(count)]
        return [((), {"VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, share))}) for share in bound]
    installed = hardware.gpus() if wanted.gpus is None else []
    gpus = assumed(preset, wanted.gpus, dry=dry, installed=installed)
    if wanted.gpus is None and dry and not hardware.visible(installed):
        say(
            f"This machine has no usable GPU, so the command is planned for {sizing.STUDY}; --gpus names other GPUs.",
            error=True,
        )
    check_replicas(gpus, count)
    if count > 1 and len(gpus) < count:
        raise MachineError(f"--replicas {count}: each replica needs a GPU at least, and {len(gpus)} were found")
    each = len(gpus) // count
    if count == 1 and (wanted.gpus is not None or len(gpus) == len(installed)):
        return [(tuple(gpus), {})]
    shares = []
    for number in range(count):
        share = tuple(gpus[number * each : (number + 1) * each])
        names = [gpu.id if gpu.id is not None else str(number * each + at) for at, gpu in enumerate(share)]
        # Our numbers are nvidia-smi's, which follow the PCI bus; CUDA by itself counts the fastest GPU first.
        shares.append((share, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(names)}))
    return shares
