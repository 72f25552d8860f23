"""Derives a preset for a model that has none, from the model's own files, and writes it to launch/models/."""

import math
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pydantic
import yaml

from tomserve import content
from tomserve.content import files
from tomserve.content.files import one_line
from tomserve.errors import ConfigError
from tomserve.serving import checkpoint, install, provenance, sizing
from tomserve.serving.checkpoint import (
    ChatFormat,
    Json,
    ModelFiles,
    fetch_model_files,
    format_parameters,
    is_hub_id,
    read_chat_format,
    read_context,
    read_json_object,
    read_section,
    read_shape,
    stored_dtype,
    text_config,
    weights_gb,
)
from tomserve.serving.presets import Preset

LENGTH, THINKING_LENGTH = 8192, 16384
"""Tokens that a prompt and its reply may take together where the model can take more; the latter where it thinks."""
UNKNOWN_LENGTH = 2048  # the same where nobody tells what the model was made for: what vLLM itself then assumes
_TRUST = "--trust-remote-code"
_WRITES = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")
"""Ends of the names of architectures that write text."""


@dataclass(frozen=True)
class DerivedPreset:
    preset: Preset
    sources: Mapping[str, str]  # for every field that was set, where its value comes from, as ``file: key`` or in words
    parameters: int | None = None  # of the language model by config.json; None where that cannot be told
    remarks: tuple[str, ...] = ()  # sentences on what could not be derived and what was taken in its place

    def announcement(self) -> str:
        return (
            f"No preset serves {self.preset.model}, so one was derived from the model's files: `--explain` shows it, "
            "`--save` keeps it."
        )


def resolve_preset(
    name: str, extra: Sequence[str] = (), *, gpus: str | None = None, anew: bool = False
) -> tuple[Preset, DerivedPreset | None]:
    """The preset that a name stands for, and how it was derived; None where it stands in a file.

    name: a preset, the path of a preset file, the path of a folder that holds a model (with a slash in it), or a
    model's id on the Hugging Face hub (ORG/MODEL). extra: the user's flags for vLLM. gpus: the GPUs that the user plans
    for; None for those of this machine. anew: derive even where a preset has that model. Raises ConfigError,
    ContentError or MachineError where there is no such preset or model, or its files cannot be read.
    """
    if name.endswith((".yaml", ".yml")) or name in content.names("launch/models", ".yaml"):
        return Preset.load(name), None
    folder = Path(name).expanduser()
    if "/" not in name and not name.startswith(("~", ".")):
        if (folder / "config.json").is_file():
            raise ConfigError(f"no preset is called {name!r}; to serve the folder of that name, write ./{name}")
        return Preset.load(name), None  # where no preset has the name, this raises and suggests the nearest
    if folder.is_dir():
        copy, model = _folder(folder), str(folder.resolve())
    elif is_hub_id(name):
        copy, model = None, name
    else:
        raise ConfigError(
            f"{name}: there is no such folder, and it is no model's id on the hub (ORG/MODEL); `tomserve serve --list` "
            "lists the presets"
        )
    if not anew and (known := Preset.lookup(model)) is not None:
        return known, None
    derived = derive_preset(
        model, copy or fetch_model_files(model, provenance.flag_value(extra, "--revision")), extra, gpus=gpus
    )
    return derived.preset, derived


def _folder(folder: Path) -> ModelFiles:
    """A folder that the user gave. Raises ConfigError where it holds no model in Hugging Face's format."""
    if read_json_object(folder / "config.json") is None:
        found = "a GGUF file, a format that is not read here" if any(folder.glob("*.gguf")) else "no config.json"
        found = "a config.json that is no JSON object" if (folder / "config.json").exists() else found
        raise ConfigError(
            f"{folder}: it holds {found}; expected a model in Hugging Face's format (config.json, *.safetensors, "
            "tokenizer files)"
        )
    return ModelFiles(folder, None, weights_gb(folder), source="the size of its files")


@dataclass
class _Draft:
    fields: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def put(self, name: str, value: Any, source: str) -> None:
        self.fields[name], self.sources[name] = value, one_line(source)


