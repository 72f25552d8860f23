"""A vLLM server process: its port, its start, its health, its end, and from its log why it failed.

It runs in its own process group: Ctrl-C reaches tomserve alone, which then ends the whole group. A pipe ends the group
when tomserve itself is killed (see tomserve.serving.vllm_cli).
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import jinja2.sandbox

from tomserve import content
from tomserve.content import files
from tomserve.content.paths import cache_root
from tomserve.content.validation import load_yaml
from tomserve.engine.redact import Redactor
from tomserve.errors import ConfigError, MachineError, ServerError
from tomserve.serving import keys
from tomserve.serving.command import Command
from tomserve.serving.probe import is_healthy

LOG_TAIL_BYTES = 400_000
"""How many characters at the end of a log are read; the cause of a failure is among its last lines."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ORDINARY = re.compile(r"(?:\(\w+ pid=\d+\) +)?(?:DEBUG|INFO|WARNING)\b")
"""Lines of vLLM's log below the level of an error. They may name a failure, but one that vLLM recovered from."""
_PREFIX = re.compile(r"^\(\w+ pid=\d+\) +(?:[A-Z]+ \S+ \S+ \[[^\]]*\] ?)?")
_NOISE = re.compile(
    r"\s*(?:Traceback|File \"|[\^~]+$|raise |return |await |For further information)"
    r"|.*(?:See root cause above|[Ss]ee stack trace for root cause)"
)


def _lines(log: str) -> list[str]:
    """The last lines of a log, without colours and without any key of this machine's environment."""
    return _COLOUR.sub("", Redactor(*keys.all_keys())(log)[-LOG_TAIL_BYTES:]).splitlines()


def explain_failure(log: str) -> str | None:
    """What made the server fail and what to do about it, by launch/failures.yaml, or None where the log holds no known
    cause. Of several causes the one that was logged first is given, since the later ones usually follow from it."""
    text = "\n".join(line for line in _lines(log) if not _ORDINARY.match(line))
    rules, _ = load_yaml(content.require("launch/failures.yaml"))
    found = [(match, rule["advice"]) for rule in rules if (match := re.search(rule["pattern"], text))]
    if not found:
        return None
    match, advice = min(found, key=lambda one: one[0].start())
    return jinja2.sandbox.ImmutableSandboxedEnvironment().from_string(advice).render(match.groupdict())


def last_error_lines(log: str) -> list[str]:
    """The last three lines of a log that are worth showing: those that name an error, or any where none does. Each is
    cut to its last 200 characters."""
    plain = (_PREFIX.sub("", line) for line in _lines(log) if not _ORDINARY.match(line))
    spoken = [line.strip() for line in plain if line.strip() and not _NOISE.match(line)]
    errors = [line for line in spoken if re.search(r"\b\w*(?:Error|Exception)\b|\berror\b|ERROR", line)] or spoken
    return [line[-200:] for line in errors[-3:]]


_LISTEN = "0A"  # how /proc/net/tcp writes the state of a socket that listens
_LOWEST, _HIGHEST = 20000, 32000
"""The range in which free ports are looked for; on most systems it is below the ports that the system hands out."""


def free_port(count: int = 1) -> int:
    """The first of `count` consecutive ports of the loopback interface that are all free now, below the ports that the
    system hands out by itself: vLLM takes several of those while it loads and would now and then take the very port
    on which it is to listen in the end. Raises MachineError where none is."""
    highest = _HIGHEST
    with contextlib.suppress(OSError, ValueError, IndexError):
        own = files.read_own_text(Path("/proc/sys/net/ipv4/ip_local_port_range")).split()
        highest = min(highest, int(own[0]))
    for _ in range(1000):
        first = random.randrange(_LOWEST, max(highest, _LOWEST + 1000) - count)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise MachineError(f"there is no free port between {_LOWEST} and {highest}; end some of the servers that run here")


@contextlib.contextmanager
def reserve_port(port: int) -> Iterator[None]:
    """Keep other `tomserve serve` commands on this machine from taking `port` while this one loads a model, after which
    alone vLLM listens: a locked file in the user's own cache stands for the port. Raises MachineError where it is
    held."""
    folder = cache_root() / "tomserve/ports"
    name = f"{socket.gethostname()}-{port}.lock"  # several machines may share one home folder
    try:
        files.make_private(folder)
        lock = os.fdopen(files.open_regular(folder / name, os.O_RDWR | os.O_CREAT, 0o600), "r+")
        free = files.try_lock(lock.fileno())
    except (OSError, ConfigError):
        yield  # the lock is a convenience: without a place for it, serving still works
        return
    with lock:
        if not free:
            lock.seek(0)
            by = lock.read().strip() or "another process"
            raise MachineError(
                f"port {port} is taken by another `tomserve serve` ({by}), which may still be loading its model; "
                "choose another --port (PORT=)"
            )
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
        pids = port_listeners(port)
        by = "" if pids is None else " by another user's process"
        for pid in pids or ():
            with contextlib.suppress(OSError):
                by = f" by pid {pid} ({files.read_own_text(Path(f'/proc/{pid}/comm')).strip()})"
                break
        raise MachineError(
            f"{host}:{port}: cannot listen ({error.strerror}{by}); choose another --port (PORT=)"
        ) from None


