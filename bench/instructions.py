"""Counts the instructions of the client, of scoring and of start-up, and compares them with a baseline.

    python bench/instructions.py                    # against bench/instructions.json; exit code 1 past 10%
    python bench/instructions.py --keep             # take the baseline again
    python bench/instructions.py --only client --plant 0.15   # with 15% more work, to see that it is found

Seconds differ from machine to machine and from minute to minute; the number of instructions hardly does, and valgrind
counts it where a virtual machine has no counters (Debian: valgrind). Hashes are seeded, everything runs on one thread,
and the client's connections lie within its own process (bench/_counted.py), so that two runs differ by less
than 1%, and those of the client by 2%, because what it does once a second comes more often on a busy machine.

client and scoring are the difference of two sizes, divided by the difference of the sizes: neither imports nor what is
done once is in them. start is `tomserve eval` of 34 questions up to the first, with its imports. Tables and
report are left out, since they take minutes under valgrind. What is compared is the ratio to a floor that is counted in
the same run and never changes (rounds of interpreter, JSON, hashing, searching and task switches in Python's own
library), so that a baseline from another build of Python still says something. Where versions differ from those of the
baseline, the bench says which.
"""

from __future__ import annotations

import argparse
import http.server
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from _figures import figure, need
from startup import Answers

