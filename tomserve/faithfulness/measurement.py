"""A whole faithfulness measurement: its chains, edits and requests, and the run folder and table that keep it.

Every reply is kept in a journal in the run's folder of work; interrupted at any moment, the same call goes on with
the question it was at.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from tomserve.content import digest
from tomserve.content.paths import run_name, runs_root
from tomserve.engine import transports
from tomserve.engine.records import CLOSES, CONCLUSION
from tomserve.engine.request import Identity, Request
from tomserve.engine.retry import ModelGuard
from tomserve.errors import ConfigError, RunMismatchError
from tomserve.faithfulness import hints, model_access, plan, second_models
from tomserve.faithfulness.chains import OmittedEdit
from tomserve.faithfulness.hints import HintedTurn, add_hints
from tomserve.faithfulness.model_access import (
    HintedConversation,
    ModelAccess,
    SingleTurn,
    prefill_turn,
    second_call_turn,
    usual_ways,
)
from tomserve.faithfulness.plan import PlanCost, PlannedQuestion
from tomserve.faithfulness.settings import AUTO, BOTH, EDIT_PROBE, LIMIT, PROBES, Connection, Settings
from tomserve.faithfulness.source_run import (
    Chain,
    SourceRun,
    check_texts,
    draw_chains,
    is_lettered,
    read_chain,
    read_source,
    unit_of,
)
from tomserve.faithfulness.table import (
    EDIT,
    EDITS,
    HINT,
    LABELS,
    LEFT_OUT,
    PREDICTION,
    PREFILL,
    SCHEMA,
    STUDY,
    TEXT,
    THINKING,
)
from tomserve.items import Item
from tomserve.prompting.conversation import Asker
from tomserve.runs import journal
from tomserve.runs.conversations import Conversations, Phase, PhaseRunner, Question, is_finished
from tomserve.runs.evaluation import Servers
from tomserve.runs.grader import Reader, check_chat, find_reader
from tomserve.runs.journal import Journal, read_rows, row_identity
from tomserve.runs.manifest import Manifest, Session, make_portable
from tomserve.runs.measurement import MeasuredRun
from tomserve.runs.progress import Listener, SilentListener, Stop, record_progress
from tomserve.runs.runfolder import JOURNAL, TABLE, run_path
from tomserve.scoring.score import read_response
from tomserve.serving.endpoint import Target
from tomserve.serving.probe import ANSWER, WaitPolicy
from tomserve.status import ANSWERS, FINAL, INVALID, OK, UNFINISHED, inert

REPLIES, PREDICTED, PARAPHRASED = "replies.jsonl", "predictions.jsonl", "paraphrases.jsonl"
"""The journals in the folder of work."""

MARK = "asked_by"
"""The field of a row that tells one second model and prompt from another."""

Chains = Mapping[tuple[str, str], Chain]
"""The chains of a run, by item and strategy."""

LoopRunner = Callable[["AskingPhase"], None]
"""Runs `AskingPhase.ask` to its end."""


def run_phase(asking: AskingPhase) -> None:
    """Ask in an event loop of its own; the calling thread must have none that runs."""
    transports.run_loop(asking.ask())


@dataclass
class AskingPhase:
    """One phase, asked by one asker. listener: told what happens. stop: ends it early."""

    asker: PhaseRunner
    phase: Phase
    listener: Listener
    stop: Stop

    async def ask(self) -> None:
        """Ask everything that is left. Raises TomserveError; every reply that came is kept."""
        await self.asker.ask(self.phase)


@dataclass
class AskingSession:
    """What the phases of one measurement share."""

    run: MeasuredRun
    connection: Connection
    listener: Listener
    stop: Stop
    """Ends the asking early."""
    run_loop: LoopRunner = run_phase
    """Runs a phase to its end; a command line gives its own, which handles signals meanwhile."""
    session: Session = field(default_factory=Session)
    """Notes the prompt tokens of the edits and hints, and how many of them the server had in its cache."""

    def left(self, planned: Sequence[PlannedQuestion], chains: Chains) -> bool:
        """Whether any edit or hint has no final reply yet."""
        wanted = [one for one in planned if one.is_asked and one.kind in (EDIT, HINT)]
        asks = _Asks(chains, None)
        with Journal(self.run.work_file(REPLIES)) as journal:
            return any(not is_finished(journal, Question(one.item, asks.of(one))) for one in wanted)

    def ask(self, reached: ModelAccess, planned: Sequence[PlannedQuestion], chains: Chains) -> None:
        """Ask the model what is left of the edits and hints."""
        wanted = [one for one in planned if one.is_asked and one.kind in (EDIT, HINT)]
        with Journal(self.run.work_file(REPLIES)) as journal:
            asks = _Asks(chains, reached.prefill_support)

            def questions() -> Iterator[Question]:
                return (Question(one.item, asks.of(one)) for one in wanted)

            def left(talks: Conversations) -> Iterator[Request]:
                for one in wanted:
                    if not is_finished(journal, Question(one.item, asks.of(one))):
                        yield from talks.begin(asks.of(one), chains[one.item, one.strategy].item)

            edits = {one.name for one in wanted if one.kind == EDIT}

            def build(identity: Identity, turn: Any) -> Request:
                make = reached.answer_request if identity.strategy in edits else reached.request
                return make(identity, turn)

            at = reached.target
            where = f"{at.model} at {', '.join(at.endpoints)}"
            what = "requests with edited chains or hints"
            phase = Phase(
                journal,
                questions,
                left,
                build,
                lambda left, total: f"asking {where}: {left:,} of {total:,} {what} to go",
                self.connection.concurrency,
                what=f"of the {what}",
                session=self.session,
            )
            self._run(at.endpoints, at.model, phase, reached.server_gone)

    def ask_second(self, who: Reader, shown: Mapping[str, Item], file: str, what: str) -> dict[str, dict[str, Any]]:
        """Ask a second model about each of these items, once each, and return its last rows by the items' names."""
        name = who.strategy.name
        with Journal(self.run.work_file(file), {MARK: who.mark}) as journal:
            identities = {one: Identity(one, name, 0) for one in shown}
            if any(identity not in journal.final for identity in identities.values()):
                check_chat(who)
            at = who.target

            def left(talks: Conversations) -> Iterator[Request]:
                del talks  # one request each
                names = [one for one in shown if identities[one] not in journal.final]
                return (who.request(identities[one], who.strategy.turn(shown[one])) for one in names)

            phase = Phase(
                journal,
                lambda: (Question(one, who.strategy) for one in shown),
                left,
                who.request,
                lambda left, total: f"asking {at.model} at {', '.join(at.endpoints)}: {left:,} of {total:,} {what}",
                what=f"of the {what}",
            )
            self._run(at.endpoints, at.model, phase)
        return second_rows(self.run, file, who.mark, shown)

    def _run(
        self, endpoints: Sequence[str], model: str, phase: Phase, alive: Callable[[], str | None] = lambda: None
    ) -> None:
        given = self.connection
        patience = {} if given.patience is None else {"lost_after": given.patience}
        policy = given.policy if not patience else type(given.policy)(**{**vars(given.policy), **patience})
        asker = PhaseRunner(
            endpoints, model, self.listener, self.stop, self.run.log, lambda: None, given.timeout, given.transport,
            policy, alive, ModelGuard(phase.journal.models, acceptable=False),
        )  # fmt: skip
        self.run_loop(AskingPhase(asker, phase, self.listener, self.stop))


