"""An evaluation: the options become a plan, the plan is asked in phases, and the replies are kept in a run folder.

Opening an evaluation means finding the server, starting one where none runs, and checking it. Opening and closing
block and need no event loop; the asking between them is a coroutine. A run has one server and one model: a change is
recorded in the manifest and stops the run, unless the user accepts it; a change of its prompts always stops it.

    with open_evaluation(EvalOptions("perturbed", base_urls=("http://localhost:8000/v1",))) as evaluation:
        loop.run(evaluation.ask())
    evaluation.result().failures
"""

from __future__ import annotations

import contextlib
import heapq
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from tomserve.engine.adaptations import NO_SCHEMA, STRICT, SchemaPolicy, check_names, describe
from tomserve.engine.redact import LONGEST_ERROR, Redactor, clean_text
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.engine.retry import ModelGuard
from tomserve.errors import ConfigError, RunMismatchError, ServerError
from tomserve.items import UNKNOWN, Item
from tomserve.prompting.conversation import Message, Turn
from tomserve.prompting.strategy import Strategy
from tomserve.runs import planning, runfolder
from tomserve.runs.conversations import (
    Phase,
    PhaseRunner,
    Questions,
    count_requests,
    has_begun,
    is_finished,
    run_asking,
)
from tomserve.runs.item_store import ItemStore
from tomserve.runs.journal import JOURNAL, Journal, restore_journal
from tomserve.runs.manifest import Manifest, Session, make_portable
from tomserve.runs.noise_check import NoiseCheck
from tomserve.runs.open_again import OpenAgain
from tomserve.runs.planning import EvalOptions, Plan, begin_manifest, make_plan
from tomserve.runs.progress import Listener, Stop, record_progress
from tomserve.runs.scores import score_run
from tomserve.scoring.labels import Order, find_prompt_order, lettered_choices
from tomserve.serving import endpoint, install, keys, provenance
from tomserve.serving.endpoint import ServerWatch, Target
from tomserve.serving.preflight import learn_adaptations, list_turns
from tomserve.serving.presets import REFERENCE, Preset
from tomserve.serving.probe import ANSWER, CHECKED_PROMPTS, Probe, WaitPolicy
from tomserve.serving.server import Server, free_port, wait_healthy
from tomserve.serving.weights import fetch_weights
from tomserve.status import FINAL, UNFINISHED


def ensure_engine(listener: Listener, *, setup: bool) -> None:
    """Raise MachineError where vLLM is missing. setup: whether to install it first if needed."""
    if setup:
        install.setup(None, listener.message)
    install.require_engine()


class Servers:
    """Servers that are started when the first run needs them, kept for the next, and stopped when this is left."""

    def __init__(self, share: float = 1.0) -> None:
        """Begin without a server. share: how much of each GPU's memory a server may take of what it otherwise would."""
        self._share = share
        self._stack = contextlib.ExitStack()
        self._kept: dict[str, tuple[Server, Target]] = {}

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *raised: object) -> None:
        self._kept.clear()
        self._stack.close()

    def of(self, chosen: Target, folder: Path, note: Callable[[str], None]) -> tuple[Server, Target]:
        """The server of that target, started unless it runs already. Arguments and errors: see `start_server`."""
        running = self._kept.get(chosen.starts)
        if running is None or running[0].gone() is not None:
            running = self._kept[chosen.starts] = start_server(self._stack, chosen, folder, note, self._share)
        return running


def start_server(
    stack: contextlib.ExitStack, chosen: Target, folder: Path, note: Callable[[str], None], share: float = 1.0
) -> tuple[Server, Target]:
    """Start a server of a target that has none, which `stack` stops. folder: of the run; the server writes to
    ``server.log`` there. note: called every few seconds with how far the start is; an error that it raises ends the
    waiting. share: of each GPU's memory. Returns the server, and the target with its address. Raises ServerError,
    MachineError."""
    from tomserve.serving import serve  # most runs are asked of a server that runs

    extra = memory_share_flags(chosen.preset, share)
    (replica,) = serve.plan_replicas(serve.ServeOptions(chosen.starts, port=free_port(), extra=extra))
    preset, command = replica.preset, replica.command
    fetch_weights(preset, note)
    # A key from the environment would lock tomserve out of its own server.
    command.env["VLLM_API_KEY"] = ""
    command.secret.clear()
    what = "the embedded server (vLLM on the CPU, reference model)"
    if preset.model != REFERENCE:
        what = f"a server (vLLM on {'the CPU' if preset.device == 'cpu' else 'GPUs'}, {preset.name})"
    note(f"starting {what} ...")
    server = stack.enter_context(Server(command, host="127.0.0.1", port=replica.port, log=folder / "server.log"))
    took = wait_healthy([server], lambda message: note(f"  {message}"))
    note(f"server healthy after {took:.0f} s")
    reached = endpoint.ask_endpoints([server.url], preset.name, chosen.revision)
    reached.server |= replica.describe(reached.revision)
    return server, replace(reached, preset=preset, starts=chosen.starts)


