"""A workbench's queue: experiments, workers whose processes a test plays, real ones, and waiting for conditions."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import Endpoint, make_item
from tomserve.content.paths import runs_root
from tomserve.items import write_items
from tomserve.runs.journal import read_rows
from tomserve.web import jobs, run_index
from tomserve.web.jobs import Worker
from tomserve.web.queue import Queue
from tomserve.web.run_index import Job, RunIndex
from tomserve.web.settings import Settings
from tomserve.workflows.evaluate import Experiment

LONG = 120.0
"""Seconds after which a test gives up to wait; a machine that is busy is no failure."""


def until(found: Callable[[], Any], what: str = "") -> Any:
    """What a function returns, once that is true."""
    end = time.monotonic() + LONG
    while not (value := found()):
        assert time.monotonic() < end, f"waited in vain{f' for {what}' if what else ''}"
        time.sleep(0.02)
    return value


def queue_of(settings: Settings) -> Queue:
    return Queue(RunIndex(), settings)


def items(count: int) -> Path:
    """Questions within the folder of runs, where experiments of a workbench may read them."""
    folder = runs_root() / "given"
    folder.mkdir(parents=True, exist_ok=True)
    run_index.write_card(folder, run_index.Card())  # what is no run is seen by nobody
    path = folder / f"{count}.jsonl"
    if not path.exists():
        write_items(path, [make_item(number) for number in range(count)])
    return path


def experiment(endpoint: Endpoint | str, count: int = 6, **fields: Any) -> Experiment:
    """One that asks a few questions at an endpoint, one after the other."""
    url = endpoint if isinstance(endpoint, str) else endpoint.url
    given: dict[str, Any] = {
        "strategy": ("vanilla",),
        "concurrency": 1,
        "benchmark": "items",
        "path": str(items(count)),
    }
    return Experiment(base_url=(url,), **{**given, **fields})


def job(name: str) -> Job:
    found = run_index.read_card(runs_root() / name).job
    assert found is not None
    return found


def put(name: str, **fields: Any) -> None:
    """Change the place of an experiment in the queue, as if it had come to that."""
    run_index.change_card(
        runs_root() / name, lambda card: card.model_copy(update={"job": job(name).model_copy(update=fields)})
    )


def state(name: str) -> str:
    return job(name).state.value


def reaches(name: str, *states: str) -> Job:
    """The place of an experiment in the queue, once it is in one of these states."""
    until(lambda: state(name) in states, f"{name} to be {' or '.join(states)}, not {job(name)}")
    return job(name)


def asked(name: str) -> list[tuple[Any, ...]]:
    """What the rows of a run's journal are about, each as often as it stands there."""
    path = runs_root() / name / "responses.jsonl"
    found = [row for _, row in read_rows(path)] if path.exists() else []
    return sorted((row["item"], row["strategy"], row.get("turn", 0), row.get("sample", 0)) for row in found)


class Played:
    """A process that asks an experiment, played by a test: it runs until somebody ends it. env: what it was given."""

    def __init__(self, pid: int, folder: Path, env: dict[str, str], held: list[int], console: int) -> None:
        self.pid, self.name, self.env = pid, str(folder.relative_to(runs_root())), env
        self.folder, self._held, self._console = folder, held, console
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self.returncode

    def end(self, code: int = 0, said: str = "") -> None:
        """End with that exit code, having printed something."""
        os.write(self._console, f"{said}\n".encode())
        for number in (*self._held, self._console):
            os.close(number)
        self.returncode = code


class Workers:
    """Workers in this process, which begin played ones. begun: these, in their order. why: for what an experiment has
    to wait, "" for nothing. kills: the signals that were sent."""

    def __init__(self, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
        self.settings, self.begun, self.why, self.kills = settings, list[Played](), "", list[int]()
        kill = os.kill
        for name in ("LOOK", "EVERY", "TRY_EVERY", "TOGETHER"):
            monkeypatch.setattr(jobs, name, 0.01)
        monkeypatch.setattr(jobs, "waiting_reason", lambda experiment, folder: self.why)
        monkeypatch.setattr(jobs, "subprocess", SimpleNamespace(Popen=self._begin, DEVNULL=-3))
        monkeypatch.setattr(jobs, "registry", SimpleNamespace(process_birth=lambda pid: f"birth/{pid}"))
        monkeypatch.setattr(
            os, "kill", lambda pid, number: self._kill(pid, number) if pid > 10**9 else kill(pid, number)
        )

    def _begin(
        self, command: list[str], *, env: dict[str, str], pass_fds: tuple[int, ...], stdout: Any, **_: Any
    ) -> Played:
        held, console = [os.dup(number) for number in pass_fds], os.dup(stdout.fileno())
        self.begun.append(Played(10**9 + 1 + len(self.begun), Path(command[-1]), dict(env), held, console))
        return self.begun[-1]

    def _kill(self, pid: int, number: int) -> None:
        self.kills.append(number)
        for one in self.running():
            if one.pid == pid:
                one.end(-number if number == signal.SIGKILL else 128 + number)

    def running(self) -> list[Played]:
        """The processes that run now."""
        return [one for one in list(self.begun) if one.returncode is None]

    def runs(self, name: str) -> Played:
        """The process that asks an experiment, once it does, and its card says so."""
        found: list[Played] = until(lambda: [one for one in self.running() if one.name == name], f"{name} to run")
        reaches(name, "running")
        return found[0]

    @contextlib.contextmanager
    def one(self, *, leaves: bool = False) -> Iterator[Worker]:
        """A worker until this is left. leaves: whether it dies then, rather than ending what runs."""
        worker = Worker(self.settings)
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        try:
            yield worker
        finally:
            (worker.leave if leaves else worker.stop).set()
            worker.stop.set()
            thread.join(LONG)
            assert not thread.is_alive()


def processes(of: str) -> list[int]:
    """The processes of this test whose command line holds a text, by their ids."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            environment = (path.parent / "environ").read_bytes().split(b"\0")
            line = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if of in line and f"TOMSERVE_RUNS={runs_root()}".encode() in environment:
                found.append(int(path.parent.name))
    return found


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
