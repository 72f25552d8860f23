"""What this machine has, and whether a preset fits: arithmetic that is shown, not hidden."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass

from tomserve.errors import MachineError
from tomserve.serving.presets import Preset

USABLE = 0.9
"""Share of a GPU's memory that vLLM takes by default (--gpu-memory-utilization)."""
SPARE_GB = 4.0
"""Room a GPU for activations and the KV cache that the benchmark's prompts need at the least."""


@dataclass(frozen=True)
class Gpu:
    """One GPU: its name and memory in decimal gigabytes."""

    name: str
    memory_gb: float


def gpus() -> list[Gpu]:
    """The NVIDIA GPUs that nvidia-smi lists; empty where there are none."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    query = [command, "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        listed = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    found = []
    for line in listed.splitlines():
        name, _, mebibytes = line.rpartition(",")
        try:
            found.append(Gpu(name.strip(), float(mebibytes) * 2**20 / 1e9))
        except ValueError:
            continue  # unified-memory machines tell "[N/A]": memory cannot be checked there
    return found


def check_fits(preset: Preset, found: list[Gpu]) -> None:
    """Raise MachineError with the arithmetic where the GPUs cannot hold the preset."""
    if preset.device == "cpu":
        return
    wanted = preset.tensor_parallel * preset.pipeline_parallel
    each = preset.weights_gb / wanted
    need = f"{preset.name}: {preset.weights_gb:g} GB of weights over {wanted} GPU(s) = {each:.1f} GB each"
    way_out = f"`tomserve serve {preset.name} --dry-run` prints the command for a machine that can"
    if len(found) < wanted:
        have = ", ".join(f"{gpu.name} {gpu.memory_gb:.0f} GB" for gpu in found) or "none"
        raise MachineError(f"{need}; GPUs found: {len(found)} ({have}); {way_out}")
    smallest = min(gpu.memory_gb for gpu in found[:wanted])
    if each + SPARE_GB > smallest * USABLE:
        raise MachineError(
            f"{need} + {SPARE_GB:g} GB to work in; GPUs found: {len(found)} with {smallest:.0f} GB each, of which "
            f"{USABLE:.0%} = {smallest * USABLE:.1f} GB are usable; {way_out}"
        )
