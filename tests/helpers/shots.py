"""Commands in processes of their own that are shot at: a signal is sent at some moment, and what is left is looked at."""

import contextlib
import signal
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import Endpoint, make_item
from tests.helpers.command import environment, run_here
from tomserve.items import write_items

WITHIN = 2.0
"""Seconds within which a command has to end."""

LEFT = (".tomserve-*", ".scoring-*", ".key-*", "tmp*", "*.part", "tomserve-*")
"""What temporary files and folders look like."""


@dataclass
class Shot:
    """What came of a shot. after: seconds from the start to the signal. took: from the signal to the end. running:
    whether the command was still running when the signal was sent. slack: how much longer it may take here."""

    command: str
    number: signal.Signals
    after: float
    running: bool
    took: float
    code: int
    out: str
    err: str
    left: list[str]
    slack: float = 1.0

    def problems(self) -> list[str]:
        """What was not as it has to be, in words."""
        if not self.running or self.code == 0:  # it had ended, or was about to
            return [f"left {self.left}"] if self.left else []
        said = self.err.splitlines()
        if said and "/cli/__init__.py" not in self.err and "tomserve: " not in self.err and not self.left:
            return []  # Python itself was still starting
        found = [f"left {self.left}"] if self.left else []
        by_kernel = self.code == -self.number  # before the first line of tomserve ran, or after the last
        if self.code != 128 + self.number and not by_kernel:
            found.append(f"code {self.code}")
        if not by_kernel and (
            not said or not said[-1].startswith("tomserve: ") or "repeat the command" not in said[-1]
        ):
            found.append("no line on how to go on")
        if any("Traceback" in line or "Exception ignored" in line for line in said):
            found.append("traceback")
        if self.took > WITHIN * self.slack:
            found.append(f"took {self.took:.1f} s")
        return found


@dataclass
class Range:
    """A place with everything that commands need. folder: it. endpoint: a server that answers. commands: by name."""

    folder: Path
    endpoint: Endpoint
    commands: dict[str, list[str]]
    slack: float = 1.0

    def surroundings(self) -> dict[str, str]:
        """The environment of a command, with a folder of its own for temporary files."""
        (self.folder / "tmp").mkdir(exist_ok=True)
        return {**environment(self.folder / "runs"), "TMPDIR": str(self.folder / "tmp")}

    def left(self, group: int) -> list[str]:
        """What a command has left behind: temporary files, and processes of its group."""
        found = [str(path) for pattern in LEFT for path in self.folder.rglob(pattern) if path != self.folder / "tmp"]
        for status in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError, ValueError):
                fields = status.read_text().rpartition(")")[2].split()
                if int(fields[3]) == group and fields[0] != "Z":
                    found.append(f"process {status.parent.name}")
        return found


def ready(folder: Path, endpoint: Endpoint, items: int = 120) -> Range:
    """A place with a run of so many questions, and commands of every kind."""
    write_items(folder / "items.jsonl", [make_item(number) for number in range(items)])
    asking = ["--base-url", endpoint.url, "--benchmark", "items", "--path", str(folder / "items.jsonl")]
    words = ["tomserve", "eval", *asking, "--run", "whole", "--no-report", "--quiet"]
    run_here(words, folder, environment(folder / "runs")).check_returncode()
    endpoint.delay = 0.03
    write = str(folder / "out")
    commands = {
        "eval": ["eval", *asking, "--run", "more", "--concurrency", "4"],
        "score": ["score", "whole", "--out", f"{write}.csv"],
        "analyze": ["analyze", "whole", "--out", f"{write}-tables"],
        "report": ["report", "whole", "--out", f"{write}.html"],
        "compare": ["compare", "whole", "--strategies", "vanilla,cot", "--out", f"{write}-compared"],
        "generate": ["generate", "worlds", "--worlds", "60", "--seed", "7", "--out", f"{write}-worlds.jsonl"],
        "faithfulness": ["faithfulness", "whole", "--base-url", endpoint.url, "--run", "faithful"],
    }
    return Range(folder, endpoint, commands)
