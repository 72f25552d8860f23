"""A story read once for one matter, such as where the key is: all updates that can change what anybody believes of it.

No table of chains is kept, because their number grows with every order; a question scans the few updates instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tomserve.beliefs.audience import Audience
from tomserve.beliefs.belief import Belief, Manner

Chain = Sequence[str]
"""Whose belief: the agents, the outermost first; empty for what is really so."""


@dataclass(frozen=True, slots=True)
class Update:
    """Something that a line of the story makes known.

    line: the 0-based index of the line. labels: what becomes known; several where each of them is possible. audience:
    the chains that take it over. manner: how they learn it (see Manner).
    """

    line: int
    labels: tuple[str, ...]
    audience: Audience
    manner: Manner = "learn"


@dataclass(frozen=True, slots=True)
class Trace:
    """The updates about one matter, in the order of the story.

    lines: how many lines the story has. bits: the bit of each agent. updates: the updates.
    """

    lines: int
    bits: Mapping[str, int]
    updates: tuple[Update, ...]

    @classmethod
    def of(cls, lines: int, agents: Iterable[str], updates: Callable[[Mapping[str, int]], Iterable[Update]]) -> Trace:
        """A trace whose updates are made by a function that is given the agents' bits."""
        bits = {name: 1 << place for place, name in enumerate(dict.fromkeys(agents))}
        return cls(lines, bits, tuple(updates(bits)))

    def taken(self, chain: Chain) -> list[Update]:
        """The updates that the chain takes over; none where it has an agent whom the story does not know.

        Raises ValueError for an agent who stands in the chain twice, because no audience says what that means.
        """
        if len(set(chain)) < len(chain):
            raise ValueError(f"an agent is asked about twice in {' > '.join(chain)}; name every agent once")
        agents = [self.bits.get(name, 0) for name in chain]
        if not all(agents):
            return []
        return [update for update in self.updates if update.audience.takes(agents)]

    def beliefs(self, chain: Chain) -> list[Belief]:
        """What the chain believes after each line [lines]."""
        found: list[Belief] = []
        now = Belief()
        for update in self.taken(chain):
            found += [now] * (update.line - len(found))
            now = now.after(update.labels, update.manner)
        return found + [now] * (self.lines - len(found))

    def belief(self, chain: Chain) -> Belief:
        """What the chain believes at the story's end."""
        now = Belief()
        for update in self.taken(chain):
            now = now.after(update.labels, update.manner)
        return now

    def chain(self, chain: Chain) -> list[str]:
        """The one label that the chain believes after each line [lines]. Raises ValueError where there are several."""
        return [_one(belief) for belief in self.beliefs(chain)]


def _one(belief: Belief) -> str:
    if len(belief.labels) > 1:
        raise ValueError(f"several labels are possible: {', '.join(belief.labels)}")
    return belief.labels[0]
