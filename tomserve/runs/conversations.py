"""The questions of a run, and the conversations by which they are asked, one phase after the other.

A question is an item that one strategy asks about, once or several times, by one request or by a conversation of
several turns. Only as many conversations are open as requests are in flight; nothing of them is kept but the rows of
the journal. The manifest is saved before each phase, and also where a phase ends by an error, so that it always says
what was done.
"""

import asyncio
import contextlib
from array import array
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from tomserve.engine import transports
from tomserve.engine.concurrency import MOST
from tomserve.engine.records import CLOSES, CONCLUSION, Row
from tomserve.engine.request import Identity, Request
from tomserve.engine.retry import ModelGuard, RetryPolicy
from tomserve.engine.runner import Runner
from tomserve.engine.transport import Timeouts, Transport
from tomserve.engine.transports import limit_in_flight
from tomserve.errors import ConfigError, JournalError, ServerLostError, StoppedError
from tomserve.items import Item
from tomserve.prompting.conversation import Asker, Conversation, Reply, Turn
from tomserve.prompting.strategy import Strategy
from tomserve.runs.item_store import ItemStore, sort_key, sort_places
from tomserve.runs.journal import Journal
from tomserve.runs.manifest import Doubts, Session
from tomserve.runs.progress import INTERRUPTED, Listener, RowCounter, Stop
from tomserve.serving import keys
from tomserve.serving.endpoint import ServerWatch
from tomserve.status import ANSWERS, FINAL, SPOKEN

ENDING = FINAL - ANSWERS  # statuses of replies that are no answer and never will be
Build = Callable[[Identity, Turn], Request]  # a function that makes the request of a turn


@dataclass(slots=True)
class _Conversation:
    """An open conversation."""

    conversation: Conversation
    expected: int  # how many requests it is taken to have
    program: bool  # whether only its program knows how many requests it takes
    failed: int = 0  # how many of its open turns have no reply in this session


