"""The form in which stories are written: one YAML file for each stage, from which all items are derived.

A stage fixes two labels, ``x`` and ``y``; prose never names them but by the slots ``{x}`` and ``{y}``, so that the
swapped version of an item is the same template with the slots exchanged. A task is a story of named sentences
(the false_belief scenario) and four scenarios, each of which may ``replace``, ``insert`` or ``omit`` sentences and
states for itself, sentence by sentence, what is then true (``world``) and what the asked person believes
(``belief``). Answers are written out and must agree with the last sets. The guide is in dataset/README.md.

    >>> stage = stagecheck.load_stage(Path("dataset/stages/C2.yaml"))  # doctest: +SKIP
    >>> len(list(stage.items("perturbed")))                            # doctest: +SKIP
    160
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from tomserve.content.validation import YamlLines
from tomserve.errors import one_of
from tomserve.items import Factor, Gold, Item

UNKNOWN = "unknown"
PERTURBATIONS = (
    "none",
    "transparent_container",
    "preposition_replacement",
    "uninformative_label",
    "late_label",
    "non_protagonist_belief",
    "automatic_change_knowledge",
    "add_unrelated_information",
    "induction_from_baseline",
    "untrustworthy_testimony",
    "conclusion_from_sentiment",
)
SCENARIOS = {
    "unexpected_contents": ("false_belief", "correct_label", "informed_protagonist", "open_container"),
    "unexpected_transfer": ("false_belief", "no_transfer", "informed_protagonist", "present_protagonist"),
}
QUESTION_KINDS = ("reality", "belief")
CUE = {
    "unexpected_contents": "y",
    "unexpected_transfer": "x",
}  # the answer that a classic false-belief task of this kind expects

DERIVED_FACTORS = frozenset(
    {"stage", "kind", "perturbation", "scenario", "question_kind", "swapped", "belief_is_false", "answer_role"}
    | {"critical_form", "aware", "asked", "cue"}
)


def in_false_belief_subset(factors: Mapping[str, Factor]) -> bool:
    """Whether an item with these factors is a belief question of the false-belief scenario."""
    return factors["scenario"] == "false_belief" and factors["question_kind"] == "belief"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def _as_slot(value: Any) -> Any:
    return {"label": value} if isinstance(value, str) else value


def _as_sentence(value: Any) -> Any:
    return {"text": value} if isinstance(value, str) else value


def _as_set(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _as_edge(value: Any) -> Any:
    if isinstance(value, str) and value.count("->") == 1:
        return [part.strip() for part in value.split("->")]
    return value


class Slot(BaseModel):
    """A label and, as extra keys, its other forms. Prose uses them as ``{x}`` and ``{x.form}``."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)
    label: str = Field(min_length=2)

    def forms(self) -> dict[str, str]:
        """Every form by its name; the name of the label itself is ""."""
        return {"": self.label, **{name: str(form) for name, form in (self.model_extra or {}).items()}}


class Sentence(_Strict):
    """One sentence of prose, and the events in it (see tomserve.benchmarks.perturbed.events), which check the gold."""

    text: str = Field(min_length=1)
    events: list[str] = []


class Insertion(_Strict):
    """Sentences that a scenario inserts before or after a named one."""

    after: str | None = None
    before: str | None = None
    sentences: dict[str, Annotated[Sentence, BeforeValidator(_as_sentence)]] = Field(min_length=1)


Symbols = Annotated[list[str], BeforeValidator(_as_set), Field(min_length=1)]
Edge = Annotated[tuple[str, str], BeforeValidator(_as_edge)]


class GoldLine(_Strict):
    """What holds after one sentence: the possible labels of reality (`world`) and of the asked person's belief.

    Labels are given as symbols: x, y, unknown, or the name of an extra label. The edges are pairs (label after the
    sentence before, label after this one) that are possible; without them the rules of tomserve.items.Gold hold.
    """

    world: Symbols
    belief: Symbols
    world_edges: list[Edge] = []
    belief_edges: list[Edge] = []


