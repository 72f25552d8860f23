"""Imports the replies that another tool collected into run folders, so that all commands for runs work on them.

Every task of every model becomes a run. Its questions are items of a benchmark of ours where the texts say so
(tomserve.interop.fingerprints); then our rules read the replies, and the other tool's grade stands beside. Other
questions are taken as they are, and the grade is the score. The run is marked as foreign: nothing can be asked in it.
A folder is written under its lock, the manifest last: an interrupted import is repeated, and the same files change
nothing.

>>> summary = import_replies([InspectLog(Path("log.eval"))], ImportOptions())                      # doctest: +SKIP
>>> summary.runs[0].folder, summary.runs[0].replies                                                # doctest: +SKIP
(PosixPath('runs/gsm8k-openai-gpt-4o'), 1319)
"""

from __future__ import annotations

import contextlib
import math
import re
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import orjson

from tomserve import benchmarks
from tomserve.content import digest, files
from tomserve.content.compact_index import FirstPlaces
from tomserve.content.files import digest_file
from tomserve.content.text import count_noun
from tomserve.errors import ConfigError, MachineError
from tomserve.interop.fingerprints import BenchmarkFinder, QuestionOrigin
from tomserve.interop.samples import (
    MOST_REPEATS,
    RIGHT,
    Facts,
    Grade,
    LeftOut,
    Origin,
    ReplyBuffer,
    Sample,
    Source,
    SourceAbout,
    choice_labels,
    choice_order,
    decide_grade,
    differing_text_error,
    item_id,
    make_factors,
    make_item,
    one_line,
    redact_text,
    resolve_letter,
    text_digest,
)
from tomserve.items import Item
from tomserve.items.files import write_chunks
from tomserve.prompting.strategy import Strategy
from tomserve.prompting.strategy import list_strategies as strategies
from tomserve.runs import runfolder
from tomserve.runs.item_store import ItemStore
from tomserve.runs.journal import JOURNAL, journal_path
from tomserve.runs.manifest import LONGEST_NAME, ForeignFile, ForeignRecord, Manifest
from tomserve.runs.progress import Listener, SilentListener
from tomserve.scoring.grades import Agreement
from tomserve.scoring.score import read_response
from tomserve.status import ANSWERS, LENGTH, MALFORMED, OK, REFUSAL, TIMEOUT, known
from tomserve.status import LONGEST as LONGEST_STATUS

MOST = 1000
"""So many tasks are named in a manifest at most."""

LONGEST = 200
"""Most characters of a text in which a tool says something of itself."""

ITEMS = "items.jsonl"

_LEFT = frozenset({ITEMS, JOURNAL, ".lock", "log.txt"})
"""What an interrupted import may have left in a folder."""


@dataclass
class StrategyArm:
    """One way of asking. repeats: how many replies to a question it has at most. ours: whether every reply is to a
    question that tomserve exported, asked by its prompts."""

    repeats: int = 1
    ours: bool = True

    def see(self, sample: Sample) -> None:
        """Note a reply."""
        self.repeats = max(self.repeats, sample.repeat + 1)
        self.ours = self.ours and sample.item is not None


def make_manifest(
    group: Group, run: ImportedRun, items: ItemStore, arms: Mapping[str, StrategyArm], origin: QuestionOrigin
) -> Manifest:
    """The manifest of a run."""
    whole = items if origin.known is None else origin.known.items
    repeats = max((arm.repeats for arm in arms.values()), default=1)
    fixed: dict[str, Any] = {
        "benchmark": run.benchmark,
        **({} if origin.path is None else {"benchmark_path": str(origin.path)}),
        "benchmark_digest": whole.digest(),
        "benchmark_items": len(whole),
        "model": group.model,
        "revision": None,
        "sampling": {"repeats": repeats} if repeats > 1 else {},
    }
    fields = Manifest.new(run.folder, (), **fixed).to_dict()
    about = group.about
    lost = {f"is no question of {run.benchmark}": run.lost, "shares the grade of another reply": run.others}
    record = ForeignRecord(
        tool=about.tool,
        version=_clip(about.version),
        tasks=list(group.tasks)[:MOST],
        files=[ForeignFile(name=one.name, bytes=one.bytes, digest=one.digest) for one in dict.fromkeys(group.origins)],
        created=_clip(about.created),
        samples=run.replies,
        left_out={reason[:LONGEST]: count for reason, count in {**group.left_out, **lost}.items() if count},
        matched=run.items if run.matched else 0,
        counts=run.counts,
        grades=list(group.grades),
        other_grades=list(group.other_grades),
        settings=dict(about.settings),
    )
    fields |= {
        "strategies": {name: _strategy_record(name, arms[name], matched=run.matched) for name in sorted(arms)},
        "foreign": record.model_dump(),
        "limit": run.items if run.items < len(whole) else None,
        "complete": True,
    }
    return Manifest.model_validate(fields)


