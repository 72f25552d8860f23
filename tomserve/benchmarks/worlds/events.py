"""What happens in a world, line by line, read into one trace of beliefs for each fact.

The events of a line are written so, where A and B are keys of people, F is a fact and V one of its values:

    fact F=V [seen A, B]    from here on F is V; A and B perceive it together
    see A, B F              A and B find out together what F is
    alone A, B F            A and B find out what F is, each without knowing of anybody else
    tell S A, B F=V         S says to A and B that F is V; those who do not distrust S take it over
    distrust A S            A distrusts S from here on: whatever S says changes nothing for A
    want A F=V              A wants F to be V
    seek A F                A wants the thing that F is the place of, wherever that is
    act A V                 A does the act V, from which others may conclude what A believes or wants
    show A V [seen B, C]    A's face shows the feeling V; B and C see it
    scene                   a new scene begins with this line

`tell` says nothing of whether the speaker is right or sincere: what the speaker believes does not change. A person may
be told something by a voice without a name of its own: then S is "-".

>>> lines = [["fact place=x seen P, Q"], ["fact place=y seen Q"], ["tell Q P place=x"]]
>>> world = read(lines, {"place": ("x", "y")}, "PQ")
>>> world.traces["place"].chain(()), world.traces["place"].chain(("P",))
(['x', 'y', 'y'], ['x', 'x', 'x'])
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tomserve.beliefs import Belief, Trace, Update, hearsay, together
from tomserve.items import UNKNOWN

_PEOPLE = r"\w+(?:, ?\w+)*"
_FORMS = {
    "fact": re.compile(rf"fact (?P<fact>\w+)=(?P<value>\w+)(?: seen (?P<people>{_PEOPLE}))?"),
    "see": re.compile(rf"see (?P<people>{_PEOPLE}) (?P<fact>\w+)"),
    "alone": re.compile(rf"alone (?P<people>{_PEOPLE}) (?P<fact>\w+)"),
    "tell": re.compile(rf"tell (?P<actor>\w+|-) (?P<people>{_PEOPLE}) (?P<fact>\w+)=(?P<value>\w+)"),
    "distrust": re.compile(rf"distrust (?P<people>{_PEOPLE}) (?P<actor>\w+)"),
    "want": re.compile(rf"want (?P<people>{_PEOPLE}) (?P<fact>\w+)=(?P<value>\w+)"),
    "seek": re.compile(rf"seek (?P<people>{_PEOPLE}) (?P<fact>\w+)"),
    "act": re.compile(r"act (?P<actor>\w+) (?P<value>\w+)"),
    "show": re.compile(rf"show (?P<actor>\w+) (?P<value>\w+)(?: seen (?P<people>{_PEOPLE}))?"),
    "scene": re.compile(r"scene"),
}


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its verb, who acts or speaks ("" for nobody), whom it reaches, and the fact and value it is about."""

    verb: str
    actor: str = ""
    people: tuple[str, ...] = ()
    fact: str = ""
    value: str = ""


def parse(text: str) -> Event:
    """Read one event. Raises ValueError for an unknown verb, with the known ones, and for words that do not fit."""
    verb = text.split(" ", 1)[0]
    if (form := _FORMS.get(verb)) is None:
        raise ValueError(f"event {text!r}: unknown verb {verb!r}; known: {', '.join(_FORMS)}")
    if (match := form.fullmatch(text)) is None:
        raise ValueError(
            f"event {text!r}: does not fit the form of {verb!r} (see tomserve/benchmarks/worlds/events.py)"
        )
    found = match.groupdict()
    people = tuple(name.strip() for name in (found.get("people") or "").split(",") if name.strip())
    actor = found.get("actor") or ""
    return Event(verb, "" if actor == "-" else actor, people, found.get("fact") or "", found.get("value") or "")


