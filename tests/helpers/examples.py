"""Copies of the runs that are committed, to be changed by tests."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.conftest import ROOT


def copied_example(runs: Path) -> Path:
    """A copy of the run `example`, of two strategies, in a folder of runs; without what was made from its files."""
    return copied_run(runs / "example")


def copied_run(folder: Path, run: str = "example") -> Path:
    """A copy of a committed run as that folder, without what was made from its files."""
    source = ROOT / "runs" / run
    measured = () if (source / "responses.jsonl").exists() else ("scores.parquet",)
    folder.mkdir(parents=True)
    for name in ("items.jsonl", "responses.jsonl", "noise.jsonl", "manifest.json", *measured):
        if (source / name).exists():
            shutil.copy(source / name, folder / name)
    return folder
