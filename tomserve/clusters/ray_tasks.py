"""What runs on the nodes of a Ray cluster: a conductor that lives on its own, and a task for each part.

The conductor is a detached actor: it outlives the command that started it, and Ray starts it again where its node dies.
It owns the tasks, which Ray spreads over the nodes, and runs again where a node dies or a part ends unfinished. A task
runs `tomserve work` as a process of its own, on the GPUs that Ray has given it by CUDA_VISIBLE_DEVICES.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tomserve.content import files
from tomserve.errors import ConfigError, MachineError
from tomserve.runs import progress
from tomserve.shards.record import FILE, part_folder
from tomserve.shards.state import states

NAMESPACE = "tomserve"
"""The namespace of Ray in which the conductors have their names."""

PENDING, RUNNING, FINISHED, FAILED, CANCELLED = ENDINGS = ("PENDING", "RUNNING", "FINISHED", "FAILED", "CANCELLED")
LEFT = (PENDING, RUNNING)
"""The states of parts that are still asked, or going to be."""

LOG = "ray/{:04}.txt"
"""The file beside the parts in which the task of a part keeps what `tomserve work` says."""

LINGER = 3600.0
"""Seconds for which a conductor answers `tomserve status` after its last part has ended."""
GRACE = 60.0
"""Seconds that `tomserve work` has after SIGTERM, in which replies under way arrive and its server is stopped."""
FREE = 180.0
"""Seconds to wait for another process that asks the part, such as one that has just lost its node, to end."""
LAST = 400
"""Characters of the last line of the log that say why a task has failed."""


@dataclass(frozen=True)
class Demand:
    """What a task needs, and how it asks.

    cpus, gpus: of the node that Ray runs it on; a fraction of a GPU is shared with other tasks. restarts: how often Ray
    starts it again. words: further words for `tomserve work`. env: variables for it; none of them is a secret.
    """

    cpus: float = 1.0
    gpus: float = 0.0
    restarts: int = 3
    words: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Told:
    """What the conductor knows of a part.

    state: one of ENDINGS. node: where its task runs, or ran last. starts: how often it has begun. note: why it failed.
    """

    state: str = PENDING
    node: str = ""
    starts: int = 0
    note: str = ""


class Conductor:
    """Has parts asked by tasks of Ray. Made into an actor by `tomserve.clusters.ray.submit`; methods return at once."""

    def __init__(self, name: str, folder: str, parts: Sequence[int], demand: Demand) -> None:
        """Begin with the parts that are not complete.

        name: of this actor. folder: of the parts, by a path that all nodes see. parts: their numbers.
        """
        self._name, self._folder, self._demand = name, folder, demand
        self._told = {number: Told() for number in parts}
        self._refs: dict[Any, int] = {}
        self._lock = threading.Lock()
        self._cancelled = False
        threading.Thread(target=self._conduct, daemon=True).start()

    def told(self) -> dict[int, Told]:
        """What is known of every part, by its number."""
        with self._lock:
            return dict(self._told)

    def began(self, number: int, node: str) -> None:
        """Note that the task of a part has begun on a node."""
        with self._lock:
            self._told[number] = Told(RUNNING, node, self._told[number].starts + 1)

    def cancel(self) -> None:
        """End all tasks, those that run by SIGTERM to their `tomserve work`."""
        import ray

        with self._lock:
            self._cancelled, refs = True, list(self._refs)
        for ref in refs:
            ray.cancel(ref, force=False)

    def _conduct(self) -> None:
        """Hand out the tasks, wait until all have ended, and go."""
        import ray

        try:
            self._hand_out()
            left = list(self._refs)
            while left:
                ended, left = ray.wait(left, num_returns=1)
                for ref in ended:
                    self._end(self._refs[ref], *_ending(ref))
        except Exception as error:  # nobody would hear of it otherwise
            for number, told in self.told().items():
                if told.state in LEFT:
                    self._end(number, FAILED, f"the conductor has failed: {error}")
        time.sleep(LINGER)
        ray.kill(ray.get_actor(self._name, namespace=NAMESPACE))

    def _hand_out(self) -> None:
        """Hand out a task for each part that is not complete."""
        import ray

        complete = {one.number for one in states(Path(self._folder)) if one.state == "complete"}
        demand = self._demand
        # A process of its own for each task, so that nothing of a part that failed is there for the next.
        task = ray.remote(
            num_cpus=demand.cpus, num_gpus=demand.gpus, scheduling_strategy="SPREAD", max_calls=1,
            max_retries=demand.restarts, retry_exceptions=[MachineError],
        )(ask)  # fmt: skip
        for number in self.told():
            if number in complete:
                self._end(number, FINISHED)
                continue
            with self._lock:
                if not self._cancelled:
                    ref = task.options(name=f"part-{number}").remote(self._name, self._folder, number, demand)
                    self._refs[ref] = number
                    continue
            self._end(number, CANCELLED)

    def _end(self, number: int, state: str, note: str = "") -> None:
        with self._lock:
            self._told[number] = replace(self._told[number], state=state, note=note)


def _ending(ref: Any) -> tuple[str, str]:
    """How a task has ended, and why it failed."""
    import ray

    try:
        ray.get(ref)
    except ray.exceptions.TaskCancelledError:
        return CANCELLED, ""
    except ray.exceptions.RayTaskError as error:
        return FAILED, str(error.cause)
    except ray.exceptions.RayError as error:
        return FAILED, (str(error).strip().splitlines() or [type(error).__name__])[0]
    return FINISHED, ""


def ask(name: str, folder: str, number: int, demand: Demand) -> None:
    """Ask a part by `tomserve work` on this node; runs as a task of Ray.

    name: of the conductor. Raises MachineError, after which Ray runs the task again, where the part is not complete
    afterwards, or this node cannot ask it.
    """
    import ray

    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as where Ray was started in the background of a script
        signal.signal(signal.SIGINT, signal.default_int_handler)  # by which Ray cancels a task
    node, place = socket.gethostname(), Path(folder)
    conductor = ray.get_actor(name, namespace=NAMESPACE)
    ray.get(conductor.began.remote(number, node))
    if not (place / FILE).exists():
        raise MachineError(
            f"{node} does not see {place / FILE}; the parts have to lie in a folder that all nodes see by the same path"
        )
    until = time.monotonic() + FREE
    while progress.is_locked(part_folder(place, number)) and time.monotonic() < until:
        time.sleep(0.2)
    log = place / LOG.format(number)
    log.parent.mkdir(exist_ok=True)
    with open(files.open_regular(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as file:
        code = _run(work_command(folder, number, demand), {**os.environ, **dict(demand.env)}, file)
    if code:
        raise MachineError(f"{node}: `tomserve work` ended with exit code {code}: {last_line(log)}")


def work_command(folder: str, number: int, demand: Demand) -> list[str]:
    """The command that asks a part."""
    share = ["--gpu-share", f"{demand.gpus:g}"] if 0 < demand.gpus < 1 else []
    words = ["work", folder, "--part", str(number), "--quiet", *share, *demand.words]
    return [sys.executable, "-m", "tomserve", *words]


def _run(words: Sequence[str], env: Mapping[str, str], log: Any) -> int:
    """Run a command until it ends, and return its exit code. It is told by SIGTERM where this task is cancelled, or
    where the process of this task ends, whatever the reason."""
    with subprocess.Popen(
        words, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        start_new_session=True, preexec_fn=_end_with_parent,
    ) as child:  # fmt: skip
        try:
            while (code := child.poll()) is None:
                time.sleep(0.2)  # no blocking wait: Ray cancels a task by an exception between two steps of Python
            return code
        except BaseException:
            child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(GRACE)
            child.kill()
            raise


def _end_with_parent() -> None:
    """In a new process: ask Linux for SIGTERM once the thread that made it has ended, and hear it by default."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.platform == "linux":
        _LIBC.prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


_LIBC = ctypes.CDLL(None)
"""Loaded before any process is made: between fork and exec nothing may be loaded."""


def last_line(log: Path) -> str:
    """The last line of a log that says something, cut to LAST characters; "" where there is none."""
    try:
        with files.open_for_reading(log) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 65536))
            text = file.read().decode("utf-8", "replace")
    except (OSError, ConfigError):
        return ""
    return next((line.strip()[-LAST:] for line in reversed(text.splitlines()) if line.strip()), "")
