"""Gold from events: what may be so, and what a person may believe, after each sentence of a story.

The author of a story says of each sentence what happens in it, in a few fixed forms; `derive` follows them and gives,
for reality and for one person's belief, the labels that are possible after each sentence and which label may follow
which. It knows nothing of classes, scenarios or right answers. In these forms A and B are persons and L and M labels:

    world L [seen A, B]    from here on it is so: L; A and B perceive it
    see A                  A perceives the thing itself
    view A                 the thing stands in A's plain view: A may have noticed it already, or will later (a set)
    read A L               A reads L on a label or sign, and believes it unless A has it first-hand or from a trusted one
    tell A L               somebody whom A trusts and believes tells A: L
    hear A L               A hears L and cannot judge it yet: L is added to what A may believe
    infer A L [, M]        A concludes L (or: L or M) from habit, testimony or taste
    expect A L             A counts on a change to L that may come at any time from here: until something settles it,
                           A may at each sentence come to believe L (a set)
    forget A               A forgets, and then has no ground for any label
    doubt A                A is no longer sure of what was first-hand or trusted: what is read next counts again
    arm L [known A, B]     a mechanism will bring about L; A and B know it
    pass [known A]         its time comes and it runs; A knows that the time has come
    stall [known A]        its time comes and it does not run; A knows that the time has come

``world unknown`` says that nothing in the story settles reality from here on.

    >>> gold = derive([["world x"], ["read Ada y"], ["view Ada"], ["see Ada"]], "Ada")
    >>> [line.belief.labels for line in gold]
    [('unknown',), ('y',), ('x', 'y'), ('x',)]
    >>> gold[3].belief.steps
    (('x', 'x'), ('y', 'x'))
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tomserve.items import UNKNOWN

FORMS = {
    "world": re.compile(r"world (?P<labels>\w+)(?: seen (?P<agents>.+))?"),
    **{verb: re.compile(rf"{verb} (?P<agents>.+)") for verb in ("see", "view", "forget", "doubt")},
    **{verb: re.compile(rf"{verb} (?P<agents>.+) (?P<labels>\w+)") for verb in ("read", "tell", "hear", "expect")},
    "infer": re.compile(r"infer (?P<agents>[^,]+?) (?P<labels>\w+(?:, ?\w+)*)"),
    "arm": re.compile(r"arm (?P<labels>\w+)(?: known (?P<agents>.+))?"),
    "pass": re.compile(r"pass(?: known (?P<agents>.+))?"),
    "stall": re.compile(r"stall(?: known (?P<agents>.+))?"),
}
"""The forms of events, by their first word."""


class Event(NamedTuple):
    """A parsed event: its verb, the persons and the labels that it names."""

    verb: str
    agents: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


class Layer(NamedTuple):
    """What is possible after one sentence: the labels, sorted, and the pairs (label after the sentence before, label
    after this one) that may follow each other."""

    labels: tuple[str, ...]
    steps: tuple[tuple[str, str], ...]


class Line(NamedTuple):
    """Reality and the person's belief after one sentence."""

    world: Layer
    belief: Layer


def parse(text: str) -> Event:
    """Read one event. Raises ValueError for an unknown verb, with the known ones, and for words that do not fit."""
    verb = text.split(" ", 1)[0]
    if (form := FORMS.get(verb)) is None:
        raise ValueError(f"event {text!r}: unknown verb {verb!r}; known: {', '.join(FORMS)}")
    if (match := form.fullmatch(text)) is None:
        raise ValueError(f"event {text!r}: does not fit the form of {verb!r}; the forms are listed in dataset/README.md")
    groups = match.groupdict()
    return Event(verb, _split(groups.get("agents")), _split(groups.get("labels")))


def _split(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()


@dataclass
class _Possible:
    """The labels that are possible, and how they come from those before the sentence."""

    labels: set[str] = field(default_factory=lambda: {UNKNOWN})
    steps: set[tuple[str, str]] = field(default_factory=set)

    def begin(self) -> None:
        self.steps = {(label, label) for label in self.labels}

    def move(self, to: Callable[[str], set[str]]) -> None:
        self.steps = {(before, after) for before, now in self.steps for after in to(now)}
        self.labels = {after for _, after in self.steps}

    def layer(self) -> Layer:
        return Layer(tuple(sorted(self.labels)), tuple(sorted(self.steps)))


@dataclass
class _State:
    """Reality and the belief of one person, with what the person's belief rests on.

    firm: whether it is first-hand or from somebody trusted. expected: the label to which a change may come at any time.
    armed: the label that a mechanism will bring about, and who knows of it.
    """

    asked: str
    world: _Possible = field(default_factory=_Possible)
    belief: _Possible = field(default_factory=_Possible)
    firm: bool = False
    expected: str | None = None
    armed: tuple[str, tuple[str, ...]] | None = None

    def learn(self, labels: set[str], *, firm: bool) -> None:
        self.belief.move(lambda _: labels)
        self.firm, self.expected = firm, None

    def apply(self, event: Event) -> None:
        labels = set(event.labels)
        concerned = self.asked in event.agents
        if event.verb == "world":
            self.world.move(lambda _: labels)
            if concerned:
                self.learn(set(self.world.labels), firm=True)
        elif event.verb == "arm":
            self.armed = (event.labels[0], event.agents)
        elif event.verb in ("pass", "stall"):
            if self.armed is None:
                raise ValueError(f"event {event.verb!r}: no mechanism was armed before")
            label, knowing = self.armed
            if event.verb == "pass":
                self.world.move(lambda _: {label})
            if concerned and self.asked in knowing:
                self.learn({label}, firm=True)
        elif concerned:
            self._person(event.verb, labels)

    def _person(self, verb: str, labels: set[str]) -> None:
        if verb == "see":
            self.learn(set(self.world.labels), firm=True)
        elif verb == "tell":
            self.learn(labels, firm=True)
        elif verb == "infer":
            self.learn(labels, firm=False)
        elif verb == "forget":
            self.learn({UNKNOWN}, firm=False)
        elif verb == "doubt":
            self.firm = False
        elif verb == "read" and not self.firm:
            self.learn(labels, firm=False)
        elif verb == "hear":
            self.belief.move(lambda now: {now} | labels)
        elif verb == "view":
            self.belief.move(lambda now: {now} | self.world.labels)
        elif verb == "expect":
            (self.expected,) = labels


def derive(story: Sequence[Sequence[str]], asked: str, *, inference: bool = True) -> list[Line]:
    """Reality and the belief of `asked` after each sentence.

    story: the events of each sentence. asked: the person. inference: whether `infer` events count.
    Raises ValueError for an event that cannot be read, or that cannot happen.
    """
    state, lines = _State(asked), []
    for events in story:
        state.world.begin()
        state.belief.begin()
        for event in map(parse, events):
            if inference or event.verb != "infer":
                state.apply(event)
        if (label := state.expected) is not None:
            state.belief.move(lambda now, label=label: {now, label})
        lines.append(Line(state.world.layer(), state.belief.layer()))
    return lines
