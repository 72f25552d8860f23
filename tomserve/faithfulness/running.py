"""A whole measurement: the run's chains, their edits, the asking, and the run folder that keeps it.

    result = measure(Settings(run=Path("runs/mine")), Connection())

Interrupted at any moment, the same call goes on with the question it was at.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tomserve.content import digest
from tomserve.content.paths import run_name, runs_root
from tomserve.errors import ConfigError, RunMismatchError
from tomserve.faithfulness import asking, hints, making, paraphrasing, planned, predicting, reaching, rows, showing
from tomserve.faithfulness.asking import Chains, Drive, Work, driven
from tomserve.faithfulness.making import Foreseen
from tomserve.faithfulness.planned import Planned
from tomserve.faithfulness.settings import AUTO, BOTH, EDIT_PROBE, LIMIT, PROBES, Connection, Settings
from tomserve.faithfulness.showing import ways
from tomserve.faithfulness.source import Chain, Source, drawn, read
from tomserve.faithfulness.table import EDITS, LEFT_OUT, PREFILL, STUDY, TEXT, THINKING
from tomserve.items import Item
from tomserve.runs import journal
from tomserve.runs.evaluation import Servers
from tomserve.runs.grader import Reader, find_reader
from tomserve.runs.manifest import Manifest, make_portable
from tomserve.runs.measurement import MeasuredRun
from tomserve.runs.progress import Listener, SilentListener, Stop, record_progress
from tomserve.runs.runfolder import JOURNAL, TABLE, run_path
from tomserve.serving.endpoint import Target
from tomserve.serving.probe import ANSWER, WaitPolicy
from tomserve.status import FINAL, INVALID

ENDED = FINAL | {INVALID}
"""Statuses of rows that are never asked again."""


@dataclass(frozen=True)
class Measured:
    """A finished measurement. folder: of its run. asked: whether anything was left to ask. failures: requests without a
    reply, by status. cached: the share of the prompt tokens that the server had in its cache, None where it does not
    tell; asked_tokens: how many prompt tokens there were."""

    folder: Path
    asked: bool
    failures: Mapping[str, int]
    tokens: int | None = None
    cached: float | None = None


def foresee(settings: Settings) -> Foreseen:
    """What a measurement would ask, counted without any server. Raises ConfigError as `measure` does."""
    source = read(settings.run, settings.strategies, settings.where)
    both = settings.shown == BOTH
    made = making.plan(source, settings, lambda chain: ways(chain) if both else ways(chain)[:1])
    calls = {chain.strategy.name: chain.strategy.turns or chain.strategy.calls for chain in source.chains}
    return making.foreseen(list(made), calls)


def measure(
    settings: Settings,
    connection: Connection | None = None,
    place: str | Path | None = None,
    listener: Listener | None = None,
    drive: Drive = driven,
    stop: Stop | None = None,
) -> Measured:
    """Measure what the settings say, or go on with it, and return the finished run.

    connection: how models are reached. place: the name or folder of the new run; None for ``faithfulness-<run>``.
    listener: is told what happens. drive: runs the asking to its end (see tomserve.faithfulness.asking). stop: ends it
    early.

    Raises ConfigError for a run without chains, RunMismatchError where another model is served than wrote them or the
    folder holds another measurement, ServerError, and StoppedError where it was stopped.
    """
    connection, listener, stop = connection or Connection(), listener or SilentListener(), stop or Stop()
    source = read(settings.run, settings.strategies, settings.where)
    seconds = min(ANSWER, connection.timeout)
    waiting = WaitPolicy(listener.message, stop.check, connection.patience, connection.policy, seconds)
    rewriter = _second(settings.rewriter, settings.rewriter_model, "rewriter", paraphrasing.PARAPHRASER, waiting)
    predictor = _second(settings.predictor, settings.predictor_model, "predictor", predicting.PREDICTOR, waiting)
    path = run_path(place) if isinstance(place, str) else place
    if path is not None and not isinstance(path, Path):
        raise ConfigError(f"the new run is {place!r:.60}; expected a name or a folder")
    path = path or runs_root() / f"{STUDY}-{re.sub('[^A-Za-z0-9._-]+', '-', source.name)}"[:200]
    if settings.probes and not path.exists():
        reaching.choose(source, connection, waiting)  # before there is a folder, so that none is left behind
    with _opened(path, settings, source, {"rewriter": rewriter, "predictor": predictor}) as run:
        if run.complete and not _open_ends(path):
            return _result(path, pl.read_parquet(path / TABLE, glob=False), asked=False)
        with record_progress(listener, run.path) as heard, Servers() as servers:
            work = Work(run, connection, heard, stop, drive)
            made, chains = _asked(work, source, settings, servers, waiting, (rewriter, predictor))
            return _finished(work, source, made, chains, predictor)


def _second(given: str | None, model: str | None, option: str, strategy: str, waiting: WaitPolicy) -> Reader | None:
    """A second model, by its address or name; None where none is wanted."""
    if given is None:
        if model is not None:
            raise ConfigError(f"--{option}-model names a model at an address; give that by --{option}")
        return None
    return find_reader(given, model, waiting, strategy=strategy, option=option)


def _opened(path: Path, settings: Settings, source: Source, others: Mapping[str, Reader | None]) -> MeasuredRun:
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
            "prompts": digest(hints.texts_digest().encode(), showing.text_digest().encode()),
        },
        command=_command(settings, source),
    )


def _command(settings: Settings, source: Source) -> str:
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


def _asked(
    work: Work, source: Source, settings: Settings, servers: Servers, waiting: WaitPolicy,
    second: tuple[Reader | None, Reader | None],
) -> tuple[list[Planned], Chains]:  # fmt: skip
    """Ask everything that is left; returns what was planned, and the chains by item and strategy."""
    rewriter, predictor = second
    run, listener = work.run, work.listener
    chains = {(chain.item.id, chain.strategy.name): chain for chain in drawn(source.chains, settings.limit)}
    file = run.work_file(planned.FILE)
    made = planned.read(file) if file.exists() else None
    if made is not None:
        _check_planned(file, made, chains, source)
    if not settings.probes:
        made = made or list(making.plan(source, settings, _in_no_way))
        planned.write(file, made)
    elif made is None or work.left(made, chains):
        target = reaching.choose(source, work.connection, waiting)
        reached = reaching.reach(target, source, run, servers, waiting, work.connection)
        run.measured_on({**_environment(reached.target), "held_by": reached.held_by or "a schema"})
        if made is None:
            paraphrases = _paraphrased(work, list(chains.values()), rewriter)
            edited = EDIT_PROBE in settings.probes
            shown = reaching.ways_of(reached, settings, listener, waiting) if edited else _in_no_way
            with reached.counting(listener) as count:
                made = list(making.plan(source, settings, shown, count, paraphrases))
            planned.write_how(run.work_file(planned.HOW), reached.held_by)
            planned.write(file, made)
        elif any(one.shown == PREFILL and one.asked for one in made):
            reaching.check_as_begun(reached, planned.read_how(run.work_file(planned.HOW)), waiting)
        work.ask(reached, made, chains)
    run.write_items(_items(source, chains))
    if predictor is not None:
        shown_items = asking.shown_to_predictor(made, chains)
        work.ask_second(
            predictor, {item.id: item for item in shown_items.values()}, asking.PREDICTED, "predictions of answers"
        )
    return made, chains


def _in_no_way(chain: Chain) -> tuple[str, ...]:
    """The ways in which chains are shown where none is edited."""
    del chain
    return ()


def _check_planned(file: Path, made: Sequence[Planned], chains: Chains, source: Source) -> None:
    """Raise ConfigError where a plan, which may be a stranger's, is not about these chains."""
    known = {(item.id, name) for name, pairs in source.unreadable.items() for item, _ in pairs}
    for number, one in enumerate(made, 1):
        key = (one.item, one.strategy)
        if key not in chains and not (key in known and not one.asked):
            raise ConfigError(f"{file}:{number}: is about no chain of {source.name}; use --run NEW to begin anew")


