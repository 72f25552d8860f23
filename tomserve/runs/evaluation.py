"""An evaluation: the options become a plan, the plan is asked in phases, and the replies are kept in a run folder.

Opening an evaluation means finding the server, starting one where none runs, and checking it. Opening and closing block
and need no event loop; the asking between them is a coroutine. So an evaluation can run in a command line, in a thread
and in a notebook, which handle signals differently:

    with opened(EvalOptions("perturbed", base_urls=("http://localhost:8000/v1",))) as evaluation:
        loop.run(evaluation.ask())
    evaluation.result().failures
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tomserve.engine import transports
from tomserve.engine.request import Identity, Request
from tomserve.prompting.conversation import Turn
from tomserve.runs import checking, packed, preflight, runfolder
from tomserve.runs.changes import Changes, refuse_renamed
from tomserve.runs.journal import Journal
from tomserve.runs.listening import Listener, Silent
from tomserve.runs.manifest import Manifest, Session, portable
from tomserve.runs.noise_check import NoiseCheck
from tomserve.runs.phases import Asker, Phase
from tomserve.runs.planning import EvalOptions, Plan, plan
from tomserve.runs.preflight import Servers
from tomserve.runs.progress import recorded
from tomserve.runs.questions import begun, counted, finished
from tomserve.runs.stopping import Stop
from tomserve.runs.whole import manifest_of
from tomserve.serving.endpoint import Target
from tomserve.serving.probe import ANSWER, WaitPolicy
from tomserve.status import FINAL, UNFINISHED


@dataclass(frozen=True)
class EvalResult:
    """What an evaluation did.

    folder: of the run. total: how many requests were wanted, one for each item and turn of each strategy.
    added: how many rows this evaluation added, those of questions asked again among them.
    failures: how many of the wanted rows are no answer, by status.
    seconds: how long the evaluation took.
    """

    folder: Path
    total: int
    added: int
    failures: dict[str, int]
    seconds: float


@dataclass
class Evaluation:
    """An evaluation whose run folder is locked and whose server has been checked: `ask` asks what is left.

    plan: what is to be asked.
    folder, journal, manifest: the run's folder, its rows and its record.
    known: the ids of all items that the run was ever to ask, in this session or an earlier one.
    listener: told what happens.
    stop: ends the asking early.
    began: when the evaluation began, in seconds of the monotonic clock.
    target: the server and model that are asked; once it runs, the embedded server.
    alive: returns a reason once the process of an embedded server has ended, else None.
    added: how many rows were added.
    session: the record of this session in the manifest.
    """

    plan: Plan
    folder: runfolder.RunFolder
    journal: Journal
    manifest: Manifest
    known: Sequence[str]
    listener: Listener
    stop: Stop
    began: float
    target: Target
    alive: Callable[[], str | None] = lambda: None
    added: int = 0
    session: Session = field(default_factory=Session)

    async def ask(self) -> None:
        """Ask everything that has no final row yet, phase by phase.

        Raises TomserveError, and StoppedError where `stop` was set. Everything that completed is kept in all cases,
        also where the task is cancelled.
        """
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
            options.asking_policy,
            self.alive,
            self._changes.answering(self.journal.models),
            None if self.plan.target.embedded else self._changes.vigil(self.target),  # nobody exchanges an embedded one
        )
        try:
            with contextlib.closing(self.phases()) as phases:
                for phase in phases:
                    await asker.ask(phase)
        finally:
            self.added += asker.added

    def phases(self) -> Generator[Phase, None, None]:
        """The phases in order: the questions, then those of the noise check for each of its concurrencies."""
        questions = self._questions(self._begin_session())
        yield questions
        if self.plan.again.items:
            yield from self.noise_check().phases(self.manifest)

    @property
    def _changes(self) -> Changes:
        return Changes(self.session, self.plan.options.accept_change, (self.folder.log, self.listener.message))

    def check_server(self) -> None:
        """Compare the server with the one that answered before.

        Raises RunMismatchError where it is another one, unless `accept_change` was given. A session that only asks for
        the noise check may use another server, because the noise check reports that itself.
        """
        left, options = self._questions().counted().left, self.plan.options
        server = portable(self.target.server)
        self.session = Session.begun(self.target, server, asked=bool(left), limit=options.limit, where=options.where)
        if left:
            self._changes.check(self.folder.path, self.manifest)

    def _begin_session(self) -> Session:
        if self.session.asked and self.plan.options.concurrency:
            self.session.concurrency = self.plan.options.concurrency  # written now, as the session may be killed
        self.manifest.add_session(self.session, portable(self.target.server))
        return self.session

    def _questions(self, session: Session | None = None) -> Phase:
        """The phase that asks the run's own questions. session: the record in which it notes what it found out."""
        options, questions = self.plan.options, self.plan.questions
        where = f"{self.target.model} at {', '.join(self.target.endpoints)}"
        once = questions.repeats == 1 and not any(strategy.several for strategy in questions.strategies)
        what, open_end = "questions" if once else "requests", ""
        if any(strategy.turns is None for strategy in questions.strategies):
            open_end = " or more, as a program decides how many a question takes"
        return Phase(
            self.journal,
            lambda: questions,
            lambda talks: questions.requests(talks, lambda question: not finished(self.journal, question)),
            self.request,
            lambda left, total: f"asking {where}: {left} of {total} {what} to go{open_end * bool(left)}",
            options.concurrency,
            options.hedge,
            session=session,
        )

    def request(self, identity: Identity, turn: Turn) -> Request:
        """The request of a turn to the target."""
        target = self.target
        return Request.build(identity, turn, model=target.model, revision=target.revision, sampling=self.plan.sampling)

    def noise_check(self) -> NoiseCheck:
        """The noise check; it has no questions where none is wanted."""
        return NoiseCheck(
            self.plan.again, self.plan.drawn_again, self.folder.path, self.journal, self.request, self.listener
        )

    def anything_left(self) -> bool:
        """Whether any phase has something to ask, and so needs a server."""
        if self._questions().counted().left:
            return True
        return bool(self.plan.again.items) and self.noise_check().left(self.manifest) > 0

    def complete(self) -> bool:
        """Whether every item of the run has its final answer by every strategy of the run."""
        repeats = self.manifest.repeats
        if len(self.journal.final) < len(self.known) * len(self.manifest.strategies) * repeats:
            return False  # the number alone decides, without a look at each of a million rows
        return all(
            Identity(item, name, 0, sample) in (self.journal.final if strategy.turns == 1 else self.journal.closed)
            for name, strategy in self.manifest.strategies.items()
            for item in self.known
            for sample in range(repeats)
        )

    def save(self) -> None:
        """Write the manifest with everything noted so far. Raises JournalError where it cannot be written."""
        self.manifest.complete = self.complete()
        self.folder.write_manifest(self.manifest)

    def result(self) -> EvalResult:
        """What the evaluation did so far."""
        failures = dict(sorted(self._failures().items()))
        seconds = time.monotonic() - self.began
        total = counted(self.journal, self.plan.questions).total
        return EvalResult(self.folder.path, total, self.added, failures, seconds)

    def _failures(self) -> Counter[str]:
        """How many wanted rows are no answer, by status.

        A conversation that was begun, and is not finished although none of its turns failed, counts as one of them. In
        one that has ended, a turn that got no reply counts no more, as nobody will ask it again.
        """
        failures: Counter[str] = Counter()
        questions, failed = self.plan.questions, set()
        items, calls = questions.ids if self.journal.failed else (), {s.name: s.calls for s in questions.strategies}
        for identity, status in self.journal.failed.items():
            over = status not in FINAL and identity._replace(turn=0) in self.journal.closed
            if identity.item in items and identity.turn < calls.get(identity.strategy, 0) and not over:
                failures[status] += 1
                failed.add(identity.question)
        for question in questions if any(one.several for one in questions.strategies) else ():
            missing = begun(self.journal, question) and not finished(self.journal, question)
            failures[UNFINISHED] += question.strategy.several and missing and question.turn(0).question not in failed
        return +failures


