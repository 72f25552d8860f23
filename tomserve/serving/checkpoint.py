"""The files of a model in Hugging Face's format: sizes, context, parameters, chat template, download.

They are data of others: a value of the wrong kind counts as missing, no code is run, and only small files are
downloaded, never weights or code.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

import jinja2.ext
import jinja2.meta
import jinja2.sandbox
import orjson

from tomserve import content
from tomserve.content import files
from tomserve.content.files import one_line
from tomserve.content.paths import cache_root
from tomserve.errors import ConfigError, MachineError, StoppedError
from tomserve.scoring.thoughts import THINK
from tomserve.serving.presets import Reasoning, Shape

Json = Mapping[str, Any]  # A JSON object that was read from a file

POSITIONS = (
    *("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length"),
    *("max_seq_length", "seq_len"),
)
"""The fields of a config.json by which families of models state for how many tokens they were made."""

_STRETCHED_ALREADY = ("default", "su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling")
"""Kinds of stretched position encoding whose models state the stretched length; of others vLLM 0.32 multiplies it."""


_MOST_STRETCHED = 1000  # the largest factor that is believed


def find_snapshot(model: str, revision: str | None) -> Path | None:
    """The folder on this disk that holds a model, or None: a folder itself, or a hub id in Hugging Face's cache.
    revision: the commit, branch or tag of the hub id; None means the branch `main`."""
    with contextlib.suppress(OSError, ValueError):
        if Path(model).is_dir():
            return Path(model)
    home = Path(os.environ.get("HF_HOME") or cache_root() / "huggingface")
    folder = Path(os.environ.get("HF_HUB_CACHE") or home / "hub") / f"models--{model.replace('/', '--')}"
    folder = folder.expanduser()
    try:
        commit = revision or files.read_own_text(folder / "refs/main").strip()
        named = folder / "refs" / commit
        commit = files.read_own_text(named).strip() if named.is_file() else commit
    except OSError:
        return None
    path = folder / "snapshots" / commit
    return path if (path / "config.json").is_file() else None


def read_json_object(path: Path) -> dict[str, Any] | None:
    try:
        parsed = orjson.loads(files.read_own(path))
    except (OSError, orjson.JSONDecodeError):
        return None
    return parsed if isinstance(parsed, dict) else None


def read_section(config: Json, name: str) -> Json:
    """The object of that name in a configuration; empty where there is none."""
    found = config.get(name)
    return found if isinstance(found, Mapping) else {}


def text_config(config: Json) -> Json:
    """The part of a config.json that describes the language model: `text_config` where there is one, else the whole."""
    return read_section(config, "text_config") or config


def stored_dtype(config: Json) -> str | None:
    """The data type that the weights are stored in, such as "bfloat16"; None where config.json does not tell it."""
    for part in (text_config(config), config):
        for name in ("dtype", "torch_dtype"):
            if isinstance(value := part.get(name), str):
                return value.removeprefix("torch.")
    return None


def first_count(config: Json, *names: str) -> int | None:
    """The first of these fields that holds a whole number above 0; None where none does."""
    values = (config.get(name) for name in names)
    return next((value for value in values if type(value) is int and value > 0), None)


def read_shape(config: Json) -> Shape | None:
    """The sizes of the attention by a Hugging Face config.json, or None where it does not tell them."""
    config = text_config(config)
    layers = first_count(config, "num_hidden_layers", "n_layers", "n_layer")
    heads = first_count(config, "num_attention_heads", "n_heads", "n_head")
    width = first_count(config, "hidden_size", "d_model", "n_embd")
    nope, rope = first_count(config, "qk_nope_head_dim"), first_count(config, "qk_rope_head_dim")
    head_dim = first_count(config, "head_dim") or (nope + rope if nope and rope else None)
    if layers is None or heads is None or (width is None and head_dim is None):
        return None
    grouped = first_count(config, "num_key_value_heads", "num_kv_heads", "n_head_kv")
    kv_heads = grouped or read_section(config, "attn_config").get("kv_n_heads") or heads
    head_dim = head_dim or (width or 0) // heads
    if type(kv_heads) is not int or kv_heads < 1 or head_dim < 1:
        return None
    compressed = first_count(config, "kv_lora_rank")
    latent = compressed + rope if compressed and rope else None
    return Shape(layers=layers, heads=heads, kv_heads=kv_heads, head_dim=head_dim, latent=latent)


def read_context(config: Json, tokenizer: Json | None = None) -> tuple[int, str] | None:
    """How many tokens the model was made for, and which file and field tell it; None where none does.

    The `model_max_length` of the tokenizer counts where it is shorter. As in vLLM 0.32 (`_get_and_verify_max_len`), the
    length is multiplied by the factor of a stretched position encoding where the model states the length before that.
    """
    text = text_config(config)
    stated = [(value, f"config.json: {name}") for name in POSITIONS if (value := first_count(text, name)) is not None]
    length, source = min(stated, default=(0, ""))
    if limit := first_count(tokenizer or {}, "model_max_length"):
        length, source = min((length or limit, source), (limit, "tokenizer_config.json: model_max_length"))
    if not length:
        return None
    factor = 1.0 if "gemma3" in str(text.get("model_type")) else _stretch(text)
    return (int(length * factor), f"{source}, x {factor:g} by its rope scaling" if factor != 1 else source)


def _stretch(config: Json) -> float:
    for rope in (read_section(config, "rope_scaling"), read_section(config, "rope_parameters")):
        factor = rope.get("factor")
        kind = rope.get("rope_type", rope.get("type"))
        if (
            isinstance(factor, int | float)
            and 0 < factor <= _MOST_STRETCHED
            and kind not in (None, *_STRETCHED_ALREADY)
        ):
            return float(factor)
    return 1.0


def weights_gb(folder: Path) -> float | None:
    """Size of the weights in a folder, in decimal gigabytes; None where it holds none or does not tell."""
    for index in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        if (found := read_json_object(folder / index)) is not None:
            total = read_section(found, "metadata").get("total_size")
            return round(total / 1e9, 3) if isinstance(total, int | float) and total > 0 else None
    total = sum(path.stat().st_size for path in weight_files(folder))
    return round(total / 1e9, 6) if total else None


def weight_files(folder: Path) -> list[Path]:
    names = weight_names(path.name for path in sorted(folder.iterdir()) if path.is_file())
    return [folder / name for name in names]


def weight_names(names: Iterator[str]) -> list[str]:
    """Of the names of a model's files those that hold its weights, once: many repositories hold them in two formats."""
    every = list(names)
    safe = [name for name in every if name.endswith(".safetensors") and "/" not in name]
    own = [name for name in safe if not name.startswith(("consolidated", "adapter_"))]
    old = [name for name in every if name.startswith("pytorch_model") and name.endswith(".bin")]
    return own or safe or old