def _clip(text: str | None) -> str | None:
    return None if text is None else files.one_line(text[:LONGEST])


def _strategy_record(name: str, arm: StrategyArm, *, matched: bool) -> dict[str, Any]:
    """What the manifest keeps of a way of asking. Where it is one of ours, by which another tool asked questions of
    ours, a chain of beliefs was asked for as that strategy does. Whether letters were shown is kept with each reply."""
    chain = matched and arm.ours and name in strategies() and Strategy.load(name).chain
    return {"digest": None, "max_tokens": None, "chain": chain}


def write_run(folder: Path, items: ItemStore, rows: Path, manifest: Manifest) -> bool:
    """Write a run into its folder. Returns whether it was new; a folder that holds just this run stays as it is.

    Raises ConfigError for a folder that holds anything else, JournalError and MachineError where it cannot be written.
    """
    if is_same_run(folder, items, rows, manifest):
        return False
    with runfolder.RunFolder(folder) as run:
        if is_same_run(folder, items, rows, manifest):  # another process was quicker
            return False
        with rows.open("rb") as file:
            write_chunks(folder / JOURNAL, iter(lambda: file.read(1 << 20), b""))
        write_chunks(folder / ITEMS, (line + b"\n" for line in items.lines))
        run.write_manifest(manifest)
        foreign = manifest.foreign
        assert foreign is not None
        files_read = count_noun(len(foreign.files), "file")
        run.log(f"{count_noun(foreign.samples, 'reply', 'replies')} brought from {files_read} of {foreign.tool}")
    return True


def is_same_run(folder: Path, items: ItemStore, rows: Path, manifest: Manifest) -> bool:
    """Whether a folder holds just this run. Raises ConfigError where it holds another one, or anything else but what an
    interrupted import has left."""
    there = Manifest.read(folder) if folder.is_dir() else None
    if there is None:
        if folder.is_dir():
            _check_left(folder)
        return False
    way_out = "bring these files into a new run by --run NEW"
    if there.foreign is None:
        raise ConfigError(f"{folder}: holds another run; {way_out}")
    journal, wanted = journal_path(folder), manifest.foreign
    assert wanted is not None
    same = (
        [one.digest for one in there.foreign.files] == [one.digest for one in wanted.files]
        and (there.foreign.counts, there.benchmark) == (wanted.counts, manifest.benchmark)
        and journal.exists()
        and digest_file(journal) == digest_file(rows)
        and _holds_just(folder / ITEMS, items)
    )
    if not same:
        raise ConfigError(f"{folder}: holds an import of other files, or by other options; {way_out}")
    return True


def _holds_just(path: Path, items: ItemStore) -> bool:
    """Whether a file holds these items in their order, and nothing else."""
    if not path.exists() or path.stat().st_size != items.size:
        return False
    with files.open_for_reading(path) as file:
        return all(line == own + b"\n" for line, own in zip(file, items.lines, strict=False))


def _check_left(folder: Path) -> None:
    """Raise ConfigError unless all in a folder without a manifest is what an interrupted import has left: nothing else
    writes a manifest last, and every row of an import says what was asked."""
    inside = sorted(path.name for path in folder.iterdir() if not path.name.startswith(".tomserve-"))
    strange = [name for name in inside if name not in _LEFT]
    if not strange and JOURNAL in inside:
        with files.open_for_reading(folder / JOURNAL) as file:
            strange = [] if b'"asked":' in file.readline(1 << 26) else [JOURNAL]
    elif not strange and ITEMS in inside:  # an import writes its rows before
        strange = [ITEMS]
    if strange:
        raise ConfigError(
            f"{folder}: is no run, but holds {strange[0]!r:.80}; bring the files into a new run by --run NEW, or move "
            "it away"
        )


STRATEGY = "imported"
"""The way of asking where neither the file nor the user names one."""


