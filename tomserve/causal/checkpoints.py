"""Finds the model that is to be measured, and tells from its small files whether it can be, and how large it is.

Nothing here needs torch: an estimate of time, memory and disk comes before anything is installed or loaded.

>>> found = resolve_model("reference")
>>> found.layers, found.width, found.vocabulary
(5, 128, 2560)
"""

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tomserve import content
from tomserve.content import files
from tomserve.content.files import one_line
from tomserve.content.text import say
from tomserve.errors import ConfigError, ContentError, MachineError
from tomserve.serving import checkpoint
from tomserve.serving.checkpoint import (
    Json,
    first_count,
    read_chat_format,
    read_json_object,
    read_section,
    read_shape,
    stored_dtype,
    text_config,
    weight_files,
    weights_gb,
)
from tomserve.serving.presets import REFERENCE, Preset
from tomserve.serving.sizing import BYTES, cpu_features
from tomserve.serving.weights import fetch_weights

CAUSAL = ("ForCausalLM", "LMHeadModel")
"""Ends of the names of architectures that write text; `ForConditionalGeneration` does, too, with a `text_config`."""
SMALL = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
"""The files beside the weights that a digest counts, where a model has them."""
WHOLE_BYTES, STRIDE, SAMPLE = 1 << 30, 1 << 26, 1 << 20
"""A digest reads weights up to the first size whole; of a larger file, `SAMPLE` bytes of each `STRIDE`."""
MOST_LAYERS = 9999
"""Layers that a model may have: far more than any has, and as many as `--layers` can name."""
EXTRA = "pip install 'tomserve[causal]'"  # how to install what runs a model here


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A causal language model that can be measured, as its small files describe it."""

    name: str  # the model as the user named it
    place: str  # the folder of the model, or its id on the hub
    revision: str | None  # the commit on the hub, or the digest of the reference model; None for a user's folder
    digest: str  # what tells this model from any other: its revision, or `digest_of` a user's folder
    layers: int
    width: int
    vocabulary: int
    parameters: int
    active: int  # of the parameters those that one token uses, fewer in a mixture of experts
    dtype: str  # the numbers in which the weights are stored
    cache_numbers: int  # how many numbers the keys and values of one token take in all layers
    template: str | None = None  # a chat template from the model's preset; None for the tokenizer's own


def default_dtype(checkpoint: Checkpoint, device: str) -> str:
    """The data type in which a model is run where nobody names one: bfloat16 on a GPU, and on a CPU that multiplies
    numbers of it where the weights are stored in it; else float32. device: cpu, or any other word for GPUs."""
    if device != "cpu":
        return "bfloat16"
    return "bfloat16" if checkpoint.dtype == "bfloat16" and multiplies_bfloat16() else "float32"


def multiplies_bfloat16() -> bool:
    """Whether this CPU multiplies numbers of bfloat16, alone or as matrices, without turning them into float32."""
    return bool(cpu_features() & {"avx512_bf16", "amx_bf16"})


def require_extra() -> None:
    """Raise MachineError, with the command that mends it, where torch or transformers is not installed."""
    missing = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
    if missing:
        raise MachineError(f"to look inside a model {' and '.join(missing)} must be installed: run `{EXTRA}`")


def resolve_model(model: str, revision: str | None = None) -> Checkpoint:
    """The model that a name stands for; only small files are fetched.

    model: a preset, an id on the hub (ORG/MODEL), or ./FOLDER. revision: a commit, branch or tag on the hub; None for
    the preset's own or the newest. Raises ConfigError where there is no such model or it cannot be measured (quantised,
    with an encoder, without a chat template, an adapter alone, weights as pickles), MachineError without the hub.
    """
    preset: Preset | None = None
    place = model
    if model.endswith((".yaml", ".yml")) or ("/" not in model and not model.startswith(("~", "."))):
        if (Path(model) / "config.json").is_file() and model not in content.names("launch/models", ".yaml"):
            raise ConfigError(f"no preset is called {model!r}; to measure the folder of that name, write ./{model}")
        preset = Preset.load(model)
        place = preset.model
    if place == REFERENCE and revision is not None:
        raise ConfigError(f"{model}: the model that comes with tomserve has no revisions; leave --revision out")
    preset = preset or Preset.lookup(place)
    if preset is not None and (preset.package or place == REFERENCE):
        named = preset.model_copy(update={"revision": revision or preset.revision})
        weights = fetch_weights(named, partial(say, error=True))
        if (folder := Path(weights.model)).is_absolute():
            return _checkpoint(model, weights.model, folder, weights.revision, preset)
    folder = Path(place).expanduser()
    if folder.is_dir():
        if revision is not None:
            raise ConfigError(
                f"{model}: a folder has no revisions; leave --revision out, or give the model's id (ORG/MODEL)"
            )
        return _checkpoint(model, str(folder.resolve()), folder, None, preset)
    if not checkpoint.is_hub_id(place):
        raise ConfigError(
            f"{model}: there is no such folder, and it is no model's id on the hub (ORG/MODEL); "
            "`tomserve serve --list` lists the presets"
        )
    copy = checkpoint.fetch_model_files(place, revision or (preset.revision if preset else None))
    return _checkpoint(model, place, copy.folder, copy.commit, preset)


def _checkpoint(name: str, place: str, folder: Path, revision: str | None, preset: Preset | None) -> Checkpoint:
    """The model whose small files lie in `folder`. Raises ConfigError where it cannot be measured."""
    shown = one_line(name)
    template = _template_of(preset)
    config = _config(shown, folder)
    refuse_unsupported(shown, config)
    if template is None and read_chat_format(folder).template is None:
        raise ConfigError(
            f"{shown}: it has no chat template (chat_template.jinja, tokenizer_config.json), so there is no telling "
            "how it is asked; take the chat or instruct version of the model, or add chat_template.jinja to a copy"
        )
    _refuse_pickles(shown, folder)
    text, shape = text_config(config), read_shape(config)
    width = first_count(text, "hidden_size", "d_model", "n_embd")
    vocabulary = first_count(text, "vocab_size")
    dtype = stored_dtype(config) or "float32"
    gigabytes = weights_gb(folder)
    number = checkpoint.count_parameters(config) or (int(gigabytes * 1e9 / BYTES.get(dtype, 2)) if gigabytes else None)
    if shape is None or width is None or vocabulary is None or number is None:
        raise ConfigError(
            f"{shown}: config.json does not tell layers, heads, width, vocabulary and parameters in a known form; "
            "choose a model of another family"
        )
    if shape.layers > MOST_LAYERS:  # before anything is made for each of them
        raise ConfigError(f"{shown}: config.json tells of {shape.layers:,} layers; expected at most {MOST_LAYERS:,}")
    return Checkpoint(
        name=name,
        place=place,
        revision=revision,
        digest=revision or digest_of(folder),
        layers=shape.layers,
        width=width,
        vocabulary=vocabulary,
        parameters=number,
        active=_active(config) or number,
        dtype=dtype,
        cache_numbers=shape.layers * shape.numbers_per_token,
        template=template,
    )


def _config(shown: str, folder: Path) -> Json:
    """The parsed config.json of a folder. Raises ConfigError where there is none, as with an adapter by itself."""
    config = read_json_object(folder / "config.json")
    if (folder / "adapter_config.json").is_file():  # with peft, transformers loads the model that it names
        raise ConfigError(
            f"{shown}: it holds an adapter (LoRA, adapter_config.json), whose model may be another one; merge the two "
            "(peft: merge_and_unload, save_pretrained) and give the folder of the result"
        )
    if config is None:
        raise ConfigError(
            f"{shown}: it holds no config.json that can be read; expected a model in Hugging Face's format "
            "(config.json, *.safetensors, tokenizer files), an adapter (LoRA) merged with its model"
        )
    return config


def refuse_unsupported(shown: str, config: Json) -> None:
    """Raise ConfigError for a model, by its config.json, whose residual stream cannot be measured. shown: its name."""
    method = read_section(config, "quantization_config") or read_section(text_config(config), "quantization_config")
    if method:
        kind = one_line(str(method.get("quant_method", "quantization_config")))[:40]
        raise ConfigError(
            f"{shown}: its weights are quantised ({kind}), so that its states are not those of the model; take the "
            "unquantised original (bfloat16)"
        )
    named = config.get("architectures")
    names = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
    words = one_line(", ".join(names) or str(config.get("model_type") or "config.json names none"))[:80]
    if config.get("is_encoder_decoder") or text_config(config).get("is_encoder_decoder"):
        raise ConfigError(
            f"{shown}: it has an encoder and a decoder ({words}); expected a causal language model, which has a "
            "decoder alone"
        )
    composite = bool(read_section(config, "text_config")) and any(
        one.endswith("ForConditionalGeneration") for one in names
    )
    if not composite and not any(one.endswith(CAUSAL) for one in names):
        raise ConfigError(
            f"{shown}: it is no causal language model (architecture: {words}); expected one whose architecture ends in "
            f"{CAUSAL[0]}"
        )


def _refuse_pickles(shown: str, folder: Path) -> None:
    """Raise ConfigError where the only weights at hand are pickles, which run code when they are read, or the index of
    the weights names other files than *.safetensors beside it."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    index = read_json_object(folder / "model.safetensors.index.json") or {}
    listed = index.get("weight_map")
    for name in sorted({str(one) for one in listed.values()}) if isinstance(listed, dict) else ():
        if "/" in name or not name.endswith(".safetensors"):
            raise ConfigError(
                f"{shown}: model.safetensors.index.json names {one_line(name)[:80]!r}; expected files *.safetensors "
                "beside it"
            )
    pickled = sorted(name for name in names if name.endswith((".bin", ".pt", ".pth", ".bin.index.json")))
    if pickled and not any(name.endswith((".safetensors", ".safetensors.index.json")) for name in names):
        raise ConfigError(
            f"{shown}: its weights are pickles ({one_line(pickled[0])}), which can run code when they are read; "
            "convert them to safetensors (save_pretrained) or take a revision that has them"
        )


