"""A checked stage of the second edition, and the items that are made from it.

>>> stage = check.load_stage(Path("dataset/perturbed-2/stages/C01.yaml"))    # doctest: +SKIP
>>> stage.items()[0].id                                                # doctest: +SKIP
'C01/none/classic/reality/original'
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from pathlib import Path

from tomserve.benchmarks.perturbed.stagefile import CUE, QUESTION_KINDS, fill
from tomserve.benchmarks.perturbed_2.derive import Layer, Line, derive
from tomserve.benchmarks.perturbed_2.stagefile import FALSE_BELIEF, ROLES, Sentence, StageFile, Version, story_of
from tomserve.content.validation import YamlLines
from tomserve.items import UNKNOWN, Factor, Gold, Item
from tomserve.items.automaton import compile_sets

BENCHMARK = "perturbed-2"

ORDER_SEED = 26
"""The seed of the orders of labels, under which the right answers of each class of the false-belief subset stand about
equally often at each place; `tomserve dataset validate` checks it."""


@dataclass(frozen=True)
class Story:
    """One version of a task, made: its sentences by name, and reality and belief after each."""

    task: str
    version: str
    sentences: Mapping[str, Sentence]
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Stage:
    """A stage: `file` is what was written, `path` and `lines` say where."""

    file: StageFile
    path: Path
    lines: YamlLines = field(repr=False)
    _made: dict[tuple[str, str], Story] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def stories(self) -> list[Story]:
        """Every version of every task, in the order of the file. Raises ValueError for one that cannot be made."""
        return [self.story(task, version) for task, made in self.file.tasks.items() for version in made.versions]

    def story(self, task: str, version: str) -> Story:
        """One version of a task. Raises ValueError where it cannot be made."""
        if (made := self._made.get((task, version))) is None:
            sentences = story_of(self.file.tasks[task], version)
            events = [sentence.events for sentence in sentences.values()]
            lines = tuple(derive(events, self.file.asked(task)))
            made = self._made[task, version] = Story(task, version, sentences, lines)
        return made

    def items(self) -> list[Item]:
        """All items: by task and version in the order of the file, then by question, original before swapped."""
        return list(self._items)

    @cached_property
    def _items(self) -> tuple[Item, ...]:
        return tuple(self._derived())

    def _derived(self) -> Iterator[Item]:
        for story in self.stories:
            for kind in QUESTION_KINDS:
                for swapped in (False, True):
                    yield self._item(story, kind, swapped)

    def version(self, story: Story) -> Version:
        """What was written of a story's version."""
        return self.file.tasks[story.task].versions[story.version]

    def cue(self, story: Story) -> str:
        """The symbol that a classic reading would answer."""
        return self.version(story).cue or self.file.tasks[story.task].cue or CUE[self.file.kind]

    def role(self, story: Story) -> str:
        """What the right answer to the belief question is, seen from the cue: one of ROLES."""
        belief = self.version(story).belief
        return UNKNOWN if belief == UNKNOWN else ROLES[belief != self.cue(story)]

    def _item(self, story: Story, kind: str, swapped: bool) -> Item:
        x, y = self.file.labels["x"], self.file.labels["y"]
        slots = {"x": y, "y": x} if swapped else {"x": x, "y": y}
        labels = {symbol: slot.label for symbol, slot in slots.items()} | {UNKNOWN: UNKNOWN}
        task, asked = self.file.tasks[story.task], self.file.asked(story.task)
        questions = task.questions or self.file.questions
        version = self.version(story)
        answer = version.belief if kind == "belief" else version.reality
        return Item(
            id=f"{self.file.stage}/{story.task}/{story.version}/{kind}/{'swapped' if swapped else 'original'}",
            benchmark=BENCHMARK,
            story=tuple(fill(sentence.text, slots, asked) for sentence in story.sentences.values()),
            question=fill(questions.belief if kind == "belief" else questions.reality, slots, asked),
            choices=self._choices(story),
            answer=labels[answer],
            gold=rationale([line.belief if kind == "belief" else line.world for line in story.lines], labels),
            factors=self._factors(story, kind, swapped, labels),
            cluster=f"{self.file.stage}/{story.task}",
            canary=self.file.canary,
        )

    def _factors(self, story: Story, kind: str, swapped: bool, labels: Mapping[str, str]) -> dict[str, Factor]:
        version, cue = self.version(story), self.cue(story)
        belief, reality = version.belief, version.reality
        answer = belief if kind == "belief" else reality
        scenario = self.file.scenario(story.version)
        critical = scenario == FALSE_BELIEF and cue == reality and self.role(story) == "opposite"
        return {
            "stage": self.file.stage,
            "kind": self.file.kind,
            "perturbation": story.task,
            "scenario": scenario,
            "version": story.version,
            "twin": version.twin,
            "ground": version.ground,
            "question_kind": kind,
            "swapped": swapped,
            "belief_is_false": (belief not in (UNKNOWN, reality)) if kind == "belief" else None,
            "answer_role": _answer_role(answer, reality, cue),
            "belief_role": self.role(story),
            "critical_form": critical,
            "aware": version.aware,
            "cue": labels[cue],
            "reality": labels[reality],
            "asked": self.file.asked(story.task),
            "slot": self._slot(story),
            "task_questions": 4 * len(self.file.tasks[story.task].versions),
        }

    def _slot(self, story: Story) -> str:
        """Which part of its task a story is: of the minimal pair, another false-belief story by its number, or a
        control by its name. The same slots of several tasks are drawn together, and a pair is drawn whole."""
        if self.file.scenario(story.version) != FALSE_BELIEF:
            return story.version
        versions = self.file.tasks[story.task].versions
        told = [name for name in versions if self.file.scenario(name) == FALSE_BELIEF]
        first = next((name for name in told if versions[name].twin), None)
        pair = {first, versions[first].twin} if first is not None else set()
        if story.version in pair:
            return "pair"
        return f"other_{[name for name in told if name not in pair].index(story.version) + 1}"

    def _choices(self, story: Story) -> tuple[str, ...]:
        """The labels in one of their six orders, the same for all questions about a story. The orders take turns over
        the versions of a task, and where they begin differs between tasks by a digest with a fixed seed."""
        labels = [self.file.labels["x"].label, self.file.labels["y"].label, UNKNOWN]
        orders = list(permutations(labels))
        begin = hashlib.sha256(f"{ORDER_SEED}/{self.file.stage}/{story.task}".encode()).digest()
        version = list(self.file.tasks[story.task].versions).index(story.version)
        return orders[(5 * version + int.from_bytes(begin[:4], "big")) % len(orders)]


def _answer_role(answer: str, reality: str, cue: str) -> str:
    """What the answer is. Where cue and reality agree it is "classic", because a classic reading is enough."""
    if answer == UNKNOWN:
        return "unknown"
    if answer == cue:
        return "classic"
    return "reality" if answer == reality else "other"


def rationale(layers: Sequence[Layer], labels: Mapping[str, str]) -> Gold:
    """The rationale of these layers, with the label of each symbol. Edges are written only where the rules of
    tomserve.items.Gold give others."""
    sets = [tuple(labels[symbol] for symbol in layer.labels) for layer in layers]
    usual = compile_sets(sets)
    edges = []
    for t, layer in enumerate(layers[1:], 1):
        steps = {(labels[before], labels[after]) for before, after in layer.steps}
        by_rule = {(usual.labels[t - 1][i], usual.labels[t][j]) for i, j in usual.steps[t]} if usual.labels else set()
        if steps != by_rule:
            edges += [(t, before, after) for before, after in sorted(steps)]
    return Gold(sets=tuple(sets), edges=tuple(edges))
