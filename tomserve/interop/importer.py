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

import contextlib
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import orjson

from tomserve import benchmarks
from tomserve.content import digest, files
from tomserve.content.files import digest_file
from tomserve.content.text import count_noun
from tomserve.content.validation import note_dataset
from tomserve.engine.redact import redact_text
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
    make_item,
    one_line,
    resolve_letter,
    text_digest,
)
from tomserve.items import Item, nfc
from tomserve.items.files import write_chunks
from tomserve.prompting.strategy import Strategy
from tomserve.prompting.strategy import list_strategies as strategies
from tomserve.runs import runfolder
from tomserve.runs.item_store import ItemStore
from tomserve.runs.journal import JOURNAL, journal_path
from tomserve.runs.manifest import LONGEST_NAME, ForeignFile, ForeignRecord, Manifest
from tomserve.runs.progress import Listener
from tomserve.scoring.grades import UNREAD_EMPTY, Agreement
from tomserve.scoring.score import read_response
from tomserve.status import ANSWERS, LENGTH, MALFORMED, OK, REFUSAL, TIMEOUT, known
from tomserve.status import LONGEST as LONGEST_STATUS

ITEMS = "items.jsonl"

_LEFT = frozenset({ITEMS, JOURNAL, ".lock", "log.txt"})
"""What an interrupted import may have left in a folder."""

STRATEGY = "imported"
"""The way of asking where neither the file nor the user names one."""

VARIANT = "is to a variant of another question, as its id says"
"""Why a reply is left out."""

MOST_TASKS, LONGEST = 1000, 200
"""So many tasks are named in a manifest at most, and so many characters kept of what a tool says of itself."""

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

_SERVING = frozenset(
    (
        *("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "parallelize", "device"),
        *("device_map", "gpu_memory_utilization", "swap_space", "batch_size", "max_batch_size", "num_concurrent"),
        "max_retries",
    )
)
"""What of `model_args` says on what a model is served, and changes no prompt and no sampling."""

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
class ImportedRun:
    """A run that an import makes, and what was counted while its rows were made."""

    folder: Path
    replies: int = 0
    items: int = 0
    clusters: int = 0  # in which they lie, such as stories; 0 for those of a benchmark of ours
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
class ImportSummary:
    """What was imported."""

    runs: list[ImportedRun] = field(default_factory=list)  # in the order of their names
    left_out: LeftOut = field(default_factory=LeftOut)  # replies that were not read
    other: int = 0  # replies of other models or tasks than were wanted
    unread: list[str] = field(default_factory=list)  # why files in a folder, or tasks, make no run where others do


@dataclass
class Group:
    """The replies of one task by one model, which become a run, and what their files say of themselves."""

    task: str
    model: str
    options: ImportOptions
    buffer: ReplyBuffer
    about: SourceAbout
    facts: Facts
    settings: dict[tuple[str, str | None], Any] = field(default_factory=dict)  # of each task and way of asking
    ways: dict[str, str] = field(default_factory=dict)  # strategies, and what the files call them
    origins: list[Origin] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)  # replies that were not read, by reason
    tasks: dict[str, None] = field(default_factory=dict)  # as the tool names them
    grades: dict[str, None] = field(default_factory=dict)  # the names of the grades that count
    others: dict[str, None] = field(default_factory=dict)  # the names of all grades

    @property
    def prefix(self) -> str:
        """The beginning of the items' ids."""
        return "" if self.options.together else self.task

    def add(self, sample: Sample, settings: dict[str, Any]) -> int:
        """Keep a reply, and return how many bytes that takes. settings: how the model was asked. Raises ConfigError
        where questions of the same task were asked in another way before, and where two strategies would have one
        name."""
        if (before := self.settings.setdefault((sample.task, sample.strategy), settings)) != settings:
            raise ConfigError(
                f"{sample.place}: questions of the task {sample.task!r:.80} were answered before by the same model, "
                f"asked in another way ({_difference(before, settings)}); bring the files one by one, each with --run "
                "NAME"
            )
        strategy = _strategy(self.options.strategy or sample.strategy)
        if (way := self.ways.setdefault(strategy, named := sample.strategy or strategy)) != named:
            raise ConfigError(
                f"{sample.place}: the strategies {way!r:.80} and {named!r:.80} would both be called "
                f"{strategy!r:.80}; {'leave --strategy out' if self.options.strategy else 'rename one in the file'}"
            )
        self.tasks[_clean_name(sample.task)] = None
        for name in sample.grades:
            if len(self.others) >= MOST_GRADES:
                break
            self.others[_clean_name(name)] = None
        kept = _annotate(sample, self.options, strategy)
        self.facts.see(kept.id, kept.facts)
        if kept.grade is not None and len(self.grades) < MOST_GRADES:
            self.grades[_clean_name(kept.grade.by)] = None
        return self.buffer.add(kept)