def _template_of(preset: Preset | None) -> str | None:
    """The text of the chat template that the preset brings along; None where it relies on the model's own."""
    if preset is None or preset.chat_template is None or preset.chat_template.file is None:
        return None
    path = content.require(f"launch/chat_templates/{preset.chat_template.file}")
    try:
        return files.read_own_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ContentError(f"cannot be read ({error})", path=path) from None


def _active(config: Json) -> int | None:
    """How many parameters one token uses: those of a mixture of experts with only as many experts as it is sent to."""
    text = dict(text_config(config))
    chosen = first_count(text, "num_experts_per_tok", "num_experts_per_token", "moe_topk")
    for name in ("num_local_experts", "num_experts", "n_routed_experts"):
        if name in text and chosen:
            text[name] = chosen
    own = read_section(text, "ffn_config")
    if top := first_count(own, "moe_top_k"):
        text["ffn_config"] = {**own, "moe_num_experts": top}
    tied: dict[str, Any] = {name: config[name] for name in ("tie_word_embeddings",) if name in config}
    return checkpoint.count_parameters({**tied, **text})


def digest_of(folder: Path) -> str:
    """A digest of a model's small files and of its weights, as ``sha256:<64 hex>``.

    Of a file of weights above a gigabyte samples count, since to read 140 gigabytes would take longer than to load
    them. Raises ConfigError where a file cannot be read.
    """

    def parts() -> Iterator[bytes | Path]:
        for name in SMALL:
            if (folder / name).is_file():
                yield name.encode()
                yield folder / name
        for path in sorted(weight_files(folder)):
            yield path.name.encode()
            yield from _samples(path)

    try:
        return content.digest_of(parts())
    except OSError as error:
        raise ConfigError(f"{folder}: its files cannot be read ({error.strerror}); check their permissions") from None


def _samples(path: Path) -> Iterator[bytes]:
    """What counts of a file of weights: all of it in pieces, or its length and pieces at even distances."""
    size = path.stat().st_size
    yield str(size).encode()
    step = SAMPLE if size <= WHOLE_BYTES else STRIDE
    with files.open_own(path) as file:
        for place in range(0, size, step):
            file.seek(place)
            yield file.read(SAMPLE)
        if step == STRIDE:
            file.seek(size - SAMPLE)
            yield file.read(SAMPLE)