SMALL = (
    *("config.json", "generation_config.json", "tokenizer_config.json", "chat_template.jinja", "chat_template.json"),
    *("model.safetensors.index.json", "pytorch_model.bin.index.json", "tekken.json"),
)
"""The files that are fetched, where a model has them."""
TIMEOUT = 20.0  # seconds that the hub may take to describe a model
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class ModelFiles:
    folder: Path
    commit: str | None = None  # the revision on the hub; None for a folder that the user gave
    size_gb: float | None = None  # of the weights in decimal gigabytes, as the files or the hub tell it
    gated: bool = False  # whether a licence has to be accepted on the hub
    source: str = ""  # where the size comes from, in words


def is_hub_id(name: str) -> bool:
    """Whether the text has the form of a model's id on the hub, ORG/MODEL."""
    return _ID.fullmatch(name) is not None


def fetch_model_files(model: str, revision: str | None) -> ModelFiles:
    """The description of a model on the hub: that in Hugging Face's cache where it is whole, else fetched.

    Raises ConfigError where there is no such model or revision, or its licence has to be accepted first; MachineError
    where the hub is not reached or huggingface_hub is not installed.
    """
    found = find_snapshot(model, revision)
    if found is not None and _is_complete(found) and (size := weights_gb(found)) is not None:
        return ModelFiles(found, found.name, size, source="the index or the files of the weights in the cache")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # it is read while the package is imported
    try:
        import huggingface_hub
        from huggingface_hub import errors, utils
    except ImportError:
        raise MachineError(
            f"{model}: to ask the hub for its configuration the package huggingface_hub is needed, which comes with "
            "vLLM (`tomserve setup`); or give a folder that holds the model (./FOLDER)"
        ) from None
    utils.disable_progress_bars()
    try:
        told = huggingface_hub.HfApi().model_info(model, revision=revision, files_metadata=True, timeout=TIMEOUT)
        folder = Path(huggingface_hub.snapshot_download(model, revision=told.sha, allow_patterns=list(SMALL)))
    except errors.GatedRepoError:
        raise ConfigError(
            f"{model}: its publisher asks for a licence to be accepted: do so on its page of the hub and set HF_TOKEN, "
            "or give a folder that holds the model (./FOLDER)"
        ) from None
    except errors.RepositoryNotFoundError:
        raise ConfigError(
            f"{model}: the hub has no such model, or it is private and HF_TOKEN is not set; check the name, or give a "
            "folder that holds the model (./FOLDER)"
        ) from None
    except errors.RevisionNotFoundError:
        raise ConfigError(f"{model}: the hub has no revision {one_line(str(revision))!r} of it") from None
    except StoppedError:
        raise
    except Exception as error:  # the errors of the network differ between versions of huggingface_hub
        if found is not None and _is_complete(found):
            return ModelFiles(found, found.name)
        lines = str(error).splitlines()
        reason = one_line(f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}")[:160]
        raise MachineError(
            f"{model}: the hub cannot be reached and no copy lies in Hugging Face's cache ({reason}); give a folder "
            "that holds the model (./FOLDER), or write a preset launch/models/NAME.yaml"
        ) from None
    size, source = weights_gb(folder), "the index of the weights"
    if size is None:
        sizes = {one.rfilename: one.size or 0 for one in told.siblings or []}
        size = sum(sizes[name] for name in weight_names(iter(sizes))) / 1e9 or None
        source = "the sizes of its files on the hub"
    commit = told.sha if told.sha and _COMMIT.fullmatch(told.sha) else None
    return ModelFiles(folder, commit, size, bool(told.gated), source if size else "")


