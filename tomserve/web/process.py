"""A process beside the server, which does one work after the other, and ends as soon as the server has ended.

The server writes a line of JSON for each work, and reads a line that says what came of it.

>>> Process().ask(Path("out"), "panels", [Path("runs/example")], {})                                   # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

import orjson

from tomserve import content
from tomserve.content.paths import PACKAGE, absolute_runs_root, runs_root
from tomserve.content.text import sanitize
from tomserve.errors import ConfigError, TomserveError

WORKS = {
    "panels": "tomserve.web.analyses",
    "report": "tomserve.web.analyses",
    "scores": "tomserve.web.analyses",
    "answers": "tomserve.web.answer_index",
    "compare": "tomserve.web.analyses",
    "items": "tomserve.web.items",
    "varieties": "tomserve.web.items",
    "tally": "tomserve.web.leaderboard",
    "layers": "tomserve.web.leaderboard",
    "plan": "tomserve.web.planning",
}
"""The module of each work, whose function of that name does it: it is given the folder to write to, the
folders of the runs, and the options of the wish, and returns what is to be known of it."""

KEYS = ("TOMSERVE_API_KEY", "TOMSERVE_API_KEY_FILE", "OPENAI_API_KEY", "VLLM_API_KEY")
"""The variables that hold a key of an endpoint, or say where one stands."""

CODE = content.code_digest([PACKAGE])
"""The digest of the code of this version, which a process has to share with the server."""

LONGEST = 1 << 24  # bytes that a process says of one work
ENDS = 10.0  # seconds that a process has to end before it is killed


def keyless() -> dict[str, str]:
    """The environment without any key of an endpoint."""
    return {name: value for name, value in os.environ.items() if name not in KEYS}


class Process:
    """A process, which begins with its first work. One thread asks it; any may stop it."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._stopped = False

    def ask(self, out: Path, work: str, runs: Sequence[Path], options: Mapping[str, Any]) -> dict[str, Any]:
        """Let it do a work; returns what it says: `facts`, or an `error` in words, with its exit `code` if it died. A
        process that died is replaced at the next work. Raises OSError where none can be started."""
        if (child := self._start()) is None:
            return {"error": "the workbench was ended before it was done"}
        assert child.stdin is not None
        assert child.stdout is not None
        asked = {"out": str(out), "work": work, "runs": list(map(str, runs)), "options": dict(options), "code": CODE}
        with contextlib.suppress(OSError):
            child.stdin.write(orjson.dumps(asked) + b"\n")
            child.stdin.flush()
        try:
            found = orjson.loads(child.stdout.readline(LONGEST))
        except orjson.JSONDecodeError:
            code = self.close()
            said = f"the process that computes it ended with exit code {code} before it was done; try again"
            return {"error": said, "code": code}
        return found if isinstance(found, dict) else {}

    def _start(self) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._child is None and not self._stopped:
                command = [sys.executable, "-m", "tomserve.web.process"]
                pipe = subprocess.PIPE
                self._child = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=keyless(), start_new_session=True)
            return self._child

    def close(self) -> int | None:
        """Let it end, as it does once nobody holds the other end of its input; returns its exit code."""
        with self._lock:
            child, self._child = self._child, None
        if child is None:
            return None
        assert child.stdin is not None
        assert child.stdout is not None
        with contextlib.suppress(OSError):
            child.stdin.close()
        _wait(child)
        child.stdout.close()
        return child.returncode

    def stop(self) -> None:
        """End it at once, and never begin another."""
        with self._lock:
            self._stopped, child = True, self._child
        if child is not None:
            child.terminate()
            _wait(child)


def _wait(child: subprocess.Popen[bytes]) -> None:
    try:
        child.wait(ENDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def main(given: IO[bytes], says: IO[bytes]) -> None:
    """Do one work after the other: each is wanted by a line of what is given, and what came of it is said in a line.

    The process ends as soon as nobody holds the other end of `given` any more, also in the middle of a work.
    """
    lines: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_hear, args=(given, lines), daemon=True).start()
    while True:
        says.write(orjson.dumps(do_work(orjson.loads(lines.get()))) + b"\n")
        says.flush()


def _hear(given: IO[bytes], lines: SimpleQueue[bytes]) -> None:
    for line in given:
        lines.put(line)
    os._exit(1)


def do_work(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Do a work, and say what came of it: `facts`, or an `error` in words."""
    try:
        if asked["code"] != CODE:
            raise ConfigError("tomserve was changed since the workbench was started; start it anew")
        module = importlib.import_module(WORKS[asked["work"]])
        work: Callable[[Path, Sequence[str], Mapping[str, Any]], Mapping[str, Any] | None] = vars(module)[asked["work"]]
        return {"facts": work(Path(asked["out"]), asked["runs"], asked["options"]) or {}}
    except TomserveError as error:
        return {"error": sanitize(without_paths(str(error)))}
    except MemoryError:
        return {"error": "there is too little memory to compute it"}
    except Exception as error:  # whatever a study or a file of strangers brings about is told rather than lost
        sys.excepthook(type(error), error, error.__traceback__)
        return {
            "error": sanitize(f"it could not be computed ({type(error).__name__}: {without_paths(str(error))[:300]})")
        }


def without_paths(text: str) -> str:
    """The text with names of runs in the place of the paths of their folders on this machine."""
    return text.replace(f"{absolute_runs_root()}/", "").replace(f"{runs_root().absolute()}/", "")


if __name__ == "__main__":
    with contextlib.suppress(OSError):
        os.nice(10)
    _says = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a study prints is no answer of ours
    from tomserve.web import process

    process.main(sys.stdin.buffer, _says)
