"""A hundred nodes that fail, in virtual time: is anything lost, and how much is asked twice?

    python bench/nodes.py [--nodes 100] [--questions 100000] [--parts 400] [--between 1500] [--seed 0]

The questions are divided, asked, and merged by tomserve's own planner, run folders, journals, engine and merger. Only
the nodes, their servers and the time are simulated: nodes die (what their disk had not written is lost), are preempted,
reach their time limit, are slow, or go on although they were taken for dead (bench/_cluster.py). A
request takes 8 seconds on average, and a node has 16 in flight.

Shown are how nodes ended, the share of requests that were sent twice (aim: at most 5%), the share of time in which
nodes did not ask, and the time against that of the same nodes without failures. Exit code 1 where a request has no
answer, or two, or another one than the same questions asked as one run, or where the aim is missed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from _cluster import Cluster, Simulation, divided, merged, unsplit
from _figures import figure

from tomserve.runs.journal import read_rows, row_identity

AIM = 0.05
"""The share of requests that may be sent twice."""


def answers(folder: Path) -> list[tuple[object, str, str, str]]:
    """What a run answers, sorted: identity, key, status, text of every row."""
    rows = read_rows(folder / "responses.jsonl")
    return sorted((row_identity(row), row["key"], row["status"], row["text"]) for _, row in rows)


def main() -> int:
    """Simulate, merge, compare, print; 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--questions", type=int, default=100_000)
    parser.add_argument("--parts", type=int, default=400)
    parser.add_argument("--between", type=float, default=1500.0, help="mean seconds of virtual time until a node dies")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tomserve-nodes-") as scratch:
        return simulate(Path(scratch), options)


def simulate(scratch: Path, options: argparse.Namespace) -> int:
    """The simulation in a folder; returns the exit code."""
    os.environ["TOMSERVE_RUNS"] = str(scratch / "runs")
    began = time.perf_counter()
    divided(scratch / "runs/mine.parts", options.questions, options.parts)
    planned = time.perf_counter()
    cluster = Cluster(nodes=options.nodes, between=options.between, seed=options.seed)
    simulation = Simulation(scratch / "runs/mine.parts", cluster, scratch)
    report = simulation.run()
    asked = time.perf_counter()
    merged(simulation, scratch / "runs/mine")
    ended = time.perf_counter()
    for line in report.lines():
        print(line)
    print(f"planned in {planned - began:.1f} s, simulated in {asked - planned:.0f} s, merged in {ended - asked:.1f} s")
    os.environ["TOMSERVE_RUNS"] = str(scratch / "whole")
    unsplit(scratch / "whole/mine", options.questions)
    same = answers(scratch / "runs/mine") == answers(scratch / "whole/mine")
    print("the merged run answers as the run that was never divided" if same else "THE MERGED RUN DIFFERS")
    figure("sent twice", report.repeated, unit="share")
    figure("idle", report.idle, unit="share")
    figure("time against the ideal", report.makespan / report.ideal, unit="times")
    return int(not same or report.repeated > AIM)


if __name__ == "__main__":
    sys.exit(main())