class Conversations:
    """The open conversations of one phase of a run; it is the runner's Follower (see tomserve.engine.runner). build:
    makes the request of a turn. had: tells how many requests a conversation, given by strategy, item and sample, had in
    earlier sessions. ahead: how many conversations of programs are still to be begun, whose number of requests nobody
    knows."""

    def __init__(self, build: Build, had: Callable[[Asker, str, int], int] = lambda *of: 0) -> None:
        self._build, self._had = build, had
        self._several: set[str] = set()
        self._open: dict[tuple[str, str, int], _Conversation] = {}
        self._more = 0  # requests beyond those that were counted before the conversations began
        self._ended = self._extra = 0  # conversations of programs that ended, and how many requests more they took
        self.ahead = 0

    @property
    def extra_requests(self) -> int:
        """How many more requests are wanted than were announced."""
        expected = self._extra / self._ended * self.ahead if self._ended else 0.0
        return self._more + round(expected)

    def __len__(self) -> int:
        """How many conversations are open."""
        return len(self._open)

    def begin(self, strategy: Asker, item: Item, sample: int = 0) -> Iterable[Request]:
        """The first requests about an item: the only one of a strategy of one turn, else those of a new conversation.
        Raises ConfigError where the strategy's program makes a mistake."""
        if not strategy.is_multi_turn:
            return (self._build(Identity(item.id, strategy.name, 0, sample), strategy.turn(item)),)
        conversation = strategy.conversation(item)
        self._several.add(strategy.name)
        turns, question = strategy.turns, (item.id, strategy.name, sample)
        expected = turns or self._had(strategy, item.id, sample) + 1
        entry = self._open[question] = _Conversation(conversation, expected, turns is None)
        if turns is None:
            self.ahead -= 1
            self._count(entry)
        return self._requests(question, conversation.open)

    def is_waiting(self, identity: Identity) -> bool:
        """Whether an open conversation waits for the reply to that turn."""
        return identity.question in self._open

    def is_over(self, identity: Identity) -> bool:
        """Whether that is a turn of a conversation that has ended."""
        return identity.strategy in self._several and identity.question not in self._open

    def leave(self, identity: Identity) -> None:
        """Hold the conversation of that turn no longer, as its next reply does not come in this session."""
        self._open.pop(identity.question, None)

    def follow(self, row: Row) -> list[Request]:
        """Take a reply, and return the requests that follow from it (see tomserve.engine.runner.Follower). A reply that
        is no answer and never will be ends the conversation. Where there is no reply at all, the conversation waits for
        another session, once the other turns of its list have had theirs."""
        question = (row["item"], row["strategy"], row.get("sample") or 0)
        if (entry := self._open.get(question)) is None:
            return []
        following: list[Turn] = []
        conversation, status = entry.conversation, row["status"]
        if status in ANSWERS:
            tokens, skipped = row.get("tokens"), row.get("tokens_skipped") or 0
            reply = Reply(row.get("text") or "", row.get("reasoning"), status, tokens, skipped)
            following = conversation.reply(row["turn"], reply)
        if conversation.ended or status in ENDING:
            row[CLOSES] = conversation.count
            if conversation.ended and conversation.conclusion is not None:
                row[CONCLUSION] = conversation.conclusion
            self._end(entry, question)
            return []
        if following:
            if entry.program:
                self._count(entry)
            return self._requests(question, following)
        entry.failed += status not in ANSWERS
        if len(conversation.open) == entry.failed:
            del self._open[question]
        return []

    def _requests(self, question: tuple[str, str, int], turns: Iterable[Turn]) -> list[Request]:
        item, strategy, sample = question
        return [self._build(Identity(item, strategy, turn.number, sample), turn) for turn in turns]

    def _count(self, entry: _Conversation) -> None:
        """Count the requests that a conversation takes beyond those that it was taken to have."""
        more = max(0, entry.conversation.count - entry.expected)
        entry.expected += more
        self._more += more

    def _end(self, entry: _Conversation, question: tuple[str, str, int]) -> None:
        """Close a conversation, and correct what it was taken to take."""
        del self._open[question]
        self._more += entry.conversation.count - entry.expected
        if entry.program:
            self._ended += 1
            self._extra += entry.conversation.count - 1


class Asking(Protocol):
    """Something that asks, such as an evaluation."""

    async def ask(self) -> None:
        """Ask everything that is left."""


def run_asking(asking: Asking) -> None:
    """Ask in an event loop of its own; the calling thread must have none that runs."""
    transports.run_loop(asking.ask())


def replay_conversation(
    build: Build, strategy: Asker, item: Item, sample: int, rows: Mapping[int, Mapping[str, Any]]
) -> list[Request]:
    """Lead a conversation once more with the replies that it had; returns the requests that it asks. rows: the last row
    of each turn. Raises ConfigError where the strategy's program makes a mistake."""
    conversations = Conversations(build)
    asked = list(conversations.begin(strategy, item, sample))
    for request in asked:
        if (row := rows.get(request.identity.turn)) is not None:
            asked += conversations.follow({**row, "item": item.id, "strategy": strategy.name, "sample": sample})
    return asked


class Question(NamedTuple):
    """An item, by its id, the strategy (or the like) that asks about it, and which sample it is where it is asked
    several times."""

    item: str
    strategy: Asker
    sample: int = 0

    def turn(self, number: int) -> Identity:
        """The identity of one of its turns."""
        return Identity(self.item, self.strategy.name, number, self.sample)


QuestionFilter = Callable[[Question], bool]  # a function that says whether a question is to be asked


class RequestCount(NamedTuple):
    """How many requests are left to ask, and how many there are in all. Of a program nobody knows how many it takes:
    each of its open conversations counts as one request more than it has had."""

    left: int
    total: int
    open: int = 0  # how many conversations of programs are not finished
    several: bool = False  # whether any question takes a conversation rather than one request


