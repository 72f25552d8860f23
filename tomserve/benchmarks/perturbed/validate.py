"""Check the structure of the perturbed dataset: counts, factors, balance, controls, leaks, readability, events.

    tomserve dataset validate

Each check yields one line for each problem; no line means that the property holds for every item. Mistakes within one
stage file are refused earlier, when it is read (tomserve.benchmarks.perturbed.stagecheck). What the whole dataset has
to hold is written in ``dataset/design.yaml``.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from tomserve import content
from tomserve.benchmarks.findings import Findings, outcome
from tomserve.benchmarks.perturbed.events import track
from tomserve.benchmarks.perturbed.stagefile import (
    QUESTION_KINDS,
    SCENARIOS,
    UNKNOWN,
    Sentence,
    Stage,
    in_false_belief_subset,
    story_of,
)
from tomserve.content.validation import load_model
from tomserve.errors import ConfigError
from tomserve.items import Item, items_digest

# Classes in which the asked person infers something, which the author has to state.
INFERENCE = ("induction_from_baseline", "untrustworthy_testimony", "conclusion_from_sentiment")
SENTENCES = (5, 12)
WORDS_A_SENTENCE = 30
WORDS_ON_AVERAGE = 18.0


class Layer(NamedTuple):
    """The hand-written and the derived set of labels after one sentence, of reality or of the asked person's belief."""

    cluster: str
    scenario: str
    sentence: str
    which: str
    written: frozenset[str]
    derived: frozenset[str]


@dataclass(frozen=True)
class Dataset:
    """The stages and the items that are derived from them."""

    stages: list[Stage]
    items: list[Item]


