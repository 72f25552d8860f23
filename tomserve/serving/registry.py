"""The registry of running servers, ``runs/.servers/``: `tomserve serve` writes a file a port, `tomserve eval` finds it.

An API key is sent only to an address that the user gave, or to a server that this user started on this machine. That a
record says so is no proof, since ``runs/`` may have been downloaded, or be shared: see `judge_record`.
"""

import contextlib
import errno
import ipaddress
import os
import socket
import stat
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson
import pydantic

from tomserve.content import files
from tomserve.content.paths import runs_root
from tomserve.engine.records import utc_now
from tomserve.engine.redact import Redactor
from tomserve.errors import ConfigError, ServerError
from tomserve.serving import keys, server
from tomserve.serving.probe import LOADING, WaitPolicy, is_healthy

PATIENCE = 10.0  # seconds that a recorded server may take to answer /health
_LONGEST = 2**20  # how many bytes of a record are read at most; one that tomserve writes has a few thousand
_LONGEST_LOG = 2**16  # how many bytes of the end of a server's log are read
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True)
class Record:
    pid: int  # the process of `tomserve serve`
    url: str  # the address, ending in /v1
    model: str  # the served name
    revision: str | None
    command: list[str]  # the words of vLLM's command line
    started: str  # in ISO 8601
    host: str  # the name of its machine
    server: dict[str, Any] = field(default_factory=dict)  # what it serves, as `provenance.describe_server` gives it
    born: str | None = None  # when the process `pid` started, as `process_birth` tells it
    loading: bool = False  # until that is over another process may listen at the address, so nothing is asked there


@dataclass(frozen=True)
class Judgement:
    """Whether a file of ``.servers`` is believed."""

    path: Path
    record: Record | None = None  # what it holds, where it is believed
    doubt: str = ""  # why it is not believed and what the user can do
    stale: bool = False  # whether it cannot be read or its process has ended, so that it may be removed


class LiveRecord(NamedTuple):
    """A believed record, and the state of its server: "ready" where it answers /health; "loading" where its record says
    so, and then it is not asked; "silent" where its process runs, but it does not answer: it may only be busy."""

    path: Path
    record: Record
    state: str

    @property
    def label(self) -> str:
        return f"{files.one_line(self.record.model)} at {files.one_line(self.record.url)}"

    @property
    def silence(self) -> str:
        return f"{self.label} (pid {self.record.pid} on {self.record.host}) is running but does not answer"

    def log(self) -> str:
        """The end of what the server has written; anything may stand in it."""
        return files.read_tail(self.path.with_suffix(".log"), _LONGEST_LOG)

    def last_log_line(self) -> str:
        """The last line that the server has written, as a part of a sentence, without keys; empty where there is
        none."""
        text = Redactor(*keys.all_keys())(self.log())
        lines = [line for line in map(str.strip, text.replace("\r", "\n").splitlines()) if line]
        return f"; its log says: {files.one_line(lines[-1][-160:])}" if lines else ""


def registry_folder() -> Path:
    return runs_root() / ".servers"


def make_registry_folder() -> Path:
    """The folder of the records, made where it is missing, writable by this user alone. Raises OSError."""
    place = registry_folder()
    place.mkdir(parents=True, exist_ok=True)
    if place.is_symlink():
        raise NotADirectoryError(errno.ENOTDIR, "is a symbolic link, which is not followed", str(place))
    mode = stat.S_IMODE(place.stat().st_mode)
    if mode & _OTHERS_WRITE:
        place.chmod(mode & ~_OTHERS_WRITE)
    return place


def write_record(port: int, **fields: Any) -> Path:
    """Record a server that this process runs, and return the path of the record. fields: those of `Record` besides pid,
    started, host and born. Raises OSError or ConfigError where it cannot be written."""
    path = make_registry_folder() / f"{port}.json"
    pid = os.getpid()
    record = Record(pid=pid, started=utc_now(), host=socket.gethostname(), born=process_birth(pid), **fields)
    files.replace_bytes(path, orjson.dumps(asdict(record)), 0o600)
    return path


