"""How a bench hands its figures to bench/all.py, which collects those of all benches in one file and one table.

A bench prints for people as it likes, and calls `figure` once for each figure that bench/README.md shows. Alone it
works as before: the figures are only written where BENCH_FIGURES names a file.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

LEFT_OUT = 77
"""The exit code of a bench that cannot run on this machine."""


def figure(
    name: str,
    value: float,
    low: float | None = None,
    high: float | None = None,
    *,
    unit: str = "",
    at_most: float | None = None,
    at_least: float | None = None,
    rounds: int | None = None,
) -> None:
    """Hand over one figure.

    name: what it is, unique in its bench, in some 40 characters. low, high: the lowest and highest round, or an
    interval. unit: of all three. at_most, at_least: the aim, if there is one. rounds: how many rounds, draws or rows
    stand behind it.
    """
    met = None
    if at_most is not None or at_least is not None:
        met = bool((at_most is None or value <= at_most) and (at_least is None or value >= at_least))
    record = {"figure": name, "value": value, "low": low, "high": high, "unit": unit, "at_most": at_most,
              "at_least": at_least, "met": met, "rounds": rounds}  # fmt: skip
    if path := os.environ.get("BENCH_FIGURES"):
        with Path(path).open("a") as file:
            file.write(json.dumps(record, default=float) + "\n")  # numbers of numpy are none of JSON


def spread_figure(name: str, values: Sequence[float], **more: float | int | str | None) -> None:
    """Hand over the median of the values, with the lowest and the highest. more: as for `figure`."""
    import statistics

    figure(name, statistics.median(values), min(values), max(values), rounds=len(values), **more)  # type: ignore[arg-type]  # the names are those of figure


def _module(name: str) -> Callable[[], bool]:
    return lambda: importlib.util.find_spec(name) is not None


def _program(name: str) -> Callable[[], bool]:
    return lambda: bool(shutil.which(name) or shutil.which(name, path="/usr/sbin"))


NEEDS: dict[str, tuple[Callable[[], bool], str]] = {
    "nginx": (_program("nginx"), "nginx is missing: apt-get install nginx-light"),
    "valgrind": (_program("valgrind"), "valgrind is missing: apt-get install valgrind"),
    "vllm": (_module("vllm"), "vLLM is missing: make setup-server"),
    "torch": (_module("torch"), "torch is missing: make setup-server"),
    "gpu": (_program("nvidia-smi"), "there is no GPU: run this on a machine that has one"),
}
"""What a bench may need that a machine may lack: whether it is there, and what to do where it is not."""


def need(*names: str) -> None:
    """End the bench with a line and its own exit code where one of these is missing (see NEEDS)."""
    for name in names:
        there, advice = NEEDS[name]
        if not there():
            print(advice, file=sys.stderr)
            raise SystemExit(LEFT_OUT)