@dataclass
class ImportedRun:
    """A run that an import makes, and what was counted while its rows were made."""

    folder: Path
    replies: int = 0
    items: int = 0
    benchmark: str = ""  # what its questions are of
    matched: bool = False  # whether that is a benchmark of ours
    nearly: str = ""  # in words, why it is none although most questions are of one
    lost: int = 0  # replies to other questions than those of the benchmark
    lost_first: str = ""  # where the first of them stands
    counts: Literal["tomserve", "tool"] = "tool"  # whose reading counts
    grades: tuple[str, ...] = ()  # what the grades are called that were taken
    other_grades: tuple[str, ...] = ()  # and those that were not
    ungraded: int = 0  # replies whose grade should count and is missing
    threshold: float | None = None  # from which number on a grade counts as right; None for 1
    between: int = 0  # grades that are a number other than 0 and 1
    highest: float = RIGHT  # the highest number
    others: int = 0  # further replies that share the grade of one that is kept
    cut: int = 0  # replies that were cut off, and that the tool counts as right
    failed: int = 0  # replies that failed, and that the tool counts as right
    differing: int = 0  # targets that differ from our answers
    differs_first: str | None = None  # the first of these questions
    factors: tuple[str, ...] = ()  # what questions can be split by
    passed_over: tuple[str, ...] = ()  # facts that are no factors because they have too many values
    repeated: int = 0  # replies that a later one to the same question replaced
    empty: int = 0  # replies without a text
    agreement: Agreement = field(default_factory=Agreement)  # of our reading with the tool's grade, where ours counts
    fresh: bool = True  # whether it was made now, rather than found as it is


@dataclass
class PreparedRun:
    """A run that can be written. made: what it is. items: its questions. rows: the file that holds its rows. manifest:
    where it comes from."""

    run: ImportedRun
    items: ItemStore
    rows: Path
    manifest: Manifest

    def write(self) -> None:
        """Write the run, unless its folder holds just that. Raises ConfigError where it holds anything else,
        JournalError and MachineError where it cannot be written."""
        self.run.fresh = write_run(self.run.folder, self.items, self.rows, self.manifest)


def prepare_run(folder: Path, group: Group, origin: QuestionOrigin, scratch: Path) -> PreparedRun:
    """A run that is ready to be written, in an empty or new folder or one that holds just this run.

    folder: where. group: what it is to hold. origin: whose questions were asked. scratch: a folder for temporary files.
    Raises ConfigError where the folder holds something else, where one id names different questions, and where nothing
    says whether any reply is right.
    """
    run = ImportedRun(folder, matched=origin.known is not None, nearly=origin.nearly, repeated=group.buffer.repeated)
    run.threshold, run.grades, run.other_grades = group.options.threshold, tuple(group.grades), group.other_grades
    run.benchmark = origin.known.name if origin.known is not None else _benchmark_name(group.task)
    run.counts = group.options.counts or ("tomserve" if run.matched else "tool")
    items = _choose_items(group, origin, run)
    rows = scratch / f"rows-{digest(str(folder).encode())[7:23]}.jsonl"
    writing = _Rows(group, origin, run)
    write_chunks(rows, writing.lines())
    if run.counts == "tool" and run.ungraded == run.replies:
        raise _ungraded_error(group, run, items)
    manifest = make_manifest(group, run, items, writing.arms, origin)
    is_same_run(folder, items, rows, manifest)  # what is wrong with the folder is said before any run is written
    return PreparedRun(run, items, rows, manifest)


class UngradedError(ConfigError):
    """Nothing says whether any reply of a run is right."""


def _ungraded_error(group: Group, run: ImportedRun, items: ItemStore) -> UngradedError:
    """The error for replies of which nothing says whether they are right."""
    where = ", ".join(one.name for one in list(dict.fromkeys(group.origins))[:3]) or group.task
    what = f"{where}: task {group.task!r:.80}: no reply carries a grade that says whether it is right"
    mapped = group.about.tool in ("csv", "jsonl")
    way = "name the column that says it by --map correct=COLUMN" if mapped else "have the tool grade the replies"
    if run.matched or all(item.choices for item in items):
        return UngradedError(f"{what}; {way}, or have tomserve read them by --counts tomserve")
    return UngradedError(
        f"{what}, and the questions are none that tomserve can read replies to; {way}, or name the questions' "
        "benchmark by --benchmark NAME"
    )


