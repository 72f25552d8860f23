"""A phase of an evaluation: it asks some questions at one number of requests in flight and keeps the replies.

An evaluation is a sequence of phases. The first asks its questions; where the user wants a noise check, two more ask
some of them again at other numbers of requests in flight (see noise_check.py). The manifest is saved before each phase,
and also where a phase ends by an error, so that it always says what was done.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from tomserve.engine import transports
from tomserve.engine.concurrency import MOST
from tomserve.engine.request import Request
from tomserve.engine.retry import ModelGuard, RetryPolicy
from tomserve.engine.runner import Runner
from tomserve.engine.transport import Timeouts, Transport
from tomserve.engine.transports import limit_in_flight
from tomserve.errors import JournalError, ServerLostError, StoppedError
from tomserve.runs.journal import Journal
from tomserve.runs.listening import Listener, Tally
from tomserve.runs.manifest import Session
from tomserve.runs.manifest_parts import Doubts
from tomserve.runs.questions import Count, Question, counted, turns_had
from tomserve.runs.stopping import INTERRUPTED, Stop
from tomserve.runs.talking import Build, Talks
from tomserve.serving import keys
from tomserve.serving.endpoint import ServerWatch
from tomserve.status import SPOKEN


@dataclass(frozen=True)
class Phase:
    """What is asked in one phase.

    journal: keeps the rows.
    questions: returns everything that is to be answered.
    requests: returns the first requests to send, each made when it is needed, given what holds the conversations.
    build: makes the request of a turn.
    announcement: the message for the user, from the number of requests left and of all.
    concurrency: how many requests are in flight; None to find it out.
    hedge: seconds after which a second endpoint is asked, too; None for never.
    what: ends messages such as "5 of 10 left to ask".
    session: the record in which the phase notes what it found out, if any.
    """

    journal: Journal
    questions: Callable[[], Iterable[Question]]
    requests: Callable[[Talks], Iterable[Request]]
    build: Build
    announcement: Callable[[int, int], str]
    concurrency: int | None = None
    hedge: float | None = None
    what: str = "to ask"
    session: Session | None = None

    def counted(self) -> Count:
        """How many requests are left, and how many there are in all (see tomserve.runs.questions.Count)."""
        return counted(self.journal, self.questions())

    def talks(self, count: Count) -> Talks:
        """What holds the conversations while they are open. count: how many requests are left."""
        talks = Talks(self.build, lambda strategy, *of: turns_had(self.journal, Question(of[0], strategy, of[1])))
        talks.ahead = count.open
        return talks


@dataclass
class Asker:
    """Asks phases; it holds what is the same for all phases of an evaluation.

    endpoints: the addresses of the servers, each ``.../v1``.
    model: the id of the model.
    listener: told what happens.
    stop: ends the asking early.
    log: writes a line to the run's log.
    save: writes the manifest with everything noted so far.
    timeout: seconds that one request may take.
    transport: one of tomserve.engine.transports.TRANSPORTS.
    policy: how often and when to ask again.
    alive: returns a reason once the process of an embedded server has ended, else None.
    answering: compares the models that replies name.
    vigil: looks every now and then whether the server is still the same.
    added: how many rows all phases have added.
    """

    endpoints: Sequence[str]
    model: str
    listener: Listener
    stop: Stop
    log: Callable[[str], None]
    save: Callable[[], None]
    timeout: float
    transport: str = transports.DEFAULT
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    alive: Callable[[], str | None] = lambda: None
    answering: ModelGuard = field(default_factory=ModelGuard)
    vigil: ServerWatch | None = None
    added: int = 0

    async def ask(self, phase: Phase) -> None:
        """Ask what is left of a phase, if anything is. Raises TomserveError; everything that completed is kept."""
        count = phase.counted()
        if not count.left:
            return
        self.listener.message(phase.announcement(count.left, count.total))
        self.save()
        self.log(f"{count.left} of {count.total} left {phase.what}")
        tally = Tally(self.listener)
        self.listener.started(count.total, count.total - count.left)
        try:
            await self._run(phase, tally, count)
        except BaseException:
            with contextlib.suppress(JournalError):  # a full disk is being reported already
                self.save()
            raise
        finally:
            self.added += tally.written
            self.listener.finished()
            self.log(f"{tally.written} rows added, {tally.reused} reused, by status {dict(tally.statuses)}")
            if tally.masked:
                self.listener.message(
                    f"the server sent the API key back in {tally.masked} of {tally.written} replies; *** stands there "
                    "in its place, and their rows say key_masked"
                )

    async def _run(self, phase: Phase, tally: Tally, count: Count) -> None:
        """Ask what is left of a phase, and note in its session what was found out.

        Raises StoppedError where the asking was ended early.
        """
        timeouts = Timeouts(stall=self.timeout, total=self.timeout)
        transport = transports.make_transport(self.transport, keys.api_key(), timeouts)
        talks = phase.talks(count)
        runner = self._runner(phase, tally, transport, talks if count.several else None)
        try:
            done = await self._watched(runner.run(phase.requests(talks)))
        except ServerLostError as error:
            raise ServerLostError(f"{error}; {self._left(phase)}") from None
        finally:
            if phase.session is not None:
                limit = tally.now.limit if tally.now.found else runner.concurrency
                phase.session.note_load(limit, runner.prefix.to_dict())
                answers = sum(tally.statuses[status] for status in SPOKEN)
                phase.session.note_answers(answers, sorted(self.answering.named))
                if (cut := runner.prefix.truncation.found()) is not None or tally.strange:
                    phase.session.doubts = Doubts.model_validate({"cut": cut, "strange": dict(tally.strange)})
            await transport.close()
        if not done:
            raise StoppedError(
                f"stopped; {self._left(phase)}, everything else is kept; repeat the command to resume", INTERRUPTED
            )

    async def _watched(self, asking: Coroutine[Any, Any, bool]) -> bool:
        """Ask, and check meanwhile and at the end that the server is still the same. Returns whether all was asked."""
        if self.vigil is None or not self.vigil.useful:
            return await asking
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(asking), asyncio.create_task(self.vigil.keep())]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            results = [task.result() for task in ended]  # raises the error of a task that ended by one
            done = all(results)
            if done:  # otherwise the run was stopped
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
        count = phase.counted()
        return f"{count.left} of {count.total} left {phase.what}"

    def _runner(self, phase: Phase, tally: Tally, transport: Transport, talks: Talks | None) -> Runner:
        """The engine's runner for a phase."""
        probe = {"model": self.model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
        return Runner(
            list(self.endpoints),
            transport,
            phase.journal,
            concurrency=self._bearable(phase.concurrency),
            most=limit_in_flight(MOST, len(self.endpoints)),
            policy=self.policy,
            observer=tally,
            stop=self.stop.event(),
            alive=self.alive,
            hedge=phase.hedge,
            answering=self.answering,
            follower=talks,
            probe=orjson.dumps(probe),
        )

    def _bearable(self, wanted: int | None) -> int | None:
        """The number of requests in flight that was wanted, or the highest that the system allows, which is said."""
        if wanted is None:
            return None
        allowed = limit_in_flight(wanted, len(self.endpoints))
        if allowed < wanted:
            self.listener.message(
                f"{wanted:,} requests in flight need more open files than this system allows: {allowed:,} are in "
                "flight at a time (`ulimit -Hn` shows the limit)"
            )
        return allowed