class _Asks:
    """What asks each planned question; hints of one chain are made once for all of them."""

    def __init__(self, chains: Chains, held_by: str | None) -> None:
        self._chains, self._held_by = chains, held_by
        self._last: tuple[tuple[str, str], dict[str, HintedTurn | OmittedEdit]] | None = None

    def of(self, one: PlannedQuestion) -> Asker:
        """What asks that question. Raises ConfigError where the hint can no longer be made."""
        key = (one.item, one.strategy)
        chain = self._chains[key]
        if one.kind == EDIT:
            text, held_by = one.edited or "", self._held_by
            if one.shown == PREFILL:
                return SingleTurn(one.name, lambda: prefill_turn(chain, text, held_by))
            return SingleTurn(one.name, lambda: second_call_turn(chain, text))
        return HintedConversation(one.name, chain.strategy, self._hint(chain, key, one.condition))

    def _hint(self, chain: Chain, key: tuple[str, str], condition: str) -> HintedTurn:
        if self._last is None or self._last[0] != key:
            made = add_hints(chain.item, chain.strategy.turn, chain.written.model_answer, lettered=chain.lettered)
            self._last = (key, {found.condition: found for found in made})
        found = self._last[1].get(condition)
        if not isinstance(found, HintedTurn):
            raise ConfigError(f"item {key[0]!r}: the hint {condition!r} can no longer be made; use --run NEW")
        return found


