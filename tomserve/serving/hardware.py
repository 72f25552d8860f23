"""GPUs: those of this machine, and those that a user names (``8xA100-80GB``) for a machine elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, replace

from tomserve.errors import ConfigError, MachineError, nearest

_NAMED = {  # nvidia-smi's MiB and compute capability; what is sold as 80 GB is 80 GiB, less what the driver keeps
    "A10": (23028, 8.6),
    "A10G": (23028, 8.6),
    "A100-40GB": (40960, 8.0),
    "A100-80GB": (81920, 8.0),
    "A40": (46068, 8.6),
    "A6000": (49140, 8.6),
    "B200": (183359, 10.0),
    "H100": (81559, 9.0),
    "H100-80GB": (81559, 9.0),
    "H200": (143771, 9.0),
    "L4": (23034, 8.9),
    "L40S": (46068, 8.9),
    "RTX3090": (24576, 8.6),
    "RTX4090": (24564, 8.9),
    "RTX5090": (32607, 12.0),
    "T4": (15360, 7.5),
    "V100-16GB": (16384, 7.0),
    "V100-32GB": (32768, 7.0),
}
_SOLD = 0.97 * 2**30 / 1e9
"""Decimal gigabytes that are usable of one that a GPU is sold with."""


@dataclass(frozen=True)
class Gpu:
    """One GPU: name, memory in decimal gigabytes, CUDA compute capability and driver where they are known.

    id: what CUDA_VISIBLE_DEVICES calls it; None for one that is not here.
    """

    name: str
    memory_gb: float
    compute: float | None = None
    driver: str | None = None
    id: str | None = None
    uuid: str | None = None

    @property
    def bfloat16(self) -> bool:
        """Whether it computes in bfloat16; taken to be so where nothing is known."""
        return self.compute is None or self.compute >= 8.0

    @property
    def batch_invariant(self) -> bool:
        """Whether vLLM 0.32 has batch-invariant kernels for it (docs, "Batch Invariance": 8.0 or higher)."""
        return self.compute is not None and self.compute >= 8.0


def gpus() -> list[Gpu]:
    """The NVIDIA GPUs that nvidia-smi lists; empty where there are none."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    fields = "name,memory.total,compute_cap,driver_version,index,uuid"
    query = [command, f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        listed = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    found = []
    for line in listed.splitlines():
        cells = [cell.strip() for cell in line.rsplit(",", 5)]
        if len(cells) != 6:
            continue
        name, mebibytes, compute, driver, index, uuid = cells
        told = _number(mebibytes)
        memory = told * 2**20 / 1e9 if told else _machine_gb()  # "[N/A]": the machine's memory is the GPU's, too
        found.append(Gpu(name, memory, _number(compute), driver or None, index, uuid))
    return found


def visible(found: list[Gpu]) -> list[Gpu]:
    """Those of this machine's GPUs that CUDA_VISIBLE_DEVICES leaves us, as CUDA reads it: up to the first unknown name.

    Raises MachineError for slices of GPUs (MIG), whose memory is not known here.
    """
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return found
    taken: dict[str | None, Gpu] = {}
    for name in (part.strip() for part in chosen.split(",")):
        if name.startswith("MIG"):
            raise MachineError(
                f"CUDA_VISIBLE_DEVICES={chosen}: the memory of MIG slices is not read here; print the command by "
                "`--dry-run --gpus 1xNAME-20GB` and start it yourself"
            )
        matching = [
            gpu for gpu in found if name == gpu.id or (name.startswith("GPU-") and (gpu.uuid or "").startswith(name))
        ]
        if len(matching) != 1 or matching[0].id in taken:
            break
        taken[matching[0].id] = replace(matching[0], id=name)
    return list(taken.values())


def alike(found: list[Gpu]) -> list[Gpu]:
    """The GPUs of one kind that have the most memory together: a model is spread over equal ones."""
    kinds: dict[tuple[str, int], list[Gpu]] = {}
    for gpu in found:
        kinds.setdefault((gpu.name, round(gpu.memory_gb)), []).append(gpu)
    return max(kinds.values(), key=lambda kind: sum(gpu.memory_gb for gpu in kind), default=[])


def _machine_gb() -> float:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    except (OSError, ValueError):
        return 0.0


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def parse_gpus(text: str) -> list[Gpu]:
    """GPUs as a user writes them: ``8xA100-80GB``, ``H200``, ``2x24GB``. Raises ConfigError."""
    match = re.fullmatch(r"(?:(\d{1,4})\s*[xX*×]\s*)?([A-Za-z0-9 _.-]+)", text.strip())
    count = int(match[1] or 1) if match else 0
    if match is None or not count:
        raise ConfigError(f"--gpus {text!r}: expected COUNTxNAME-MEMORY of one kind, for example 8xA100-80GB")
    name = re.sub(r"[ _]", "", match[2]).upper()
    name = re.sub(r"^(NVIDIA|GEFORCE|TESLA)+|-?(SXM|PCIE|NVL)\d?(?=-|$)", "", name).strip("-")
    if re.search(r"[A-Z].*-\d+$", name):
        name += "GB"
    if name in _NAMED:
        mebibytes, compute = _NAMED[name]
        return [Gpu(name, mebibytes * 2**20 / 1e9, compute)] * count
    family = {key: value for key, value in _NAMED.items() if name.startswith(f"{key.split('-')[0]}-")}
    if (memory := re.search(r"(?:^|-)(\d+(?:\.\d+)?)GI?B$", name)) is None or not 1 <= float(memory[1]) <= 10_000:
        hint = nearest(name, _NAMED) or "."
        raise ConfigError(
            f"--gpus {text!r}: how much memory? Write it, as in 4xA100-80GB{hint} Known: {', '.join(_NAMED)}"
        )
    compute_of = {value[1] for value in family.values()}
    return [Gpu(name, float(memory[1]) * _SOLD, compute_of.pop() if len(compute_of) == 1 else None)] * count