@contextlib.contextmanager
def opened(
    options: EvalOptions, listener: Listener | None = None, stop: Stop | None = None, servers: Servers | None = None
) -> Iterator[Evaluation]:
    """Open an evaluation: lock its run folder and, where something is left to ask, make sure that a server answers.

    options: what to ask of whom. listener: told what happens [nobody]. stop: ends it early. servers: keeps a server
    started here for what comes next [it is stopped]. Leaving the context writes the manifest. Raises TomserveError.
    """
    listener, stop, began = listener or Silent(), stop or Stop(), time.monotonic()
    checking.check(options)  # the plan checks them once more, but the waiting needs a number of seconds
    waiting = WaitPolicy(listener.message, stop.check, options.patience, options.policy, min(ANSWER, options.timeout))
    # A run that takes no answers is refused before any server is looked for, which may take minutes to start.
    given = None if options.run is None else runfolder.for_answers(options.run)
    made = plan(options, waiting)
    path = given or runfolder.for_answers(runfolder.default_name(made.called, made.name))
    if made.target.embedded and not path.exists():  # checked first, so that a missing vLLM leaves no empty run behind
        preflight.need_engine(listener, setup=options.setup)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(runfolder.RunFolder(path))
        packed.restore(folder.path, listener.message)
        journal = stack.enter_context(Journal(folder.path / packed.JOURNAL))
        evaluation = resumed(made, folder, journal, stack.enter_context(recorded(listener, folder.path)), stop, began)
        stop.check()
        if evaluation.anything_left():
            evaluation.save()
            _reach(evaluation, servers or stack.enter_context(Servers()), waiting)
        yield evaluation
        evaluation.save()