def _is_complete(folder: Path) -> bool:
    """Whether the folder holds the configuration and what tells the chat template, as a whole copy does."""
    names = ("tokenizer_config.json", "chat_template.jinja", "tekken.json")
    return read_json_object(folder / "config.json") is not None and any((folder / name).is_file() for name in names)


_TIED = ("gemma", "cohere", "falcon", "opt", "bloom", "gpt2", "gpt_bigcode", "starcoder2")
"""Beginnings of `model_type` whose input and output embeddings are one table unless config.json says otherwise."""
_TWO_MATRICES = (
    *("gpt2", "gpt_neox", "gptj", "gpt_bigcode", "opt", "falcon", "starcoder2", "phi", "bloom", "mpt", "nemotron"),
    "arcee",
)
"""Values of `model_type` whose feed-forward layers have two matrices; those of all others have a gate as the third."""
_FULL = {"full_attention", "sliding_attention", "chunked_attention", "attention"}
"""Values of `layer_types` that are attention over keys and values."""
_RECURRENT = ("mamba", "ssm_", "linear_num_", "lru_", "rwkv", "hybrid_override")
"""Beginnings of the fields that only models with recurrent layers have."""


_MOST_LAYERS = 10_000
"""More layers than any model has; a file that states more is broken, and would keep the loop over layers busy."""