def memory_share_flags(preset: Preset | None, share: float) -> tuple[str, ...]:
    """The flags by which a server of a preset takes a share of each GPU's memory; none for all of it, or on a CPU."""
    if share >= 1 or preset is None or preset.device == "cpu":
        return ()
    return ("--gpu-memory-utilization", f"{preset.utilization * share:.3f}")


def check_endpoints(
    chosen: Target,
    questions: Questions,
    sampling: Sampling,
    timeout: float,
    waiting: WaitPolicy | None = None,
    note: Callable[[str], None] = lambda message: None,
    policy: SchemaPolicy = "on",
) -> tuple[int | None, tuple[str, ...]]:
    """Ask every endpoint something small, and check that the longest prompts fit into the model's context. timeout:
    seconds of one request. waiting: how to wait where an endpoint is busy; None for not at all. note: is warned where a
    server cuts the longest prompt off. policy: whether replies must be held to a schema. Returns the tokens of the
    longest prompt (None where the server counts none), and the adaptations by which the endpoints take requests. Raises
    ServerError where an endpoint does not answer as it should, ConfigError where a prompt and its reply do not fit."""
    key, headers = keys.credentials(*chosen.endpoints)
    probes = [Probe(one, key, timeout, waiting, headers) for one in chosen.endpoints]
    names = learn_adaptations(probes, chosen.model, _turns_ahead(questions), sampling, policy)
    longest = probes[0].check_context(chosen.model, chosen.context, _longest_prompts(questions), sampling.extra)
    if longest is None and (cut := _find_cut(probes[0], chosen.model, _longest_prompts(questions), sampling)):
        note(f"warning: {cut}")
    return longest, names


SHORT = 8000  # characters of a prompt that every server takes whole: about 2,000 tokens


Prompt = tuple[str, str, Sequence[Message], int]  # (item's id, strategy, messages, tokens for the reply)


def _find_cut(probe: Probe, model: str, prompts: Iterator[Prompt], sampling: Sampling) -> str:
    """What to say where the server cuts the longest prompt off without a word; "" where it does not, or is not asked as
    that prompt is short."""
    lengths = ((sum(len(one["content"]) for one in messages), messages) for _, _, messages, _ in prompts)
    size, longest = max(lengths, key=lambda found: found[0], default=(0, ()))
    return probe.describe_cut(model, longest, sampling.extra) if size > SHORT else ""


def _longest_prompts(questions: Questions) -> Iterator[Prompt]:
    """The longest prompts of every strategy."""
    items = questions.items
    text, parts = items.characters, items.parts
    by_text = heapq.nlargest(CHECKED_PROMPTS, range(len(items)), lambda place: (text[place], parts[place]))
    by_parts = heapq.nlargest(CHECKED_PROMPTS, range(len(items)), lambda place: (parts[place], text[place]))
    longest = [items[place] for place in dict.fromkeys((*by_text, *by_parts))]
    return (
        (item.id, strategy.name, turn.messages, turn.max_tokens)
        for strategy in questions.strategies
        for item in longest
        for turn in [strategy.turn(item)]
    )


TRIED = 4  # items, spread over all, whose turns are tried before the first question