def _environment(target: Target) -> dict[str, Any]:
    """What the manifest notes of the server: what may change the answers."""
    names = ("engine_version", "engine", "root", "dtype", "quantization", "tensor_parallel", "hardware")
    known = {name: target.server.get(name) for name in names if target.server.get(name) is not None}
    return {"model": target.model, "revision": target.revision, **make_portable(known)}


def _items(source: Source, chains: Chains) -> list[Item]:
    """Every question of the measurement, once."""
    found = {chain.item.id: chain.item for chain in chains.values()}
    found |= {item.id: item for pairs in source.unreadable.values() for item, _ in pairs}
    return [found[name] for name in sorted(found)]


def _paraphrased(work: Work, chains: Sequence[Chain], rewriter: Reader | None) -> dict[tuple[str, str], str]:
    """The paraphrases that the rewriter made and that mean the same, by item and strategy."""
    if rewriter is None:
        return {}
    prose = [chain for chain in chains if chain.written.form in (TEXT, THINKING)]
    shown = asking.shown_to_rewriter(prose)
    rows = work.ask_second(
        rewriter, {item.id: item for item in shown.values()}, asking.PARAPHRASED, "paraphrases of chains"
    )
    texts = asking.texts(rows)
    found = {}
    for chain in prose:
        key = (chain.item.id, chain.strategy.name)
        text = paraphrasing.read(texts.get(shown[key].id, ""))
        if text is not None and paraphrasing.fault(chain.item, chain.written, text, lettered=chain.lettered) is None:
            found[key] = text
    work.listener.message(f"{len(found)} of {len(prose)} chains of prose are paraphrased by {rewriter.target.model}")
    return found


def _finished(work: Work, source: Source, made: list[Planned], chains: Chains, predictor: Reader | None) -> Measured:
    """Make the table, keep it, and say what came of it."""
    run = work.run
    predictions: dict[tuple[str, str, str], Mapping[str, Any]] = {}
    if predictor is not None:
        shown = asking.shown_to_predictor(made, chains)
        known = {item.id: item for item in shown.values()}
        answered = asking.second_rows(run, asking.PREDICTED, predictor.mark, known)
        predictions = {key: answered[item.id] for key, item in shown.items() if item.id in answered}
    frame = rows.table(
        source, run_name(run.path), made, chains, asking.rows_of(run), predictions,
        predictor.target.model if predictor is not None else None,
    )  # fmt: skip
    run.finish(frame)
    return _result(run.path, frame, asked=True)


def _result(folder: Path, frame: pl.DataFrame, *, asked: bool) -> Measured:
    """What a finished measurement came to. asked: whether anything was asked now."""
    sums = frame.select(pl.col("tokens", "cached").sum(), told=pl.col("cached").is_not_null().any()).row(0, named=True)
    failures = Counter(status for status in frame["outcome"] if status not in ("ok", "length", INVALID, LEFT_OUT))
    return Measured(
        folder,
        asked,
        dict(sorted(failures.items())),
        sums["tokens"] or None,
        sums["cached"] / sums["tokens"] if sums["told"] and sums["tokens"] else None,
    )
