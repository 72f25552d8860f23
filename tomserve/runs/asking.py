"""A phase of a run: some requests to some endpoints, into a journal, with progress, until done, stopped or lost.

A run has one phase, or three where its noise floor is measured (see reasking.py). Each leaves the manifest
true: it is saved before, and when it ends badly.

>>> asking.ask(Phase(journal, requests, total=352, left=lambda: 352, concurrency=None))       # doctest: +SKIP
352
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson
from rich.console import Console

from tomserve.engine.adaptive import MOST
from tomserve.engine.request import Request
from tomserve.engine.retry import RetryPolicy
from tomserve.engine.runner import Runner
from tomserve.engine.transport import AiohttpTransport, Timeouts, Transport
from tomserve.errors import JournalError, ServerLostError, StoppedError
from tomserve.reporting.progress import RunProgress
from tomserve.runs.journal import Journal
from tomserve.serving import keys

TRANSPORTS = ("aiohttp", "openai")
SPARE_FILES = 128
"""Open files that are no connections."""


def _most(endpoints: int) -> int:
    """Requests that may be out at one endpoint: each is a connection, and open files have a limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = endpoints * MOST + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MOST if soft == resource.RLIM_INFINITY else max(1, min(MOST, (soft - SPARE_FILES) // endpoints))


def _transport(name: str, timeouts: Timeouts) -> Transport:
    if name == "openai":
        from tomserve.engine.openai_transport import OpenAITransport

        return OpenAITransport(keys.api_key(), timeouts)
    return AiohttpTransport(keys.api_key(), timeouts)


@dataclass
class Phase:
    """What is asked in one go. left: how many of the `total` have no final row yet. concurrency: requests in flight,
    None to find it out. what: how it is called in messages. session: gets what asking found out, for the manifest."""

    journal: Journal
    requests: Iterable[Request]
    total: int
    left: Callable[[], int]
    concurrency: int | None
    hedge: float | None = None
    what: str = "to ask"
    session: dict[str, Any] = field(default_factory=dict)


@dataclass
class Asking:
    """Who is asked, and how; the same for all phases of a run. alive: returns a reason once the server is known to be
    gone. log: takes a line for the run's log. save: writes the manifest as things stand."""

    endpoints: list[str]
    model: str
    console: Console
    log: Callable[[str], None]
    save: Callable[[], None]
    timeout: float
    transport: str = "aiohttp"
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    quiet: bool = False
    alive: Callable[[], str | None] = lambda: None

    def ask(self, phase: Phase) -> int:
        """Ask what is left; returns the number of rows added. Raises TomserveError; what completed is kept."""
        self.save()
        left = phase.left()
        self.log(f"{left} of {phase.total} left {phase.what}")
        progress = RunProgress(self.console, phase.total, phase.total - left, quiet=self.quiet)
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with progress:
                asyncio.run(self._run(phase, progress))
        except BaseException:
            with contextlib.suppress(JournalError):  # a full disk is being reported already
                self.save()
            raise
        finally:
            for number, handler in handlers.items():  # the loop takes them away; what comes after must end well, too
                signal.signal(number, handler)
            if progress.written:
                self.console.print(progress.summary(), markup=False, highlight=False)
            self.log(f"{progress.written} rows added, {progress.reused} reused, by status {dict(progress.statuses)}")
        return progress.written

    async def _run(self, phase: Phase, progress: RunProgress) -> None:
        stop = asyncio.Event()
        caught: list[int] = []
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()

        def on_signal(number: int) -> None:
            caught.append(number)
            if len(caught) == 1:
                self.console.print("stopping: waiting for what is in flight (again to stop at once) ...")
                stop.set()
            elif task is not None:
                task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, on_signal, number)
        transport = _transport(self.transport, Timeouts(stall=self.timeout, total=self.timeout))
        runner = Runner(
            self.endpoints,
            transport,
            phase.journal,
            concurrency=phase.concurrency,
            most=_most(len(self.endpoints)),
            policy=self.policy,
            observer=progress,
            stop=stop,
            alive=self.alive,
            hedge=phase.hedge,
            probe=orjson.dumps({"model": self.model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}),
        )
        try:
            await runner.run(phase.requests)
        except asyncio.CancelledError:
            if not caught:
                raise
        except ServerLostError as error:
            raise ServerLostError(f"{error}; {phase.left()} of {phase.total} left {phase.what}") from None
        finally:
            limit = progress.now.limit if progress.now.found else phase.concurrency
            phase.session |= {"concurrency": limit, "prompt_tokens": runner.prefix.to_dict()}
            await transport.close()
        if caught:
            raise StoppedError(
                f"stopped; {phase.left()} of {phase.total} left {phase.what}, everything else is kept; "
                "repeat the command to resume",
                128 + caught[0],
            )
