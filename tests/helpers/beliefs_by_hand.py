"""What the engine of beliefs has to find, worked out slowly from its description: sets of chains, and sets of labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations

from tomserve.beliefs import Manner

AGENTS = ("Ada", "Bo", "Cleo", "Dov", "Eve")
BITS = {name: 1 << place for place, name in enumerate(AGENTS)}

Names = tuple[str, ...]
CHAINS: list[Names] = [who for order in range(5) for who in permutations(AGENTS, order)]
"""Every chain of up to four of the five agents, and the empty one."""
MANNERS: dict[str, Manner] = {"view": "view", "read": "read", "hear": "hear", "infer": "infer"}
"""How something is learned by an event of a perturbed story, where it is not simply known then."""


def bits(names: Iterable[str]) -> int:
    """These agents as bits."""
    return sum({BITS[name] for name in names})


def perceived(present: Iterable[str]) -> set[Names]:
    """The chains that take over what these agents see together: all of them alone, and reality."""
    present = set(present)
    return {chain for chain in CHAINS if present.issuperset(chain)}


def noticed(agents: Iterable[str]) -> set[Names]:
    """The chains that take over what each of these agents learns unnoticed."""
    return {(name,) for name in agents}


def told_as_released(speaker: str, hearers: Iterable[str], trusting: Iterable[str]) -> set[Names]:
    """B[h] and B[h, s] change for every hearer h who trusts the speaker s, and B[s, h] for every hearer."""
    others = set(hearers) - {speaker}
    believing = others & set(trusting)
    return {(speaker, h) for h in others} | {(h,) for h in believing} | {(h, speaker) for h in believing}


def told_among_all(speaker: str, hearers: Iterable[str], trusting: Iterable[str]) -> set[Names]:
    """Every chain of agents who all heard or said it, and that ends in a hearer who trusts the speaker."""
    concerned = {speaker, *hearers}
    believing = (set(hearers) & set(trusting)) - {speaker}
    return {chain for chain in CHAINS if chain and concerned.issuperset(chain) and chain[-1] in believing}


class Mind:
    """What somebody may believe: the sets that the manners of learning are described by."""

    def __init__(self) -> None:
        self.possible, self.firm, self.noticed = {"unknown"}, False, set[str]()

    def learns(self, labels: Sequence[str], manner: Manner) -> None:
        """These labels become known to them in this manner."""
        if manner in ("view", "hear"):
            self.possible = self.possible | set(labels)
            self.noticed = self.noticed | set(labels) if manner == "view" else self.noticed
        elif manner == "read":
            self.possible = self.possible if self.firm else set(labels) | self.noticed
        else:
            self.possible, self.noticed = set(labels), set()
            self.firm = self.firm or manner == "learn"


def follow(story: Sequence[Sequence[str]], asked: str) -> list[tuple[set[str], set[str]]]:
    """Reality and what a person believes after each sentence of a perturbed story, event by event. story: the events
    of each sentence, in the forms of tomserve.benchmarks.perturbed.validation_1, with labels of one letter."""
    world, mind, armed, knowing = {"unknown"}, Mind(), "", False
    found = []
    for events in story:
        for text in events:
            verb, *words = text.replace(",", " ").split()
            concerned, labels = asked in words, [word for word in words if len(word) == 1]
            if verb == "world":
                world = set(labels)
            elif verb == "arm":
                (armed,), knowing, concerned = labels, concerned, False
            elif verb in ("pass", "stall"):
                world = {armed} if verb == "pass" else world
                concerned, labels = knowing and concerned, [armed]
            elif verb in ("see", "view"):
                labels = sorted(world)
            if concerned:
                mind.learns(labels, MANNERS.get(verb, "learn"))
        found.append((set(world), set(mind.possible)))
    return found