class Answer(_Strict):
    """The answers to both questions, as symbols."""

    reality: str
    belief: str


class Scenario(_Strict):
    """One of the four versions of a task: edits of the task's story, with gold and answers of its own.

    control_exception: why the belief is false although the scenario is a control; without a reason that is refused.
    """

    replace: dict[str, Annotated[Sentence, BeforeValidator(_as_sentence)]] = {}
    insert: list[Insertion] = []
    omit: list[str] = []
    gold: dict[str, GoldLine]
    answer: Answer
    cue: str | None = None
    control_exception: str | None = None
    factors: dict[str, Factor] = {}
    note: str | None = None


class Questions(_Strict):
    """The templates of the two questions, which may use {asked}, {x} and {y}."""

    belief: str
    reality: str


class Task(_Strict):
    """A false-belief task, classic or perturbed.

    asked: the person whose belief is asked for, if it is not the stage's first. cue: the symbol that a classic reading
    would answer. critical_form: whether that cue agrees with reality. aware: whether the person knows of the mechanism,
    in the class automatic_change_knowledge only.
    """

    asked: str | None = None
    questions: Questions | None = None
    cue: str | None = None
    critical_form: bool = False
    aware: bool | None = None
    note: str | None = None
    story: dict[str, Annotated[Sentence, BeforeValidator(_as_sentence)]] = Field(min_length=1)
    scenarios: dict[str, Scenario]


class StageFile(_Strict):
    """A stage file as it is written. `extra_labels` are further choices by symbol; `people` are names by role."""

    schema_: Literal[1] = Field(alias="schema")
    canary: str | None = None
    stage: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")
    kind: Literal["unexpected_contents", "unexpected_transfer"]
    setting: str
    people: dict[str, Annotated[str, Field(min_length=1)]] = Field(min_length=1)
    slots: dict[Literal["x", "y"], Annotated[Slot, BeforeValidator(_as_slot)]] = Field(min_length=2, max_length=2)
    extra_labels: dict[str, str] = {}
    questions: Questions
    tasks: dict[str, Task] = Field(min_length=1)