class Design(BaseModel):
    """What the whole dataset has to hold, as ``dataset/design.yaml`` says.

    items, false_belief_subset: numbers of items. critical: the classes of which about half of the tasks take the
    critical form (the cue agrees with reality). stages: the classes of each stage.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    schema_: Literal[1] = Field(alias="schema")
    items: int
    false_belief_subset: int
    critical: frozenset[str]
    stages: dict[str, frozenset[str]]


def load_design() -> Design:
    """The design of the dataset. Raises ConfigError where there is none, ContentError by line for a mistake in it."""
    path = content.find("dataset/design.yaml")
    if path is None:
        raise ConfigError("dataset/design.yaml is missing, which says what the whole dataset holds; restore it")
    return load_model(path, Design)


def findings(stages: list[Stage]) -> Findings:
    """The check as lines: one for each stage, one for each problem, and a summary. The exit code is 1 for problems."""
    from tomserve.benchmarks.perturbed import retelling  # imported here, because it needs the second edition's checks

    listed = [*problems(stages), *retelling.problems(stages)]
    lines = []
    for stage in stages:
        tasks = stage.file.tasks
        lines.append(f"{stage.file.stage}: {len(tasks)} tasks, {16 * len(tasks)} items, {stage.file.kind}")
    lines += [f"problem: {problem}" for problem in listed]
    total = 16 * sum(len(stage.file.tasks) for stage in stages)
    digest = items_digest(item for stage in stages for item in stage.items("perturbed"))
    lines.append(f"{total} items in {len(stages)} stages, {digest[:19]}: {outcome(listed)}")
    return Findings(lines=tuple(lines), code=1 if listed else 0)


def problems(stages: list[Stage]) -> Iterator[str]:
    """One line for each problem. The counts of the design are checked only where all stages seem to be there."""
    data = Dataset(stages, [item for stage in stages for item in stage.items("perturbed")])
    wanted = load_design()
    checks: list[Callable[[Dataset], Iterator[str]]] = [
        factors,
        duplicates,
        balance,
        leaks,
        partial(controls, critical=wanted.critical),
        readability,
        events,
    ]
    if {stage.file.stage for stage in stages} >= {"C1", "T1"}:
        checks = [partial(design, wanted=wanted), partial(critical_forms, critical=wanted.critical), *checks]
    for check in checks:
        yield from check(data)


def design(data: Dataset, wanted: Design) -> Iterator[str]:
    """Check that there are the tasks and the numbers of items that the design wants."""
    for place, classes in wanted.stages.items():
        found = next((set(s.file.tasks) for s in data.stages if s.file.stage == place), set())
        for name in sorted(classes ^ found):
            yield f"{place}/{name}: {'is missing' if name in classes else 'is not in the design'}"
    for stage in data.stages:
        if stage.file.stage not in wanted.stages:
            yield f"{stage.file.stage}: is not in the design"
    subset = [i for i in data.items if in_false_belief_subset(i.factors)]
    for what, count, expected in (
        ("items", len(data.items), wanted.items),
        ("false-belief subset", len(subset), wanted.false_belief_subset),
    ):
        if count != expected:
            yield f"{what}: {count}, expected {expected}"


def critical_forms(data: Dataset, critical: frozenset[str]) -> Iterator[str]:
    """Check that about half of the tasks of the critical classes take the critical form, and no task of other classes;
    and that `aware` is true in some tasks and false in others of its class, and missing elsewhere."""
    forms: dict[str, list[bool]] = defaultdict(list)
    aware: dict[str, list[bool | None]] = defaultdict(list)
    for stage in data.stages:
        for name, task in stage.file.tasks.items():
            forms[name].append(task.critical_form)
            aware[name].append(task.aware)
    for name, found in forms.items():
        share = sum(found) / len(found)
        if name in critical and not 0.4 <= share <= 0.6:
            yield f"{name}: {sum(found)} of {len(found)} tasks take the critical form, expected about half"
        if name not in critical and share:
            yield f"{name}: takes the critical form, which is not foreseen for this class"
        if name == "automatic_change_knowledge" and set(aware[name]) != {True, False}:
            yield f"{name}: `aware` must be true in some tasks and false in others"
        if name != "automatic_change_knowledge" and set(aware[name]) != {None}:
            yield f"{name}: `aware` is for automatic_change_knowledge only"


def factors(data: Dataset) -> Iterator[str]:
    """Check that a task has each combination of scenario, question and swap once, and a stage one set of choices."""
    cells = Counter(
        (i.cluster, i.factors["scenario"], i.factors["question_kind"], i.factors["swapped"]) for i in data.items
    )
    for stage in data.stages:
        for name in stage.file.tasks:
            for scenario in SCENARIOS[stage.file.kind]:
                for kind in QUESTION_KINDS:
                    for swapped in (False, True):
                        cell = (f"{stage.file.stage}/{name}", scenario, kind, swapped)
                        if cells[cell] != 1:
                            yield f"{'/'.join(map(str, cell))}: {cells[cell]} items, expected 1"
        sets = {frozenset(i.choices) for i in data.items if i.factors["stage"] == stage.file.stage}
        if len(sets) != 1 or UNKNOWN not in next(iter(sets)):
            yield f"{stage.file.stage}: the choice set differs between tasks, or lacks {UNKNOWN!r}"


def duplicates(data: Dataset) -> Iterator[str]:
    """Check that no story occurs twice."""
    seen: dict[tuple[str, ...], str] = {}
    for item in data.items:
        if item.factors["question_kind"] == "belief":
            first = seen.setdefault(item.story, item.id)
            if first != item.id:
                yield f"{item.id}: tells the same story as {first}"


def balance(data: Dataset) -> Iterator[str]:
    """Check that each label of a task is the answer equally often, and that its items have one order of choices."""
    answers: dict[str, Counter[str]] = defaultdict(Counter)
    orders: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    labels: dict[str, set[str]] = {}
    for item in data.items:
        answers[item.cluster][item.answer] += 1
        orders[item.cluster].add(item.choices)
        labels[item.cluster] = set(item.choices[:]) - {UNKNOWN}
    slots = {stage.file.stage: [slot.label for slot in stage.file.slots.values()] for stage in data.stages}
    for cluster, count in answers.items():
        x, y = slots[cluster.split("/")[0]]
        if count[x] != count[y]:
            yield f"{cluster}: {x!r} is the answer {count[x]} times, {y!r} {count[y]} times"
        if len(orders[cluster]) != 1:
            yield f"{cluster}: the order of choices differs between items"
    rotations = Counter(next(iter(found)).index(UNKNOWN) for found in orders.values())
    if len(answers) > 30 and max(rotations.values()) > 0.6 * len(answers):
        yield f"choices: {UNKNOWN!r} stands at one place in {max(rotations.values())} of {len(answers)} tasks"


def leaks(data: Dataset) -> Iterator[str]:
    """Check that no question names a label or asks about the future."""
    for item in data.items:
        for choice in item.choices:
            if re.search(rf"\b{re.escape(choice)}\b", item.question, re.I):
                yield f"{item.id}: the question names the label {choice!r}"
        if "will " in item.question:
            yield f"{item.id}: asks about the future, not about a belief"


def controls(data: Dataset, critical: frozenset[str]) -> Iterator[str]:
    """Check what each scenario and class must make of reality and belief, by the designs of paper and dataset."""
    belief = {
        (item.cluster, item.factors["scenario"]): item
        for item in data.items
        if item.factors["question_kind"] == "belief" and not item.factors["swapped"]
    }
    reality = {
        (item.cluster, item.factors["scenario"]): item.answer
        for item in data.items
        if item.factors["question_kind"] == "reality" and not item.factors["swapped"]
    }
    for (cluster, scenario), item in belief.items():
        name, cue, real = item.factors["perturbation"], item.factors["cue"], reality[cluster, scenario]
        if scenario in ("informed_protagonist", "open_container", "present_protagonist") and item.answer != real:
            yield f"{item.id}: the person is told or sees, but the belief is not the reality"
        if real == UNKNOWN:
            yield f"{item.id}: the story never settles reality"
        if scenario != "false_belief":
            continue
        if name in ("none", "add_unrelated_information") and (item.answer != cue or item.answer == real):
            yield f"{item.id}: a classic false belief must be the cue and differ from reality"
        if name in ("transparent_container", "preposition_replacement") and item.answer != real:
            yield f"{item.id}: the person sees, but the belief is not the reality"
        if name == "uninformative_label" and item.answer != UNKNOWN:
            yield f"{item.id}: an unreadable label must leave the belief {UNKNOWN!r}"
        if item.factors["critical_form"] and (cue != real or item.answer in (cue, UNKNOWN)):
            yield f"{item.id}: in the critical form the cue agrees with reality and the belief is the other label"
        if name in critical and not item.factors["critical_form"] and item.answer == cue:
            yield f"{item.id}: a perturbed belief must differ from the cue"


def readability(data: Dataset) -> Iterator[str]:
    """Check that stories are neither too short nor too long, and sentences not too long."""
    for item in data.items:
        if item.factors["question_kind"] == "reality":
            continue
        low, high = SENTENCES
        if not low <= len(item.story) <= high:
            yield f"{item.id}: {len(item.story)} sentences, expected {low} to {high}"
        words = [len(sentence.split()) for sentence in item.story]
        if max(words) > WORDS_A_SENTENCE or sum(words) / len(words) > WORDS_ON_AVERAGE:
            yield f"{item.id}: longest sentence {max(words)} words, {sum(words) / len(words):.1f} on average"


def events(data: Dataset) -> Iterator[str]:
    """Check that the events give the hand-written gold, and that only the classes that need it state inference."""
    for stage in data.stages:
        for name, task in stage.file.tasks.items():
            for scenario in SCENARIOS[stage.file.kind]:
                where = f"{stage.file.stage}/{name}/{scenario}"
                story = story_of(task, task.scenarios[scenario])
                inferring = [key for key, sentence in story.items() if _infers(sentence)]
                if inferring and name not in INFERENCE:
                    yield f"{where}/{inferring[0]}: `infer` belongs to {', '.join(INFERENCE)} only"
    try:
        for layer in cross_check(data.stages):
            if layer.written != layer.derived:
                yield (
                    f"{layer.cluster}/{layer.scenario}/{layer.sentence}: {layer.which} is written as "
                    f"{_set(layer.written)}, events give {_set(layer.derived)}"
                )
    except ValueError as error:
        yield str(error)


def _infers(sentence: Sentence) -> bool:
    return any(event.startswith("infer ") for event in sentence.events)


def _set(labels: frozenset[str]) -> str:
    return "{" + ", ".join(sorted(labels)) + "}"


def cross_check(stages: Sequence[Stage], *, inference: bool = True) -> Iterator[Layer]:
    """The hand-written and the derived sets after every sentence of every story. Raises ValueError for a bad event."""
    for stage in stages:
        for name, task in stage.file.tasks.items():
            for scenario in SCENARIOS[stage.file.kind]:
                version = task.scenarios[scenario]
                story = story_of(task, version)
                cluster = f"{stage.file.stage}/{name}"
                try:
                    derived = track([s.events for s in story.values()], stage.asked(name), inference=inference)
                except ValueError as error:
                    raise ValueError(f"{cluster}/{scenario}: {error}") from None
                for key, (world, belief) in zip(story, derived, strict=True):
                    gold = version.gold[key]
                    yield Layer(cluster, scenario, key, "world", frozenset(gold.world), frozenset(world))
                    yield Layer(cluster, scenario, key, "belief", frozenset(gold.belief), frozenset(belief))
