"""Commands in processes that need not import anything: one process imports everything once, and is copied (`os.fork`)
for every command.

Such a command still has a process of its own, with its own arguments, folder, environment, standard streams and exit
code. What it does not do again is to import its modules and to read the shipped stages of stories, which was most of
the time of many tests. Tests that are about starting, imports, signals or the end of a process start new ones, by
`sys.executable`; of every command some test does.

A copy has no thread but the one that copied, so that what another thread held at that moment would be held for ever.
The process that is copied therefore has no other thread that is at work, which it checks each time (see `_alone`).
"""

from __future__ import annotations

import array
import atexit
import gc
import importlib
import marshal
import os
import pkgutil
import runpy
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

LAZY = (
    *("aiohttp", "altair", "httptools", "httpx", "jinja2", "openai", "polars", "rich.console", "rich.table"),
    *("scipy.optimize", "scipy.stats", "statsmodels.stats.proportion", "uvloop", "vl_convert"),
)
"""What modules of tomserve import in the functions that need it, and not when they are imported themselves."""

OTHERS = ("tomserve.causal", "tomserve.serving.dbrx", "tomserve.serving.vllm_cli", "tomserve.__main__")
"""What is imported where it is needed alone: it imports torch, or is there to change vLLM, or runs a command."""

IDLE = ("jemalloc_bg_thd", "polars-ooc-clea")
"""Threads that begin when a library is imported, and wait for work that nothing gives them before the copy is made."""

Found = TypeVar("Found")

CLIENT = Path(__file__).with_name("prepared_client.py")


@cache
def prepared() -> list[str]:
    """The words that replace `sys.executable` before ``-m tomserve ...`` or ``-c PROGRAM``. The process that is copied
    starts with the first call, and ends when this one does. Where it cannot be known what other threads do, on systems
    other than Linux, every command is a new process."""
    if not Path("/proc/self/task").is_dir():
        return [sys.executable]
    folder = Path(tempfile.mkdtemp(prefix="prepared-"))  # short, as the address of a socket has to be
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # Without threads that libraries would start at once, for linear algebra and for the memory of Polars.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "_RJEM_MALLOC_CONF": "background_thread:false"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.helpers.prepared", str(folder / "address")],
        env=environment,
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,  # closed when this process ends, however it ends: so the other knows
        stdout=subprocess.PIPE,
    )
    atexit.register(process.communicate)
    assert process.stdout is not None
    assert process.stdout.read(1) == b"!", "the process that is copied for commands could not start"
    return [sys.executable, "-I", "-S", str(CLIENT), str(folder / "address")]


@dataclass
class _Command:
    """What a client asks for, to be run by a copy."""

    words: list[str]
    environment: dict[str, str]
    folder: str
    streams: list[int]

    def end(self) -> None:
        """Run it, and end this process as Python ends, but for freeing the memory of everything that was imported:
        that would take longer than most commands."""
        code = self._code()
        threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, and has no public name
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)

    def _code(self) -> int:
        try:
            self._run()
        except SystemExit as ended:
            if ended.code is None or isinstance(ended.code, int):
                return (ended.code or 0) & 0xFF
            print(ended.code, file=sys.stderr)
            return 1
        except BaseException:
            traceback.print_exc()
            return 1
        return 0

    def _run(self) -> None:
        """What Python does with these words."""
        atexit._clear()
        for at, stream in enumerate(self.streams):
            os.dup2(stream, at)
            os.close(stream)
        os.chdir(self.folder)
        option, what, *arguments = self.words
        first, given = "" if option == "-c" else self.folder, _given(self.environment)
        others = [folder for folder in sys.path[1 + len(_given(os.environ)) :] if folder not in given]
        sys.path[:] = [first, *given, *others]  # a new process, too, has each of them once
        os.environ.clear()
        os.environ.update(self.environment)
        importlib.invalidate_caches()
        sys.argv[:] = [option, *arguments]
        if option == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            main = sys.modules["__main__"] = types.ModuleType("__main__")
            exec(compile(what, "<string>", "exec"), main.__dict__)


def _given(environment: Mapping[str, str]) -> list[str]:
    """The folders of PYTHONPATH, which stand in `sys.path` behind the first."""
    return [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]


def _everything() -> None:
    """Import what commands import, and read the stages of the dataset."""
    import tomserve

    for name in LAZY:
        importlib.import_module(name)
    for module in pkgutil.walk_packages(tomserve.__path__, "tomserve."):
        if not module.name.startswith(OTHERS):
            importlib.import_module(module.name)
    from tomserve.benchmarks.perturbed_2 import benchmark, check

    vars(benchmark)["load_stage"] = _remembered(check.load_stage)
    for stage in benchmark.stages():
        stage.items()
    gc.collect()
    gc.freeze()  # no collection in a copy then writes to the memory of all this, of which a page written is a page copied


def _remembered(read: Callable[[Path], Found]) -> Callable[[Path], Found]:
    """The function that reads a file, which reads none again that is still the same."""
    known: dict[tuple[Path, bytes], Found] = {}

    def reading(path: Path) -> Found:
        key = (path, path.read_bytes() if path.is_file() else b"")
        if key not in known:
            known[key] = read(path)
        return known[key]

    return reading


def _alone() -> bool:
    """Whether each other thread of this process is one that waits for work, and therefore holds nothing."""
    for task in Path("/proc/self/task").iterdir():
        name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        if int(task.name) != os.getpid() and not (name in IDLE and rest.split()[0] == "S"):
            return False
    return True


def _asked(client: socket.socket) -> _Command:
    """What a client sends."""
    streams = array.array("i")
    head, extra, *_ = client.recvmsg(4, socket.CMSG_SPACE(3 * streams.itemsize))
    for _, _, data in extra:
        streams.frombytes(data)
    told = b""
    while len(told) < struct.unpack("!I", head)[0]:
        told += client.recv(1 << 20)
    words, environment, folder = marshal.loads(told)
    return _Command(words, environment, folder, list(streams))


def _serve(address: str) -> _Command | None:
    """Copy this process for every client. Returns in a copy what it has to do, and None when the tests have ended."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(address)
    listening.listen(64)
    ended, ends = socket.socketpair()
    ends.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(ends.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    clients: dict[int, socket.socket] = {}
    ready = selectors.DefaultSelector()
    for one in (listening, ended, sys.stdin.buffer):
        ready.register(one, selectors.EVENT_READ)
    os.write(1, b"!")
    while True:
        found = [key.fileobj for key, _ in ready.select()]
        if sys.stdin.buffer in found:
            return None
        if ended in found:
            ended.recv(4096)
            _tell(clients)
        if listening in found:
            client, _ = listening.accept()
            command = _asked(client)
            assert _alone(), "another thread of the process that is copied is at work"
            if not (copy := os.fork()):
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(signal.SIGINT, signal.default_int_handler)
                ready.close()
                for one in (listening, ended, ends, client, *clients.values()):
                    one.close()
                return command
            clients[copy] = client
            for stream in command.streams:
                os.close(stream)


def _tell(clients: dict[int, socket.socket]) -> None:
    """Tell the clients whose commands have ended how: by the exit code, or 128 and the number of the signal."""
    while clients and (ended := os.waitpid(-1, os.WNOHANG))[0]:
        code = os.waitstatus_to_exitcode(ended[1])
        with clients.pop(ended[0]) as client:
            try:
                client.sendall(struct.pack("!i", code if code >= 0 else 128 - code))
            except BrokenPipeError:
                continue  # the client was ended before its command


if __name__ == "__main__":
    _everything()
    if (asked := _serve(sys.argv[1])) is not None:
        asked.end()
