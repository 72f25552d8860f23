"""Checks the files of an artefact against their digests, computes its tables again from the replies, and compares them.

    python recompute.py --here
    python recompute.py --wheel tomserve-VERSION-py3-none-any.whl

It needs Python 3.11 alone. With --here it uses the environment that it is called with; else it makes a new one and
installs tomserve there, by its version from the package registry or from the wheel that --wheel names, and then the
packages that this tomserve was tested with, by their digests. The files of the artefact are data: nothing of it is
installed. The exit code is 0 where all is the same, 1 where anything differs, 2 where it could not be tried.
"""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the artefact's folder, of which a file csv.py would otherwise be taken for Python's own module

import argparse
import csv
import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CLOSE = 1e-9
"""How far numbers may be apart, relatively, which other processors round otherwise."""

LONGEST_NUMBER = 50
"""Cells of more characters are compared as text."""

SHOWN = 20
"""How many lines are printed at most of each kind."""

SUMS = "SHA256SUMS"
LOCKED = "[Ll]ib/**/tomserve/_content/launch/locked/core.txt"
"""Where an installed tomserve keeps the list of its packages."""

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}(/[A-Za-z0-9_][A-Za-z0-9._-]{0,199})*")
STUDY_FILE = re.compile(r"study(/[A-Za-z0-9_.-]+)*/[A-Za-z0-9_-]+\.py")


LARGEST = 64 << 20
"""How many bytes a record or a list of digests may have."""


class CannotTryError(Exception):
    """It cannot be tried; the text says why, and what to do."""


def main() -> int:
    """Check, compute, compare; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--here", action="store_true", help="use the environment of this Python")
    parser.add_argument("--wheel", type=Path, help="tomserve's wheel, if not that of the registry")
    parser.add_argument("--run-study", action="store_true", help="run the study's program that the artefact brings")
    given = parser.parse_args()
    root = Path(__file__).resolve().parent
    try:
        return check(root, given)
    except CannotTryError as error:
        print(f"not tried: {printable(str(error))}")
        return 2
    except (OSError, ValueError, RuntimeError) as error:  # as of links in a circle, or names that no file can have
        print(f"not tried: {printable(str(error))[-500:]}; unzip the artefact anew")
        return 2


def check(root: Path, given: argparse.Namespace) -> int:
    """Check the artefact in that folder. Raises CannotTryError."""
    wrong = list(digests(root, given.wheel))
    tell(wrong, "digests", "wrong")
    about = read_record(root)
    if about["study_file"] is not None and not given.run_study:
        raise CannotTryError(
            f"its tables are made by a program that came with it, {about['study_file']}; read it, as it can do all "
            "that you can, then add --run-study"
        )
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch).resolve()
        python = [sys.executable]
        if not given.here:
            python = [environment(folder / "venv", about["tomserve"], folder, given.wheel), "-I"]
        made = compute(python, root, about, folder)
        differing = list(compared(root / "tables" / "csv", made))
    tell(differing, "tables", "differences")
    return 1 if wrong or differing else 0


def tell(lines: list[str], what: str, how: str) -> None:
    """Print what was found, and how much of it there is."""
    for line in lines[:SHOWN]:
        print(printable(line))
    if len(lines) > SHOWN:
        print(f"... and {len(lines) - SHOWN} more")
    print(f"{what}: {len(lines)} {how}")


def printable(text: str) -> str:
    """The text without characters that a terminal would obey."""
    return "".join(one if one.isprintable() else "?" for one in text)


def read_record(root: Path) -> dict[str, Any]:
    """What artefact.json says. Raises CannotTryError for what tomserve could not have written, because its words become
    those of a command."""
    try:
        about: Any = json.loads(text_of(root / "artefact.json"))
        names = {"study": str, "study_file": str, "wheel": str, "tomserve": str, "intervals": str}
        good = about["schema"] == 1 and isinstance(about["runs"], dict) and bool(about["runs"])
        good = good and all(isinstance(about[name], kind | None) for name, kind in names.items())
        good = good and all(NAME.fullmatch(name) for name in about["runs"])
        good = good and all(re.fullmatch(r"[\w.+-]{1,50}", about[name] or "") for name in ("tomserve", "intervals"))
        good = good and all(isinstance(about[name], list) for name in ("by", "labels"))
        good = good and all(isinstance(one, str) for one in (*about["by"], *about["labels"]))
        good = good and (about["study"] is None) != (about["study_file"] is None)
        good = good and re.fullmatch(r"[A-Za-z0-9_][\w-]{0,99}", about["study"] or "x") is not None
        good = good and re.fullmatch(STUDY_FILE, about["study_file"] or "study/x.py") is not None
        good = good and ".." not in (about["study_file"] or "")
        good = good and re.fullmatch(r"tomserve-[\w.+-]+\.whl", about["wheel"] or "tomserve-0.whl") is not None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CannotTryError(f"artefact.json cannot be read ({error}); unzip the artefact anew") from None
    if not good:
        raise CannotTryError("artefact.json is none that tomserve wrote; unzip the artefact anew")
    found: dict[str, Any] = about
    return found


def digests(root: Path, wheel: Path | None = None) -> Iterator[str]:
    """A line for each file that is missing, or other than SHA256SUMS says, or not named there. wheel: one that the user
    put beside the others."""
    try:
        lines = text_of(root / SUMS).splitlines()
    except (OSError, ValueError) as error:
        raise CannotTryError(f"{SUMS} cannot be read ({error}); unzip the artefact anew") from None
    named = {SUMS}
    for line in lines:
        digest, _, name = line.partition("  ")
        path = root / name
        named.add(name)
        if not name or os.path.isabs(name) or ".." in Path(name).parts or "\\" in name or re.match("[A-Za-z]:", name):
            yield f"leads outside: {name}"
        elif not path.resolve().is_relative_to(root) or path.is_symlink():
            yield f"is a link: {name}"
        elif not path.is_file():
            yield f"missing: {name}"
        elif sha256(path) != digest:
            yield f"changed: {name}"
    own = wheel.resolve() if wheel is not None else None
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if (path.is_symlink() or not path.is_dir()) and name not in named and path.resolve() != own:
            yield f"added: {name}"


def text_of(path: Path) -> str:
    """The text of a file of the artefact. Raises OSError, and ValueError for a link or a device, such as one that never
    ends, and for what is too large."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise ValueError(f"{path.name} is no regular file")
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"{path.name} has more than {LARGEST:,} bytes")
    return data.decode("utf-8")


