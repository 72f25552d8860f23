"""Derive reality and beliefs from the events of a story, independently of the gold that was written by hand.

The events of a sentence say who perceives, tells, moves or waits. `track` turns them into reality and the asked
person's belief after each sentence. It knows nothing of classes, scenarios or hand-written gold, so that a comparison
finds slips in either. What a person infers (`infer`) cannot be derived; the author states it, and it can be left out.

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
from collections.abc import Sequence
from dataclasses import dataclass, field

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


def parse(text: str) -> Event:
    """Read one event. Raises ValueError for an unknown verb, with the known ones, and for words that do not fit."""
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


@dataclass
class _State:
    """Reality (`world`) and every person's belief after some sentences, as sets of labels that are possible."""

    world: set[str] = field(default_factory=lambda: {UNKNOWN})
    beliefs: dict[str, set[str]] = field(default_factory=dict)
    firm: set[str] = field(default_factory=set)  # persons whose belief is first-hand or from somebody they trust
    viewed: dict[str, set[str]] = field(default_factory=dict)  # what persons may have noticed first-hand already
    armed: tuple[str, frozenset[str]] | None = None  # label that a mechanism will bring about, and who knows of it

    def learn(self, agent: str, labels: set[str], *, firm: bool) -> None:
        self.beliefs[agent] = set(labels)
        self.viewed.pop(agent, None)
        if firm:
            self.firm.add(agent)

    def apply(self, event: Event) -> None:
        labels = set(event.labels)
        if event.verb == "world":
            self.world = labels
            for agent in event.agents:
                self.learn(agent, self.world, firm=True)
        elif event.verb == "arm":
            self.armed = (event.labels[0], frozenset(event.agents))
        elif event.verb in ("pass", "stall"):
            if self.armed is None:
                raise ValueError(f"event {event.verb!r}: no mechanism was armed before")
            label, knowing = self.armed
            if event.verb == "pass":
                self.world = {label}
            for agent in set(event.agents) & knowing:
                self.learn(agent, {label}, firm=True)
        else:
            for agent in event.agents:
                self._person(event.verb, agent, labels)

    def _person(self, verb: str, agent: str, labels: set[str]) -> None:
        if verb == "see":
            self.learn(agent, self.world, firm=True)
        elif verb == "view":
            self.viewed[agent] = self.viewed.get(agent, set()) | self.world
            self.beliefs[agent] = self.beliefs.get(agent, {UNKNOWN}) | self.world
        elif verb == "tell":
            self.learn(agent, labels, firm=True)
        elif verb == "read":
            if agent not in self.firm:  # somebody who may have seen the thing itself may believe either
                self.beliefs[agent] = labels | self.viewed.get(agent, set())
        elif verb == "hear":
            self.beliefs[agent] = self.beliefs.get(agent, {UNKNOWN}) | labels
        elif verb == "infer":
            self.learn(agent, labels, firm=False)


def track(story: Sequence[Sequence[str]], asked: str, *, inference: bool = True) -> list[tuple[set[str], set[str]]]:
    """Reality and the belief of `asked` after each sentence, both as sets of possible labels.

    story: the events of each sentence. asked: the person. inference: whether `infer` events count. Raises ValueError
    for an event that cannot be read, or that cannot happen.
    """
    state = _State()
    after_each = []
    for events in story:
        for event in map(parse, events):
            if inference or event.verb != "infer":
                state.apply(event)
        after_each.append((set(state.world), set(state.beliefs.get(asked, {UNKNOWN}))))
    return after_each
