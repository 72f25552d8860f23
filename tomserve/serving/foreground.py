"""Runs `tomserve serve`: one or several servers in the foreground, recorded so that `tomserve eval` finds them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from tomserve.content.text import say
from tomserve.errors import ConfigError, ServerError
from tomserve.serving import install, keys, nodes, provenance, records, reference
from tomserve.serving.launching import Replica, Wanted, prepare
from tomserve.serving.ports import check_port, reserved
from tomserve.serving.presets import Preset
from tomserve.serving.probe import Probe, healthy
from tomserve.serving.server import Server, wait_all
from tomserve.serving.target import REFERENCE

SILENT = 60.0
"""Seconds after which a replica that runs but does not answer /health is reported as silent."""


def commands(wanted: Wanted) -> list[str]:
    """The exact shell lines that `serve` would run, one a replica; for several nodes, those of each with remarks.

    Raises ConfigError, ContentError, MachineError.
    """
    replicas = prepare(wanted, dry=True)
    _warn(replicas[0].preset)
    if replicas[0].ranks:
        return nodes.script(replicas[0].ranks)
    return [replica.command.shell() for replica in replicas]


def serve(wanted: Wanted, *, setup: bool, console: Console) -> None:
    """Start the servers and keep them running until Ctrl-C, SIGTERM, or until the last of them has ended by itself.

    wanted: what to serve. setup: install vLLM first where it is missing. console: where progress is told.
    Raises ConfigError, ContentError or MachineError where serving cannot begin, ServerError where it fails.
    """

    def say(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True, highlight=False)

    replicas = prepare(wanted)
    preset = replicas[0].preset
    _warn(preset)
    for replica in replicas:
        check_port(wanted.host, replica.port)
    if setup:
        install.setup("cuda" if preset.device == "cuda" else None, say)
    install.require_engine()
    with contextlib.ExitStack() as stack:
        for replica in replicas:
            stack.enter_context(reserved(replica.port))
            check_port(wanted.host, replica.port)
        started: list[_Started] = []
        try:
            for replica in replicas:
                if replica.layout is not None and not replica.layout.comfortable:
                    questions = int(replica.layout.questions)
                    say(f"Memory is tight: only {questions} questions fit at a time; --explain shows the arithmetic.")
                say(replica.command.shell())
                started.append(stack.enter_context(_Started.begin(replica, wanted, several=len(replicas) > 1)))
            wait_all([one.server for one in started], say)
            for one in started:
                with Probe(one.server.url, keys.server_key(wanted.host, insecure=True)) as probe:
                    probe.check_chat(preset.served_name)
            for one in started:
                one.write_record(say)
                say(f"serving {preset.served_name} at {one.server.url}")
            servers = f"these {len(started)} replicas" if len(started) > 1 else "this server"
            say(f"`make eval` in another terminal finds {servers}; Ctrl-C ends {servers}.")
            _watch(started, say)
        finally:
            for one in started:  # tell all of them to end before the first is waited for
                one.forget()
                one.server.end()


@dataclass
class _Started:
    """A replica that was started.

    record: the file that lets `tomserve eval` find it; None where there is none. state: "up", "silent" or "ended".
    answered: when it last answered /health, by time.monotonic().
    """

    replica: Replica
    server: Server
    record: Path | None = None
    state: str = "up"
    answered: float = 0.0

    @classmethod
    def begin(cls, replica: Replica, wanted: Wanted, *, several: bool) -> _Started:
        log: Path | None = records.folder() / f"{replica.port}.log"
        try:
            records.make_folder()
        except OSError:
            log = None  # then the server writes to this terminal, and a failure cannot be explained from a log
        echo = f"[{replica.port}] " if several else ""
        started = cls(replica, Server(replica.command, host=wanted.host, port=replica.port, log=log, echo=echo))
        preset, command = replica.preset, replica.command
        with contextlib.suppress(OSError, ConfigError):  # `write_record` tells why, once the model is loaded
            fields = {"url": started.server.url, "model": preset.served_name, "revision": None, "command": command.argv}
            started.record = records.write(replica.port, loading=True, **fields)
        return started

    def __enter__(self) -> _Started:
        return self

    def __exit__(self, *_: object) -> None:
        self.forget()
        self.server.stop()

    def write_record(self, say: Callable[[str], None]) -> None:
        """Write the record by which `tomserve eval` finds the server, or say why it will not."""
        preset, command = self.replica.preset, self.replica.command
        model = command.argv[command.argv.index("serve") + 1]
        own = reference.revision() if preset.model == REFERENCE else None
        server = provenance.started(preset, model, command, self.replica.gpus, revision=own, extra=self.replica.extra)
        if self.replica.own is not None:  # `tomserve eval` would not find it by its name
            server["preset"] = self.replica.own.model_dump(mode="json", by_alias=True, exclude_unset=True)
        try:
            self.record = records.write(
                self.replica.port,
                url=self.server.url,
                model=preset.served_name,
                revision=server["revision"],
                command=command.argv,
                server=server,
            )
            doubt = records.judge(self.record).doubt
        except OSError as error:
            doubt = f"{records.folder()}: cannot be written ({error.strerror})"
        except ConfigError as error:
            doubt = str(error)
        if doubt:
            say(f"{doubt}; `tomserve eval` will not find this server: give it the address by --base-url")

    def forget(self) -> None:
        """Remove the record, so that `tomserve eval` no longer finds this server."""
        if self.record is not None:
            records.remove(self.record)
            self.record = None


def _watch(started: list[_Started], say: Callable[[str], None]) -> None:
    """Watch the servers until the last has ended, and say whenever the state of one changes.

    Raises ServerError, with the reason, when the last server has ended.
    """
    asked = 0.0
    for one in started:
        one.answered = time.monotonic()
    while True:
        changed = False
        for one in started:
            if one.state != "ended" and (reason := one.server.gone()) is not None:
                one.state, changed = "ended", True
                one.forget()
                one.server.stop(2.0)  # its child processes may still run and hold memory of the GPU
                if all(other.state == "ended" for other in started):
                    raise ServerError(reason)
                say(f"replica at {one.server.url}: {reason}; the others go on")
        if time.monotonic() - asked >= 10:
            asked = time.monotonic()
            changes = [_look(one) for one in started if one.state != "ended"]  # a list, so that all are asked
            changed |= any(changes)
        if changed and len(started) > 1:
            say("replicas: " + ", ".join(f"{one.replica.port} {one.state}" for one in started))
        time.sleep(0.5)


def _look(one: _Started) -> bool:
    """Ask the replica for its health and update its state; returns whether the state changed."""
    before = one.state
    if healthy(one.server.root, 2.0):
        one.answered, one.state = time.monotonic(), "up"
    elif time.monotonic() - one.answered > SILENT:
        one.state = "silent"
    return one.state != before


def _warn(preset: Preset) -> None:
    if preset.warning:
        say(f"warning: {preset.name}: {preset.warning}", error=True)