def believed_records(urls: Sequence[str] | None = None) -> list[LiveRecord]:
    """The believed records in the order of their file names; those whose process has ended are removed. urls: only
    those of servers at these addresses."""
    found, places = [], None if urls is None else set(map(_place, urls))
    for judged in _judge_all():
        record = judged.record
        if record is not None and places is not None and _place(record.url) not in places:
            continue
        if judged.stale:
            with contextlib.suppress(OSError):
                judged.path.unlink()
        elif record is not None and record.loading:
            found.append(LiveRecord(judged.path, record, "loading"))
        elif record is not None:
            answers = is_healthy(record.url.removesuffix("/v1"), PATIENCE)
            found.append(LiveRecord(judged.path, record, "ready" if answers else "silent"))
    return found


def describe_doubts() -> list[str]:
    """A line for every record that is not believed: its file, what it claims, why not, and what the user can do."""
    return [f"{files.one_line(judged.path.name)}: {judged.doubt}" for judged in _judge_all() if judged.doubt]


def remove_record(path: Path) -> None:
    """Remove a record that this process wrote; the record of another process is left alone."""
    record = _read(path)
    if record is not None and (record.pid, record.host) == (os.getpid(), socket.gethostname()):
        with contextlib.suppress(OSError):
            path.unlink()


def _judge_all() -> Iterator[Judgement]:
    return (judge_record(path) for path in sorted(registry_folder().glob("*.json")))


def judge_record(path: Path) -> Judgement:
    """Decide whether the record in a file is believed, which takes all of this:

    1. The file and ``.servers`` belong to this user, are no links, and nobody else may write to them.
    2. The record names this host, and its address is plain http to a loopback address or an address of this machine.
    3. The process that it names lives, is this user's, and is the very one that wrote the record: it started at the
       same tick of the same boot. The kernel draws a random number at every boot, which nobody elsewhere can know.
    """
    for place in (path.parent, path):
        if (reason := _not_ours_alone(place, folder=place != path)) is not None:
            return Judgement(path, doubt=reason)
    record = _read(path)
    if record is None:
        return Judgement(path, stale=True)
    where = f"{files.one_line(record.model)} at {files.one_line(record.url)}"
    if record.host != socket.gethostname():
        reason = f"on another machine ({files.one_line(record.host)}): give --base-url if you trust it"
        return Judgement(path, doubt=f"{where} is {reason}")
    if record.born is None:
        reason = "does not say when its process started (another version of tomserve, or a system without /proc)"
        return Judgement(path, doubt=f"{where} {reason}: start the server again, or give --base-url if you trust it")
    if record.born != process_birth(record.pid):  # the id of its process now belongs to another one
        return Judgement(path, stale=True)
    if not _this_machine(record.url):
        reason = "is no address of this machine: give --base-url if you trust it"
        return Judgement(path, doubt=f"{where} {reason}")
    return Judgement(path, record)


def _not_ours_alone(path: Path, *, folder: bool) -> str | None:
    """Why another user could have made or changed this file or folder; None where only this user can have."""
    try:
        status = path.lstat()
    except OSError as error:
        return f"cannot be looked at ({error.strerror})"
    name = ".servers" if folder else "it"
    if not (stat.S_ISDIR if folder else stat.S_ISREG)(status.st_mode):
        return f"{name} is no {'folder' if folder else 'regular file'} (a link is not followed)"
    if status.st_uid != os.geteuid():
        return f"{name} belongs to another user (user id {status.st_uid})"
    if status.st_mode & _OTHERS_WRITE:
        return f"{name} can be written by other users (`chmod go-w` forbids it)"
    return None


def process_birth(pid: int) -> str | None:
    """When a running process of this user started: the kernel's id of the boot, a slash, and clock ticks since then;
    None where it is another user's, has ended, or the system does not tell."""
    process = Path("/proc") / str(pid)
    try:
        if process.stat().st_uid != os.geteuid():
            return None
        boot = files.read_own_text(Path("/proc/sys/kernel/random/boot_id")).strip()
        # The second field is the name of the program in brackets, which may hold blanks and brackets itself.
        state, *rest = files.read_own_text(process / "stat", "replace").rpartition(")")[2].split()
        return None if state in ("Z", "X") else f"{boot}/{int(rest[18])}"
    except (OSError, ValueError, IndexError):
        return None