def port_listeners(port: int) -> list[int] | None:
    """The ids of processes that listen on `port`: empty where they are another user's; None where nobody listens or the
    system does not tell."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in files.read_own_text(Path(table)).splitlines()[1:]:
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


Note = Callable[[str], None]


class Server:
    """A server that is started when the object is made. Use it as a context manager, or call stop().

    log: the file for its output; None leaves it to this process's own. echo: copy each line of the log to our standard
    output, too, after this text. Raises MachineError where the log cannot be written or the command not started.
    """

    def __init__(
        self, command: Command, *, host: str, port: int, log: Path | None = None, echo: str | None = None
    ) -> None:
        reachable = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
        self.root, self.url, self.log = f"http://{reachable}:{port}", f"http://{reachable}:{port}/v1", log
        self._healthy = self._asked_to_end = False
        try:
            output = files.open_for_writing(log) if log else None
        except OSError as error:
            raise MachineError(
                f"{log}: cannot be written ({error.strerror}); set TOMSERVE_RUNS to a folder that can be"
            ) from None
        reading, self._pipe = os.pipe()
        try:
            self.process = subprocess.Popen(
                command.argv,
                env={**os.environ, **command.env, **command.secret, "TOMSERVE_PARENT_FD": str(reading)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT if output else None,
                pass_fds=(reading,),
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._pipe)
            raise MachineError(f"cannot start {command.argv[0]} ({error.strerror})") from None
        finally:
            os.close(reading)
            if output:
                output.close()
        if log is not None and echo is not None:
            threading.Thread(target=self._echo, args=(log, echo), daemon=True).start()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    def gone(self) -> str | None:
        """Why the server has ended, as the end of a sentence, or None while it runs."""
        code = self.process.poll()
        if code is None:
            return None
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if code == -signal.SIGKILL:
            how += " (somebody killed it, or the system did because memory ran out: `dmesg` tells)"
        return f"the server process ended with {how}{self.last_words()}"

    def last_words(self) -> str:
        """What to add to a message about its failure: the known cause in its log, or else the log's last lines."""
        text = files.read_tail(self.log, LOG_TAIL_BYTES) if self.log is not None else ""
        if not text.strip():
            return ""
        if (cause := explain_failure(text)) is not None:
            return f": {cause} (log: {self.log})"
        return f"; {self.log} ends: " + " | ".join(last_error_lines(text))

    def _echo(self, log: Path, before: str) -> None:
        """Copy the log to our output as it grows. The server itself writes to the file, so it never waits for us."""
        rest = b""
        with contextlib.suppress(OSError, ValueError), files.open_for_reading(log) as file:
            while True:
                ended = self._pipe < 0 or self.process.poll() is not None
                *whole, rest = (rest + file.read()).split(b"\n")
                for line in whole:
                    sys.stdout.write(f"{before}{line.decode('utf-8', 'replace')}\n")
                sys.stdout.flush()
                if ended:
                    return
                time.sleep(0.2)

    def ready(self) -> bool:
        """Whether the server answers /health. Raises ServerError where it has ended or another answers in its place."""
        if (reason := self.gone()) is not None:
            raise ServerError(reason)
        if not is_healthy(self.root, 2.0):
            return False
        self._refuse_another()
        self._healthy = True
        return True

    def _refuse_another(self) -> None:
        """Raise ServerError where the process that listens on our port is not in the group that we started: two servers
        can be bound to one port, so that an answer alone does not prove that ours is running."""
        pids = port_listeners(int(self.root.rsplit(":", 1)[1]))
        if pids is None or not os.access(f"/proc/{self.process.pid}/fd", os.R_OK):
            return  # this system does not tell which process listens
        for pid in pids:
            with contextlib.suppress(OSError):
                if os.getpgid(pid) == self.process.pid:
                    return
        by = f"pid {pids[0]}" if pids else "another user's"
        raise ServerError(f"{self.root} is answered by another server ({by}); choose another --port (PORT=)")

    def end(self) -> None:
        """Ask all processes of the server to end, without waiting for them; stop() waits."""
        if self._pipe >= 0 and not self._asked_to_end:
            self._asked_to_end = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGTERM)

    def stop(self, patience: float | None = None) -> None:
        """End all processes of the server by SIGTERM, and by SIGKILL those that are left. It may be called twice.
        patience: seconds between the two; by default 15 for a server that has been healthy, and 2 for one that was
        still loading, which ignores SIGTERM and has nothing to lose."""
        if self._pipe < 0:
            return
        try:
            self.end()
            if not self._gone_within(patience if patience is not None else 15.0 if self._healthy else 2.0):
                self._kill(5.0)
        except BaseException:  # a second Ctrl-C: the user will not wait, but no process may be left behind
            self._kill(1.0)
            raise
        finally:
            os.close(self._pipe)
            self._pipe = -1

    def _kill(self, wait: float) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self._gone_within(wait)

    def _gone_within(self, wait: float) -> bool:
        deadline = time.monotonic() + wait
        while True:
            try:
                os.killpg(self.process.pid, 0)
            except ProcessLookupError:
                return True
            except PermissionError:  # somebody else's process has joined it
                pass
            if time.monotonic() > deadline:
                return False
            self.process.poll()
            time.sleep(0.05)


def wait_healthy(servers: Sequence[Server], note: Note, timeout: float = 1800.0) -> float:
    """Wait until every server answers /health, and return how many seconds that took. note: is told every five seconds
    that they are still waited for. Raises ServerError after `timeout` seconds, and at once where one of the servers
    ends."""
    began = noted = time.monotonic()
    waiting = list(servers)
    while waiting := [server for server in waiting if not server.ready()]:
        now = time.monotonic()
        if now - began >= timeout:
            raise ServerError(
                f"{waiting[0].root}: the server is not healthy after {timeout:.0f} s{waiting[0].last_words()}"
            )
        if now - noted >= 5:
            noted = now
            what = "the server" if len(servers) == 1 else f"{len(waiting)} servers"
            note(f"waiting for {what} to load ... {now - began:.0f} s")
        time.sleep(0.25)
    return time.monotonic() - began
