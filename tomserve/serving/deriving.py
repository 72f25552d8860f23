"""Derives a preset for a model that has none, from the model's own files, and notes for every field where it is from.

>>> resolve("dbrx")[1] is None                                     # it has a preset, so nothing is derived
True
>>> resolve("./my-model")[1].sources["context"]                                     # doctest: +SKIP
'config.json: max_position_embeddings'
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pydantic

from tomserve import content
from tomserve.content.files import one_line
from tomserve.errors import ConfigError
from tomserve.serving import hardware, install, parameters, provenance, sizing
from tomserve.serving.chatformat import Chat, read_chat
from tomserve.serving.checkpoint import (
    Json,
    context_of,
    json_object,
    section,
    shape_of,
    size_gb,
    stored_dtype,
    text_part,
)
from tomserve.serving.hub import Copy, fetch, is_id
from tomserve.serving.presets import Preset

LENGTH, THINKING_LENGTH = 8192, 16384
"""Tokens that a prompt and its reply may take together where the model can take more; the latter where it thinks."""
UNKNOWN_LENGTH = 2048
"""The same where nobody tells what the model was made for: what vLLM itself then assumes."""
_TRUST = "--trust-remote-code"
_WRITES = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")
"""Ends of the names of architectures that write text."""


@dataclass(frozen=True)
class Derived:
    """A preset that no file holds.

    preset: the preset. sources: for every field that was set, where its value comes from, as ``file: key`` or in words.
    parameters: how many parameters the language model has by its config.json; None where that cannot be told. remarks:
    sentences on what could not be derived and what was taken in its place.
    """

    preset: Preset
    sources: Mapping[str, str]
    parameters: int | None = None
    remarks: tuple[str, ...] = ()

    def told(self) -> str:
        """One sentence for those who are about to serve it."""
        return (
            f"No preset serves {self.preset.model}, so one was derived from the model's files: `--explain` shows it, "
            "`--save` keeps it."
        )


def resolve(
    name: str, extra: Sequence[str] = (), *, gpus: str | None = None, anew: bool = False
) -> tuple[Preset, Derived | None]:
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
    elif is_id(name):
        copy, model = None, name
    else:
        raise ConfigError(
            f"{name}: there is no such folder, and it is no model's id on the hub (ORG/MODEL); `tomserve serve --list` "
            "lists the presets"
        )
    if not anew and (known := Preset.lookup(model)) is not None:
        return known, None
    derived = derive(model, copy or fetch(model, provenance.flag(extra, "--revision")), extra, gpus=gpus)
    return derived.preset, derived


def _folder(folder: Path) -> Copy:
    """A folder that the user gave. Raises ConfigError where it holds no model in Hugging Face's format."""
    if json_object(folder / "config.json") is None:
        found = "a GGUF file, a format that is not read here" if any(folder.glob("*.gguf")) else "no config.json"
        found = "a config.json that is no JSON object" if (folder / "config.json").exists() else found
        raise ConfigError(
            f"{folder}: it holds {found}; expected a model in Hugging Face's format (config.json, *.safetensors, "
            "tokenizer files)"
        )
    return Copy(folder, None, size_gb(folder), source="the size of its files")


@dataclass
class _Draft:
    """A preset in the making: its fields, where they come from, and remarks."""

    fields: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def put(self, name: str, value: Any, source: str) -> None:
        """Set a field, and note where it comes from."""
        self.fields[name], self.sources[name] = value, one_line(source)


def derive(model: str, copy: Copy, extra: Sequence[str] = (), *, gpus: str | None = None) -> Derived:
    """Derive a preset from the files of a model.

    model: its id on the hub, or its folder. copy: where its files lie. extra: the user's flags for vLLM, of which only
    --trust-remote-code counts here. gpus: the GPUs that the user plans for; None for those of this machine. Raises
    ConfigError where the files do not tell how much memory the model takes, or tell what no preset can hold.
    """
    config = json_object(copy.folder / "config.json") or {}
    chat = read_chat(copy.folder)
    draft = _Draft()
    draft.put("name", _name(model, copy), "the model's name")
    draft.put("model", model, "what you asked for")
    if copy.commit:
        draft.put("revision", copy.commit, "the commit whose files were read")
    if copy.gated:
        draft.put("gated", True, "the hub")
    number = parameters.count(config)
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
    return Derived(preset, draft.sources, number, (*draft.remarks, *chat.remarks))


def _name(model: str, copy: Copy) -> str:
    """A name for the preset that no preset of another model has; that of the model's own preset where it has one."""
    if (known := Preset.lookup(model)) is not None:
        return known.name
    parts = [part for part in model.split("/") if part]
    if copy.commit is None and len(parts) > 2 and parts[-2] == "snapshots":  # a folder of Hugging Face's cache
        parts = parts[-3].removeprefix("models--").split("--")
    last, before = parts[-1], parts[-2] if len(parts) > 1 else "model"
    taken = content.names("launch/models", ".yaml")
    names = [_allowed(last), _allowed(f"{before}-{last}"), *(_allowed(f"{last}-{n}") for n in range(2, 99))]
    return next(name for name in names if name not in taken)


