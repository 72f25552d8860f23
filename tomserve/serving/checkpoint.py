"""Reads what the files of a model in Hugging Face's format tell: its sizes, its context, where its copy lies on disk.

The files are data of others and are read as such: a value of the wrong kind counts as missing, and no code is run.

>>> shape_of({"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}).head_dim
16
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from tomserve.content.paths import cache_root
from tomserve.serving.presets import Shape

Json = Mapping[str, Any]
"""A JSON object that was read from a file."""

POSITIONS = (
    *("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length"),
    *("max_seq_length", "seq_len"),
)
"""The fields of a config.json by which families of models state for how many tokens they were made."""

_STRETCHED_ALREADY = ("default", "su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling")
"""Kinds of stretched position encoding whose models state the stretched length; of others vLLM 0.32 multiplies it."""


_MOST_STRETCHED = 1000
"""The largest factor that is believed."""


def snapshot(model: str, revision: str | None) -> Path | None:
    """The folder on this disk that holds a model, or None where there is none.

    model: a folder, which is returned as it is, or a hub id, which is looked for in Hugging Face's cache. revision: the
    commit, branch or tag of the hub id; None means the branch `main`.
    """
    with contextlib.suppress(OSError, ValueError):
        if Path(model).is_dir():
            return Path(model)
    home = Path(os.environ.get("HF_HOME") or cache_root() / "huggingface")
    folder = Path(os.environ.get("HF_HUB_CACHE") or home / "hub") / f"models--{model.replace('/', '--')}"
    folder = folder.expanduser()
    try:
        commit = revision or (folder / "refs/main").read_text().strip()
        named = folder / "refs" / commit
        commit = named.read_text().strip() if named.is_file() else commit
    except OSError:
        return None
    path = folder / "snapshots" / commit
    return path if (path / "config.json").is_file() else None


def json_object(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file, or None where there is none that can be read."""
    try:
        parsed = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return parsed if isinstance(parsed, dict) else None


def section(config: Json, name: str) -> Json:
    """The object of that name in a configuration; empty where there is none."""
    found = config.get(name)
    return found if isinstance(found, Mapping) else {}


def text_part(config: Json) -> Json:
    """The part of a config.json that describes the language model: `text_config` where there is one, else the whole."""
    return section(config, "text_config") or config


def stored_dtype(config: Json) -> str | None:
    """The data type that the weights are stored in, such as "bfloat16"; None where config.json does not tell it."""
    for part in (text_part(config), config):
        for name in ("dtype", "torch_dtype"):
            if isinstance(value := part.get(name), str):
                return value.removeprefix("torch.")
    return None


def whole(config: Json, *names: str) -> int | None:
    """The first of these fields that holds a whole number above 0; None where none does."""
    values = (config.get(name) for name in names)
    return next((value for value in values if type(value) is int and value > 0), None)


def shape_of(config: Json) -> Shape | None:
    """The sizes of the attention by a Hugging Face config.json, or None where it does not tell them.

    config: the parsed file; where it has a `text_config`, that part counts. The names of other families are known, too.
    """
    config = text_part(config)
    layers = whole(config, "num_hidden_layers", "n_layers", "n_layer")
    heads = whole(config, "num_attention_heads", "n_heads", "n_head")
    width = whole(config, "hidden_size", "d_model", "n_embd")
    nope, rope = whole(config, "qk_nope_head_dim"), whole(config, "qk_rope_head_dim")
    head_dim = whole(config, "head_dim") or (nope + rope if nope and rope else None)
    if layers is None or heads is None or (width is None and head_dim is None):
        return None
    grouped = whole(config, "num_key_value_heads", "num_kv_heads", "n_head_kv")
    kv_heads = grouped or section(config, "attn_config").get("kv_n_heads") or heads
    head_dim = head_dim or (width or 0) // heads
    if type(kv_heads) is not int or kv_heads < 1 or head_dim < 1:
        return None
    compressed = whole(config, "kv_lora_rank")
    latent = compressed + rope if compressed and rope else None
    return Shape(layers=layers, heads=heads, kv_heads=kv_heads, head_dim=head_dim, latent=latent)


def context_of(config: Json, tokenizer: Json | None = None) -> tuple[int, str] | None:
    """How many tokens the model was made for, and which file and field tell it; None where none does.

    config: the parsed config.json. tokenizer: the parsed tokenizer_config.json, whose `model_max_length` counts where
    it is shorter. As vLLM 0.32 does (its `_get_and_verify_max_len`), the length is multiplied by the factor of a
    stretched position encoding where the model states the length before the stretching.
    """
    text = text_part(config)
    stated = [(value, f"config.json: {name}") for name in POSITIONS if (value := whole(text, name)) is not None]
    length, source = min(stated, default=(0, ""))
    if limit := whole(tokenizer or {}, "model_max_length"):
        length, source = min((length or limit, source), (limit, "tokenizer_config.json: model_max_length"))
    if not length:
        return None
    factor = 1.0 if "gemma3" in str(text.get("model_type")) else _stretch(text)
    return (int(length * factor), f"{source}, x {factor:g} by its rope scaling" if factor != 1 else source)


def _stretch(config: Json) -> float:
    """By how much the stated length is to be multiplied; 1 where it holds as it is stated."""
    for rope in (section(config, "rope_scaling"), section(config, "rope_parameters")):
        factor = rope.get("factor")
        kind = rope.get("rope_type", rope.get("type"))
        if (
            isinstance(factor, int | float)
            and 0 < factor <= _MOST_STRETCHED
            and kind not in (None, *_STRETCHED_ALREADY)
        ):
            return float(factor)
    return 1.0


def size_gb(folder: Path) -> float | None:
    """Size of the weights in a folder, in decimal gigabytes; None where it holds none or does not tell."""
    for index in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        if (found := json_object(folder / index)) is not None:
            total = section(found, "metadata").get("total_size")
            return round(total / 1e9, 3) if isinstance(total, int | float) and total > 0 else None
    total = sum(path.stat().st_size for path in weight_files(folder))
    return round(total / 1e9, 6) if total else None


def weight_files(folder: Path) -> list[Path]:
    """The files with weights in a folder, in one of the formats that it may hold them in."""
    names = weight_names(path.name for path in sorted(folder.iterdir()) if path.is_file())
    return [folder / name for name in names]


def weight_names(names: Iterator[str]) -> list[str]:
    """Of the names of a model's files those that hold its weights, once: many repositories hold them in two formats."""
    every = list(names)
    safe = [name for name in every if name.endswith(".safetensors") and "/" not in name]
    own = [name for name in safe if not name.startswith(("consolidated", "adapter_"))]
    old = [name for name in every if name.startswith("pytorch_model") and name.endswith(".bin")]
    return own or safe or old
