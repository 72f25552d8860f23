"""The GPUs of a machine, and how many of them a preset needs. On every GPU must hold:

    weights / (tensor x pipeline)  +  keys and values of the questions in flight  +  SPARE_GB  <=  memory x utilization

The keys and values of one token take 2 x layers x kv_heads x head_dim x bytes of the data type.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tomserve import content
from tomserve.content import files
from tomserve.content.validation import load_yaml
from tomserve.errors import ConfigError, MachineError, nearest
from tomserve.serving.checkpoint import (
    find_snapshot,
    read_context,
    read_json_object,
    read_shape,
    stored_dtype,
    text_config,
    weights_gb,
)
from tomserve.serving.presets import Preset, Shape

MOST_GPUS = 9999  # how many GPUs a user may name
CPU = Path("/proc/cpuinfo")  # what Linux says of the CPU
_TIMES = r"\s*[xX*×]\s*"
_SOLD = 0.97 * 2**30 / 1e9
"""Usable decimal gigabytes for every gigabyte that a GPU is sold with: these are GiB, less about 3 % for the driver."""


def cpu_features() -> frozenset[str]:
    """What the CPU can do, in the words of Linux; empty where the system does not say."""
    try:
        return frozenset(files.read_own_text(CPU).split())
    except OSError:
        return frozenset()


def widens_bfloat16() -> bool:
    """Whether libraries compute bfloat16 on this CPU one number at a time, many times as slowly as float32: those of
    x86-64 without AVX-512, those of ARM without its own instructions."""
    return bool(features := cpu_features()) and not features & {"avx512f", "amx_bf16", "bf16"}


@dataclass(frozen=True)
class Gpu:
    """One GPU; driver, id and uuid are None for a GPU of another machine."""

    name: str
    memory_gb: float  # decimal gigabytes
    compute: float | None = None  # its CUDA compute capability; None where it is not known
    driver: str | None = None  # the version of its driver
    id: str | None = None  # what CUDA_VISIBLE_DEVICES calls it
    uuid: str | None = None  # its unique name by nvidia-smi
    node: int = 0  # the machine that it is in, counted from 0

    @property
    def bfloat16(self) -> bool:
        """Whether it can compute in bfloat16; assumed where its compute capability is not known."""
        return self.compute is None or self.compute >= 8.0

    @property
    def batch_invariant(self) -> bool:
        """Whether vLLM 0.32 has batch-invariant kernels for it: its documentation ("Batch Invariance") asks for 8.0."""
        return self.compute is not None and self.compute >= 8.0


def find_gpus() -> list[Gpu]:
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
        memory = stated * 2**20 / 1e9 if stated else memory_gb()
        here.append(Gpu(name, memory, _number(compute), driver or None, index, uuid))
    return here


def visible_gpus(installed: list[Gpu]) -> list[Gpu]:
    """Those of this machine's GPUs that CUDA_VISIBLE_DEVICES lets us use, in its order: as CUDA does, the list is read
    up to the first name that no GPU, or more than one, has. Raises MachineError for slices of GPUs (MIG), whose
    memory is not known."""
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


def group_gpus(available: list[Gpu]) -> list[Gpu]:
    """Of the available GPUs, those of the kind that has the most memory in all: a model needs GPUs of one kind."""
    kinds: dict[tuple[str, int], list[Gpu]] = {}
    for gpu in available:
        kinds.setdefault((gpu.name, round(gpu.memory_gb)), []).append(gpu)
    return max(kinds.values(), key=lambda kind: sum(gpu.memory_gb for gpu in kind), default=[])


def memory_gb() -> float:
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
    (machines that are alike), node by node: ``2x8xA100-80GB`` are two nodes of eight. Raises ConfigError where the
    text cannot be read, or states no memory and names no GPU that is known here."""
    name = rf"(?!\s*\d+{_TIMES})[A-Za-z0-9 _.-]+"
    match = re.fullmatch(rf"(?:(\d{{1,3}}){_TIMES})??(?:(\d{{1,4}}){_TIMES})?({name})", text.strip())
    nodes, count = (int(match[1] or 1), int(match[2] or 1)) if match else (0, 0)
    if match is None or not 0 < nodes * count <= MOST_GPUS:
        raise ConfigError(
            f"--gpus {text!r}: expected COUNTxNAME-MEMORY of one kind, for example 8xA100-80GB, or "
            f"NODESxCOUNTxNAME-MEMORY, for example 2x8xA100-80GB; at most {MOST_GPUS} in all"
        )
    one = _gpu_by_name(match[3], text)
    return [replace(one, node=node) for node in range(nodes) for _ in range(count)]