def is_recurrent(config: Json) -> bool:
    """Whether some layers are recurrent (Mamba, linear attention) instead of attention over keys and values."""
    text = text_config(config)
    kinds = text.get("layer_types")
    if isinstance(kinds, list) and not _FULL.issuperset(map(str, kinds)):
        return True
    return any(name.startswith(_RECURRENT) and value for name, value in text.items())


def count_parameters(config: Json, *, active: bool = False) -> int | None:
    """The number of parameters of the language model, or None where config.json does not tell enough, or there are
    recurrent layers or an encoder. Norms and biases (below 0.1 % together) are not counted.

    active: count only what a token is computed with: of a mixture of experts so many, and the table of embeddings once.

    >>> sizes = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}
    >>> count_parameters(sizes | {"intermediate_size": 256, "vocab_size": 1000})
    259072
    """
    text = text_config(config)
    shape, width = read_shape(text), first_count(text, "hidden_size", "d_model", "n_embd")
    vocabulary = first_count(text, "vocab_size")
    if shape is None or width is None or vocabulary is None or is_recurrent(text) or text.get("is_encoder_decoder"):
        return None
    if shape.layers > _MOST_LAYERS:
        return None
    kind = str(text.get("model_type", ""))
    layers = [_attention(text, shape, width) + one for one in _feed_forward(text, shape.layers, width, kind, active)]
    if len(layers) != shape.layers:
        return None
    tied = text.get("tie_word_embeddings", config.get("tie_word_embeddings"))
    tables = 1 if active or (kind.startswith(_TIED) if tied is None else tied) else 2
    return tables * vocabulary * width + sum(layers)


def format_parameters(parameters: int) -> str:
    """A number of parameters as people say it: "8.19 billion"."""
    return f"{parameters / 1e9:.3g} billion" if parameters >= 1e9 else f"{parameters / 1e6:.3g} million"


def _attention(text: Json, shape: Shape, width: int) -> int:
    compressed, value = first_count(text, "kv_lora_rank"), first_count(text, "v_head_dim")
    rope, nope = first_count(text, "qk_rope_head_dim"), first_count(text, "qk_nope_head_dim")
    if compressed and value and rope and nope:
        queries = shape.heads * (nope + rope)
        rank = first_count(text, "q_lora_rank")
        return (
            (width * rank + rank * queries if rank else width * queries)
            + width * (compressed + rope)
            + compressed * shape.heads * (nope + value)
            + shape.heads * value * width
        )
    return 2 * width * shape.head_dim * (shape.heads + shape.kv_heads)


def _feed_forward(text: Json, layers: int, width: int, kind: str, active: bool) -> Iterator[int]:
    """The parameters of each layer's feed-forward part, experts and router included; nothing where it is not told."""
    matrices = 2 if kind in _TWO_MATRICES else 3
    inner = first_count(text, "intermediate_size", "ffn_dim", "n_inner") or (4 * width if matrices == 2 else None)
    own, experts = read_section(text, "ffn_config"), count_experts(text)
    if experts is None:
        if inner is not None:
            yield from [matrices * width * inner] * layers
        return
    if active:
        used = first_count(text, "num_experts_per_tok", "experts_per_token") or first_count(own, "moe_top_k")
    else:
        used = experts
    each = first_count(text, "moe_intermediate_size") or first_count(own, "ffn_hidden_size") or inner
    if used is None or each is None:
        return
    shared = (first_count(text, "n_shared_experts", "num_shared_experts") or 0) * each
    shared = first_count(text, "shared_expert_intermediate_size") or shared
    for layer in range(layers):
        if _dense(text, layer):
            yield matrices * width * (inner or each)
        else:
            yield used * matrices * width * each + experts * width + matrices * width * shared


_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")


def count_experts(config: Json) -> int | None:
    """The experts of each layer of a mixture; None where the model is none."""
    text = text_config(config)
    found = first_count(text, *_EXPERTS)
    return found or first_count(read_section(text, "ffn_config"), "moe_num_experts")


