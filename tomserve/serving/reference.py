"""The reference checkpoint: built once by ``launch/reference/build.py`` into a cache folder, known by its digest."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tomserve import content
from tomserve.errors import MachineError


def cache_root() -> Path:
    """``TOMSERVE_CACHE``, or tomserve/ in the user's cache folder."""
    chosen = os.environ.get("TOMSERVE_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tomserve"


def checkpoint_path() -> Path:
    """Where the checkpoint of today's recipe lives, built or not."""
    script = content.find("launch/reference/build.py")
    corpus = content.find("launch/reference/corpus.txt")
    if script is None or corpus is None:
        raise MachineError("launch/reference/ is incomplete (build.py, corpus.txt); reinstall tomserve")
    return cache_root() / f"reference-{content.digest(script, corpus)[7:19]}"


def built() -> bool:
    """Whether the checkpoint is there (its digest file is written last)."""
    return (checkpoint_path() / "digest.txt").exists()


def build() -> Path:
    """Build the checkpoint where it is missing; returns its folder. Raises MachineError."""
    folder = checkpoint_path()
    if built():
        return folder
    script = content.find("launch/reference/build.py")
    partial = folder.with_name(f"{folder.name}.part-{os.getpid()}")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        done = subprocess.run([sys.executable, str(script), str(partial)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise MachineError(f"the reference checkpoint could not be built: {last}")
        weights = sorted(partial.glob("*.safetensors"))
        (partial / "digest.txt").write_text(content.digest(*weights, partial / "tokenizer.json") + "\n")
        if folder.exists():  # left by an interrupted build
            shutil.rmtree(folder)
        partial.rename(folder)
    except OSError as error:
        if built():  # another process was faster
            return folder
        raise MachineError(f"{folder}: cannot be written ({error.strerror}); set TOMSERVE_CACHE") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def revision() -> str:
    """Digest of the built checkpoint's weights and tokenizer."""
    return (checkpoint_path() / "digest.txt").read_text().strip()