def _benchmark_name(task: str) -> str:
    """What the questions of a task are called as a benchmark: never like one of ours, whose rules would score them."""
    slug = "-".join("".join(c if c.isascii() and c.isalnum() else " " for c in task.lower()).split())[:80]
    slug = slug or "imported"
    return f"imported-{slug}" if slug in (*benchmarks.names(), benchmarks.ANYBODYS) else slug


def _choose_items(group: Group, origin: QuestionOrigin, run: ImportedRun) -> ItemStore:
    """The items that were asked, sorted by their ids."""
    if origin.known is not None:
        wanted, whole = set(origin.found), origin.known.items
        items = whole.part([place for place, name in enumerate(whole.ids) if name in wanted])
    else:
        items = ItemStore(_make_items(group, run))
        run.factors, run.passed_over = tuple(group.factors.values()), group.passed_over
    run.items = len(items)
    ids = list(items.ids)
    return items.part(sorted(range(len(ids)), key=ids.__getitem__))


def _make_items(group: Group, run: ImportedRun) -> Iterator[Item]:
    """An item for each question, as its first reply tells it. Raises ConfigError where another reply of the same way of
    asking tells it otherwise, and where our rules should read replies to an open question."""
    seen, asked, texts, firsts = FirstPlaces(), FirstPlaces(), bytearray(), array("I")
    for place, sample in enumerate(group.buffer):
        name = item_id(group.prefix, sample)
        if seen.add(name, place) == place:
            item = make_item(sample, run.benchmark, group.prefix, make_factors(sample, group.factors))
            if run.counts == "tomserve" and not item.choices:
                raise ConfigError(
                    f"--counts tomserve: {sample.place} has no choices that an answer could be read against; name them "
                    "by --map choices=COLUMN, or leave --counts out, so that the tool's grade counts"
                )
            yield item
        text = text_digest(sample)
        first = asked.add(f"{sample.strategy}\0{name}", len(firsts))
        if first == len(firsts):
            firsts.append(place)
            texts += text
        elif texts[first * len(text) : (first + 1) * len(text)] != text:
            raise differing_text_error(sample, group.buffer[firsts[first]])


