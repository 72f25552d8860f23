"""Kills commands on runs at random moments and repeats each: what is there in the end has to be what an undisturbed run
of the command makes, to the byte where two undisturbed runs agree to the byte.

    python bench/kill_commands.py [--rounds 20] [--commands merge pack ...]

Each command runs as a process that is forked from this one, so that the kill (SIGKILL) falls into its work and not into
Python's start. Where this process may mount file systems, each runs on full disks of several sizes and in a folder that
cannot be written, too: it has to end with a message and no traceback, and to work once there is room. Exits with 1
unless nothing is lost, changed or left behind.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from _figures import figure

from tests.helpers import batches
from tests.helpers.parted import divided_example, whole_example
from tomserve.cli import main

SMALL = ("--benchmark", "perturbed", "--strategy", "cot", "--limit", "60")
ASKED = ("export", "batch", *SMALL, "--model", "tiny", "--run", "queued", "--out", "asked.jsonl", "--quiet")
COMMANDS: dict[str, tuple[str, ...]] = {
    "merge": ("merge", "mine", "--quiet"),
    "merge again": ("merge", "mine", "--quiet"),
    "pack": ("pack", "whole", "--quiet"),
    "unpack": ("unpack", "packed"),
    "score": ("score", "whole"),
    "seal": ("seal", "whole"),
    "shard": ("shard", *SMALL, "--model", "reference", "--parts", "4", "--run", "new"),
    "export batch": ASKED,
    "import batch": ("import", "batch", "answered.jsonl", "--run", "queued", "--quiet"),
    "export inspect": ("export", "inspect", "whole", "--out", "logs"),
    "import inspect": ("import", "inspect", "log.eval", "--run", "brought"),
    "export artefact": ("export", "artefact", "whole", "--out", "handed.zip"),
    "export hub": ("export", "hub", "whole", "--out", "hub"),
}
DONE = (
    "is there already, and may wait in a queue",
    "is packed already",
    "is not packed, so there is nothing to unpack",
)
"""What commands say that have nothing left to do, where the kill came just before they ended."""
LEFT_OUT = (".lock", "log.txt", "cache", "state", "said")
"""Names of files and folders that are not compared."""


def start(command: tuple[str, ...], folder: Path) -> int:
    """Begin a command of tomserve in a folder; returns the id of its process."""
    if pid := os.fork():
        return pid
    code = 70
    atexit._clear()  # what this process, and not the command, has to do in the end
    try:
        os.chdir(folder)
        for name in ("cache", "state", "tmp"):
            (folder / name).mkdir(exist_ok=True)
        own = {"TOMSERVE_RUNS": "runs", "XDG_CACHE_HOME": "cache", "XDG_STATE_HOME": "state", "TMPDIR": "tmp"}
        os.environ.update({name: str(folder / value) for name, value in own.items()})
        tempfile.tempdir = None
        said = os.open(folder.parent / f"{folder.name}.said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(said, number)
        sys.argv = ["tomserve", *command]
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        sys.stdout.flush()
        atexit._run_exitfuncs()
    finally:
        os._exit(code)


def finish(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def run(command: tuple[str, ...], folder: Path) -> int:
    return finish(start(command, folder))


def said(folder: Path) -> str:
    return (folder.parent / f"{folder.name}.said").read_text("utf-8", "replace")


def contents(folder: Path) -> dict[str, str]:
    """The digest of every file that counts, by its path in the folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and path.name not in LEFT_OUT and name.split("/")[0] not in LEFT_OUT:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def prepare(name: str, folder: Path) -> None:
    """Make a folder in which the command of that name can run."""
    runs = folder / "runs"
    runs.mkdir(parents=True)
    whole_example(runs, "whole")
    if name.startswith("merge"):
        divided_example(runs)
    if name == "merge again":  # one part of three is there at first
        others = [runs / f"mine.parts/000{number}" for number in (1, 2)]
        for one in others:
            one.rename(folder / one.name)
        assert run(COMMANDS["merge"], folder) == 0, said(folder)
        for one in others:
            (folder / one.name).rename(one)
    if name == "unpack":
        (runs / "whole").rename(runs / "packed")
        assert run(("pack", "packed"), folder) == 0, said(folder)
    if name == "import batch":
        assert run(ASKED, folder) == 0, said(folder)
        batches.answered([folder / "asked.jsonl"], folder / "answered.jsonl")
    if name == "import inspect":
        assert run(COMMANDS["export inspect"], folder) == 0, said(folder)
        next((folder / "logs").rglob("*.eval")).rename(folder / "log.eval")
        shutil.rmtree(folder / "logs")


