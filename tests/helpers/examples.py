"""Copies of the runs that are committed, to be changed by tests."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.conftest import ROOT


def copied_example(runs: Path) -> Path:
    """A copy of the run `example`, of two strategies, in a folder of runs; without what was made from its files."""
    folder = runs / "example"
    folder.mkdir(parents=True)
    for name in ("items.jsonl", "responses.jsonl", "manifest.json"):
        shutil.copy(ROOT / "runs/example" / name, folder / name)
    return folder
