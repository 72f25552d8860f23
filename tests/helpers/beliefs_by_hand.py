"""What the engine of beliefs has to find, worked out slowly from its description: sets of chains, and sets of labels."""

from collections.abc import Iterable, Sequence
from itertools import permutations

from tomserve.beliefs import Manner

AGENTS = ("Ada", "Bo", "Cleo", "Dov", "Eve")
BITS = {name: 1 << place for place, name in enumerate(AGENTS)}

Names = tuple[str, ...]
CHAINS: list[Names] = [who for order in range(5) for who in permutations(AGENTS, order)]
"""Every chain of up to four of the five agents, and the empty one."""


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
    """What somebody may believe: every label that is possible, and whether it is firm, one history after the other."""

    def __init__(self) -> None:
        self.possible = {("unknown", False)}

    @property
    def labels(self) -> set[str]:
        """The labels that are possible."""
        return {label for label, _ in self.possible}

    def learns(self, labels: Sequence[str], manner: Manner) -> None:
        """These labels become known to them in this manner."""
        named, then = set(labels), set[tuple[str, bool]]()
        for label, firm in self.possible:
            if manner in ("learn", "infer"):
                then |= {(one, manner == "learn") for one in named}
            elif manner == "view":
                then |= {(label, firm)} | {(one, True) for one in named}
            elif manner == "doubt":
                then.add((label, False))
            elif manner == "expect":
                then |= {(one, firm) for one in (label, *named)}
            elif firm:
                then.add((label, True))
            else:
                then |= {(one, False) for one in named | ({label} if manner == "hear" else set())}
        self.possible = then
