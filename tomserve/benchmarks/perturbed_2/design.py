"""What the whole second edition has to hold, as ``dataset/perturbed-2/design.yaml`` says, and whether it does."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from tomserve import content
from tomserve.benchmarks.perturbed.stagefile import PERTURBATIONS, in_false_belief_subset
from tomserve.benchmarks.perturbed_2.stage import Stage
from tomserve.benchmarks.perturbed_2.stagefile import ROLES
from tomserve.content.validation import load_model
from tomserve.errors import ConfigError
from tomserve.items import UNKNOWN, Item
from tomserve.scoring.baselines import list_mentions

FILE = "dataset/perturbed-2/design.yaml"
Kind = Literal["unexpected_contents", "unexpected_transfer"]
Share = Annotated[float, Field(ge=0, le=1)]


class Versions(BaseModel):
    """How many stories of the false-belief scenario a task has, at least and at most: of the class none, of others."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    none: tuple[int, int]
    perturbed: tuple[int, int]


class Design(BaseModel):
    """What the edition has to hold.

    stages: their names by kind. lacks: the classes that a kind of stage cannot carry. versions: see Versions.
    questions: how many items, at least and at most. unknown_realities: how many stories of a stage, at least, never
    settle reality. least_share: the least share that each role, place and order of mention of the right answer has in
    every class of the false-belief subset. second_wordings: the least share of the sentences that versions share that
    have a second wording. twin_words: the largest number of words in which the stories of a minimal pair differ.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    schema_: Literal[1] = Field(alias="schema")
    stages: dict[Kind, tuple[str, ...]]
    lacks: dict[Kind, frozenset[str]] = {}
    versions: Versions
    questions: tuple[int, int]
    unknown_realities: int
    least_share: Share
    second_wordings: Share
    twin_words: int

    def classes(self, kind: Kind) -> set[str]:
        """The classes of which every stage of this kind has a task."""
        return set(PERTURBATIONS) - self.lacks.get(kind, frozenset())


def load_design() -> Design:
    """The design of the edition. Raises ConfigError where there is none, ContentError by line for a mistake in it."""
    path = content.find(FILE)
    if path is None:
        raise ConfigError(f"{FILE} is missing, which says what the second edition holds; restore it")
    return load_model(path, Design)


def of_design(stages: Sequence[Stage], items: Sequence[Item], design: Design) -> Iterator[str]:
    """The problems of the whole edition: its stages and classes, its size, and how right answers are spread."""
    kinds = {name: kind for kind, names in design.stages.items() for name in names}
    found = {stage.file.stage: stage for stage in stages}
    for name in sorted(set(kinds) - set(found)):
        yield f"The stage {name} is missing; the design ({FILE}) names it."
    for name, stage in found.items():
        if kinds.get(name) != stage.file.kind:
            said = f"as {kinds[name]}" if name in kinds else "not at all"
            yield f"{stage.path}: The stage {name} is of the kind {stage.file.kind}; the design names it {said}."
            continue
        for task in sorted(design.classes(stage.file.kind) ^ set(stage.file.tasks)):
            wrong = "has no task of" if task not in stage.file.tasks else "has a task that the design does not foresee:"
            yield f"{stage.path}: The stage {name} {wrong} the class {task}."
    low, high = design.questions
    if not low <= len(items) <= high:
        yield f"There are {len(items)} questions, expected {low} to {high}."
    yield from canaries(stages)
    yield from balance(items, design.least_share)


def canaries(stages: Sequence[Stage]) -> Iterator[str]:
    """The problems of the canary, the line by which a text is known to be benchmark data: all stages have the same."""
    usual = Counter(stage.file.canary for stage in stages if stage.file.canary).most_common(1)
    for stage in stages:
        if not stage.file.canary:
            yield f"{stage.path}: The canary is missing; copy it from another stage."
        elif stage.file.canary != usual[0][0]:
            line = stage.lines.at(("canary",))
            yield f"{stage.path}:{line}: The canary is another than in most stages; copy it from one of these."


def shares(items: Sequence[Item]) -> Mapping[tuple[str, str], Counter[str]]:
    """How often the right answer of the false-belief subset is what, by class and by what is counted: its role, its
    place among the choices, and whether it is the label mentioned first, or last."""
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for item in items:
        if not in_false_belief_subset(item.factors):
            continue
        name, named = str(item.factors["perturbation"]), list_mentions(item)
        counted = {"role": str(item.factors["belief_role"]), "place": str(item.choices.index(item.answer) + 1)}
        for what, label in (("first", named[:1]), ("last", named[-1:])):
            here = what if (item.answer,) == label else f"not {what}"
            counted[f"{what} mention"] = UNKNOWN if item.answer == UNKNOWN else here
        for what, value in counted.items():
            found[name, what][value] += 1
    return found


VALUES = {
    "role": ROLES,
    "place": ("1", "2", "3"),
    "first mention": ("first", "not first"),
    "last mention": ("last", "not last"),
}
"""The values that have to come up equally often, by what is counted (see shares)."""


def balance(items: Sequence[Item], least: float) -> Iterator[str]:
    """The problems of how right answers are spread: in each class but none over roles, places and orders of mention;
    and that "unknown" is an answer of questions about reality too."""
    for (name, what), counts in sorted(shares(items).items()):
        if name == "none":
            continue
        total = counts.total()
        for value in VALUES[what]:
            if counts[value] < least * total:
                yield (
                    f"In the class {name} the right answer's {what} is {value!r} in {counts[value]} of {total} "
                    f"questions of the false-belief subset; expected {least:.0%} at least."
                )
    if not any(item.answer == UNKNOWN for item in items if item.factors["question_kind"] == "reality"):
        yield "No question about reality has the answer 'unknown'."
