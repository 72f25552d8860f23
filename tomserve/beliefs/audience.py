"""Who takes something over from a line of a story: a finite automaton that reads a chain of agents.

>>> ann, ben, cem = 1, 2, 4
>>> seen = together(ann | ben)                      # Ann and Ben see it, and see each other see it
>>> seen.takes(()), seen.takes((ann, ben)), seen.takes((ann, cem))
(True, True, False)

It is an action model with one arrow an agent (Baltag, Moss and Solecki 1998): from each way in which an event may look,
every agent concerned leads to the way in which it looks to that agent. What Ann thinks that Ben thinks follows two
arrows. One form serves for seeing, secret looks, and both readings of tellings.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Audience:
    """The chains of agents that take something over.

    steps: for each state pairs of agents (as bits of an integer) and the state to which each of them leads; the first
    pair that has the agent counts, and an agent whom none has leads nowhere. accepting: the states, as bits, in which
    a chain may end. Reading begins in state 0; the empty chain is what is really so. Raises ValueError for agents that
    are a negative number (such as ~ann), because those would be more than any story has.
    """

    steps: tuple[tuple[tuple[int, int], ...], ...]
    accepting: int
    leads: tuple[dict[int, int], ...] = field(init=False, compare=False, repr=False)  # the steps by agent

    def __post_init__(self) -> None:
        leads = []
        for pairs in self.steps:
            found: dict[int, int] = {}
            for agents, following in reversed(pairs):
                found |= dict.fromkeys(_each(agents), following)
            leads.append(found)
        object.__setattr__(self, "leads", tuple(leads))

    def takes(self, chain: Sequence[int]) -> bool:
        """Whether this chain takes it over. chain: the agents as bits, the outermost first."""
        state = 0
        for agent in chain:
            state = self.leads[state].get(agent, -1)
            if state < 0:
                return False
        return self.accepting >> state & 1 == 1


def _each(agents: int) -> Iterator[int]:
    if agents < 0:
        raise ValueError(f"agents are bits of a number from 0, not of {agents}; name those of the story")
    while agents:
        yield agents & -agents
        agents &= agents - 1


@lru_cache(maxsize=4096)
def together(agents: int) -> Audience:
    """The audience of what really happens and what these agents perceive together, each aware of all the others."""
    return Audience((((agents, 0),),), 1)


@lru_cache(maxsize=4096)
def apart(agents: int) -> Audience:
    """The audience of what each of these agents learns unnoticed by anybody else: the chains of one of them alone."""
    return Audience((((agents, 1),), ()), 0b10)


@lru_cache(maxsize=4096)
def hearsay(speaker: int, hearers: int, trusting: int) -> Audience:
    """The audience of a telling, up to second order: who trusts the speaker takes it over and thinks that the speaker
    thinks so, too; the speaker thinks that every hearer took it over. What the speaker believes does not change."""
    trusts = trusting & hearers & ~speaker
    return Audience((((speaker, 1), (trusts, 2)), ((hearers & ~speaker, 3),), ((speaker, 3),), ()), 0b1100)


@lru_cache(maxsize=4096)
def shared_hearsay(speaker: int, hearers: int, trusting: int) -> Audience:
    """The audience of a telling of which all concerned know who heard it and who trusts whom: every chain of them that
    ends in a hearer who trusts the speaker."""
    trusts = trusting & hearers & ~speaker
    both = ((trusts, 1), (speaker | hearers, 0))
    return Audience((both, both), 0b10)