def _dense(text: Json, layer: int) -> bool:
    """Whether that layer (from 0) of a mixture of experts has a single feed-forward part instead of experts."""
    if layer < (first_count(text, "first_k_dense_replace") or 0):
        return True
    only: Any = text.get("mlp_only_layers")
    if isinstance(only, list) and layer in only:
        return True
    step = first_count(text, "decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_freq") or 1
    return (layer + 1) % step != 0


def stored_bytes(config: Json, parameters: int, each: float) -> float:
    """Bytes that so many parameters take as they are stored; `each` is that of a number that is not quantized.

    Quantized weights carry scales: 1/16 more is reckoned for them. Of a mixture of experts in mxfp4 (Rouhani et al.
    2023: 4 bits and 8 more for every 32 numbers) only the experts are quantized.
    """
    method = read_section(config, "quantization_config") or read_section(text_config(config), "quantization_config")
    name, bits = str(method.get("quant_method", "")), first_count(method, "bits", "w_bit")
    if name == "mxfp4":
        text = text_config(config)
        rest = count_parameters(
            {**{key: value for key, value in text.items() if key not in _EXPERTS}, "intermediate_size": 1}
        )
        return (parameters - (rest or 0)) * (4 + 8 / 32) / 8 + (rest or 0) * each
    if name == "fp8":
        return float(parameters)
    if name == "bitsandbytes":
        bits = 4 if method.get("load_in_4bit") else 8
    return parameters * bits / 8 * (1 + 1 / 16) if bits and name else parameters * each


SWITCHES = ("enable_thinking", "thinking")
"""Variables by which templates switch thinking on and off, set by a request's chat_template_kwargs."""
PARSERS = {
    "qwen3": "qwen3",
    "glm4_moe": "glm45",
    "deepseek_v3": "deepseek_v3",
    "nemotron": "nemotron_v3",
    "seed_oss": "seed_oss",
    "ernie4_5": "ernie45",
    "hunyuan": "hunyuan_a13b",
    "granite": "granite",
    "minimax": "minimax_m2",
    "olmo3": "olmo3",
    "kimi": "kimi_k2",
    "mimo": "mimo",
    "gemma4": "gemma4",
}
"""vLLM's --reasoning-parser by the beginning of `model_type`, for families with marks of their own."""
ENFORCED = ("qwen3", "deepseek_r1")
"""Parsers for which vLLM is known to end thinking at a number of tokens (tests/serving/test_presets.py shows it)."""

_SYSTEM, _USER = "sentinel-of-the-system", "sentinel-of-the-user"
_GENERATION = re.compile(r"\{%-?\s*(end)?generation\s*-?%\}")
"""Marks in templates that only training needs, and that Jinja does not know."""


@dataclass(frozen=True)
class ChatFormat:
    template: str | None = None  # where its chat template stands, as ``file: field``; None where it has none
    system_role: bool = True
    reasoning: Reasoning | None = None  # how it thinks; None where it does not, as far as the files show
    request: Mapping[str, Any] | None = None  # fields that every request needs
    stop: tuple[str, ...] = ()  # strings that end a reply besides the tokenizer's own end
    sources: Mapping[str, str] | None = None  # for each of these fields where it comes from
    remarks: tuple[str, ...] = ()  # what the user should know