def _items_to_try(questions: Questions) -> list[Item]:
    """Some items, spread over all."""
    count = len(questions.items)
    places = dict.fromkeys(step * (count - 1) // (TRIED - 1) for step in range(TRIED)) if count else ()
    return [questions.items[place] for place in places]


def _turns_ahead(questions: Questions) -> Iterator[tuple[str, Turn]]:
    """The turns of each strategy about some items, with the strategy's name; those after the first as they follow from
    made-up replies."""
    for strategy in questions.strategies:
        for item in _items_to_try(questions):
            turns = list_turns(strategy, item) if strategy.is_multi_turn else [strategy.turn(item)]
            yield from ((strategy.name, turn) for turn in turns)


def refuse_other_letters(questions: Questions) -> None:
    """Raise ConfigError where a strategy shows choices by letter in another order than its replies are read by."""
    for strategy in (one for one in questions.strategies if one.lettered):
        for item in _items_to_try(questions):
            first = strategy.conversation(item).open[0]
            shown = find_prompt_order("\n".join(one["content"] for one in first.messages), item.choices)
            read = lettered_choices(item).offered
            differs = any(one != other for one, other in zip(shown, read, strict=False))
            if differs and set(item.choices) - {UNKNOWN} <= set(shown):
                raise ConfigError(
                    f"strategy {strategy.name!r}: its prompt about {item.id} shows {_in_letters(shown)}, but replies "
                    f"are read as {_in_letters(read)}; show all choices in their order, or leave out `lettered: true`"
                )


def _in_letters(order: Order) -> str:
    return ", ".join(f"{chr(ord('A') + place)} for {choice}" for place, choice in enumerate(order))


@dataclass
class ServerChanges:
    """Records the changes of the server, or of the model that answers, in one session. say: functions that are called
    with a sentence for each change, such as that which writes the run's log."""

    session: Session  # the record of the session in the manifest
    accepted: bool  # whether the user goes on in spite of changes (`--accept-change`)
    say: tuple[Callable[[str], None], ...]

    def check(self, folder: Path, manifest: Manifest) -> None:
        """Compare the server with that of the last session that had answers, and record each difference. Raises
        RunMismatchError where it is another one, unless the user accepts that."""
        sessions = [session.to_dict() for session in manifest.sessions]
        for change in provenance.check_same_server(folder, sessions, self.session.to_dict(), accepted=self.accepted):
            self.note(change)

    def note(self, change: Mapping[str, Any]) -> None:
        """Record a change, and say so. The change has `what` changed, and its value `before` and `now`."""
        self.session.note_change(change, accepted=self.accepted)
        for listener in self.say:
            listener(f"{'accepted ' if self.accepted else ''}change: {provenance.describe_change(change)}")

    def answering(self, models: Collection[str]) -> ModelGuard:
        """The comparison of the models that replies name. models: the names in the run's earlier replies."""

        def note(endpoint: str, before: list[str], name: str) -> None:
            self.note({"what": "model named by replies", "before": before, "now": name, "endpoint": endpoint})

        return ModelGuard(models, note if self.accepted else None)

    def watch(self, target: Target) -> ServerWatch:
        """The watch that looks every now and then whether the server is still the one that was checked."""
        server = make_portable(target.server)
        return ServerWatch(
            target.endpoints, target.model, server, self._note_exchange, accepted=self.accepted, portable=make_portable
        )

    def _note_exchange(self, change: provenance.Change) -> None:
        """Record that the server was exchanged while it was being asked."""
        self.note(change)
        if self.accepted:
            setattr(self.session, change["what"], provenance.merge_values(change["before"], change["now"]))


def refuse_changed_prompts(folder: Path, old: Manifest, asked: Collection[str], strategies: Sequence[Strategy]) -> None:
    """Raise RunMismatchError where strategies have got other prompts since the run began, and its own another name.
    asked: the strategies that have answers in it."""
    renamed = {}
    for strategy in strategies:
        was = old.strategies.get(strategy.name)
        if strategy.name in asked and was is not None and was.digest not in (None, strategy.digest):
            renamed[strategy.name] = strategy.renamed(was.digest)
    if found := {name: now for name, now in renamed.items() if now is not None}:
        changed, today = (" and ".join(map(repr, names)) for names in (found, found.values()))
        options = " ".join(f"--strategy {name}" for name in found.values())
        raise RunMismatchError(
            f"{folder}: the prompts of {changed} have changed since this run was begun (by tomserve {old.tomserve}); "
            f"those that it asked are called {today} now: ask them in a new run with {options} --run NEW (make: "
            f"STRATEGY='{' '.join(found.values())}' RUN=NEW), or go on with the version that began it"
        )


@dataclass(frozen=True)
class EvalResult:
    """What an evaluation did."""

    folder: Path  # of the run
    total: int  # how many requests were wanted, one for each item and turn of each strategy
    added: int  # how many rows this evaluation added, those of questions asked again among them
    failures: dict[str, int]  # how many of the wanted rows are no answer, by status
    seconds: float  # how long the evaluation took


@dataclass
class Evaluation:
    """An evaluation whose run folder is locked and whose server has been checked: `ask` asks what is left. folder,
    journal, manifest: the run's folder, its rows and its record. alive: returns a reason once the process of an
    embedded server has ended, else None."""

    plan: Plan  # what is to be asked
    folder: runfolder.RunFolder
    journal: Journal
    manifest: Manifest
    known: Sequence[str]  # the ids of all items that the run was ever to ask, in this session or an earlier one
    listener: Listener  # told what happens
    stop: Stop  # ends the asking early
    began: float  # when the evaluation began, in seconds of the monotonic clock
    target: Target  # the server and model that are asked; once it runs, the embedded server
    alive: Callable[[], str | None] = lambda: None
    sampling: Sampling = field(default_factory=Sampling)  # the plan's, with the adaptations to the server
    added: int = 0  # how many rows were added
    session: Session = field(default_factory=Session)  # the record of this session in the manifest
    over: bool = False  # whether no further round of questions follows

    async def ask(self) -> None:
        """Ask everything that has no final row yet, phase by phase. Raises TomserveError, and StoppedError where `stop`
        was set. Everything that completed is kept in all cases, also where the task is cancelled."""
        if not self.anything_left():
            return
        options = self.plan.options
        runner = PhaseRunner(
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
            None if self.plan.target.embedded else self._changes.watch(self.target),  # nobody exchanges an embedded one
        )
        try:
            with contextlib.closing(self.phases()) as phases:
                for phase in phases:
                    await runner.ask(phase)
        finally:
            self.added += runner.added

    def phases(self) -> Generator[Phase, None, None]:
        """The phases in order: the questions, round by round where they follow from the answers, then those of the
        noise check for each of its concurrencies."""
        session = self.session
        if session.asked and self.plan.options.concurrency:
            session.concurrency = self.plan.options.concurrency  # written now, as the session may be killed
        self.manifest.add_session(session, make_portable(self.target.server))
        yield self._questions(session)
        while self.add_rounds():  # each ends with a line of its own, which suffices
            yield replace(self._questions(session), announcement=lambda left, total: "")
        if self.plan.again.items:
            yield from self.noise_check().phases(self.manifest)

    @property
    def _changes(self) -> ServerChanges:
        return ServerChanges(self.session, self.plan.options.accept_change, (self.folder.log, self.listener.message))

    def check_server(self) -> None:
        """Compare the server with the one that answered before. Raises RunMismatchError where it is another one, unless
        `accept_change` was given, or only the noise check is asked, which reports that itself."""
        left, options = self._questions().count().left, self.plan.options
        server = make_portable(self.target.server)
        self.session = Session.begin(self.target, server, asked=bool(left), limit=options.limit, where=options.where)
        if left:
            self._changes.check(self.folder.path, self.manifest)

    def _questions(self, session: Session | None = None) -> Phase:
        """The phase that asks the run's own questions. session: the record in which it notes what it found out."""
        options, questions = self.plan.options, self.plan.questions
        where = f"{self.target.model} at {', '.join(self.target.endpoints)}"
        once = questions.repeats == 1 and not any(strategy.is_multi_turn for strategy in questions.strategies)
        what, open_end = "questions" if once else "requests", ""
        if any(strategy.turns is None for strategy in questions.strategies):
            open_end = " or more, as a program decides how many a question takes"
        expected = 0 if options.rounds is None else options.rounds.expected
        return Phase(
            self.journal,
            lambda: questions,
            lambda conversations: questions.requests(
                conversations, lambda question: not is_finished(self.journal, question)
            ),
            self.request,
            lambda left, total: f"asking {where}: {left} of {total} {what} to go{open_end * bool(left)}",
            options.concurrency,
            options.hedge,
            session=session,
            expected=expected * sum(strategy.turns or 1 for strategy in questions.strategies),
        )

    def adapt_requests(self, names: tuple[str, ...]) -> None:
        """Send all requests with these adaptations, which the manifest keeps, and say what follows from them. Raises
        RunMismatchError where earlier answers of the run were asked for in another way."""
        if self.journal.asked and names != self.sampling.adaptations:
            was, now = (", ".join(one) or "none" for one in (self.sampling.adaptations, names))
            raise RunMismatchError(
                f"{self.folder.path}: its requests were sent with other adaptations to the server ({was}) than this "
                f"server wants ({now}); use --run NEW (make: RUN=NEW)"
            )
        self.sampling = replace(self.sampling, adaptations=names)
        if not self.journal.asked:
            self.manifest.adaptations = list(names) or None
            for sentence in describe(names):
                self.listener.message(f"adapted to this server: {sentence}")

    def request(self, identity: Identity, turn: Turn) -> Request:
        """The request of a turn to the target."""
        target = self.target
        return Request.build(identity, turn, model=target.model, revision=target.revision, sampling=self.sampling)

    def add_rounds(self) -> bool:
        """Add the questions that follow from the answers, as far as all before them are answered; returns whether any
        of them is left to ask. Where a request failed that may yet be answered, nothing is added."""
        rounds, questions = self.plan.options.rounds, self.plan.questions
        if rounds is None or self.over or questions.count(self.journal).left:
            return False
        scores = score_run(self.folder.path).select("item", pl.col("correct").fill_null(False))
        answers = dict(scores.iter_rows())
        while not questions.count(self.journal).left and (new := rounds.following(answers)):
            items = questions.items.concat(ItemStore(new))
            questions = Questions(items, questions.strategies, questions.repeats)
        self.over = not questions.count(self.journal).left
        self.plan, self.manifest.benchmark_items = replace(self.plan, questions=questions), len(questions.items)
        self.known = runfolder.store_items(self.folder.path, questions.items, fresh=False)
        return not self.over

    def noise_check(self) -> NoiseCheck:
        """The noise check; it has no questions where none is wanted."""
        return NoiseCheck(
            self.plan.again, self.plan.noise_sample, self.folder.path, self.journal, self.request, self.listener
        )

    def anything_left(self) -> bool:
        """Whether any phase has something to ask, and so needs a server."""
        if self._questions().count().left or self.add_rounds():
            return True
        return bool(self.plan.again.items) and self.noise_check().left(self.manifest) > 0

    def complete(self) -> bool:
        """Whether every item of the run has its final answer by every strategy of the run."""
        repeats = self.manifest.repeats
        if self.plan.options.rounds is not None and not self.over:
            return False
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
        total = count_requests(self.journal, self.plan.questions).total
        return EvalResult(self.folder.path, total, self.added, failures, seconds)

    def _failures(self) -> Counter[str]:
        """How many wanted rows are no answer, by status."""
        failures: Counter[str] = Counter()
        questions, failed = self.plan.questions, set()
        items, calls = questions.ids if self.journal.failed else (), {s.name: s.calls for s in questions.strategies}
        for identity, status in self.journal.failed.items():
            over = status not in FINAL and identity._replace(turn=0) in self.journal.closed
            if identity.item in items and identity.turn < calls.get(identity.strategy, 0) and not over:
                failures[status] += 1
                failed.add(identity.question)
        for question in questions if any(one.is_multi_turn for one in questions.strategies) else ():
            missing = has_begun(self.journal, question) and not is_finished(self.journal, question)
            failures[UNFINISHED] += (
                question.strategy.is_multi_turn and missing and question.turn(0).question not in failed
            )
        return +failures


@contextlib.contextmanager
def open_evaluation(
    options: EvalOptions, listener: Listener | None = None, stop: Stop | None = None, servers: Servers | None = None
) -> Iterator[Evaluation]:
    """Open an evaluation: lock its run folder and, where something is left to ask, make sure that a server answers.
    servers: keeps a server started here for what comes next [it is stopped]. Leaving the context writes the manifest.
    Raises TomserveError."""
    listener, stop, began = listener or Listener(), stop or Stop(), time.monotonic()
    planning.check_options(options)  # the plan checks them once more, but the waiting needs a number of seconds
    waiting = WaitPolicy(listener.message, stop.check, options.patience, options.policy, min(ANSWER, options.timeout))
    # A run that takes no answers is refused before any server is looked for, which may take minutes to start.
    given = None if options.run is None else runfolder.answers_folder(options.run)
    plan = make_plan(options, waiting)
    asked = plan.benchmark_name if options.rounds is None else f"{options.rounds.study}-{plan.benchmark_name}"
    path = given or runfolder.answers_folder(runfolder.default_name(asked, plan.name))
    if not path.exists():  # checked first, so that what cannot be asked leaves no empty run behind
        refuse_other_letters(plan.questions)
        if plan.target.embedded:
            ensure_engine(listener, setup=options.setup)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(runfolder.RunFolder(path))
        restore_journal(folder.path, listener.message)
        again = OpenAgain(options.again, Manifest.read(path), plan.target.context, accepted=options.accept_change)
        journal = stack.enter_context(Journal(folder.path / JOURNAL, again=again))
        if (said := again.describe(journal.failed)) is not None:
            listener.message(said)
        evaluation = resume_evaluation(
            plan, folder, journal, stack.enter_context(record_progress(listener, folder.path)), stop, began
        )
        stop.check()
        try:
            if evaluation.anything_left():
                refuse_other_letters(plan.questions)
                evaluation.save()
                _reach(evaluation, servers or stack.enter_context(Servers()), waiting)
            yield evaluation
        except ServerError as error:
            told = Redactor(*keys.all_keys())(str(error)).replace(f"{Path.home()}/", "~/")
            evaluation.manifest.stopped = clean_text(told, LONGEST_ERROR)
            evaluation.save()
            raise
        evaluation.save()


def resume_evaluation(
    plan: Plan, folder: runfolder.RunFolder, journal: Journal, listener: Listener, stop: Stop, began: float
) -> Evaluation:
    """The evaluation, with the rows and the record that its run folder holds already. Raises RunMismatchError where the
    folder belongs to another benchmark, model or prompts."""
    options = plan.options
    manifest = begin_manifest(plan, folder.path)
    if (old := Manifest.read(folder.path)) is not None:
        refuse_changed_prompts(folder.path, old, journal.asked, plan.questions.strategies)
        manifest.take_over(old, folder.path, journal.asked)
        if journal.asked:
            refuse_changed_schema(folder.path, manifest.adaptations or (), options.answer_schema)
    elif journal.asked:
        raise runfolder.missing_manifest_error(journal.path)
    if journal.asked and (options.limit or plan.again_share):
        plan = plan.resume(*runfolder.read_asked_items(folder.path))
    known = runfolder.store_items(folder.path, plan.questions.items, fresh=not journal.asked)
    if journal.torn:
        folder.log(f"the last line was torn; moved to {journal.torn.name}")
        listener.message(f"warning: the journal's last line was torn by a crash; moved to {journal.torn.name}")
    manifest.note_variants(plan.variants)
    for message in filter(None, (plan.selection, plan.varied.describe())):
        listener.message(message)
    if not journal.asked and (names := first_adaptations(plan)):
        manifest.adaptations = list(names)
    sampling = replace(plan.sampling, adaptations=check_names(manifest.adaptations or ()))
    return Evaluation(plan, folder, journal, manifest, known, listener, stop, began, plan.target, sampling=sampling)


def refuse_changed_schema(path: Path, adaptations: Collection[str], policy: SchemaPolicy) -> None:
    """Raise RunMismatchError where a run that goes on was asked with a schema, or without, and that is not wanted."""
    without = NO_SCHEMA in adaptations
    if policy == ("on" if without else "off"):
        raise RunMismatchError(
            f"{path}: was asked {'without' if without else 'with'} a schema; go on by --schema "
            f"{'off' if without else 'on'}, or use --run NEW"
        )


def first_adaptations(plan: Plan) -> tuple[str, ...]:
    """The adaptations with which a run begins, before its server was asked: none for vLLM."""
    if plan.options.answer_schema == "off":
        return (NO_SCHEMA,)
    return (STRICT,) if plan.target.endpoints and plan.target.server.get("engine_version") is None else ()


def _reach(evaluation: Evaluation, servers: Servers, waiting: WaitPolicy) -> None:
    """Start a server where one is needed, and check that it can answer the questions."""
    plan, listener, folder = evaluation.plan, evaluation.listener, evaluation.folder
    if plan.target.embedded:

        def note(message: str) -> None:
            evaluation.stop.check()
            listener.message(message)

        ensure_engine(listener, setup=plan.options.setup)
        server, evaluation.target = servers.of(plan.target, folder.path, note)
        evaluation.alive = server.gone
    evaluation.check_server()
    longest, adaptations = check_endpoints(
        evaluation.target, plan.questions, evaluation.sampling, plan.options.timeout, waiting, listener.message,
        plan.options.answer_schema,
    )  # fmt: skip
    evaluation.adapt_requests(adaptations)
    what = "first prompt" if any(one.is_multi_turn for one in plan.questions.strategies) else "prompt"
    folder.log(f"longest {what}: {longest or 'not counted by this server, so unknown'} tokens")


def evaluate(
    options: EvalOptions,
    listener: Listener | None = None,
    drive: Callable[[Evaluation], None] = run_asking,
    stop: Stop | None = None,
    servers: Servers | None = None,
) -> EvalResult:
    """Ask everything that is left of an evaluation. drive: runs `Evaluation.ask` to its end; a command line gives its
    own, which handles signals. The calling thread must have no running event loop. Raises TomserveError."""
    with open_evaluation(options, listener, stop, servers) as evaluation:
        drive(evaluation)
    return evaluation.result()
