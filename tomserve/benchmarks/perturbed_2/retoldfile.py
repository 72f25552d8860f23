"""Files in which an author tells the sentences of a stage otherwise: in fewer words, and in other words.

They lie in the folder ``retold`` beside the folder of the stage files: ``dataset/perturbed-2/stages/C01.yaml`` is told
otherwise by ``dataset/perturbed-2/retold/C01.yaml``. Variants for `tomserve eval --variants condensed,paraphrase` are
made from them (tomserve.benchmarks.perturbed_2.retelling). How to write one is in dataset/perturbed-2/WRITING.md.

>>> read(stage).sentences["none", "story", "read"].short                     # doctest: +SKIP
'She reads the sticker.'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from tomserve.benchmarks.perturbed.prose import Prose
from tomserve.benchmarks.perturbed.stagefile import SLOT
from tomserve.benchmarks.perturbed_2.derive import derive
from tomserve.benchmarks.perturbed_2.stage import Stage, Story
from tomserve.benchmarks.perturbed_2.stagefile import Sentence, Task
from tomserve.content.validation import YamlLines, load_yaml, validate
from tomserve.errors import ContentError, one_of

FOLDER = "retold"
STORY = "story"
"""Under this stand the sentences that the versions of a task share; those of a version stand under its name."""

Key = tuple[str, str, str]
"""Which sentence it is: the task, STORY or the version that holds it, and its name."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Otherwise(_Strict):
    """One sentence told otherwise.

    short: in fewer words; "" where a condensed story leaves it out. other: in other words, where the stage file has no
    second wording of it.
    """

    short: str
    other: Annotated[str, Field(min_length=1)] | None = None


class _Task(_Strict):
    """The sentences of a task told otherwise, and pairs of neighbours, written "first second", that may change places:
    in the versions that are listed, or where none is listed in all in which the two are neighbours."""

    story: dict[str, Otherwise] = {}
    versions: dict[str, dict[str, Otherwise]] = {}
    exchange: dict[Annotated[str, Field(pattern=r"^\w+ \w+$")], list[str]] = {}


class RetoldFile(_Strict):
    """A file as it is written: by task, by version and by name of the sentence, as they are named in the stage file."""

    schema_: Literal[1] = Field(alias="schema")
    stage: str
    tasks: dict[str, _Task] = Field(min_length=1)


class Fault(NamedTuple):
    """What is wrong with a file of retold sentences.

    grave: whether a variant made of it might tell another story, so that none is made; otherwise only some are missing.
    """

    error: ContentError
    grave: bool


class Retold(NamedTuple):
    """What a file holds.

    sentences: each as it is told otherwise. exchange: for each pair of neighbours that may change places, by the task
    and the names of the two, the versions in which they may; none for all.
    """

    sentences: Mapping[Key, Otherwise]
    exchange: Mapping[Key, frozenset[str]]

    def may_change(self, story: Story, first: str, second: str) -> bool:
        """Whether the author of the file says that two neighbours of a story may change places."""
        versions = self.exchange.get((story.task, first, second))
        return versions is not None and (not versions or story.version in versions)


NOTHING = Retold({}, {})
"""What is told otherwise where there is no file."""


def path_of(stage: Stage) -> Path:
    """Where the file that tells this stage otherwise would lie."""
    return stage.path.absolute().parent.parent / FOLDER / f"{stage.file.stage}.yaml"


def read(stage: Stage) -> Retold:
    """The retold sentences of a stage; none where there is no file. Raises ContentError with file, line and field for
    a mistake by which a variant might tell another story."""
    if not path_of(stage).is_file():
        return NOTHING
    retold = Checked(stage)
    for fault in retold.faults():
        if fault.grave:
            raise fault.error
    return retold.retold


def sentences(task: Task) -> Iterator[tuple[str, str, Sentence]]:
    """Every sentence of a task: STORY or the version that holds it, its name, and what is written."""
    for name, sentence in task.story.items():
        yield STORY, name, sentence
    for which, version in task.versions.items():
        for group in (version.replace, *version.insert.values()):
            for name, sentence in group.items():
                yield which, name, sentence


def keys(stage: Stage, task: str, version: str) -> list[Key]:
    """Which sentences a version of a task tells, in their order."""
    held = {id(sentence): (task, where, name) for where, name, sentence in sentences(stage.file.tasks[task])}
    return [held[id(sentence)] for sentence in stage.story(task, version).sentences.values()]


