"""The process that asks an experiment: `tomserve eval`, in a session of its own, so that it outlives the worker.

As long as it lives it holds the lock of a file in ``runs/.web/jobs``, which the worker has handed to it. So whoever
comes after a worker that was killed knows which experiments still run, from the first moment on.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tomserve.content import files
from tomserve.content.paths import absolute_runs_root, runs_root
from tomserve.content.text import sanitize
from tomserve.engine.records import utc_now
from tomserve.engine.redact import Redactor
from tomserve.errors import ConfigError
from tomserve.serving import keys, registry
from tomserve.workflows import evaluate

CONSOLE = "console.txt"
"""The file of a run that takes what the command prints."""

LONGEST_CONSOLE = 8 << 20
"""Bytes after which the file is emptied."""

TOLD = 2000
"""Bytes of its end that are looked at for the last line."""

AGAIN, AT_LAST = 75.0, 100.0
"""Seconds after which a process that was asked to end is asked again, and after which it is killed."""


class Child:
    """A process that asks an experiment, begun by this worker or left by an earlier one."""

    def __init__(self, name: str, folder: Path, process: subprocess.Popen[bytes] | None = None) -> None:
        self.name, self.folder = name, folder
        self._process = process
        self._asked: list[float] = []

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return alive(self.name) if self._process is None else self._process.poll() is None

    @property
    def code(self) -> int | None:
        """Its exit code, a negative one where a signal killed it; None where nobody knows it."""
        return None if self._process is None else self._process.returncode

    def stop(self) -> None:
        """Ask it to end, so that nothing is lost; later once more, which ends it at once, and kill it at last. May be
        called again and again."""
        moment = time.monotonic()
        passed = moment - self._asked[0] if self._asked else 0.0
        number = signal.SIGKILL if passed > AT_LAST else signal.SIGTERM
        due = (0.0, AGAIN, AT_LAST)
        if len(self._asked) < len(due) and passed >= due[len(self._asked)]:
            self._asked.append(moment)
            pid = self._process.pid if self._process is not None else left_by(self.name)
            if pid is not None and self.alive:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)

    def bound(self) -> None:
        """Empty the file that takes what it prints, where that has become too long."""
        with contextlib.suppress(OSError, ConfigError):
            path = self.folder / CONSOLE
            if path.lstat().st_size > LONGEST_CONSOLE:
                with os.fdopen(files.open_regular(path, os.O_WRONLY | os.O_APPEND), "ab") as file:
                    file.truncate(0)


def begin(name: str, folder: Path, environment: Mapping[str, str], turn: int) -> Child | None:
    """Begin to ask the experiment in a run's folder; None where a process does so already.

    environment: of the process. turn: of the card, which is noted where the process prints to. Raises OSError and
    ConfigError where it cannot be begun.
    """
    lock = os.open(_lock(name), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        os.ftruncate(lock, 0)
        with os.fdopen(files.open_regular(folder / CONSOLE, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as console:
            console.write(f"{utc_now()} begins, turn {turn}\n".encode())
            console.flush()
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tomserve", "eval"),
                    *("--config", str((folder / evaluate.EXPERIMENT_FILE).absolute()), "--run", str(folder.absolute())),
                ],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                env={**environment, "PYTHONUNBUFFERED": "1"},
                pass_fds=(lock,),
                start_new_session=True,
            )
        with contextlib.suppress(OSError):
            os.pwrite(lock, f"{process.pid} {registry.process_birth(process.pid) or ''}\n".encode(), 0)
        return Child(name, folder, process)
    finally:
        os.close(lock)  # the process has it, too, and so the lock is held until that ends


def alive(name: str) -> bool:
    """Whether a process asks the experiment of that name."""
    try:
        lock = os.open(_lock(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def left_by(name: str) -> int | None:
    """The id of the process that asks an experiment, as the worker that began it has noted it; None where that is not
    known, or is another process by now."""
    try:
        noted, _, birth = _lock(name).read_text("ascii").strip().partition(" ")
    except (OSError, ValueError):
        return None
    pid = int(noted) if noted.isdigit() else 0
    return pid if pid and birth and registry.process_birth(pid) == birth else None


def said(folder: Path, begins: str = "") -> str:
    """The last line that the command has printed, or the last one that begins so; "" where there is none."""
    with contextlib.suppress(OSError, ConfigError), files.open_for_reading(folder / CONSOLE) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - TOLD))
        text = Redactor(*keys.all_keys())(file.read(TOLD).decode("utf-8", "replace"))
        for root in (absolute_runs_root(), runs_root().absolute()):
            text = text.replace(str(root), "runs")  # where that lies is nobody's business
        for line in reversed(text.splitlines()):
            if line.strip() and line.startswith(begins):
                return sanitize(line.strip().removeprefix("tomserve: "))[:500]
    return ""


def _lock(name: str) -> Path:
    folder = runs_root() / ".web" / "jobs"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.lock"