@dataclass(frozen=True)
class Questions:
    """Items, the strategies that ask about each of them, and how many times each asks the same (repeats)."""

    items: ItemStore
    strategies: Sequence[Strategy]
    repeats: int = 1
    _counts: list[tuple[Journal, int, RequestCount]] = field(default_factory=list, repr=False, compare=False)

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the items, to look for one of them."""
        return frozenset(self.items.ids)

    def __iter__(self) -> Iterator[Question]:
        return (
            Question(item, strategy, sample)
            for strategy in self.strategies
            for item in self.items.ids
            for sample in range(self.repeats)
        )

    def count(self, journal: Journal) -> RequestCount:
        """How many requests of these questions are left, and how many there are in all. Before a run asks its first
        question this is wanted several times, and so it is kept until the journal grows."""
        for known, size, count in self._counts:
            if known is journal and size == journal.size:
                return count
        count = (
            _count_each(journal, self)
            if any(one.is_multi_turn for one in self.strategies)
            else self._count_single_requests(journal)
        )
        self._counts[:] = [(journal, journal.size, count)]
        return count

    def _count_single_requests(self, journal: Journal) -> RequestCount:
        """What `count_requests` gives where each sample of a question takes one request, in half the time."""
        final, samples, items, left = journal.final, range(self.repeats), self.items.ids, 0
        for name in (strategy.name for strategy in self.strategies):
            left += sum((item, name, 0, sample) not in final for item in items for sample in samples)
        return RequestCount(left, len(self.items) * len(self.strategies) * self.repeats)

    def requests(
        self, conversations: Conversations, wanted: QuestionFilter = lambda question: True
    ) -> Iterator[Request]:
        """Make the first requests of the wanted questions one by one, in an order in which prompts that share a long
        beginning come together."""
        for strategy in self.strategies:
            for place in self._in_order(strategy, wanted):
                for question in self._samples(self.items.ids[place], strategy):
                    if self.repeats == 1 or wanted(question):
                        yield from conversations.begin(strategy, self.items[place], question.sample)

    def _in_order(self, strategy: Strategy, wanted: QuestionFilter) -> Iterator[int]:
        """The places of the items that the strategy still has to ask about, in the order in which it asks them."""
        names = enumerate(self.items.ids)
        if self.repeats == 1:
            left = array("Q", (place for place, item in names if wanted(Question(item, strategy))))
        else:
            left = array("Q", (place for place, item in names if any(map(wanted, self._samples(item, strategy)))))
        order = sort_places(sort_key(strategy.order(self.items[place])) for place in left)
        return (left[place] for place in order)

    def _samples(self, item: str, strategy: Strategy) -> Iterator[Question]:
        """The samples of an item."""
        return (Question(item, strategy, sample) for sample in range(self.repeats))


def is_finished(journal: Journal, question: Question) -> bool:
    """Whether a question needs no further request: it has its final row, or a row that closes its conversation."""
    item, strategy, sample = question
    # The same as question.turn(0), in a form that takes half the time: this is asked of every question.
    return (item, strategy.name, 0, sample) in (journal.closed if strategy.is_multi_turn else journal.final)


def has_begun(journal: Journal, question: Question) -> bool:
    """Whether any turn of a question has its final row."""
    first = question.turn(0)
    return first in journal.final or first.question in journal.further


def answered_questions(journal: Journal, questions: Iterable[Question]) -> Iterator[Question]:
    """Those of the questions whose answer (status ok or length) is in the journal."""
    failed = {identity.question for identity in journal.failed}
    return (one for one in questions if is_finished(journal, one) and one.turn(0).question not in failed)


def count_requests(journal: Journal, questions: Iterable[Question]) -> RequestCount:
    """How many requests of these questions are left to ask, and how many there are in all."""
    return questions.count(journal) if isinstance(questions, Questions) else _count_each(journal, questions)


def _count_each(journal: Journal, questions: Iterable[Question]) -> RequestCount:
    left = total = unknown = 0
    several = False
    for question in questions:
        strategy, done = question.strategy, is_finished(journal, question)
        if not strategy.is_multi_turn:
            left += not done
            total += 1
            continue
        several = True
        had = count_turns(journal, question)
        missing = 0 if done else max(1, (strategy.turns or 0) - had)
        unknown += strategy.turns is None and not done
        left += missing
        total += had + missing
    return RequestCount(left, total, unknown, several)


def count_turns(journal: Journal, question: Question) -> int:
    """How many turns of a conversation have their final row."""
    if not has_begun(journal, question):
        return 0
    had = 0
    for turn in range(question.strategy.calls):  # turns of a list may have their rows in any order
        if question.turn(turn) in journal.final:
            had += 1
        elif is_finished(journal, question):
            break
    return had


@dataclass(frozen=True)
class Phase:
    """What is asked in one phase. requests: returns the first requests to send, each made when it is needed, given what
    holds the conversations."""

    journal: Journal  # keeps the rows
    questions: Callable[[], Iterable[Question]]  # returns everything that is to be answered
    requests: Callable[[Conversations], Iterable[Request]]
    build: Build  # makes the request of a turn
    announcement: Callable[[int, int], str]  # a message, if any, from the number of requests left and of all
    concurrency: int | None = None  # how many requests are in flight; None to find it out
    hedge: float | None = None  # seconds after which a second endpoint is asked, too; None for never
    what: str = "to ask"  # ends messages such as "5 of 10 left to ask"
    session: Session | None = None  # the record in which the phase notes what it found out, if any
    expected: int = 0  # how many requests there will be after all such phases, where more than those that are known

    def count(self) -> RequestCount:
        """How many requests are left, and how many there are in all (see tomserve.runs.conversations.RequestCount)."""
        return count_requests(self.journal, self.questions())


@dataclass
class PhaseRunner:
    """Asks phases; it holds what is the same for all phases of an evaluation. alive: returns a reason once the process
    of an embedded server has ended, else None."""

    endpoints: Sequence[str]  # the addresses of the servers, each ``.../v1``
    model: str  # the id of the model
    listener: Listener  # told what happens
    stop: Stop  # ends the asking early
    log: Callable[[str], None] = lambda line: None  # writes a line to the run's log
    save: Callable[[], None] = lambda: None  # writes the manifest with everything noted so far
    timeout: float = 600.0  # seconds that one request may take
    transport: str = transports.DEFAULT  # one of tomserve.engine.transports.TRANSPORTS
    policy: RetryPolicy = field(default_factory=RetryPolicy)  # how often and when to ask again
    alive: Callable[[], str | None] = lambda: None
    answering: ModelGuard = field(default_factory=ModelGuard)  # compares the models that replies name
    watch: ServerWatch | None = None  # looks every now and then whether the server is still the same
    added: int = 0  # how many rows all phases have added

    async def ask(self, phase: Phase) -> None:
        """Ask what is left of a phase, if anything is. Raises TomserveError; everything that completed is kept."""
        count = phase.count()
        if not count.left:
            return
        total = max(count.total, phase.expected)
        if announcement := phase.announcement(total - count.total + count.left, total):
            self.listener.message(announcement)
        self.save()
        self.log(f"{count.left} of {count.total} left {phase.what}")
        counter = RowCounter(self.listener)
        self.listener.begin_phase(total, count.total - count.left)
        try:
            await self._run(phase, counter, count)
        except BaseException:
            with contextlib.suppress(JournalError):  # a full disk is being reported already
                self.save()
            raise
        finally:
            self.added += counter.written
            self.listener.end_phase()
            self.log(f"{counter.written} rows added, {counter.reused} reused, by status {dict(counter.statuses)}")
            if counter.masked:
                self.listener.message(
                    f"the server sent the API key back in {counter.masked} of {counter.written} replies; *** stands "
                    "there in its place, and their rows say key_masked"
                )

    async def _run(self, phase: Phase, counter: RowCounter, count: RequestCount) -> None:
        """Ask what is left of a phase, and note in its session what was found out."""
        timeouts = Timeouts(total=self.timeout)
        sending = [(self._secrets(), self._make_transport(timeouts))]

        def renew() -> Transport | None:
            with contextlib.suppress(ConfigError):  # a file with the key that is being written, perhaps
                if (now := self._secrets()) != sending[-1][0]:
                    sending.append((now, self._make_transport(timeouts)))
                    self.log("the API key was refused, and is another one by now, which is sent from now on")
                    return sending[-1][1]
            return None

        conversations = Conversations(
            phase.build, lambda strategy, item, sample: count_turns(phase.journal, Question(item, strategy, sample))
        )
        conversations.ahead = count.open
        runner = self._runner(phase, counter, sending[0][1], conversations if count.several else None)
        runner.renew = renew
        try:
            done = await self._ask_and_watch(runner.run(phase.requests(conversations)))
        except ServerLostError as error:
            raise ServerLostError(f"{error}; {self._left(phase)}") from None
        finally:
            if phase.session is not None:
                limit = counter.now.limit if counter.now.limit_found else runner.concurrency
                phase.session.note_load(limit, runner.prefix.to_dict())
                answers = sum(counter.statuses[status] for status in SPOKEN)
                phase.session.note_answers(answers, sorted(self.answering.named))
                providers = dict(counter.providers) if len(counter.providers) > 1 else {}
                if (cut := runner.prefix.truncation.summarize()) is not None or counter.strange or providers:
                    noted = {"cut": cut, "strange": dict(counter.strange), "providers": providers}
                    phase.session.doubts = Doubts.model_validate(noted)
            for _, transport in sending:
                await transport.close()
        if not done:
            raise StoppedError(
                f"stopped; {self._left(phase)}, everything else is kept; repeat the command to resume", INTERRUPTED
            )

    def _secrets(self) -> keys.Credentials:
        """By what the servers know who asks, as it is now."""
        return keys.credentials(*self.endpoints)

    def _make_transport(self, timeouts: Timeouts) -> Transport:
        key, headers = self._secrets()
        return transports.make_transport(self.transport, key, timeouts, headers)

    async def _ask_and_watch(self, asking: Coroutine[Any, Any, bool]) -> bool:
        """Ask, and check meanwhile and at the end that the server is still the same. Returns whether all was asked."""
        if self.watch is None or not self.watch.useful:
            return await asking
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(asking), asyncio.create_task(self.watch.keep())]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            results = [task.result() for task in ended]  # raises the error of a task that ended by one
            done = all(results)
            if done:  # otherwise the run was stopped
                await self.watch.look()
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
        count = phase.count()
        return f"{count.left} of {count.total} left {phase.what}"

    def _runner(
        self, phase: Phase, counter: RowCounter, transport: Transport, conversations: Conversations | None
    ) -> Runner:
        """The engine's runner for a phase."""
        probe = phase.build(Identity("", "", 0), Turn([{"role": "user", "content": "hi"}], max_tokens=1))
        return Runner(
            list(self.endpoints),
            transport,
            phase.journal,
            concurrency=self._limit_in_flight(phase.concurrency),
            most=limit_in_flight(MOST, len(self.endpoints)),
            policy=self.policy,
            observer=counter,
            stop=self.stop.event(),
            alive=self.alive,
            hedge=phase.hedge,
            model_guard=self.answering,
            follower=conversations,
            probe=probe.body,
        )

    def _limit_in_flight(self, wanted: int | None) -> int | None:
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


@dataclass
class AskingPhase:
    """One phase and what asks it, for whatever runs it to its end and may stop it meanwhile."""

    runner: PhaseRunner
    phase: Phase

    def __post_init__(self) -> None:
        self.listener, self.stop = self.runner.listener, self.runner.stop

    async def ask(self) -> None:
        """Ask everything that is left. Raises TomserveError; every reply that came is kept."""
        await self.runner.ask(self.phase)


LoopRunner = Callable[[AskingPhase], None]
"""Runs `AskingPhase.ask` to its end."""
