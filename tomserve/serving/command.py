"""From a preset to the vLLM command line and its environment. Nothing is started here."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tomserve import content
from tomserve.errors import ContentError
from tomserve.serving import keys
from tomserve.serving.hardware import Gpu
from tomserve.serving.presets import Flag, Preset
from tomserve.serving.sizing import Layout

TEMPLATES = "launch/chat_templates"
QUEUE = 2048
"""Requests that a server takes at a time; beyond that it answers 503, and the client waits instead of timing out."""


@dataclass(frozen=True)
class Command:
    """`argv` to run and the variables to add to the environment. `secret` ones are never shown."""

    argv: list[str]
    env: dict[str, str]
    secret: dict[str, str] = field(default_factory=dict, repr=False)

    def shell(self) -> str:
        """One line that can be pasted into a shell; secrets come from the variables that tomserve took them from."""
        line = shlex.join([*(f"{name}={value}" for name, value in self.env.items()), *self.argv])
        return f"VLLM_API_KEY={keys.shell_source()} {line}" if self.secret else line


def vllm_command(
    preset: Preset,
    model: str,
    *,
    layout: Layout | None = None,
    gpus: Sequence[Gpu] = (),
    host: str = "127.0.0.1",
    port: int = 8000,
    key: str | None = None,
    extra: Sequence[str] = (),
) -> Command:
    """The line that serves `model` (a hub id or a folder) as the preset says; `extra` goes last and wins.

    layout: how the model is spread; None for the preset's own numbers. gpus: what it will run on. key: the API key
    that the server asks for, which goes into its environment alone. Raises ContentError.
    """
    flags: dict[str, Flag] = {
        "host": host,
        "port": port,
        "served-model-name": preset.served_name,
        "dtype": preset.dtype,
        "max-model-len": preset.max_model_len,
        # A repository's generation_config would set a repetition penalty or a token cap behind our back.
        "generation-config": "vllm",
        # "auto" keeps the backend of the first structured request: output would depend on the order of requests.
        "structured-outputs-config.backend": "xgrammar",
        "structured-outputs-config.disable_any_whitespace": "true",
        "enable-prompt-tokens-details": True,
        "max-num-queued-reqs": QUEUE,
    }
    if preset.revision:
        flags["revision"] = preset.revision
    tensor = layout.tensor if layout else preset.tensor_parallel or 1
    pipeline = layout.pipeline if layout else preset.pipeline_parallel or 1
    if tensor > 1:
        flags["tensor-parallel-size"] = tensor
    if pipeline > 1:
        flags["pipeline-parallel-size"] = pipeline
    if (template := template_file(preset)) is not None:
        flags["chat-template"] = str(template)
    if preset.reasoning is not None:
        flags["reasoning-parser"] = preset.reasoning.parser
    env = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    if preset.device == "cpu":
        flags["enforce-eager"] = True
        env |= {"VLLM_HOST_IP": "127.0.0.1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    elif preset.batch_invariant and gpus and all(gpu.batch_invariant for gpu in gpus):
        # Otherwise a greedy answer depends on what else happens to be in the batch. The user's own choice stands.
        env["VLLM_BATCH_INVARIANT"] = os.environ.get("VLLM_BATCH_INVARIANT", "1")
    if Path(model).is_dir():
        env["HF_HUB_OFFLINE"] = "1"
    argv = [sys.executable, "-m", "tomserve.serving.vllm_cli", "serve", model]
    for name, value in (flags | preset.flags).items():
        if value is True:
            argv.append(f"--{name}")
        elif value is False:
            argv.append(f"--no-{name}")
        else:
            argv += [f"--{name}", str(value)]
    return Command([*argv, *extra], env | preset.env, {"VLLM_API_KEY": key} if key else {})


def template_file(preset: Preset) -> Path | None:
    """The chat template file that the preset names, or None where the model's own is used. Raises ContentError."""
    if preset.chat_template is None or preset.chat_template.file is None:
        return None
    name = preset.chat_template.file
    found = content.find(f"{TEMPLATES}/{name}") if "/" not in name else None
    if found is None:
        raise ContentError("chat template not found", path=Path(TEMPLATES) / name, field="chat_template.file")
    return found
