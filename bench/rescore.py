"""Measures re-scoring: a million recorded responses with belief chains are scored from their files into a table.

    python bench/rescore.py [--rows 1000000] [--folder DIR]

Responses are made from the dataset: 46 copies of every item, 20 models, a gold chain in four rows of ten, the others
with random beliefs put in. Prints seconds, rows a second, CPU seconds and the peak memory of the scoring process (a
process of its own), and the share of distinct (gold, chain) pairs. Aim: 1,000,000 rows in under 90 s on two cores,
under 1.5 GB.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson

from tomserve.benchmarks import get
from tomserve.items import Item

MODELS = 20
COPIES = 46


def make(folder: Path, rows: int) -> float:
    """Write items.jsonl and responses.jsonl; returns the share of distinct pairs of gold and chain."""
    noise = random.Random(0)
    base = list(get("perturbed").items())
    pairs: set[int] = set()
    written = 0
    with (folder / "items.jsonl").open("wb") as items, (folder / "responses.jsonl").open("wb") as responses:
        for copy in range(COPIES):
            for item in base:
                named = {
                    **orjson.loads(item.to_json()),
                    "id": f"{copy:02d}/{item.id}",
                    "cluster": f"{copy:02d}/{item.cluster}",
                }
                items.write(orjson.dumps(named) + b"\n")
        for model in range(MODELS):
            for copy in range(COPIES):
                for item in base:
                    if written < rows:
                        responses.write(_response(item, f"{copy:02d}/{item.id}", f"model-{model:02d}", noise, pairs))
                        written += 1
    return len(pairs) / written


def _response(item: Item, identifier: str, model: str, noise: random.Random, pairs: set[int]) -> bytes:
    assert item.gold is not None
    chain = list(next(item.gold.automaton().chains()))
    if noise.random() > 0.4:
        chain = [noise.choice(item.choices) if noise.random() < 0.3 else belief for belief in chain]
    pairs.add(hash((item.id, *chain)))
    beliefs = [{"sentence": number, "belief": belief} for number, belief in enumerate(chain, 1)]
    text = orjson.dumps({"beliefs": beliefs, "answer": chain[-1]}).decode()
    row = {"schema": 1, "item": identifier, "strategy": "cot", "model": model, "turn": 0, "status": "ok", "text": text}
    return orjson.dumps({**row, "usage": {"prompt": 350, "completion": 90, "cached": 256}, "attempts": 1}) + b"\n"


def main() -> None:
    """Make the files, score them in a process of its own, and print time and memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where to put the files [a temporary folder]")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        distinct = make(folder, chosen.rows)
        command = [sys.executable, "-m", "tomserve", "score", "--responses", str(folder / "responses.jsonl")]
        command += ["--items", str(folder / "items.jsonl"), "--out", str(folder / "scores.parquet")]
        began = time.perf_counter()
        subprocess.run(command, check=True)
        seconds = time.perf_counter() - began
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        size = sum((folder / name).stat().st_size for name in ("items.jsonl", "responses.jsonl")) / 1e6
    print(
        f"{chosen.rows} rows ({size:.0f} MB, {distinct:.0%} distinct pairs of gold and chain): {seconds:.1f} s, "
        f"{chosen.rows / seconds:.0f} rows/s, CPU {used.ru_utime + used.ru_stime:.1f} s, "
        f"peak memory {used.ru_maxrss / 1024:.0f} MB"
    )


if __name__ == "__main__":
    main()