Groups = dict[tuple[str, str], Group]
"""The replies that are wanted, by task and model."""


def _read_sources(
    sources: Sequence[Source],
    options: ImportOptions,
    summary: ImportSummary,
    scratch: Path,
    stack: contextlib.ExitStack,
    listener: Listener,
    found: Collection[Path],
) -> Groups:
    """Keep the replies of the sources that are wanted, and count the others."""
    groups, count = Groups(), 0
    for source in sources:
        touched, other, taken = dict[tuple[str, str], None](), summary.other, 0
        try:
            about = source.about()
            settings = _lasting(about)
            samples = iter(source.samples())
            first = next(samples, None)
            size = source.path.stat().st_size
            most = max(files.ROOM, files.DENSEST * size)  # a line may have a prompt once, and many replies
        except ConfigError as error:
            if source.path not in found or len(sources) == 1:
                raise
            summary.unread.append(str(error))
            continue
        for sample in chain(() if first is None else (first,), samples):
            if options.model not in (None, sample.model) or options.task not in (None, sample.task):
                summary.other += 1
                continue
            if not 0 <= sample.repeat < MOST_REPEATS:
                summary.left_out.count(f"has no number of a repeat below {MOST_REPEATS:,}", sample.place)
                continue
            if sample.ours and "variant_by" in sample.facts:
                summary.left_out.count(VARIANT, sample.place)
                continue
            key = options.together or _clean_name(sample.task) or "imported", _clean_name(sample.model) or "model"
            touched[key] = None
            if key not in groups:
                buffer = ReplyBuffer(scratch / f"{len(groups)}.jsonl")
                stack.callback(buffer.close)
                facts = Facts(options.factors, ("task",) if options.together else ())
                groups[key] = Group(*key, options, buffer, about, facts)
            taken += groups[key].add(sample, settings)
            if taken > most:
                raise ConfigError(f"{source.path}: has replies of more than {most >> 20:,} MB, from {size >> 10:,} kB")
            count += 1
            if count % TELL_EVERY == 0:
                listener.message(f"{count:,} replies read so far")
        if not touched and summary.other > other:  # a file about something else
            continue
        for reason, (several, place) in source.left_out.items():
            summary.left_out.count(reason, place, several)
        for key in touched:
            groups[key].origins.append(source.origin())
            groups[key].left_out.update({reason: several for reason, (several, _) in source.left_out.items()})
    for group in groups.values():  # a variant would stand for its original, or count beside it
        gone, place = group.buffer.drop_variants()
        if gone:
            summary.left_out.count(VARIANT, place, gone)
            group.left_out[VARIANT] += gone
    return groups


def _folders(groups: Groups, options: ImportOptions) -> list[tuple[Group, Path]]:
    """Each group with the folder of its run, in the order of their names."""
    keys = sorted(groups)
    if options.run is not None and len(keys) > 1:
        listed = "; ".join(f"task {task!r:.60}, model {model!r:.60}" for task, model in keys[:6])
        raise ConfigError(
            f"--run {options.run}: the files hold {len(keys)} runs ({listed}); choose one by --task and --model, "
            "take tasks together by --as NAME, or leave --run out"
        )
    found: dict[Path, tuple[str, str]] = {}
    for key in keys:
        task, model = key
        name = (re.sub(r"[^A-Za-z0-9_-]+", "-", task).strip("-") or "imported")[:80]
        folder = runfolder.run_path(options.run or runfolder.default_name(name, model))
        if folder in found:
            first, second = (f"task {task!r:.60} of model {model!r:.60}" for task, model in (found[folder], key))
            raise ConfigError(
                f"{folder}: would be the run of {first} and of {second}; bring them one by one by --task, --model "
                "and --run NAME"
            )
        found[folder] = key
    return [(groups[key], folder) for folder, key in found.items()]


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
    if isinstance(arguments := found.get("model_args"), str):  # as lm-eval was given them: a=b,c=d
        arguments = dict(one.partition("=")[::2] for one in arguments.split(","))
    if isinstance(arguments, Mapping):
        found["model_args"] = {name: value for name, value in arguments.items() if name.strip() not in _SERVING}
    if isinstance(sampling := found.pop("model_generate_config", None), Mapping):
        found |= {name: value for name, value in sampling.items() if name not in _SENDING}
    return found


