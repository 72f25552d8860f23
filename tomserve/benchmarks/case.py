"""What an intervention on a model's perspective-taking needs: a false-belief item and the other tellings of its story."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tomserve.items import Item


@dataclass(frozen=True, slots=True)
class Case:
    """A question about a false belief, with the tellings that take the protagonist's place.

    The choices of all four stand in the same order and mean the same (Item.meanings where they are worded otherwise).

    f: the item, whose answer is what follows from the false belief. own: p, the story as the protagonist saw it, told to
    "you"; its answer means that of f. own_twin: p~, the twin in which the protagonist noticed, told to "you"; its answer
    means the true-belief choice. twin: the same twin in the third person, None where there is none. family: the kind of
    story, such as "contents", between which a map may transfer. holders: for probes, a label by name, each one of f's
    choices or None: "protagonist", "other" and "reality" (in f), and the same with "_in_twin" (in the twin).
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
    def false_choice(self) -> int:
        """The place, among f's choices, of what follows from the false belief."""
        return self.f.choices.index(self.f.answer)

    @property
    def true_choice(self) -> int:
        """The place, among f's choices, of what follows from the true belief."""
        return self.own_twin.choices.index(self.own_twin.answer)
