"""Derive reality and beliefs from the events of a story, independently of the gold that was written by hand.

The events of a sentence say who perceives, tells, moves or waits. `track` turns them into reality and the asked
person's belief after each sentence: each event becomes an update for the engine (tomserve.beliefs). Neither knows of
classes, scenarios or hand-written gold, so that a comparison finds slips in either. What a person infers (`infer`)
cannot be derived; the author states it, and it can be left out. What persons think of each other's beliefs the events
do not say, so that nobody asks for it.

In these forms A and B are persons and L and M are labels:

    world L [seen A, B]    from here on the world is L; A and B perceive it
    see A                  A perceives the thing itself
    view A                 the thing stands in A's plain view: A may have noticed it already or may do so later, so that
                           what A believes so far and what is to be seen are both possible
    read A L               A reads L on a label or sign; A believes it unless A has first-hand or trusted knowledge
    tell A L               somebody whom A trusts and believes tells A: L
    hear A L               A hears L and cannot judge it yet: L is added to what A may believe
    arm L [known A, B]     a mechanism will bring about L; A and B know it
    pass [known A]         its time comes and it runs; A knows that the time has come
    stall [known A]        its time comes and it does not run; A knows that the time has come
    infer A L [, M]        A concludes L (or: L or M) from habit, testimony or taste

    >>> track([["world x"], ["read Ada y"], ["see Ada"]], "Ada")
    [({'x'}, {'unknown'}), ({'x'}, {'y'}), ({'x'}, {'x'})]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tomserve.beliefs import Manner, Trace, Update, apart, together
from tomserve.items import UNKNOWN

_FORMS = {
    "world": re.compile(r"world (?P<labels>\w+)(?: seen (?P<agents>.+))?"),
    "see": re.compile(r"see (?P<agents>.+)"),
    "view": re.compile(r"view (?P<agents>.+)"),
    "read": re.compile(r"read (?P<agents>.+) (?P<labels>\w+)"),
    "tell": re.compile(r"tell (?P<agents>.+) (?P<labels>\w+)"),
    "hear": re.compile(r"hear (?P<agents>.+) (?P<labels>\w+)"),
    "arm": re.compile(r"arm (?P<labels>\w+)(?: known (?P<agents>.+))?"),
    "pass": re.compile(r"pass(?: known (?P<agents>.+))?"),
    "stall": re.compile(r"stall(?: known (?P<agents>.+))?"),
    "infer": re.compile(r"infer (?P<agents>[^,]+?) (?P<labels>\w+(?:, ?\w+)*)"),
}


@dataclass(frozen=True, slots=True)
class Event:
    """A parsed event: its verb, the persons and the labels it names."""

    verb: str
    agents: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


@lru_cache(maxsize=4096)
def parse(text: str) -> Event:
    """Read one event; what was read is kept, because stories share most of their events.

    Raises ValueError for an unknown verb, with the known ones, and for words that do not fit.
    """
    verb = text.split(" ", 1)[0]
    form = _FORMS.get(verb)
    if form is None:
        raise ValueError(f"event {text!r}: unknown verb {verb!r}; known: {', '.join(_FORMS)}")
    match = form.fullmatch(text)
    if match is None:
        raise ValueError(
            f"event {text!r}: does not fit the form of {verb!r} (see tomserve/benchmarks/perturbed/events.py)"
        )
    groups = match.groupdict()
    return Event(verb, _names(groups.get("agents")), _names(groups.get("labels")))


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()


_MANNERS: Mapping[str, Manner] = {"tell": "learn", "infer": "infer", "read": "read", "hear": "hear"}
"""How a person learns the labels that an event names, by its verb."""


class _Reading:
    """Reads events one after another, and makes of each what the engine needs to know."""

    def __init__(self) -> None:
        self.bits: dict[str, int] = {}
        self.updates: list[Update] = []
        self._world: tuple[str, ...] = (UNKNOWN,)
        self._armed: tuple[str, frozenset[str]] | None = None  # what a mechanism will bring about, and who knows of it

    def read(self, line: int, event: Event) -> None:
        verb = event.verb
        if verb == "world":
            self._changes(line, event.labels, event.agents)
        elif verb == "see":
            self._becomes(line, self._world, event.agents, "learn")
        elif verb == "view":
            self._becomes(line, self._world, event.agents, "view")
        elif verb == "arm":
            self._armed = (event.labels[0], frozenset(event.agents))
        elif verb in ("pass", "stall"):
            if self._armed is None:
                raise ValueError(f"event {verb!r}: no mechanism was armed before")
            label, knowing = self._armed
            told = knowing.intersection(event.agents)
            if verb == "pass":
                self._changes(line, (label,), told)
            else:
                self._becomes(line, (label,), told, "learn")
        else:
            self._becomes(line, event.labels, event.agents, _MANNERS[verb])

    def _changes(self, line: int, labels: tuple[str, ...], agents: Iterable[str]) -> None:
        """The world becomes something else, and these persons know it."""
        self._world = labels
        self.updates.append(Update(line, labels, together(self._persons(agents))))

    def _becomes(self, line: int, labels: tuple[str, ...], agents: Iterable[str], manner: Manner) -> None:
        """Each of these persons learns something of the world, which stays as it is."""
        self.updates.append(Update(line, labels, apart(self._persons(agents)), manner))

    def _persons(self, names: Iterable[str]) -> int:
        found = 0
        for name in names:
            found |= self.bits.setdefault(name, 1 << len(self.bits))
        return found


def track(story: Sequence[Sequence[str]], asked: str, *, inference: bool = True) -> list[tuple[set[str], set[str]]]:
    """Reality and the belief of `asked` after each sentence, both as sets of possible labels.

    story: the events of each sentence. asked: the person. inference: whether `infer` events count. Raises ValueError
    for an event that cannot be read, or that cannot happen.
    """
    reading = _Reading()
    for line, events in enumerate(story):
        for event in map(parse, events):
            if inference or event.verb != "infer":
                reading.read(line, event)
    trace = Trace(len(story), reading.bits, tuple(reading.updates))
    after_each = zip(trace.beliefs(()), trace.beliefs((asked,)), strict=True)
    return [(set(world.labels), set(belief.labels)) for world, belief in after_each]
