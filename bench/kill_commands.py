"""Kills commands on runs at random moments and repeats each: what is there in the end has to be what an undisturbed run
of the command makes, to the byte where two undisturbed runs agree to the byte; of a journal the questions, replies and
their states count, each once.

    python bench/kill_commands.py [--rounds 20] [--commands merge pack ...] [--together] [--mounts]

Each command runs as a process that is forked from this one, so that the kill (SIGKILL) falls into its work and not into
Python's start. What asks a model asks a scripted server. With --together two processes begin the command at once: both
end alike, or one says in a line who is at work. With --mounts each runs on full disks of several sizes and in a folder
that cannot be written, too: it has to end with a message and no traceback, and to work once there is room; then with a
clock that jumps back, and with temporary files where no program may run. Exits with 1 unless nothing is lost, changed
or left behind.
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
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import orjson
from _figures import figure

from tests.conftest import running
from tests.helpers import batches, mechanism, subjects
from tests.helpers.answerers import Answerer, some_items
from tests.helpers.examples import copied_run
from tests.helpers.parted import divided_example
from tests.helpers.queues import until
from tomserve.cli import main
from tomserve.runs.journal import read_rows
from tomserve.serving.server import free_port
from tomserve.web import background

SMALL = ("--benchmark", "perturbed", "--strategy", "cot", "--limit", "60")
ASKED = ("export", "batch", *SMALL, "--model", "tiny", "--run", "queued", "--out", "asked.jsonl", "--quiet")
PORT = free_port()
ASK = ("--base-url", f"http://127.0.0.1:{PORT}/v1", "--no-report", "--quiet")
INSIDE = ("--items", "items.jsonl", "--layers", "3", "--alphas", "0.1", "--fewest", "2", "--device", "cpu")


def analyse() -> None:
    """What the process of the workbench that computes does when it is started, and a page that asks until it has it."""
    huey, _ = background.connect()
    background.restore(huey)
    wish = background.Computation("answers", (Path("runs/whole").absolute(),))
    for again in (False, True):  # what died has failed, and is done again where somebody asks
        while (found := background.find(wish, again=again)) is None:
            again = False
            if (task := huey.dequeue()) is not None:
                huey.execute(task)
        if not found.error:
            return
        assert found.error == background.DIED, found.error
    raise SystemExit(1)


Command = tuple[str, ...] | Callable[[], object]
COMMANDS: dict[str, Command] = {
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
    "faithfulness": ("faithfulness", "asked", "--limit", "6", *ASK),
    "causal": ("causal", "./tiny", *INSIDE, "--run", "inside", "--no-report", "--quiet"),
    "functional": (
        "functional",
        "--weights",
        "./tiny",
        *INSIDE,
        "--cases",
        "12",
        "--limit",
        "12",
        "--run",
        "all",
        "--concurrency",
        "4",  # what is found while it runs decides at which numbers in flight the noise check asks
        *ASK,
    ),
    "search": ("search", "--budget", "200", "--run", "hunt", *ASK),
    "workbench": analyse,
}
DONE = (
    "is there already, and may wait in a queue",
    "is packed already",
    "is not packed, so there is nothing to unpack",
)
"""What commands say that have nothing left to do, where the kill came just before they ended."""
LEFT_OUT = (".lock", "log.txt", "cache", "state", "said")
"""Names of files and folders that are not compared."""


@contextlib.contextmanager
def answering() -> Iterator[None]:
    """A scripted model at PORT, in a process of its own."""
    pid = os.fork()
    if not pid:
        with running(PORT) as server:
            model = Answerer(some_items(), follows=0.5, wrong=0.15)

            def script(body: dict[str, Any], number: int) -> Any:
                with contextlib.suppress(ValueError):  # a question that it does not know
                    return model(body, number)

            server.script, server.delay = script, 0.002
            signal.pause()
    until(lambda: socket.socket().connect_ex(("127.0.0.1", PORT)) == 0)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        finish(pid)


def turn_back(after: float) -> None:
    """Have the clock of this process jump back by two hours after so many seconds."""
    begun, real = time.monotonic(), time.time_ns
    time.time_ns = lambda: real() - (7200 * 10**9 if time.monotonic() - begun > after else 0)
    time.time = lambda: time.time_ns() / 1e9


def start(command: Command, folder: Path, *, name: str = "", back: float | None = None) -> int:
    """Begin a command of tomserve in a folder; returns the id of its process. name: of it, where there are several.
    back: when its clock jumps back."""
    if pid := os.fork():
        return pid
    code = 70
    atexit._clear()  # what this process, and not the command, has to do in the end
    try:
        os.chdir(folder)
        for own in ("cache", "state", "tmp"):
            (folder / own).mkdir(exist_ok=True)
        places = {"TOMSERVE_RUNS": "runs", "XDG_CACHE_HOME": "cache", "XDG_STATE_HOME": "state", "TMPDIR": "tmp"}
        os.environ.update({variable: str(folder / place) for variable, place in places.items()})
        tempfile.tempdir = None
        said = os.open(folder.parent / f"{folder.name}{name}.said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(said, number)
        if back is not None:
            turn_back(back)
        try:
            if not callable(command):
                sys.argv, command = ["tomserve", *command], main
            command()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        sys.stdout.flush()
        atexit._run_exitfuncs()
    finally:
        os._exit(code)


def finish(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def run(command: Command, folder: Path, **more: Any) -> int:
    return finish(start(command, folder, **more))


def said(folder: Path, name: str = "") -> str:
    return (folder.parent / f"{folder.name}{name}.said").read_text("utf-8", "replace")


def contents(folder: Path) -> dict[str, str]:
    """The digest of every file that counts, by its path in the folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and path.name not in LEFT_OUT and name.split("/")[0] not in LEFT_OUT:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
            if path.name == "responses.jsonl":
                fields = ("item", "strategy", "turn", "sample", "key", "status", "text")
                rows = sorted(orjson.dumps([row.get(one) for one in fields]) for _, row in read_rows(path))
                found[f"{name}, what its rows say"] = hashlib.sha256(b"".join(rows)).hexdigest()
    return found