def read_chat_format(folder: Path) -> ChatFormat:
    config = read_json_object(folder / "config.json") or {}
    tokenizer = read_json_object(folder / "tokenizer_config.json") or {}
    text, where = _template(folder, tokenizer)
    sources: dict[str, str] = {}
    request, stop = _find_stops(folder, config, tokenizer, sources)
    if config.get("model_type") == "gpt_oss":  # vLLM renders its prompts itself, whatever template there is
        thinking = Reasoning(parser="openai_gptoss", enforced=False, enable={"reasoning_effort": "medium"})
        sources["reasoning"] = "config.json: model_type gpt_oss"
        return ChatFormat(where or None, True, thinking, request or None, stop, sources)
    if text is None:
        return ChatFormat(request=request or None, stop=stop, sources=sources)
    remarks: list[str] = []
    special = {name: _token_text(tokenizer.get(name)) for name in ("bos_token", "eos_token")}
    system_role, opened = _render(text, special, remarks)
    sources["system_role"] = f"{where}, rendered with a system message"
    reasoning, why = _reasoning(text, str(config.get("model_type", "")), opened)
    if reasoning is not None:
        sources["reasoning"] = f"{where}: {why}"
    elif why:
        remarks.append(f"Thinking: {why}.")
        if (switch := _switch(text)) is not None:
            request |= {"chat_template_kwargs": {switch: False}}
            sources["request"] = f"{where}: {switch}"
    return ChatFormat(where, system_role, reasoning, request or None, stop, sources, tuple(remarks))


def _template(folder: Path, tokenizer: Json) -> tuple[str | None, str]:
    """The text of the chat template and where it stands, in the order in which transformers looks for it."""
    try:
        return files.read_own_text(folder / "chat_template.jinja"), "chat_template.jinja"
    except (OSError, UnicodeDecodeError):
        pass
    for name, parsed in (
        ("tokenizer_config.json", tokenizer),
        ("chat_template.json", read_json_object(folder / "chat_template.json") or {}),
    ):
        found = parsed.get("chat_template")
        if isinstance(found, list):  # several templates, each with a name
            named = {one.get("name"): one.get("template") for one in found if isinstance(one, Mapping)}
            found = named.get("default")
        if isinstance(found, str):
            return found, f"{name}: chat_template"
    return None, ""


def _environment() -> jinja2.Environment:
    """A sandbox with what chat templates may use, as transformers' documentation on chat templates lists it."""

    def raise_exception(message: str) -> NoReturn:
        raise jinja2.TemplateError(message)

    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    made.globals |= {"raise_exception": raise_exception, "strftime_now": lambda form: "1 January 2025"}
    return made


def _render(text: str, special: Mapping[str, str], remarks: list[str]) -> tuple[bool, bool]:
    """Whether the template has a system message, and whether it opens a thought for the model before the reply."""
    user = {"role": "user", "content": _USER}

    def try_render(*messages: dict[str, str]) -> str | None:
        try:
            template = _environment().from_string(_GENERATION.sub("", text))
            return template.render(messages=messages, add_generation_prompt=True, tools=None, **special)
        except Exception:  # a template may fail in any way that an expression can
            return None

    alone = try_render(user)
    if alone is None:
        remarks.append("The chat template could not be rendered here; that it knows a system message is assumed.")
        return True, False
    both = try_render({"role": "system", "content": _SYSTEM}, user)
    return both is not None and _SYSTEM in both and _USER in both, alone.rstrip().endswith(THINK[0])


def _switch(text: str) -> str | None:
    try:
        free = jinja2.meta.find_undeclared_variables(_environment().parse(_GENERATION.sub("", text)))
    except (jinja2.TemplateError, RecursionError):
        free = {name for name in SWITCHES if re.search(rf"\b{name}\b", text)}
    return next((name for name in SWITCHES if name in free), None)


def _reasoning(text: str, kind: str, opened: bool) -> tuple[Reasoning | None, str]:
    """How the model thinks and what shows it; without a Reasoning, why it is taken not to think, or "". opened: whether
    the template ends in an open thought."""
    switch = _switch(text)
    known = next((parser for start, parser in PARSERS.items() if kind.startswith(start)), None)
    if switch is not None:
        marked = any(mark in text for mark in THINK)
        parser = known or ("qwen3" if marked and switch == "enable_thinking" else None)
        if parser is None:
            return None, f"its template has a switch `{switch}`, but not how thoughts are marked; it is switched off"
        on, off = ({"chat_template_kwargs": {switch: value}} for value in (True, False))
        return Reasoning(parser=parser, enforced=parser in ENFORCED, enable=on, disable=off), switch
    if opened:
        parser = known if known not in (None, "deepseek_v3") else "deepseek_r1"
        return Reasoning(parser=parser, enforced=parser in ENFORCED), "its prompt ends in <think>"
    if THINK[1] in text:
        return None, (
            "its template mentions <think>, but neither opens a thought nor has a switch, so the model is taken not to "
            "think; if it does, save the preset and add `reasoning: {parser: deepseek_r1}`"
        )
    return None, ""


