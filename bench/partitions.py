"""Measures time and memory of analysing ten million answers that lie in many files, beside a plain scan of the files.

    python bench/partitions.py [--rows 1000000 3000000 10000000] [--each 500000] [--rounds 3] [--loaded] [--folder DIR]

The tables are made from the dataset: its tasks copied, eight questions of each, every question asked by two strategies,
as score tables of parts of one evaluation (--each rows a file; a task lies in one file). Right answers are drawn by
task, so that tasks differ; one reply in fifty could not be read.

*scan* is the floor: Polars reads the columns that the study counts from the same files, and sums what is right.
*counted* is `tomserve analyze FOLDER --study accuracy --by perturbation`, which counts one file after the other and
computes from the sums of clusters; *loaded* (--loaded) is the same of one file with all rows, which are in memory
together, with as many rows as --loaded says. Each is a process of its own; rounds are interleaved. Peaks are ru_maxrss.
Aims at 10,000,000 rows on two cores: counted in under 3 GB. With several numbers of rows it prints what a further
million rows adds, and from that what 100,000,000 would take.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from _figures import figure, spread_figure

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from scale import STRATEGIES, items, text_of

SCAN = """import sys, polars as pl
names = ["model", "strategy", "item", "cluster", "status", "answer", "correct", "perturbation"]
scores = pl.scan_parquet(sys.argv[1] + "/*.parquet")
names += [name for name in scores.collect_schema().names() if name.startswith("rule_")]
sums = (pl.col("correct").sum(), pl.all().exclude("correct").count())
print(scores.select(names).select(sums).collect(engine="streaming"))
"""
PLANNED = 100_000_000


def base(tasks: int) -> pl.DataFrame:
    """The score table of so many tasks of the dataset, each question asked by both strategies."""
    import random

    from tests.helpers.scored import score_table
    from tomserve import benchmarks

    noise = random.Random(0)
    pairs = [
        (item, {"strategy": strategy, "status": "ok", "text": text_of(item, strategy, noise, 0.6), "item": item.id})
        for item in items(tasks)
        for strategy in STRATEGIES
    ]
    return score_table("many", "stand-in", pairs, ["cot"], benchmarks.scoring_of)


def make(folder: Path, rows: int, files: int) -> None:
    """Write so many rows of score tables into so many files of the folder."""
    tasks = base(77)
    copies = rows // tasks.height // files + 1
    draw = np.random.default_rng(0)
    names = tasks["cluster"].unique(maintain_order=True)
    of_task = tasks["cluster"].replace_strict(names, range(len(names)), return_dtype=pl.Int64).to_numpy()
    for number in range(files):
        wanted = rows // files
        parts = []
        for copy in range(copies):
            prefix = f"{number:03d}{copy:04d}/"
            skill = draw.beta(2, 1.5, len(names))[of_task]
            right, read = draw.random(tasks.height) < skill, draw.random(tasks.height) > 0.02
            parts.append(
                tasks.with_columns(
                    pl.format("{}{}", pl.lit(prefix), name).alias(name) for name in ("item", "cluster", "stage")
                ).with_columns(
                    correct=pl.Series(right & read),
                    status=pl.Series(np.where(read, "ok", "invalid")),
                    answer=pl.when(pl.Series(read)).then("answer"),
                )
            )
        pl.concat(parts).head(wanted).sort("item", "model", "strategy").write_parquet(
            folder / f"{number:04d}.parquet", row_group_size=10_000
        )


Taken = tuple[float, float, float]
"""Seconds, CPU seconds and peak memory (GB) of a process."""


def measured(arguments: list[str], log: Path) -> Taken:
    """What a process takes."""
    began = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, *arguments], stdout=out, stderr=subprocess.STDOUT)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(
            f"{' '.join(arguments[:4])}: exit code {process.returncode}; see {log}\n{log.read_text()[-800:]}"
        )
    return time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6


def _ways(folder: Path, log: Path) -> dict[str, list[str]]:
    """The command of each way by its name. folder: of the tables."""
    more = ("--study", "accuracy", "--by", "perturbation", "--format", "json", "--out", str(log.parent / "tables"))
    return {"scan": ["-c", SCAN, str(folder)], "counted": ["-m", "tomserve", "analyze", str(folder), *more]}


def compare(rows: int, files: int, rounds: int, folder: Path) -> dict[str, Taken]:
    """Measure both ways of so many rows; returns the medians of both sorts of seconds and the highest peak of each."""
    tables = folder / f"{rows}-in-{files}"
    if not tables.exists():
        tables.mkdir(parents=True)  # made by another process: a process begins with the peak of the one that starts it
        subprocess.run([sys.executable, __file__, "--make", str(tables), str(rows), str(files)], check=True)
    taken: dict[str, list[Taken]] = {}
    for _ in range(rounds):
        for name, arguments in _ways(tables, folder / "log.txt").items():
            taken.setdefault(name, []).append(measured(arguments, folder / "log.txt"))
    size = sum(path.stat().st_size for path in tables.iterdir()) / 1e6
    print(f"{rows:,} rows in {files} files of {size:,.0f} MB together")
    found = {}
    for name, values in taken.items():
        seconds, busy, peaks = zip(*values, strict=True)
        found[name] = statistics.median(seconds), statistics.median(busy), max(peaks)
        print("  {:8s} {:8.1f} s, {:7.1f} CPU s {:8.2f} GB".format(name, *found[name]), flush=True)
        spread_figure(f"{name}, {rows:,} rows in {files} files, time", seconds, unit="s")
        spread_figure(f"{name}, {rows:,} rows in {files} files, CPU", busy, unit="s")
        aim = {"at_most": 3.0} if name == "counted" and rows >= 10_000_000 else {}
        figure(f"{name}, {rows:,} rows in {files} files, peak", max(peaks), unit="GB", rounds=rounds, **aim)
    ratios = [one[0] / other[0] for one, other in zip(taken["counted"], taken["scan"], strict=True)]
    print(f"  counted takes {statistics.median(ratios):.1f} times the scan")
    spread_figure(f"counted over scan, {rows:,} rows in {files} files", ratios, unit="times")
    return found


def planned(found: dict[int, dict[str, Taken]]) -> None:
    """Print what a further million rows adds between the last two numbers of rows, and what PLANNED rows would take."""
    (less, first), (more, last) = list(found.items())[-2:]
    for name in last:
        for place, (what, unit) in enumerate((("time", "s"), ("CPU", "s"), ("peak", "GB"))):
            each = (last[name][place] - first[name][place]) / (more - less)
            whole = last[name][place] + each * (PLANNED - more)
            print(
                f"{name}, {what}: a further million rows adds {each * 1e6:.3f} {unit}; {PLANNED:,} rows would take ",
                end="",
            )
            print(f"{whole:,.1f} {unit} (extrapolated)")
            figure(f"{name}, a further million rows, {what}", each * 1e6, unit=unit, rounds=len(found))
            figure(f"{name}, {PLANNED:,} rows, {what} (extrapolated)", whole, unit=unit, rounds=len(found))


def main() -> None:
    """Make the tables unless the folder holds them, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000])
    parser.add_argument("--each", type=int, default=500_000, help="rows of a file [500000]")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--loaded", type=int, help="measure so many rows in one file, too, which are in memory together"
    )
    parser.add_argument(
        "--folder", type=Path, help="where to put the tables; those that are there are used [temporary]"
    )
    parser.add_argument("--make", nargs=3, metavar=("FOLDER", "ROWS", "FILES"), help="make tables, and measure nothing")
    chosen = parser.parse_args()
    if chosen.make:
        make(Path(chosen.make[0]), int(chosen.make[1]), int(chosen.make[2]))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        found = {rows: compare(rows, max(1, rows // chosen.each), chosen.rounds, folder) for rows in chosen.rows}
        if len(found) > 1:
            planned(found)
        if chosen.loaded:
            compare(chosen.loaded, 1, chosen.rounds, folder)


if __name__ == "__main__":
    main()
