"""Names of runs that are free."""

from __future__ import annotations

import itertools
import os

from tomserve import benchmarks
from tomserve.content.paths import runs_root
from tomserve.web.register import is_run
from tomserve.workflows import evaluate


def benchmark() -> str:
    """The benchmark that is asked where an experiment names none."""
    return benchmarks.DEFAULT


def free(wanted: str) -> str:
    """The name, or that name with the first number behind it that is free; its folder is made, so that it is kept."""
    names = itertools.chain([wanted], (f"{wanted[:190]}-{number}" for number in itertools.count(2)))
    for name in names:
        path = runs_root() / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return name
    raise AssertionError("there are names without end")


def is_free(name: str) -> bool:
    """Whether a run of that name can be made: nothing is there but what a submission left that was cut short, it lies
    in no other run, and it leads through no link."""
    folder, parts = runs_root(), name.split("/")
    for place, part in enumerate(parts, 1):
        folder /= part
        if folder.is_symlink() or (place < len(parts) and is_run(folder)):
            return False
    try:
        return {entry.name for entry in os.scandir(folder)} <= {evaluate.EXPERIMENT_FILE}
    except FileNotFoundError:
        return True
    except OSError:
        return False
