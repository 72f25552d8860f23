"""vLLM servers that are forked from one process that has imported vLLM already, for tests that start many of them.

>>> with Forge() as forge, forge.servers():                               # doctest: +SKIP
...     Server(vllm_command(preset, folder, port=port), ...)              # starts in a quarter of the time

Importing vLLM is four fifths of what a start costs. Here one process imports it once. A server that is started within
`servers()`, or by a command line that `tomserve` starts, is a child of that process, with the command's own arguments,
environment, log and process group; its engine is forked, too. What differs from a start in the usual way: the engine
has the plugins of its server, a model's class is looked at in that process rather than in one that imports vLLM for it,
and what vLLM reads from the environment while it is imported is what the forge was started with.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import multiprocessing
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any
from unittest import mock

from tests.helpers.command import children, environment, until
from tomserve.cli import main as command_line
from tomserve.content.python_file import module_command
from tomserve.serving import server

ROOT = Path(__file__).resolve().parents[2]
MODULE = "tomserve.serving.vllm_cli"
OFFLINE = {"HF_HUB_OFFLINE": "1"}
"""What the forge is started with; a command that does not set it has to be started in the usual way."""
ALONE = {"OPENBLAS_NUM_THREADS": "1"}
"""Otherwise numpy starts threads while it is imported, which forked processes would lack."""
HIDDEN = ("pandas", "pyarrow", "sklearn", "datasets")
"""Packages that only other tools of the tests bring, and vLLM imports where it finds them: pyarrow would start a thread,
and users do not have them."""
LONGEST = 1 << 20
"""Bytes of the longest request."""


class Forked:
    """A process that the forge started, with as much of subprocess.Popen as tomserve.serving.server.Server uses."""

    def __init__(self, pid: int, told: socket.socket) -> None:
        self.pid, self._told = pid, told
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, or minus the signal, where the process has ended; None while it runs."""
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            text = self._told.recv(64)
            self.returncode = int(text) if text else -signal.SIGKILL  # the forge itself was ended
            self._told.close()
        return self.returncode


def popen(
    requests: socket.socket, argv: Sequence[str], *, env: dict[str, str], stdout: IO[bytes], **options: Any
) -> Forked:
    """Have the forge start a command of `vllm_command`. It stands for subprocess.Popen and takes the same arguments."""
    (pipe,) = options["pass_fds"]
    assert list(argv[:4]) == module_command(MODULE), argv
    assert options["start_new_session"]
    assert OFFLINE.items() <= env.items()
    told, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        request = json.dumps([argv[4:], env, os.getcwd()]).encode()
        socket.send_fds(requests, [request], [stdout.fileno(), pipe, theirs.fileno()])
    return Forked(int(told.recv(64)), told)


@contextlib.contextmanager
def forking(requests: socket.socket) -> Iterator[None]:
    """Every Server that this process makes meanwhile is forked."""
    stands_for = {name: getattr(subprocess, name) for name in ("DEVNULL", "STDOUT")}
    with mock.patch.object(server, "subprocess", SimpleNamespace(**stands_for, Popen=partial(popen, requests))):
        yield


class Forge:
    """The process that has imported vLLM. Use it as a context manager; it ends with the process that made it."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for one in (self._ours, theirs):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LONGEST)
        env = {**os.environ, **OFFLINE, **ALONE}
        self._process = self._python(theirs.fileno(), env=env, start_new_session=True)
        theirs.close()

    def _python(self, number: int, *arguments: str, **options: Any) -> subprocess.Popen[Any]:
        """This module in a process of its own, which holds the descriptor of that number."""
        command = [sys.executable, "-m", "tests.helpers.forked", str(number), *arguments]
        return subprocess.Popen(command, pass_fds=[number], cwd=ROOT, **options)

    def __enter__(self) -> Forge:
        return self

    def __exit__(self, *_: object) -> None:
        self._ours.close()
        try:
            self._process.wait(30)
        finally:
            self._process.kill()  # a command line that was forgotten can still send it requests

    @property
    def forked(self) -> list[int]:
        """The ids of the servers that run, the first started first."""
        return children(self._process.pid)

    def servers(self) -> contextlib.AbstractContextManager[None]:
        """Every Server that is made meanwhile is forked."""
        return forking(self._ours)

    def tomserve(self, *arguments: str, runs: Path, **options: Any) -> subprocess.Popen[Any]:
        """Start `tomserve ARGUMENTS` in a process of its own, whose servers are forked. runs: the folder of its runs.
        options: those of Popen."""
        env = {**environment(runs), "CUDA_VISIBLE_DEVICES": ""}
        return self._python(self._ours.fileno(), *arguments, env=env, **options)

    def run(self, runs: Path, *arguments: str, seconds: float = 500) -> tuple[int, str]:
        """Run `tomserve ARGUMENTS` to its end; returns its exit code, and what it said."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        with self.tomserve(*arguments, runs=runs, **pipes) as process:
            try:
                said, _ = process.communicate(timeout=seconds)
            finally:
                process.kill()
        return process.returncode, said

    def call(self, *arguments: str, log: Path, env: dict[str, str] | None = None, seconds: float = 500) -> int:
        """Run `vllm ARGUMENTS`, such as run-batch, or a program that uses vLLM (-c PROGRAM ARGUMENTS) to its end; returns
        its exit code. log: the file for what it says. env: what is added to the environment."""
        reading, writing = os.pipe()
        try:
            with log.open("wb") as output:
                options = {"env": {**os.environ, **OFFLINE, **(env or {})}, "stdout": output, "start_new_session": True}
                command = module_command(MODULE, *arguments)
                process = popen(self._ours, command, pass_fds=(reading,), **options)
            assert until(lambda: process.poll() is not None, seconds), log.read_text()[-3000:]
        finally:
            os.close(reading)
            os.close(writing)  # which ends the command, where it still runs
        assert process.returncode is not None
        return process.returncode


