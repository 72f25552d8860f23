"""Starts a vLLM server, waits until it is healthy, and ends it with every process that it started.

The server runs in its own process group: Ctrl-C reaches tomserve alone, which then ends the whole group. A pipe ends
the group when tomserve itself is killed (see tomserve.serving.vllm_cli).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from tomserve.content import files
from tomserve.errors import MachineError, ServerError
from tomserve.serving import failures
from tomserve.serving.command import Command
from tomserve.serving.ports import listeners
from tomserve.serving.probe import healthy

Note = Callable[[str], None]


class Server:
    """A server that is started when the object is made. Use it as a context manager, or call stop().

    command: what to run. host, port: where the command makes it listen. log: the file for its output; None leaves the
    output to this process's own. echo: copy each line of the log to our standard output, too, after this text.
    root is its address, url the same with /v1. Raises MachineError where the log cannot be written or the command not
    started.
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        text = self._end_of_log()
        if not text.strip():
            return ""
        if (cause := failures.explain(text)) is not None:
            return f": {cause} (log: {self.log})"
        return f"; {self.log} ends: " + " | ".join(failures.last_words(text))

    def _end_of_log(self) -> str:
        """The last characters of the log; empty where there is no log to read."""
        if self.log is None:
            return ""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - failures.READ))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def _echo(self, log: Path, before: str) -> None:
        """Copy the log to our output as it grows. The server itself writes to the file, so it never waits for us."""
        rest = b""
        with contextlib.suppress(OSError, ValueError), log.open("rb") as file:
            while True:
                ended = self._pipe < 0 or self.process.poll() is not None
                *whole, rest = (rest + file.read()).split(b"\n")
                for line in whole:
                    sys.stdout.write(f"{before}{line.decode('utf-8', 'replace')}\n")
                sys.stdout.flush()
                if ended:
                    return
                time.sleep(0.2)

    def wait_healthy(self, note: Note, timeout: float = 1800.0) -> float:
        """Wait until the server answers /health, and return how many seconds that took.

        note: is told every few seconds that it is still waited for. timeout: seconds to wait. Raises ServerError where
        they pass, and at once where the process ends or another server answers in its place.
        """
        return wait_all([self], note, timeout)

    def ready(self) -> bool:
        """Whether the server answers /health. Raises ServerError where it has ended or another answers in its place."""
        if (reason := self.gone()) is not None:
            raise ServerError(reason)
        if not healthy(self.root, 2.0):
            return False
        self._refuse_another()
        self._healthy = True
        return True

    def _refuse_another(self) -> None:
        """Raise ServerError where the process that listens on our port is not in the group that we started.

        Two servers can be bound to one port, so that an answer alone does not prove that ours is running.
        """
        pids = listeners(int(self.root.rsplit(":", 1)[1]))
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
        still loading, which ignores SIGTERM and has nothing to lose.
        """
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
        """Kill the whole process group and wait for its end, at most `wait` seconds."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self._gone_within(wait)

    def _gone_within(self, wait: float) -> bool:
        """Wait until all processes of the group have ended; returns whether they have within `wait` seconds."""
        deadline = time.monotonic() + wait
        while _group_alive(self.process.pid):
            if time.monotonic() > deadline:
                return False
            self.process.poll()
            time.sleep(0.05)
        return True


def wait_all(servers: Sequence[Server], note: Note, timeout: float = 1800.0) -> float:
    """Wait until every server answers /health, and return how many seconds that took.

    note: is told every five seconds that they are still waited for. timeout: seconds to wait for all of them. Raises
    ServerError where these pass, and at once where one of the servers ends.
    """
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


def _group_alive(group: int) -> bool:
    """Whether any process of a process group exists."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
