"""Turns a preset into the vLLM command line and the environment it runs in; nothing is started here."""

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
"""How many requests a server queues. It answers 503 to any beyond that, so the client waits instead of timing out."""


@dataclass(frozen=True)
class Command:
    """A command to run.

    argv: the program and its arguments. env: variables to add to the environment. secret: further variables that
    hold secrets and are therefore never shown, logged or recorded.
    """

    argv: list[str]
    env: dict[str, str]
    secret: dict[str, str] = field(default_factory=dict, repr=False)

    def shell(self) -> str:
        """The command as one line that can be pasted into a shell.

        Secrets are not written out: the line reads them from the variable or file that tomserve took them from.
        """
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
    """The command that serves a model as its preset says.

    preset: what to serve, and how. model: a Hugging Face hub id, or the path of a folder that holds the weights.
    layout: how the model is spread over GPUs; None takes the preset's own numbers, or one GPU. gpus: those that the
    server will run on, by default none. host and port: where it listens. key: the API key that it asks for, which is
    passed in its environment alone; None asks for none. extra: further vLLM flags, which come last and therefore
    override the others. Raises ContentError where the preset's chat template is missing.
    """
    flags: dict[str, Flag] = {
        "host": host,
        "port": port,
        "served-model-name": preset.served_name,
        "dtype": preset.dtype,
        "max-model-len": preset.max_model_len,
        # Otherwise the repository's generation_config could set a repetition penalty or a limit of tokens unnoticed.
        "generation-config": "vllm",
        # "auto" keeps the backend that the first structured request needs, so output would depend on request order.
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
        # Otherwise a greedy answer depends on what else is in the batch. A value that the user has set is kept.
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
    """The path of the chat template that the preset names, or None where it uses the one in the model's repository.

    Raises ContentError where the named file does not exist.
    """
    if preset.chat_template is None or preset.chat_template.file is None:
        return None
    name = preset.chat_template.file
    path = content.find(f"{TEMPLATES}/{name}") if "/" not in name else None
    if path is None:
        raise ContentError("chat template not found", path=Path(TEMPLATES) / name, field="chat_template.file")
    return path
