"""Asks the reader (see tomserve.runs.reader) about replies, keeps what it took, and says how far it can be trusted."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tomserve import benchmarks
from tomserve._version import __version__
from tomserve.content import files
from tomserve.engine import transports
from tomserve.engine.request import Request
from tomserve.engine.retry import ModelGuard, RetryPolicy
from tomserve.errors import ConfigError
from tomserve.runs.journal import Journal, Row
from tomserve.runs.listening import Listener, Silent
from tomserve.runs.manifest import portable
from tomserve.runs.phases import Asker, Phase
from tomserve.runs.questions import Question
from tomserve.runs.reader import Asked, Reader, Survey, check_other, identity, requests
from tomserve.runs.runfolder import RunFolder, read_manifest
from tomserve.runs.scores import replies_of
from tomserve.runs.stopping import Stop
from tomserve.runs.talking import Talks
from tomserve.scoring.grades import MARK, MISSING, NONSENSE, NOTHING, GradeFiles, GraderChoices
from tomserve.serving import keys
from tomserve.serving.probe import Probe
from tomserve.stats.proportions import wilson
from tomserve.status import FINAL, listed

SAMPLE = 100
"""How many replies that the rules have read are also read by the reader, if nothing else is said."""


class Agreement(NamedTuple):
    """How often the reader takes the answer that the rules have read.

    replies: how many replies of the sample the reader has replied about. alike: in how many it takes the same answer.
    other: in how many it takes another choice. none: in how many it finds none, or replies with nonsense. low, high:
    the 95% interval of the share alike (Wilson's; replies count as independent); nan for an empty sample.
    """

    replies: int
    alike: int
    other: int
    none: int
    low: float
    high: float

    def __str__(self) -> str:
        if not self.replies:
            return "agreement with the rules: not known, as no reply that they could read was shown to it"
        return (
            f"agreement with the rules on a sample of {self.replies} replies that they could read: {self.alike} alike "
            f"({self.alike / self.replies:.1%}, 95% interval {self.low:.1%} to {self.high:.1%}), {self.other} with "
            f"another choice, {self.none} with none"
        )


@dataclass(frozen=True)
class Outcome:
    """What the reader made of the replies that the rules could not read.

    model: the reader. place: where its choices are kept. unread: how many replies there are, equal ones counted each.
    read: in how many it found a choice. none: in how many it found none. nonsense: to how many its own reply was no
    choice. failures: about how many it has not replied, by status. silent: how many say nothing after their thinking
    and were not shown to it. agreement: that with the rules; None where the reader was not asked at all.
    """

    model: str
    place: GradeFiles
    unread: int
    read: int = 0
    none: int = 0
    nonsense: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    silent: int = 0
    agreement: Agreement | None = None

    def lines(self) -> list[str]:
        """The outcome in words, one sentence a line."""
        if self.agreement is None:
            return ["reader: not asked, as the rules could read every reply that says something"]
        found = [f"found an answer in {self.read}", f"none in {self.none}"]
        found += [f"replied to {self.nonsense} with what is no choice"] if self.nonsense else []
        again = "; repeat the command to ask again" if set(self.failures) - FINAL else ""
        failed = f"({listed(self.failures)}{again})"
        found += [f"did not reply about {self.failures.total()} {failed}"] if self.failures else []
        found += [f"was not asked about {self.silent} that say nothing"] if self.silent else []
        whole = self.unread + self.silent
        told = f"reader: of {whole} replies that the rules could not read, {self.model} {', '.join(found)}"
        return [told, str(self.agreement), f"choices: {self.place.journal}"]


@dataclass
class Job:
    """The reading of some replies: `ask` asks about those that were not read yet.

    reader: who reads. survey: the replies. place: where the choices are kept. listener: told what happens. log: writes
    a line to the run's log. stop: ends the asking early. own: whether the reader may be the evaluated model.
    evaluated: names of that model beside those that the replies give. policy: how often a request is sent again.
    journal: the choices, while they are asked for. named: the names that the reader's own replies gave.
    """

    reader: Reader
    survey: Survey
    place: GradeFiles
    listener: Listener = field(default_factory=Silent)
    log: Callable[[str], None] = lambda line: None
    stop: Stop = field(default_factory=Stop)
    own: bool = False
    evaluated: tuple[Any, ...] = ()
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    journal: Journal | None = None
    named: set[str] = field(default_factory=set)

    async def ask(self) -> None:
        """Ask about every reply without a choice. Raises TomserveError; every choice that was made is kept."""
        assert self.journal is not None
        chosen, journal = self.reader.target, self.journal
        where = f"{chosen.model} at {', '.join(chosen.endpoints)}"

        def left(talks: Talks) -> Iterator[Request]:
            del talks  # a reader has no conversations
            names = [name for name in self.survey.wanted if identity(name) not in journal.final]
            return requests(self.survey, self.reader, names)

        phase = Phase(
            journal,
            lambda: (Question(name, self.reader.strategy) for name in self.survey.wanted),
            left,
            self.reader.request,
            lambda left, total: f"reader {where}: {left} of {total} replies to read",
            what="to read",
        )
        note = self.listener.message
        names = ModelGuard(
            journal.models, lambda at, before, new: note(f"warning: {at}: the reader now calls itself {new!r}")
        )
        common = (self.listener, self.stop, self.log, lambda: None, 600.0)
        try:
            await Asker(chosen.endpoints, chosen.model, *common, policy=self.policy, answering=names).ask(phase)
        finally:
            self.named |= names.known | names.named

    def check(self) -> None:
        """Raise ConfigError where the reader is the evaluated model, unless that may be."""
        if not self.own:
            check_other(self.reader, [*self.evaluated, *self.survey.models], self.named)


def _drive(job: Job) -> None:
    """Ask in an event loop of its own; the calling thread must have none that runs."""
    transports.run_loop(job.ask())


def read_replies(job: Job, drive: Callable[[Job], None] = _drive) -> Outcome:
    """Have the reader read what the rules cannot, and make its choices those that scoring uses.

    drive: runs `Job.ask` to its end; a command line gives its own, which handles signals meanwhile. Raises ConfigError
    where the reader is the evaluated model, and other TomserveErrors as an evaluation does. Until all was asked, the
    choices that were used before stay in use.
    """
    job.check()
    job.survey.look()
    job.check()
    if not job.survey.unread:
        return Outcome(job.reader.target.model, job.place, 0, silent=job.survey.silent)
    with _Journal(job.place.journal, job.reader.mark, job.survey.wanted) as journal:
        job.journal, job.named = journal, set(journal.models)
        if any(identity(name) not in journal.final for name in job.survey.wanted):
            check_chat(job.reader)
            drive(job)
        job.check()
        failed = {one.item: status for one, status in journal.failed.items()}
    return _counted(job, failed)


def read_run(
    folder: Path,
    reader: Reader,
    *,
    sample: int = SAMPLE,
    own: bool = False,
    listener: Listener | None = None,
    stop: Stop | None = None,
    drive: Callable[[Job], None] = _drive,
) -> Outcome:
    """Have the reader read what the rules cannot read of a run; its scores are made with the choices from then on.

    folder: the run's folder, which is locked meanwhile. sample: how many replies that the rules have read are read,
    too. own, listener, stop, drive: as in Job and `read_replies`. Raises as `read_replies` does, and ConfigError for a
    run that holds no replies.
    """
    with RunFolder(folder) as held:
        if (replies := replies_of(folder)) is None:
            raise ConfigError(f"{folder}: nothing was asked yet, so there is nothing to read")
        manifest = read_manifest(folder) or {}
        server = manifest.get("server")
        root = server.get("root") if isinstance(server, dict) else None
        lettered = replies.asked.lettered
        survey = Survey(replies.items, replies.responses, benchmarks.scoring_of, sample, lettered)
        job = Job(reader, survey, GradeFiles.of_run(folder), listener or Silent(), held.log, stop or Stop(), own)
        job.evaluated = (manifest.get("model"), manifest.get("preset"), root)
        return read_replies(job, drive)


def check_chat(reader: Reader) -> None:
    """Raise ServerError where a server of the reader refuses to chat, before it is asked hundreds of times."""
    for endpoint in reader.target.endpoints:
        with Probe(endpoint, keys.api_key(), 60.0) as probe:
            probe.check_chat(reader.target.model, reader.sampling.extra)


class _Journal(Journal):
    """The journal of a reader, whose rows also say whose reply was read, and what the rules have made of it."""

    def __init__(self, path: Path, mark: str, wanted: Any) -> None:
        files.check_regular(path, alone=True)
        super().__init__(path, {MARK: mark})
        self._wanted = wanted

    def append(self, row: Row) -> None:
        """Write one row, with the fields `of_item`, `of_strategy` and `rules`. Raises JournalError."""
        asked: Asked = self._wanted[row["item"]]
        super().append({**row, "of_item": asked.item, "of_strategy": asked.strategy, "rules": asked.rules})


def _counted(job: Job, failed: dict[str, str]) -> Outcome:
    """Count what was chosen, and write the record that makes the choices count. failed: the status of each content that
    the reader has not replied about."""
    record = {**_record(job.reader), "sample": None}
    _write(job.place, record)
    choices, survey = GraderChoices(job.place), job.survey
    counts: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    for name, item, row in survey.texts(survey.unread):
        found, why = choices.outcome(item, row)
        counts[why if found is None else "read"] += survey.counts[name]
        if why == MISSING:
            failures[failed.get(name, "not asked")] += survey.counts[name]
    agreement = _agreement(survey, choices)
    _write(job.place, {**record, "sample": {name: _known(value) for name, value in agreement._asdict().items()}})
    made = (counts["read"], counts[NOTHING], counts[NONSENSE])
    whole = sum(survey.counts.values())
    return Outcome(job.reader.target.model, job.place, whole, *made, failures, survey.silent, agreement)


def _known(value: float) -> float | None:
    """The number, None where it is undefined, which JSON has no number for."""
    return value if value == value else None


def _agreement(survey: Survey, choices: GraderChoices) -> Agreement:
    counts: Counter[str] = Counter()
    for name, item, row in survey.texts(survey.sample):
        found, why = choices.outcome(item, row)
        if why != MISSING:
            alike = "alike" if found == survey.sample[name].rules else "other"
            counts[alike if found is not None else "none"] += 1
    interval = wilson(counts["alike"], counts.total())
    return Agreement(counts.total(), counts["alike"], counts["other"], counts["none"], interval.low, interval.high)


def _record(reader: Reader) -> dict[str, Any]:
    """What ``reader.json`` says of the reader whose choices count."""
    return {
        "schema": 1,
        MARK: reader.mark,
        "model": reader.target.model,
        "revision": reader.target.revision,
        "prompt": reader.strategy.digest,
        "sampling": reader.sampling.to_dict(),
        "endpoints": list(reader.target.endpoints),
        "server": portable(reader.target.server),
        "tomserve": __version__,
    }


def _write(place: GradeFiles, record: dict[str, Any]) -> None:
    try:
        with files.replace_file(place.record) as file:
            file.write(orjson.dumps(record, option=orjson.OPT_INDENT_2) + b"\n")
    except OSError as error:
        raise ConfigError(f"{place.record}: cannot be written ({error.strerror}); free space or permit it") from None


def forget(place: GradeFiles) -> bool:
    """Go back to the rules alone: remove the record, keep the choices. Returns whether there was a record."""
    files.check_regular(place.record)
    with contextlib.suppress(FileNotFoundError):
        place.record.unlink()
        return True
    return False
