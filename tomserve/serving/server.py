"""A vLLM server of our own: start it, watch it become healthy, end it and everything it started.

The server runs in its own process group, so that Ctrl-C reaches tomserve alone and the end reaches all of it; a pipe
ends it when tomserve itself is killed (see tomserve.serving.vllm_cli).
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
    """A started server. `url` ends in /v1. Use as a context manager, or call stop().

    log: the file that gets what it says; None leaves that to our own output. echo: say it here, too, each line after
    this text.
    """

    def __init__(
        self, command: Command, *, host: str, port: int, log: Path | None = None, echo: str | None = None
    ) -> None:
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
        self.root, self.url, self.log = f"http://{shown}:{port}", f"http://{shown}:{port}/v1", log
        self._healthy = self._told = False
        try:
            output = files.emptied(log) if log else None
        except OSError as error:
            raise MachineError(
                f"{log}: cannot be written ({error.strerror}); set TOMSERVE_RUNS to a folder that can"
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
        """Why the server is no more, or None while it runs."""
        code = self.process.poll()
        if code is None:
            return None
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if code == -signal.SIGKILL:
            how += " (killed by someone, or by the system for want of memory: `dmesg` tells)"
        return f"the server process ended with {how}{self.last_words()}"

    def last_words(self) -> str:
        """Why it failed, where the log tells a known cause; else the last lines that say something."""
        text = self._said()
        if not text.strip():
            return ""
        if (cause := failures.explain(text)) is not None:
            return f": {cause} (log: {self.log})"
        return f"; {self.log} ends: " + " | ".join(failures.last_words(text))

    def _said(self) -> str:
        if self.log is None:
            return ""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - failures.READ))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def _echo(self, log: Path, before: str) -> None:
        """Copy the log to our own output as it grows; the server writes to the file alone, so it never waits for us."""
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
        """Wait for /health; returns the seconds it took. Raises ServerError at once when the process ends."""
        return wait_all([self], note, timeout)

    def ready(self) -> bool:
        """Whether /health answers. Raises ServerError where the process has ended, or another server answers."""
        if (reason := self.gone()) is not None:
            raise ServerError(reason)
        if not healthy(self.root, 2.0):
            return False
        self._refuse_another()
        self._healthy = True
        return True

    def _refuse_another(self) -> None:
        """Two servers can be bound to one port; what answers must be the one that we started."""
        found = listeners(int(self.root.rsplit(":", 1)[1]))
        if found is None or not os.access(f"/proc/{self.process.pid}/fd", os.R_OK):
            return  # this system does not tell
        for pid in found:
            with contextlib.suppress(OSError):
                if os.getpgid(pid) == self.process.pid:
                    return
        by = f"pid {found[0]}" if found else "another user's"
        raise ServerError(f"{self.root} is answered by another server ({by}); choose another --port (PORT=)")

    def end(self) -> None:
        """Tell the whole group to end, without waiting; stop() does the rest."""
        if self._pipe >= 0 and not self._told:
            self._told = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGTERM)

    def stop(self, patience: float | None = None) -> None:
        """End the whole process group: SIGTERM, then, after `patience` seconds, SIGKILL. Safe to call twice.

        A server that is still loading does not listen to SIGTERM and has nothing to lose: it gets little patience.
        """
        if self._pipe < 0:
            return
        try:
            self.end()
            if not self._gone_within(patience if patience is not None else 15.0 if self._healthy else 2.0):
                self._kill(5.0)
        except BaseException:  # a second Ctrl-C: no more patience, but no orphans either
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
        """Whether the whole group was gone within `wait` seconds."""
        deadline = time.monotonic() + wait
        while _group_alive(self.process.pid):
            if time.monotonic() > deadline:
                return False
            self.process.poll()
            time.sleep(0.05)
        return True


def wait_all(servers: Sequence[Server], note: Note, timeout: float = 1800.0) -> float:
    """Wait until every one of them answers /health; returns the seconds it took.

    Raises ServerError at once where one ends, or where they take longer than `timeout`.
    """
    began = shown = time.monotonic()
    waiting = list(servers)
    while waiting := [server for server in waiting if not server.ready()]:
        now = time.monotonic()
        if now - began >= timeout:
            raise ServerError(f"{waiting[0].root}: not healthy after {timeout:.0f} s{waiting[0].last_words()}")
        if now - shown >= 5:
            shown = now
            what = "the server" if len(servers) == 1 else f"{len(waiting)} servers"
            note(f"waiting for {what} ... {now - began:.0f} s")
        time.sleep(0.25)
    return time.monotonic() - began


def _group_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
