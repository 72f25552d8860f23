"""Plants faults into copies of the checkout, one at a time, and says which of them the tests find, and by which test.

    python bench/mutants.py [--tier default|system] [--only NAME ...] [--out FILE] [--limit 360]
    python bench/mutants.py --check            # whether each can still be planted; runs no test

The faults stand in bench/mutants.yaml: each replaces a text that stands once in its file, and names the tests that are
tried, in that order, a pytest of its own for each, until one of them fails. That test is then tried once more without
the fault: one that fails anyway is left out, and the search goes on. FILE gets a line of JSON for each fault and tier;
what it holds already is left out, and so is in `system` what `default` has found. Exits with 1 where the list is old.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from _figures import figure

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "bench/mutants.yaml"
LEFT_BEHIND = shutil.ignore_patterns(".git", ".venv", "build", "dist", "shared", ".*_cache", ".hypothesis")
UNSHRUNK = """
settings.register_profile("unshrunk", phases=[one for one in settings().phases if one.name in ("explicit", "generate")])
settings.load_profile("unshrunk")
"""
"""What is added to tests/conftest.py: an example that fails is not made smaller, which takes minutes."""
TIERS = ("default", "system")
FOUND, MISSED, LATE, UNPLANTED, BROKEN = "found", "not found", "time limit", "cannot be planted", "pytest failed"
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.M)


@dataclass(frozen=True)
class Fault:
    """One fault. file: where it is planted. old, new: the text that is replaced, which stands there once, and by what.
    tests: files, folders or tests, in the order in which they are tried. harm: what a user would suffer."""

    name: str
    file: str
    old: str
    new: str
    tests: Sequence[str]
    harm: str

    def gone(self, root: Path) -> str:
        """Why it cannot be planted there; empty where the old text stands there exactly once."""
        path = root / self.file
        times = path.read_text("utf-8").count(self.old) if path.exists() else 0
        return "" if times == 1 else f"{self.name}: {self.file} holds {self.old!r} {times} times, not once"

    def plant(self, root: Path, *, back: bool = False) -> None:
        """Plant it, or take it `back`; the file gets a time that no module has which was compiled before."""
        path, stamp = root / self.file, time.time() + 2
        sound = (ROOT / self.file).read_text("utf-8")
        path.write_text(sound if back else sound.replace(self.old, self.new), "utf-8")
        os.utime(path, (stamp, stamp))


def environment(copy: Path) -> dict[str, str]:
    """The surroundings of a test in a copy: it imports the copy, finds others' data, and leaves its files beside it."""
    data = os.environ.get("TOMSERVE_DATA") or str(ROOT.parent / "shared/data")
    return {**os.environ, "PYTHONPATH": str(copy), "TMPDIR": str(copy.parent), "TOMSERVE_DATA": data}


@contextlib.contextmanager
def copied() -> Iterator[Path]:
    """A copy of the checkout, for a while. Raises RuntimeError where a process in it would import another tomserve."""
    with tempfile.TemporaryDirectory(prefix="m-", ignore_cleanup_errors=True) as folder:
        copy = Path(folder).resolve() / "c"
        shutil.copytree(ROOT, copy, ignore=LEFT_BEHIND, symlinks=True)
        with (copy / "tests/conftest.py").open("a", encoding="utf-8") as file:
            file.write(UNSHRUNK)
        words = [sys.executable, "-c", "import tomserve; print(tomserve.__file__)"]
        said = subprocess.check_output(words, cwd=copy, env=environment(copy), text=True).strip()
        if copy not in Path(said).resolve().parents:
            raise RuntimeError(f"the tests of {copy} would import {said}, which has no fault")
        yield copy


