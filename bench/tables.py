"""Measures the CPU seconds of whole commands, and how many times as long as importing what they need they take.

    python bench/tables.py [--rounds 5] [--models 6] [--before CHECKOUT]

Runs are those of report.py: 1,088 questions by two strategies of each model. Commands are whole processes, imports
included, and run one after another in every round. The unit U is the floor: a process that imports numpy and polars and
ends. `eval` asks the questions of a server in this process, whose time does not count. *from the last answer* is
`tomserve report` of a run of which nothing is kept: it scores, computes the study once, and writes the page.

--before: the same commands of another checkout, each beside ours in every round.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from _figures import figure, spread_figure
from report import make

from tests.conftest import running

TOMSERVE = (sys.executable, "-m", "tomserve")
FLOOR = "import numpy, polars"
AIMS = {"eval": 8, "analyze": 4, "report": 8}
"""Aims in U; beyond these, 5 s for the report of six models and .10 s for the help."""


def cpu(command: list[str], environment: dict[str, str]) -> float:
    """The CPU seconds, of the process and what it started, that a command takes. Raises CalledProcessError."""
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def measure(
    commands: dict[str, list[str]], checkouts: dict[str, Path], folder: Path, rounds: int
) -> dict[str, dict[str, list[float]]]:
    """CPU seconds of each command of each checkout in every round; one more round, the first, does not count."""
    found: dict[str, dict[str, list[float]]] = {name: {who: [] for who in checkouts} for name in commands}
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for number in range(rounds + 1):
        for name, command in commands.items():
            for who, checkout in checkouts.items():
                home = {
                    "PYTHONPATH": str(checkout),
                    "PYTHONSAFEPATH": "1",
                    "XDG_CACHE_HOME": str(folder / who / "cache"),
                }
                home |= {"XDG_STATE_HOME": str(folder / who / "state"), "TOMSERVE_RUNS": str(folder / who / "asked")}
                if name.startswith("from"):
                    shutil.rmtree(home["XDG_CACHE_HOME"], ignore_errors=True)
                    for kept in (folder / who).glob("runs/perturbed-model-0/scores*"):
                        kept.unlink()
                shutil.rmtree(home["TOMSERVE_RUNS"], ignore_errors=True)
                words = [word.replace("HERE", str(folder / who)) for word in command]
                taken = cpu(words, surroundings | home)
                if number:
                    found[name][who].append(taken)
    return found


def main() -> None:
    """Print the median of each command with its lowest and highest round, in seconds and in U."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", type=int, default=6)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT")
    given = parser.parse_args()
    checkouts = {"now": Path(__file__).parents[1]} | ({"before": given.before.absolute()} if given.before else {})
    with tempfile.TemporaryDirectory() as scratch, running() as endpoint:
        folder = Path(scratch)
        for who in checkouts:
            make(folder / who / "runs", given.models)
        first, out = "HERE/runs/perturbed-model-0", "HERE/report.html"
        runs = [f"HERE/runs/perturbed-model-{number}" for number in range(given.models)]
        asking = [*TOMSERVE, "eval", "--base-url", endpoint.url, "--benchmark", "perturbed", "--run", "new"]
        commands = {
            FLOOR: [sys.executable, "-c", FLOOR],
            "help": [*TOMSERVE, "--help"],
            "eval": asking,
            "eval without a report": [*asking, "--no-report"],
            "from the last answer to the report": [*TOMSERVE, "report", first, "--out", out],
            "analyze": [*TOMSERVE, "analyze", first],
            "report": [*TOMSERVE, "report", first, "--out", out],
            f"report of {given.models} models": [*TOMSERVE, "report", *runs, "--out", out],
        }
        found = measure(commands, checkouts, folder, given.rounds)
    unit = statistics.median(found[FLOOR]["now"])
    for name, of in found.items():
        for who, times in of.items():
            middle, aim = statistics.median(times), AIMS.get(name)
            spread = f"{middle:5.2f} s ({min(times):.2f} to {max(times):.2f})"
            told = f"   aim: {aim} U" if aim else ""
            print(f"{name:36s} {who:7s} {spread}  {middle / unit:5.1f} U{told}")
            spread_figure(f"{name}, {who}", times, unit="s CPU")
            if aim and who == "now":
                figure(f"{name}, times {FLOOR}", middle / unit, at_most=aim)


if __name__ == "__main__":
    main()