def sha256(path: Path) -> str:
    """The digest of a file, read block by block."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def environment(folder: Path, version: str, scratch: Path, wheel: Path | None) -> str:
    """Make an environment with tomserve and the packages that it was tested with; returns its Python.

    version: of tomserve, for the registry. scratch: for the file that comes from there. wheel: the user's own one.
    Raises CannotTryError.
    """
    if wheel is None and re.fullmatch(r"\d+(\.\d+){1,3}", version) is None:
        raise CannotTryError(f"tomserve {version} is no release; use --here, or name a wheel that you trust by --wheel")
    if wheel is not None and not wheel.is_file():
        raise CannotTryError(f"{wheel}: no such file; expected tomserve's wheel")
    try:
        venv.create(folder, with_pip=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotTryError(
            f"no new environment can be made ({error}); install Python's venv, or use --here"
        ) from None
    python = str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")
    pip = [python, "-I", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    if wheel is None:
        came = scratch / "wheel"
        # Whoever made the artefact has chosen the version, which may be one with known holes.
        print(f"the artefact names tomserve {version}, which is fetched from the registry; --wheel names another")
        _run([*pip, "download", "--no-deps", "--only-binary=:all:", f"--dest={came}", f"tomserve=={version}"])
        wheel = next(came.iterdir())
    print(f"installing {wheel.name}, sha256:{sha256(wheel)}, and its packages into a new environment ...", flush=True)
    _run([*pip, "install", "--no-deps", "--no-compile", str(wheel.resolve())])
    locked = next(folder.glob(LOCKED), None)
    if locked is None:
        raise CannotTryError(f"{wheel.name} does not say which packages it was tested with; use --here")
    _run([*pip, "install", "--no-deps", "--no-compile", "--require-hashes", f"--requirement={locked}"])
    return python


def _run(command: list[str]) -> None:
    """Call pip. Raises CannotTryError."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotTryError(f"the packages cannot be installed ({last(done.stderr)})")


