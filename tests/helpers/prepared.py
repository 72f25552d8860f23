"""Commands in processes that need not import anything: one process imports everything once, and is copied (`os.fork`)
for every command.

Such a command has a process, arguments, a folder, an environment, standard streams and an exit code of its own. What it
does not do again is to import its modules and to read the shipped stages, which was most of the time of many tests.
Tests that are about starting, imports or signals start new processes, by `sys.executable`; of every command some test
does. A copy has no thread but the one that copied, so that what another held would be held for ever: the process that is
copied has no other thread that is at work, which it checks each time (see `_alone`).
"""

import array
import atexit
import contextlib
import functools
import gc
import importlib
import marshal
import os
import pkgutil
import runpy
import select
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
from dataclasses import dataclass
from pathlib import Path

LAZY = (
    *("httptools", "httpx", "jinja2", "openai", "polars", "rich.console", "rich.table"),
    *("scipy.optimize", "scipy.stats", "uvloop"),
)
"""What modules of tomserve import in the functions that need it, and not when they are imported themselves."""

OTHERS = ("tomserve.causal", "tomserve.serving.dbrx", "tomserve.serving.vllm_cli", "tomserve.__main__")
"""What is imported where it is needed alone: it imports torch, or is there to change vLLM, or runs a command."""

IDLE = ("jemalloc_bg_thd", "polars-ooc-clea")
"""Threads that begin when a library is imported, and wait for work that nothing gives them before the copy is made."""

CLIENT = """
import _socket, array, marshal, os, struct, sys
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect(sys.argv[1])
told = marshal.dumps((sys.argv[2:], dict(os.environ), os.getcwd()))
streams = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
server.sendmsg([struct.pack("!I", len(told))], streams)
server.sendall(told)
status = server.recv(4)
sys.exit(struct.unpack("!i", status)[0] if len(status) == 4 else "the process that runs commands has ended")
"""
"""Hands over its arguments, environment, folder and streams, and ends as the command; it imports nothing that takes time."""


@functools.cache
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
    return [sys.executable, "-I", "-S", "-c", CLIENT, str(folder / "address")]


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
        code = 1
        try:
            self._run()
            code = 0
        except SystemExit as ended:
            if ended.code is None or isinstance(ended.code, int):
                code = (ended.code or 0) & 0xFF
            else:
                print(ended.code, file=sys.stderr)
        except BaseException:
            traceback.print_exc()
        threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, and has no public name
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def _run(self) -> None:
        """What Python does with these words."""
        atexit._clear()
        for at, stream in enumerate(self.streams):
            os.dup2(stream, at)
            os.close(stream)
        os.chdir(self.folder)
        option, what, *arguments = self.words
        # The folders of PYTHONPATH stand in `sys.path` behind the first; a new process, too, has each of them once.
        before, given = (
            [path for path in known.get("PYTHONPATH", "").split(os.pathsep) if path]
            for known in (os.environ, self.environment)
        )
        others = [folder for folder in sys.path[1 + len(before) :] if folder not in given]
        sys.path[:] = ["" if option == "-c" else self.folder, *given, *others]
        os.environ.clear()
        os.environ.update(self.environment)
        importlib.invalidate_caches()
        sys.argv[:] = [option, *arguments]
        if option == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            main = sys.modules["__main__"] = types.ModuleType("__main__")
            exec(compile(what, "<string>", "exec"), main.__dict__)


def _everything() -> None:
    """Import what commands import, and read the stages of the dataset, of which none is read again that is the same."""
    import tomserve

    for name in LAZY:
        importlib.import_module(name)
    for module in pkgutil.walk_packages(tomserve.__path__, "tomserve."):
        if not module.name.startswith(OTHERS):
            importlib.import_module(module.name)
    from tomserve.benchmarks.perturbed import stages

    read = functools.cache(lambda path, edition, content, load=stages.load_stage: load(path, edition))
    vars(stages)["load_stage"] = lambda path, edition=stages.SECOND: read(
        path, edition, path.read_bytes() if path.is_file() else b""
    )
    for stage in stages.load_stages():
        stage.items()
    gc.collect()
    gc.freeze()  # no collection in a copy then writes to the memory of all this, of which a page written is a page copied


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
    """Copy this process for every client: a copy waits for a copy of its own, in which this returns what is to be run,
    and tells the client how that ended. Returns None when the tests have ended."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(address)
    listening.listen(64)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.write(1, b"!")
    while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
        client, _ = listening.accept()
        command = _asked(client)
        assert _alone(), "another thread of the process that is copied is at work"
        if not os.fork():
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if not (copy := os.fork()):
                signal.signal(signal.SIGINT, signal.default_int_handler)
                client.close()
                return command
            for stream in (0, 1, *command.streams):
                os.close(stream)
            code = os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
            with contextlib.suppress(BrokenPipeError):  # the client was ended before its command
                client.sendall(struct.pack("!i", code if code >= 0 else 128 - code))
            os._exit(0)
        client.close()
        for stream in command.streams:
            os.close(stream)
    return None


if __name__ == "__main__":
    _everything()
    if (asked := _serve(sys.argv[1])) is not None:
        asked.end()