@dataclass(frozen=True)
class Stage:
    """A checked stage: `file` is what was written, `path` and `lines` say where."""

    file: StageFile
    path: Path
    lines: YamlLines
    _made: dict[str, list[Item]] = field(default_factory=dict, repr=False, compare=False)

    def items(self, benchmark: str) -> list[Item]:
        """All items: by task in the order of the file, then by scenario and question, original before swapped."""
        if benchmark not in self._made:
            self._made[benchmark] = list(self._items(benchmark))
        return self._made[benchmark]

    def _items(self, benchmark: str) -> Iterator[Item]:
        for name, task in self.file.tasks.items():
            for scenario in SCENARIOS[self.file.kind]:
                story = story_of(task, task.scenarios[scenario])
                for kind in QUESTION_KINDS:
                    for swapped in (False, True):
                        yield self._item(benchmark, name, scenario, story, kind, swapped)

    def _item(
        self, benchmark: str, name: str, scenario: str, story: Mapping[str, Sentence], kind: str, swapped: bool
    ) -> Item:
        task = self.file.tasks[name]
        version = task.scenarios[scenario]
        slots = self.file.slots
        if swapped:
            slots = {"x": slots["y"], "y": slots["x"]}
        labels = {symbol: slot.label for symbol, slot in slots.items()} | self.file.extra_labels | {UNKNOWN: UNKNOWN}
        asked = self.asked(name)
        lines = [version.gold[sentence] for sentence in story]
        sets = [line.belief if kind == "belief" else line.world for line in lines]
        edges = [line.belief_edges if kind == "belief" else line.world_edges for line in lines]
        questions = task.questions or self.file.questions
        cluster = f"{self.file.stage}/{name}"
        answer = version.answer.belief if kind == "belief" else version.answer.reality
        false = version.answer.belief not in (UNKNOWN, version.answer.reality)
        factors: dict[str, Factor] = {
            "stage": self.file.stage,
            "kind": self.file.kind,
            "perturbation": name,
            "scenario": scenario,
            "question_kind": kind,
            "swapped": swapped,
            "belief_is_false": false if kind == "belief" else None,
            "answer_role": _role(answer, version.answer.reality, version.cue or task.cue or CUE[self.file.kind]),
            "critical_form": task.critical_form,
            "aware": task.aware,
            "cue": labels[version.cue or task.cue or CUE[self.file.kind]],
            "asked": asked,
        }
        return Item(
            id=f"{cluster}/{scenario}/{kind}/{'swapped' if swapped else 'original'}",
            benchmark=benchmark,
            story=tuple(fill(sentence.text, slots, asked) for sentence in story.values()),
            question=fill((questions.belief if kind == "belief" else questions.reality), slots, asked),
            choices=self.choices(name),
            answer=labels[answer],
            gold=Gold(
                sets=tuple(tuple(labels[symbol] for symbol in layer) for layer in sets),
                edges=tuple((t, labels[a], labels[b]) for t, pairs in enumerate(edges) for a, b in pairs),
            ),
            factors=factors | version.factors,
            cluster=cluster,
            canary=self.file.canary,
        )

    def asked(self, task: str) -> str:
        """The person whose belief a task is about: the one that it names, else the first of the stage."""
        return self.file.tasks[task].asked or next(iter(self.file.people.values()))

    def choices(self, task: str) -> tuple[str, ...]:
        """The stage's labels, rotated by a hash of the task, in the same order for original and swapped items."""
        labels = [self.file.slots["x"].label, self.file.slots["y"].label, *self.file.extra_labels.values(), UNKNOWN]
        turn = hashlib.sha256(f"{self.file.stage}/{task}".encode()).digest()[0] % len(labels)
        return tuple(labels[turn:] + labels[:turn])


def _role(answer: str, reality: str, cue: str) -> str:
    """What the answer is. Where cue and reality agree it is "classic", because a classic reading is enough."""
    if answer == UNKNOWN:
        return "unknown"
    if answer == cue:
        return "classic"
    return "reality" if answer == reality else "other"


SLOT = re.compile(r"\{(\w+)(?:\.(\w+))?\}")


def fill(template: str, slots: Mapping[Any, Slot], asked: str) -> str:
    """A template with its slots filled; a slot at the beginning of the text gets a capital letter."""

    def one(match: re.Match[str]) -> str:
        name, form = match[1], match[2] or ""
        text = asked if name == "asked" else slots[name].forms()[form]
        return text[:1].upper() + text[1:] if match.start() == 0 else text

    return SLOT.sub(one, template)


def story_of(task: Task, scenario: Scenario) -> dict[str, Sentence]:
    """The sentences of a scenario by name, in order. Raises ValueError for an edit of a sentence that is not there."""
    story = dict(task.story)
    for name, sentence in scenario.replace.items():
        if name not in story:
            raise ValueError(f"replace: {one_of('sentence', name, story)}")
        story[name] = sentence
    for insertion in scenario.insert:
        anchor = insertion.after or insertion.before
        if (insertion.after is None) == (insertion.before is None) or anchor is None:
            raise ValueError("insert: give either 'after' or 'before'")
        if anchor not in story:
            raise ValueError(f"insert: {one_of('sentence', anchor, story)}")
        if clash := sorted(set(insertion.sentences) & set(story)):
            raise ValueError(f"insert: a sentence named {clash[0]!r} is there already")
        order = list(story)
        at = order.index(anchor) + (insertion.after is not None)
        order[at:at] = insertion.sentences
        story = {name: insertion.sentences.get(name) or story[name] for name in order}
    for name in scenario.omit:
        if name not in story:
            raise ValueError(f"omit: {one_of('sentence', name, story)}")
        del story[name]
    return story
