"""Tells which GPUs this machine has, and reads those that a user names for another machine, or for several.

>>> len(parse_gpus("8xA100-80GB")), len(parse_gpus("2x8xA100-80GB"))
(8, 16)
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, replace

from tomserve.errors import ConfigError, MachineError, nearest

_NAMED = {  # memory in MiB as nvidia-smi states it (what is sold as 80 GB is somewhat below 80 GiB), compute capability
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
MOST_GPUS = 9999
"""How many GPUs a user may name."""
_TIMES = r"\s*[xX*×]\s*"
_SOLD = 0.97 * 2**30 / 1e9
"""Usable decimal gigabytes for every gigabyte that a GPU is sold with: these are GiB, less about 3 % for the driver."""


@dataclass(frozen=True)
class Gpu:
    """One GPU.

    memory_gb: its memory in decimal gigabytes. compute: its CUDA compute capability; None where it is not known.
    driver: the version of its driver. id: what CUDA_VISIBLE_DEVICES calls it. uuid: its unique name by nvidia-smi.
    node: the machine that it is in, counted from 0. driver, id and uuid are None for a GPU of another machine.
    """

    name: str
    memory_gb: float
    compute: float | None = None
    driver: str | None = None
    id: str | None = None
    uuid: str | None = None
    node: int = 0

    @property
    def bfloat16(self) -> bool:
        """Whether it can compute in bfloat16; assumed where its compute capability is not known."""
        return self.compute is None or self.compute >= 8.0

    @property
    def batch_invariant(self) -> bool:
        """Whether vLLM 0.32 has batch-invariant kernels for it: its documentation ("Batch Invariance") asks for 8.0."""
        return self.compute is not None and self.compute >= 8.0


def gpus() -> list[Gpu]:
    """The NVIDIA GPUs that nvidia-smi lists, in its order; an empty list where there are none."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    fields = "name,memory.total,compute_cap,driver_version,index,uuid"
    query = [command, f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        listed = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    here = []
    for line in listed.splitlines():
        cells = [cell.strip() for cell in line.rsplit(",", 5)]
        if len(cells) != 6:
            continue
        name, mebibytes, compute, driver, index, uuid = cells
        stated = _number(mebibytes)
        # nvidia-smi states "[N/A]" for a GPU that shares the machine's memory.
        memory = stated * 2**20 / 1e9 if stated else machine_gb()
        here.append(Gpu(name, memory, _number(compute), driver or None, index, uuid))
    return here


def visible(installed: list[Gpu]) -> list[Gpu]:
    """Those of this machine's GPUs that CUDA_VISIBLE_DEVICES lets us use, in its order.

    As CUDA does, the list is read up to the first name that no GPU, or more than one, has. Without the variable all
    GPUs are usable. Raises MachineError for slices of GPUs (MIG), whose memory is not known here.
    """
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return installed
    taken: dict[str | None, Gpu] = {}
    for name in (part.strip() for part in chosen.split(",")):
        if name.startswith("MIG"):
            raise MachineError(
                f"CUDA_VISIBLE_DEVICES={chosen}: tomserve cannot tell the memory of MIG slices; print the command with "
                "`--dry-run --gpus 1xNAME-20GB`, stating the slice's memory, and start it yourself"
            )
        matching = [
            gpu
            for gpu in installed
            if name == gpu.id or (name.startswith("GPU-") and (gpu.uuid or "").startswith(name))
        ]
        if len(matching) != 1 or matching[0].id in taken:
            break
        taken[matching[0].id] = replace(matching[0], id=name)
    return list(taken.values())


def alike(available: list[Gpu]) -> list[Gpu]:
    """Of the available GPUs, those of the kind that has the most memory in all: a model needs GPUs of one kind."""
    kinds: dict[tuple[str, int], list[Gpu]] = {}
    for gpu in available:
        kinds.setdefault((gpu.name, round(gpu.memory_gb)), []).append(gpu)
    return max(kinds.values(), key=lambda kind: sum(gpu.memory_gb for gpu in kind), default=[])


def machine_gb() -> float:
    """The memory of this machine in decimal gigabytes; 0 where the system does not tell."""
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
    """The GPUs that a user describes, all of one kind: ``8xA100-80GB``, ``H200``, ``2x24GB``; or those of several nodes
    (machines that are alike), node by node: ``2x8xA100-80GB`` are two nodes of eight.

    Raises ConfigError where the text cannot be read, or states no memory and names no GPU that is known here.
    """
    name = rf"(?!\s*\d+{_TIMES})[A-Za-z0-9 _.-]+"
    match = re.fullmatch(rf"(?:(\d{{1,3}}){_TIMES})??(?:(\d{{1,4}}){_TIMES})?({name})", text.strip())
    nodes, count = (int(match[1] or 1), int(match[2] or 1)) if match else (0, 0)
    if match is None or not 0 < nodes * count <= MOST_GPUS:
        raise ConfigError(
            f"--gpus {text!r}: expected COUNTxNAME-MEMORY of one kind, for example 8xA100-80GB, or "
            f"NODESxCOUNTxNAME-MEMORY, for example 2x8xA100-80GB; at most {MOST_GPUS} in all"
        )
    one = _named(match[3], text)
    return [replace(one, node=node) for node in range(nodes) for _ in range(count)]


def _named(name: str, text: str) -> Gpu:
    """The GPU of that name, which stands in `text`. Raises ConfigError where its memory is neither known nor stated."""
    name = re.sub(r"[ _]", "", name).upper()
    name = re.sub(r"^(NVIDIA|GEFORCE|TESLA)+|-?(SXM|PCIE|NVL)\d?(?=-|$)", "", name).strip("-")
    if re.search(r"[A-Z].*-\d+$", name):
        name += "GB"
    if name in _NAMED:
        mebibytes, compute = _NAMED[name]
        return Gpu(name, mebibytes * 2**20 / 1e9, compute)
    family = {key: value for key, value in _NAMED.items() if name.startswith(f"{key.split('-')[0]}-")}
    if (memory := re.search(r"(?:^|-)(\d+(?:\.\d+)?)GI?B$", name)) is None or not 1 <= float(memory[1]) <= 10_000:
        hint = nearest(name, _NAMED) or "."
        raise ConfigError(
            f"--gpus {text!r}: how much memory has one of them? Write it as in 4xA100-80GB{hint} "
            f"Known without it: {', '.join(_NAMED)}"
        )
    compute_of = {value[1] for value in family.values()}
    return Gpu(name, float(memory[1]) * _SOLD, compute_of.pop() if len(compute_of) == 1 else None)