class _Rows:
    """Makes the rows of a run, and counts in `run` what they are. arms: the ways of asking."""

    def __init__(self, group: Group, origin: QuestionOrigin, run: ImportedRun) -> None:
        self._group, self._origin, self._run = group, origin, run
        self.arms: dict[str, StrategyArm] = {}

    def lines(self) -> Iterator[bytes]:
        """The rows, in the order in which the replies came."""
        for sample, item in self._with_items():
            yield orjson.dumps(self._row(sample, item)) + b"\n"

    def _with_items(self) -> Iterator[tuple[Sample, str]]:
        """Each reply with the id of its item."""
        known, run, seen = self._origin.known, self._run, FirstPlaces()
        if known is None:
            yield from ((sample, item_id(self._group.prefix, sample)) for sample in self._group.buffer)
            return
        for sample, item in zip(self._group.buffer, self._origin.found, strict=True):
            if item is None:
                run.lost += 1
                run.lost_first = run.lost_first or sample.place or sample.id
                continue
            run.repeated += f"{sample.strategy}\0{sample.repeat}\0{item}" in seen
            seen.add(f"{sample.strategy}\0{sample.repeat}\0{item}", 0)
            shown, ours = choice_order(sample, known.choices[item]), known.answers[item]
            target = resolve_letter((sample.target or "").strip(), shown) or ""
            if len(target) > 1 and target.casefold() != ours.casefold():
                # so that nobody takes one benchmark's answers for another's
                run.differing += 1
                run.differs_first = run.differs_first or item
            yield sample, item

    def _row(self, sample: Sample, item: str) -> dict[str, Any]:
        run, tool, known = self._run, self._group.about.tool, self._origin.known
        run.replies += 1
        run.others += sample.others
        strategy = _strategy(self._group.options.strategy or sample.strategy)
        arm = self.arms.setdefault(strategy, StrategyArm())
        shown = choice_order(sample, choice_labels(sample) if known is None else known.choices[item])
        arm.see(sample)
        graded = self._row_grade(sample, shown)
        status = _status(sample, graded)
        run.cut += status == LENGTH and graded is not None and graded["counts"] and graded["correct"] is True
        run.failed += status == OK and sample.status not in (OK, REFUSAL)
        row = {
            "schema": 1,
            "item": item,
            "strategy": strategy,
            "turn": 0,
            **({"sample": sample.repeat} if sample.repeat else {}),
            "key": digest(tool.encode(), sample.task.encode(), sample.id.encode(), sample.asked.encode())[7:39],
            "status": status,
            "text": sample.text or "" if status in ANSWERS else sample.text,
            "reasoning": sample.reasoning,
            "finish_reason": sample.finish,
            "usage": dict(sample.usage) if sample.usage else None,
            "error": sample.error if status == sample.status else sample.error or sample.status[:LONGEST_STATUS],
            "timings": {} if sample.seconds is None else {"total_s": sample.seconds},
            "attempts": 1,
            "endpoint": tool,
            "served_model": self._group.model,
            "reused": False,
            "asked": sample.asked,
            "offered": list(shown),
            **({} if graded is None else {"graded": graded}),
        }
        self._compare(sample, row)
        return row

    def _compare(self, sample: Sample, row: Mapping[str, Any]) -> None:
        """Note whether our reading, where it counts, is that of the tool's grade."""
        known, graded = self._origin.known, row.get("graded")
        if graded is None or graded["counts"] or graded["correct"] is None or row["status"] not in ANSWERS:
            return
        name = row["item"]
        if known is not None:
            item = known.items[known.places[name]]
        else:
            item = make_item(sample, self._run.benchmark, self._group.prefix, {})
        answer = read_response(item, row, benchmarks.scoring_of(item.benchmark).lettered).answer
        self._run.agreement.add(name, answer, graded=graded["correct"], right=answer == item.answer)

    def _row_grade(self, sample: Sample, shown: Sequence[str | None]) -> dict[str, Any] | None:
        """The grade as a row keeps it; None where there is none that has to be there. An answer that is the letter of a
        choice is that choice. shown: the choices as they were shown. An empty reply that is not right has no answer."""
        run, grade = self._run, sample.grade
        counts = run.counts == "tool"
        if grade is not None and grade.correct is None and grade.value is not None:
            run.between += grade.value not in (0.0, RIGHT)
            run.highest = max(run.highest, grade.value)
            grade = decide_grade(grade, self._group.options.threshold)
        run.ungraded += counts and (grade is None or grade.correct is None)
        if grade is None:
            return {"by": "", "correct": None, "answer": None, "value": None, "counts": True} if counts else None
        empty = sample.text is not None and not sample.text.strip() and sample.status in ANSWERS
        empty = empty and grade.correct is not True
        run.empty += empty
        return {
            "by": one_line(grade.by, LONGEST_NAME),
            "correct": grade.correct,
            "answer": None if empty else resolve_letter(grade.answer, shown),
            "value": grade.value,
            "counts": counts,
            **({"unread": "the reply is empty"} if empty else {}),
        }


def _status(sample: Sample, graded: Mapping[str, Any] | None) -> str:
    """The status of a reply. One that the tool counts as right is an answer, even where a limit or a filter ended it or
    an error followed, so that as many are right as the tool says. Only a limit cuts a text off."""
    status = sample.status if known(sample.status) else MALFORMED
    if status in ANSWERS or graded is None or not graded["counts"] or graded["correct"] is not True:
        return status
    return LENGTH if status == TIMEOUT else OK


@lru_cache(maxsize=256)
def _strategy(name: str | None) -> str:
    """What the way of asking is called: as the manifest takes it, and never a path."""
    found = "".join(c for c in one_line(name or "", LONGEST_NAME) if c.isprintable()).replace("/", "-").strip()
    return STRATEGY if found in ("", ".", "..") else found


TELL_EVERY = 50_000
"""After so many replies it is said how many there were."""

LONGEST_TASK = 300
"""Most characters of the name of a model or task."""

MOST_GRADES = 50
"""So many names of grades are noted that replies have besides the one that counts."""

_RUNNING = frozenset(("status", "dataset", "revision", "limit"))
"""Settings that say which questions were asked, and how far the tool came."""

_LIMITS = frozenset(("message_limit", "token_limit"))
"""What of Inspect's `config` changes a reply; the rest says how Inspect runs (fail_on_error, max_samples)."""

_SENDING = frozenset(
    (
        *("max_retries", "timeout", "attempt_timeout", "max_connections", "adaptive_connections", "batch"),
        *("cache", "cache_prompt", "logprobs", "top_logprobs", "prompt_logprobs"),
    )
)
"""What of Inspect's `model_generate_config` says how requests are sent, and changes no reply."""

