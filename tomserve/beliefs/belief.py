"""What one chain of agents believes at a moment, and how each manner of learning changes it.

>>> start = Belief()
>>> start.after(("tea",), "read").after(("salt",), "learn").after(("tea",), "read").labels
('salt',)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from tomserve.items import UNKNOWN

Manner = Literal["learn", "infer", "read", "view", "hear"]
"""How something comes to be known.

learn: first-hand, or from somebody who is trusted and believed: it replaces what was believed.
infer: concluded, say from habit: it replaces what was believed, but a label that is read later outweighs it.
read: from a label or sign: it replaces what was believed unless that was first-hand or trusted.
view: it stands in plain view, so that it may be noticed sooner or later: it is added to what is possible.
hear: from somebody whom one cannot judge yet: it is added to what is possible.
"""


class Belief(NamedTuple):
    """What may be believed: the possible labels, in the order in which they came up.

    labels: at least one. firm: whether it is first-hand or from somebody trusted. viewed: labels that may have been
    noticed first-hand already.
    """

    labels: tuple[str, ...] = (UNKNOWN,)
    firm: bool = False
    viewed: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The only label that is possible. Raises ValueError where there are several."""
        try:
            (label,) = self.labels
        except ValueError:
            raise ValueError(f"several labels are possible: {', '.join(self.labels)}") from None
        return label

    def after(self, labels: tuple[str, ...], manner: Manner) -> Belief:
        """The belief once these labels became known in this manner (see Manner)."""
        if manner == "learn":
            return _learned(labels)
        if manner == "infer":
            return Belief(labels, firm=self.firm)
        if manner == "read":
            if self.firm:
                return self
            return Belief(_joined(labels, self.viewed), viewed=self.viewed)
        if manner == "view":
            return Belief(_joined(self.labels, labels), self.firm, _joined(self.viewed, labels))
        return Belief(_joined(self.labels, labels), self.firm, self.viewed)


NOTHING = Belief()
"""What everybody believes before anything is known: "unknown"."""


@lru_cache(maxsize=4096)
def _learned(labels: tuple[str, ...]) -> Belief:
    """What whoever learns these labels believes, whatever it was before. Most beliefs are such, so they are kept."""
    return Belief(labels, firm=True)


def _joined(labels: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*labels, *more)))