def _gpu_by_name(name: str, text: str) -> Gpu:
    name = re.sub(r"[ _]", "", name).upper()
    name = re.sub(r"^(NVIDIA|GEFORCE|TESLA)+|-?(SXM|PCIE|NVL)\d?(?=-|$)", "", name).strip("-")
    if re.search(r"[A-Z].*-\d+$", name):
        name += "GB"
    known: dict[str, tuple[int, float]]
    known, _ = load_yaml(content.require("launch/gpus.yaml"))
    if name in known:
        mebibytes, compute = known[name]
        return Gpu(name, mebibytes * 2**20 / 1e9, compute)
    family = {key: value for key, value in known.items() if name.startswith(f"{key.split('-')[0]}-")}
    if (memory := re.search(r"(?:^|-)(\d+(?:\.\d+)?)GI?B$", name)) is None or not 1 <= float(memory[1]) <= 10_000:
        hint = nearest(name, known) or "."
        raise ConfigError(
            f"--gpus {text!r}: how much memory has one of them? Write it as in 4xA100-80GB{hint} "
            f"Known without it: {', '.join(known)}"
        )
    compute_of = {value[1] for value in family.values()}
    return Gpu(name, float(memory[1]) * _SOLD, compute_of.pop() if len(compute_of) == 1 else None)