def compute(python: list[str], root: Path, about: dict[str, Any], folder: Path) -> Path:
    """Have tomserve compute the tables from copies of the runs; returns their folder. Raises CannotTryError. python:
    how Python is called. folder: for what is made."""
    runs, out = folder / "runs", folder / "tables"
    for name in about["runs"]:
        copy(root / "runs" / name, runs / name)
    env = {name: value for name, value in os.environ.items() if not name.startswith("TOMSERVE_")}
    env |= {"TOMSERVE_RUNS": str(runs)}
    call = [*python, "-m", "tomserve"]
    told = subprocess.run([*call, "--version"], env=env, cwd=folder, capture_output=True, text=True, check=False)
    if told.returncode:
        raise CannotTryError(f"this Python has no tomserve ({last(told.stderr)})")
    if (version := told.stdout.strip().removeprefix("tomserve ")) != about["tomserve"]:
        print(f"note: tomserve {printable(version)} computes; the tables were made by {about['tomserve']}")
    study = about["study"] if about["study_file"] is None else str(root / about["study_file"])
    call += ["analyze", *about["runs"], f"--study={study}", f"--intervals={about['intervals']}", "--format=csv"]
    call += [f"--by={one}" for one in about["by"]] + [f"--label={one}" for one in about["labels"]]
    done = subprocess.run([*call, f"--out={out}"], env=env, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not out.is_dir():  # 1: many replies could not be read, which is a result
        raise CannotTryError(f"tomserve cannot compute the tables ({last(done.stderr)})")
    return out


def last(text: str) -> str:
    """The end of what a program said."""
    return " ".join(text.split())[-500:]


def copy(source: Path, target: Path) -> None:
    """Copy the files of a run, but no scores of answers, which are computed anew. Raises CannotTryError."""
    try:
        measured = json.loads(text_of(source / "manifest.json")).get("kind") == "measured"
        target.mkdir(parents=True, exist_ok=True)
        for path in source.iterdir():
            if path.is_file() and not path.is_symlink() and (measured or not path.name.startswith("scores.")):
                shutil.copyfile(path, target / path.name)
    except (OSError, ValueError, AttributeError) as error:
        raise CannotTryError(f"the run {source.name} cannot be read ({error}); unzip the artefact anew") from None


def compared(kept: Path, made: Path) -> Iterator[str]:
    """A line for each table that only one side has, and for each cell that differs."""
    names = {path.name for path in kept.glob("*.csv")} | {path.name for path in made.glob("*.csv")}
    for name in sorted(names):
        if not (kept / name).is_file() or not (made / name).is_file():
            yield f"table {name}: only {'kept' if (kept / name).is_file() else 'computed now'}"
            continue
        one, other = rows(kept / name), rows(made / name)
        if one is None or other is None:
            yield f"table {name}: cannot be read"
            continue
        if [len(row) for row in one] != [len(row) for row in other] or one[:1] != other[:1]:
            yield f"table {name}: {len(one)} lines kept, {len(other)} now, or other columns"
            continue
        for number, (first, second) in enumerate(zip(one, other, strict=True), 1):
            for column, (a, b) in enumerate(zip(first, second, strict=True)):
                if not same(a, b):
                    yield f"table {name}, line {number}, {one[0][column]}: {a!r} kept, {b!r} now"


def rows(path: Path) -> list[list[str]] | None:
    """The rows of a CSV file; None of a file that is no table."""
    csv.field_size_limit(1 << 30)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.reader(file))
    except (OSError, ValueError, csv.Error):
        return None


def same(a: str, b: str) -> bool:
    """Whether two cells are the same, numbers up to rounding."""
    if a == b:
        return True
    if max(len(a), len(b)) > LONGEST_NUMBER:
        return False
    number = r"-?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?"
    return bool(re.fullmatch(number, a) and re.fullmatch(number, b)) and math.isclose(
        float(a), float(b), rel_tol=CLOSE, abs_tol=CLOSE
    )


if __name__ == "__main__":
    sys.exit(main())