LONGEST_ERROR = 2000
"""Most characters that are kept of an error."""


@dataclass(frozen=True)
class ImportOptions:
    """What a user wants of an import."""

    run: str | None = None  # the name of the run; None for `<task>-<model>`
    model: str | None = None  # only replies of this model
    task: str | None = None  # only replies to this task
    strategy: str | None = None  # the name of the way of asking, where the file names none
    benchmark: str | None = None  # whose questions they are; "none" for no benchmark's, None to find out
    path: Path | None = None  # the file of that benchmark
    together: str | None = None  # take all tasks together under this name, with the factor `task`
    scorer: str | None = None  # whose grade counts, where there are several
    threshold: float | None = None  # from which value on a grade that is a number counts as right; None for 1
    counts: Literal["tomserve", "tool"] | None = None  # whose reading; None for ours where questions are matched
    factors: tuple[str, ...] = ()  # which facts become factors; empty for those that vary
    cluster: str | None = None  # the fact that says which questions belong together


@dataclass
class ImportSummary:
    """What was imported. runs: those that were made, in the order of their names. left_out: for each reason, how many
    replies were not read and where the first stands. other: replies of other models or tasks than were wanted. unread:
    of files that were found in a folder why they hold nothing that can be read, and of tasks why they make no run where
    others do."""

    runs: list[ImportedRun] = field(default_factory=list)
    left_out: LeftOut = field(default_factory=LeftOut)
    other: int = 0
    unread: list[str] = field(default_factory=list)


@dataclass
class Group:
    """The replies of one task by one model, which become a run, and what their files say of themselves.

    options: what the user wants. settings: of each of these files what it records of how the model was asked. left_out:
    how many replies were not read, by reason. tasks: as the tool names them. grades: the names of the grades that
    count; others: those of all. factors: which facts become which factors, once all replies were read.
    """

    task: str
    model: str
    options: ImportOptions
    buffer: ReplyBuffer
    about: SourceAbout
    facts: Facts
    settings: dict[int, Any] = field(default_factory=dict)
    origins: list[Origin] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    tasks: dict[str, None] = field(default_factory=dict)
    grades: dict[str, None] = field(default_factory=dict)
    others: dict[str, None] = field(default_factory=dict)
    factors: Mapping[str, str] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        """The beginning of the items' ids."""
        return "" if self.options.together else self.task

    @property
    def passed_over(self) -> tuple[str, ...]:
        """The facts that are no factors because they have too many values."""
        return tuple(name for name in self.facts.passed_over() if name != self.options.cluster)

    def see_grades(self, counts: Grade | None, there: Iterable[str]) -> None:
        """Note what the grades of a reply are called. counts: the one that counts. there: the names of all."""
        if counts is not None and len(self.grades) < MOST_GRADES:
            self.grades[_clean_name(counts.by)] = None
        for name in there:
            if len(self.others) < MOST_GRADES:
                self.others[_clean_name(name)] = None

    @property
    def other_grades(self) -> tuple[str, ...]:
        """The names of the grades that do not count."""
        return tuple(name for name in self.others if name not in self.grades)


