"""Changes run folders as chance and hostile people do, reads each by every command, and counts what should not happen.

    python bench/fuzz.py [--folders 10000] [--first 0] [--some 0] [--processes 1] [--keep FILE]

Real runs are the beginning: of one turn and of two, with samples, a noise check, a reader, variants, scores that this
user has kept, of Hi-ToM and generated worlds, and measurements of states and of edited chains. Each folder is a copy of
one of them with one to three changes (bench/_mutating.py) and is read by the commands that read runs, and from
Python, each in a process of its own with limits (bench/_fuzzing.py). Counted are tracebacks, warnings of Python,
exit codes outside of 0 to 3, characters in the output that a terminal could obey, files of the user that were read or
changed, programs that were executed, and commands that took too long or too much memory. --some: by how many commands,
drawn at random, each folder is read; 0 for all of them. --keep: writes every finding as a line of JSON. Exits with 1
where there was any.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from _figures import figure
from _fuzzing import fuzz

SHOWN = 40
"""How many findings are printed at most."""


def run(folder: Path, seeds: list[str], some: int) -> list[dict[str, Any]]:
    """All that is told about these seeds."""
    return list(fuzz(folder, seeds, some))


def main() -> int:
    """Read the arguments, and change and read folders."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--folders", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--some", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    seeds = [str(number) for number in range(given.first, given.first + given.folders)]
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.processes) as pool:
        parts = [seeds[at :: given.processes] for at in range(given.processes)]
        asked = [pool.submit(run, Path(folder) / str(at), part, given.some) for at, part in enumerate(parts)]
        told = [one for part in asked for one in part.result()]
    found = [one for one in told if "found" in one]
    codes: Counter[Any] = Counter(code for one in told for code in one.get("ended", {}).values())
    if given.keep:
        given.keep.write_text("".join(json.dumps(one) + "\n" for one in found))
    for one in found[:SHOWN]:
        print(f"seed {one['seed']}: {one.get('changed', '?')}: {one['command']}: {one['found'][-300:]!r}")
    folders, bad = len({one["seed"] for one in told}), len({one["seed"] for one in found})
    ended = ", ".join(f"{count:,} with {code}" for code, count in sorted(codes.items(), key=str))
    print(f"{folders:,} folders in {time.perf_counter() - began:.0f} s, {codes.total():,} commands ended: {ended}")
    print(f"{bad:,} folders with findings")
    figure("folders that were changed and read", folders, rounds=codes.total())
    figure("folders with a finding", bad, at_most=0, rounds=folders)
    return 1 if found or folders < given.folders else 0


if __name__ == "__main__":
    sys.exit(main())
