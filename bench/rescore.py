"""Measures re-scoring: a million recorded responses with belief chains are scored from their files into a table.

    python bench/rescore.py [--rows 1000000] [--own 0 .4 1] [--cores 1 2] [--grown .01] [--folder DIR]

Responses are made from the dataset: 46 copies of every item, 20 models. A share of the rows (--own) has a chain made up
for it, with random beliefs after some of the sentences; of the others, four in ten have a gold chain and the rest one
with some beliefs changed. For each share, and for one core and two, it prints seconds, rows a second, CPU seconds and
the peak memory of all processes together, and the share of distinct (gold, chain) pairs. Then the same rows are scored
as those of a run, which after that grows by --grown of its rows: what scoring it again costs, and how many rows were
read for it. Aim: 1,000,000 rows in 25 s on two cores, under 600 MB, whatever the share.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import orjson
from _figures import figure

from tomserve.benchmarks import get
from tomserve.items import Item

MODELS = 20
COPIES = 46


def make(folder: Path, rows: int, own: float) -> float:
    """Write items.jsonl and responses.jsonl; returns the share of distinct pairs of gold and chain."""
    noise = random.Random(0)
    base = list(get("perturbed").items())
    copies = min(COPIES, 1 + rows // (MODELS * len(base)))
    pairs: set[int] = set()
    written = 0
    with (folder / "items.jsonl").open("wb") as items, (folder / "responses.jsonl").open("wb") as responses:
        for copy in range(copies):
            for item in base:
                named = {
                    **orjson.loads(item.to_json()),
                    "id": f"{copy:02d}/{item.id}",
                    "cluster": f"{copy:02d}/{item.cluster}",
                }
                items.write(orjson.dumps(named) + b"\n")
        for model in range(MODELS):
            for copy in range(copies):
                for item in base:
                    if written < rows:
                        chain = _chain(item, noise, own)
                        pairs.add(hash((item.id, *chain)))
                        responses.write(_response(f"{copy:02d}/{item.id}", f"model-{model:02d}", chain, written))
                        written += 1
    return len(pairs) / written


def _chain(item: Item, noise: random.Random, own: float) -> list[tuple[int, str]]:
    assert item.gold is not None
    chain = list(enumerate(next(item.gold.automaton().chains()), 1))
    if noise.random() < own:
        told = [pair for pair in chain if noise.random() < 0.8] or chain[:1]
        return [(number, noise.choice(item.choices)) for number, _ in told]
    if noise.random() > 0.4:
        return [(number, noise.choice(item.choices) if noise.random() < 0.3 else label) for number, label in chain]
    return chain


def _response(identifier: str, model: str, chain: list[tuple[int, str]], number: int) -> bytes:
    beliefs = [{"sentence": sentence, "belief": belief} for sentence, belief in chain]
    text = orjson.dumps({"beliefs": beliefs, "answer": chain[-1][1]}).decode()
    row = {"schema": 1, "item": identifier, "strategy": "cot", "model": model, "turn": 0, "key": str(number)}
    row |= {"status": "ok", "text": text, "usage": {"prompt": 350, "completion": 90, "cached": 256}, "attempts": 1}
    return orjson.dumps(row) + b"\n"


def measured(command: list[str], cores: int, env: dict[str, str]) -> tuple[float, float, float]:
    """Seconds, CPU seconds and peak memory in MB (of all processes together) of a command on so many cores."""
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, env=env, preexec_fn=partial(os.sched_setaffinity, 0, allowed)
    )
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, _memory(process.pid))
        time.sleep(0.05)
    seconds = time.perf_counter() - began
    if process.returncode not in (0, 1):  # 1 says that many replies could not be read
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, peak


def _memory(pid: int) -> float:
    """Memory in MB of a process and of those that it has started; what they share is counted once."""
    total = 0.0
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) / 1024
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            total += _memory(int(child))
    except (OSError, ProcessLookupError):
        pass  # it has just ended
    return total


def grown(folder: Path, rows: int, share: float, cores: int, env: dict[str, str]) -> None:
    """Score the responses as a run, let the run grow, score it again, and print what that costs."""
    strategies = {"cot": {"digest": "sha256:0", "chain": True}}
    manifest = {"schema": 1, "run": "r", "model": "m", "benchmark": "perturbed", "strategies": strategies}
    (folder / "manifest.json").write_bytes(orjson.dumps({**manifest, "complete": True}))
    journal = folder / "responses.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    new = max(1, round(rows * share))
    journal.write_bytes(b"".join(lines[:-new]))
    tail = lines[-new:]
    del lines
    command = [sys.executable, "-m", "tomserve", "score", str(folder)]
    _print(f"a run of {rows - new} rows", rows - new, measured(command, cores, env), "a run")
    with journal.open("ab") as file:
        file.writelines(tail)
    grew = measured(command, cores, env)
    _print(f"the same, grown by {new} rows, of which alone are read", new, grew, "the same run, grown by a hundredth")


def _print(what: str, rows: int, found: tuple[float, float, float], name: str) -> None:
    """Print what was measured, and hand it over under that name."""
    seconds, cpu, peak = found
    aim = 25 if rows == 1_000_000 and "2 cores" in name else None  # fewer rows say little of it: a start costs as much
    figure(f"{name}, seconds", seconds, unit="s", rounds=rows, at_most=aim)
    figure(f"{name}, peak", peak, unit="MB", rounds=1, at_most=600)
    print(
        f"{what}: {seconds:.1f} s, {rows / seconds:.0f} rows/s, CPU {cpu:.1f} s, peak memory {peak:.0f} MB", flush=True
    )


def main() -> None:
    """Make the files, score them in processes of their own, and print time and memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--own", type=float, nargs="+", default=[0, 0.4, 1], help="shares of rows with their own chain")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--grown", type=float, default=0.01, help="by what share of its rows a run grows [.01]")
    parser.add_argument("--folder", type=Path, help="where to put the files [a temporary folder]")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.folder or Path(scratch) / "runs/r"
        folder.mkdir(parents=True, exist_ok=True)
        env = {**os.environ, "XDG_CACHE_HOME": scratch}
        command = [sys.executable, "-m", "tomserve", "score", "--responses", str(folder / "responses.jsonl")]
        command += ["--items", str(folder / "items.jsonl"), "--out", str(folder / "table.parquet")]
        for own in chosen.own:
            distinct = make(folder, chosen.rows, own)
            size = sum((folder / name).stat().st_size for name in ("items.jsonl", "responses.jsonl")) / 1e6
            print(f"{chosen.rows} rows, {size:.0f} MB, {distinct:.0%} distinct pairs of gold and chain", flush=True)
            for cores in chosen.cores:
                name = f"{own:.0%} own chains, {cores} cores"
                _print(f"  on {cores} cores", chosen.rows, measured(command, cores, env), name)
        grown(folder, chosen.rows, chosen.grown, max(chosen.cores), env)


if __name__ == "__main__":
    main()