def prepare(name: str, folder: Path) -> None:
    """Make a folder in which the command of that name can run."""
    runs = folder / "runs"
    runs.mkdir(parents=True)
    copied_run(runs / "whole")
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
    if name == "faithfulness":
        known = ("--where", "scenario=false_belief", "--where", "perturbation=none,late_label", "--strategy", "cot")
        assert run(("eval", "--benchmark", "perturbed", *known, "--run", "asked", *ASK), folder) == 0, said(folder)
    if name in ("causal", "functional"):
        assert run(partial(subjects.build, "map", Path("tiny")), folder) == 0, said(folder)
        mechanism.write_items(folder / "items.jsonl", 60)


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


def beside(whole: Undisturbed, moments: random.Random) -> Iterator[list[str]]:
    """Begin the command twice at almost the same time; yields what is wrong when both have ended."""
    while True:
        folder = whole.copy("together")
        pids = [start(whole.command, folder)]
        time.sleep(moments.random() * whole.seconds / 2)
        pids.append(start(whole.command, folder, name="2"))
        codes = [finish(pid) for pid in pids]
        told = [said(folder), said(folder, "2")]
        wrong = whole.faults(folder, 0)
        for code, one in zip(codes, told, strict=True):
            lines = [line for line in one.splitlines() if line.startswith("tomserve: ")]  # others tell how far it is
            if code and (code != 2 or len(lines) != 1):
                wrong.append(f"beside another: exit code {code}: {one[-300:]}")
            elif code and min(codes):
                wrong.append(f"neither goes on: {one}")
            elif code:
                SAID.add(lines[0])
        yield wrong


SAID: set[str] = set()
"""What commands say where another is at work."""


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
    folder = whole.copy("back")
    yield whole.faults(folder, run(whole.command, folder, back=whole.seconds / 2))
    folder = whole.copy("no programs")
    with mounted(folder / "tmp", "-t", "tmpfs", "-o", "noexec", "tmpfs"):
        yield whole.faults(folder, run(whole.command, folder))


def measure(name: str, rounds: int, scratch: Path, *, mounts: bool, together: bool) -> bool:
    """Disturb one command so many times; returns whether all is well."""
    whole, wrong = Undisturbed(name, scratch), []
    found = killed(whole, random.Random(name))
    wrong += [one for _ in range(rounds) for one in next(found)]
    both = beside(whole, random.Random(name))
    alone = not together or name == "workbench"  # which starts one such process
    wrong += [one for _ in range(0 if alone else rounds) for one in next(both)]
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
    parser.add_argument("--together", action="store_true", help="also two processes at once")
    chosen = parser.parse_args()
    good = True
    os.environ["OMP_NUM_THREADS"] = "1"  # threads do not survive a fork
    with answering():
        for name in chosen.commands:
            with tempfile.TemporaryDirectory() as scratch:
                how = {"mounts": chosen.mounts, "together": chosen.together}
                good &= measure(name, chosen.rounds, Path(scratch), **how)
    print("said beside another:", *sorted(SAID), sep="\n  ")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main_of_bench())
