"""An evaluation: options become a plan, the plan is asked in phases, and what comes back is kept in a run folder.

Opening it (finding the server, starting one where none runs, checking it) and closing it block and need no event loop;
the asking between them is a coroutine. So it fits a command line, a thread and a notebook, each with its own signals:

    with opened(EvalOptions("perturbed", base_urls=("http://localhost:8000/v1",))) as evaluation:
        asyncio.run(evaluation.ask())
    evaluation.result().failures
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tomserve.engine.request import Identity, Request
from tomserve.runs import preflight, runfolder
from tomserve.runs.changes import Changes
from tomserve.runs.journal import Journal
from tomserve.runs.listening import Listener, Silent
from tomserve.runs.manifest import Manifest, Session, portable
from tomserve.runs.noise_check import NoiseCheck
from tomserve.runs.phases import Asker, Done, Phase, Questions
from tomserve.runs.planning import EvalOptions, Plan, plan
from tomserve.runs.stopping import Stop
from tomserve.serving.target import Target
from tomserve.status import UNFINISHED


@dataclass(frozen=True)
class EvalResult:
    """`folder` of the run; rows wanted, rows added by this evaluation (re-asked ones too), the failures of what was
    wanted by status, seconds."""

    folder: Path
    total: int
    added: int
    failures: dict[str, int]
    seconds: float


@dataclass
class Evaluation:
    """An evaluation whose run folder is held and whose server has been checked. `ask` asks; `stop` ends it early.

    target: who is asked, the embedded server once it runs. known: ids of all items that the run was ever to ask.
    alive: returns a reason once our own server is gone.
    """

    plan: Plan
    folder: runfolder.RunFolder
    journal: Journal
    manifest: Manifest
    known: frozenset[str]
    listener: Listener
    stop: Stop
    began: float
    target: Target
    alive: Callable[[], str | None] = lambda: None
    added: int = 0
    session: Session = field(default_factory=Session)

    async def ask(self) -> None:
        """Ask everything that is not final yet, phase by phase. Raises TomserveError; whatever completed is kept.

        Raises StoppedError where `stop` was set. Where the task is cancelled, what has completed is kept as well."""
        if not self.anything_left():
            return
        options = self.plan.options
        asker = Asker(
            self.target.endpoints,
            self.target.model,
            self.listener,
            self.stop,
            self.folder.log,
            self.save,
            options.timeout,
            options.transport,
            options.policy,
            self.alive,
            self._changes.answering(self.journal.models),
            None if self.plan.target.embedded else self._changes.vigil(self.target),  # ours is not exchanged
        )
        try:
            with contextlib.closing(self.phases()) as phases:
                for phase in phases:
                    await asker.ask(phase)
        finally:
            self.added += asker.added

    def phases(self) -> Generator[Phase, None, None]:
        """What is to be asked, in order: the questions, then those of the noise check once more at each number."""
        questions = self._questions(self._begin_session())
        yield questions
        if self.plan.again.items:
            yield from self.noise_check().phases(self.manifest)

    @property
    def _changes(self) -> Changes:
        return Changes(self.session, self.plan.options.accept_change, (self.folder.log, self.listener.message))

    def check_server(self) -> None:
        """Compare the server with the one that answered before.

        Raises RunMismatchError where it is another, unless `accept_change` was given. A session that only re-asks for
        the noise check may use another server: that check says so itself.
        """
        left = self._questions().left()
        told = portable(self.target.server)
        self.session = Session.begun(self.target, told, asked=bool(left), limit=self.plan.options.limit)
        if left:
            self._changes.check(self.folder.path, self.manifest)

    def _begin_session(self) -> Session:
        if self.session.asked and self.plan.options.concurrency:
            self.session.concurrency = self.plan.options.concurrency  # now, in case that this session is killed
        self.manifest.began(self.session, portable(self.target.server))
        return self.session

    def _questions(self, session: Session | None = None) -> Phase:
        options, questions = self.plan.options, self.plan.questions
        where = f"{self.target.model} at {', '.join(self.target.endpoints)}"
        return Phase(
            self.journal,
            questions.identities,
            lambda: self.requests(questions, lambda identity: identity in self.journal.final),
            lambda left, total: f"asking {where}: {left} of {total} questions to go",
            options.concurrency,
            options.hedge,
            session=session,
        )

    def requests(self, questions: Questions, done: Done | None = None) -> Iterator[Request]:
        """The requests of these questions as they are sent to the target, but those that are done."""
        asked = self.target.model, self.target.revision, self.plan.sampling
        return questions.requests(*asked, done) if done else questions.requests(*asked)

    def noise_check(self) -> NoiseCheck:
        """The noise check, of no questions where none is wanted."""
        again, options = self.plan.again, self.plan.options
        return NoiseCheck(
            again,
            options.noise_check or 0.0,
            len(self.plan.questions.items),
            self.folder.path,
            self.journal,
            lambda: self.requests(again),
            self.listener,
        )

    def anything_left(self) -> bool:
        """Whether any phase has something to ask, and so needs a server."""
        if self._questions().left():
            return True
        return bool(self.plan.again.items) and self.noise_check().left(self.manifest) > 0

    def complete(self) -> bool:
        """Whether every item of the run has a final row for every turn of every strategy of the run."""
        wanted = len(self.known) * sum(strategy.turns for strategy in self.manifest.strategies.values())
        if len(self.journal.final) < wanted:
            return False  # without a look at each of a million
        return all(
            Identity(item, name, turn) in self.journal.final
            for item in self.known
            for name, strategy in self.manifest.strategies.items()
            for turn in range(strategy.turns)
        )

    def save(self) -> None:
        """Write the manifest as things stand. Raises JournalError."""
        self.manifest.complete = self.complete()
        self.folder.write_manifest(self.manifest)

    def result(self) -> EvalResult:
        """What came of it so far."""
        failures = dict(sorted(self._failures().items()))
        seconds = time.monotonic() - self.began
        return EvalResult(self.folder.path, len(self.plan.questions), self.added, failures, seconds)

    def _failures(self) -> Counter[str]:
        """Statuses of the last rows that are no answers, and conversations that have begun but not ended."""
        found: Counter[str] = Counter()
        questions = self.plan.questions
        items, turns = set(questions.items.ids), {one.name: one.turns for one in questions.strategies}
        for identity, status in self.journal.failed.items():
            found[status] += identity.item in items and identity.turn < turns.get(identity.strategy, 0)
        for name in (name for name, count in turns.items() if count > 1):
            for item in items:
                begun, *_, last = (Identity(item, name, turn) for turn in range(turns[name]))
                missing = last not in self.journal.final and last not in self.journal.failed
                found[UNFINISHED] += missing and begun in self.journal.final and begun not in self.journal.failed
        return +found


@contextlib.contextmanager
def opened(options: EvalOptions, listener: Listener | None = None, stop: Stop | None = None) -> Iterator[Evaluation]:
    """An evaluation, ready to be asked: its run folder held, and a server there where something is left to ask.

    Blocks while the server starts. Leaving it stops that server and writes the manifest. Raises TomserveError.
    """
    listener, stop, began = listener or Silent(), stop or Stop(), time.monotonic()
    made = plan(options)
    path = runfolder.run_path(options.run or runfolder.default_name(made.called, made.name))
    if made.target.embedded and not path.exists():  # or an empty run would stay behind where vLLM is missing
        preflight.need_engine(listener, setup=options.setup)
    with runfolder.RunFolder(path) as folder, Journal(folder.path / "responses.jsonl") as journal:
        evaluation = _resumed(made, folder, journal, listener, stop, began)
        with contextlib.ExitStack() as stack:
            stop.check()
            if evaluation.anything_left():
                evaluation.save()
                _reach(evaluation, stack)
            yield evaluation
        evaluation.save()


def _resumed(
    made: Plan, folder: runfolder.RunFolder, journal: Journal, listener: Listener, stop: Stop, began: float
) -> Evaluation:
    """The evaluation with what the run folder holds of it already. Raises RunMismatchError."""
    options = made.options
    manifest = Manifest.new(
        folder.path,
        made.questions.strategies,
        benchmark=made.called,
        benchmark_path=str(options.path) if options.path else None,
        **({"benchmark_gold": options.gold} if options.gold else {}),
        benchmark_digest=made.every.digest(),
        benchmark_items=len(made.every),
        **made.benchmark.provenance,
        model=made.target.model,
        revision=made.target.revision,
        preset=made.target.preset.name if made.target.preset else None,
        sampling=made.sampling.to_dict(),
    )
    if (old := Manifest.read(folder.path)) is not None:
        manifest.went_on(old, folder.path, journal.asked)
    elif journal.asked:
        raise runfolder.without_manifest(journal.path)
    known = runfolder.keep_items(folder.path, made.questions.items, fresh=not journal.asked)
    if journal.torn:
        folder.log(f"the last line was torn; moved to {journal.torn.name}")
        listener.message(f"the journal's last line was torn by a crash; moved to {journal.torn.name}")
    return Evaluation(made, folder, journal, manifest, known, listener, stop, began, made.target)


def _reach(evaluation: Evaluation, stack: contextlib.ExitStack) -> None:
    """Start a server where one is needed, and check that it can answer."""
    made, listener, folder = evaluation.plan, evaluation.listener, evaluation.folder
    if made.target.embedded:

        def note(message: str) -> None:
            evaluation.stop.check()
            listener.message(message)

        preflight.need_engine(listener, setup=made.options.setup)
        server, evaluation.target = preflight.start(stack, made.target, folder.path, note)
        evaluation.alive = server.gone
    evaluation.check_server()
    longest = preflight.check(evaluation.target, made.questions, made.sampling, made.options.timeout)
    folder.log(f"longest prompt: {longest or 'not counted by this server, so unknown'} tokens")


def evaluate(
    options: EvalOptions,
    listener: Listener | None = None,
    drive: Callable[[Evaluation], None] = lambda evaluation: asyncio.run(evaluation.ask()),
    stop: Stop | None = None,
) -> EvalResult:
    """Open an evaluation, ask all of it, close it; in a thread without a running event loop.

    drive: runs `Evaluation.ask` to its end; a command line hears signals meanwhile. stop: ends it early. Raises
    TomserveError.
    """
    with opened(options, listener, stop) as evaluation:
        drive(evaluation)
    return evaluation.result()
