"""The events of a Hi-ToM story: eight kinds of sentence, each written and read back exactly.

>>> story = Story.parse(["Ann and Bo entered the den.", "The pen is in the red_box.", "Bo exited the den."])
>>> story.events[1], story.events[1].text()
(Place(object='pen', container='red_box'), 'The pen is in the red_box.')
>>> story.presence()[2]
{'Ann': 'den'}

The sentences (sentences.py) are those of the released generator (Hi-ToM, arXiv 2310.16755). `parse_sentence` is the
exact inverse of `Event.text`: what cannot be written back as it stood is refused. Only the engine of beliefs is shared
with the perturbed benchmark (tomserve.benchmarks.perturbed.events): its events are hand-written annotations of free
prose that say who perceives what, whereas here who perceives what follows from rooms (tracker.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from tomserve.benchmarks.hitom import sentences

WAITING_ROOM = "waiting_room"
"""The room where agents wait between chapters. Nothing is seen there, and leaving it does not count as an exit."""


@dataclass(frozen=True, slots=True)
class Enter:
    """One or several agents come into a room together and see every object in it."""

    agents: tuple[str, ...]
    room: str

    def text(self) -> str:
        """The sentence."""
        return sentences.entered(self.agents, self.room)


@dataclass(frozen=True, slots=True)
class Place:
    """An object lies in a container of the room that was entered last; all in that room see it."""

    object: str
    container: str

    def text(self) -> str:
        """The sentence."""
        return sentences.placed(self.object, self.container)


@dataclass(frozen=True, slots=True)
class Move:
    """An agent moves an object to a container of the same room; all in that room see it."""

    agent: str
    object: str
    container: str

    def text(self) -> str:
        """The sentence."""
        return sentences.moved(self.agent, self.object, self.container)


@dataclass(frozen=True, slots=True)
class Stay:
    """An agent does nothing."""

    agent: str
    room: str

    def text(self) -> str:
        """The sentence."""
        return sentences.stayed(self.agent, self.room)


@dataclass(frozen=True, slots=True)
class Exit:
    """An agent leaves a room."""

    agent: str
    room: str

    def text(self) -> str:
        """The sentence."""
        return sentences.exited(self.agent, self.room)


@dataclass(frozen=True, slots=True)
class Claim:
    """An agent says before everybody where an object is. the, now: whether the sentence has that word, as some have."""

    speaker: str
    object: str
    container: str
    the: bool = False
    now: bool = False

    def text(self) -> str:
        """The sentence."""
        return sentences.claimed(self.speaker, self.object, self.container, the=self.the, now=self.now)


@dataclass(frozen=True, slots=True)
class Tell:
    """An agent says to one other alone where an object is."""

    speaker: str
    hearer: str
    object: str
    container: str
    now: bool = False

    def text(self) -> str:
        """The sentence."""
        return sentences.told(self.speaker, self.hearer, self.object, self.container, now=self.now)


@dataclass(frozen=True, slots=True)
class Distractor:
    """A line that has nothing to do with the object. verb: one of VERBS."""

    agent: str
    verb: str
    thing: str

    def text(self) -> str:
        """The sentence."""
        return sentences.remarked(self.agent, self.verb, self.thing)


Event = Enter | Place | Move | Stay | Exit | Claim | Tell | Distractor
VERBS = ("saw a", "saw an", "lost his", "lost her", "lost their", "likes the", "dislikes the")
"""The verbs of distractors. The official file has "lost his" for every agent."""


def agents_of(event: Event) -> tuple[str, ...]:
    """Everybody who acts in an event, or is told something in it; nobody where an object is seen to lie somewhere."""
    if isinstance(event, Enter):
        return event.agents
    if isinstance(event, Tell):
        return event.speaker, event.hearer
    if isinstance(event, Claim):
        return (event.speaker,)
    return () if isinstance(event, Place) else (event.agent,)


_AGENT, _WORD = r"[^\W\d_][\w'-]*", r"[\w'-]+"


def _form(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("{agent}", f"({_AGENT})").replace("{word}", f"({_WORD})"))


_FORMS: tuple[tuple[re.Pattern[str], Callable[..., Event]], ...] = (
    (_form(r"{agent} moved the {word} to the {word}\."), Move),
    (_form(r"{agent} exited the {word}\."), Exit),
    (_form(r"{agent} made no movements and stayed in the {word} for 1 minute\."), Stay),
    (_form(r"([\w', -]+) entered the {word}\."), lambda who, room: Enter(tuple(re.split(", | and ", who)), room)),
    (_form(r"The {word} is in the {word}\."), Place),
    (
        _form(r"{agent} publicly claimed that (the )?{word} is in the {word}( now)?\."),
        lambda agent, the, thing, container, now: Claim(agent, thing, container, bool(the), bool(now)),
    ),
    (
        _form(r"{agent} privately told {agent} that the {word} is in the {word}( now)?\."),
        lambda agent, hearer, thing, container, now: Tell(agent, hearer, thing, container, bool(now)),
    ),
    (_form(rf"{{agent}} ({'|'.join(VERBS)}) {{word}}\."), Distractor),
)
EXPECTED = (
    "'<A>, <B> and <C> entered the <room>.', 'The <object> is in the <container>.', '<A> moved the <object> to the "
    "<container>.', '<A> made no movements and stayed in the <room> for 1 minute.', '<A> exited the <room>.', '<A> "
    "publicly claimed that <object> is in the <container>.', '<A> privately told <B> that the <object> is in the "
    "<container>.' or a distractor ('<A> saw a <x>.', lost his, likes the, dislikes the)"
)


def parse_sentence(text: str) -> Event:
    """The event that a sentence (without its number) tells. Raises ValueError with what was found and expected."""
    for form, build in _FORMS:
        if (match := form.fullmatch(text)) is not None:
            event = build(*match.groups())
            if event.text() == text:  # the expressions are a little wider ("A, B entered"); writing back decides
                return event
    raise ValueError(f"unknown sentence {text!r}; expected {EXPECTED}")


@dataclass(frozen=True)
class Story:
    """What happens in a story, one event for each sentence. Only `check` finds out whether it is possible."""

    events: tuple[Event, ...]

    @classmethod
    def parse(cls, sentences: Iterable[str]) -> Story:
        """Read sentences without numbers. Raises ValueError naming the sentence (from 1)."""
        events = []
        for number, text in enumerate(sentences, 1):
            try:
                events.append(parse_sentence(text))
            except ValueError as error:
                raise ValueError(f"sentence {number}: {error}") from None
        return cls(tuple(events))

    def sentences(self) -> tuple[str, ...]:
        """The story as text, one sentence for each event."""
        return tuple(event.text() for event in self.events)

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """Everybody who enters, in order of first entrance."""
        return tuple(dict.fromkeys(name for e in self.events if isinstance(e, Enter) for name in e.agents))

    @cached_property
    def objects(self) -> tuple[str, ...]:
        """Every object that is placed, in order; questions of the official file ask for the first."""
        return tuple(dict.fromkeys(e.object for e in self.events if isinstance(e, Place)))

    @cached_property
    def reentered(self) -> bool:
        """Whether an agent comes back into a room, and so sees again what lies there."""
        been: set[tuple[str, str]] = set()
        for event in self.events:
            if isinstance(event, Enter) and event.room != WAITING_ROOM:
                if not been.isdisjoint((name, event.room) for name in event.agents):
                    return True
                been.update((name, event.room) for name in event.agents)
        return False

    def presence(self) -> list[dict[str, str]]:
        """The room of every agent after each sentence; an agent who left a room and entered no other is in none."""
        where: dict[str, str] = {}
        found = []
        for event in self.events:
            if isinstance(event, Enter):
                where.update(dict.fromkeys(event.agents, event.room))
            elif isinstance(event, Exit):
                where.pop(event.agent, None)
            found.append(dict(where))
        return found

    def rooms(self) -> list[dict[str, str]]:
        """The room of every object after each sentence: object -> room."""
        rooms: dict[str, str] = {}
        entered = ""
        found = []
        for event, where in zip(self.events, self.presence(), strict=True):
            if isinstance(event, Enter):
                entered = event.room
            elif isinstance(event, Place):
                rooms[event.object] = entered
            elif isinstance(event, Move) and event.agent in where:
                rooms[event.object] = where[event.agent]
            found.append(dict(rooms))
        return found

    def check(self) -> None:
        """Refuse what cannot happen. Raises ValueError naming the first such sentence (from 1).

        An agent must be in the room that he leaves or stays in, and in the object's room to move it; an object must
        have been placed, and who speaks or is spoken to must have entered, and is not the same agent.
        """
        presence, rooms = self.presence(), self.rooms()
        for at, event in enumerate(self.events):
            where = presence[at - 1] if at else {}
            lies = rooms[at - 1] if at else {}
            reason = _impossible(event, where, lies, self._entered_by(at))
            if reason:
                raise ValueError(f"sentence {at + 1}: {event.text()!r}: {reason}")

    def _entered_by(self, at: int) -> set[str]:
        return {name for e in self.events[:at] if isinstance(e, Enter) for name in e.agents}


def _impossible(event: Event, where: dict[str, str], lies: dict[str, str], entered: set[str]) -> str:
    """Why the event cannot happen, or nothing; `where` and `lies` are the rooms of agents and objects before it."""
    if isinstance(event, Enter):
        return "an agent is named twice" if len(set(event.agents)) < len(event.agents) else ""
    if isinstance(event, Place):
        return "" if entered else "no room has been entered before, so the object lies nowhere"
    if isinstance(event, Stay | Exit):
        return "" if where.get(event.agent) == event.room else f"{event.agent} is {_place(event.agent, where)}"
    if isinstance(event, Move):
        if event.object not in lies:
            return f"{event.object!r} has not been placed before"
        if where.get(event.agent) != lies[event.object]:
            return f"{event.agent} is {_place(event.agent, where)}, the {event.object} in the {lies[event.object]}"
    if isinstance(event, Claim | Tell):
        persons = (event.speaker, event.hearer) if isinstance(event, Tell) else (event.speaker,)
        if len(set(persons)) < len(persons):
            return "nobody tells himself; name another hearer"
        if absent := [name for name in persons if name not in entered]:
            return f"{absent[0]} has not entered before"
        if event.object not in lies:
            return f"{event.object!r} has not been placed before"
    return ""


def _place(agent: str, where: dict[str, str]) -> str:
    return f"in the {where[agent]}" if agent in where else "in no room"