HERE = Path(__file__).parent
BASELINE = HERE / "instructions.json"
MOST = 0.10
"""By how much a figure may exceed its baseline."""
PACKAGES = ("httptools", "Jinja2", "orjson", "polars", "pydantic", "scipy", "numpy", "typer", "httpx")
SEED = {"PYTHONHASHSEED": "0", "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
VALGRIND = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--quiet")


@dataclass(frozen=True)
class Counted:
    """A figure: two sizes of the same work, of which the difference counts, or one size that counts whole."""

    name: str
    what: str
    sizes: tuple[int, ...]

    def planted(self, share: float) -> Counted:
        """The same with so much more work, which the figure is not told of."""
        *first, last = self.sizes
        more = last + round(share * (last - sum(first)))
        return Counted(self.name, self.what, (*first, more))

    def of(self, counts: dict[str, int], told: Counted) -> float:
        """Instructions of one unit, or of the whole. told: with the sizes that are believed."""
        values = [counts[f"{self.name}={size}"] for size in self.sizes]
        if len(values) == 1:
            return values[0]
        return (values[1] - values[0]) / (told.sizes[1] - told.sizes[0])


FLOOR = Counted("floor", "a round of the floor", (100, 300))
FIGURES = (
    Counted("client", "a request", (200, 1000)),
    Counted("scoring", "a response", (200, 1000)),
    Counted("start", "to the first question", (34,)),
)


def counts(pieces: list[str]) -> dict[str, int]:
    """The instructions of every piece of work, a name and a size, beyond those of a process that does nothing."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= SEED | {"COUNTED_URL": f"http://127.0.0.1:{server.server_port}/v1"}
    env |= {"PYTHONPATH": os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))}
    with tempfile.TemporaryDirectory() as scratch:
        script = [sys.executable, str(HERE / "_counted.py")]
        kinds = {piece.split("=")[0] for piece in pieces}
        _run([*script, scratch, *(f"{kind}=1" for kind in kinds)], env)  # so that bytecode is there
        (Path(scratch) / "pieces").unlink()
        _run([*VALGRIND, f"--cachegrind-out-file={scratch}/%p", *script, scratch, *pieces], env)
        found: dict[str, int] = {}
        for line in (Path(scratch) / "pieces").read_text().splitlines():
            one = json.loads(line)
            text = (Path(scratch) / str(one["pid"])).read_text()
            count = int(text.rsplit("summary:", 1)[1])
            found[one["piece"]] = count - found.get(one["piece"], 0)  # the empty process comes first
    server.shutdown()
    return found


def _run(command: list[str], env: dict[str, str]) -> None:
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise SystemExit(
            f"exit code {done.returncode}: {' '.join(command)}\n{done.stdout[-1500:]}{done.stderr[-3000:]}"
        )


def measured(chosen: tuple[Counted, ...], plant: float) -> dict[str, dict[str, float]]:
    """Instructions and ratio to the floor of each figure, and the floor itself."""
    real = (FLOOR, *(one.planted(plant) for one in chosen))
    found = counts([f"{one.name}={size}" for one in real for size in one.sizes])
    floor = FLOOR.of(found, FLOOR)
    result = {"floor": {"instructions": round(floor), "floors": 1.0}}
    for one, told in zip(real[1:], chosen, strict=True):
        number = one.of(found, told)
        result[one.name] = {"instructions": round(number), "floors": number / floor}
    return result


def versions() -> dict[str, str]:
    """What the counts depend on beside our own code."""
    valgrind = subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    known = {"python": f"{platform.python_implementation()} {platform.python_version()}",
             "compiler": platform.python_compiler(), "libc": " ".join(platform.libc_ver()),
             "machine": platform.machine(), "valgrind": valgrind}  # fmt: skip
    return known | {name: importlib.metadata.version(name) for name in PACKAGES}


def compare(found: dict[str, dict[str, float]], baseline: dict[str, Any], most: float = MOST) -> list[str]:
    """The names of the figures that exceed their baseline by more than `most`; those that have none are among them."""
    kept = baseline["figures"]
    return [
        name
        for name, one in found.items()
        if name != "floor" and (name not in kept or one["floors"] > kept[name]["floors"] * (1 + most))
    ]


def show(found: dict[str, dict[str, float]], baseline: dict[str, Any]) -> None:
    """Print a line for each figure."""
    print(f"{'figure':10s} {'instructions':>16s} {'floors':>10s} {'baseline':>10s} {'change':>8s}")
    whats = {one.name: one.what for one in (FLOOR, *FIGURES)}
    for name, one in found.items():
        before = baseline.get("figures", {}).get(name, {}).get("floors")
        change = "" if before is None else f"{one['floors'] / before - 1:+.1%}"
        shown = "-" if before is None else f"{before:.4g}"
        print(f"{name:10s} {one['instructions']:16,.0f} {one['floors']:10.4g} {shown:>10s} {change:>8s}  {whats[name]}")
        if name != "floor" and before is not None:
            figure(f"instructions, {name}, over baseline", one["floors"] / before, at_most=1 + MOST)


def main() -> int:
    """Count, print, and compare or keep; returns 1 where a figure exceeds its baseline by too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[one.name for one in FIGURES], metavar="FIGURE")
    parser.add_argument("--keep", action="store_true", help="make what is counted the baseline")
    parser.add_argument("--baseline", type=Path, default=BASELINE, help="the file of the baseline")
    parser.add_argument("--plant", type=float, default=0.0, metavar="SHARE", help="do so much more work than is told")
    options = parser.parse_args()
    need("valgrind")
    chosen = tuple(one for one in FIGURES if not options.only or one.name in options.only)
    if options.keep and (options.plant or (options.only and options.baseline == BASELINE)):
        parser.error("--keep takes all figures, and without planted work")
    found, now = measured(chosen, options.plant), versions()
    baseline = json.loads(options.baseline.read_text()) if options.baseline.exists() and not options.keep else {}
    show(found, baseline)
    if options.keep:
        kept = {"schema": 1, "taken": f"{datetime.now(UTC):%Y-%m-%d}", "with": now, "figures": found}
        options.baseline.write_text(json.dumps(kept, indent=1) + "\n")
        print(f"kept in {options.baseline}")
        return 0
    if not baseline:
        print(f"{options.baseline}: no baseline; take one by --keep", file=sys.stderr)
        return 1
    other = [f"{name} {value} (then {baseline['with'].get(name)})" for name, value in now.items()
             if baseline["with"].get(name) != value]  # fmt: skip
    if other:
        print("the baseline was taken with other versions: " + ", ".join(other))
    if worse := compare(found, baseline):
        print(f"more than {MOST:.0%} above the baseline: {', '.join(worse)}; look for the cause, or, where the work is "
              "wanted, take the baseline again: python bench/instructions.py --keep")  # fmt: skip
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