# ── the forge's own process ─────────────────────────────────────────────────────────────────────────────────────────


def _serve(requests: socket.socket) -> None:
    """Fork a child for each request, and tell how each has ended. Returns in every child, which then is the server; the
    forge itself ends here, when nobody can send requests any more."""
    running: dict[int, tuple[int, socket.socket]] = {}  # by the descriptor that tells that the child has ended
    while True:
        ready, _, _ = select.select([requests, *running], [], [])
        for one in ready:
            if one is requests:
                data, files, _, _ = socket.recv_fds(requests, LONGEST, 3)
                if not data:
                    os._exit(0)  # to free what was imported takes seconds
                told = socket.socket(fileno=files[2])
                if (pid := os.fork()) == 0:
                    requests.close()
                    for watched, (_, other) in running.items():
                        os.close(watched)
                        other.close()
                    told.close()
                    _become(*json.loads(data), output=files[0], pipe=files[1])
                    return
                told.send(str(pid).encode())
                running[os.pidfd_open(pid)] = pid, told
                os.close(files[0])
                os.close(files[1])
            else:
                pid, told = running.pop(one)
                with contextlib.suppress(OSError):
                    told.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
                told.close()
                os.close(one)


def _become(arguments: list[str], env: dict[str, str], folder: str, *, output: int, pipe: int) -> None:
    """Give this new process what subprocess.Popen would have given it."""
    os.setsid()
    os.chdir(folder)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, place in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, place)
    for source in (nothing, output):
        os.close(source)
    os.environ.clear()
    os.environ.update(env | {"TOMSERVE_PARENT_FD": str(pipe)})
    sys.argv[:] = [MODULE, *arguments]


CLI = ("main", "benchmark.main", "collect_env", "launch", "openai", "serve", "run_batch")
IMPORTED = (
    *(MODULE, *(f"vllm.entrypoints.cli.{name}" for name in CLI)),  # ours first, because vLLM asks for its own version
    *("vllm.v1.engine.async_llm", "vllm.v1.engine.core", "vllm.v1.worker.cpu_worker"),
)


def _import() -> None:
    """Import what a server imports, and have engines forked."""
    sys.modules |= dict.fromkeys(HIDDEN)  # None: importing it fails
    for name in IMPORTED:
        importlib.import_module(name)
    system_utils: Any = importlib.import_module("vllm.utils.system_utils")
    forked = SimpleNamespace(get_context=lambda method: multiprocessing.get_context("fork"))
    system_utils.multiprocessing = forked  # vLLM insists on "spawn" where it computes on a CPU
    registry: Any = importlib.import_module("vllm.model_executor.models.registry")
    registry._run_in_subprocess = lambda look: look()  # it imports vLLM once more, so that CUDA is not begun here
    assert not importlib.import_module("vllm.plugins").plugins_loaded, "every server is to find its plugins by itself"
    # A signal to the engine would otherwise be told to the event loop of the process that it was forked from.
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))


def main() -> None:
    """Run the command line where one is given, and otherwise the forge: import vLLM, then fork servers."""
    requests, arguments = socket.socket(fileno=int(sys.argv[1])), sys.argv[2:]
    if arguments:
        sys.argv[:] = ["tomserve", *arguments]
        with forking(requests):
            command_line()
    _import()
    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"vLLM has started {threads - 1} threads, which a forked process would lack"
    _serve(requests)
    if sys.argv[1] == "-c":
        exec(sys.argv[2], {"__name__": "__main__"})
    else:
        importlib.import_module(MODULE).main()


if __name__ == "__main__":
    main()
