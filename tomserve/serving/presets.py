"""Presets: one YAML file a model in ``launch/models/``: what to serve, how, and what its prompts need.

>>> Preset.load("reference").served_name
'reference'
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from tomserve import content
from tomserve.errors import ConfigError, one_of
from tomserve.yamlfile import load_model

Flag = str | int | float | bool


class Preset(BaseModel):
    """A served model. `weights_gb` is in decimal gigabytes at `dtype`; `flags` go to vLLM as ``--name value``.

    warning: what is known not to work; said whenever the preset is served, dry runs included.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    schema_: Literal[1] = Field(alias="schema")
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    model: str
    revision: str | None = None
    device: Literal["cuda", "cpu"] = "cuda"
    dtype: str = "bfloat16"
    weights_gb: float = Field(gt=0)
    tensor_parallel: int = Field(default=1, ge=1)
    pipeline_parallel: int = Field(default=1, ge=1)
    max_model_len: int = Field(ge=512)
    chat_template: str | None = None
    system_role: bool = True
    prompt_parts: dict[str, str] = {}
    request: dict[str, object] = {}
    flags: dict[str, Flag] = {}
    env: dict[str, str] = {}
    verified: Literal["yes", "documented", "unverified"] = "unverified"
    note: str | None = None
    warning: str | None = None

    @property
    def served_name(self) -> str:
        """The name the server answers to."""
        return self.name

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