SPARE_GB = 5.0  # decimal gigabytes that every GPU needs for activations, CUDA graphs and communication; an estimate
TOKENS = 2048  # tokens that the longest question of the built-in benchmarks and its answer take, without thinking
IN_FLIGHT = 24  # how many questions' keys and values should fit at a time. A GPU with room for fewer works, but slowly.
STUDY = "8xA100-80GB"  # the machine that is planned for where this one has no GPUs and the user names none
BYTES = {"float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2}  # bytes of one number, by data type


@dataclass(frozen=True)
class ModelSize:
    weights_gb: float  # decimal gigabytes
    shape: Shape | None  # None where it is not known
    context: int | None  # tokens that it was made for; None where that is not known
    source: str  # where the size of the weights comes from, in words
    commit: str | None = None  # the revision of the snapshot on disk


@dataclass(frozen=True)
class Layout:
    model: ModelSize
    tensor: int  # into how many parts tensor parallelism splits it
    pipeline: int
    gpu: Gpu  # the kind of GPU
    weights_gb: float  # on each GPU
    cache_gb: float  # left for keys and values on each GPU
    token_kb: float  # kilobytes that the keys and values of one token take, all GPUs together
    questions: float  # how many of `tokens_each` tokens fit at a time
    tokens_each: int
    utilization: float = 0.92  # the share of a GPU's memory that vLLM takes
    nodes: int = 1  # over how many machines the GPUs are spread

    @property
    def gpus(self) -> int:
        return self.tensor * self.pipeline

    @property
    def comfortable(self) -> bool:
        return self.questions >= IN_FLIGHT


def describe_model(preset: Preset) -> ModelSize:
    """What is known about a preset's model: from its files where they are on this disk, else from the preset."""
    where = find_snapshot(preset.model, preset.revision)
    config = read_json_object(where / "config.json") if where else None
    if where is None or config is None:
        return ModelSize(preset.weights_gb, preset.shape, preset.context, "the preset's figure")
    commit = where.name if where.parent.name == "snapshots" else None
    shape = read_shape(config) or preset.shape
    size = weights_gb(where)
    factor = cast_factor(config, preset.dtype) if size else 1.0
    source = "the size of its files" if size else "the preset's figure; config.json is on disk"
    source += f" x {factor:g}, as they are stored in another data type" if factor != 1 else ""
    context = (read_context(config) or (preset.context,))[0]
    return ModelSize((size or preset.weights_gb) * factor, shape, context, source, commit)


def cast_factor(config: Mapping[str, Any], dtype: str) -> float:
    """By how much the weights grow while vLLM loads them in that data type; 1 where that is not known, and for
    quantized weights, which stay as they are. config: the parsed config.json."""
    if "quantization_config" in config or "quantization_config" in text_config(config):
        return 1.0
    stored = BYTES.get(str(stored_dtype(config)))
    return BYTES[dtype] / stored if stored and dtype in BYTES else 1.0


def choose_layout(preset: Preset, gpus: Sequence[Gpu]) -> Layout:
    """Choose how to spread a preset's model over GPUs: the fewest that hold it and IN_FLIGHT questions at a time, else
    what holds most.

    Tensor parallelism splits the kv heads over the GPUs, and repeats them where there are fewer; it stays within a
    node, since the GPUs talk to each other at every layer. Pipeline parallelism splits the layers, and may go over
    nodes.

    >>> over = choose_layout(Preset.load("qwen3-235b-a22b"), parse_gpus("2x8xA100-40GB"))
    >>> over.tensor, over.pipeline, over.nodes
    (8, 2, 2)

    Raises MachineError, with the arithmetic, where not one question of max_model_len fits, or the GPUs or heads do not
    allow what the preset asks.
    """
    model = describe_model(preset)
    if not gpus:
        raise MachineError(f"{_describe_need(preset, model)}; GPUs found: none; {suggest_gpus(preset)}")
    old = next((gpu for gpu in gpus if not gpu.bfloat16), None)
    if preset.dtype == "bfloat16" and old is not None:
        raise MachineError(
            f"{preset.name}: {old.name} (compute capability {old.compute:g}) cannot compute in bfloat16; "
            f"add `-- --dtype half` to the command, or copy the preset with dtype: float16"
        )
    if preset.tensor_parallel and model.shape is not None and not divides_heads(model.shape, preset.tensor_parallel):
        heads = f"{model.shape.heads} attention heads" + (
            "" if model.shape.heads % preset.tensor_parallel else f" with {model.shape.kv_heads} kv heads"
        )
        raise MachineError(
            f"{preset.name}: {heads} cannot be split over {preset.tensor_parallel} GPUs; "
            "choose another --tensor-parallel-size"
        )
    layouts = list(_layouts(preset, model, gpus))
    fitting = [layout for layout in layouts if _holds_one(layout, preset)]
    if fitting:
        return next((layout for layout in fitting if layout.comfortable), None) or max(
            fitting, key=lambda layout: (layout.questions, -layout.gpus)
        )
    nodes = len({gpu.node for gpu in gpus})
    kind = f"{gpus[0].name} {min(gpu.memory_gb for gpu in gpus):.0f} GB"
    have = f"{len(gpus)} on {nodes} nodes ({kind})" if nodes > 1 else f"{len(gpus)} ({kind})"
    best = max(layouts, key=lambda layout: layout.cache_gb, default=None)
    if best is None:
        fixed = (preset.tensor_parallel or 1) * (preset.pipeline_parallel or 1)
        raise MachineError(
            f"{preset.name}: its preset asks for {fixed} GPUs; GPUs found: {have}; {suggest_gpus(preset, gpus)}"
        )
    if best.cache_gb > 0:
        most = int(best.questions * best.tokens_each / 256) * 256
        raise MachineError(
            f"{_describe_need(preset, model)}; GPUs found: {have}: the weights fit, but the keys and values of one "
            f"question of {preset.max_model_len} tokens do not; add `-- --max-model-len {max(most, 256)}` to the "
            "command"
        )
    raise MachineError(
        f"{_describe_need(preset, model)}; GPUs found: {have}: spread over {best.gpus} of them the weights take "
        f"{best.weights_gb:.1f} GB of each, and {best.gpu.memory_gb * preset.utilization - SPARE_GB:.1f} GB of each "
        f"are usable; {suggest_gpus(preset, gpus)}"
    )


def _layouts(preset: Preset, model: ModelSize, gpus: Sequence[Gpu]) -> Iterator[Layout]:
    """Every way to spread the model: the fewest nodes first, then the fewest pipeline stages, since these are slower,
    then the fewest GPUs."""
    smallest = min(gpus, key=lambda gpu: gpu.memory_gb)
    nodes = len({gpu.node for gpu in gpus})
    each = len(gpus) // nodes
    ways = [
        (over, pipeline, tensor)
        for tensor in ([preset.tensor_parallel] if preset.tensor_parallel else [2**n for n in range(each.bit_length())])
        for pipeline in ([preset.pipeline_parallel] if preset.pipeline_parallel else range(1, len(gpus) // tensor + 1))
        if divides_heads(model.shape, tensor)
        and (model.shape is None or pipeline <= model.shape.layers)
        and (over := count_nodes(tensor, pipeline, nodes, each)) is not None
    ]
    for over, pipeline, tensor in sorted(ways):
        yield replace(_layout(preset, model, smallest, tensor, pipeline), nodes=over)


def count_nodes(tensor: int, pipeline: int, nodes: int, each: int) -> int | None:
    """Over how many of `nodes` nodes with `each` GPUs a layout goes: the fewest; None where it cannot be laid out so.
    Every node takes the same number of GPUs, which vLLM asks for, and no stage of the pipeline is cut by the border
    of a node, but where one stage alone takes several nodes."""
    for over in range(1, min(nodes, tensor * pipeline) + 1):
        held, rest = divmod(tensor * pipeline, over)
        if not rest and held <= each and (over == 1 or held % tensor == 0 or tensor % held == 0):
            return over
    return None


def divides_heads(shape: Shape | None, tensor: int) -> bool:
    """Whether vLLM can split the attention heads over `tensor` GPUs; assumed for a model of unknown shape. The query
    heads must split evenly; the kv heads too, or be repeated the same number of times."""
    if shape is None:
        return True
    return shape.heads % tensor == 0 and (shape.kv_heads % tensor == 0 or tensor % shape.kv_heads == 0)


def _layout(preset: Preset, model: ModelSize, gpu: Gpu, tensor: int, pipeline: int) -> Layout:
    weights = model.weights_gb / (tensor * pipeline)
    use = preset.utilization
    cache = gpu.memory_gb * use - weights - SPARE_GB
    each = min(preset.max_model_len, TOKENS + preset.thinking_tokens())
    if model.shape is None:
        return Layout(model, tensor, pipeline, gpu, weights, cache, 0.0, IN_FLIGHT if cache > 0 else 0, each, use)
    s = model.shape
    token = token_bytes(s, preset.dtype)
    shards = (1 if s.latent else min(tensor, s.kv_heads)) * pipeline  # every GPU keeps the whole latent vector
    questions = max(0.0, cache) * 1e9 * shards / (token * each)
    return Layout(model, tensor, pipeline, gpu, weights, cache, token / 1e3, questions, each, use)


def token_bytes(shape: Shape, dtype: str) -> int:
    """Bytes that the attention keys and values of one token take in all layers, in that data type."""
    return shape.layers * shape.numbers_per_token * BYTES.get(dtype, 2)


def _holds_one(layout: Layout, preset: Preset) -> bool:
    """Whether one question of the preset's max_model_len tokens fits, without which vLLM does not start."""
    return layout.cache_gb > 0 and layout.questions * layout.tokens_each >= preset.max_model_len


def _describe_need(preset: Preset, model: ModelSize) -> str:
    return (
        f"{preset.name}: it needs {model.weights_gb:g} GB for weights, room for keys and values, and {SPARE_GB:g} GB "
        "of working space on each GPU"
    )


def suggest_gpus(preset: Preset, gpus: Sequence[Gpu] = ()) -> str:
    """What to do where GPUs are too few: the command that plans for a machine, or for as many nodes as it takes. gpus:
    those that are too few. Where the user named them, more nodes of that kind are tried; else nodes of STUDY."""
    model, named = describe_model(preset), [gpu for gpu in gpus if gpu.id is None]
    first = len({gpu.node for gpu in named}) or 1
    each = named[: len(named) // first] or parse_gpus(STUDY)
    for nodes in range(first, min(64, MOST_GPUS // len(each)) + 1):
        over = [replace(gpu, node=node) for node in range(nodes) for gpu in each]
        if any(_holds_one(layout, preset) for layout in _layouts(preset, model, over)):
            words = f"{len(each)}x{each[0].name}"
            given = f" --gpus {nodes}x{words}" if nodes > 1 else f" --gpus {words}" if gpus else ""
            what = f"the commands for {nodes} nodes" if nodes > 1 else "the command for a machine"
            return f"`tomserve serve {preset.name} --dry-run{given}` prints {what} that can hold it"
    return f"`tomserve serve {preset.name} --explain --gpus NODESxCOUNTxNAME-MEMORY` reckons with larger GPUs"