@dataclass(frozen=True, slots=True)
class Happened:
    """All that happened in a world of `lines` lines.

    traces: beliefs about each fact. wants: pairs of line and wanted value, by person and fact; the value is "" where a
    thing is sought wherever it is. acts: pairs of line and act, by person. shown: line, feeling and who saw it, by
    person. scenes: the lines with which scenes begin. speakers: who makes an update of a trace by
    saying it ("voice" for one without a name), by the fact and the update's place.
    """

    lines: int
    traces: Mapping[str, Trace]
    wants: Mapping[tuple[str, str], tuple[tuple[int, str], ...]]
    acts: Mapping[str, tuple[tuple[int, str], ...]]
    shown: Mapping[str, tuple[tuple[int, str, tuple[str, ...]], ...]]
    scenes: tuple[int, ...] = ()
    speakers: Mapping[tuple[str, int], str] = field(default_factory=dict)
    _beliefs: dict[tuple[str, tuple[str, ...]], list[Belief]] = field(default_factory=dict, repr=False, compare=False)

    def beliefs(self, fact: str, who: tuple[str, ...]) -> list[Belief]:
        """What a person, or a chain of them, believes about a fact after each line [lines].

        It is kept, because the rules ask for it after each line and for several kinds of question. Raises ValueError
        as `Trace.beliefs` does.
        """
        if (found := self._beliefs.get((fact, who))) is None:
            found = self._beliefs[fact, who] = self.traces[fact].beliefs(who)
        return found

    def wanted(self, person: str, fact: str, at: int | None = None) -> str | None:
        """What the person last wanted the fact to be, by the 0-based line `at` (None: the end); None for nothing."""
        found = [value for line, value in self.wants.get((person, fact), ()) if at is None or line <= at]
        return found[-1] if found else None


@dataclass(slots=True)
class _Reading:
    """What reading has gathered so far."""

    bits: Mapping[str, int]
    updates: dict[str, list[Update]]
    real: dict[str, str]
    distrusted: set[tuple[str, str]] = field(default_factory=set)
    wants: dict[tuple[str, str], list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    acts: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    shown: dict[str, list[tuple[int, str, tuple[str, ...]]]] = field(default_factory=lambda: defaultdict(list))
    scenes: list[int] = field(default_factory=list)
    speakers: dict[tuple[str, int], str] = field(default_factory=dict)

    def mask(self, people: Iterable[str]) -> int:
        return sum({self.bits[name] for name in people})

    def apply(self, line: int, event: Event) -> None:
        if event.verb == "fact":
            self.real[event.fact] = event.value
            self.updates[event.fact].append(Update(line, (event.value,), together(self.mask(event.people))))
        elif event.verb in ("see", "alone"):
            real = (self.real.get(event.fact, UNKNOWN),)
            groups = [event.people] if event.verb == "see" else [(name,) for name in event.people]
            self.updates[event.fact] += [Update(line, real, together(self.mask(group))) for group in groups]
        elif event.verb == "tell":
            trusting = [name for name in event.people if (name, event.actor) not in self.distrusted]
            speaker = self.bits[event.actor] if event.actor else 0
            heard = hearsay(speaker, self.mask(event.people), self.mask(trusting))
            self.speakers[event.fact, len(self.updates[event.fact])] = event.actor or "voice"
            self.updates[event.fact].append(Update(line, (event.value,), heard))
        elif event.verb == "scene":
            self.scenes.append(line)
        elif event.verb == "distrust":
            self.distrusted |= {(name, event.actor) for name in event.people}
        elif event.verb in ("want", "seek"):
            for name in event.people:
                self.wants[name, event.fact].append((line, event.value))
        elif event.verb == "act":
            self.acts[event.actor].append((line, event.value))
        else:
            self.shown[event.actor].append((line, event.value, event.people))


def read(story: Sequence[Sequence[str]], facts: Mapping[str, Sequence[str]], people: Iterable[str]) -> Happened:
    """What happened, from the events of each line.

    story: the events of each line. facts: the values of each fact. people: the keys of everybody. Raises ValueError by
    line for an event that cannot be read, and for a person, fact or value that the world does not have.
    """
    bits = {name: 1 << place for place, name in enumerate(people)}
    reading = _Reading(bits, {fact: [] for fact in facts}, {})
    for line, events in enumerate(story):
        for text in events:
            try:
                event = parse(text)
            except ValueError as error:
                raise ValueError(f"line {line + 1}: {error}") from None
            for name in (*event.people, *([event.actor] if event.actor else [])):
                if name not in bits:
                    raise ValueError(f"line {line + 1}: event {text!r} names {name!r}, who is nobody of this world")
            if event.fact and event.fact not in facts:
                raise ValueError(f"line {line + 1}: event {text!r}: unknown fact; known: {', '.join(facts)}")
            if event.fact and event.value not in ("", UNKNOWN, *facts[event.fact]):
                raise ValueError(
                    f"line {line + 1}: event {text!r}: unknown value; known: {', '.join(facts[event.fact])}"
                )
            reading.apply(line, event)
    return Happened(
        len(story),
        {fact: Trace(len(story), bits, tuple(updates)) for fact, updates in reading.updates.items()},
        {key: tuple(found) for key, found in reading.wants.items()},
        {key: tuple(found) for key, found in reading.acts.items()},
        {key: tuple(found) for key, found in reading.shown.items()},
        tuple(dict.fromkeys(reading.scenes)),
        reading.speakers,
    )