def _this_machine(url: str) -> bool:
    """Whether a URL is plain http to this machine: to a loopback address, or one that a local socket can be bound to.

    Of host names only `localhost` and this machine's own count, because others decide what any other name resolves to.
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
    """The URL with localhost written as 127.0.0.1, so that both compare equal."""
    return url.replace("//localhost:", "//127.0.0.1:")


def _read(path: Path) -> Record | None:
    try:
        with files.open_for_reading(path) as file:
            return pydantic.TypeAdapter(Record).validate_json(file.read(_LONGEST), strict=True)
    except (OSError, ConfigError, pydantic.ValidationError):
        return None


LOOK_EVERY = 0.5  # seconds between two looks at the records


def wait_until_ready(model: str | None, waiting: WaitPolicy) -> list[Record]:
    """The records of servers that are ready, once those that `model` has to wait for are.

    A server that loads is waited for unless one that is ready serves the model; one that was ready and does not answer
    is waited for in any case. Raises ServerError where a server ends meanwhile or the patience does, ConfigError where
    several models load and none is wanted by name.
    """
    known = believed_records()
    fitting = [one for one in known if serves(one.record, model)]
    served = any(one.state == "ready" for one in fitting)
    wanted = [one for one in fitting if one.state == "silent" or (one.state == "loading" and not served)]
    names = sorted({one.record.model for one in wanted})
    if len(names) > 1:
        raise ConfigError(f"several models are being loaded; name one by --model (MODEL=): {', '.join(names)}")
    if wanted:
        known = _wait(wanted, waiting)
    return [one.record for one in known if one.state == "ready"]


def serves(record: Record, model: str | None) -> bool:
    """Whether a server serves that model, by its name, or as vLLM's command line names it: a hub id, or a folder; None
    for any model."""
    words = record.command
    return model in (None, record.model) or ("serve" in words[:-1] and words[words.index("serve") + 1] == model)


def records_at(urls: Sequence[str], waiting: WaitPolicy) -> list[Record] | None:
    """The records of the servers at these addresses, in their order, once those that load are ready; None unless every
    one has a believed record. Raises as `wait_until_ready` does."""
    known = believed_records(urls)
    if loading := [one for one in known if one.state == "loading"]:
        known = _wait(loading, waiting, urls)
    believed, places = {_place(one.record.url): one.record for one in known}, [_place(url) for url in urls]
    return [believed[place] for place in places] if places and all(place in believed for place in places) else None


def _wait(wanted: Sequence[LiveRecord], waiting: WaitPolicy, urls: Sequence[str] | None = None) -> list[LiveRecord]:
    began = waiting.clock()
    while True:
        known = believed_records(urls)
        now = {(one.path, one.record.pid): one for one in known}
        left = []
        for before in wanted:
            one = now.get((before.path, before.record.pid))
            if one is None:
                raise ServerError(_explain_end(before))
            if one.state != "ready":
                left.append(one)
        if not left:
            return known
        passed, one, loads = waiting.clock() - began, left[0], left[0].state == "loading"
        most = waiting.time_limit(LOADING if loads else waiting.policy.lost_after)
        if passed >= most and loads:
            raise ServerError(
                f"{one.label} is still loading after {passed:.0f} s{one.last_log_line()}; repeat the command later, "
                f"give it more time by --patience SECONDS, or stop it (pid {one.record.pid})"
            )
        if passed >= most:
            how = f"stop it, or give --base-url ({one.path} records it)"
            raise ServerError(f"{one.silence} for {passed:.0f} s; {how}")
        what = f"waiting for {one.label} to load" if loads else f"{one.silence}; waiting for it"
        log = one.last_log_line() if loads else ""
        waiting.speak(f"{what} ... {passed:.0f} s of at most {most:.0f}{log}")
        waiting.rest(min(LOOK_EVERY, most - passed))


def _explain_end(before: LiveRecord) -> str:
    """What to tell where a server that was waited for has ended: why, as far as its log tells, and what to do."""
    text = before.log()
    words = server.explain_failure(text) or " | ".join(server.last_error_lines(text))
    why = f" ({words})" if words else ""
    return (
        f"{before.label} (pid {before.record.pid}) has ended while it was waited for{why}; its log is "
        f"{before.path.with_suffix('.log')}: mend what it says and start it again by `tomserve serve` (make serve), "
        "give another server by --base-url, or repeat the command to do without it"
    )
