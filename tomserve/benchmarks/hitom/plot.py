"""Draw the plot of one Hi-ToM story: who is where, who moves what, and who says what to whom.

>>> dice, plan, cell = Dice("0:0"), Plan(), Cell(chapters=1, agents=3, tells=0)
>>> plot = draw(dice, plan, cell, set_scene(dice, plan, cell))
>>> len(plot.scene.names), plot.trace("", "released", []).label(()) == plot.leaving[-1][1]
(3, True)

A chapter: some agents enter a room of their own, an object lies in a container, then one agent after the other acts
(moves the object once or several times, or does nothing) and leaves, and all go to wait. In the first chapter all
agents are there, and every question asks for its object, which no later chapter has; its room is never entered again.
Agents act in another order than they are listed in. Tells follow a chapter, and concern the object asked about:

    truthful    the speaker names the container that he believes in (which need not be where the object is)
    deceptive   he names one that he does not believe in, and where the object is not: half of the time one where the
                object has been said or seen to be, else one that nobody has named for it
    filler      he "made no movements and stayed in the waiting_room for 1 minute": as long a sentence, and neutral

A story has dice of its own (dice.py), made from seed and number, so that the first stories of a long file are those of
a short one. Of three stories that are drawn two are thrown away, because they would upset the balance; so a plot holds
no more than decides that, and what it looks like is worked out when it is kept.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from tomserve.beliefs import Audience, Trace, Update, together
from tomserve.benchmarks.hitom.dice import Deck, Dice
from tomserve.benchmarks.hitom.events import Distractor
from tomserve.benchmarks.hitom.plan import Cell, Plan
from tomserve.benchmarks.hitom.tracker import AUDIENCES, Semantics
from tomserve.benchmarks.hitom.words import AGENTS, ANIMALS, BELONGINGS, CONTAINERS, FOODS, OBJECTS, ROOMS

T = TypeVar("T")
_PLACES = 5  # most containers of a chapter
_FRESH = 4  # most further containers, for lies
MOST_PLACES = _PLACES + _FRESH
"""The most containers in which the object asked about is seen or said to be."""

UNTOLD = ("none", "filler")
"""The twins in which nothing is told."""

Turns = list[tuple[T, list[str]]]
"""Who acts, in order, each with the containers to which he moves the object."""


class Telling(NamedTuple):
    """One tell, in its truthful and its deceptive form. Agents are bits, as in Trace."""

    after: int  # the chapter that it follows, from 0
    speaker: int
    hearers: int
    public: bool  # whether it is said before everybody
    honest: bool  # whether the truthful form is told where the story has no twins
    truthful: str
    deceptive: str
    trusting: int  # hearers who trust the speaker

    def container(self, kind: str) -> str:
        """The container that is named in the twin of that kind."""
        honest = self.honest if not kind else kind == "truthful"
        return self.truthful if honest else self.deceptive


class Chapter(NamedTuple):
    """A chapter after the first. containers: those in which its object is, in order. height: the number of its lines
    without tells. left: for each agent in it, as a bit, when he left, in a time that runs on from chapter to chapter.
    """

    room: str
    object: str
    members: tuple[str, ...]
    turns: Turns[str]
    containers: list[str]
    height: int
    left: dict[int, int]


class Scene(NamedTuple):
    """The part of a story that is kept when its first chapter and its tells are drawn again."""

    names: list[str]
    bits: dict[str, int]  # the bit of each agent, in order of entrance, as in Trace
    agents: list[int]  # these bits
    room: str
    object: str
    containers: list[str]  # where the object asked about may be seen or said to be
    later: list[Chapter]


@dataclass(slots=True)
class Plot:
    """A drawn story. turns: those of the first chapter, agents as bits. leaving: each agent in the order of leaving it,
    and where the object was. told: all tells, in order. Line numbers count lines and tells, but no distractors.
    """

    scene: Scene
    turns: Turns[int]
    leaving: list[tuple[int, str]]
    told: list[Telling]

    @property
    def containers(self) -> list[str]:
        """The containers in which the object asked about is, in order."""
        return [self.scene.containers[0], *[label for _, moved in self.turns for label in moved]]

    @property
    def heights(self) -> list[int]:
        """The number of lines of each chapter without tells."""
        return [_height(self.turns), *[chapter.height for chapter in self.scene.later]]

    @property
    def height(self) -> int:
        """The number of lines with tells and without distractors."""
        return sum(self.heights) + len(self.told)

    def places(self, kind: str) -> tuple[str, str | None]:
        """The first and the second container in which the object is seen or said to be in the twin of that kind."""
        first = self.scene.containers[0]
        for _, moved in self.turns:
            if moved:
                return first, moved[0]
        said = (tell.container(kind) for tell in (() if kind in UNTOLD else self.told))
        return first, next((label for label in said if label != first), None)

    def heard(self, kind: str, semantics: Semantics) -> list[tuple[Audience, str]]:
        """What is told of the object in the twin of that kind, and to whom, the last first."""
        if kind in UNTOLD:
            return []
        audience = AUDIENCES[semantics]
        return [
            (audience(tell.speaker, tell.hearers, tell.trusting), tell.container(kind)) for tell in reversed(self.told)
        ]

    def trace(self, kind: str, semantics: Semantics, gaps: Sequence[int]) -> Trace:
        """What becomes known of the object in the twin of that kind, line by line, as the tracker would read it.

        gaps: the lines after which distractors stand, in order.
        """
        updates = self._seen(gaps)
        updates += self._said(kind, semantics, gaps)
        lines = self.height + len(gaps) - (len(self.told) if kind == "none" else 0)
        return Trace(lines, self.scene.bits, tuple(updates))

    def _seen(self, gaps: Sequence[int]) -> list[Update]:
        """What the agents see of the object: all of it is in the first chapter."""
        present = sum(self.scene.agents)
        found = [Update(1 + bisect_left(gaps, 1), (self.scene.containers[0],), together(present))]
        line = 2
        for agent, moved in self.turns:
            for container in moved:
                found.append(Update(line + bisect_left(gaps, line), (container,), together(present)))
                line += 1
            line += 1 if moved else 2  # the exit, after what he did, be it nothing
            present ^= agent
        return found

    def _said(self, kind: str, semantics: Semantics, gaps: Sequence[int]) -> Iterator[Update]:
        """What is told of the object in the twin of that kind."""
        heights = self.heights
        for at, (audience, label) in enumerate(reversed(self.heard(kind, semantics))):
            line = sum(heights[: self.told[at].after + 1]) + at
            yield Update(line + bisect_left(gaps, line), (label,), audience)


def set_scene(dice: Dice, plan: Plan, cell: Cell) -> Scene:
    """Draw the agents and things of a story of that cell, and all of its later chapters."""
    names = dice.sample(AGENTS, cell.agents)
    bits = {name: 1 << at for at, name in enumerate(names)}
    rooms, things, spare = Deck(dice, ROOMS), Deck(dice, OBJECTS), Deck(dice, CONTAINERS)
    room, thing = rooms.draw(), things.draw()
    containers = spare.deal(_PLACES + (_FRESH if cell.tells else 0))
    rooms.kept, things.kept, spare.kept = (room,), (thing,), containers
    later = []
    time = len(names)
    for _ in range(cell.chapters - 1):
        members = dice.sample(names, 3 + dice.below(len(names) - 2))
        places = spare.deal(_PLACES)
        there, what = rooms.draw(), things.draw()
        turns = _deal(dice, plan, members, places)
        left = {bits[name]: time + at for at, (name, _) in enumerate(turns)}
        time += len(turns)
        inside = [places[0], *[label for _, moved in turns for label in moved]]
        later.append(Chapter(there, what, tuple(members), turns, inside, _height(turns), left))
    return Scene(names, bits, [*bits.values()], room, thing, containers, later)


def draw(dice: Dice, plan: Plan, cell: Cell, scene: Scene) -> Plot:
    """Draw a story in that scene: its first chapter, and the tells."""
    turns = _deal(dice, plan, scene.agents, scene.containers[:_PLACES])
    here = scene.containers[0]
    leaving = []
    for agent, moved in turns:
        if moved:
            here = moved[-1]
        leaving.append((agent, here))
    plot = Plot(scene, turns, leaving, [])
    if cell.tells:
        _talk(dice, plan, cell.tells, plot)
    return plot


def _height(turns: Turns[T]) -> int:
    return 3 + len(turns) + sum([len(moved) or 1 for _, moved in turns])


def _deal(dice: Dice, plan: Plan, members: Sequence[T], places: list[str]) -> Turns[T]:
    """Deal the moves to some of the agents, so that the object is often in its third place before anybody leaves."""
    chance = dice.chance
    moves = dice.pick(plan.moves)
    size = 2 + int(chance() * (len(places) - 1))
    turns: Turns[T] = [(who, []) for who in dice.shuffle(members)]
    movers = 1 + int(chance() * len(turns))
    here = 0
    for at in sorted([int(chance() * movers) for _ in range(moves)]):
        here = (here + 1 + int(chance() * (size - 1))) % size
        turns[at][1].append(places[here])
    return turns


def _talk(dice: Dice, plan: Plan, count: int, plot: Plot) -> None:
    """Add `count` tells, each after some chapter and in both forms; what is said depends on what is believed then."""
    scene, leaving = plot.scene, plot.leaving
    chance, agents, containers = dice.chance, scene.agents, scene.containers
    everybody, chapters = sum(agents), len(scene.later) + 1
    said = {containers[0]}.union(*[moved for _, moved in plot.turns])
    here = leaving[-1][1]
    believed = dict(leaving)  # where there are no twins, what is really said decides it; of twins, each one's form
    misled = dict(leaving) if plan.twins else believed
    left = {agent: at for at, (agent, _) in enumerate(leaving)}  # when each of them last left a room
    chapter = 0
    for after in sorted([int(chance() * chapters) for _ in range(count)]):
        while chapter < after:
            left |= scene.later[chapter].left
            chapter += 1
        public = plan.tell_kind == "public" or (plan.tell_kind == "both" and int(chance() * 2) == 0)
        honest = plan.truth == "truthful" or (plan.truth == "mixed" and int(chance() * 2) == 0)
        speaker, hearer = dice.sample(agents, 2)
        own = misled[speaker]
        lies = [label for label in containers if label in said and label != own and label != here]
        if not lies or (len(said) < len(containers) and int(chance() * 2)):
            lies = [label for label in containers if label not in said]
        lie = lies[int(chance() * len(lies))]
        time = left[speaker]
        hearers = everybody ^ speaker if public else hearer
        trusting = [agent for agent, then in left.items() if then < time and agent & hearers]
        tell = Telling(after, speaker, hearers, public, honest, believed[speaker], lie, sum(trusting))
        plot.told.append(tell)
        if plan.twins:
            for form, kind in ((believed, "truthful"), (misled, "deceptive")):
                said.add(tell.container(kind))
                form |= dict.fromkeys(trusting, tell.container(kind))
        else:
            said.add(tell.container(""))
            believed |= dict.fromkeys(trusting, tell.container(""))


def distractors(dice: Dice, plot: Plot, count: int) -> tuple[list[int], list[Distractor]]:
    """The lines of the plot after which distractors stand, in order, and the distractors."""
    if count < 1:
        return [], []
    starts = []  # nothing may stand between entering a room and the line that places the object there
    line = told = 0
    for number, height in enumerate(plot.heights):
        starts.append(line)
        line += height
        while told < len(plot.told) and plot.told[told].after == number:
            told += 1
            line += 1
    gaps = []
    for _ in range(count):
        at = dice.below(line - len(starts))
        for start in starts:
            if start <= at:
                at += 1
        gaps.append(at)
    return sorted(gaps), [_distractor(dice, plot) for _ in range(count)]


def _distractor(dice: Dice, plot: Plot) -> Distractor:
    name, kind = dice.pick(plot.scene.names), dice.below(3)
    if kind == 0:
        animal = dice.pick(ANIMALS)
        return Distractor(name, "saw an" if animal[0] in "aeiou" else "saw a", animal)
    if kind == 1:
        return Distractor(name, "lost their", dice.pick(BELONGINGS))
    thing = dice.pick(CONTAINERS) if dice.below(2) else dice.pick(FOODS)
    return Distractor(name, "likes the" if dice.below(2) else "dislikes the", thing)
