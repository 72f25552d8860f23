"""Measures the CPU seconds from the last answer to tables and report, beside those of importing what they need.

    python bench/tables.py [--rounds 5] [--models 6]

Runs are those of report.py: 1,088 questions by two strategies of each model. Commands are whole processes, imports
included, and run one after another in every round. *floor* imports numpy and polars and ends. *from the last answer* is
`tomserve report` of a run of which nothing is kept: it scores, computes the study once, and writes the page. Aims: 4 s
for that, 1.5 s for `analyze` and 3 s for `report` from kept scores, 5 s for the report of six models.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from _figures import spread_figure
from report import make

TOMSERVE = (sys.executable, "-m", "tomserve")


def cpu(command: list[str]) -> float:
    """The CPU seconds, of the process and what it started, that a command takes. Raises CalledProcessError."""
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    """Print the median of each command with its lowest and highest round, and the ratio to the floor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", type=int, default=6)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        runs = make(folder / "runs", given.models)
        first, out = runs[0], str(folder / "report.html")
        commands: dict[str, tuple[list[str], float | None]] = {
            "floor: import numpy, polars": ([sys.executable, "-c", "import numpy, polars"], None),
            "from the last answer to the report": ([*TOMSERVE, "report", first, "--out", out], 4.0),
            "analyze": ([*TOMSERVE, "analyze", first], 1.5),
            "report": ([*TOMSERVE, "report", first, "--out", out], 3.0),
            f"report of {given.models} models": ([*TOMSERVE, "report", *runs, "--out", out], 5.0),
        }
        subprocess.run([*TOMSERVE, "report", *runs, "--out", out], check=True, stdout=subprocess.DEVNULL)
        found: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(given.rounds):
            for name, (command, _aim) in commands.items():
                if name.startswith("from"):
                    for kept in Path(first).glob("scores*"):
                        kept.unlink()
                found[name].append(cpu(command))
    floor = statistics.median(found[next(iter(found))])
    for name, times in found.items():
        middle, aim = statistics.median(times), commands[name][1]
        told = "" if aim is None else f"   aim: {aim:g} s"
        print(f"{name:36s} {middle:5.2f} s ({min(times):.2f} to {max(times):.2f})  {middle / floor:5.1f} x{told}")
        spread_figure(name, times, unit="s CPU", at_most=aim)


if __name__ == "__main__":
    main()
