"""Start-up: `tomserve --help` and `tomserve --version` as multiples of an empty interpreter, interleaved, median of 9.

python bench/startup.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

ROUNDS = 9
COMMANDS = {
    "empty interpreter": [sys.executable, "-c", "pass"],
    "tomserve --version": [sys.executable, "-m", "tomserve", "--version"],
    "tomserve --help": [sys.executable, "-m", "tomserve", "--help"],
    "import openai": [sys.executable, "-c", "import openai"],
}


def seconds(command: list[str]) -> float:
    """Wall time of one start; nan where the command fails (a peer that is not installed)."""
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, check=False)
    return time.perf_counter() - began if done.returncode == 0 else float("nan")


def main() -> None:
    """Print median seconds, spread and the ratio to the empty interpreter."""
    found: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, command in COMMANDS.items():
            found[name].append(seconds(command))
    floor = statistics.median(found["empty interpreter"])
    for name, times in found.items():
        middle = statistics.median(times)
        print(f"{name:20s} {middle:6.3f} s  ({min(times):.3f} to {max(times):.3f})  {middle / floor:5.1f} x")


if __name__ == "__main__":
    main()