def _difference(one: dict[str, Any], other: dict[str, Any]) -> str:
    """The first setting that differs, in words."""
    name = next(name for name in sorted({*one, *other}) if one.get(name) != other.get(name))
    return f"{name}: {one.get(name)!r:.60} and {other.get(name)!r:.60}"


def _annotate(sample: Sample, options: ImportOptions, strategy: str) -> Sample:
    """The sample with the grade that counts, its strategy, its cluster and, where tasks are taken together, its task as
    a fact."""
    facts = {**sample.facts, **({"task": sample.task} if options.together else {})}
    identity = nfc(f"{sample.task}/{sample.id}" if options.together and not sample.ours else sample.id)
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
    return replace(
        sample, id=identity, strategy=strategy, facts=facts, cluster=cluster, grade=grade, grades={}, error=error
    )


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


class _PreparedRun:
    """A run that is ready to be written, in an empty or new folder or one that holds just this run."""

    def __init__(self, folder: Path, group: Group, origin: QuestionOrigin, scratch: Path) -> None:
        self._group, self._origin, self._known = group, origin, origin.known
        self.run = run = ImportedRun(folder, matched=origin.known is not None, nearly=origin.nearly)
        run.repeated, run.threshold, run.grades = group.buffer.repeated, group.options.threshold, tuple(group.grades)
        run.other_grades = tuple(name for name in group.others if name not in group.grades)
        run.benchmark = _benchmark_name(group.task) if self._known is None else self._known.name
        run.counts = group.options.counts or ("tomserve" if run.matched else "tool")
        self._factors = group.facts.choose()
        self._repeats: dict[str, int] = {}  # of each way of asking, how many replies to a question it has at most
        self._asked_by_others: set[str] = (
            set()
        )  # ways of asking with replies to a question that no export of ours names
        self._place = scratch / digest(str(folder).encode())[7:23]
        items = self._choose_items()
        write_chunks(self._place / ITEMS, (line + b"\n" for line in items.lines))
        write_chunks(self._place / JOURNAL, (orjson.dumps(row) + b"\n" for row in self._rows()))
        if run.counts == "tool" and run.ungraded == run.replies:
            raise _ungraded_error(group, run, items)
        self._manifest = self._make_manifest(items)
        self._is_there()  # what is wrong with the folder is said before any run is written

    def _choose_items(self) -> ItemStore:
        """The items that were asked, sorted by their ids."""
        run = self.run
        if self._known is not None:
            items = ItemStore(self._known.items[name] for name in {*self._origin.found} - {None} if name is not None)
        else:
            items = ItemStore(self._make_items())
            run.factors = tuple(self._factors.values())
            cluster = self._group.options.cluster
            run.passed_over = tuple(name for name in self._group.facts.passed_over() if name != cluster)
        run.items = len(items)
        ids = list(items.ids)
        return items.part(sorted(range(len(ids)), key=ids.__getitem__))

    def _make_items(self) -> Iterator[Item]:
        """An item for each question, as its first reply tells it."""
        group, run, seen, clusters = self._group, self.run, set[str](), set[str]()
        asked: dict[tuple[str | None, str], tuple[bytes, str]] = {}
        for sample in group.buffer:
            name = item_id(group.prefix, sample)
            if name not in seen:
                seen.add(name)
                item = make_item(sample, run.benchmark, group.prefix, self._factors)
                if run.counts == "tomserve" and not item.choices:
                    raise ConfigError(
                        f"--counts tomserve: {sample.place} has no choices that an answer could be read against; name "
                        "them by --map choices=COLUMN, or leave --counts out, so that the tool's grade counts"
                    )
                clusters.add(item.cluster)
                run.clusters = len(clusters)
                yield item
            text = text_digest(sample)
            before, place = asked.setdefault((sample.strategy, name), (text, sample.place))
            if before != text:
                raise differing_text_error(sample, place)

    def _make_manifest(self, items: ItemStore) -> Manifest:
        group, run, about = self._group, self.run, self._group.about
        whole = items if self._known is None else ItemStore(self._known.items.values())
        repeats = max(self._repeats.values(), default=1)
        fixed: dict[str, Any] = {
            "benchmark": run.benchmark,
            **({} if self._origin.path is None else {"benchmark_path": str(self._origin.path)}),
            "benchmark_digest": whole.digest(),
            "benchmark_items": len(whole),
            "model": group.model,
            "revision": None,
            "sampling": {"repeats": repeats} if repeats > 1 else {},
        }
        lost = {f"is no question of {run.benchmark}": run.lost, "shares the grade of another reply": run.others}
        record = ForeignRecord(
            tool=about.tool,
            version=_clip(about.version),
            tasks=list(group.tasks)[:MOST_TASKS],
            files=[ForeignFile(**one._asdict()) for one in dict.fromkeys(group.origins)],
            created=_clip(about.created),
            samples=run.replies,
            left_out={reason[:LONGEST]: count for reason, count in {**group.left_out, **lost}.items() if count},
            matched=run.items if run.matched else 0,
            counts=run.counts,
            grades=list(group.grades),
            other_grades=list(run.other_grades),
            settings=dict(about.settings),
        )
        fields = Manifest.new(run.folder, (), **fixed).to_dict() | {
            "strategies": {name: self._strategy_record(name) for name in sorted(self._repeats)},
            "foreign": record.model_dump(),
            "limit": run.items if run.items < len(whole) else None,
            "complete": True,
        }
        return Manifest.model_validate(fields)

    def _strategy_record(self, name: str) -> dict[str, Any]:
        """What the manifest keeps of a way of asking. Where it is one of ours, by which another tool asked questions of
        ours, a chain of beliefs was asked for as that strategy does."""
        ours = self.run.matched and name not in self._asked_by_others and name in strategies()
        return {"digest": None, "max_tokens": None, "chain": ours and Strategy.load(name).chain}

    def write(self) -> None:
        """Write the run, unless its folder holds just that. Raises ConfigError where it holds anything else,
        JournalError and MachineError where it cannot be written."""
        if self._is_there():
            self.run.fresh = False
            return
        with runfolder.RunFolder(self.run.folder) as folder:
            if self._is_there():  # another process was quicker
                self.run.fresh = False
                return
            for name in (JOURNAL, ITEMS):
                with files.open_for_reading(self._place / name) as file:
                    write_chunks(self.run.folder / name, iter(lambda: file.read(1 << 20), b""))
            folder.write_manifest(self._manifest)
            replies = count_noun(self.run.replies, "reply", "replies")
            folder.log(
                f"{replies} brought from {count_noun(len({*self._group.origins}), 'file')} of {self._group.about.tool}"
            )

    def _is_there(self) -> bool:
        """Whether the folder holds just this run."""
        folder, way_out = self.run.folder, "bring these files into a new run by --run NEW"
        if not folder.is_dir():
            return False
        if (there := Manifest.read(folder)) is None:
            _check_left(folder)
            return False
        if there.foreign is None:
            raise ConfigError(f"{folder}: holds another run; {way_out}")
        wanted = self._manifest.foreign
        assert wanted is not None
        same = [one.digest for one in there.foreign.files] == [one.digest for one in wanted.files]
        same = same and (there.foreign.counts, there.benchmark) == (wanted.counts, self._manifest.benchmark)
        for name, path in ((JOURNAL, journal_path(folder)), (ITEMS, folder / ITEMS)):
            same = same and path.exists() and digest_file(path) == digest_file(self._place / name)
        if not same:
            raise ConfigError(f"{folder}: holds an import of other files, or by other options; {way_out}")
        return True

    def _rows(self) -> Iterator[dict[str, Any]]:
        """The rows, in the order in which the replies came."""
        run, seen = self.run, set[tuple[str | None, int, str]]()
        for place, sample in enumerate(self._group.buffer):
            if self._known is None:
                yield self._row(sample, item_id(self._group.prefix, sample))
                continue
            if (name := self._origin.found[place]) is None:
                run.lost += 1
                run.lost_first = run.lost_first or sample.place or sample.id
                continue
            run.repeated += (sample.strategy, sample.repeat, name) in seen
            seen.add((sample.strategy, sample.repeat, name))
            item = self._known.items[name]
            target = resolve_letter((sample.target or "").strip(), choice_order(sample, item.choices)) or ""
            if len(target) > 1 and target.casefold() != item.answer.casefold():
                # so that nobody takes one benchmark's answers for another's
                run.differing += 1
                run.differs_first = run.differs_first or name
            yield self._row(sample, name)

    def _row(self, sample: Sample, item: str) -> dict[str, Any]:
        run, tool = self.run, self._group.about.tool
        run.replies += 1
        run.others += sample.others
        strategy = sample.strategy or STRATEGY
        self._repeats[strategy] = max(self._repeats.get(strategy, 1), sample.repeat + 1)
        if sample.item is None:
            self._asked_by_others.add(strategy)
        shown = choice_order(sample, choice_labels(sample) if self._known is None else self._known.items[item].choices)
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
        graded = row.get("graded")
        if graded is None or graded["counts"] or graded["correct"] is None or row["status"] not in ANSWERS:
            return
        if self._known is not None:
            item = self._known.items[row["item"]]
        else:
            item = make_item(sample, self.run.benchmark, self._group.prefix, {})
        answer = read_response(item, row, benchmarks.scoring_of(item.benchmark).lettered).answer
        self.run.agreement.add(item.id, answer, graded=graded["correct"], right=answer == item.answer)

    def _row_grade(self, sample: Sample, shown: Sequence[str | None]) -> dict[str, Any] | None:
        """The grade as a row keeps it; None where there is none that has to be there. An answer that is the letter of a
        choice is that choice. shown: the choices as they were shown. An empty reply that is not right has no answer,
        unless an export of ours says that it was read."""
        run, grade = self.run, sample.grade
        counts = run.counts == "tool"
        if grade is not None and grade.correct is None and grade.value is not None:
            run.between += grade.value not in (0.0, RIGHT)
            run.highest = max(run.highest, grade.value)
            grade = decide_grade(grade, self._group.options.threshold)
        run.ungraded += counts and (grade is None or grade.correct is None)
        if grade is None:
            return {"by": "", "correct": None, "answer": None, "value": None, "counts": True} if counts else None
        silent = sample.text is not None and not sample.text.strip() and sample.status in ANSWERS
        reason = sample.unread if sample.unread is not None else UNREAD_EMPTY if silent else ""
        unread = one_line(reason, LONGEST_NAME) if grade.correct is not True else ""
        run.empty += bool(unread) and sample.unread is None
        return {
            "by": one_line(grade.by, LONGEST_NAME),
            "correct": grade.correct,
            "answer": None if unread else resolve_letter(grade.answer, shown),
            "value": grade.value,
            "counts": counts,
            **({"unread": unread} if unread else {}),
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


def _clip(text: str | None) -> str | None:
    return None if text is None else files.one_line(text[:LONGEST])


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
        f"{what}, and tomserve cannot read the replies, as it does not know the choices; {way}, or "
        f"{'the choices by --map choices=COLUMN --counts tomserve, or' if mapped else 'name'} "
        "the questions' benchmark by --benchmark NAME"
    )


