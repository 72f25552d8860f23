"""Checks the files of an artefact against their digests, computes its tables again from the replies, and compares them.

    python recompute.py --here
    python recompute.py --wheel tomserve-VERSION-py3-none-any.whl

It needs Python 3.11 alone. With --here it uses the environment that it is called with; else it makes a new one and
installs the exact packages of requirements.txt there. The exit code is 0 where all is the same, 1 where anything
differs, 2 where it could not be tried.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CLOSE = 1e-9
"""How far numbers may be apart, relatively, which other processors round otherwise."""


def main() -> int:
    """Check, compute, compare; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--here", action="store_true", help="use the environment of this Python")
    parser.add_argument("--wheel", type=Path, help="tomserve's wheel, for a new environment; else the package registry")
    given = parser.parse_args()
    root = Path(__file__).resolve().parent
    about = json.loads((root / "artefact.json").read_text("utf-8"))
    wrong = list(digests(root))
    for line in wrong:
        print(line)
    print(f"digests: {len(wrong)} wrong")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        python = sys.executable if given.here else environment(folder / "venv", root, about["tomserve"], given.wheel)
        made = compute(python, root, about, folder)
        if made is None:
            return 2
        differing = list(compared(root / "tables" / "csv", made))
    for line in differing:
        print(line)
    print(f"tables: {len(differing)} differences")
    return 1 if wrong or differing else 0


def digests(root: Path) -> Iterator[str]:
    """A line for each file that is missing, or other than SHA256SUMS says, or not named there."""
    named = {}
    for line in (root / "SHA256SUMS").read_text("utf-8").splitlines():
        digest, _, name = line.partition("  ")
        named[name] = digest
        path = root / name
        if not path.is_file():
            yield f"missing: {name}"
            continue
        sha = hashlib.sha256()
        with path.open("rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                sha.update(block)
        if sha.hexdigest() != digest:
            yield f"changed: {name}"


def environment(folder: Path, root: Path, version: str, wheel: Path | None) -> str:
    """Make an environment with the exact packages; returns its Python."""
    venv.create(folder, with_pip=True)
    python = str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")
    install = [python, "-m", "pip", "install", "--quiet"]
    subprocess.run([*install, "-r", str(root / "requirements.txt")], check=True)
    what = str(wheel.resolve()) if wheel is not None else f"tomserve=={version}"
    subprocess.run([*install, "--no-deps", what], check=True)
    return python


def compute(python: str, root: Path, about: dict[str, Any], folder: Path) -> Path | None:
    """Have tomserve compute the tables from copies of the runs; returns their folder, None where that failed."""
    runs, out = folder / "runs", folder / "tables"
    for name in about["runs"]:
        copy(root / "runs" / name, runs / name)
    env = {name: value for name, value in os.environ.items() if not name.startswith("TOMSERVE_")}
    env |= {"TOMSERVE_RUNS": str(runs)}
    call = [python, "-m", "tomserve", "analyze", *about["runs"], "--study", about["study"]]
    call += ["--intervals", about["intervals"], "--format", "csv", "--out", str(out)]
    for option in ("by", "labels"):
        for value in about[option]:
            call += ["--by" if option == "by" else "--label", value]
    done = subprocess.run(call, env=env, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not out.is_dir():  # 1: many replies could not be read, which is a result
        print(f"tomserve could not compute the tables: {done.stderr.strip()[-500:]}")
        return None
    return out


def copy(source: Path, target: Path) -> None:
    """Copy the files of a run, whose scores are computed anew there."""
    target.mkdir(parents=True)
    for path in source.iterdir():
        if path.is_file() and not path.is_symlink():
            (target / path.name).write_bytes(path.read_bytes())


def compared(kept: Path, made: Path) -> Iterator[str]:
    """A line for each table that only one side has, and for each cell that differs."""
    names = {path.name for path in kept.glob("*.csv")} | {path.name for path in made.glob("*.csv")}
    for name in sorted(names):
        if not (kept / name).is_file() or not (made / name).is_file():
            yield f"table {name}: only {'kept' if (kept / name).is_file() else 'computed now'}"
            continue
        one, other = rows(kept / name), rows(made / name)
        if len(one) != len(other) or one[:1] != other[:1]:
            yield f"table {name}: {len(one)} lines kept, {len(other)} now, or other columns"
            continue
        for number, (first, second) in enumerate(zip(one, other, strict=True), 1):
            for column, (a, b) in enumerate(zip(first, second, strict=False)):
                if not same(a, b):
                    yield f"table {name}, line {number}, {one[0][column]}: {a!r} kept, {b!r} now"


def rows(path: Path) -> list[list[str]]:
    """The rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def same(a: str, b: str) -> bool:
    """Whether two cells are the same, numbers up to rounding."""
    if a == b:
        return True
    number = r"-?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
    return bool(re.fullmatch(number, a) and re.fullmatch(number, b)) and math.isclose(
        float(a), float(b), rel_tol=CLOSE, abs_tol=CLOSE
    )


if __name__ == "__main__":
    sys.exit(main())
