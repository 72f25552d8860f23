"""Asking by batch files: the requests of an evaluation are written to files, and results are read into its run.

Everything that a run of our own does is done here by the same code: the plan, the run folder, the requests and their
keys, the rows. Only the asking is somebody else's. What is still to be asked follows from the journal, so that export
and import are repeated until nothing is left: failures are asked again, and the next turns of conversations follow
from the replies that have come.

>>> exported(EvalOptions("perturbed", model="gpt-4o"), Path("asked.jsonl"))           # doctest: +SKIP
>>> imported("perturbed-gpt-4o", [Path("answered.jsonl")]).added                      # doctest: +SKIP
1088
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tomserve.content.compact_index import FirstPlaces
from tomserve.engine.records import CLOSES, Row, build_row, reuse_row
from tomserve.engine.redact import Redactor
from tomserve.engine.request import Identity, Request
from tomserve.engine.retry import FirstRefusals, ModelGuard
from tomserve.engine.transport import Reply, redact_reply
from tomserve.errors import ConfigError
from tomserve.interop.batch_choice import exports_of, part_of, wanted
from tomserve.interop.batch_files import MOST_BYTES, MOST_REQUESTS, Requests, Results, Written
from tomserve.interop.batch_lines import ENDPOINT
from tomserve.interop.batch_record import Export, Exports
from tomserve.runs import journal as runs_journal
from tomserve.runs import runfolder
from tomserve.runs.conversations import Conversations, is_finished
from tomserve.runs.evaluation import Evaluation, ServerChanges, resume_evaluation
from tomserve.runs.journal import Journal
from tomserve.runs.manifest import Session
from tomserve.runs.planning import EvalOptions, Plan, make_plan
from tomserve.runs.progress import Listener, SilentListener, Stop
from tomserve.serving import keys
from tomserve.serving.endpoint import Target
from tomserve.status import ANSWERS, SPOKEN

TELL_EVERY = 100_000
"""After so many requests it is said how many there were."""

UNKNOWN: dict[str, Any] = {"engine_version": None, "root": None, "max_model_len": None}
"""What a batch file tells of the server that answered: nothing."""

NAMED = 3
"""So many ids of results that belong to no request are named."""


@dataclass(frozen=True)
class Exported:
    """What was written. folder: of the run. files: in their order. requests: how many requests they hold, of which
    equal ones are one. questions: how many questions, with their strategies and samples, wait for them; total: of how
    many. turns: whether further turns may follow from the replies."""

    folder: Path
    files: tuple[Written, ...]
    requests: int
    questions: int
    total: int
    turns: bool


@dataclass
class Imported:
    """What was read. folder: of the run. results: how many results the files held. added: how many rows they made, by
    status. known: results whose requests had a final row before. unknown: results of requests that the run does not
    have; strange: the first of their ids. cut_off: files that end within a line. left: how many requests are left that
    can be asked now."""

    folder: Path
    results: int = 0
    added: Counter[str] = field(default_factory=Counter)
    known: int = 0
    unknown: int = 0
    strange: list[str] = field(default_factory=list)
    cut_off: list[Path] = field(default_factory=list)
    left: int = 0

    @property
    def failures(self) -> dict[str, int]:
        """How many of the new rows are no answer, by status."""
        return {status: count for status, count in sorted(self.added.items()) if status not in ANSWERS}


def exported(
    options: EvalOptions,
    out: Path,
    *,
    per_file: int = MOST_REQUESTS,
    most_bytes: int = MOST_BYTES,
    listener: Listener | None = None,
) -> Exported:
    """Write every request of an evaluation that can be asked now and has no final reply yet in the run.

    options: what to ask of which model; where they name only a run that was exported before, what was exported last;
    where they name only a part of an evaluation that was divided, what that part asks.
    out: the first file, see `Requests`. per_file, most_bytes: how large a file may be. listener: told what happens.
    The run's folder is made at once, and reused replies of equal requests are written to it. Raises TomserveError, and
    OSError where a file cannot be written.
    """
    listener = listener or SilentListener()
    options, chosen = wanted(options)
    written = Requests(out, per_file, most_bytes)
    with _opened(options, chosen, listener) as evaluation:
        folder = evaluation.folder.path
        evaluation.save()
        if part_of(folder) is None:  # what a part asks is known from the record of the parts
            Exports.read(folder).with_one(Export.of(options, evaluation.plan.benchmark.name, chosen)).write(folder)
        questions, last = 0, None
        with written:
            for request in _asked(evaluation, lambda request: None):
                questions += request.identity.question != last
                last = request.identity.question
                if written.add(request) and len(written) % TELL_EVERY == 0:
                    listener.message(f"{len(written):,} requests written so far")
        made = evaluation.plan.questions
        total = len(made.items) * len(made.strategies) * made.repeats
        evaluation.folder.log(
            f"{len(written)} requests written to {len(written.written)} batch files, {out.name} first"
        )
        several = any(strategy.several for strategy in made.strategies)
        return Exported(folder, tuple(written.written), len(written), questions, total, several and questions > 0)


def imported(
    run: str,
    paths: Sequence[Path],
    *,
    benchmark: str | None = None,
    strategies: Sequence[str] = (),
    accept_change: bool = False,
    listener: Listener | None = None,
) -> Imported:
    """Read the results of batches into the run that their requests were exported from.

    run: its name or folder. paths: output and error files, of any number of batches in any order, also again.
    benchmark, strategies: the user's own file and folders, which the record of the export does not hold.
    accept_change: whether to go on where replies name another model than those before. Rows are made and appended as
    those of live replies. Raises TomserveError; what was read until then is kept, and the command can be repeated.
    """
    listener = listener or SilentListener()
    folder = runfolder.find_run(run)
    exports = exports_of(folder, benchmark, strategies)
    if not exports:
        raise ConfigError(
            f"{folder}: nothing was exported from this run; `tomserve export batch --run {run}` does that"
        )
    done = Imported(folder)
    open_keys = FirstPlaces()
    with Results(paths) as results:
        done.results, done.cut_off = len(results), results.cut_off
        for place, (options, chosen) in enumerate(exports):
            with _opened(options, chosen, listener) as evaluation:
                _read(evaluation, results, done, open_keys, accept_change)
                if place == len(exports) - 1:
                    _count_others(evaluation.journal, results, done)
    done.left = len(open_keys)
    return done


@contextlib.contextmanager
def _opened(options: EvalOptions, chosen: Target, listener: Listener) -> Iterator[Evaluation]:
    """The evaluation of these options, with its folder locked; nothing is asked of any server. Leaving it writes the
    manifest."""
    made: Plan = make_plan(options, chosen=chosen)
    path = runfolder.answers_folder(options.run or runfolder.default_name(made.called, made.name))
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(runfolder.RunFolder(path))
        runs_journal.restore_journal(folder.path)
        journal = stack.enter_context(Journal(folder.path / runs_journal.JOURNAL))
        evaluation = resume_evaluation(made, folder, journal, listener, Stop(), time.monotonic())
        try:
            yield evaluation
        finally:
            journal.sync()
        evaluation.save()


def _asked(
    evaluation: Evaluation, reply: Callable[[Request], Row | None], write: Callable[[Row], None] | None = None
) -> Iterator[Request]:
    """The requests that can be asked now and have no row, one after the other.

    reply: the row of a request that has none in the journal yet, None where there is none. write: keeps a row.
    Conversations are begun anew, and given the replies that the journal holds, as a run that is resumed does.
    """
    journal, questions = evaluation.journal, evaluation.plan.questions
    write = write or journal.append
    talks = Conversations(evaluation.request)
    last: Identity | None = None
    for first in questions.requests(talks, lambda question: not is_finished(journal, question)):
        if last is not None and first.identity.question != last.question:
            talks.leave(last)
        last = first.identity
        line = [first]
        while line:
            request = line.pop(0)
            known = request.identity in journal.final
            if (found := journal.find(request.key)) is not None:
                row: Row | None = reuse_row(found, request.identity)
            elif known:
                raise _another(request.identity)
            else:
                row = reply(request)
            if row is None:
                yield request
                continue
            line += talks.follow(row)
            if not known or CLOSES in row:
                write(row)


def _another(identity: Identity) -> ConfigError:
    item, strategy, turn, _ = identity
    return ConfigError(
        f"strategy {strategy!r}, item {item!r}, turn {turn} (counted from 0): the program asks something else than "
        "when this turn was answered; make it depend on the item and the replies alone, or use --run NEW"
    )


def _read(
    evaluation: Evaluation, results: Results, done: Imported, open_keys: FirstPlaces, accept_change: bool
) -> None:
    """Make rows of the results that belong to one export. open_keys: takes the keys of requests that stay open."""
    options, journal = evaluation.plan.options, evaluation.journal
    evaluation.target = replace(evaluation.target, endpoints=[ENDPOINT])
    told = [{"name": Path(one).name, "sha256": digest} for one, digest in results.digests.items()]
    session = evaluation.session = Session.begun(
        evaluation.target, {**UNKNOWN, "batch_files": told}, asked=True, limit=options.limit, where=options.where
    )
    changes = ServerChanges(session, accept_change, (evaluation.folder.log, evaluation.listener.message))
    reader = _Reader(evaluation, results, changes.answering(journal.models), open_keys)
    try:
        for request in _asked(evaluation, reader.row, reader.write):
            open_keys.add(request.key, 0)
        reader.finish()
    finally:
        session.note_answers(sum(reader.added[status] for status in SPOKEN), sorted(reader.answering.named))
        done.added += reader.added
        evaluation.folder.log(f"{reader.added.total()} rows added from batch files, by status {dict(reader.added)}")
    model = evaluation.target.model
    for name in sorted(one for one in reader.answering.named if not one.startswith(model)):
        evaluation.listener.message(f"warning: replies name the model {name!r}, and {model!r} was asked")


@dataclass
class _Reader:
    """Makes rows of results and writes them. open_keys: takes the keys of requests that failed. added: how many rows
    were written, by status."""

    evaluation: Evaluation
    results: Results
    answering: ModelGuard
    open_keys: FirstPlaces
    added: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._mask = Redactor(keys.api_key())
        self._refusals = FirstRefusals(decided=bool(len(self.evaluation.journal.final)))

    def row(self, request: Request) -> Row | None:
        """The row of the result of a request; None where there is none, or one that the journal has already."""
        reply: Reply | None = self.results.reply(request.key)
        if reply is None:
            return None
        redact_reply(reply, self._mask)
        if not reply.final:
            self.open_keys.add(request.key, 0)
            if self.evaluation.journal.failed.get(request.identity) == reply.status:
                return None
        self.answering.note_reply(reply, ENDPOINT)
        return build_row(request, reply, ENDPOINT, 1)

    def write(self, row: Row) -> None:
        """Write a row, unless it may be the beginning of refusals of all requests."""
        self._append(self._refusals.take(row))

    def finish(self) -> None:
        """Write what was held back. Raises ServerError where all requests were refused for the same reason."""
        self._append(self._refusals.finish())

    def _append(self, rows: Sequence[Row]) -> None:
        for row in rows:
            if not self.added:  # written before the first row, as the command may be killed
                self.evaluation.manifest.add_session(self.evaluation.session, UNKNOWN)
                self.evaluation.save()
            self.evaluation.journal.append(row)
            self.added[row["status"]] += 1


def _count_others(journal: Journal, results: Results, done: Imported) -> None:
    """Count the results that made no row: those of requests that had their final row, and those of no request."""
    for name in results.unused():
        if journal.find(name) is not None:
            done.known += 1
            continue
        done.unknown += 1
        if len(done.strange) < NAMED:
            done.strange.append(name)
