"""Reads other tools' files, and keeps the replies that a user wants by task and model, each of which becomes a run."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from tomserve.errors import ConfigError
from tomserve.interop.bringing_run import Made
from tomserve.interop.foreign import MOST_REPEATS, About, Grade, Origin, Sample, Source
from tomserve.interop.items_of import Facts, one_line
from tomserve.interop.spool import Spool
from tomserve.interop.withheld import masked
from tomserve.runs import runfolder
from tomserve.runs.progress import Listener

TELL_EVERY = 50_000
"""After so many replies it is said how many there were."""

LONGEST_NAME = 300
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
class Wish:
    """What a user wants of an import.

    run: the name of the run; None for `<task>-<model>`. model, task: only replies of this model, to this task.
    strategy: the name of the way of asking, where the file names none. benchmark: the benchmark whose questions
    they are, "none" for none, None to find out; path: its file. together: take all tasks together under this name,
    with the factor `task`. scorer: whose grade counts, where there are several. threshold: from which value on a
    grade that is a number counts as right, None for 1. counts: whose reading counts; None for ours where questions are
    matched, else theirs. factors: which facts become factors; empty for those that vary. cluster: the fact that says
    which questions belong together.
    """

    run: str | None = None
    model: str | None = None
    task: str | None = None
    strategy: str | None = None
    benchmark: str | None = None
    path: Path | None = None
    together: str | None = None
    scorer: str | None = None
    threshold: float | None = None
    counts: Literal["tomserve", "tool"] | None = None
    factors: tuple[str, ...] = ()
    cluster: str | None = None


@dataclass
class Brought:
    """What was brought. runs: the runs that were made, in the order of their names. left_out: for each reason, how many
    replies were not read and where the first stands. other: replies of other models or tasks than were wanted. unread:
    of files that were found in a folder why they hold nothing that can be read, and of tasks why they make no run where
    others do."""

    runs: list[Made] = field(default_factory=list)
    left_out: dict[str, tuple[int, str]] = field(default_factory=dict)
    other: int = 0
    unread: list[str] = field(default_factory=list)

    def leave(self, reason: str, count: int, place: str) -> None:
        """Count replies that were not read."""
        before, first = self.left_out.get(reason, (0, place))
        self.left_out[reason] = (before + count, first)


@dataclass
class Group:
    """The replies of one task by one model, and what their files say of themselves. settings: of each of these files
    what it records of how the model was asked. grades: the names of the grades that count; others: those of all."""

    task: str
    model: str
    spool: Spool
    about: About
    facts: Facts
    settings: dict[int, Any] = field(default_factory=dict)
    origins: list[Origin] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    tasks: dict[str, None] = field(default_factory=dict)
    grades: dict[str, None] = field(default_factory=dict)
    others: dict[str, None] = field(default_factory=dict)

    def see_grades(self, counts: Grade | None, there: Iterable[str]) -> None:
        """Note what the grades of a reply are called. counts: the one that counts. there: the names of all."""
        if counts is not None and len(self.grades) < MOST_GRADES:
            self.grades[_name(counts.by)] = None
        for name in there:
            if len(self.others) < MOST_GRADES:
                self.others[_name(name)] = None

    @property
    def other_grades(self) -> tuple[str, ...]:
        """The names of the grades that do not count."""
        return tuple(name for name in self.others if name not in self.grades)


class Groups:
    """Reads sources, and keeps the replies that are wanted by task and model.

    wish: what the user wants. brought: in which it is counted what is left out. scratch: a folder for temporary files.
    stack: what closes them. listener: is told how many replies there were. known: the groups.
    """

    def __init__(
        self, wish: Wish, brought: Brought, scratch: Path, stack: contextlib.ExitStack, listener: Listener
    ) -> None:
        self._wish, self._brought = wish, brought
        self._scratch, self._stack, self._listener = scratch, stack, listener
        self._sources, self._count = 0, 0
        self.known: dict[tuple[str, str], Group] = {}

    def read(self, source: Source, *, lenient: bool) -> None:
        """Keep the replies of a source. lenient: whether one of which nothing can be read is passed over. Raises
        ConfigError."""
        wish, touched = self._wish, dict[tuple[str, str], None]()
        self._sources += 1
        try:
            about = source.about()
            samples = iter(source.samples())
            first = next(samples, None)
        except ConfigError as error:
            if not lenient:
                raise
            self._brought.unread.append(str(error))
            return
        other = self._brought.other
        for sample in _chained(first, samples):
            if wish.model not in (None, sample.model) or wish.task not in (None, sample.task):
                self._brought.other += 1
                continue
            if not 0 <= sample.repeat < MOST_REPEATS:
                self._brought.leave(f"has no number of a repeat below {MOST_REPEATS:,}", 1, sample.place)
                continue
            key = wish.together or _name(sample.task) or "imported", _name(sample.model) or "model"
            touched[key] = None
            self._keep(key, about, _told(sample, wish), sample.grades)
            self._count += 1
            if self._count % TELL_EVERY == 0:
                self._listener.message(f"{self._count:,} replies read so far")
        if not touched and self._brought.other > other:  # a file about something else
            return
        for reason, (number, place) in source.left_out.items():
            self._brought.leave(reason, number, place)
        for key in touched:
            self.known[key].origins += source.origins()
            self.known[key].left_out.update({reason: number for reason, (number, _) in source.left_out.items()})

    def _keep(self, key: tuple[str, str], about: About, sample: Sample, grades: Iterable[str]) -> None:
        if (group := self.known.get(key)) is None:
            spool = Spool(self._scratch / f"{len(self.known)}.jsonl")
            self._stack.callback(spool.close)
            facts = Facts(self._wish.factors, ("task",) if self._wish.together else ())
            group = self.known[key] = Group(*key, spool, about, facts)
        settings = group.settings.setdefault(self._sources, _lasting(about))
        group.tasks[_name(sample.task)] = None
        group.facts.see(sample.id, sample.facts)
        group.see_grades(sample.grade, grades)
        before = group.spool.add(sample, self._sources)
        if before is not None and group.settings[before] != settings:
            raise ConfigError(
                f"{sample.place}: question {sample.id!r:.80} was answered before by the same model, asked in another "
                f"way ({_difference(group.settings[before], settings)}); bring the files one by one, each with --run "
                "NAME"
            )

    def folders(self) -> list[tuple[Group, Path]]:
        """Each group with the folder of its run, in the order of their names. Raises ConfigError where they are several
        and the user wants one, and where two would have the same folder."""
        wish, keys = self._wish, sorted(self.known)
        if wish.run is not None and len(keys) > 1:
            listed = "; ".join(f"task {task!r:.60}, model {model!r:.60}" for task, model in keys[:6])
            raise ConfigError(
                f"--run {wish.run}: the files hold {len(keys)} runs ({listed}); choose one by --task and --model, "
                "take tasks together by --as NAME, or leave --run out"
            )
        found: dict[Path, tuple[str, str]] = {}
        for key in keys:
            folder = _folder(wish, *key)
            if folder in found:
                first, second = (f"task {task!r:.60} of model {model!r:.60}" for task, model in (found[folder], key))
                raise ConfigError(
                    f"{folder}: would be the run of {first} and of {second}; bring them one by one by --task, --model "
                    "and --run NAME"
                )
            found[folder] = key
        return [(self.known[key], folder) for folder, key in found.items()]


def _chained(first: Sample | None, rest: Iterator[Sample]) -> Iterator[Sample]:
    if first is not None:
        yield first
        yield from rest


@lru_cache(maxsize=256)
def _name(text: str) -> str:
    """The name of a model or task as a run keeps it: one line without secrets, and not endless."""
    return one_line(masked(text[: 10 * LONGEST_NAME]), LONGEST_NAME)


def _lasting(about: About) -> dict[str, Any]:
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


def _told(sample: Sample, wish: Wish) -> Sample:
    """The sample with the grade that counts, its cluster and, where tasks are taken together, its task as a fact."""
    facts = {**sample.facts, **({"task": sample.task} if wish.together else {})}
    identity = f"{sample.task}/{sample.id}" if wish.together and not sample.ours else sample.id
    cluster = sample.cluster
    if wish.cluster is not None:
        if wish.cluster not in facts:
            raise ConfigError(
                f"--cluster {wish.cluster!r:.80}: {sample.place or sample.id} does not tell it; it tells: "
                f"{', '.join(sorted(facts))[:500] or 'nothing'}"
            )
        cluster = None if facts[wish.cluster] in (None, "") else str(facts[wish.cluster])
    error = None if sample.error is None else masked(sample.error[:LONGEST_ERROR])
    grade = _grade(sample, wish)
    return replace(sample, id=identity, facts=facts, cluster=cluster, grade=grade, grades={}, error=error)


def _grade(sample: Sample, wish: Wish) -> Grade | None:
    """The grade that counts, as the tool gives it. A metric alone is that of the first filter which has it."""
    if wish.scorer is None:
        return sample.grade
    found = [name for name in sample.grades if wish.scorer in (name, name.partition(",")[0])]
    if sample.grades and not found:
        raise ConfigError(
            f"--scorer {wish.scorer!r:.80}: {sample.place or sample.id} has no such grade; it has: "
            f"{'; '.join(sorted(sample.grades))[:500]}"
        )
    return sample.grades[wish.scorer if wish.scorer in found else found[0]] if found else None


def _folder(wish: Wish, task: str, model: str) -> Path:
    if wish.run is not None:
        return runfolder.run_path(wish.run)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", task).strip("-") or "imported"
    return runfolder.run_path(runfolder.default_name(name[:80], model))
