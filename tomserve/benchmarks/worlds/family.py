"""The type of a family of worlds: one kind of story, with the scenarios that tell its versions apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tomserve.benchmarks.worlds.draft import Draft
from tomserve.benchmarks.worlds.lexicon import Lexicon
from tomserve.benchmarks.worlds.record import World


@dataclass(frozen=True)
class Family:
    """A family of worlds.

    name: what items, files of phrasings and options call it. draw: a function of a new draft and a scenario that
    returns the finished world. versions: the groups of scenarios in which a world is told, all scenarios of a group for
    one world; worlds take the groups in turn. twins: for scenarios in which the protagonist misses something, the
    scenario of the twin, in which the protagonist notices. protagonist: the key of the person that the twins and the
    second person are about. most: how many questions of a telling are asked, drawn from those that the family has, the
    same in all scenarios of a world. reasons: by the task and the reader's name, up to which share a reader who
    follows nobody's mind may do well in a class, and why (see tomserve.benchmarks.worlds.auditing).
    """

    name: str
    draw: Callable[[Draft, str], World]
    versions: tuple[tuple[str, ...], ...]
    twins: Mapping[str, str] = field(default_factory=dict)
    protagonist: str = "P"
    most: int = 6
    reasons: Mapping[tuple[str, str], tuple[float, str]] = field(default_factory=dict)

    @property
    def scenarios(self) -> tuple[str, ...]:
        """All scenarios, each once."""
        return tuple(dict.fromkeys(scenario for group in self.versions for scenario in group))

    def world(self, lexicon: Lexicon, name: str, scenario: str) -> World:
        """The world of that name in that scenario; the same arguments give the same world everywhere."""
        return self.draw(Draft(lexicon, self.name, name), scenario)
