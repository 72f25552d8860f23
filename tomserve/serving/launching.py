"""From what the user wants served to the commands that serve it: a command a replica, with its share of the machine.

>>> [one.port for one in prepare(Wanted("reference", replicas=2))]  # doctest: +SKIP
[8000, 8001]
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from tomserve.errors import ConfigError, MachineError
from tomserve.serving import hardware, keys, provenance, reference, sizing
from tomserve.serving.command import Command, vllm_command
from tomserve.serving.hardware import Gpu
from tomserve.serving.presets import Preset
from tomserve.serving.sizing import Layout
from tomserve.serving.target import REFERENCE


@dataclass(frozen=True)
class Wanted:
    """What `tomserve serve` is told. gpus: a machine elsewhere, as `hardware.parse_gpus` reads it."""

    name: str = REFERENCE
    host: str = "127.0.0.1"
    port: int = 8000
    extra: tuple[str, ...] = ()
    gpus: str | None = None
    replicas: int = 1
    insecure: bool = False


@dataclass(frozen=True)
class Replica:
    """One server to start: its command, port and GPUs."""

    preset: Preset
    command: Command
    port: int
    layout: Layout | None
    gpus: tuple[Gpu, ...] = field(default=())


def prepare(wanted: Wanted, *, dry: bool = False) -> list[Replica]:
    """The servers to start. dry: for a command that is only shown, GPUs that are not here are taken to be.

    Raises ConfigError, ContentError, MachineError.
    """
    preset = adjusted(Preset.load(wanted.name), wanted.extra)
    _check(wanted)
    key = keys.server_key(wanted.host, insecure=wanted.insecure)
    model = str(reference.folder()) if preset.model == REFERENCE else preset.model
    shares = _shares(preset, wanted, dry)
    found = []
    for number, (gpus, env) in enumerate(shares):
        layout = sizing.choose(preset, gpus) if preset.device == "cuda" else None
        port = wanted.port + number
        command = vllm_command(
            preset, model, layout=layout, gpus=gpus, host=wanted.host, port=port, key=key, extra=wanted.extra
        )
        command.env.update(env)
        found.append(Replica(preset, command, port, layout, gpus[: layout.gpus] if layout else ()))
    return found


def adjusted(preset: Preset, extra: Sequence[str]) -> Preset:
    """The preset with what `extra`, which wins, says of parallelism, type and length: the arithmetic must know it."""
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
        if (said := provenance.flag(extra, f"--{name}")) is not None:
            changes[name] = said
    with contextlib.suppress(ValueError):
        share = float(provenance.flag(extra, "--gpu-memory-utilization") or "no")
        changes["flags"] = {**preset.flags, "gpu-memory-utilization": share}
    factor = _SHRINKS.get(
        str(changes.get("quantization")), 2.0 if changes.get("dtype") in ("float32", "float") else 1.0
    )
    return preset.model_copy(update={**changes, "weights_gb": preset.weights_gb * factor})


_SHRINKS = {"fp8": 0.5, "bitsandbytes": 0.3}
"""What vLLM makes of 16-bit weights while loading, of their size. Other methods come with weights of their own."""


def _whole(text: str | None) -> int | None:
    """A positive number as vLLM writes them: ``32768``, ``32k`` (thousands), ``32K`` (1024); None where it is none."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([kKmM]?)", text or "")
    scale = {"": 1, "k": 1000, "K": 1024, "m": 10**6, "M": 2**20}
    return int(float(match[1]) * scale[match[2]]) or None if match else None


def assumed(preset: Preset, text: str | None, *, dry: bool, installed: list[Gpu] | None = None) -> list[Gpu]:
    """The GPUs to plan for: those named, else those here, else, for a plan alone, the study's machine.

    installed: those of this machine, where they were asked for already.
    """
    if text is not None:
        return hardware.parse_gpus(text)
    here = hardware.visible(hardware.gpus() if installed is None else installed)
    found = hardware.alike(here)
    if len(found) < len(here):
        print(f"of {len(here)} GPUs, the {len(found)} of kind {found[0].name} are used", file=sys.stderr)
    return found or (hardware.parse_gpus(sizing.STUDY) if dry and preset.device == "cuda" else [])


def _check(wanted: Wanted) -> None:
    keys.check_line(wanted.extra)
    if wanted.port + wanted.replicas - 1 > 65535:
        raise ConfigError(f"--port {wanted.port}: {wanted.replicas} replicas need ports up to 65535")


def _shares(preset: Preset, wanted: Wanted, dry: bool) -> list[tuple[tuple[Gpu, ...], dict[str, str]]]:
    """GPUs and environment of each replica: GPUs, or CPU cores, divided evenly."""
    count = wanted.replicas
    if preset.device == "cpu":
        if count == 1:
            return [((), {})]
        cores = (
            sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
        )
        if len(cores) < count:
            raise MachineError(
                f"--replicas {count}: this machine has {len(cores)} CPU cores, one a replica is the least"
            )
        each = len(cores) // count
        bound = [cores[n * each : (n + 1) * each] for n in range(count)]
        return [((), {"VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, share))}) for share in bound]
    installed = hardware.gpus() if wanted.gpus is None else []
    gpus = assumed(preset, wanted.gpus, dry=dry, installed=installed)
    if wanted.gpus is None and dry and not hardware.visible(installed):
        print(f"no GPUs here: planned for {sizing.STUDY} (--gpus names others)", file=sys.stderr)
    if count > 1 and len(gpus) < count:
        raise MachineError(f"--replicas {count}: {len(gpus)} GPUs found, one a replica is the least")
    each = len(gpus) // count
    if count == 1 and (wanted.gpus is not None or len(gpus) == len(installed)):
        return [(tuple(gpus), {})]
    found = []
    for number in range(count):
        share = tuple(gpus[number * each : (number + 1) * each])
        names = [gpu.id if gpu.id is not None else str(number * each + at) for at, gpu in enumerate(share)]
        # The order of nvidia-smi, which is not CUDA's own where GPUs differ.
        found.append((share, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(names)}))
    return found
