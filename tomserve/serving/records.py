"""Servers that `tomserve serve` runs: one JSON file a port in ``runs/.servers/``, so that `tomserve eval` finds them.

Which record is believed. An API key goes only to an address that the user gave, or to a server that this user started
on this machine. Of the second kind a record is no proof by itself: ``runs/`` may have been downloaded, or be shared by
several machines or users, and whoever unpacks a record owns it. So all of this must hold (see `judge`):

1. The file and ``.servers`` belong to this user, are no links, and nobody else may write to them.
2. The record names this host, and its address is plain http to a loopback address or an address of this machine.
3. The process that it names lives, is this user's, and is the very one that wrote the record: it started at the same
   tick of the same boot. The kernel draws a random number at every boot, which nobody elsewhere can know.

A record of another machine is reported and never used, because what listens there cannot be looked at from here: the
user may give its address by --base-url. A record whose process is gone is removed.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket
import stat
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pydantic

from tomserve.content import files
from tomserve.content.places import runs_root
from tomserve.engine.clock import now
from tomserve.errors import ConfigError, ServerError
from tomserve.serving.probe import healthy

PATIENCE = 10.0
"""Seconds that /health of a recorded server may take."""

_LONGEST = 2**20
"""Bytes of a record that are read: ours have some thousand."""

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True)
class Record:
    """A running server: where, which preset, what exactly it serves; `server` as serving.provenance tells it.

    born: the boot and the tick in which the process `pid` started, as `birth` tells it.
    """

    pid: int
    url: str
    model: str
    revision: str | None
    command: list[str]
    started: str
    host: str
    server: dict[str, Any] = field(default_factory=dict)
    born: str | None = None


@dataclass(frozen=True)
class Judged:
    """What became of a file of ``.servers``: the record where it is believed; else why not, or that it is stale."""

    path: Path
    record: Record | None = None
    doubt: str = ""
    stale: bool = False


def folder() -> Path:
    """``runs/.servers``."""
    return runs_root() / ".servers"


def make_folder() -> Path:
    """``runs/.servers``, made where it is missing, and writable by this user alone. Raises OSError."""
    place = folder()
    place.mkdir(parents=True, exist_ok=True)
    if place.is_symlink():
        raise NotADirectoryError(errno.ENOTDIR, "is a symbolic link, which is not followed", str(place))
    mode = stat.S_IMODE(place.stat().st_mode)
    if mode & _OTHERS_WRITE:
        place.chmod(mode & ~_OTHERS_WRITE)
    return place


def write(port: int, **fields: Any) -> Path:
    """Record the server on `port` as this process's. Raises OSError, and ConfigError where the file is no file."""
    path = make_folder() / f"{port}.json"
    pid = os.getpid()
    record = Record(pid=pid, started=now(), host=socket.gethostname(), born=birth(pid), **fields)
    with files.replacing(path, 0o600) as file:
        file.write(orjson.dumps(asdict(record)))
    return path


def live() -> list[Record]:
    """The believed records of servers that answer /health, by port. Those whose process is gone are removed.

    Raises ServerError for a server whose process lives but which does not answer: it may only be busy, so it is
    neither forgotten nor silently replaced by another.
    """
    found = []
    for judged in _all():
        record = judged.record
        if judged.stale:
            with contextlib.suppress(OSError):
                judged.path.unlink()
        elif record is None:
            continue
        elif healthy(record.url.removesuffix("/v1"), PATIENCE):
            found.append(record)
        else:
            raise ServerError(
                f"{record.model} at {record.url} (pid {record.pid} on {record.host}) is running but does not answer; "
                f"wait for it, stop it, or give --base-url ({judged.path} records it)"
            )
    return found


def doubts() -> list[str]:
    """A line for every record that is not used: which file, what it claims, why it is not believed, the way out."""
    return [f"{files.one_line(judged.path.name)}: {judged.doubt}" for judged in _all() if judged.doubt]