def _benchmark_name(task: str) -> str:
    """What the questions of a task are called as a benchmark: never like one of ours, whose rules would score them."""
    slug = "-".join("".join(c if c.isascii() and c.isalnum() else " " for c in task.lower()).split())[:80]
    slug = slug or "imported"
    return f"imported-{slug}" if slug in (*benchmarks.names(), benchmarks.ANYBODYS) else slug


def import_replies(
    sources: Sequence[Source], options: ImportOptions, listener: Listener | None = None, found: Collection[Path] = ()
) -> ImportSummary:
    """Import the replies of these sources into runs.

    found: the files that nobody named, because they lay in a folder; what cannot be read of these is left out, where
    others can. Raises TomserveError: nothing was written then, unless the disk failed while the runs were.
    """
    listener = listener or Listener()
    if options.threshold is not None and not math.isfinite(options.threshold):
        raise ConfigError(f"--threshold {options.threshold}: expected a number")
    if options.run is not None:
        runfolder.run_path(options.run)  # a name that is none is said before anything is read
    if options.path is not None:
        note_dataset(options.path)
    finder, summary = BenchmarkFinder(options.benchmark, options.path, listener), ImportSummary()
    try:
        with files.temporary_folder() as scratch, contextlib.ExitStack() as stack:
            groups = _read_sources(sources, options, summary, scratch, stack, listener, found)
            ready = []
            for group, folder in (pairs := _folders(groups, options)):
                try:
                    ready.append(_PreparedRun(folder, group, finder.of(group.buffer), scratch))
                except UngradedError as error:
                    if len(pairs) == 1:
                        raise
                    summary.unread.append(str(error))
            if not ready:
                raise ConfigError(_nothing_found(sources, options, summary))
            for one in ready:  # only now is anything written
                one.write()
                summary.runs.append(one.run)
                if one.run.lost:
                    summary.left_out.count(f"is no question of {one.run.benchmark}", one.run.lost_first, one.run.lost)
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