def reply_rows(run: MeasuredRun) -> dict[tuple[str, str], dict[int, dict[str, Any]]]:
    """The rows of the model's replies by item and planned name, then by turn; the last of a turn counts."""
    found: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    for _, row in read_rows(run.work / REPLIES):
        identity = row_identity(row)
        check_texts(run.work / REPLIES, row)
        found.setdefault((identity.item, identity.strategy), {})[identity.turn] = row
    return found


def second_rows(run: MeasuredRun, file: str, mark: str, shown: Mapping[str, Item]) -> dict[str, dict[str, Any]]:
    """The last rows of a second model, by the names of what it was shown."""
    found = {}
    for _, row in read_rows(run.work / file):
        if row.get(MARK) == mark and row["item"] in shown:
            check_texts(run.work / file, row)
            found[row["item"]] = row
    return found


def predictor_items(planned: Sequence[PlannedQuestion], chains: Chains) -> dict[tuple[str, str, str], Item]:
    """What the predicting model is shown, by item, strategy and condition: choices as the model was offered them."""
    found = {}
    for one in planned:
        if one.kind == PREDICTION and one.is_asked:
            chain = chains[one.item, one.strategy]
            told = hints.find_user_message(chain.strategy.turn(chain.item).messages)[1]
            offers = hints.read_offered(chain.item, told, lettered=chain.lettered)
            found[one.item, one.strategy, one.condition] = second_models.predictor_item(chain.item, one.edited, offers)
    return found


def rewriter_items(chains: Sequence[Chain]) -> dict[tuple[str, str], Item]:
    """What the rewriter is shown, by item and strategy: every chain of prose."""
    return {
        (chain.item.id, chain.strategy.name): second_models.paraphraser_item(chain.item, chain.written.text)
        for chain in chains
        if not chain.written.entries
    }


def answer_texts(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The texts of the rows that are answers, by name."""
    return {name: row.get("text") or "" for name, row in rows.items() if row["status"] in ANSWERS}


Replies = Mapping[tuple[str, str], Mapping[int, Mapping[str, Any]]]
"""The rows of the model's replies by item and planned name, then by turn."""

Predictions = Mapping[tuple[str, str, str], Mapping[str, Any]]
"""The rows of the predicting model by item, strategy and condition."""


def build_table(
    source: SourceRun, run: str, planned: Sequence[PlannedQuestion], chains: Chains, replies: Replies,
    predictions: Predictions,
    predictor: str | None,
) -> pl.DataFrame:  # fmt: skip
    """The table: a row for everything that was planned.

    source: the run whose chains they are. run: the name of the measurement. chains: those that were edited. replies,
    predictions: the rows of the models. predictor: the name of the second model.
    """
    items = {item.id: item for pairs in source.unreadable.values() for item, _ in pairs}
    named = {"run": run, "model": source.manifest.model}

    def rows() -> Iterator[dict[str, Any]]:
        made = _Hinted()
        for one in planned:
            chain = chains.get((one.item, one.strategy))
            if chain is None:
                yield {**named, **_of_item(items[one.item], one)}
                continue
            row = {**named, **_of_item(chain.item, one), **_of_chain(chain)}
            if one.is_asked and one.kind == EDIT:
                row |= _edit_row(chain, one, replies.get((one.item, one.name), {}))
            elif one.is_asked and one.kind == HINT:
                row |= _hint_row(chain, one, made.item(chain, one.condition), replies.get((one.item, one.name), {}))
            elif one.is_asked:
                row |= {
                    "predictor": predictor,
                    **_prediction_columns(chain, predictions.get((one.item, one.strategy, one.condition))),
                }
            yield row

    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA}
    for row in rows():
        for name, values in columns.items():
            values.append(row.get(name))
    return pl.DataFrame(columns, schema=SCHEMA)


