"""A folder of items and replies that is scored in several parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from tests.conftest import make_item
from tomserve.items import write_items
from tomserve.scoring.sources import ItemFile, ResponseFile
from tomserve.scoring.table import write_scored

CHAIN = '{"beliefs": ["tea", "salt"], "answer": "tea"}'


def make(folder: Path, count: int = 60) -> Path:
    """Write items, and two replies to each of them, into a folder."""
    items = [make_item(n, story=["a", "b"], gold={"sets": [["tea"], ["tea"]]}) for n in range(1, count + 1)]
    write_items(folder / "items.jsonl", items)
    rows = (
        {"item": item.id, "model": model, "text": text, "sample": 0}
        for item in items
        for model, text in (("a", "tea"), ("b", CHAIN))
    )
    (folder / "r.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return folder


def scored(folder: Path, **options: Any) -> bytes:
    """The bytes of the score table of that folder; options: those of write_scored."""
    known = ItemFile(folder / "items.jsonl")
    out = folder / "s.parquet"
    write_scored(known, ResponseFile(folder / "r.jsonl", known, "m"), out, run="r", chains=["vanilla"], **options)
    assert not list(folder.glob(".tomserve-*.work"))
    return out.read_bytes()