def derive_preset(model: str, copy: ModelFiles, extra: Sequence[str] = (), *, gpus: str | None = None) -> DerivedPreset:
    """Derive a preset from the files of a model: its id on the hub, or its folder. extra: the user's flags for vLLM, of
    which only --trust-remote-code counts here. Raises ConfigError where the files do not tell how much memory the
    model takes, or tell what no preset can hold."""
    config = read_json_object(copy.folder / "config.json") or {}
    chat = read_chat_format(copy.folder)
    draft = _Draft()
    draft.put("name", _name(model, copy), "the model's name")
    draft.put("model", model, "what you asked for")
    if copy.commit:
        draft.put("revision", copy.commit, "the commit whose files were read")
    if copy.gated:
        draft.put("gated", True, "the hub")
    number = checkpoint.count_parameters(config)
    _put_size(draft, config, copy, number, gpus)
    _put_length(draft, config, copy, chat)
    _put_chat(draft, config, copy, chat, extra)
    _put_engine(draft, config, copy, extra)
    draft.put("note", f"Derived by tomserve from the files of {one_line(model)}; nobody has checked it.", "tomserve")
    try:
        preset = Preset.model_validate({"schema": 1, **draft.fields})
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        where, reason = ".".join(map(str, first["loc"])), one_line(str(first["msg"]))
        raise ConfigError(
            f"{one_line(model)}: no preset can be derived: {where + ': ' if where else ''}{reason} (from "
            f"{draft.sources.get(where.split('.')[0], 'its files')}); write a preset launch/models/NAME.yaml"
        ) from None
    return DerivedPreset(preset, draft.sources, number, (*draft.remarks, *chat.remarks))


def _name(model: str, copy: ModelFiles) -> str:
    """A name for the preset that no preset of another model has; that of the model's own preset where it has one."""
    if (known := Preset.lookup(model)) is not None:
        return known.name
    parts = [part for part in model.split("/") if part]
    if copy.commit is None and len(parts) > 2 and parts[-2] == "snapshots":  # a folder of Hugging Face's cache
        parts = parts[-3].removeprefix("models--").split("--")
    last, before = parts[-1], parts[-2] if len(parts) > 1 else "model"
    taken = content.names("launch/models", ".yaml")
    names = [_slug(last), _slug(f"{before}-{last}"), *(_slug(f"{last}-{n}") for n in range(2, 99))]
    return next(name for name in names if name not in taken)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._") or "model"


def _put_size(draft: _Draft, config: Json, copy: ModelFiles, number: int | None, gpus: str | None) -> None:
    """Set data type, quantization, weights, the shape of the attention, and the device."""
    method = read_section(config, "quantization_config") or read_section(text_config(config), "quantization_config")
    stored = stored_dtype(config)
    known = stored if stored in ("bfloat16", "float16", "float32") else None
    each = sizing.BYTES[known] if known else 2
    stored_gb = copy.size_gb or (checkpoint.stored_bytes(config, number, each) / 1e9 if number else None)
    if stored_gb is None:
        raise ConfigError(
            f"{copy.folder}: neither weights nor an index of them lie there, and the parameters of "
            f"{_architecture(config)} cannot be counted from its config.json; write a preset launch/models/NAME.yaml "
            "with weights_gb"
        )
    source = (
        copy.source
        if copy.size_gb
        else f"{checkpoint.format_parameters(number or 0)} parameters, counted from config.json"
    )
    cpu = gpus is None and not sizing.find_gpus() and stored_gb <= sizing.memory_gb() / 2
    if cpu:
        draft.put("device", "cpu", "no GPU is here, and it fits this machine; --gpus plans for GPUs")
    stays = known if known and (known != "float32" or cpu) else None
    why = "as vLLM loads float32 weights on a GPU" if known else "the default; config.json states none"
    draft.put("dtype", stays or "bfloat16", "config.json: dtype or torch_dtype" if stays else why)
    factor = sizing.cast_factor(config, draft.fields["dtype"])
    if isinstance(kind := method.get("quant_method"), str):
        draft.put("quantization", one_line(kind)[:40], "config.json: quantization_config")
    halved = f", x {factor:g} in {draft.fields['dtype']}" if factor != 1 else ""
    draft.put("weights_gb", float(f"{stored_gb * factor:.4g}"), source + halved)
    active = checkpoint.count_parameters(config, active=True) if checkpoint.count_experts(config) else None
    if active is not None:
        draft.put("active_parameters", float(f"{active / 1e9:.3g}"), "config.json: the experts that a token takes")
    if (shape := read_shape(config)) is not None:
        draft.put("shape", shape.model_dump(exclude_none=True), "config.json: layers, heads and sizes")
    else:
        draft.remarks.append(
            "config.json does not state the sizes of its attention in a known form, so the memory for keys and values "
            "is not reckoned with."
        )
    if checkpoint.is_recurrent(config):
        draft.put("batch_invariant", False, "config.json: it has recurrent layers, for which vLLM has none")
    elif method:
        draft.put("batch_invariant", False, "config.json: quantization_config; such kernels are not known")
    if read_section(config, "vision_config") or read_section(config, "audio_config"):
        draft.remarks.append("The model also takes pictures or sound; only its text part is counted and used.")


