"""Measures merging and packing: rows a second, and the peak of memory, beside what copying the same bytes takes.

    python bench/merge.py [--rows 1000000] [--parts 4] [--rounds 3]

A run of so many rows is divided by its items into parts, whose rows lie in no order. In each round the parts are
copied with `cat`, merged, the merged run is packed, and unpacked; each of these is a process of its own, so that its
peak is its own. The floor is `cat`, which neither looks at a row nor knows which counts.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
from _figures import figure, spread_figure

ROOT = Path(__file__).resolve().parents[1]
STEPS = ("cat", "merge", "pack", "unpack")


def fill(folder: Path, rows: int, parts: int) -> None:
    """Write the parts: the rows of the example that comes with the checkout, again and again under other items."""
    source, draw = ROOT / "runs/example", random.Random(0)
    replies = [orjson.loads(line) for line in (source / "responses.jsonl").read_bytes().splitlines()]
    items = {one["id"]: one for one in map(orjson.loads, (source / "items.jsonl").read_bytes().splitlines())}
    manifest = orjson.loads((source / "manifest.json").read_bytes())
    places = [draw.randrange(parts) for _ in range(rows)]
    for part in range(parts):
        place = folder / f"part{part}"
        place.mkdir()
        (place / "manifest.json").write_bytes(orjson.dumps(manifest))
        with (place / "items.jsonl").open("wb") as asked:
            for number in (one for one, at in enumerate(places) if at == part):
                item = items[replies[number % len(replies)]["item"]]
                asked.write(orjson.dumps({**item, "id": f"bench/{number:09}"}) + b"\n")
        with (place / "responses.jsonl").open("wb") as journal:
            journal.writelines(_rows(replies, [one for one, at in enumerate(places) if at == part], draw))


def _rows(replies: list[dict[str, object]], numbers: list[int], draw: random.Random) -> Iterator[bytes]:
    draw.shuffle(numbers)
    for number in numbers:
        row = {**replies[number % len(replies)], "item": f"bench/{number:09}", "strategy": "vanilla"}
        yield orjson.dumps(row | {"key": f"{draw.getrandbits(128):032x}"}) + b"\n"


def child(step: str, folder: Path) -> None:
    """Do one step, and print the peak of memory in megabytes."""
    from tomserve.distributed import journals
    from tomserve.distributed.merge import merge

    if step == "merge":
        merge(sorted(folder.glob("part*")), folder / "mine")
    elif step == "pack":
        journals.pack(folder / "mine", unfinished=True)
    else:
        journals.unpack(folder / "mine")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def timed(step: str, folder: Path) -> tuple[float, float]:
    """Seconds and peak megabytes of one step."""
    began = time.perf_counter()
    if step == "cat":
        files = " ".join(f"part*/{name}" for name in ("items.jsonl", "responses.jsonl"))
        subprocess.run(["sh", "-c", f"cat {files} > copied && sync copied && rm copied"], cwd=folder, check=True)
        return time.perf_counter() - began, 0.0
    command = [sys.executable, __file__, "--child", step, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return time.perf_counter() - began, float(done.stdout)


def main() -> None:
    """Make the parts, take the rounds, and print a line for each step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", nargs=2, metavar=("STEP", "FOLDER"), help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.child:
        child(wanted.child[0], Path(wanted.child[1]))
        return
    found: dict[str, list[tuple[float, float]]] = {step: [] for step in STEPS}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        fill(folder, wanted.rows, wanted.parts)
        for number in range(wanted.rounds):
            for step in STEPS:
                found[step].append(timed(step, folder))
                if step == "pack" and not number:
                    plain = sum(path.stat().st_size for path in folder.glob("part*/responses.jsonl"))
                    ratio = plain / (folder / "mine/responses.parquet").stat().st_size
            for path in (folder / "mine").iterdir():
                path.unlink()
            (folder / "mine").rmdir()
    for step, rounds in found.items():
        seconds, peak = statistics.median(one for one, _ in rounds), max(one for _, one in rounds)
        print(f"{step:8} {seconds:7.2f} s {wanted.rows / seconds:12,.0f} rows/s {peak:8,.0f} MB")
        spread_figure(f"{step}, rows a second", [wanted.rows / one for one, _ in rounds], unit="rows/s")
        if peak:
            figure(f"{step}, peak of memory", peak, unit="MB", rounds=len(rounds))
    print(f"the packed journal is {ratio:.1f} times smaller")
    figure("packed journal, times smaller", ratio, unit="x", at_least=4)


if __name__ == "__main__":
    main()