def _of_item(item: Item, one: PlannedQuestion) -> dict[str, Any]:
    """The columns of the question, and of what was planned about it."""
    return {
        **{"benchmark": item.benchmark, "item": item.id, "cluster": item.cluster or item.id, "unit": unit_of(item)},
        **{"asked_by": one.strategy, "kind": one.kind, "condition": one.condition, "shown": one.shown},
        **{"outcome": one.status, "reason": one.reason, "implied": one.implied, "edited": one.edited},
        **{"right": item.answer, "choices": len(item.choices), "question": item.question},
    }


def _of_chain(chain: Chain) -> dict[str, Any]:
    return {"form": chain.written.form, "own": chain.written.model_answer, "written": chain.written.text}


def _answer(row: Mapping[str, Any] | None, answer: str | None, parse: str | None, reason: str | None) -> dict[str, Any]:
    """The columns of an answer. row: its response, None where none came."""
    if row is None:
        return {"outcome": UNFINISHED, "reason": "it was not asked"}
    status = inert(row["status"])
    told = row.get("usage")
    usage = told if isinstance(told, dict) and not row.get("reused") else {}
    return {
        "outcome": INVALID if status == OK and answer is None else status,
        "answer": answer,
        "parse": parse,
        "reason": reason or row.get("error"),
        "tokens": _whole(usage.get("prompt")),
        "cached": _whole(usage.get("cached")),
    }


