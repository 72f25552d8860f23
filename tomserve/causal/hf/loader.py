"""Loads a checkpoint with transformers: weights from safetensors alone, and no code of the model's repository.

One device is the default. Several GPUs of one machine hold a model together by ``device_map="auto"`` (accelerate lays
its blocks out over them one after the other, so that one GPU computes at a time), or by tensor parallelism, in which
all of them compute each block together: started by ``torchrun --nproc-per-node N``, every process loads its part
(``tp_plan="auto"``, transformers' plan for the architecture). The residual stream and the logits are whole and equal in
each process there, since a plan splits matrices inside of a block and sums their results before they are added to the
stream: hooks see and replace what they would see on one GPU. Only the process of rank 0 should then write.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers

from tomserve.causal.checkpoints import Checkpoint
from tomserve.causal.hf.model import HfBackend
from tomserve.content.files import one_line
from tomserve.errors import ConfigError, MachineError, TomserveError
from tomserve.serving.sizing import BYTES, memory_gb

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
"""The data types that a model may be run in."""


@dataclass(frozen=True, slots=True)
class LoadedCheckpoint:
    """A model that is ready to be measured.

    backend: its inside. tokenizer: that of transformers, with the chat template.
    """

    backend: HfBackend
    tokenizer: Any


def load_checkpoint(
    checkpoint: Checkpoint,
    *,
    device: str | None = None,
    dtype: str | None = None,
    device_map: str | None = None,
    batch: int | None = None,
    revision: str | None = None,
) -> LoadedCheckpoint:
    """Load a model and its tokenizer.

    checkpoint: which. device: "cpu", "cuda" or "cuda:N"; by default a GPU where torch sees one. dtype: float32,
    bfloat16 or float16; by default float32 on a CPU and bfloat16 on a GPU. device_map: as transformers takes it, for
    models that one GPU cannot hold; "auto" by default where that is so and there are several. batch: how many prompts
    are run at a time. revision: another one than the checkpoint's. Under torchrun the model is split over all processes
    (see the module). Raises ConfigError where the files cannot be loaded, MachineError where the device is not there,
    accelerate is missing, or the memory does not suffice.
    """
    if revision is not None and Path(checkpoint.place).is_dir():
        raise ConfigError(f"{one_line(checkpoint.name)}: a folder has no revisions; leave --revision out")
    if revision is not None:
        checkpoint = replace(checkpoint, revision=revision, digest=revision)
    device = _device(device)
    chosen = dtype or ("float32" if device == "cpu" else "bfloat16")
    if chosen not in DTYPES:
        raise ConfigError(f"--dtype {one_line(chosen)}: expected {', '.join(DTYPES)}")
    needed = checkpoint.parameters * BYTES[chosen]
    layout = _layout(device, device_map, needed)
    _check_memory(checkpoint, needed, device, chosen, spread="device_map" in layout or "tp_plan" in layout)
    source = _source(checkpoint)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()  # what it would warn of is refused below, in a line
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
        config = transformers.AutoConfig.from_pretrained(**source)
        if vars(config.get_text_config()).get("attn_logit_softcapping"):
            layout["attn_implementation"] = "eager"  # the only one that applies the cap (Gemma 2)
        model, told = transformers.AutoModelForCausalLM.from_pretrained(
            config=config,
            dtype=DTYPES[chosen],
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are refused below, with those that are missing
            **source,
            **layout,
        )
    except torch.OutOfMemoryError:
        raise MachineError(_too_little(checkpoint, needed, device, chosen)) from None
    except TomserveError:  # a signal arrives as an error, wherever the program is
        raise
    except Exception as error:  # transformers raises errors of many kinds for files that it cannot read
        words = " ".join(str(error).split()) or "no reason given"
        reason = one_line(f"{type(error).__name__}: {words}")[:200]
        raise ConfigError(
            f"{one_line(checkpoint.name)}: transformers {transformers.__version__} cannot load it ({reason}); expected "
            "config.json, tokenizer files and *.safetensors of an architecture that needs no code of its own"
        ) from None
    _refuse_random(checkpoint, told)
    if not layout.keys() & {"device_map", "tp_plan"}:
        model = model.to(device)
    _refuse_offloaded(checkpoint, model)
    if checkpoint.template is not None:
        tokenizer.chat_template = checkpoint.template
    backend = HfBackend(
        model, name=checkpoint.name, digest=checkpoint.digest, revision=checkpoint.revision, batch=batch
    )
    return LoadedCheckpoint(backend, tokenizer)


def _source(checkpoint: Checkpoint) -> dict[str, Any]:
    """Where transformers finds the files, and that it must not run any of them."""
    source: dict[str, Any] = {"pretrained_model_name_or_path": checkpoint.place, "trust_remote_code": False}
    if Path(checkpoint.place).is_dir():
        return source | {"local_files_only": True}
    return source | {"revision": checkpoint.revision or "main"}


def _device(asked: str | None) -> str:
    """The device to load to. Raises MachineError for a GPU that there is not, ConfigError for any other word."""
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if asked is None:
        return "cuda" if found else "cpu"
    kind, _, number = asked.partition(":")
    if asked != "cpu" and (kind != "cuda" or (number and not number.isdecimal())):
        raise ConfigError(f"--device {one_line(asked)}: expected cpu, cuda, cuda:N, or auto for all GPUs")
    if kind == "cuda" and int(number or 0) >= found:
        raise MachineError(f"--device {asked}: torch sees {found} GPUs here; choose --device cpu, or check the driver")
    return asked


def _layout(device: str, device_map: str | None, needed: int) -> dict[str, Any]:
    """How the model is laid out, as arguments of `from_pretrained`; empty where one device holds it."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))  # set by torchrun
    if processes == 1 and device_map is None and device == "cuda" and torch.cuda.device_count() > 1:
        free, _ = torch.cuda.mem_get_info()
        device_map = "auto" if needed > 0.9 * free else None
    if processes == 1 and device_map is None:
        return {}
    if importlib.util.find_spec("accelerate") is None:
        raise MachineError("a model is spread over devices by the package accelerate: run `pip install accelerate`")
    if processes > 1:
        return {"tp_plan": "auto"}
    return {"device_map": device_map}


