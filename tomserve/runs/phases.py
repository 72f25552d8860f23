"""A phase of an evaluation: some requests to some endpoints, into a journal, until done, stopped or lost.

An evaluation is a sequence of phases: it asks its questions and, where its noise floor is measured, asks some of them
again at two other numbers of requests in flight (see noise_check.py). Each leaves the manifest true: it is saved
before, and when it ends badly.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from tomserve.engine.adaptive import MOST
from tomserve.engine.answering import Answering
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.engine.retry import RetryPolicy
from tomserve.engine.runner import Runner
from tomserve.engine.transport import AiohttpTransport, Timeouts, Transport
from tomserve.errors import JournalError, ServerLostError, StoppedError
from tomserve.prompting.strategy import Strategy
from tomserve.runs.journal import Journal
from tomserve.runs.listening import Listener, Tally
from tomserve.runs.manifest import Session
from tomserve.runs.stock import Stock
from tomserve.runs.stopping import INTERRUPTED, Stop
from tomserve.serving import keys
from tomserve.serving.vigil import Vigil
from tomserve.status import SPOKEN

TRANSPORTS = ("aiohttp", "openai")
SPARE_FILES = 128
"""Open files that are no connections."""


Done = Callable[[Identity], bool]
"""Whether an identity has its final row already."""


def _nothing(identity: Identity) -> bool:
    """Nothing is done yet."""
    del identity
    return False


@dataclass(frozen=True)
class Questions:
    """Items and the strategies that ask about each: in all, items times the turns of every strategy."""

    items: Stock
    strategies: Sequence[Strategy]

    def __len__(self) -> int:
        return len(self.items) * sum(strategy.turns for strategy in self.strategies)

    def identities(self) -> Iterator[Identity]:
        """What a row is wanted for: every turn of every strategy for every item."""
        for strategy in self.strategies:
            for item in self.items.ids:
                for turn in range(strategy.turns):
                    yield Identity(item, strategy.name, turn)

    def requests(
        self, model: str, revision: str | None, sampling: Sampling, done: Done = _nothing
    ) -> Iterator[Request]:
        """The requests, made as they are needed; those that share the longest beginning of a prompt come together.

        done: tells which identities need no request, so that a resumed run renders only what is left.
        """
        for strategy in self.strategies:
            for place in self._in_order(strategy, done):
                item = self.items[place]
                turn = strategy.turn(item)
                identity = Identity(item.id, strategy.name, turn.number)
                yield Request.build(identity, turn, model=model, revision=revision, sampling=sampling)

    def _in_order(self, strategy: Strategy, done: Done) -> list[int]:
        """The places of the items that the strategy has still to ask about, in the order in which it asks."""
        last = strategy.turns - 1
        left = [place for place, item in enumerate(self.items.ids) if not done(Identity(item, strategy.name, last))]
        keys = {place: strategy.order(self.items[place]) for place in left}
        return sorted(keys, key=keys.__getitem__)


@dataclass(frozen=True)
class Phase:
    """What is asked in one go, at one number of requests in flight.

    identities: what a row is wanted for. requests: what is sent for them, made as they are needed. concurrency:
    requests in flight, None to find it out. hedge: seconds after which a second endpoint is asked, too. what: how it is
    called in messages. said: what is announced of the number left and the whole. session: told what asking found out.
    """

    journal: Journal
    identities: Callable[[], Iterable[Identity]]
    requests: Callable[[], Iterable[Request]]
    said: Callable[[int, int], str]
    concurrency: int | None = None
    hedge: float | None = None
    what: str = "to ask"
    session: Session | None = None

    def left(self) -> int:
        """How many identities have no final row yet."""
        return sum(identity not in self.journal.final for identity in self.identities())

    def total(self) -> int:
        """How many identities there are."""
        return sum(1 for _ in self.identities())


@dataclass
class Asker:
    """Who is asked, and how; the same for all phases of an evaluation.

    timeout: seconds a request. alive: returns a reason once the server is known to be gone. log: takes a line for the
    run's log. save: writes the manifest as things stand. answering: the models that replies name, the same for all
    phases. vigil: looks now and then whether the server is still the same. `added` counts the rows of all phases.
    """

    endpoints: Sequence[str]
    model: str
    listener: Listener
    stop: Stop
    log: Callable[[str], None]
    save: Callable[[], None]
    timeout: float
    transport: str = "aiohttp"
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    alive: Callable[[], str | None] = lambda: None
    answering: Answering = field(default_factory=Answering)
    vigil: Vigil | None = None
    added: int = 0

    async def ask(self, phase: Phase) -> None:
        """Ask what is left of a phase, if anything is. Raises TomserveError; what completed is kept."""
        left, total = phase.left(), phase.total()
        if not left:
            return
        self.listener.message(phase.said(left, total))
        self.save()
        self.log(f"{left} of {total} left {phase.what}")
        tally = Tally(self.listener)
        self.listener.started(total, total - left)
        try:
            await self._run(phase, tally)
        except BaseException:
            with contextlib.suppress(JournalError):  # a full disk is being reported already
                self.save()
            raise
        finally:
            self.added += tally.written
            self.listener.finished()
            self.log(f"{tally.written} rows added, {tally.reused} reused, by status {dict(tally.statuses)}")

    async def _run(self, phase: Phase, tally: Tally) -> None:
        transport = _transport(self.transport, Timeouts(stall=self.timeout, total=self.timeout))
        runner = self._runner(phase, tally, transport)
        try:
            done = await self._watched(runner.run(phase.requests()))
        except ServerLostError as error:
            raise ServerLostError(f"{error}; {self._left(phase)}") from None
        finally:
            if phase.session is not None:
                limit = tally.now.limit if tally.now.found else phase.concurrency
                phase.session.found(limit, runner.prefix.to_dict())
                answers = sum(tally.statuses[status] for status in SPOKEN)
                phase.session.answered(answers, sorted(self.answering.named))
            await transport.close()
        if not done:
            raise StoppedError(
                f"stopped; {self._left(phase)}, everything else is kept; repeat the command to resume", INTERRUPTED
            )

    async def _watched(self, asking: Coroutine[Any, Any, bool]) -> bool:
        """Ask, and look whether the server is still the same meanwhile and in the end; whether all was asked."""
        if self.vigil is None or not self.vigil.useful:
            return await asking
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(asking), asyncio.create_task(self.vigil.keep())]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            results = [task.result() for task in ended]  # raises what any of them ended by
            done = all(results)
            if done:  # else it was stopped
                await self.vigil.look()
            return done
        except asyncio.CancelledError:  # the runner knows whether it was stopped, and then ends as stopped
            if tasks[0].done():
                raise
            tasks[0].cancel()
            return bool(await tasks[0])
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _left(self, phase: Phase) -> str:
        return f"{phase.left()} of {phase.total()} left {phase.what}"

    def _runner(self, phase: Phase, tally: Tally, transport: Transport) -> Runner:
        probe = {"model": self.model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
        return Runner(
            list(self.endpoints),
            transport,
            phase.journal,
            concurrency=phase.concurrency,
            most=_most(len(self.endpoints)),
            policy=self.policy,
            observer=tally,
            stop=self.stop.event(),
            alive=self.alive,
            hedge=phase.hedge,
            answering=self.answering,
            probe=orjson.dumps(probe),
        )


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