def _allowed(text: str) -> str:
    """The text with everything replaced that no preset's name may hold."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._") or "model"


def _put_size(draft: _Draft, config: Json, copy: Copy, number: int | None, gpus: str | None) -> None:
    """Set what the arithmetic of memory needs: data type, quantization, weights, the shape of the attention, device."""
    method = section(config, "quantization_config") or section(text_part(config), "quantization_config")
    stored = stored_dtype(config)
    known = stored if stored in ("bfloat16", "float16", "float32") else None
    each = sizing.BYTES[known] if known else 2
    stored_gb = copy.size_gb or (parameters.stored_bytes(config, number, each) / 1e9 if number else None)
    if stored_gb is None:
        raise ConfigError(
            f"{copy.folder}: neither weights nor an index of them lie there, and the parameters of "
            f"{_architecture(config)} cannot be counted from its config.json; write a preset launch/models/NAME.yaml "
            "with weights_gb"
        )
    source = copy.source if copy.size_gb else f"{parameters.in_words(number or 0)} parameters, counted from config.json"
    cpu = gpus is None and not hardware.gpus() and stored_gb <= hardware.machine_gb() / 2
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
    if (shape := shape_of(config)) is not None:
        draft.put("shape", shape.model_dump(exclude_none=True), "config.json: layers, heads and sizes")
    else:
        draft.remarks.append(
            "config.json does not state the sizes of its attention in a known form, so the memory for keys and values "
            "is not reckoned with."
        )
    if parameters.recurrent(config):
        draft.put("batch_invariant", False, "config.json: it has recurrent layers, for which vLLM has none")
    elif method:
        draft.put("batch_invariant", False, "config.json: quantization_config; such kernels are not known")
    if section(config, "vision_config") or section(config, "audio_config"):
        draft.remarks.append("The model also takes pictures or sound; only its text part is counted and used.")


def _put_length(draft: _Draft, config: Json, copy: Copy, chat: Chat) -> None:
    """Set the context, the length that is served, and on a CPU the memory for the keys and values of that length."""
    limit = THINKING_LENGTH if chat.reasoning is not None else LENGTH
    told = context_of(config, json_object(copy.folder / "tokenizer_config.json"))
    if told is None:
        draft.put("max_model_len", UNKNOWN_LENGTH, "the default of vLLM; config.json states no context")
        draft.remarks.append(
            f"config.json does not say for how many tokens the model was made; {UNKNOWN_LENGTH} were taken."
        )
    else:
        draft.put("context", told[0], told[1])
        ample = "ample for these benchmarks" + (" with thinking" if chat.reasoning is not None else "")
        draft.put("max_model_len", min(told[0], limit), "the whole context" if told[0] <= limit else ample)
    text = text_part(config)
    window = text.get("sliding_window") if text.get("use_sliding_window") is not False else None
    if type(window) is int and 0 < window < draft.fields["max_model_len"]:
        draft.remarks.append(
            f"Some layers look back {window} tokens only; their keys and values are reckoned in full, so more fits."
        )
    shape = shape_of(config)
    if draft.fields.get("device") == "cpu" and shape is not None:
        bytes_each = sizing.token_bytes(shape, draft.fields["dtype"])
        needed = math.ceil(draft.fields["max_model_len"] * bytes_each / 2**30)
        if needed > 1:
            why = "gigabytes for the keys and values of one question of the whole length"
            draft.put("env", {"VLLM_CPU_KVCACHE_SPACE": str(needed)}, why)


def _put_chat(draft: _Draft, config: Json, copy: Copy, chat: Chat, extra: Sequence[str]) -> None:
    """Set the chat template, system role, thinking and ends of a reply."""
    sources = chat.sources or {}
    if chat.template is not None:
        draft.put("chat_template", {"source": chat.template, "verified": "unverified"}, chat.template)
        if not chat.system_role:
            draft.put("system_role", False, sources["system_role"])
    elif (copy.folder / "tekken.json").is_file():
        draft.put("flags", {"tokenizer-mode": "mistral"}, "tekken.json, the tokenizer of mistral-common")
    elif config.get("model_type") != "gpt_oss" and provenance.flag(extra, "--chat-template") is None:
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


def _put_engine(draft: _Draft, config: Json, copy: Copy, extra: Sequence[str]) -> None:
    """Set what else vLLM needs for that architecture, and warn of what may keep it from serving the model."""
    if config.get("model_type") == "gpt_oss":
        draft.put("batch_invariant", False, "config.json: model_type gpt_oss")
        # Otherwise its system message names today, and the prompts of a run would change overnight.
        env = {**draft.fields.get("env", {}), "VLLM_SYSTEM_START_DATE": "2025-08-05"}
        draft.put("env", env, "config.json: model_type gpt_oss")
    warnings = [draft.fields["warning"]] if "warning" in draft.fields else []
    if copy.commit is None and copy.size_gb is None:
        warnings.append("The folder holds no weights that are known here (*.safetensors), so vLLM cannot load it.")
    if provenance.flag([*extra, ""], _TRUST) is not None:
        draft.put("flags", {**draft.fields.get("flags", {}), _TRUST.removeprefix("--"): True}, f"your {_TRUST}")
    elif config.get("auto_map") and not _known(config):
        told = (
            "Its repository holds Python code for this model, which is not run: vLLM serves it only if it knows "
            f"{_architecture(config)} itself; if you trust that code, add `-- {_TRUST}`."
        )
        (draft.remarks if _known(config) is None else warnings).append(told)
    elif _known(config) is False:
        draft.remarks.append(f"vLLM does not list {_architecture(config)}; transformers' code may still serve it.")
    if not any(name.endswith(_WRITES) for name in _architectures(config)):
        warnings.append(f"{_architecture(config)} is not known to write text, so vLLM may refuse to serve it.")
    if warnings:
        draft.put("warning", " ".join(warnings), "config.json" if len(warnings) == 1 else "config.json and others")


def _known(config: Json) -> bool | None:
    """Whether vLLM has code of its own for the architecture; None where vLLM is not installed."""
    found = [install.knows(name) for name in _architectures(config)]
    return None if None in found or not found else any(found)


def _architectures(config: Json) -> list[str]:
    found = config.get("architectures")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _architecture(config: Json) -> str:
    """The architecture in words, fit to be shown."""
    return one_line(", ".join(_architectures(config)) or "a model whose architecture config.json does not name")[:80]