def _check_memory(checkpoint: Checkpoint, needed: int, device: str, dtype: str, *, spread: bool) -> None:
    """Raise MachineError where the weights alone are larger than the memory: before hours of fetching and loading."""
    if device == "cpu":
        room = memory_gb() * 1e9
    elif spread:
        room = sum(torch.cuda.mem_get_info(place)[0] for place in range(torch.cuda.device_count()))
    else:
        room = torch.cuda.mem_get_info(device)[0]
    if needed > room:
        raise MachineError(_too_little(checkpoint, needed, device, dtype))


def _too_little(checkpoint: Checkpoint, needed: int, device: str, dtype: str) -> str:
    out = "bfloat16 halves them (--dtype bfloat16)" if dtype == "float32" else "several GPUs hold them (--device auto)"
    return (
        f"{one_line(checkpoint.name)}: its weights take {needed / 1e9:.1f} GB in {dtype}, more than {device} has free; "
        f"{out}, or choose a smaller model"
    )


def _refuse_random(checkpoint: Checkpoint, told: Mapping[str, Any]) -> None:
    """Raise ConfigError where weights of the model are not in its files: transformers would draw them at random."""
    absent = sorted([*told["missing_keys"], *(name for name, *_ in told["mismatched_keys"])])
    if absent:
        raise ConfigError(
            f"{one_line(checkpoint.name)}: {len(absent)} of its weights are not in its files, or of another shape "
            f"({one_line(absent[0])[:80]}), so that they would be random; expected *.safetensors that fit config.json"
        )


def _refuse_offloaded(checkpoint: Checkpoint, model: Any) -> None:
    """Raise MachineError where accelerate has put parts of a model that is run on GPUs into main memory or on disk."""
    places = vars(model).get("hf_device_map", {})
    away = sorted({str(place) for place in places.values()} & {"cpu", "disk"})
    if away and len(set(map(str, places.values()))) > len(away):
        raise MachineError(
            f"{one_line(checkpoint.name)}: the GPUs cannot hold all of it, and parts would be run from "
            f"{' and '.join(away)} at a hundredth of the speed; take more GPUs, or a smaller model"
        )
