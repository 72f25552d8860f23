"""Belief traces: all updates of one matter in a story, and what any chain of agents believes after each line.

A chain is a path of agents, the outermost first; the empty chain is reality. Belief is a set of possible labels.

    >>> start = Belief()
    >>> start.after(("tea",), "read").after(("salt",), "learn").after(("tea",), "read").labels
    ('salt',)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from tomserve.beliefs.audience import Audience
from tomserve.items import UNKNOWN

Manner = Literal["learn", "infer", "read", "view", "hear", "doubt", "expect"]
"""How something comes to be known.

learn: first-hand, or from somebody who is trusted and believed: it replaces what was believed, and is firm.
infer: concluded, say from habit: it replaces what was believed, but is not firm.
read: from a label or sign: it replaces what was believed unless that was firm.
view: it stands in plain view, so that it may be noticed sooner or later: it is added to what is possible, as firm.
hear: from somebody whom one cannot judge yet: it is added to what is possible unless what was believed is firm.
doubt: what was firm is so no longer; no label is named.
expect: a change to it may have come: it is added to what is possible, as firm as what was believed.
"""

Possible = tuple[str, bool]
"""A label that is possible, and whether it is firm: first-hand, or from somebody trusted."""


def follow(now: Possible, labels: Sequence[str], manner: Manner) -> list[Possible]:
    """What may be believed, instead of what was believed, once these labels became known in this manner."""
    named = [(label, manner in ("learn", "view")) for label in labels]
    if manner in ("learn", "infer"):
        return named
    if manner == "doubt":
        return [(now[0], False)]
    if manner == "expect":
        return [now, *((label, now[1]) for label in labels)]
    if manner == "view":
        return [now, *named]
    if now[1]:
        return [now]
    return named if manner == "read" else [now, *named]


class Belief(NamedTuple):
    """What may be believed, in the order in which it came up; at least one."""

    possible: tuple[Possible, ...] = ((UNKNOWN, False),)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that are possible, each once."""
        if len(self.possible) == 1:  # nearly always
            return (self.possible[0][0],)
        return tuple(dict.fromkeys(label for label, _ in self.possible))

    @property
    def firm(self) -> bool:
        """Whether whatever is possible is first-hand or from somebody trusted."""
        return all(firm for _, firm in self.possible)

    @property
    def label(self) -> str:
        """The only label that is possible. Raises ValueError where there are several."""
        if len(self.possible) > 1 and len(self.labels) > 1:
            raise ValueError(f"several labels are possible: {', '.join(self.labels)}")
        return self.possible[0][0]

    def after(self, labels: tuple[str, ...], manner: Manner) -> Belief:
        """The belief once these labels became known in this manner (see Manner)."""
        if manner == "learn":
            return _certain_of(labels)
        return Belief(tuple(dict.fromkeys(then for now in self.possible for then in follow(now, labels, manner))))


NOTHING = Belief()
"""What everybody believes before anything is known: "unknown"."""


@lru_cache(maxsize=4096)
def _certain_of(labels: tuple[str, ...]) -> Belief:
    """What whoever learns these labels believes, whatever it was before. Most beliefs are such, so they are kept."""
    return Belief(tuple((label, True) for label in labels))


class Layer(NamedTuple):
    """What is possible after one line: the labels, sorted, and the pairs (label after the line before, label after
    this one) that may follow each other, sorted."""

    labels: tuple[str, ...]
    steps: tuple[tuple[str, str], ...]


Chain = Sequence[str]
"""Whose belief: the agents, the outermost first; empty for what is really so."""


class Update(NamedTuple):
    """Something that a line of the story makes known."""

    line: int  # the 0-based index of the line
    labels: tuple[str, ...]  # what becomes known; several where each of them is possible
    audience: Audience  # the chains that take it over
    manner: Manner = "learn"


@dataclass(frozen=True, slots=True)
class Trace:
    """The updates about one matter, in the order of the story. lines: how many it has. bits: the bit of each agent."""

    lines: int
    bits: Mapping[str, int]
    updates: tuple[Update, ...]

    @classmethod
    def of(cls, lines: int, agents: Iterable[str], updates: Callable[[Mapping[str, int]], Iterable[Update]]) -> Trace:
        """A trace whose updates are made by a function that is given the agents' bits."""
        bits = {name: 1 << place for place, name in enumerate(dict.fromkeys(agents))}
        return cls(lines, bits, tuple(updates(bits)))

    def accept_updates(self, chain: Chain) -> list[Update]:
        """The updates that the chain takes over; none where it has an agent whom the story does not know. Raises
        ValueError for an agent who stands in the chain twice, because no audience says what that means."""
        agents = self._bits_of(chain)
        return [update for update in self.updates if update.audience.takes(agents)]

    def _bits_of(self, chain: Chain) -> list[int]:
        if len(set(chain)) < len(chain):
            raise ValueError(f"an agent is asked about twice in {' > '.join(chain)}; name every agent once")
        return [self.bits.get(name, 0) for name in chain]

    def belief(self, chain: Chain) -> Belief:
        """What the chain believes at the story's end. Raises ValueError as `accept_updates` does."""
        agents, taken = self._bits_of(chain), list[Update]()
        for update in reversed(self.updates):
            if update.audience.takes(agents):
                taken.append(update)
                if update.manner == "learn":  # whatever was believed before does not matter
                    break
        now = NOTHING
        for update in reversed(taken):
            now = now.after(update.labels, update.manner)
        return now

    def label(self, chain: Chain) -> str:
        """The one label that the chain believes at the story's end. Raises ValueError as `accept_updates` does, and
        where several labels are possible."""
        return self.belief(chain).label

    def spans(self, chain: Chain) -> Iterator[tuple[Belief, int]]:
        """What the chain believes one thing after another, each with the number of lines for which it lasts. Raises
        ValueError as `accept_updates` does."""
        now, since = NOTHING, 0
        for update in self.accept_updates(chain):
            if update.line > since:
                yield now, update.line - since
                since = update.line
            now = now.after(update.labels, update.manner)
        yield now, self.lines - since

    def chain(self, chain: Chain) -> list[str]:
        """The one label that the chain believes after each line [lines]. Raises ValueError as `label` does."""
        return [label for belief, lines in self.spans(chain) if lines for label in [belief.label] * lines]

    def layers(self, chain: Chain) -> list[Layer]:
        """What is possible for the chain after each line, and what may follow what [lines]. Raises ValueError as
        `accept_updates` does."""
        updates, now, found = self.accept_updates(chain), set(NOTHING.possible), []
        for line in range(self.lines):
            steps = {(label, (label, firm)) for label, firm in now}
            for update in updates:
                if update.line == line:
                    steps = {
                        (before, then) for before, one in steps for then in follow(one, update.labels, update.manner)
                    }
            now = {then for _, then in steps}
            pairs = sorted({(before, label) for before, (label, _) in steps})
            found.append(Layer(tuple(sorted({label for label, _ in now})), tuple(pairs)))
        return found