def resumed(
    made: Plan, folder: runfolder.RunFolder, journal: Journal, listener: Listener, stop: Stop, began: float
) -> Evaluation:
    """The evaluation, with the rows and the record that its run folder holds already.

    Raises RunMismatchError where the folder belongs to another benchmark, model or prompts.
    """
    options = made.options
    manifest = manifest_of(made, folder.path)
    if (old := Manifest.read(folder.path)) is not None:
        refuse_renamed(folder.path, old, journal.asked, made.questions.strategies)
        manifest.take_over(old, folder.path, journal.asked)
    elif journal.asked:
        raise runfolder.without_manifest(journal.path)
    if journal.asked and (options.limit or made.again_share):
        made = made.resumed(*runfolder.asked_items(folder.path))
    known = runfolder.keep_items(folder.path, made.questions.items, fresh=not journal.asked)
    if journal.torn:
        folder.log(f"the last line was torn; moved to {journal.torn.name}")
        listener.message(f"warning: the journal's last line was torn by a crash; moved to {journal.torn.name}")
    manifest.note_variants(made.variants)
    for said in filter(None, (made.drawn, made.varied.described())):
        listener.message(said)
    return Evaluation(made, folder, journal, manifest, known, listener, stop, began, made.target)


def _reach(evaluation: Evaluation, servers: Servers, waiting: WaitPolicy) -> None:
    """Start a server where one is needed, and check that it can answer the questions."""
    made, listener, folder = evaluation.plan, evaluation.listener, evaluation.folder
    if made.target.embedded:

        def note(message: str) -> None:
            evaluation.stop.check()
            listener.message(message)

        preflight.need_engine(listener, setup=made.options.setup)
        server, evaluation.target = servers.of(made.target, folder.path, note)
        evaluation.alive = server.gone
    evaluation.check_server()
    longest = preflight.check(
        evaluation.target, made.questions, made.sampling, made.options.timeout, waiting, listener.message
    )
    what = "first prompt" if any(one.several for one in made.questions.strategies) else "prompt"
    folder.log(f"longest {what}: {longest or 'not counted by this server, so unknown'} tokens")


def evaluate(
    options: EvalOptions,
    listener: Listener | None = None,
    drive: Callable[[Evaluation], None] = lambda evaluation: transports.run_loop(evaluation.ask()),
    stop: Stop | None = None,
    servers: Servers | None = None,
) -> EvalResult:
    """Open an evaluation, ask everything that is left, close it, and return what it did.

    drive: runs `Evaluation.ask` to its end; a command line gives its own, which handles signals meanwhile. The other
    parameters are those of `opened`. The calling thread must have no running event loop. Raises TomserveError.
    """
    with opened(options, listener, stop, servers) as evaluation:
        drive(evaluation)
    return evaluation.result()
