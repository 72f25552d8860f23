"""A whole faithfulness measurement: its chains, edits and requests, and the run folder and table that keep it.

Every reply is kept in a journal in the run's folder of work; interrupted at any moment, the same call goes on with
the question it was at.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tomserve.content import digest, files
from tomserve.content.paths import run_name, runs_root
from tomserve.engine.records import CONCLUSION
from tomserve.engine.request import Identity, Request
from tomserve.engine.retry import ModelGuard
from tomserve.errors import ConfigError, RunMismatchError
from tomserve.faithfulness import hint_reader, hints, model_access, plan, second_models, table, unlearning
from tomserve.faithfulness.hints import HintedTurn
from tomserve.faithfulness.plan import PlannedQuestion
from tomserve.faithfulness.settings import AUTO, BOTH, CONTINUE_PROBE, EDIT_PROBE, LIMIT, PROBES, Connection, Settings
from tomserve.faithfulness.source_run import (
    Chain,
    SourceRun,
    check_texts,
    draw_chains,
    has_turn,
    is_lettered,
    item_columns,
    last_row,
    read_chain,
    read_source,
)
from tomserve.faithfulness.story_twins import compare_twins
from tomserve.items import Item
from tomserve.prompting.conversation import Asker
from tomserve.runs import journal
from tomserve.runs.conversations import (
    AskingPhase,
    Conversations,
    LoopRunner,
    Phase,
    PhaseRunner,
    Question,
    is_finished,
    run_asking,
)
from tomserve.runs.cost import Figure
from tomserve.runs.evaluation import Servers
from tomserve.runs.grader import Reader, ask_items, find_reader
from tomserve.runs.journal import Journal, read_rows, row_identity
from tomserve.runs.manifest import Manifest, Session, make_portable
from tomserve.runs.measurement import MeasuredRun
from tomserve.runs.progress import Listener, Stop, record_progress
from tomserve.runs.runfolder import JOURNAL, TABLE, run_path
from tomserve.scoring.answers import Reading
from tomserve.scoring.score import read_response
from tomserve.serving import keys
from tomserve.serving.endpoint import Target
from tomserve.serving.probe import ANSWER, WaitPolicy
from tomserve.status import ANSWERS, FINAL, INVALID, OK, UNFINISHED, inert

if TYPE_CHECKING:
    from tomserve.causal.checkpoints import Checkpoint

REPLIES, PREDICTED, PARAPHRASED = "replies.jsonl", "predictions.jsonl", "paraphrases.jsonl"
READ = "readings.jsonl"
"""The journals in the folder of work."""

MARK = "asked_by"
"""The field of a row that tells one second model and prompt from another."""

Key = tuple[str, str]
"""An item and a strategy, or an item and the name of a planned question."""

Chains = Mapping[Key, Chain]
"""The chains of a run, by item and strategy."""

Row = Mapping[str, Any]
"""A row of a journal."""

Predictions = Mapping[tuple[str, str, str], Row]
"""The rows of the second model, by item, strategy and condition."""


@dataclass
class AskingSession:
    """What the phases of one measurement share."""

    run: MeasuredRun
    connection: Connection
    listener: Listener
    stop: Stop
    run_loop: LoopRunner = run_asking  # a command line gives its own, which handles signals meanwhile
    session: Session = field(default_factory=Session)  # notes prompt tokens and how many of them the server had cached

    def left(self, planned: Sequence[PlannedQuestion], chains: Chains) -> bool:
        """Whether any edit or hint has no final reply yet."""
        with Journal(self.run.work_file(REPLIES)) as journal:
            return any(not is_finished(journal, one) for one in _questions(planned, chains, None))

    def ask(self, reached: model_access.ModelAccess, planned: Sequence[PlannedQuestion], chains: Chains) -> None:
        """Ask the model what is left of the edits and hints."""
        questions = _questions(planned, chains, reached.prefill_support)
        items = {chain.item.id: chain.item for chain in chains.values()}
        edits = {one.name for one in planned if one.kind == table.EDIT}

        def build(identity: Identity, turn: Any) -> Request:
            sampling = reached.answering if identity.strategy in edits else reached.source.sampling
            return Request.build(identity, turn, model=at.model, revision=at.revision, sampling=sampling)

        def left(talks: Conversations) -> Iterator[Request]:
            for one in questions:
                if not is_finished(replies, one):
                    yield from talks.begin(one.strategy, items[one.item])

        at, what = reached.target, "requests with edited chains or hints"
        with Journal(self.run.work_file(REPLIES)) as replies:
            phase = Phase(
                replies,
                lambda: questions,
                left,
                build,
                lambda left, total: (
                    f"asking {at.model} at {', '.join(at.endpoints)}: {left:,} of {total:,} {what} to go"
                ),
                self.connection.concurrency,
                what=f"of the {what}",
                session=self.session,
            )
            self._run(at, phase, reached.server_gone)

    def ask_second(self, who: Reader, shown: Mapping[str, Item], file: str, what: str) -> Mapping[str, Row]:
        """Ask a second model about each of these items, once each, and return its last rows by the items' names."""
        path = self.run.work_file(file)
        found: Mapping[str, Row] = ask_items(who, shown, path, MARK, self._run, what)
        for row in found.values():
            check_texts(path, row)
        return found

    def _run(self, at: Target, phase: Phase, alive: Callable[[], str | None] = lambda: None) -> None:
        given = self.connection
        patience = {} if given.patience is None else {"lost_after": given.patience}
        policy = given.policy if not patience else type(given.policy)(**{**vars(given.policy), **patience})
        asker = PhaseRunner(
            at.endpoints, at.model, self.listener, self.stop, self.run.log, lambda: None, given.timeout,
            given.transport, policy, alive, ModelGuard(phase.journal.models, acceptable=False),
        )  # fmt: skip
        self.run_loop(AskingPhase(asker, phase))


