"""The folder that holds the runs, and how a run in it is called, which several rooms have to know."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

PARTS_ENDING = ".parts"
"""How the folder is called that holds the parts of a run: the run's name, and this (see tomserve.shards)."""


def runs_root() -> Path:
    """The folder that holds the runs: ``TOMSERVE_RUNS`` where it is set, else ``./runs``."""
    return Path(os.environ.get("TOMSERVE_RUNS") or "runs")


def whole_root() -> Path:
    """The folder that holds the runs by its one path from ``/``, through no link: a path below it, unlike a name, is
    taken for the same folder by whoever is given it."""
    return runs_root().resolve()


def cache_root() -> Path:
    """The folder for what can be made again, for all programs of the user: ``XDG_CACHE_HOME``, else ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def run_name(folder: Path) -> str:
    """What a run is called: the path of its folder below the one that holds the runs, such as ``pilot/first``.

    A run that lies elsewhere is called like its folder.
    """
    whole, root = folder.resolve(), whole_root()
    return whole.relative_to(root).as_posix() if root in whole.parents else whole.name


def name_given(folder: Path) -> str:
    """What a command is given to find the run in a folder, as a shell takes it: its name or, where it does not lie
    below the folder of runs, its path."""
    if whole_root() in folder.resolve().parents:
        return run_name(folder)
    path = str(folder)
    return shlex.quote(path if path.startswith(("/", "./", "../")) else f"./{path}")
