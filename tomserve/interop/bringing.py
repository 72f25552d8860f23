"""Brings the replies that another tool collected into run folders, so that all commands for runs work on them.

Every task of every model becomes a run. Its questions are items of a benchmark of ours where the texts say so
(tomserve.interop.matching); then our rules read the replies, and the other tool's grade stands beside. Other questions
are taken as they are, and the grade is the score. The raw text of every reply, all that the model was shown, and the
digests of the files stay with the run, which is marked as foreign: nothing can be asked in it.

>>> brought = bring([InspectLog(Path("log.eval"))], Wish())                                       # doctest: +SKIP
>>> brought.runs[0].folder, brought.runs[0].replies                                               # doctest: +SKIP
(PosixPath('runs/gsm8k-openai-gpt-4o'), 1319)
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from tomserve import benchmarks
from tomserve.content import temporary
from tomserve.errors import ConfigError
from tomserve.interop.bringing_run import Made, Meant, write
from tomserve.interop.foreign import About, Grade, Origin, Sample, Source
from tomserve.interop.items_of import Facts
from tomserve.interop.matching import Known, candidates
from tomserve.interop.spool import Spool
from tomserve.runs import runfolder
from tomserve.runs.listening import Listener, Silent

NONE = "none"
"""The benchmark that says that questions are taken as they are."""

TELL_EVERY = 50_000
"""After so many replies it is said how many there were."""

LOOKED_AT = 20
"""A benchmark of which none of so many questions is found is not looked through for the others."""


@dataclass(frozen=True)
class Wish:
    """What a user wants of an import.

    run: the name of the run; None for `<task>-<model>`. model, task: only replies of this model, to this task.
    strategy: the name of the way of asking, where the file names none. benchmark: the benchmark whose questions
    they are, NONE for none, None to find out; path: its file. together: take all tasks together under this name,
    with the factor `task`. scorer: whose grade counts, where there are several. threshold: from which value on a
    grade that is neither right nor wrong counts as right. counts: whose reading counts; None for ours where
    questions are matched, else theirs. factors: which facts become factors; empty for those that vary. cluster: the
    fact that says which questions belong together.
    """

    run: str | None = None
    model: str | None = None
    task: str | None = None
    strategy: str | None = None
    benchmark: str | None = None
    path: Path | None = None
    together: str | None = None
    scorer: str | None = None
    threshold: float = 1.0
    counts: Literal["tomserve", "tool"] | None = None
    factors: tuple[str, ...] = ()
    cluster: str | None = None


@dataclass
class Brought:
    """What was brought. runs: the runs that were made, in the order of their names. left_out: for each reason, how many
    replies were not read and where the first stands. other: replies of other models or tasks than were wanted."""

    runs: list[Made] = field(default_factory=list)
    left_out: dict[str, tuple[int, str]] = field(default_factory=dict)
    other: int = 0


def bring(sources: Sequence[Source], wish: Wish, listener: Listener | None = None) -> Brought:
    """Bring the replies of these sources into runs.

    sources: the files, each with its reader. wish: what the user wants. Raises TomserveError: nothing was written then,
    but for runs whose names were printed.
    """
    listener = listener or Silent()
    brought = Brought()
    with temporary.folder() as scratch, contextlib.ExitStack() as stack:
        groups = _spooled(sources, wish, brought, scratch, stack, listener)
        if not groups:
            raise ConfigError(_nothing(sources, wish, brought))
        if wish.run is not None and len(groups) > 1:
            listed = "; ".join(f"task {task!r:.60}, model {model!r:.60}" for task, model in sorted(groups)[:6])
            raise ConfigError(
                f"--run {wish.run}: the files hold {len(groups)} runs ({listed}); choose one by --task and --model, "
                "take tasks together by --as NAME, or leave --run out"
            )
        folders = {key: _folder(wish, *key) for key in sorted(groups)}
        if len(set(folders.values())) < len(folders):
            raise ConfigError("two models of the files would make runs of one name; bring them one by one by --model")
        known = _Benchmarks(wish)
        for key, folder in folders.items():
            group = groups[key]
            brought.runs.append(_made(group, folder, wish, known, brought))
    return brought


@dataclass
class _Group:
    """The replies of one task by one model, and what their files say of themselves."""

    task: str
    model: str
    spool: Spool
    about: About
    origins: list[Origin] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    tasks: dict[str, None] = field(default_factory=dict)
    facts: Facts = field(default_factory=Facts)


def _spooled(
    sources: Sequence[Source],
    wish: Wish,
    brought: Brought,
    scratch: Path,
    stack: contextlib.ExitStack,
    listener: Listener,
) -> dict[tuple[str, str], _Group]:
    """All replies that are wanted, by task and model."""
    groups: dict[tuple[str, str], _Group] = {}
    count = 0
    for source in sources:
        about, touched = source.about(), dict[tuple[str, str], None]()
        for sample in source.samples():
            if wish.model not in (None, sample.model) or wish.task not in (None, sample.task):
                brought.other += 1
                continue
            key = wish.together or sample.task, sample.model
            if (group := groups.get(key)) is None:
                spool = Spool(scratch / f"{len(groups)}.jsonl")
                stack.callback(spool.close)
                group = groups[key] = _Group(*key, spool, about, facts=Facts(wish.factors))
            touched[key] = None
            group.tasks[sample.task] = None
            told = _told(sample, wish)
            group.facts.see(told.facts)
            group.spool.add(told)
            count += 1
            if count % TELL_EVERY == 0:
                listener.message(f"{count:,} replies read so far")
        for reason, (number, place) in source.left_out.items():
            before, first = brought.left_out.get(reason, (0, place))
            brought.left_out[reason] = (before + number, first)
        for key in touched:
            groups[key].origins += source.origins()
            groups[key].left_out.update({reason: number for reason, (number, _) in source.left_out.items()})
    return groups


def _told(sample: Sample, wish: Wish) -> Sample:
    """The sample with the grade that counts, its cluster and, where tasks are taken together, its task as a fact."""
    facts = {**sample.facts, **({"task": sample.task} if wish.together else {})}
    identity = f"{sample.task}/{sample.id}" if wish.together else sample.id
    cluster = sample.cluster
    if wish.cluster is not None:
        if wish.cluster not in facts:
            raise ConfigError(
                f"--cluster {wish.cluster!r:.80}: {sample.place or sample.id} does not tell it; it tells: "
                f"{', '.join(sorted(facts))[:500] or 'nothing'}"
            )
        cluster = str(facts[wish.cluster])
    return replace(sample, id=identity, facts=facts, cluster=cluster, grade=_grade(sample, wish), grades={})


def _grade(sample: Sample, wish: Wish) -> Grade | None:
    """The grade that counts, with a value that reaches the threshold as right."""
    grade = sample.grade
    if wish.scorer is not None:
        if sample.grades and wish.scorer not in sample.grades:
            raise ConfigError(
                f"--scorer {wish.scorer!r:.80}: {sample.place or sample.id} has no such grade; it has: "
                f"{', '.join(sorted(sample.grades))[:500]}"
            )
        grade = sample.grades.get(wish.scorer)
    if grade is not None and grade.correct is None and grade.value is not None:
        grade = replace(grade, correct=grade.value >= wish.threshold)
    return grade


def _nothing(sources: Sequence[Source], wish: Wish, brought: Brought) -> str:
    """Why there is nothing to bring."""
    where = ", ".join(str(source.path) for source in sources[:3])
    if brought.other:
        return f"{where}: none of {brought.other:,} replies is of the model or task that --model and --task name"
    told = "; ".join(f"{reason}: {count:,} (first: {place})" for reason, (count, place) in brought.left_out.items())
    return f"{where}: holds no reply that can be read" + (f" ({told})" if told else "") + _asked_for(wish)


def _asked_for(wish: Wish) -> str:
    return f"; --task {wish.task}, --model {wish.model}" if wish.task or wish.model else ""


def _folder(wish: Wish, task: str, model: str) -> Path:
    if wish.run is not None:
        return runfolder.run_path(wish.run)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", task).strip("-") or "imported"
    return runfolder.run_path(runfolder.default_name(name[:80], model))


class _Benchmarks:
    """The benchmarks whose questions may have been asked, each loaded when it is first looked at."""

    def __init__(self, wish: Wish) -> None:
        self._named = None if wish.benchmark in (None, NONE) else wish.benchmark
        self._none, self._path = wish.benchmark == NONE, wish.path
        if wish.path is not None and self._named is None:
            raise ConfigError("--path belongs to --benchmark NAME")
        self._loaded: list[Known] = []
        self._more = candidates()

    def of(self, samples: Spool) -> tuple[Known, list[str | None]] | None:
        """The benchmark that these are questions of, with the id of each; None where they are taken as they are.

        Raises ConfigError where a benchmark was named, and none of its questions is among them.
        """
        if self._none:
            return None
        if self._named is not None:
            if not self._loaded:
                items = benchmarks.load(self._named, self._path, None, benchmarks.ALL)
                self._loaded.append(Known(benchmarks.get(self._named).name, items))
            known = self._loaded[0]
            found = [known.find(one.asked, one.item) for one in samples]
            if not any(found):
                raise ConfigError(
                    f"--benchmark {self._named}: none of {len(found):,} questions is one of its items by story and "
                    "question; leave --benchmark out, or give --benchmark none to take them as they are"
                )
            return known, found
        for known in self._all():
            begun = [known.find(one.asked, one.item) for one, _ in zip(samples, range(LOOKED_AT), strict=False)]
            if any(begun):
                found = [known.find(one.asked, one.item) for one in samples]
                if all(found):
                    return known, found
        return None

    def _all(self) -> Iterator[Known]:
        yield from list(self._loaded)
        for known in self._more:
            self._loaded.append(known)
            yield known


def _made(group: _Group, folder: Path, wish: Wish, known: _Benchmarks, brought: Brought) -> Made:
    matched = known.of(group.spool)
    if matched is not None and (lost := matched[1].count(None)):
        reason = f"is no question of {matched[0].name}"
        first = next(one for one, name in zip(group.spool, matched[1], strict=True) if name is None)
        brought.left_out[reason] = (brought.left_out.get(reason, (0, ""))[0] + lost, first.place or first.id)
        group.left_out[reason] += lost
    meant = Meant(
        group.task,
        group.model,
        tuple(group.tasks),
        group.about,
        tuple(dict.fromkeys(group.origins)),
        dict(group.left_out),
        wish.strategy,
        wish.counts,
        None if wish.together else group.task,
    )
    return write(folder, group.spool, meant, matched, group.facts.chosen(), wish.path)