def _questions(planned: Sequence[PlannedQuestion], chains: Chains, held_by: str | None) -> list[Question]:
    """The planned edits and hints, each with what asks it. Raises ConfigError for a hint that can no longer be made."""
    asked = (one for one in planned if one.is_asked and one.kind in (table.EDIT, table.HINT))
    return [Question(one.item, _asker(one, chains[one.item, one.strategy], held_by)) for one in asked]


def _asker(one: PlannedQuestion, chain: Chain, held_by: str | None) -> Asker:
    text = one.edited or ""
    if one.condition in table.CONTINUATIONS:
        return model_access.continued_conversation(one.name, chain, text, str(one.shown), held_by)
    if one.kind == table.EDIT and one.shown == table.PREFILL:
        return model_access.single_turn(one.name, lambda: model_access.prefill_turn(chain, text, held_by))
    if one.kind == table.EDIT:
        return model_access.single_turn(one.name, lambda: model_access.second_call_turn(chain, text))
    hint = chain.hints.get(one.condition)
    if not isinstance(hint, HintedTurn):
        raise ConfigError(f"item {one.item!r}: the hint {one.condition!r} can no longer be made; use --run NEW")
    return model_access.hinted_conversation(one.name, chain.strategy, hint)


def reply_rows(run: MeasuredRun) -> dict[Key, dict[int, Row]]:
    """The rows of the model's replies by item and planned name, then by turn; the last of a turn counts."""
    found: dict[Key, dict[int, Row]] = {}
    for _, row in read_rows(run.work / REPLIES):
        identity = row_identity(row)
        check_texts(run.work / REPLIES, row)
        found.setdefault((identity.item, identity.strategy), {})[identity.turn] = row
    return found


def predictor_items(planned: Sequence[PlannedQuestion], chains: Chains) -> dict[tuple[str, str, str], Item]:
    """What the predicting model is shown, by item, strategy and condition: choices as the model was offered them."""
    found = {}
    for one in planned:
        if one.kind == table.PREDICTION and one.is_asked:
            chain = chains[one.item, one.strategy]
            told = hints.find_user_message(chain.strategy.turn(chain.item).messages)[1]
            offers = hints.read_offered(chain.item, told, lettered=chain.lettered)
            found[one.item, one.strategy, one.condition] = second_models.predictor_item(chain.item, one.edited, offers)
    return found


