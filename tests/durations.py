"""Where the time of a test run goes: seconds by room and the dearest tests, from pytest's own JUnit files.

    python tests/durations.py build/junit/*.xml

A test run with ``--junitxml FILE`` prints the same tables at its end (see conftest.py).
"""

import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

LONG = 1.0
"""Seconds above which a test has no place in `make test`, but for the one pass through the main job."""


def read(files: Iterable[Path]) -> list[tuple[str, str, float]]:
    """(room, test, seconds) of every test that ran, the dearest first."""
    cases = []
    for file in files:
        for case in ElementTree.parse(file).iter("testcase"):
            parts = case.get("classname", "").removeprefix("tests.").split(".")
            test = f"{'.'.join(parts)}::{case.get('name')}"
            cases.append((parts[0], test, float(case.get("time", 0))))
    return sorted(cases, key=lambda case: -case[2])


def tables(cases: list[tuple[str, str, float]], dearest: int = 20) -> str:
    """Both tables, as Markdown."""
    rooms: dict[str, list[float]] = defaultdict(list)
    for room, _, seconds in cases:
        rooms[room].append(seconds)
    lines = ["| room | tests | seconds | of it in tests over 1 s (how many) |", "|---|---|---|---|"]
    for room, times in sorted(rooms.items(), key=lambda pair: -sum(pair[1])):
        long = [seconds for seconds in times if seconds > LONG]
        lines.append(f"| {room} | {len(times)} | {sum(times):.0f} | {sum(long):.0f} ({len(long)}) |")
    lines.append(f"| all | {len(cases)} | {sum(case[2] for case in cases):.0f} | |")
    lines += ["", "| dearest tests | seconds |", "|---|---|"]
    lines += [f"| {test[:110]} | {seconds:.1f} |" for _, test, seconds in cases[:dearest]]
    return "\n".join(lines)


if __name__ == "__main__":
    print(tables(read(map(Path, sys.argv[1:])), dearest=60))