def started_here(urls: Sequence[str]) -> list[Record] | None:
    """The records of servers at these addresses, where every one is believed; else None. Asks nobody."""
    known = {_place(judged.record.url): judged.record for judged in _all() if judged.record is not None}
    places = [_place(url) for url in urls]
    return [known[place] for place in places] if places and all(place in known for place in places) else None


def remove(path: Path) -> None:
    """Remove a record that is this process's; another's stays."""
    record = _read(path)
    if record is not None and (record.pid, record.host) == (os.getpid(), socket.gethostname()):
        with contextlib.suppress(OSError):
            path.unlink()


def _all() -> Iterator[Judged]:
    return (judge(path) for path in sorted(folder().glob("*.json")))


def judge(path: Path) -> Judged:
    """Whether the record in that file is believed, by the rule at the head of this module."""
    for place in (path.parent, path):
        if (reason := _not_ours_alone(place, folder=place != path)) is not None:
            return Judged(path, doubt=reason)
    record = _read(path)
    if record is None:
        return Judged(path, stale=True)
    where = f"{files.one_line(record.model)} at {files.one_line(record.url)}"
    if record.host != socket.gethostname():
        reason = f"on another machine ({files.one_line(record.host)}): give --base-url if you trust it"
        return Judged(path, doubt=f"{where} is {reason}")
    if not _alive(record.pid):
        return Judged(path, stale=True)
    if record.born is None:
        reason = "does not say when its process started (another version of tomserve, or a system without /proc)"
        return Judged(path, doubt=f"{where} {reason}: start the server again, or give --base-url if you trust it")
    if record.born != birth(record.pid):  # the number of its process went to another one
        return Judged(path, stale=True)
    if not _this_machine(record.url):
        reason = "is no address of this machine: give --base-url if you trust it"
        return Judged(path, doubt=f"{where} {reason}")
    return Judged(path, record)


def _not_ours_alone(path: Path, *, folder: bool) -> str | None:
    """Why others may have put there what `path` is or holds; None where only this user can."""
    try:
        found = path.lstat()
    except OSError as error:
        return f"cannot be looked at ({error.strerror})"
    name = ".servers" if folder else "it"
    if not (stat.S_ISDIR if folder else stat.S_ISREG)(found.st_mode):
        return f"{name} is no {'folder' if folder else 'regular file'} (a link is not followed)"
    if found.st_uid != os.geteuid():
        return f"{name} belongs to another user (user id {found.st_uid})"
    if found.st_mode & _OTHERS_WRITE:
        return f"{name} can be written by other users (`chmod go-w` forbids it)"
    return None


def birth(pid: int) -> str | None:
    """When a living process of this user started: the boot's number, a slash, ticks since then. None where it is
    another user's, has ended, or the system does not tell."""
    process = Path("/proc") / str(pid)
    try:
        if process.stat().st_uid != os.geteuid():
            return None
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        # The second field is the name of the program in brackets, which may hold blanks and brackets itself.
        state, *rest = (process / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return None if state in ("Z", "X") else f"{boot}/{int(rest[18])}"
    except (OSError, ValueError, IndexError):
        return None


def _this_machine(url: str) -> bool:
    """Whether that is plain http to this machine: a loopback address, or one that a socket of ours can have.

    Of names only `localhost` and this host's are taken: what another is resolved to is for others to say.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    if parts.scheme != "http" or port is None or parts.username is not None or parts.password is not None:
        return False
    if host in ("localhost", socket.gethostname().lower()):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
        if address.is_loopback:
            return True
        family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))
    except (OSError, ValueError):
        return False
    return not (address.is_unspecified or address.is_multicast)


def _place(url: str) -> str:
    return url.replace("//localhost:", "//127.0.0.1:")


def _read(path: Path) -> Record | None:
    try:
        with files.reading(path) as file:
            return pydantic.TypeAdapter(Record).validate_json(file.read(_LONGEST), strict=True)
    except (OSError, ConfigError, pydantic.ValidationError):
        return None


def _alive(pid: int) -> bool:
    """Whether a process has that number."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
