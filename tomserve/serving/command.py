"""From a preset to the vLLM command line and its environment. Nothing is started here."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tomserve import content
from tomserve.errors import ContentError
from tomserve.serving.presets import Preset


@dataclass(frozen=True)
class Command:
    """`argv` to run and the variables to add to the environment."""

    argv: list[str]
    env: dict[str, str]

    def shell(self) -> str:
        """One line that can be pasted into a shell."""
        return shlex.join([*(f"{name}={value}" for name, value in self.env.items()), *self.argv])


def vllm_command(
    preset: Preset, model: str, *, host: str = "127.0.0.1", port: int = 8000, extra: Sequence[str] = ()
) -> Command:
    """The line that serves `model` (a hub id or a folder) as the preset says; `extra` goes last and wins."""
    flags: dict[str, str | int | float | bool] = {
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
    }
    if preset.revision:
        flags["revision"] = preset.revision
    if preset.tensor_parallel > 1:
        flags["tensor-parallel-size"] = preset.tensor_parallel
    if preset.pipeline_parallel > 1:
        flags["pipeline-parallel-size"] = preset.pipeline_parallel
    if preset.chat_template:
        flags["chat-template"] = str(_template(preset.chat_template))
    env = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    if preset.device == "cpu":
        flags["enforce-eager"] = True
        env |= {"VLLM_HOST_IP": "127.0.0.1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    if Path(model).is_dir():
        env["HF_HUB_OFFLINE"] = "1"
    argv = [sys.executable, "-m", "tomserve.serving.vllm_cli", "serve", model]
    for name, value in (flags | preset.flags).items():
        if value is True:
            argv.append(f"--{name}")
        elif value is not False:
            argv += [f"--{name}", str(value)]
    return Command([*argv, *extra], env | preset.env)


def _template(name: str) -> Path:
    found = content.find(f"launch/templates/{name}")
    if found is None:
        raise ContentError("chat template not found", path=Path("launch/templates") / name, field="chat_template")
    return found