class Groups:
    """Reads sources, and keeps the replies that are wanted by task and model.

    options: what the user wants. summary: counts what is left out. scratch: a folder for temporary files. stack: what
    closes them. listener: is told how many replies there were. known: the groups.
    """

    def __init__(
        self,
        options: ImportOptions,
        summary: ImportSummary,
        scratch: Path,
        stack: contextlib.ExitStack,
        listener: Listener,
    ) -> None:
        self._options, self._summary = options, summary
        self._scratch, self._stack, self._listener = scratch, stack, listener
        self._sources, self._count = 0, 0
        self.known: dict[tuple[str, str], Group] = {}

    def read(self, source: Source, *, lenient: bool) -> None:
        """Keep the replies of a source. lenient: whether one of which nothing can be read is passed over. Raises
        ConfigError."""
        options, touched = self._options, dict[tuple[str, str], None]()
        self._sources += 1
        try:
            about = source.about()
            samples = iter(source.samples())
            first = next(samples, None)
        except ConfigError as error:
            if not lenient:
                raise
            self._summary.unread.append(str(error))
            return
        other = self._summary.other
        for sample in chain(() if first is None else (first,), samples):
            if options.model not in (None, sample.model) or options.task not in (None, sample.task):
                self._summary.other += 1
                continue
            if not 0 <= sample.repeat < MOST_REPEATS:
                self._summary.left_out.count(f"has no number of a repeat below {MOST_REPEATS:,}", sample.place)
                continue
            key = options.together or _clean_name(sample.task) or "imported", _clean_name(sample.model) or "model"
            touched[key] = None
            self._keep(key, about, _annotate(sample, options), sample.grades)
            self._count += 1
            if self._count % TELL_EVERY == 0:
                self._listener.message(f"{self._count:,} replies read so far")
        if not touched and self._summary.other > other:  # a file about something else
            return
        for reason, (number, place) in source.left_out.items():
            self._summary.left_out.count(reason, place, number)
        for key in touched:
            self.known[key].origins += source.origins()
            self.known[key].left_out.update({reason: number for reason, (number, _) in source.left_out.items()})

    def _keep(self, key: tuple[str, str], about: SourceAbout, sample: Sample, grades: Iterable[str]) -> None:
        if (group := self.known.get(key)) is None:
            buffer = ReplyBuffer(self._scratch / f"{len(self.known)}.jsonl")
            self._stack.callback(buffer.close)
            facts = Facts(self._options.factors, ("task",) if self._options.together else ())
            group = self.known[key] = Group(*key, self._options, buffer, about, facts)
        settings = group.settings.setdefault(self._sources, _lasting(about))
        group.tasks[_clean_name(sample.task)] = None
        group.facts.see(sample.id, sample.facts)
        group.see_grades(sample.grade, grades)
        before = group.buffer.add(sample, self._sources)
        if before is not None and group.settings[before] != settings:
            raise ConfigError(
                f"{sample.place}: question {sample.id!r:.80} was answered before by the same model, asked in another "
                f"way ({_difference(group.settings[before], settings)}); bring the files one by one, each with --run "
                "NAME"
            )

    def folders(self) -> list[tuple[Group, Path]]:
        """Each group with the folder of its run, in the order of their names. Raises ConfigError where they are several
        and the user wants one, and where two would have the same folder."""
        options, keys = self._options, sorted(self.known)
        if options.run is not None and len(keys) > 1:
            listed = "; ".join(f"task {task!r:.60}, model {model!r:.60}" for task, model in keys[:6])
            raise ConfigError(
                f"--run {options.run}: the files hold {len(keys)} runs ({listed}); choose one by --task and --model, "
                "take tasks together by --as NAME, or leave --run out"
            )
        found: dict[Path, tuple[str, str]] = {}
        for key in keys:
            folder = _run_folder(options, *key)
            if folder in found:
                first, second = (f"task {task!r:.60} of model {model!r:.60}" for task, model in (found[folder], key))
                raise ConfigError(
                    f"{folder}: would be the run of {first} and of {second}; bring them one by one by --task, --model "
                    "and --run NAME"
                )
            found[folder] = key
        return [(self.known[key], folder) for folder, key in found.items()]


@lru_cache(maxsize=256)
def _clean_name(text: str) -> str:
    """The name of a model or task as a run keeps it: one line without secrets, and not endless."""
    return one_line(redact_text(text[: 10 * LONGEST_TASK]), LONGEST_TASK)


def _lasting(about: SourceAbout) -> dict[str, Any]:
    """What two files about the same questions share, where the model was asked in one way: what changes a prompt or its
    sampling, and not how the tool runs."""
    found = {name: value for name, value in about.settings.items() if name not in _RUNNING}
    if isinstance(config := found.pop("config", None), Mapping):
        found |= {name: value for name, value in config.items() if name in _LIMITS}
    if isinstance(sampling := found.pop("model_generate_config", None), Mapping):
        found |= {name: value for name, value in sampling.items() if name not in _SENDING}
    return found


def _difference(one: dict[str, Any], other: dict[str, Any]) -> str:
    """The first setting that differs, in words."""
    name = next(name for name in sorted({*one, *other}) if one.get(name) != other.get(name))
    return f"{name}: {one.get(name)!r:.60} and {other.get(name)!r:.60}"


