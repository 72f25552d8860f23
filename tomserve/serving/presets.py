"""Presets: one YAML file a model in ``launch/models/``: what to serve, how, and what its prompts need.

>>> Preset.load("reference").served_name
'reference'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tomserve import content
from tomserve.content.yamlfile import load_model
from tomserve.errors import ConfigError, one_of
from tomserve.serving import keys

Flag = str | int | float | bool
Verified = Literal["yes", "documented", "unverified"]
"""yes: seen running with these weights; documented: by its publisher's own words; unverified: neither."""


_RESERVED = {"model", "messages", "max_tokens", "response_format", "temperature", "seed", "stream", "n", "api_key"} | {
    "thinking_token_budget",
    "max_completion_tokens",
}


def _merged(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """One mapping of all, the later wins; mappings within are merged, lists go on."""
    found: dict[str, Any] = {}
    for name, value in (pair for part in parts for pair in part.items()):
        old = found.get(name)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            found[name] = _merged(old, value)
        elif isinstance(old, list) and isinstance(value, list):
            found[name] = [*old, *(entry for entry in value if entry not in old)]
        else:
            found[name] = value
    return found


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Shape(_Part):
    """What the memory of a model depends on besides its weights: the keys and values it keeps for every token."""

    layers: int = Field(ge=1)
    heads: int = Field(ge=1)
    kv_heads: int = Field(ge=1)
    head_dim: int = Field(ge=1)


class ChatTemplate(_Part):
    """Which template turns messages into the prompt.

    file: one of ``launch/chat_templates/``; None for the one in the model's repository. source: where its format is
    documented.
    """

    file: str | None = None
    source: str
    verified: Verified


class Reasoning(_Part):
    """A model that thinks before it answers.

    parser: vLLM's --reasoning-parser, which keeps thinking apart and lets the answer's schema begin after it.
    budget: tokens a reply may spend on thinking, on top of those of the answer.
    enforced: the server ends thinking at the budget (vLLM's thinking_token_budget), so that room for the answer is
    left. enable, disable: fields of the request that switch thinking; None where it cannot be switched off.
    """

    parser: str
    budget: int = Field(default=4096, ge=1)
    enforced: bool = True
    enable: dict[str, Any] = {}
    disable: dict[str, Any] | None = None


class Preset(_Part):
    """A served model. `weights_gb` is in decimal gigabytes as published; `flags` go to vLLM as ``--name value``.

    shape: for the arithmetic of `tomserve.serving.sizing`; config.json counts more where it is on disk.
    tensor_parallel, pipeline_parallel: fixed here only where the arithmetic must not choose.
    context: tokens the model was made for; max_model_len: tokens it is served with.
    batch_invariant: answers do not depend on what else the server does, where the hardware has such kernels.
    warning: what is known not to work; said whenever the preset is served, dry runs included.
    """

    schema_: Literal[1] = Field(alias="schema")
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    model: str
    revision: str | None = None
    gated: bool = False
    device: Literal["cuda", "cpu"] = "cuda"
    dtype: str = "bfloat16"
    quantization: str | None = None
    weights_gb: float = Field(gt=0, lt=1e6)
    shape: Shape | None = None
    tensor_parallel: int | None = Field(default=None, ge=1)
    pipeline_parallel: int | None = Field(default=None, ge=1)
    context: int | None = Field(default=None, ge=512)
    max_model_len: int = Field(ge=512)
    chat_template: ChatTemplate | None = None
    system_role: bool = True
    stop: tuple[str, ...] = ()
    reasoning: Reasoning | None = None
    batch_invariant: bool = True
    prompt_parts: dict[str, str] = {}
    request: dict[str, Any] = {}
    flags: dict[str, Flag] = {}
    env: dict[str, str] = {}
    verified: Verified = "unverified"
    note: str | None = None
    warning: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.context is not None and self.max_model_len > self.context:
            raise ValueError(f"max_model_len {self.max_model_len} exceeds context {self.context}")
        if self.model.startswith("-") or not self.model.isprintable():
            raise ValueError(f"model {self.model!r} is neither a hub id nor a folder")
        for name in self.env:
            if re.search(r"(?i)key|token(?!izer)|secret|passw", name):
                raise ValueError(f"env: {name}: no secrets in a preset, it is shown and recorded; set it in the shell")
        for name in self.flags:
            if (reason := keys.refused(f"--{name}")) is not None:
                raise ValueError(f"flags: {name}: {reason}")
        if taken := sorted(set(self.request) & _RESERVED):
            raise ValueError(f"request: {taken[0]} is tomserve's own to set")
        return self

    @property
    def served_name(self) -> str:
        """The name the server answers to."""
        return self.name

    @property
    def utilization(self) -> float:
        """Share of a GPU's memory that vLLM takes; 0.92 is the default of 0.32."""
        found = self.flags.get("gpu-memory-utilization", 0.92)
        return float(found) if isinstance(found, int | float) and 0 < found <= 1 else 0.92

    def extra(self, thinking: str | None = None) -> dict[str, Any]:
        """Fields that every request body gets: the preset's own, stop strings, the switch of thinking.

        thinking: "on" (None means that, too), "off", or the tokens it may take. Raises ConfigError where the model
        cannot do that.
        """
        # A stop string that is a special token is only seen where the server does not leave those out of the text.
        stop = {"stop": list(self.stop), "skip_special_tokens": False} if self.stop else {}
        found = _merged(self.request, stop)
        budget = self.thinking_tokens(thinking)
        if self.reasoning is None:
            return found
        if not budget:
            return _merged(found, self.reasoning.disable or {})
        limit = {"thinking_token_budget": budget} if self.reasoning.enforced else {}
        return _merged(found, self.reasoning.enable, limit)

    def thinking_tokens(self, thinking: str | None = None) -> int:
        """How many tokens a reply gets on top of its answer's, so that thinking leaves room for it."""
        if self.reasoning is None:
            if thinking not in (None, "off"):
                raise ConfigError(
                    f"--thinking {thinking}: preset {self.name} has no reasoning: section, so none to switch"
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
        """The preset of that name, or of a YAML file given by path. Raises ConfigError, ContentError."""
        known = content.names("launch/models", ".yaml")
        if name.endswith((".yaml", ".yml")):
            path: Path | None = Path(name).expanduser()
        else:
            path = known.get(name)
        if path is None:
            raise ConfigError(f"{one_of('preset', name, known)}; a preset is a file launch/models/NAME.yaml")
        preset = load_model(path, cls)
        if preset.name != path.stem:
            raise ConfigError(f"{path}: name: is {preset.name!r}, but the file is called {path.name}")
        return preset

    @classmethod
    def lookup(cls, name: str | None) -> Preset | None:
        """The preset that serves under, or loads, the model `name`; None where no preset does."""
        if name is None:
            return None
        known = content.names("launch/models", ".yaml")
        if name in known:
            return cls.load(name)
        return next((preset for preset in map(cls.load, known) if preset.model == name), None)
