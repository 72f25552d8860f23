"""Copies of the runs that are committed, to be changed by tests."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

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


def change_manifest(folder: Path, **fields: Any) -> None:
    """Put these fields into the manifest of a run."""
    path = folder / "manifest.json"
    path.write_bytes(orjson.dumps({**orjson.loads(path.read_bytes()), **fields}))


def change_rows(folder: Path, change: Callable[[int, dict[str, Any]], dict[str, Any]]) -> None:
    """Change the rows of a run's journal. change: from the number of a row, and the row."""
    journal = folder / "responses.jsonl"
    rows = map(orjson.loads, journal.read_bytes().splitlines())
    journal.write_bytes(b"".join(orjson.dumps(change(number, row)) + b"\n" for number, row in enumerate(rows)))


def shortened(folder: Path, most: int = 24) -> Path:
    """Leave the first items of a run in its folder, and the replies to them; the manifest says nothing of it."""
    items = (folder / "items.jsonl").read_bytes().splitlines(keepends=True)[:most]
    known = {orjson.loads(line)["id"] for line in items}
    (folder / "items.jsonl").write_bytes(b"".join(items))
    lines = (folder / "responses.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "responses.jsonl").write_bytes(b"".join(one for one in lines if orjson.loads(one)["item"] in known))
    return folder
