"""Checks the folder ``work/`` of a measured run, which may come from somebody else with what was done so far."""

from __future__ import annotations

import os
from pathlib import Path

from tomserve.content import files
from tomserve.errors import ConfigError


def check_work(path: Path) -> None:
    """Raise ConfigError for anything but files and folders in the folder of work, however deep: a link there could
    have a measurement read or write other files of the user, and a pipe would have it wait for ever."""
    check_folder(path)
    for folder, names, other in os.walk(path):
        for name in names:
            check_folder(Path(folder) / name)
        for name in other:
            files.check_regular(Path(folder) / name, alone=True)


def check_folder(path: Path) -> None:
    """Raise ConfigError unless there is a folder at that path, which is no link, or nothing at all."""
    if os.path.lexists(path) and (path.is_symlink() or not path.is_dir()):
        raise ConfigError(f"{path}: is no folder of this run (a link, or a file); move it away")
