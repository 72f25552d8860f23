"""The processes beside `tomserve web`, which keeps them alive: the worker of the queue, `python -m
tomserve.web.worker`, and the one that computes (tomserve.web.background).

with keep_workers(settings):
    ...                                     # the workbench is served
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict

import orjson

from tomserve.content import files
from tomserve.content.python_file import module_command
from tomserve.content.text import say
from tomserve.errors import ConfigError
from tomserve.web import background
from tomserve.web.jobs import LOOK, Worker
from tomserve.web.run_index import RunIndex
from tomserve.web.settings import Settings

LONGEST_LOG = 1 << 20

PAUSES = (0.5, 2.0, 10.0, 30.0)
"""Seconds until a process that died is started again, each time later; the first again once one has lived LIVED."""

LIVED = 60.0
SOON = 1.0  # seconds after which it is said what is waited for
ENDS = 120.0  # seconds that a worker has to end, with the processes that it has begun


@contextlib.contextmanager
def keep_workers(settings: Settings) -> Iterator[None]:
    """Have both processes run until the block ends. Experiments that run end then, too, and go on the next time."""
    worker = _Keeper(settings, "worker", os.environ)
    computing = _Keeper(settings, "background", background.keyless(settings))
    threads = [threading.Thread(target=one.run, daemon=True) for one in (worker, computing)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        try:
            computing.end()
            worker.end()
            threads[0].join(SOON)
            if threads[0].is_alive():
                # A worker that ends slowly without an experiment that runs by its card has only just begun to start.
                if any(line.card.runs for line in RunIndex().every()):
                    said = "ending: what runs waits for the answers that are on their way (again to end at once) ..."
                    say(said, error=True)
                threads[0].join(ENDS)
        finally:  # whoever is in a hurry need not wait; what runs is adopted by the next worker
            worker.leave()
            computing.leave()


class _Keeper:
    """A process of a module of tomserve.web, started again and again."""

    def __init__(self, settings: Settings, module: str, environment: Mapping[str, str]) -> None:
        self._settings, self._module, self._environment = settings, module, environment
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Start processes until the end is wanted."""
        died = 0
        while not self._ending.is_set():
            began = time.monotonic()
            try:
                self._one()
            except (OSError, ConfigError) as error:
                say(f"warning: the {self._module} process cannot be started ({error})", error=True)
            died = 1 if time.monotonic() - began > LIVED else died + 1
            self._ending.wait(PAUSES[min(died, len(PAUSES)) - 1])

    def _one(self) -> None:
        self._settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._settings.folder / f"{self._module}.log"
        with os.fdopen(files.open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as log:
            if os.fstat(log.fileno()).st_size > LONGEST_LOG:
                log.truncate(0)
            with self._lock:
                if self._ending.is_set():
                    return
                # It inherits that the signal waits, which so waits for it until it can end what runs, too.
                before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
                try:
                    process = self._process = subprocess.Popen(
                        module_command(f"tomserve.web.{self._module}"),
                        stdin=subprocess.PIPE,
                        stdout=log,
                        stderr=log,
                        env=self._environment,
                        start_new_session=True,  # Ctrl-C is meant for the workbench, which then ends the worker
                    )
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.write(orjson.dumps(asdict(self._settings)) + b"\n")
            process.stdin.flush()
        process.wait()
        with contextlib.suppress(OSError):
            process.stdin.close()

    def end(self) -> None:
        """Ask the process to end, and start no other."""
        with self._lock:
            self._ending.set()
            process = self._process
        if process is not None and process.poll() is None:
            process.terminate()

    def leave(self) -> None:
        """End a process that has not ended yet; what it has begun goes on."""
        process = self._process
        if process is not None and process.poll() is None:
            process.kill()


def rebuild() -> tuple[int, int]:
    """Throw away what was computed, and read the run folders; returns how many runs there are, and how many wait."""
    background.forget()
    lines = RunIndex().every()
    return len(lines), sum(line.card.job is not None and line.card.job.waits for line in lines)


def main() -> None:
    """Work as the settings say that stand in the first line of standard input, until that ends or a signal comes."""
    given = orjson.loads(sys.stdin.buffer.readline() or b"null")
    if given is None:  # whoever has started this process has ended already
        return
    settings = Settings(**{**given, "keys": tuple((name, place) for name, place in given["keys"])})
    worker = Worker(settings)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop.set())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})

    def watch() -> None:
        sys.stdin.buffer.read()  # ends with whoever has started this process
        worker.leave.set()

    threading.Thread(target=watch, name="watch", daemon=True).start()
    settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = files.open_regular(settings.folder / "worker.lock", os.O_RDWR | os.O_CREAT, 0o600)
    while not worker.leave.is_set():
        if files.try_lock(lock):
            worker.run()
            break
        worker.leave.wait(LOOK)  # an earlier worker is about to end
    os._exit(0)  # threads that follow processes of others are not waited for


if __name__ == "__main__":
    main()
