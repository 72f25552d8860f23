"""The example run divided into parts, as `tomserve shard` and `tomserve work` would leave them."""

import shutil
from pathlib import Path
from typing import Any

import orjson

from tests.conftest import ROOT
from tomserve.content.paths import PARTS_ENDING
from tomserve.distributed.shards import PartRecord, Shards, part_folder

EXAMPLE = ROOT / "runs" / "example"


def divided_example(runs: Path, parts: int = 3, name: str = "mine") -> Path:
    """The folder of the parts of the example run, in a folder of runs; every third task is in another part."""
    folder = runs / f"{name}{PARTS_ENDING}"
    items = [orjson.loads(line) for line in (EXAMPLE / "items.jsonl").read_bytes().splitlines()]
    tasks = {task: place for place, task in enumerate(sorted({item["cluster"] for item in items}))}
    of = {item["id"]: tasks[item["cluster"]] % parts for item in items}
    for number in range(parts):
        part = part_folder(folder, number)
        part.mkdir(parents=True)
        shutil.copy(EXAMPLE / "manifest.json", part / "manifest.json")
        for file, key in (("items.jsonl", "id"), ("responses.jsonl", "item"), ("noise.jsonl", "item")):
            if (EXAMPLE / file).exists():
                lines = (EXAMPLE / file).read_bytes().splitlines(keepends=True)
                (part / file).write_bytes(b"".join(one for one in lines if of[orjson.loads(one)[key]] == number))
    _record(name, of, parts).write(folder)
    return folder


def _record(name: str, of: dict[str, int], parts: int) -> Shards:
    asked = orjson.loads((EXAMPLE / "manifest.json").read_bytes())
    same = (
        "tomserve", "benchmark", "benchmark_digest", "benchmark_items", "model", "revision", "sampling", "strategies",
    )  # fmt: skip
    about = {field: asked[field] for field in same} | {"created": "2026-11-24T00:00:00Z", "experiment": {}}
    tokens: dict[str, Any] = dict.fromkeys(("prompt_tokens", "shared_tokens", "reply_tokens"), 1)
    counts = [list(of.values()).count(number) for number in range(parts)]
    records = (PartRecord(items=one, requests=2 * one, digest="blake2b:0", **tokens) for one in counts)
    return Shards(run=name, parts=tuple(records), **about)
