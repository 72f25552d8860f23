"""A second process that scores parts of the same work (see tomserve.scoring.parts).

It is a new interpreter, because one that was forked could not use Polars. It inherits the open files, so that it reads
what the first process reads even where a file was replaced since. It ends with the first process, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from tomserve.scoring.parts import Range, Work, take

_PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from tomserve.scoring import beside; beside.main()"
_SIZE = 8
"""How many bytes say how long the description of the work is."""


class Helper:
    """A second process. wait: waits until it has no more to do."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def wait(self) -> None:
        """Wait until the process has ended."""
        self._process.wait()


@contextlib.contextmanager
def helping(work: Work, scratch: Path, ranges: Sequence[Range]) -> Iterator[Helper | None]:
    """A second process that takes parts of the work; None where it cannot be started. It is ended with the block.

    work: what is scored. scratch, ranges: the folder and the parts, as for tomserve.scoring.parts.written.
    """
    import json

    from tomserve.scoring.scorer import SCORER

    try:
        told = pickle.dumps((work, ranges))
    except (pickle.PicklingError, AttributeError):  # the rules are no function that another process could find
        yield None
        return
    command = [sys.executable, "-P", "-c", _PROGRAM, json.dumps(sys.path), str(scratch), SCORER]
    try:
        process = subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=work.descriptors,
            env={**os.environ, "POLARS_MAX_THREADS": "1"},
        )
    except OSError:
        yield None
        return
    telling = threading.Thread(target=_tell, args=(process, told), daemon=True)
    telling.start()
    del told
    with process:
        try:
            yield Helper(process)
        finally:
            process.kill()
            telling.join()


def _tell(process: subprocess.Popen[bytes], told: bytes) -> None:
    """Tell the process what its work is. It goes through a pipe, because whoever owns the folder of a run could put
    another file into the place of one there, and what is unpickled can do anything."""
    assert process.stdin is not None
    left = memoryview(len(told).to_bytes(_SIZE, "big") + told)
    with contextlib.suppress(OSError):  # the process has ended, or is ended: the work is done without it
        while left:
            left = left[process.stdin.write(left) :]


def main() -> None:
    """What the second process does: it takes parts until there are none, or its parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what Ctrl-C ends is said by the parent
    from tomserve.scoring.scorer import SCORER

    told = sys.stdin.buffer.read(int.from_bytes(sys.stdin.buffer.read(_SIZE), "big"))
    threading.Thread(target=_end_with_parent, daemon=True).start()

    scratch, scorer = Path(sys.argv[2]), sys.argv[3]
    if scorer != SCORER:  # other code was installed since the parent has loaded its own
        return
    work, ranges = pickle.loads(told)  # by the parent, which alone has the other end
    del told
    take(work, scratch, ranges)


def _end_with_parent() -> None:
    """End this process when its standard input is closed, which also happens where the parent is killed."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)
