"""Finds free ports of this machine, checks whether a port can be listened on, and tells which process has it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path

from tomserve.content.paths import cache_root
from tomserve.errors import MachineError

_LISTEN = "0A"
"""How /proc/net/tcp writes the state of a socket that listens."""
_LOWEST, _HIGHEST = 20000, 32000
"""The range in which free ports are looked for; on most systems it is below the ports that the system hands out."""


def free_port(count: int = 1) -> int:
    """The first of `count` consecutive ports of the loopback interface that are all free now.

    They are below the ports that the system hands out by itself, because vLLM takes several of those while it loads
    and would now and then take the very port on which it is to listen in the end. Raises MachineError where none is.
    """
    highest = min(_HIGHEST, _lowest_own())
    for _ in range(1000):
        first = random.randrange(_LOWEST, max(highest, _LOWEST + 1000) - count)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise MachineError(f"there is no free port between {_LOWEST} and {highest}; end some of the servers that run here")


def _lowest_own() -> int:
    """The lowest port that the system hands out by itself; _HIGHEST where it does not tell."""
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _HIGHEST


@contextlib.contextmanager
def reserved(port: int, folder: Path | None = None) -> Iterator[None]:
    """Keep other `tomserve serve` commands on this machine from taking `port` while this one loads a model.

    vLLM listens only after minutes of loading, so until then a locked file stands for the port. folder: where that
    file of a few bytes is put, and stays; by default in the user's own cache, where nobody else can put a link in its
    place. Raises MachineError where another command holds the port.
    """
    folder = folder or cache_root() / "tomserve/ports"
    name = f"{socket.gethostname()}-{port}.lock"  # several machines may share one home folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.fdopen(os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+")
    except OSError:
        yield  # the lock is a convenience: without a place for it, serving still works
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            by = lock.read().strip() or "another process"
            raise MachineError(
                f"port {port} is taken by another `tomserve serve` ({by}), which may still be loading its model; "
                "choose another --port (PORT=)"
            ) from None
        lock.truncate(0)
        lock.write(f"pid {os.getpid()}")
        lock.flush()
        yield


def check_port(host: str, port: int) -> None:
    """Raise MachineError, which names the process that has the port, where a server cannot listen on host:port."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except (OSError, TypeError, ValueError, OverflowError) as error:
        if not isinstance(error, OSError):
            raise MachineError(
                f"--host {host!r} is not a valid address; expected one such as 127.0.0.1 or 0.0.0.0"
            ) from None
        holder = owner(port)
        by = f" by {holder}" if holder else ""
        raise MachineError(
            f"{host}:{port}: cannot listen ({error.strerror}{by}); choose another --port (PORT=)"
        ) from None


def owner(port: int) -> str | None:
    """The process that listens on `port`, as ``"pid 12 (python)"``; None where none does or the system is silent."""
    pids = listeners(port)
    if pids is None:
        return None
    for pid in pids:
        with contextlib.suppress(OSError):
            return f"pid {pid} ({Path(f'/proc/{pid}/comm').read_text().strip()})"
    return "another user's process"


def listeners(port: int) -> list[int] | None:
    """The ids of processes that listen on `port`, as far as this user may see them.

    An empty list means that the processes are another user's; None, that nobody listens or the system does not tell.
    """
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rsplit(":", 1)[1], 16) == port:
                    inodes.add(f"socket:[{fields[9]}]")
    if not inodes:
        return None
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(os.readlink(handle) in inodes for handle in (process / "fd").iterdir()):
                pids.append(int(process.name))
    return pids