def build_table(
    source: SourceRun,
    run: str,
    planned: Sequence[PlannedQuestion],
    chains: Chains,
    replies: Mapping[Key, Mapping[int, Row]],
    predictions: Predictions,
    predictor: str | None,
) -> pl.DataFrame:
    """The table: a row for everything that was planned. run, predictor: the names of the measurement and of the second
    model."""
    items = {item.id: item for pairs in source.unreadable.values() for item, _ in pairs}

    def row(one: PlannedQuestion) -> dict[str, Any]:
        named: dict[str, Any] = {"run": run, "model": source.manifest.model}
        chain = chains.get((one.item, one.strategy))
        if chain is None:
            return {**named, **_of_item(items[one.item], one)}
        written = chain.written
        named |= _of_item(chain.item, one)
        named |= {"form": written.form, "own": written.model_answer, "written": written.text}
        rows = replies.get((one.item, one.name), {})
        if not one.is_asked:
            return named
        if one.condition in table.CONTINUATIONS:
            return {**named, **_continued_columns(chain, one, rows)}
        if one.kind == table.EDIT:
            reading = partial(model_access.answer_of, chain, str(one.shown), one.edited or "")
            return {**named, **_answer(rows.get(0), reading)}
        if one.kind == table.HINT:
            return {**named, **_hint_columns(chain, one, rows)}
        predicted = predictions.get((one.item, one.strategy, one.condition))
        return {**named, "predictor": predictor, **_answer(predicted, _second_reading(chain.item))}

    return table.of_rows(map(row, planned))


def _of_item(item: Item, one: PlannedQuestion) -> dict[str, Any]:
    """The columns of the question, and of what was planned about it."""
    return {
        **item_columns(item),
        **{"asked_by": one.strategy, "kind": one.kind, "condition": one.condition, "shown": one.shown},
        **{"outcome": one.status, "reason": one.reason, "implied": one.implied, "edited": one.edited},
        **{"right": item.answer, "choices": len(item.choices), "question": item.question},
    }


def _answer(row: Row | None, read: Callable[[Row], Reading] | None = None) -> dict[str, Any]:
    """The columns of an answer. row: its response, None where none came. read: reads one that is an answer."""
    if row is None:
        return {"outcome": UNFINISHED, "reason": "it was not asked"}
    found = Reading(None, None) if read is None or row["status"] not in ANSWERS else read(row)
    status = inert(row["status"])
    told = row.get("usage")
    usage = told if isinstance(told, dict) and not row.get("reused") else {}
    return {
        "outcome": INVALID if status == OK and found.answer is None else status,
        **{"answer": found.answer, "parse": found.parse, "reason": found.reason or row.get("error")},
        "tokens": _whole(usage.get("prompt")),
        "cached": _whole(usage.get("cached")),
    }