class Undisturbed:
    """What two undisturbed runs of a command make."""

    def __init__(self, name: str, scratch: Path) -> None:
        self.command, self.base, self.scratch = COMMANDS[name], scratch / "base", scratch
        prepare(name, self.base)
        made = []
        for number in range(2):
            begun, folder = time.monotonic(), self.copy(f"undisturbed-{number}")
            assert (code := run(self.command, folder)) == 0, (name, code, said(folder))
            self.seconds = time.monotonic() - begun
            made.append(contents(folder))
            time.sleep(1.1)  # so that whatever names the second differs
        self.names = set(made[0])
        assert self.names == set(made[1]), set(made[0]) ^ set(made[1])
        self.fixed = {path: digest for path, digest in made[0].items() if made[1][path] == digest}

    def copy(self, name: str) -> Path:
        folder = self.scratch / name
        shutil.rmtree(folder, ignore_errors=True)
        return Path(shutil.copytree(self.base, folder))

    def faults(self, folder: Path, code: int) -> list[str]:
        """What is wrong after the command was repeated, in words."""
        found = contents(folder)
        done = code == 0 or (code == 2 and any(one in said(folder) for one in DONE))
        wrong = [] if done else [f"exit code {code}: {said(folder)[-300:]}"]
        wrong += [f"left behind: {name}" for name in set(found) - self.names]
        wrong += [f"missing: {name}" for name in self.names - set(found)]
        return wrong + [f"other bytes: {name}" for name, one in self.fixed.items() if found.get(name, one) != one]


def killed(whole: Undisturbed, moments: random.Random) -> Iterator[list[str]]:
    """Kill the command once, and repeat it; yields what is wrong then."""
    while True:
        folder = whole.copy("killed")
        pid = start(whole.command, folder)
        time.sleep(moments.random() * whole.seconds)
        os.kill(pid, signal.SIGKILL)
        finish(pid)
        yield whole.faults(folder, run(whole.command, folder))


@contextlib.contextmanager
def mounted(place: Path, *options: str) -> Iterator[None]:
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", *options, str(place)], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def crowded(whole: Undisturbed, rounds: int) -> Iterator[list[str]]:
    """Run the command on full disks, and repeat it with more room; then in a folder that cannot be written."""
    size = sum(path.stat().st_size for path in whole.base.rglob("*") if path.is_file())
    for number in range(rounds):
        disk = whole.scratch / "disk"
        room = (size >> 10) + 100 + number * number * 40  # kB
        with mounted(disk, "-t", "tmpfs", "-o", f"size={room}k", "tmpfs"):
            folder = Path(shutil.copytree(whole.base, disk / "here"))
            code = run(whole.command, folder)
            told = (disk / "here.said").read_text("utf-8", "replace")
            wrong = [f"traceback on a full disk: {told[-600:]}"] if "Traceback" in told else []
            subprocess.run(["mount", "-o", f"remount,size={room + (200 << 10)}k", str(disk)], check=True)
            yield wrong + ([] if code == 0 else whole.faults(folder, run(whole.command, folder)))
    folder = whole.copy("locked")
    before = contents(folder)
    with mounted(folder / "runs", "-o", "bind", str(folder / "runs")):
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder / "runs")], check=True)
        run(whole.command, folder)
        wrong = [f"traceback in a locked folder: {said(folder)[-600:]}"] if "Traceback" in said(folder) else []
        now = {name: one for name, one in contents(folder).items() if name.startswith("runs/")}
        yield wrong + [
            f"changed: {name}" for name in before if name.startswith("runs/") and now.get(name) != before[name]
        ]


def measure(name: str, rounds: int, scratch: Path, *, mounts: bool) -> bool:
    """Disturb one command so many times; returns whether all is well."""
    whole, wrong = Undisturbed(name, scratch), []
    found = killed(whole, random.Random(name))
    wrong += [one for _ in range(rounds) for one in next(found)]
    wrong += [one for each in crowded(whole, 6) for one in each] if mounts else []
    print(
        f"{name}: {rounds} kills in {whole.seconds:.2f} s each: {len(wrong)} faults",
        *sorted(set(wrong))[:8],
        sep="\n  ",
    )
    figure(f"{name}, faults after kills", len(wrong), at_most=0, rounds=rounds)
    return not wrong


def main_of_bench() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--commands", nargs="+", choices=list(COMMANDS), default=list(COMMANDS))
    parser.add_argument("--mounts", action="store_true", help="also on full disks and in locked folders; needs root")
    chosen = parser.parse_args()
    good = True
    for name in chosen.commands:
        with tempfile.TemporaryDirectory() as scratch:
            good &= measure(name, chosen.rounds, Path(scratch), mounts=chosen.mounts)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main_of_bench())