def tested(copy: Path, words: Sequence[str], seconds: float) -> tuple[int | None, str]:
    """The exit code of pytest in a copy, None where it took too long; and what it printed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", *words]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as out:
        where: dict[str, Any] = {"cwd": copy, "env": environment(copy), "start_new_session": True}
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, **where)
        code: int | None = None
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(max(1.0, seconds))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # also what a test has left running
            process.wait()
        out.seek(0)
        return code, out.read()


def tried(fault: Fault, tier: str, limit: float) -> tuple[str, str]:
    """What came of a fault in a tier, and by which test or why."""
    end, words = time.monotonic() + limit, ["-m", "system"] if tier == "system" else []
    with copied() as copy:
        if told := fault.gone(copy):
            return UNPLANTED, told
        waiting = [test for test in fault.tests if (copy / test.partition("::")[0]).exists()]
        if gone := set(fault.tests) - set(waiting):
            print(f"{fault.name}: {gone}: not there any more", flush=True)
        while waiting:
            fault.plant(copy)
            code, said = tested(copy, [*words, waiting[0]], end - time.monotonic())
            if code is None:
                return LATE, f"in {waiting[0]}"
            if code in (0, 5):  # 5: no test of this tier
                words.append(f"--ignore={waiting.pop(0)}")
                continue
            if (found := _FAILED.search(said)) is None:
                return BROKEN, said[-200:]
            fault.plant(copy, back=True)
            if tested(copy, [*words, found[1]], limit)[0] == 0:
                return FOUND, found[1]
            words.append(f"--deselect={found[1]}")
    return MISSED, ""


def kept(path: Path) -> dict[tuple[str, str], Any]:
    """What a file says already, by fault and tier."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    return {(row["fault"], row["tier"]): row for row in rows if row["outcome"] in (FOUND, MISSED, LATE)}


def show(listed: Sequence[Fault], rows: dict[tuple[str, str], Any]) -> None:
    """Print the table in Markdown, and how many faults were found."""
    print("\n| fault | " + " | ".join(TIERS) + " | found by | s |\n|---|---|---|---|---|")
    for fault in listed:
        own = [rows.get((fault.name, tier), {"outcome": "", "test": "", "seconds": 0}) for tier in TIERS]
        told = (*(row["outcome"] for row in own), own[1]["test"] or own[0]["test"], sum(row["seconds"] for row in own))
        print("|", fault.name, *(f"| {one}" for one in told), "|")
    for tier in TIERS:
        of = [rows[fault.name, tier] for fault in listed if (fault.name, tier) in rows]
        found = sum(row["outcome"] == FOUND for row in of)
        print(f"{tier}: {found} of {len(of)} found in {sum(row['seconds'] for row in of) / 60:.0f} minutes")
        figure(f"faults found by the tier {tier}", found, rounds=len(of))


def check(listed: Sequence[Fault]) -> int:
    """Say which faults cannot be planted; returns the exit code."""
    print(*(failed := [told for fault in listed if (told := fault.gone(ROOT))]), sep="\n")
    figure("faults that cannot be planted", len(failed), at_most=0, rounds=len(listed))
    return min(1, len(failed))


def main() -> int:
    """Try the faults that are not known yet, and show what is known of all that were chosen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tier", choices=TIERS, default="default", help="which tests are run")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these faults")
    parser.add_argument("--out", type=Path, default=ROOT / "build/bench/mutants.jsonl", help="what is known, and grows")
    parser.add_argument("--limit", type=float, default=360, help="seconds for the tests of one fault")
    parser.add_argument("--check", action="store_true", help="only say which faults cannot be planted any more")
    options = parser.parse_args()
    listed = [Fault(**one) for one in yaml.safe_load(LIST.read_text("utf-8"))]
    if unknown := set(options.only or ()) - {fault.name for fault in listed}:
        parser.error(f"--only: no {sorted(unknown)} in {LIST}")
    if options.check:
        return check(listed)
    listed = [fault for fault in listed if not options.only or fault.name in options.only]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the copy goes with us
    signal.signal(signal.SIGHUP, lambda *_: None)  # what `nohup` has ignored, a test would never hear
    code = 0
    for place, fault in enumerate(listed, 1):
        known, began = kept(options.out), time.monotonic()
        if (fault.name, options.tier) in known or known.get((fault.name, TIERS[0]), {}).get("outcome") == FOUND:
            continue
        outcome, by = tried(fault, options.tier, options.limit)
        seconds = round(time.monotonic() - began)
        row = {"fault": fault.name, "tier": options.tier, "outcome": outcome, "test": by, "seconds": seconds}
        with options.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        code |= outcome == UNPLANTED
        print(f"[{place}/{len(listed)}] {fault.name}: {outcome} ({seconds} s) {by}", flush=True)
    show(listed, kept(options.out))
    return code


if __name__ == "__main__":
    sys.exit(main())