def _whole(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 2**31 else None


def _second_reading(item: Item) -> Callable[[Row], Reading]:
    """Reads what a second model says of an item, whose choices it is offered by their words."""
    return lambda row: read_response(item, row, False)


def _continued_columns(chain: Chain, one: PlannedQuestion, rows: Mapping[int, Row]) -> dict[str, Any]:
    """The columns of an answer after a chain with which the model went on, and that chain."""
    last = rows.get(1 if has_turn(chain) else 0)
    failed = next((row for row in rows.values() if row["status"] not in ANSWERS), None)
    if last is None or failed is not None:
        return _answer(failed or last)
    found, text = model_access.continued_answer(chain, str(one.shown), one.edited or "", rows)
    return {**_answer(last, lambda _: found), "edited": text}


def _hint_columns(chain: Chain, one: PlannedQuestion, rows: Mapping[int, Row]) -> dict[str, Any]:
    """The columns of a whole reply to a prompt with a hint: its answer, its chain, and whether that admits the hint."""
    strategy, hint = chain.strategy, chain.hints.get(one.condition)
    item = hint.item if isinstance(hint, HintedTurn) else chain.item  # its choices may stand in another order
    row = last_row(strategy, rows)
    if row is None and rows:  # a conversation that a failure ended
        row = rows[max(rows)]
        row = {**row, "status": UNFINISHED if row["status"] in ANSWERS else row["status"]}
    if row is None or row["status"] not in ANSWERS:
        return _answer(row)
    row = {**row, "text": row.get(CONCLUSION, row.get("text")) or "", "usage": (rows.get(0) or {}).get("usage")}
    found = read_response(item, row, is_lettered(item, strategy))
    read = read_chain(item, strategy, rows)
    text = read.written.text if isinstance(read, Chain) else None
    admits = None
    if isinstance(read, Chain) and read.written.form != table.LABELS:
        admits = hints.mentions_hint(item, read.written.text, one.condition)
    return {**_answer(row, lambda _: found), "edited": text, "admits": admits}


@dataclass(frozen=True)
class MeasurementResult:
    """A finished measurement."""

    folder: Path
    asked_now: bool  # whether anything was left to ask
    failures: Mapping[str, int]  # requests without a reply, by status
    tokens: int | None = None  # how many prompt tokens there were
    cached: float | None = None  # the share of them that the server had in its cache, None where it does not tell


def preview(settings: Settings) -> list[Figure]:
    """What a measurement would ask, counted without any server. Raises ConfigError as `measure` does."""
    source = read_source(settings.run, settings.strategies, settings.where)
    ways = model_access.usual_ways
    made = plan.make_plan(source, settings, ways if settings.shown == BOTH else lambda chain: ways(chain)[:1])
    calls = {chain.strategy.name: chain.strategy.turns or chain.strategy.calls for chain in source.chains}
    planned, chains = list(made), draw_chains(source.chains, settings.limit)
    read = [] if settings.reader is None else [hint_reader.count_readings(chains)]
    steps = [] if settings.unlearn is None else [unlearning.count_unlearnings(source, settings.limit)]
    return [*plan.count_requests(planned, calls), *read, plan.expect_intervals(chains), *steps]


def measure(
    settings: Settings,
    connection: Connection | None = None,
    place: str | Path | None = None,
    listener: Listener | None = None,
    run_loop: LoopRunner = run_asking,
    stop: Stop | None = None,
) -> MeasurementResult:
    """Measure what the settings say, or go on with it, and return the finished run.

    place: the name or folder of the new run; None for ``faithfulness-<run>``. run_loop: runs the asking to its end
    (see AskingSession). Raises ConfigError for a run without chains, RunMismatchError where another model is served
    than wrote them or the folder holds another measurement, ServerError, and StoppedError where it was stopped.
    """
    connection, listener, stop = connection or Connection(), listener or Listener(), stop or Stop()
    source = read_source(settings.run, settings.strategies, settings.where)
    seconds = min(ANSWER, connection.timeout)
    waiting = WaitPolicy(listener.message, stop.check, connection.patience, connection.policy, seconds)
    others = (settings.rewriter, settings.predictor, settings.reader)
    keys.check_one_host(connection.base_urls, *[[one] for one in others if one])
    rewriter = _second(settings.rewriter, settings.rewriter_model, "rewriter", second_models.PARAPHRASER, waiting)
    predictor = _second(settings.predictor, settings.predictor_model, "predictor", second_models.PREDICTOR, waiting)
    reader = _second(settings.reader, settings.reader_model, "reader", hint_reader.STRATEGY, waiting)
    checkpoint = None if settings.unlearn is None else unlearning.find_checkpoint(settings.unlearn, source)
    path = run_path(place) if isinstance(place, str) else place
    if path is not None and not isinstance(path, Path):
        raise ConfigError(f"the new run is {place!r:.60}; expected a name or a folder")
    path = path or runs_root() / f"{table.STUDY}-{re.sub('[^A-Za-z0-9._-]+', '-', source.name)}"[:200]
    if settings.probes and not path.exists():
        model_access.choose_server(source, connection, waiting)  # before there is a folder, so that none is left behind
    second = {"rewriter": rewriter, "predictor": predictor, "reader": reader}
    with _open_run(path, settings, source, second, checkpoint) as run:
        if run.complete:
            frame = files.read_foreign_parquet(path / TABLE)
            known = FINAL | {INVALID, table.LEFT_OUT}
            if "outcome" in frame.columns and set(frame["outcome"]) <= known:  # else some may be asked again
                return _result(path, frame, asked=False)
        with record_progress(listener, run.path) as heard, Servers() as servers:
            work = AskingSession(run, connection, heard, stop, run_loop)
            made, chains, predictions = _ask_all(work, source, settings, servers, waiting, rewriter, predictor)
            name = predictor.target.model if predictor is not None else None
            frame = build_table(source, run_name(run.path), made, chains, reply_rows(run), predictions, name)
            more = [] if reader is None else [_ask_reader(work, frame, reader)]
            if EDIT_PROBE in settings.probes:
                more.append(compare_twins(source, list(chains.values()), run_name(run.path)))
            if checkpoint is not None:
                learner = unlearning.load_learner(checkpoint)
                given = (run_name(run.path), learner, settings.limit, heard, stop)
                more.append(unlearning.unlearn_steps(run, source, *given))
            frame = pl.concat([frame, *more])
        run.finish(frame)
        return _result(run.path, frame, asked=True)


def _second(given: str | None, model: str | None, option: str, strategy: str, waiting: WaitPolicy) -> Reader | None:
    """A second model, by its address or name; None where none is wanted."""
    if given is None:
        if model is not None:
            raise ConfigError(f"--{option}-model names a model at an address; give that by --{option}")
        return None
    return find_reader(given, model, waiting, strategy=strategy, option=option)


def _open_run(
    path: Path,
    settings: Settings,
    source: SourceRun,
    others: Mapping[str, Reader | None],
    checkpoint: Checkpoint | None,
) -> MeasuredRun:
    manifest = source.manifest
    answers = journal.measure_file(source.folder / JOURNAL)[1]
    before = Manifest.read(path)
    same = before is not None and before.measured and before.settings.get("of") == source.name
    if before is not None and same and before.settings.get("answers") not in (None, answers):
        raise RunMismatchError(
            f"{path}: the answers of {source.name} have changed since their chains were edited here; use --run NEW"
        )
    known: dict[str, Any] = {
        name: {"model": one.target.model, "asked_by": one.mark} for name, one in others.items() if one is not None
    }
    if checkpoint is not None:
        known["unlearn"] = checkpoint.digest
    return MeasuredRun.open(
        path,
        study=table.STUDY,
        model=manifest.model,
        revision=manifest.revision,
        benchmark=manifest.benchmark,
        benchmark_digest=manifest.benchmark_digest,
        settings={
            **{"of": source.name, "answers": answers, **settings.record(), **known},
            "prompts": digest(hints.texts_digest().encode(), model_access.text_digest().encode()),
        },
        command=_command(settings, source),
    )


def _command(settings: Settings, source: SourceRun) -> str:
    """The command that makes this measurement."""
    several = {
        "strategy": settings.strategies,
        "where": settings.where,
        "probe": settings.probes if settings.probes != PROBES else (),
        "edit": settings.edits if settings.edits != table.EDITS else (),
        "hint": settings.hints if settings.hints != table.PLACES else (),
    }
    given = [f"--{name} {value}" for name, values in several.items() for value in values]
    given += [f"--unlearn {settings.unlearn}"] if settings.unlearn is not None else []
    given += [f"--limit {settings.limit}"] if settings.limit != LIMIT else []
    given += [f"--shown {settings.shown}"] if settings.shown != AUTO else []
    return " ".join(["tomserve faithfulness", source.name, *given])


def _ask_all(
    work: AskingSession,
    source: SourceRun,
    settings: Settings,
    servers: Servers,
    waiting: WaitPolicy,
    rewriter: Reader | None,
    predictor: Reader | None,
) -> tuple[list[PlannedQuestion], Chains, Predictions]:
    """Ask everything that is left; returns what was planned, the chains, and what the second model predicted."""
    run, listener = work.run, work.listener
    chains = {(chain.item.id, chain.strategy.name): chain for chain in draw_chains(source.chains, settings.limit)}
    file = run.work_file(plan.FILE)
    made = plan.read_plan(file) if file.exists() else None
    if made is not None:
        _check_planned(file, made, chains, source)
    if not settings.probes:
        made = made or list(plan.make_plan(source, settings, lambda chain: ()))
        plan.write_plan(file, made)
    elif made is None or work.left(made, chains):
        target = model_access.choose_server(source, work.connection, waiting)
        reached = model_access.reach_model(target, source, run, servers, waiting, work.connection, listener)
        run.note_environment({**_environment(reached.target), "held_by": reached.prefill_support or "a schema"})
        if made is None:
            paraphrases = _ask_rewriter(work, list(chains.values()), rewriter)
            edited = {EDIT_PROBE, CONTINUE_PROBE} & {*settings.probes}
            shown = model_access.find_ways(reached, settings, listener, waiting) if edited else lambda chain: ()
            refusal = None
            if CONTINUE_PROBE in settings.probes:
                refusal = reached.probe(waiting).explain_no_prefill(reached.target.model, reached.answering.extra)
            count = reached.counting(listener)
            made = list(plan.make_plan(source, settings, shown, count, paraphrases, refusal))
            plan.write_prefill_support(run.work_file(plan.HOW), reached.prefill_support)
            plan.write_plan(file, made)
        elif any(one.is_asked and (one.shown == table.PREFILL or one.condition in table.CONTINUATIONS) for one in made):
            model_access.check_prefill_unchanged(reached, plan.read_prefill_support(run.work_file(plan.HOW)), waiting)
        work.ask(reached, made, chains)
    found = {item.id: item for pairs in source.unreadable.values() for item, _ in pairs}
    found |= {chain.item.id: chain.item for chain in chains.values()}
    run.write_items(found[name] for name in sorted(found))
    if predictor is None:
        return made, chains, {}
    items = predictor_items(made, chains)
    rows = work.ask_second(predictor, {one.id: one for one in items.values()}, PREDICTED, "predictions of answers")
    return made, chains, {key: rows[item.id] for key, item in items.items() if item.id in rows}


def _check_planned(file: Path, made: Sequence[PlannedQuestion], chains: Chains, source: SourceRun) -> None:
    """Raise ConfigError where a plan, which may be a stranger's, is not about these chains."""
    known = {(item.id, name) for name, pairs in source.unreadable.items() for item, _ in pairs}
    for number, one in enumerate(made, 1):
        key = (one.item, one.strategy)
        if key not in chains and not (key in known and not one.is_asked):
            raise ConfigError(f"{file}:{number}: is about no chain of {source.name}; use --run NEW to begin anew")


def _environment(target: Target) -> dict[str, Any]:
    """What may change the answers."""
    names = ("engine_version", "engine", "root", "dtype", "quantization", "tensor_parallel", "hardware")
    known = {name: target.server.get(name) for name in names if target.server.get(name) is not None}
    return {"model": target.model, "revision": target.revision, **make_portable(known)}


def _ask_rewriter(work: AskingSession, chains: Sequence[Chain], rewriter: Reader | None) -> dict[Key, str]:
    """The paraphrases that the rewriter made and that mean the same, by item and strategy."""
    if rewriter is None:
        return {}
    prose = [chain for chain in chains if chain.written.form in (table.TEXT, table.THINKING)]
    shown = [second_models.paraphraser_item(chain.item, chain.written.text) for chain in prose]
    rows = work.ask_second(rewriter, {item.id: item for item in shown}, PARAPHRASED, "paraphrases of chains")
    found = {}
    for chain, item in zip(prose, shown, strict=True):
        row = rows.get(item.id, {})
        text = second_models.read_paraphrase(row.get("text") or "") if row.get("status") in ANSWERS else None
        if text and second_models.find_fault(chain.item, chain.written, text, lettered=chain.lettered) is None:
            found[chain.item.id, chain.strategy.name] = text
    work.listener.message(f"{len(found)} of {len(prose)} chains of prose are paraphrased by {rewriter.target.model}")
    return found


def _ask_reader(work: AskingSession, frame: pl.DataFrame, reader: Reader) -> pl.DataFrame:
    """What a second model says of the chains that followed hints, and of those of known truth."""
    wanted = hint_reader.chains_to_read(frame)
    shown = {one.shown.id: one.shown for one in wanted}
    rows = work.ask_second(reader, shown, READ, "chains read for hints")
    answers = {name: _answer(rows.get(name), _second_reading(item)) for name, item in shown.items()}
    return table.of_rows({**one.row, **answers[one.shown.id], "predictor": reader.target.model} for one in wanted)


def _result(folder: Path, frame: pl.DataFrame, *, asked: bool) -> MeasurementResult:
    """What a finished measurement came to. asked: whether anything was asked now."""
    sums = frame.select(pl.col("tokens", "cached").sum(), told=pl.col("cached").is_not_null().any()).row(0, named=True)
    failures = Counter(status for status in frame["outcome"] if status not in ("ok", "length", INVALID, table.LEFT_OUT))
    return MeasurementResult(
        folder,
        asked,
        dict(sorted(failures.items())),
        sums["tokens"] or None,
        sums["cached"] / sums["tokens"] if sums["told"] and sums["tokens"] else None,
    )
