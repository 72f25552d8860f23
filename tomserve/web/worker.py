"""The process of the worker, `python -m tomserve.web.worker`, which `tomserve web` keeps alive.

with kept_alive(settings):
    ...                                     # the workbench is served
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading

import orjson

from tomserve.web.keeping import kept_alive
from tomserve.web.queue import Queue
from tomserve.web.register import Register
from tomserve.web.settings import Settings
from tomserve.web.working import LOOK, Worker

__all__ = ["kept_alive", "main", "rebuild"]


def rebuild(settings: Settings) -> tuple[int, int]:
    """Throw away the databases and make them from the run folders; returns how many runs and how many entries of the
    queue there are. Raises OSError."""
    register = Register(settings.folder)
    return register.rebuild(), Queue(register, settings).rebuild()


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

    def watched() -> None:
        sys.stdin.buffer.read()  # ends with whoever has started this process
        worker.leave.set()

    threading.Thread(target=watched, name="watch", daemon=True).start()
    settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(settings.folder / "worker.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    while not worker.leave.is_set():
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # an earlier worker is about to end
            worker.leave.wait(LOOK)
            continue
        worker.run()
        break
    os._exit(0)  # threads that follow processes of others are not waited for


if __name__ == "__main__":
    main()