def _annotate(sample: Sample, options: ImportOptions) -> Sample:
    """The sample with the grade that counts, its cluster and, where tasks are taken together, its task as a fact."""
    facts = {**sample.facts, **({"task": sample.task} if options.together else {})}
    identity = f"{sample.task}/{sample.id}" if options.together and not sample.ours else sample.id
    cluster = sample.cluster
    if options.cluster is not None:
        if options.cluster not in facts:
            raise ConfigError(
                f"--cluster {options.cluster!r:.80}: {sample.place or sample.id} does not tell it; it tells: "
                f"{', '.join(sorted(facts))[:500] or 'nothing'}"
            )
        cluster = None if facts[options.cluster] in (None, "") else str(facts[options.cluster])
    error = None if sample.error is None else redact_text(sample.error[:LONGEST_ERROR])
    grade = _choose_grade(sample, options)
    return replace(sample, id=identity, facts=facts, cluster=cluster, grade=grade, grades={}, error=error)


def _choose_grade(sample: Sample, options: ImportOptions) -> Grade | None:
    """The grade that counts, as the tool gives it. A metric alone is that of the first filter which has it."""
    if options.scorer is None:
        return sample.grade
    found = [name for name in sample.grades if options.scorer in (name, name.partition(",")[0])]
    if sample.grades and not found:
        raise ConfigError(
            f"--scorer {options.scorer!r:.80}: {sample.place or sample.id} has no such grade; it has: "
            f"{'; '.join(sorted(sample.grades))[:500]}"
        )
    return sample.grades[options.scorer if options.scorer in found else found[0]] if found else None


def _run_folder(options: ImportOptions, task: str, model: str) -> Path:
    if options.run is not None:
        return runfolder.run_path(options.run)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", task).strip("-") or "imported"
    return runfolder.run_path(runfolder.default_name(name[:80], model))


def import_replies(
    sources: Sequence[Source], options: ImportOptions, listener: Listener | None = None, found: Collection[Path] = ()
) -> ImportSummary:
    """Import the replies of these sources into runs.

    sources: the files, each with its reader. options: what the user wants. found: the files that nobody named, because
    they lay in a folder; what cannot be read of these is left out, where others can. Raises TomserveError: nothing was
    written then, unless the disk failed while the runs were.
    """
    listener = listener or SilentListener()
    if options.threshold is not None and not math.isfinite(options.threshold):
        raise ConfigError(f"--threshold {options.threshold}: expected a number")
    if options.run is not None:
        runfolder.run_path(options.run)  # a name that is none is said before anything is read
    benchmarks = BenchmarkFinder(options.benchmark, options.path, listener)
    summary = ImportSummary()
    try:
        with files.temporary_folder() as scratch, contextlib.ExitStack() as stack:
            groups = Groups(options, summary, scratch, stack, listener)
            for source in sources:
                groups.read(source, lenient=source.path in found and len(sources) > 1)
            if not groups.known:
                raise ConfigError(_nothing_found(sources, options, summary))
            ready = []
            for group, folder in (pairs := groups.folders()):
                try:
                    group.factors = group.facts.choose()
                    ready.append(prepare_run(folder, group, benchmarks.of(group.buffer), scratch))
                except UngradedError as error:
                    if len(pairs) == 1:
                        raise
                    summary.unread.append(str(error))
            if not ready:
                raise ConfigError(_nothing_found(sources, options, summary))
            for one in ready:  # only now is anything written
                one.write()
            summary.runs += [one.run for one in ready]
            for lost in (one.run for one in ready if one.run.lost):
                summary.left_out.count(f"is no question of {lost.benchmark}", lost.lost_first, lost.lost)
    except OSError as error:
        raise MachineError(
            f"{error.filename or 'the folder for temporary files'}: cannot be written ({error.strerror}); free space, "
            "or name another folder for temporary files by TMPDIR"
        ) from None
    return summary


def _nothing_found(sources: Sequence[Source], options: ImportOptions, summary: ImportSummary) -> str:
    """Why there is nothing to bring."""
    where = ", ".join(str(source.path) for source in sources[:3])
    if summary.other and not summary.unread:
        named = " and ".join(
            f"--{name} {text}" for name, text in (("task", options.task), ("model", options.model)) if text
        )
        return f"{where}: of {count_noun(summary.other, 'reply', 'replies')} none is what {named} names"
    if summary.unread:
        more = f" (and {len(summary.unread) - 1:,} more)" if len(summary.unread) > 1 else ""
        return summary.unread[0] + more
    return f"{where}: holds no reply that can be read" + (f" ({summary.left_out})" if summary.left_out else "")
