"""Sends signals to every command at random moments, and looks at how each ends and what it leaves behind.

    python bench/signals.py [--shots 400] [--only score report] [--slack 3]

Each shot starts a command as a process of its own, waits for a moment that is drawn at random between its start and its
end, and sends SIGINT, SIGTERM or SIGHUP. It counts the commands that took longer than two seconds to end (--slack times
as long on a machine that does other things), ended with another exit code than 128 and the signal's number, printed a
traceback or no line on how to go on, and what was left behind: temporary files and folders, and processes. A command
that waits for replies which are under way is one that asks; there the first signal waits for them, at most half a
minute, and these take 30 ms. Exits with 1 unless all counts are zero.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from _figures import figure
from kill import start

from tests.helpers.shots import Range, Shot, ready

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


LONGEST = 20.0
"""Seconds of a command in which it is shot at; the rest of a longer one goes on as these do."""


def further(place: Range) -> dict[str, list[str]]:
    """The commands that only this bench shoots at."""
    url, write = place.endpoint.url, str(place.folder / "out")
    return {
        "plan": ["plan", "--benchmark", "perturbed", "--people", "20"],
        "items": ["items", "perturbed-2", "--variants", "all", "--limit", "60", "--out", f"{write}.jsonl"],
        "validate": ["dataset", "validate"],
        "audit": ["dataset", "audit", "perturbed"],
        "show": ["dataset", "show", "perturbed"],
        "questionnaire": ["dataset", "questionnaire", "--out", f"{write}-forms"],
        "runs": ["runs"],
        "doctor": ["doctor"],
        "stability": ["stability", "--base-url", url, "--run", "stable", "--limit", "8"],
        "functional": ["functional", "--base-url", url, "--run", "layers", "--limit", "8"],
        "causal": ["causal", "reference", "--run", "inside"],
    }


def begun(place: Range, name: str) -> subprocess.Popen[str]:
    """Start a command, with a folder of its own for temporary files."""
    command = [sys.executable, "-X", "faulthandler", "-m", "tomserve", *place.commands[name]]
    return subprocess.Popen(
        command,
        env=place.surroundings(),
        cwd=place.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_heard,
    )


def _heard() -> None:
    """Hear all signals again, also where this process was started by `nohup` or in the background."""
    for number in NUMBERS:
        signal.signal(number, signal.SIG_DFL)


def shot_at(place: Range, name: str, number: signal.Signals, after: float) -> Shot:
    """Start a command, send it a signal so many seconds later, and look at what is left once it has ended."""
    process = begun(place, name)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(after)
    running, began = process.poll() is None, time.monotonic()
    if running:
        process.send_signal(number)
    try:
        out, err = process.communicate(timeout=45)
    except subprocess.TimeoutExpired:  # -X faulthandler tells where it is
        process.send_signal(signal.SIGABRT)
        out, err = process.communicate(timeout=45)
    finally:
        took = time.monotonic() - began
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    left = place.left(process.pid)
    return Shot(name, number, after, running, took, process.returncode, out, err, left, place.slack)


def cleared(place: Range) -> None:
    """Remove what commands have written, so that each begins anew; the run that they read stays."""
    for path in [*place.folder.glob("out*"), *(place.folder / "runs").iterdir()]:
        if path.name not in ("whole", ".servers"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def lasts(place: Range, name: str) -> float:
    """How many seconds a command takes that nobody stops, at most LONGEST."""
    began = time.monotonic()
    process = begun(place, name)
    try:
        _, err = process.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return LONGEST
    if process.returncode not in (0, 1):
        raise SystemExit(f"{name} ended with exit code {process.returncode}: {err}")
    return time.monotonic() - began


def main() -> int:
    """Shoot; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shots", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slack", type=float, default=1.0)
    parser.add_argument("--only", nargs="+", default=[])
    chosen = parser.parse_args()
    moments = random.Random(chosen.seed)
    bad: list[Shot] = []
    took: list[float] = []
    count: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        place = ready(Path(scratch), start())
        place.slack = chosen.slack
        place.commands |= further(place)
        known = list(chosen.only or place.commands)
        whole = {}
        for name in known:
            cleared(place)
            whole[name] = lasts(place, name)
        for number in range(chosen.shots):
            name = known[number % len(known)]
            cleared(place)
            shot = shot_at(place, name, moments.choice(NUMBERS), moments.random() * whole[name])
            count[name] += shot.running
            took += [shot.took] if shot.running else []
            if problems := shot.problems():
                bad.append(shot)
                print(
                    f"{name}, {shot.number.name} after {shot.after:.2f} of {whole[name]:.1f} s: {'; '.join(problems)}"
                )
                print("\n".join(f"    {line}" for line in shot.err.splitlines()[-30:]), flush=True)
    longest = max(took, default=0.0)
    print(
        f"{count.total()} of {chosen.shots} shots hit a running command: {len(bad)} bad, longest {longest:.2f} s to end"
    )
    figure("commands that ended badly", len(bad), at_most=0, rounds=count.total())
    figure("longest time to end", longest, unit="s", at_most=2 * chosen.slack, rounds=count.total())
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
