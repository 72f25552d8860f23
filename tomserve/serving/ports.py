"""Ports of this machine: a free one, whether one can be listened on, and who has it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path

from tomserve.errors import MachineError

_LISTEN = "0A"
_LOWEST, _HIGHEST = 20000, 32000


def free_port(count: int = 1) -> int:
    """A port of the loopback interface that is free now, as are the `count` - 1 after it.

    It lies below those that the system hands out by itself: vLLM takes several of these while it loads, and would now
    and then take the very port that it is to listen on at the end.
    """
    highest = min(_HIGHEST, _lowest_own())
    for _ in range(1000):
        first = random.randrange(_LOWEST, max(highest, _LOWEST + 1000) - count)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise MachineError(f"no free port between {_LOWEST} and {highest}")


def _lowest_own() -> int:
    """The lowest port that the system hands out by itself."""
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _HIGHEST


@contextlib.contextmanager
def reserved(port: int, folder: Path | None = None) -> Iterator[None]:
    """Hold `port` against other `tomserve serve`s of this machine: vLLM listens only after minutes of loading.

    Raises MachineError where another holds it. folder: where the lock lies, a file of a few bytes that stays; unless
    given, in the user's cache, where nobody else can put a link in its place.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = folder or cache / "tomserve/ports"
    name = f"{socket.gethostname()}-{port}.lock"  # a home may be shared by machines
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.fdopen(os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+")
    except OSError:
        yield  # no place for a lock is no reason not to serve
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            by = lock.read().strip() or "another process"
            raise MachineError(
                f"port {port} is taken by another `tomserve serve` ({by}), which may still be loading; "
                "choose another --port (PORT=)"
            ) from None
        lock.truncate(0)
        lock.write(f"pid {os.getpid()}")
        lock.flush()
        yield


def check_port(host: str, port: int) -> None:
    """Raise MachineError, saying who has it, where nothing can listen on host:port."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except (OSError, TypeError, ValueError, OverflowError) as error:
        if not isinstance(error, OSError):
            raise MachineError(f"--host {host!r} is no address") from None
        holder = owner(port)
        by = f" by {holder}" if holder else ""
        raise MachineError(
            f"{host}:{port}: cannot listen ({error.strerror}{by}); choose another --port (PORT=)"
        ) from None


def owner(port: int) -> str | None:
    """``"pid 12 (python)"`` of who listens on `port`; None where nobody does or the system does not tell us."""
    found = listeners(port)
    if found is None:
        return None
    for pid in found:
        with contextlib.suppress(OSError):
            return f"pid {pid} ({Path(f'/proc/{pid}/comm').read_text().strip()})"
    return "another user's process"


def listeners(port: int) -> list[int] | None:
    """Processes that listen on `port`, as far as they are ours to see; None where nobody listens or nothing is told."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rsplit(":", 1)[1], 16) == port:
                    inodes.add(f"socket:[{fields[9]}]")
    if not inodes:
        return None
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(os.readlink(handle) in inodes for handle in (process / "fd").iterdir()):
                found.append(int(process.name))
    return found