class Checked:
    """A file that is there, and what is wrong with it. Raises ContentError where it cannot be read at all."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.path = stage, path_of(stage)
        data, self.lines = load_yaml(self.path)
        self.file = validate(data, RetoldFile, path=self.path, lines=self.lines)

    lines: YamlLines

    @cached_property
    def retold(self) -> Retold:
        """What the file holds."""
        exchange = {
            (task, *_pair(pair)): frozenset(versions)
            for task, told in self.file.tasks.items()
            for pair, versions in told.exchange.items()
        }
        return Retold(self.sentences, exchange)

    @cached_property
    def sentences(self) -> Mapping[Key, Otherwise]:
        """The sentences told otherwise."""
        found: dict[Key, Otherwise] = {}
        for task, told in self.file.tasks.items():
            found |= {(task, STORY, name): one for name, one in told.story.items()}
            for version, own in told.versions.items():
                found |= {(task, version, name): one for name, one in own.items()}
        return found

    @cached_property
    def _prose(self) -> Prose:
        labels = self.stage.file.labels
        return Prose([form for slot in labels.values() for form in slot.forms().values()], list(labels["x"].forms()))

    def _fault(self, reason: str, *loc: str, grave: bool = False) -> Fault:
        field = ".".join(loc)
        return Fault(ContentError(reason, path=self.path, line=self.lines.at(loc), field=field), grave)

    def faults(self) -> Iterator[Fault]:
        """Everything that is wrong, in the order of the stage file."""
        if self.file.stage != self.stage.file.stage:
            reason = f"is {self.file.stage!r}; expected {self.stage.file.stage!r}, by which the file is named"
            yield self._fault(reason, "stage", grave=True)
            return
        written, told = self._written(), self._told()
        for key in self.sentences:
            if key not in written:
                yield self._strange(key, written)
        for key, sentence in written.items():
            if key in self.sentences:
                yield from self._sentence(key, sentence)
            elif key in told:
                yield self._fault(f"tells no {key[2]!r}, which a version uses; add it", *_place(key)[:-1])
        for task, told_otherwise in self.file.tasks.items():
            for pair, versions in told_otherwise.exchange.items() if task in self.stage.file.tasks else ():
                yield from self._exchange(task, pair, versions)

    def _exchange(self, task: str, pair: str, versions: Sequence[str]) -> Iterator[Fault]:
        place, known = ("tasks", task, "exchange", pair), self.stage.file.tasks[task].versions
        if strange := [one for one in versions if one not in known]:
            yield self._fault(one_of("version", strange[0], known), *place, grave=True)
            return
        next_to = [
            story for story in self.stage.stories if story.task == task and _pair(pair) in pairwise(story.sentences)
        ]
        told = [story for story in next_to if not versions or story.version in versions]
        for version in versions or ([] if told else ["any version"]):
            if version not in [story.version for story in told]:
                reason = f"are no neighbours in {version}; give two names in the order of the story"
                yield self._fault(reason, *place)
        for story in told:
            if not commute(self.stage, story, list(story.sentences).index(_pair(pair)[0])):
                reason = f"cannot change places in version {story.version!r}: the events would give another answer"
                yield self._fault(reason, *place)

    def _written(self) -> dict[Key, Sentence]:
        tasks = self.stage.file.tasks
        return {(task, where, name): sentence for task in tasks for where, name, sentence in sentences(tasks[task])}

    def _told(self) -> set[Key]:
        """The sentences that a version tells: one that every version replaces needs no other telling."""
        return {key for story in self.stage.stories for key in keys(self.stage, story.task, story.version)}

    def _strange(self, key: Key, written: Mapping[Key, Sentence]) -> Fault:
        task, where, name = key
        place = _place(key)
        if task not in self.stage.file.tasks:
            return self._fault(one_of("task", task, self.stage.file.tasks), *place[:2], grave=True)
        if where != STORY and where not in self.stage.file.tasks[task].versions:
            known = self.stage.file.tasks[task].versions
            return self._fault(one_of("version", where, known), *place[:-1], grave=True)
        known_names = [one for in_task, held, one in written if (in_task, held) == (task, where)]
        if not known_names:
            return self._fault(f"the version {where!r} has no sentence of its own; leave it out", *place, grave=True)
        return self._fault(one_of("sentence", name, known_names), *place, grave=True)

    def _sentence(self, key: Key, sentence: Sentence) -> Iterator[Fault]:
        told, place = self.sentences[key], _place(key)
        if told.other is None and len(sentence.texts) < 2:
            yield self._fault("is missing; the stage file has no second wording", *place, "other")
        if told.other is not None:
            yield from self._wording(told.other, sentence, (*place, "other"))
            if told.other in sentence.texts:
                yield self._fault("is a wording that stands in the stage file", *place, "other")
        if told.short:
            yield from self._wording(told.short, sentence, (*place, "short"))
            if (count := len(told.short.split())) > (before := len(sentence.text.split())):
                reason = f"has {count} words, more than the {before} of the sentence itself"
                yield self._fault(reason, *place, "short")
        elif sentence.events or slots(sentence.text):
            why = "events" if sentence.events else "labels"
            reason = f"is empty, but the sentence has {why}, so that it cannot be left out"
            yield self._fault(reason, *place, "short", grave=True)

    def _wording(self, text: str, sentence: Sentence, place: tuple[str, ...]) -> Iterator[Fault]:
        if (mistake := self._prose.mistake(text)) is not None:
            yield self._fault(mistake, *place, grave=True)
        elif slots(text) != slots(sentence.text):
            found, wanted = (" and ".join(sorted(slots(one))) or "no label" for one in (text, sentence.text))
            yield self._fault(f"names {found}; expected {wanted}, as the sentence itself", *place, grave=True)
        if not re.search(r"[.!?][\"”]?$", text):
            yield self._fault("does not end as a sentence does", *place)


def _pair(pair: str) -> tuple[str, str]:
    first, second = pair.split(" ")
    return first, second


def commute(stage: Stage, story: Story, place: int) -> bool:
    """Whether the sentence at that place (from 0) and the next may change places as far as their events go: after both,
    and from there on, reality and the belief must be the same."""
    events = [sentence.events for sentence in story.sentences.values()]
    events[place], events[place + 1] = events[place + 1], events[place]
    try:
        after = derive(events, stage.file.asked(story.task))
    except ValueError:  # such as a mechanism that runs before it is set
        return False
    then = [(line.world.labels, line.belief.labels) for line in after[place + 1 :]]
    return then == [(line.world.labels, line.belief.labels) for line in story.lines[place + 1 :]]


def slots(text: str) -> set[str]:
    """The labels that a text names, with their forms, as the slots that stand in it."""
    return {match[0] for match in SLOT.finditer(text)}


def _place(key: Key) -> tuple[str, ...]:
    """Where a sentence stands in the file."""
    task, where, name = key
    return ("tasks", task, STORY, name) if where == STORY else ("tasks", task, "versions", where, name)
