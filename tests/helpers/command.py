"""The command line: in a process of its own, or in this one."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import orjson

from tomserve.cli import main

TOMSERVE = [sys.executable, "-m", "tomserve"]


def environment(runs: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOMSERVE_")}
    return {**kept, "TOMSERVE_RUNS": str(runs), "PYTHONUNBUFFERED": "1"}


def started(runs: Path, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start `tomserve ARGUMENTS` in a process of its own, which says what it says in that file."""
    with log.open("w") as output:
        return subprocess.Popen([*TOMSERVE, *arguments], env=environment(runs), stdout=output, stderr=subprocess.STDOUT)


def tomserve(runs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TOMSERVE, *arguments], env=environment(runs), capture_output=True, text=True, timeout=500, check=False
    )


def run_here(
    words: Sequence[str], folder: Path, env: Mapping[str, str], run: Callable[[], object] = main
) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, which has imported everything, as a new one would run it from that folder with that
    environment. run: what it does; by default what `tomserve` does, whose name and arguments the words are."""
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    code: object = 0
    try:
        with (
            mock.patch.dict(os.environ, env, clear=True),
            mock.patch.object(sys, "argv", [*words]),
            mock.patch.object(sys.modules["__main__"], "__package__", ""),  # else help names pytest
            contextlib.chdir(folder),
            contextlib.redirect_stdout(streams[0]),
            contextlib.redirect_stderr(streams[1]),
        ):
            run()
    except SystemExit as ended:
        code = ended.code
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    out, err = (stream.buffer.getvalue().decode() for stream in streams)  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(words, code if isinstance(code, int) else int(code is not None), out, err)


def ready(record: Path) -> bool:
    """Whether `tomserve serve` has recorded its server there, and the record says no longer that the server loads."""
    return record.exists() and not orjson.loads(record.read_bytes())["loading"]


def until(true: Callable[[], object], seconds: float = 300.0) -> bool:
    """Wait for something to come true; returns whether it has."""
    deadline = time.monotonic() + seconds
    while not (found := bool(true())) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def children(pid: int) -> list[int]:
    """The ids of the children of a process, whichever of its threads started them."""
    return sorted(int(one) for path in Path(f"/proc/{pid}/task").glob("*/children") for one in path.read_text().split())


def group_of(pid: int) -> list[int]:
    """The ids of the living processes of a process group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[2]) == pid:
            found.append(int(stat.parent.name))
    return found


def journal(run: Path, name: str = "responses.jsonl") -> list[dict[str, Any]]:
    """The rows of a run, or of another of its journals, as far as they are written."""
    path = run / name
    return [orjson.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] if path.exists() else []
