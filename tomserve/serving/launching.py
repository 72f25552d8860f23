"""From what the user wants served to the commands that serve it: a command a replica, with its share of the machine.

>>> [one.port for one in prepare(Wanted("reference", replicas=2))]  # doctest: +SKIP
[8000, 8001]
"""

from __future__ import annotations

import os
import shutil
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

OWN_FLAGS = {
    "--host": "tomserve's --host",
    "--port": "tomserve's --port",
    "--served-model-name": "`name:` in a preset file",
}
"""vLLM flags that may not be given behind tomserve's back, and what to use."""


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
    model = str(reference.checkpoint_path()) if preset.model == REFERENCE else preset.model
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
        value = provenance.flag(extra, *flags)
        if value is not None and value.isdigit() and int(value):
            changes[name] = int(value)
    if (dtype := provenance.flag(extra, "--dtype")) is not None:
        changes["dtype"] = dtype
    return preset.model_copy(update=changes)


def assumed(preset: Preset, text: str | None, *, dry: bool) -> list[Gpu]:
    """The GPUs to plan for: those named, else those here, else, for a plan alone, the study's machine."""
    if text is not None:
        return hardware.parse_gpus(text)
    found = _visible(hardware.gpus())
    return found or (hardware.parse_gpus(sizing.STUDY) if dry and preset.device == "cuda" else [])


def _check(wanted: Wanted) -> None:
    keys.refuse_on_line(wanted.extra)
    for flag in wanted.extra:
        if (instead := OWN_FLAGS.get(flag.split("=")[0].replace("_", "-"))) is not None:
            raise ConfigError(f"{flag} after `--`: tomserve must know it; use {instead}")
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
    gpus = assumed(preset, wanted.gpus, dry=dry)
    if wanted.gpus is None and not hardware.gpus() and dry:
        print(f"no GPUs here: planned for {sizing.STUDY} (--gpus names others)", file=sys.stderr)
    if count > 1 and len(gpus) < count:
        raise MachineError(f"--replicas {count}: {len(gpus)} GPUs found, one a replica is the least")
    each = len(gpus) // count
    if count == 1:
        return [(tuple(gpus), {})]
    names = _device_names(len(gpus))
    parts = [slice(n * each, (n + 1) * each) for n in range(count)]
    return [(tuple(gpus[part]), {"CUDA_VISIBLE_DEVICES": ",".join(names[part])}) for part in parts]


def _visible(gpus: list[Gpu]) -> list[Gpu]:
    """Those of nvidia-smi's GPUs that CUDA_VISIBLE_DEVICES leaves to us."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return gpus
    names = [name.strip() for name in chosen.split(",") if name.strip()]
    if all(name.isdigit() for name in names):
        return [gpus[int(name)] for name in names if int(name) < len(gpus)]
    return gpus[: len(names)]


def _device_names(count: int) -> list[str]:
    chosen = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return chosen if len(chosen) >= count and shutil.which("nvidia-smi") else [str(n) for n in range(count)]
