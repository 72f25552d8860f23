"""What an intervention on perspective-taking needs: a false-belief item and the other tellings of its story."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tomserve.items import Factor, Item

HOLDERS = ("protagonist", "other", "reality")
"""Whose belief, or what is really so, a label of `Case.holders` names; the same with IN_TWIN behind it, in the twin."""

IN_TWIN = "_in_twin"


@dataclass(frozen=True, slots=True)
class Case:
    """A question about a false belief, with the tellings that take the protagonist's place.

    The choices of all four stand in the same order and mean the same (Item.meanings where they are worded otherwise).

    f: the item, whose answer is what follows from the false belief. own: p, the story as the protagonist saw it, told
    to "you"; its answer means that of f. own_twin: p~, the twin in which the protagonist noticed, told to "you"; its
    answer means the true-belief choice. twin: the same twin in the third person, None where there is none. family: the
    kind of story, such as "contents", between which a map may transfer. holders: for probes, a label by name, each one
    of f's choices or None: "protagonist", "other" and "reality" (in f), and the same with "_in_twin" (in the twin);
    empty where there are no labels.
    """

    f: Item
    own: Item
    own_twin: Item
    twin: Item | None = None
    family: str = "all"
    holders: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def scenario(self) -> str:
        """The story that the case is about, which is what folds and intervals are drawn over."""
        return self.f.cluster

    @property
    def factors(self) -> Mapping[str, Factor]:
        """The place of f in the design, by which conditions choose cases."""
        return self.f.factors

    @property
    def false_choice(self) -> int:
        """The place, among f's choices, of what follows from the false belief."""
        return self.f.choices.index(self.f.answer)

    @property
    def true_choice(self) -> int:
        """The place, among f's choices, of what follows from the true belief."""
        return self.own_twin.choices.index(self.own_twin.answer)


class NoCase(NamedTuple):
    """A question about a false belief that makes no case. item: the question, or what there is of it. reason: why."""

    item: Item
    reason: str

    @property
    def factors(self) -> Mapping[str, Factor]:
        """The place of the question in the design, by which conditions choose cases."""
        return self.item.factors


def problem(case: Case) -> tuple[Item, str] | None:
    """What keeps a case from being one, with the telling that it is about; None where nothing does."""
    f = case.f
    for telling in (case.own, case.own_twin, *([case.twin] if case.twin is not None else [])):
        if telling.cluster != f.cluster:
            return telling, f"its cluster is {telling.cluster!r:.60}; expected that of {f.id!r}: {f.cluster!r:.60}"
        if len(telling.choices) != len(f.choices):
            return telling, f"it has {len(telling.choices)} choices; expected {len(f.choices)}, as {f.id!r} has"
        meant = [telling.meaning(choice) for choice in telling.choices]
        if meant != list(f.choices):
            what = "stand in another order than" if set(meant) == set(f.choices) else "do not stand for"
            return telling, f"its choices {what} those of {f.id!r}; say by `meanings` which of those each stands for"
    if case.own.meaning(case.own.answer) != f.answer:
        return (
            case.own,
            f"its answer means {case.own.meaning(case.own.answer)!r:.60}; expected {f.answer!r:.60}, as of f",
        )
    if case.true_choice == case.false_choice:
        return case.own_twin, f"its answer means that of {f.id!r}, {f.answer!r:.60}; expected another one"
    if case.twin is not None and case.twin.choices.index(case.twin.answer) != case.true_choice:
        said = case.own_twin.meaning(case.own_twin.answer)
        return case.twin, f"its answer is {case.twin.answer!r:.60}; expected {said!r:.60}, as of {case.own_twin.id!r}"
    for name, label in case.holders.items():
        if label is not None and label not in f.choices:
            return f, f"{name} is {label!r:.60}; expected one of its choices, or none"
    return None
