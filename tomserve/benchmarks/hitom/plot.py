"""Draw the plot of one Hi-ToM story: who is where, who moves what, and who says what to whom.

>>> dice, plan, cell = Dice("0:0"), Plan(), Cell(chapters=1, agents=3, tells=0)
>>> plot = draw(dice, plan, cell, set_scene(dice, plan, cell))
>>> len(plot.names), plot.traced("").belief() == plot.witnessed(())
(3, True)

A chapter: some agents enter a room of their own, an object lies in a container, then one agent after the other acts
(moves the object once or several times, or does nothing) and leaves, and all go to wait. In the first chapter all
agents are there, and every question asks for its object, which no later chapter has; its room is never entered again.
Agents act in another order than they are listed in. Tells follow a chapter, and concern the object asked about:

    truthful    the speaker names the container that he believes in (which need not be where the object is)
    deceptive   he names one that he does not believe in, and where the object is not: half of the time one where the
                object has been said or seen to be, else one that nobody has named for it
    filler      he "made no movements and stayed in the waiting_room for 1 minute": as long a sentence, and neutral

Chance is `Dice`, on nothing but `random.Random(int).random()`, which Python promises to keep the same in every
version. A story has dice of its own, made from seed and number, so that the first stories of a long file are those of a
short one.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeVar

from tomserve.benchmarks.hitom.events import WAITING_ROOM, Claim, Enter, Event, Exit, Move, Place, Stay, Tell
from tomserve.benchmarks.hitom.plan import Cell, Plan
from tomserve.benchmarks.hitom.tracker import Mention, Trace
from tomserve.benchmarks.hitom.words import AGENTS, CONTAINERS, OBJECTS, ROOMS

T = TypeVar("T")
_PLACES = 5  # most containers of a chapter
_FRESH = 4  # most further containers, for lies
MOST_PLACES = _PLACES + _FRESH
"""The most containers in which the object asked about is seen or said to be."""


class Dice:
    """A source of seeded random numbers, the same on every machine and in every version of Python."""

    def __init__(self, seed: str) -> None:
        number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big")
        self._random = random.Random(number).random

    def below(self, bound: int) -> int:
        """A whole number from 0 to `bound` - 1."""
        return int(self._random() * bound)

    def pick(self, things: Sequence[T]) -> T:
        """One of these things."""
        return things[int(self._random() * len(things))]

    def sample(self, things: Sequence[T], size: int) -> list[T]:
        """`size` different ones of these things, in random order."""
        left = list(things)
        chance = self._random
        found = []
        for _ in range(size):
            at = int(chance() * len(left))
            found.append(left[at])
            left[at] = left[-1]
            left.pop()
        return found


class Deck:
    """Words drawn without repetition. When all are used they start again, without the `kept` and the last few."""

    def __init__(self, dice: Dice, words: Sequence[str]) -> None:
        self._dice, self._words, self._left = dice, words, list(words)
        self.kept: Sequence[str] = ()
        self._last: list[str] = []

    def draw(self) -> str:
        """The next word."""
        if not self._left:
            self._left = [word for word in self._words if word not in self.kept and word not in self._last]
        left = self._left
        at = self._dice.below(len(left))
        word = left[at]
        left[at] = left[-1]
        left.pop()
        self._last = [*self._last[1 - _PLACES :], word]
        return word


class Telling(NamedTuple):
    """One tell, in its truthful and its deceptive form. hearer: None where it is said before everybody."""

    speaker: str
    hearer: str | None
    honest: bool  # whether the truthful form is told where the story has no twins
    truthful: str
    deceptive: str
    trusting: int  # bits of those who trust the speaker

    def container(self, kind: str) -> str:
        """The container that is named in the twin of that kind."""
        honest = self.honest if not kind else kind == "truthful"
        return self.truthful if honest else self.deceptive


@dataclass(frozen=True, slots=True)
class Chapter:
    """A chapter. turns: agents in the order in which they act, each with the containers that they move `object` to."""

    room: str
    object: str
    first: str
    members: list[str]
    turns: list[tuple[str, list[str]]]

    @property
    def containers(self) -> list[str]:
        """The containers in which the object is, in order."""
        return [self.first, *[label for _, moved in self.turns for label in moved]]

    @property
    def height(self) -> int:
        """The number of lines without tells."""
        return 3 + sum([len(moved) or 1 for _, moved in self.turns]) + len(self.turns)


class Scene(NamedTuple):
    """The part of a story that is kept when its first chapter and its tells are drawn again."""

    names: list[str]
    room: str
    object: str
    containers: list[str]  # where the object asked about may be seen or said to be
    later: list[Chapter]


@dataclass
class Plot:
    """A drawn story. Line numbers count its lines and tells, but no distractors."""

    names: list[str]
    chapters: list[Chapter]
    tells: list[list[Telling]]  # after each chapter
    _traced: dict[str, Trace] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def bits(self) -> dict[str, int]:
        """The bit of each agent, in order of entrance, as in Trace."""
        return {name: 1 << at for at, name in enumerate(self.names)}

    @property
    def object(self) -> str:
        """The object asked about."""
        return self.chapters[0].object

    @property
    def height(self) -> int:
        """The number of lines with tells and without distractors."""
        return sum([chapter.height for chapter in self.chapters]) + len(self.told)

    @property
    def told(self) -> list[Telling]:
        """All tells, in order."""
        return [tell for tells in self.tells for tell in tells]

    @cached_property
    def left(self) -> dict[str, tuple[int, str]]:
        """For each agent the place (from 0) in the order of leaving the first chapter, and where the object was."""
        here = self.chapters[0].first
        found = {}
        for at, (name, moved) in enumerate(self.chapters[0].turns):
            here = moved[-1] if moved else here
            found[name] = (at, here)
        return found

    def witnessed(self, asked: Sequence[str]) -> str:
        """Where the object was when the first of `asked` left; without agents, where it is."""
        left = self.left
        if not asked:
            return left[self.chapters[0].turns[-1][0]][1]
        return min([left[name] for name in asked])[1]

    @cached_property
    def seen(self) -> list[Mention]:
        """What the agents see of the object: all of it is in the first chapter."""
        chapter = self.chapters[0]
        present = (1 << len(self.names)) - 1
        found = [Mention(1, chapter.first, present)]
        line = 2
        for name, moved in chapter.turns:
            for container in moved:
                found.append(Mention(line, container, present))
                line += 1
            line += 1 if moved else 2  # the exit, after what he did, be it nothing
            present ^= self.bits[name]
        return found

    def heard(self, kind: str) -> list[Mention]:
        """What is told of the object in the twin of that kind."""
        if kind in ("none", "filler"):
            return []
        everybody = (1 << len(self.names)) - 1
        found = []
        line = 0
        for chapter, tells in zip(self.chapters, self.tells, strict=True):
            line += chapter.height
            for tell in tells:
                speaker = self.bits[tell.speaker]
                heard = everybody if tell.hearer is None else speaker | self.bits[tell.hearer]
                found.append(Mention(line, tell.container(kind), heard, speaker, tell.trusting))
                line += 1
        return found

    def traced(self, kind: str) -> Trace:
        """The trace of the twin of that kind, as if it had no distractors."""
        if kind not in self._traced:
            seen = self.seen
            moved = tuple([mention.line for mention in seen])
            self._traced[kind] = Trace(self.height, self.bits, (*seen, *self.heard(kind)), moved)
        return self._traced[kind]

    def events(self, kind: str) -> list[Event | None]:
        """The events of the twin of that kind, one for each line; None for a line that only the other twins have."""
        found: list[Event | None] = []
        for chapter, tells in zip(self.chapters, self.tells, strict=True):
            room, thing, members = chapter.room, chapter.object, tuple(chapter.members)
            found += (Enter(members, room), Place(thing, chapter.first))
            for name, moved in chapter.turns:
                found += [Move(name, thing, container) for container in moved] or [Stay(name, room)]
                found.append(Exit(name, room))
            found.append(Enter(members, WAITING_ROOM))
            found += [_said(tell, self.object, kind) for tell in tells]
        return found


def _said(tell: Telling, thing: str, kind: str) -> Event | None:
    if kind == "none":
        return None
    if kind == "filler":
        return Stay(tell.speaker, WAITING_ROOM)
    if tell.hearer is None:
        return Claim(tell.speaker, thing, tell.container(kind), the=True, now=True)
    return Tell(tell.speaker, tell.hearer, thing, tell.container(kind), now=True)


def set_scene(dice: Dice, plan: Plan, cell: Cell) -> Scene:
    """Draw the agents and things of a story of that cell, and all of its later chapters."""
    names = dice.sample(AGENTS, cell.agents)
    rooms, things, spare = Deck(dice, ROOMS), Deck(dice, OBJECTS), Deck(dice, CONTAINERS)
    room, thing = rooms.draw(), things.draw()
    containers = [spare.draw() for _ in range(_PLACES + (_FRESH if cell.tells else 0))]
    rooms.kept, things.kept, spare.kept = (room,), (thing,), containers
    later = []
    for _ in range(cell.chapters - 1):
        members = dice.sample(names, 3 + dice.below(len(names) - 2))
        places = [spare.draw() for _ in range(_PLACES)]
        later.append(_chapter(dice, plan, members, rooms.draw(), things.draw(), places))
    return Scene(names, room, thing, containers, later)


def draw(dice: Dice, plan: Plan, cell: Cell, scene: Scene) -> Plot:
    """Draw a story in that scene: its first chapter, and the tells."""
    first = _chapter(dice, plan, scene.names, scene.room, scene.object, scene.containers[:_PLACES])
    chapters = [first, *scene.later]
    return Plot(scene.names, chapters, _talk(dice, plan, cell.tells, scene, chapters))


def _chapter(dice: Dice, plan: Plan, members: list[str], room: str, thing: str, places: list[str]) -> Chapter:
    """Deal the moves to some of the agents, so that the object is often in its third place before anybody leaves."""
    moves = dice.pick(plan.moves)
    size = 2 + dice.below(len(places) - 1)
    turns: list[tuple[str, list[str]]] = [(name, []) for name in dice.sample(members, len(members))]
    movers = 1 + dice.below(len(turns))
    here = 0
    for at in sorted([dice.below(movers) for _ in range(moves)]):
        here = (here + 1 + dice.below(size - 1)) % size
        turns[at][1].append(places[here])
    return Chapter(room, thing, places[0], members, turns)


def _talk(dice: Dice, plan: Plan, count: int, scene: Scene, chapters: list[Chapter]) -> list[list[Telling]]:
    """Draw `count` tells, each after some chapter and in both forms; what is said depends on what is believed then."""
    found: list[list[Telling]] = [[] for _ in chapters]
    if not count:
        return found
    names = scene.names
    after = sorted([dice.below(len(chapters)) for _ in range(count)])
    bits = {name: 1 << at for at, name in enumerate(names)}
    said = set(chapters[0].containers)
    here = chapters[0].first
    believed: dict[str, str] = {}
    left: dict[str, int] = {}  # agent -> the turn at which they last left a room
    for name, moved in chapters[0].turns:
        believed[name] = here = moved[-1] if moved else here
    beliefs = (believed, dict(believed))  # by what is really said without twins, and by twin: truthful, deceptive
    turn = 0
    for number, chapter in enumerate(chapters):
        for name, _ in chapter.turns:
            left[name] = turn = turn + 1
        for _ in range(after.count(number)):
            public = plan.tell_kind == "public" or (plan.tell_kind == "both" and dice.below(2) == 0)
            honest = plan.truth == "truthful" or (plan.truth == "mixed" and dice.below(2) == 0)
            speaker, hearer = dice.sample(names, 2)
            lies = [label for label in scene.containers if label not in (beliefs[1][speaker], here)]
            named, fresh = [lie for lie in lies if lie in said], [lie for lie in lies if lie not in said]
            lie = dice.pick(named if named and (not fresh or dice.below(2) == 0) else fresh)
            hearers = [name for name in names if name != speaker] if public else [hearer]
            trusting = [name for name in hearers if left[speaker] > left[name]]
            heard = sum([bits[name] for name in trusting])
            tell = Telling(speaker, None if public else hearer, honest, beliefs[0][speaker], lie, heard)
            found[number].append(tell)
            for form, kind in zip(beliefs, ("truthful", "deceptive"), strict=True):
                label = tell.container(kind if plan.twins else "")
                said.add(label)
                form.update(dict.fromkeys(trusting, label))
    return found
