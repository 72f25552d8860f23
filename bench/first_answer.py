"""Measures the time from `tomserve eval` on the embedded model to its first answer, and where it goes.

    python bench/first_answer.py [--rounds 3] [--cold]

Each round runs the evaluation of 20 questions as a process, in a folder of its own, until its first row is there. A
step ends where its line appears in the server's log, or its file in the run's folder; seconds are those of the clock,
CPU seconds those of all processes, threads and ended children included. vLLM runs in two processes, one after the
other: the server reads the command line and the model's configuration, then starts the engine, which imports the same
modules once more, loads the weights and warms up. --cold: with an empty cache of vLLM, as on the day of an
installation, where a third process looks at the class of the model. Medians over rounds, with lowest and highest; no
aim but half of the 57 s that were once seen.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _figures import need, spread_figure

AIM = 28.0
LIMIT = 20
STEPS = (
    ("tomserve: imports, reading the questions", ""),
    ("server: imports of vLLM", "non-default args"),
    ("server: the model's configuration and class", "Using max model len"),
    ("engine: its process, imports of vLLM", "Initializing a V1 LLM engine"),
    ("engine: worker, distributed set-up", "Starting to load model"),
    ("engine: weights", "Loading weights took"),
    ("engine: memory, warm-up", "init engine (profile"),
    ("server: routes", "Application startup complete"),
)
"""What takes time until the server answers, and the words in its log that end each; the first ends where the log is."""
ANSWER = "tomserve: checks, prompts; the first answer"
TICK = os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """A process and everything that it started, at this moment."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:  # it has ended meanwhile
            continue
        parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found


def cpu(pid: int) -> float:
    """CPU seconds of a process, of all that it started, and of those of them that have ended."""
    total = 0
    for one in family(pid):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += sum(int(field) for field in fields[11:15])  # of itself, and of children that it waited for
    return total / TICK


def once(folder: Path, cold: bool) -> dict[str, tuple[float, float]]:
    """Seconds and CPU seconds of every step of one evaluation."""
    env = {**os.environ, "TOMSERVE_RUNS": str(folder / "runs")}
    if cold:
        env["VLLM_CACHE_ROOT"] = str(folder / "cache")
    command = [sys.executable, "-m", "tomserve", "eval", "--limit", str(LIMIT), "--no-report", "--quiet"]
    waiting, found = list(STEPS), dict[str, tuple[float, float]]()
    with (folder / "out").open("wb") as out:
        run = subprocess.Popen([*command, "--run", "first"], env=env, stdout=out, stderr=out, start_new_session=True)
        began, last = time.monotonic(), (0.0, 0.0)
        try:
            while waiting or ANSWER not in found:
                if run.poll() is not None:
                    raise SystemExit(f"the evaluation ended early: {(folder / 'out').read_text()[-2000:]}")
                time.sleep(0.02)
                log, rows = folder / "runs/first/server.log", folder / "runs/first/responses.jsonl"
                text = log.read_text("utf-8", "replace") if log.exists() else None
                while waiting and text is not None and waiting[0][1] in text:
                    now = time.monotonic() - began, cpu(run.pid)
                    found[waiting.pop(0)[0]] = (now[0] - last[0], now[1] - last[1])
                    last = now
                if not waiting and rows.exists() and rows.stat().st_size:
                    now = time.monotonic() - began, cpu(run.pid)
                    found[ANSWER] = (now[0] - last[0], now[1] - last[1])
        finally:
            run.send_signal(signal.SIGTERM)  # which ends the server, too
            run.wait()
    return found


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cold", action="store_true", help="with an empty cache of vLLM")
    options = parser.parse_args()
    need("vllm")
    rounds = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as scratch:
            rounds.append(once(Path(scratch), options.cold))
    names = [*(name for name, _ in STEPS), ANSWER]
    whole = [sum(seconds for seconds, _ in found.values()) for found in rounds]
    busy = [sum(seconds for _, seconds in found.values()) for found in rounds]
    print(f"{'step':46s} {'seconds':>8s} {'CPU s':>7s} {'share':>6s}")
    for name in names:
        seconds, used = (statistics.median(found[name][place] for found in rounds) for place in (0, 1))
        share = statistics.median(found[name][1] / all_ for found, all_ in zip(rounds, busy, strict=True))
        print(f"{name:46s} {seconds:8.2f} {used:7.2f} {share:6.0%}")
    for what, values in (("seconds", whole), ("CPU seconds", busy)):
        print(f"to the first answer: {statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f}) {what}")
    cold = ", empty cache of vLLM" if options.cold else ""
    spread_figure(f"to the first answer{cold}", whole, unit="s", at_most=AIM)
    spread_figure(f"to the first answer{cold}, CPU", busy, unit="s")


if __name__ == "__main__":
    main()
