"""Ports of this machine: a free one, whether one can be listened on, and who has it."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

from tomserve.errors import MachineError

_LISTEN = "0A"


def free_port() -> int:
    """A port of the loopback interface that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def check_port(host: str, port: int) -> None:
    """Raise MachineError, saying who has it, where nothing can listen on host:port."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        holder = owner(port)
        by = f" by {holder}" if holder else ""
        raise MachineError(
            f"{host}:{port}: cannot listen ({error.strerror}{by}); choose another --port (PORT=)"
        ) from None


def owner(port: int) -> str | None:
    """``"pid 12 (python)"`` of who listens on `port`; None where nobody does or the system does not tell us."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rsplit(":", 1)[1], 16) == port:
                    inodes.add(f"socket:[{fields[9]}]")
    if not inodes:
        return None
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(os.readlink(handle) in inodes for handle in (process / "fd").iterdir()):
                return f"pid {process.name} ({(process / 'comm').read_text().strip()})"
    return "another user's process"