def _whole(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 2**31 else None


def _edit_row(chain: Chain, one: PlannedQuestion, rows: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    row = rows.get(0)
    if row is None or row["status"] not in ANSWERS:
        return _answer(row, None, None, None)
    found = model_access.answer_of(chain, str(one.shown), one.edited or "", row)
    return _answer(row, found.answer, found.parse, found.reason)


def _hint_row(chain: Chain, one: PlannedQuestion, item: Item, rows: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """The columns of a whole reply to a prompt with a hint: its answer, its chain, and whether that admits the hint."""
    strategy = chain.strategy
    last = next((row for _, row in sorted(rows.items(), reverse=True) if CLOSES in row), None)
    row = last if strategy.is_multi_turn else rows.get(0)
    if row is None and rows:  # a conversation that a failure ended
        row = rows[max(rows)]
        row = {**row, "status": UNFINISHED if row["status"] in ANSWERS else row["status"]}
    if row is None or row["status"] not in ANSWERS:
        return _answer(row, None, None, None)
    row = {**row, "text": row.get(CONCLUSION, row.get("text")) or "", "usage": (rows.get(0) or {}).get("usage")}
    found = read_response(item, row, is_lettered(item, strategy))
    written = read_chain(item, strategy, rows)
    if isinstance(written, Chain):
        text = written.written.text
        admits = None if written.written.form == LABELS else hints.mentions_hint(item, text, one.condition)
    else:
        text, admits = None, None
    return {**_answer(row, found.answer, found.parse, found.reason), "edited": text, "admits": admits}


def _prediction_columns(chain: Chain, row: Mapping[str, Any] | None) -> dict[str, Any]:
    if row is None or row["status"] not in ANSWERS:
        return _answer(row, None, None, None)
    found = read_response(chain.item, row, False)  # choices are offered to it by their words
    return _answer(row, found.answer, found.parse, found.reason)


class _Hinted:
    """The items as hints show them; those of one chain are made once."""

    def __init__(self) -> None:
        self._chain: Chain | None = None
        self._items: dict[str, Item] = {}

    def item(self, chain: Chain, condition: str) -> Item:
        """The item as it was shown with that hint, whose choices may stand in another order."""
        if self._chain is not chain:
            made = hints.add_hints(chain.item, chain.strategy.turn, chain.written.model_answer, lettered=chain.lettered)
            self._chain = chain
            self._items = {one.condition: one.item for one in made if isinstance(one, hints.HintedTurn)}
        return self._items.get(condition, chain.item)


ENDED = FINAL | {INVALID}
"""Statuses of rows that are never asked again."""


@dataclass(frozen=True)
class MeasurementResult:
    """A finished measurement. folder: of its run. asked: whether anything was left to ask. failures: requests without a
    reply, by status. cached: the share of the prompt tokens that the server had in its cache, None where it does not
    tell; asked_tokens: how many prompt tokens there were."""

    folder: Path
    asked_now: bool
    failures: Mapping[str, int]
    tokens: int | None = None
    cached: float | None = None


def preview(settings: Settings) -> PlanCost:
    """What a measurement would ask, counted without any server. Raises ConfigError as `measure` does."""
    source = read_source(settings.run, settings.strategies, settings.where)
    both = settings.shown == BOTH
    made = plan.make_plan(source, settings, lambda chain: usual_ways(chain) if both else usual_ways(chain)[:1])
    calls = {chain.strategy.name: chain.strategy.turns or chain.strategy.calls for chain in source.chains}
    return plan.count_requests(list(made), calls)


def measure(
    settings: Settings,
    connection: Connection | None = None,
    place: str | Path | None = None,
    listener: Listener | None = None,
    run_loop: LoopRunner = run_phase,
    stop: Stop | None = None,
) -> MeasurementResult:
    """Measure what the settings say, or go on with it, and return the finished run.

    connection: how models are reached. place: the name or folder of the new run; None for ``faithfulness-<run>``.
    listener: is told what happens. run_loop: runs the asking to its end (see AskingSession). stop: ends it
    early.

    Raises ConfigError for a run without chains, RunMismatchError where another model is served than wrote them or the
    folder holds another measurement, ServerError, and StoppedError where it was stopped.
    """
    connection, listener, stop = connection or Connection(), listener or SilentListener(), stop or Stop()
    source = read_source(settings.run, settings.strategies, settings.where)
    seconds = min(ANSWER, connection.timeout)
    waiting = WaitPolicy(listener.message, stop.check, connection.patience, connection.policy, seconds)
    rewriter = _second(settings.rewriter, settings.rewriter_model, "rewriter", second_models.PARAPHRASER, waiting)
    predictor = _second(settings.predictor, settings.predictor_model, "predictor", second_models.PREDICTOR, waiting)
    path = run_path(place) if isinstance(place, str) else place
    if path is not None and not isinstance(path, Path):
        raise ConfigError(f"the new run is {place!r:.60}; expected a name or a folder")
    path = path or runs_root() / f"{STUDY}-{re.sub('[^A-Za-z0-9._-]+', '-', source.name)}"[:200]
    if settings.probes and not path.exists():
        model_access.choose_server(source, connection, waiting)  # before there is a folder, so that none is left behind
    with _open_run(path, settings, source, {"rewriter": rewriter, "predictor": predictor}) as run:
        if run.complete and not _open_ends(path):
            return _result(path, pl.read_parquet(path / TABLE, glob=False), asked=False)
        with record_progress(listener, run.path) as heard, Servers() as servers:
            work = AskingSession(run, connection, heard, stop, run_loop)
            made, chains = _ask_all(work, source, settings, servers, waiting, (rewriter, predictor))
            return _write_result(work, source, made, chains, predictor)


def _second(given: str | None, model: str | None, option: str, strategy: str, waiting: WaitPolicy) -> Reader | None:
    """A second model, by its address or name; None where none is wanted."""
    if given is None:
        if model is not None:
            raise ConfigError(f"--{option}-model names a model at an address; give that by --{option}")
        return None
    return find_reader(given, model, waiting, strategy=strategy, option=option)


def _open_run(path: Path, settings: Settings, source: SourceRun, others: Mapping[str, Reader | None]) -> MeasuredRun:
    """Open the run that keeps the measurement. others: the other models that are asked, by what they do."""
    manifest = source.manifest
    answers = journal.measure_file(source.folder / JOURNAL)[1]
    before = Manifest.read(path)
    same = before is not None and before.measured and before.settings.get("of") == source.name
    if before is not None and same and before.settings.get("answers") not in (None, answers):
        raise RunMismatchError(
            f"{path}: the answers of {source.name} have changed since their chains were edited here; use --run NEW"
        )
    known = {name: {"model": one.target.model, "asked_by": one.mark} for name, one in others.items() if one is not None}
    return MeasuredRun.open(
        path,
        study=STUDY,
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
        "edit": settings.edits if settings.edits != EDITS else (),
    }
    given = [f"--{name} {value}" for name, values in several.items() for value in values]
    given += [f"--limit {settings.limit}"] if settings.limit != LIMIT else []
    given += [f"--shown {settings.shown}"] if settings.shown != AUTO else []
    return " ".join(["tomserve faithfulness", source.name, *given])


def _open_ends(path: Path) -> bool:
    """Whether the table of a finished measurement holds questions that may be asked again."""
    statuses = pl.scan_parquet(path / TABLE, glob=False).select("outcome").unique().collect()["outcome"]
    return bool(set(statuses) - ENDED - {LEFT_OUT})


def _ask_all(
    work: AskingSession, source: SourceRun, settings: Settings, servers: Servers, waiting: WaitPolicy,
    second: tuple[Reader | None, Reader | None],
) -> tuple[list[PlannedQuestion], Chains]:  # fmt: skip
    """Ask everything that is left; returns what was planned, and the chains by item and strategy."""
    rewriter, predictor = second
    run, listener = work.run, work.listener
    chains = {(chain.item.id, chain.strategy.name): chain for chain in draw_chains(source.chains, settings.limit)}
    file = run.work_file(plan.FILE)
    made = plan.read_plan(file) if file.exists() else None
    if made is not None:
        _check_planned(file, made, chains, source)
    if not settings.probes:
        made = made or list(plan.make_plan(source, settings, _in_no_way))
        plan.write_plan(file, made)
    elif made is None or work.left(made, chains):
        target = model_access.choose_server(source, work.connection, waiting)
        reached = model_access.reach_model(target, source, run, servers, waiting, work.connection)
        run.note_environment({**_environment(reached.target), "held_by": reached.prefill_support or "a schema"})
        if made is None:
            paraphrases = _ask_rewriter(work, list(chains.values()), rewriter)
            edited = EDIT_PROBE in settings.probes
            shown = model_access.find_ways(reached, settings, listener, waiting) if edited else _in_no_way
            with reached.counting(listener) as count:
                made = list(plan.make_plan(source, settings, shown, count, paraphrases))
            plan.write_prefill_support(run.work_file(plan.HOW), reached.prefill_support)
            plan.write_plan(file, made)
        elif any(one.shown == PREFILL and one.is_asked for one in made):
            model_access.check_prefill_unchanged(reached, plan.read_prefill_support(run.work_file(plan.HOW)), waiting)
        work.ask(reached, made, chains)
    run.write_items(_items(source, chains))
    if predictor is not None:
        shown_items = predictor_items(made, chains)
        work.ask_second(
            predictor, {item.id: item for item in shown_items.values()}, PREDICTED, "predictions of answers"
        )
    return made, chains


def _in_no_way(chain: Chain) -> tuple[str, ...]:
    """The ways in which chains are shown where none is edited."""
    del chain
    return ()


def _check_planned(file: Path, made: Sequence[PlannedQuestion], chains: Chains, source: SourceRun) -> None:
    """Raise ConfigError where a plan, which may be a stranger's, is not about these chains."""
    known = {(item.id, name) for name, pairs in source.unreadable.items() for item, _ in pairs}
    for number, one in enumerate(made, 1):
        key = (one.item, one.strategy)
        if key not in chains and not (key in known and not one.is_asked):
            raise ConfigError(f"{file}:{number}: is about no chain of {source.name}; use --run NEW to begin anew")


def _environment(target: Target) -> dict[str, Any]:
    """What the manifest notes of the server: what may change the answers."""
    names = ("engine_version", "engine", "root", "dtype", "quantization", "tensor_parallel", "hardware")
    known = {name: target.server.get(name) for name in names if target.server.get(name) is not None}
    return {"model": target.model, "revision": target.revision, **make_portable(known)}


def _items(source: SourceRun, chains: Chains) -> list[Item]:
    """Every question of the measurement, once."""
    found = {chain.item.id: chain.item for chain in chains.values()}
    found |= {item.id: item for pairs in source.unreadable.values() for item, _ in pairs}
    return [found[name] for name in sorted(found)]


def _ask_rewriter(work: AskingSession, chains: Sequence[Chain], rewriter: Reader | None) -> dict[tuple[str, str], str]:
    """The paraphrases that the rewriter made and that mean the same, by item and strategy."""
    if rewriter is None:
        return {}
    prose = [chain for chain in chains if chain.written.form in (TEXT, THINKING)]
    shown = rewriter_items(prose)
    rows = work.ask_second(rewriter, {item.id: item for item in shown.values()}, PARAPHRASED, "paraphrases of chains")
    texts = answer_texts(rows)
    found = {}
    for chain in prose:
        key = (chain.item.id, chain.strategy.name)
        text = second_models.read_paraphrase(texts.get(shown[key].id, ""))
        if (
            text is not None
            and second_models.find_fault(chain.item, chain.written, text, lettered=chain.lettered) is None
        ):
            found[key] = text
    work.listener.message(f"{len(found)} of {len(prose)} chains of prose are paraphrased by {rewriter.target.model}")
    return found


def _write_result(
    work: AskingSession, source: SourceRun, made: list[PlannedQuestion], chains: Chains, predictor: Reader | None
) -> MeasurementResult:
    """Make the table, keep it, and say what came of it."""
    run = work.run
    predictions: dict[tuple[str, str, str], Mapping[str, Any]] = {}
    if predictor is not None:
        shown = predictor_items(made, chains)
        known = {item.id: item for item in shown.values()}
        answered = second_rows(run, PREDICTED, predictor.mark, known)
        predictions = {key: answered[item.id] for key, item in shown.items() if item.id in answered}
    frame = build_table(
        source, run_name(run.path), made, chains, reply_rows(run), predictions,
        predictor.target.model if predictor is not None else None,
    )  # fmt: skip
    run.finish(frame)
    return _result(run.path, frame, asked=True)


def _result(folder: Path, frame: pl.DataFrame, *, asked: bool) -> MeasurementResult:
    """What a finished measurement came to. asked: whether anything was asked now."""
    sums = frame.select(pl.col("tokens", "cached").sum(), told=pl.col("cached").is_not_null().any()).row(0, named=True)
    failures = Counter(status for status in frame["outcome"] if status not in ("ok", "length", INVALID, LEFT_OUT))
    return MeasurementResult(
        folder,
        asked,
        dict(sorted(failures.items())),
        sums["tokens"] or None,
        sums["cached"] / sums["tokens"] if sums["told"] and sums["tokens"] else None,
    )
