"""What the agents of a drawn story believe at its end, for any chain of them: quickly, since most stories are not kept.

>>> from tomserve.benchmarks.hitom.dice import Dice
>>> from tomserve.benchmarks.hitom.plan import Cell, Plan
>>> from tomserve.benchmarks.hitom.plot import draw, set_scene
>>> dice, plan, cell = Dice("0:0"), Plan(), Cell(chapters=1, agents=3, tells=2)
>>> plot = draw(dice, plan, cell, set_scene(dice, plan, cell))
>>> names, trace = plot.scene.names, plot.trace("", "released", [])
>>> Minds(plot, "", "released").belief((1, 4)) == trace.label((names[0], names[2]))
True

All that is seen is seen before anything is told, so that a chain believes what it was told last, and else what its
agents saw together last: where the object was when the first of them left. To whom a telling goes, the audiences of the
engine say (tomserve.beliefs), as for the tracker, which makes the gold chains; that both agree is proven by the tests.
"""

from __future__ import annotations

from collections.abc import Sequence

from tomserve.benchmarks.hitom.plot import Plot
from tomserve.benchmarks.hitom.tracker import Semantics


class Minds:
    """What chains of agents believe at the end of a story. A chain is a tuple of agents as bits, the outermost first.

    plot: the story. kind: which twin of it. semantics: by which beliefs are derived. first, second: the first two
    containers in which the object is seen or said to be.
    """

    __slots__ = ("_alone", "_heard", "_kind", "_other", "_plot", "_semantics", "first", "second", "told")

    def __init__(self, plot: Plot, kind: str, semantics: Semantics) -> None:
        self._plot, self._kind, self._semantics = plot, kind, semantics
        self._heard = plot.heard(kind, semantics) if plot.told else []
        self.told = bool(self._heard)
        self.first, self.second = plot.places(kind)
        self._alone: dict[int, str] = {}
        self._other: Minds | None = None

    @property
    def places(self) -> list[str]:
        """The containers in which the object is seen or said to be, in order of their first mention."""
        return list(dict.fromkeys([*self._plot.containers, *[label for _, label in reversed(self._heard)]]))

    def witnessed(self, chain: Sequence[int]) -> str:
        """What these agents saw together last; without agents, what is so."""
        everybody = sum(chain)
        for agent, place in self._plot.leaving:
            if agent & everybody:
                return place
        return self._plot.leaving[-1][1]

    def belief(self, chain: Sequence[int], witnessed: str | None = None) -> str:
        """What the chain believes. witnessed: what its agents saw together last, where that is known already."""
        if self._heard and chain:
            everybody, ending = sum(chain), chain[-1] << 1
            for audience, label in self._heard:
                if not everybody & audience.strangers and (
                    audience.endings & ending if audience.memoryless else audience.takes(chain)
                ):
                    return label
        return self.witnessed(chain) if witnessed is None else witnessed

    def otherwise(self, chain: Sequence[int]) -> str:
        """What the chain believes under the other semantics."""
        if self._other is None:
            other: Semantics = "common_knowledge" if self._semantics == "released" else "released"
            self._other = Minds(self._plot, self._kind, other)
        return self._other.belief(chain)

    def alone(self, agent: int) -> str:
        """What a single agent believes; asked again with every order, and so kept."""
        found = self._alone.get(agent)
        if found is None:
            found = self._alone[agent] = self.belief((agent,))
        return found

    def turned(self, chain: Sequence[int], belief: str) -> bool:
        """Whether the same agents in another order believe something else than `belief`, which is the chain's.

        Each of them is put last in turn, since the order decides nothing else, or at order 2 the whole.
        """
        everybody = sum(chain)
        for audience, _ in self._heard:
            if not everybody & audience.strangers:
                break
        else:
            return False
        witnessed = self.witnessed(chain)
        for at in range(len(chain) - 1):
            if self.belief((*chain[:at], *chain[at + 1 :], chain[at]), witnessed) != belief:
                return True
        return False