def _find_stops(
    folder: Path, config: Json, tokenizer: Json, sources: dict[str, str]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Tokens that end a reply besides the tokenizer's own, as fields of the request or as stop strings: vLLM is told
    not to read generation_config.json, which may also change the sampling."""
    generation = read_json_object(folder / "generation_config.json") or {}
    ids: dict[int, str] = {}
    for name, parsed in (("generation_config.json", generation), ("config.json", config)):
        found = parsed.get("eos_token_id")
        for one in found if isinstance(found, list) else [found]:
            if type(one) is int and one >= 0:
                ids.setdefault(one, f"{name}: eos_token_id")
    texts = _special_tokens(folder, tokenizer)
    own = _token_text(tokenizer.get("eos_token"))
    # A model with a single end has the one that the tokenizer names, where nothing tells the numbers of its tokens.
    told = len(ids) > 1 or own in texts.values()
    others = {one: where for one, where in ids.items() if told and texts.get(one) != own}
    named = tuple(texts[one] for one in others if one in texts)
    numbers = [one for one in others if one not in texts]
    if named:
        sources["stop"] = next(where for one, where in others.items() if one in texts)
    if numbers:
        sources["request"] = next(where for one, where in others.items() if one not in texts)
    return ({"stop_token_ids": numbers} if numbers else {}), named


def _special_tokens(folder: Path, tokenizer: Json) -> dict[int, str]:
    """The special tokens by their number, from tokenizer_config.json or, where it is on disk, tokenizer.json."""
    found: dict[int, str] = {}
    decoder = tokenizer.get("added_tokens_decoder")
    for number, token in decoder.items() if isinstance(decoder, Mapping) else ():
        if number.isdecimal() and len(number) < 19:
            found[int(number)] = _token_text(token)
    added = (read_json_object(folder / "tokenizer.json") or {}).get("added_tokens")
    for token in added if isinstance(added, list) else ():
        if isinstance(token, Mapping) and type(token.get("id")) is int:
            found.setdefault(token["id"], _token_text(token))
    return {number: text for number, text in found.items() if text}


def _token_text(value: Any) -> str:
    value = value.get("content") if isinstance(value, Mapping) else value
    return value if isinstance(value, str) else ""


REFERENCE_FILES = ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
"""The files that are served, in the order in which they enter the digest that ``digest.txt`` beside them states."""


def reference_folder() -> Path:
    """The folder of the checkpoint, once its files have been checked against their digest. Raises MachineError where a
    file is missing or is not the one that was shipped."""
    path = content.find("launch/reference/model")
    if path is None:
        raise MachineError("launch/reference/model/ is missing; reinstall tomserve")
    _check_digest(path)
    return path


def reference_revision() -> str:
    """The digest of weights, configuration, tokenizer and template, which serves as the model's revision. Raises
    MachineError where a file is missing or is not the one that was shipped."""
    return _check_digest(reference_folder())


@lru_cache(maxsize=4)
def _check_digest(folder: Path) -> str:
    try:
        actual = content.digest(*(folder / name for name in REFERENCE_FILES))
        stated = files.read_own_text(folder / "digest.txt").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise MachineError(f"{folder}: cannot be read ({error}); reinstall tomserve to restore the files") from None
    if actual != stated:
        raise MachineError(
            f"{folder}: the files are not those that digest.txt describes (their digest begins with {actual[:19]}); "
            "reinstall tomserve to restore them"
        )
    return actual
