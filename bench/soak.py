"""Asks a million questions of a server that misbehaves, kills everything in between, and counts what is lost.

    python bench/soak.py [--requests 1000000] [--minutes 60] [--leg 20000] [--delay 0.01] [--folder DIR]

The runs are real: `tomserve eval`, one run after the other, each resumed until it is complete. The servers are real,
too: processes of their own (bench/_misbehaving.py) that drop connections in every phase of an answer, refuse by storms
of 429 and 503, drip, fall silent, send wrong lengths, broken gzip and garbage, answer twice or for somebody else, are
killed (SIGKILL) and started again at the same port, unload their model for seconds, sometimes come back as another
model (which must stop the run until it is repeated with --accept-change), and repeat the API key that they were sent
wherever they can. The client is killed every few seconds, mostly by SIGKILL, else by SIGTERM or SIGINT; in some runs,
which are larger, it is left alone, and its memory and open files are followed. Some runs have two servers, some have
conversations of several turns, and some use another transport.

Every answer follows from its question, so a swapped one is seen. Exits with 1 where a row was lost, stood there twice
or was swapped, where a key, a temporary file or a process was left anywhere, where a command printed a traceback or did
not end by a signal, where the change of a model was not noticed, or where more was asked again than was in flight when
something was killed. `--plant` does such damage itself, to show that it is seen.
"""

from __future__ import annotations

import argparse
import random
import secrets
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from _figures import figure, spread_figure
from _ledger import FAULTS
from _misbehaving import ECHOES
from _soaked import KINDS, PLANTS, Leg, Setting


@dataclass
class Totals:
    """What all runs so far came to. found: the faults; seen: everything else that is counted."""

    began: float = field(default_factory=time.monotonic)
    found: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    slopes: list[float] = field(default_factory=list)
    files: list[float] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)
    slowest: float = 0.0

    def add(self, leg: Leg) -> None:
        """Count what one run came to."""
        self.found += leg.ledger.found
        self.seen += leg.seen
        self.seen["runs"] += 1
        self.seen["rows"] += len(leg.ledger.final)
        self.slowest = max(self.slowest, leg.slowest)
        self.peaks += [max(samples.memory) for samples in leg.samples if samples.memory]
        if leg.kind.calm:
            rows = sum(leg.ledger.statuses.values())
            longest = max(leg.samples, key=lambda samples: len(samples.written))
            self.slopes += [one for one in [longest.slope(rows)] if one is not None]
            self.files += [one for one in [longest.more_files()] if one is not None]

    def line(self, leg: Leg | None = None) -> str:
        """The state of all runs, and of one that goes on, in one line."""
        found, seen = Counter(self.found), Counter(self.seen)
        rows = seen["rows"]
        if leg is not None:
            found, seen, rows = found + leg.ledger.found, seen + leg.seen, rows + len(leg.ledger.final)
        faults = ", ".join(f"{found[name]} {name}" for name in FAULTS)
        passed = time.monotonic() - self.began
        return (
            f"{passed / 60:5.1f} min: {rows:,} rows ({rows / passed:.0f}/s), {seen['kills']} clients and "
            f"{seen['servers killed']} servers killed, {seen['signals']} signals, {seen['asked again']} asked "
            f"again; {faults}"
        )

    def report(self) -> None:
        """Print what was found, and hand over the figures."""
        passed = time.monotonic() - self.began
        print(self.line())
        print(
            "ends of commands: " + ", ".join(f"{n} x {what}" for what, n in sorted(self.seen.items()) if "exit" in what)
        )
        for name in FAULTS:
            figure(name, self.found[name], at_most=0, rounds=self.seen["rows"])
        for name in ("runs", "rows", "kills", "signals", "servers killed", "changes of the model", "asked again"):
            figure(name, self.seen[name], rounds=1)
        figure("rows a second", self.seen["rows"] / passed, unit="1/s", rounds=1)
        figure("slowest end by a signal", self.slowest, unit="s", rounds=self.seen["signals"])
        if self.peaks:
            figure("peak of memory", max(self.peaks), unit="MB", rounds=len(self.peaks))
        for name, unit, values in (
            ("memory in 100,000 rows", "MB", self.slopes),
            ("open files more at the end", "", self.files),
        ):
            if values:
                print(f"{name}: {statistics.median(values):.1f} {unit} ({min(values):.1f} to {max(values):.1f})")
                spread_figure(name, values, unit=unit)


def soak(chosen: argparse.Namespace, folder: Path) -> Totals:
    """Make one run after the other until the requests or the minutes are used up."""
    key = f"sk-{secrets.token_hex(24)}"
    setting = Setting(folder, key, random.Random(chosen.seed), chosen.delay, chosen.every, tuple(chosen.echoes))
    setting.offences, setting.timeout = chosen.offences, chosen.timeout
    until = time.monotonic() + chosen.minutes * 60 if chosen.minutes else float("inf")
    totals, number, spoken = Totals(), 0, time.monotonic()

    def tell(leg: Leg) -> None:
        nonlocal spoken
        if time.monotonic() - spoken >= 60:
            spoken = time.monotonic()
            leg.examine()
            print(totals.line(leg), flush=True)

    kinds = [kind for kind in KINDS if not chosen.kinds or kind.name in chosen.kinds]
    plants = list(chosen.plant)
    while totals.seen["rows"] < chosen.requests and time.monotonic() < until:
        kind = kinds[number % len(kinds)]
        wanted = min(chosen.leg * kind.size, chosen.requests - totals.seen["rows"])
        leg = Leg(setting, kind, number, max(1, wanted // kind.turns), plants)
        try:
            leg.run(until, tell)
        finally:
            leg.close()
        totals.add(leg)
        number += 1
        print(f"run {number} ({kind.name}): {leg.said()}", flush=True)
        if not leg.ledger.found:
            shutil.rmtree(leg.folder)  # otherwise it is kept, to be looked at
    return totals


def main() -> int:
    """Soak, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000, help="rows to ask in all [%(default)s]")
    parser.add_argument("--minutes", type=float, help="end after so many minutes, if that comes first")
    parser.add_argument("--leg", type=int, default=20_000, help="requests of one run [%(default)s]")
    parser.add_argument("--delay", type=float, default=0.01, help="seconds of an answer in the mean [%(default)s]")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two kills in the mean [%(default)s]")
    parser.add_argument("--offences", type=float, default=0.03, help="share of bad answers [%(default)s]")
    parser.add_argument("--timeout", type=float, default=5.0, help="--timeout of the client [%(default)s]")
    parser.add_argument("--echoes", nargs="*", choices=ECHOES, default=ECHOES, help="where keys are repeated")
    parser.add_argument("--kinds", nargs="*", choices=[kind.name for kind in KINDS], help="kinds of runs [all]")
    parser.add_argument("--plant", nargs="*", choices=list(PLANTS), default=[], help="damage to do, which must be seen")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where to work; what went wrong stays there [temporary]")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (chosen.folder or Path(scratch)).resolve()
        totals = soak(chosen, folder)
    totals.report()
    return 1 if totals.found else 0


if __name__ == "__main__":
    sys.exit(main())