def _put_length(draft: _Draft, config: Json, copy: ModelFiles, chat: ChatFormat) -> None:
    """Set the context, the length that is served, and on a CPU the memory for the keys and values of that length."""
    limit = THINKING_LENGTH if chat.reasoning is not None else LENGTH
    told = read_context(config, read_json_object(copy.folder / "tokenizer_config.json"))
    if told is None:
        draft.put("max_model_len", UNKNOWN_LENGTH, "the default of vLLM; config.json states no context")
        draft.remarks.append(
            f"config.json does not say for how many tokens the model was made; {UNKNOWN_LENGTH} were taken."
        )
    else:
        draft.put("context", told[0], told[1])
        ample = "ample for these benchmarks" + (" with thinking" if chat.reasoning is not None else "")
        draft.put("max_model_len", min(told[0], limit), "the whole context" if told[0] <= limit else ample)
    text = text_config(config)
    window = text.get("sliding_window") if text.get("use_sliding_window") is not False else None
    if type(window) is int and 0 < window < draft.fields["max_model_len"]:
        draft.remarks.append(
            f"Some layers look back {window} tokens only; their keys and values are reckoned in full, so more fits."
        )
    shape = read_shape(config)
    if draft.fields.get("device") == "cpu" and shape is not None:
        bytes_each = sizing.token_bytes(shape, draft.fields["dtype"])
        needed = math.ceil(draft.fields["max_model_len"] * bytes_each / 2**30)
        if needed > 1:
            why = "gigabytes for the keys and values of one question of the whole length"
            draft.put("env", {"VLLM_CPU_KVCACHE_SPACE": str(needed)}, why)


def _put_chat(draft: _Draft, config: Json, copy: ModelFiles, chat: ChatFormat, extra: Sequence[str]) -> None:
    sources = chat.sources or {}
    if chat.template is not None:
        draft.put("chat_template", {"source": chat.template, "verified": "unverified"}, chat.template)
        if not chat.system_role:
            draft.put("system_role", False, sources["system_role"])
    elif (copy.folder / "tekken.json").is_file():
        draft.put("flags", {"tokenizer-mode": "mistral"}, "tekken.json, the tokenizer of mistral-common")
    elif config.get("model_type") != "gpt_oss" and provenance.flag_value(extra, "--chat-template") is None:
        draft.put(
            "warning",
            "The model's files hold no chat template, so it cannot be asked; if it is a chat model, add "
            "`-- --chat-template FILE` (launch/chat_templates/ has some), or name the file in a preset.",
            "tokenizer_config.json, chat_template.jinja",
        )
    if chat.stop:
        draft.put("stop", list(chat.stop), sources["stop"])
    if chat.request:
        draft.put("request", dict(chat.request), sources["request"])
    if chat.reasoning is not None:
        draft.put("reasoning", chat.reasoning.model_dump(exclude_unset=True), sources["reasoning"])


def _put_engine(draft: _Draft, config: Json, copy: ModelFiles, extra: Sequence[str]) -> None:
    """Set what else vLLM needs for that architecture, and warn of what may keep it from serving the model."""
    if config.get("model_type") == "gpt_oss":
        draft.put("batch_invariant", False, "config.json: model_type gpt_oss")
        # Otherwise its system message names today, and the prompts of a run would change overnight.
        env = {**draft.fields.get("env", {}), "VLLM_SYSTEM_START_DATE": "2025-08-05"}
        draft.put("env", env, "config.json: model_type gpt_oss")
    warnings = [draft.fields["warning"]] if "warning" in draft.fields else []
    if copy.commit is None and copy.size_gb is None:
        warnings.append("The folder holds no weights that are known here (*.safetensors), so vLLM cannot load it.")
    if provenance.flag_value([*extra, ""], _TRUST) is not None:
        draft.put("flags", {**draft.fields.get("flags", {}), _TRUST.removeprefix("--"): True}, f"your {_TRUST}")
    elif config.get("auto_map") and not _is_supported(config):
        told = (
            "Its repository holds Python code for this model, which is not run: vLLM serves it only if it knows "
            f"{_architecture(config)} itself; if you trust that code, add `-- {_TRUST}`."
        )
        (draft.remarks if _is_supported(config) is None else warnings).append(told)
    elif _is_supported(config) is False:
        draft.remarks.append(f"vLLM does not list {_architecture(config)}; transformers' code may still serve it.")
    if not any(name.endswith(_WRITES) for name in _architectures(config)):
        warnings.append(f"{_architecture(config)} is not known to write text, so vLLM may refuse to serve it.")
    if warnings:
        draft.put("warning", " ".join(warnings), "config.json" if len(warnings) == 1 else "config.json and others")


def _is_supported(config: Json) -> bool | None:
    """Whether vLLM has code of its own for the architecture; None where vLLM is not installed."""
    found = [install.supports_architecture(name) for name in _architectures(config)]
    return None if None in found or not found else any(found)


def _architectures(config: Json) -> list[str]:
    found = config.get("architectures")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _architecture(config: Json) -> str:
    return one_line(", ".join(_architectures(config)) or "a model whose architecture config.json does not name")[:80]


FOLDER = "launch/models"


def show_preset(derived: DerivedPreset, say: Callable[[str], None]) -> None:
    """Say every field of a derived preset, its value and where that comes from, and what could not be derived; its note
    and warning are left out, as `explain_preset` says them for every preset."""
    for line in render_yaml(derived, exclude={"note", "warning"}).splitlines():
        say(f"  {line}")
    counted = format_parameters(derived.parameters) if derived.parameters else "not known for this architecture"
    for line in (f"Parameters of the language model, counted from config.json: {counted}.", *derived.remarks):
        say(line)


def render_yaml(derived: DerivedPreset, exclude: Set[str] = frozenset()) -> str:
    """The preset as YAML that `Preset.load` reads, each field with a comment that says where it comes from."""
    lines = ["schema: 1"]
    fields = derived.preset.model_dump(mode="json", exclude_unset=True, exclude={"schema_", *exclude})
    for name, value in fields.items():
        dumped = yaml.safe_dump({name: value}, sort_keys=False, allow_unicode=True, width=10**6).rstrip("\n")
        source = f"# {derived.sources.get(name, 'tomserve')}"
        first, *rest = dumped.split("\n")
        if rest and not first.endswith(":"):  # a text of several lines, into which no comment may be written
            lines += [source, first, *rest]
        else:
            lines += [f"{first}  {source}", *rest]
    return "\n".join(lines) + "\n"


def save_preset(derived: DerivedPreset, *, force: bool = False) -> Path:
    """Write the preset into the folder launch/models/ of the user's content, and return the path of the file. Raises
    ConfigError where it is there already, unless `force`, and for a folder that cannot be written."""
    preset = derived.preset
    roots = content.roots()
    if not roots or roots[0] == content.PACKAGE / "_content":
        raise ConfigError(
            "--save: name the folder of your own presets by --content DIR (or TOMSERVE_CONTENT); those that were "
            "installed with tomserve are not changed"
        )
    path = roots[0] / FOLDER / f"{preset.name}.yaml"
    old = content.names(FOLDER, ".yaml").get(preset.name, path)
    if old.exists() and not force:
        raise ConfigError(f"--save: {old} already is the preset of that name; add --force to replace it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.replace_bytes(path, render_yaml(derived).encode())
    except OSError as error:
        raise ConfigError(f"--save: {path}: cannot be written ({error.strerror})") from None
    return path
