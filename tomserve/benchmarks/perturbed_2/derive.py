"""Gold from events: what may be so, and what a person may believe, after each sentence of a story.

The author of a story says of each sentence what happens in it, in a few fixed forms; `derive` follows them and gives,
for reality and for one person's belief, the labels that are possible after each sentence and which label may follow
which. It knows nothing of classes, scenarios or right answers. In these forms A and B are persons and L and M labels:

    world L [seen A, B]    from here on it is so: L; A and B perceive it
    see A                  A perceives the thing itself
    view A                 the thing stands in A's plain view: A may have noticed it already, or will later (a set);
                           A who then reads a label may believe either
    read A L               A reads L on a label or sign, and believes it unless A has it first-hand or from somebody
                           trusted
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
        raise ValueError(
            f"event {text!r}: does not fit the form of {verb!r}; the forms are listed in dataset/perturbed-2/WRITING.md"
        )
    groups = match.groupdict()
    return Event(verb, _split(groups.get("agents")), _split(groups.get("labels")))


def _split(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()


Possible = tuple[str, bool]
"""A label that is possible, and whether it rests on something first-hand or on somebody trusted (it is firm)."""


class _Track:
    """What is possible of one thing, and how it comes from what was possible before the sentence."""

    def __init__(self) -> None:
        self.now: set[Possible] = {(UNKNOWN, False)}
        self._steps: set[tuple[str, Possible]] = set()

    @property
    def labels(self) -> set[str]:
        return {label for label, _ in self.now}

    def begin(self) -> None:
        self._steps = {(label, (label, firm)) for label, firm in self.now}

    def move(self, to: Callable[[Possible], set[Possible]]) -> None:
        self._steps = {(before, after) for before, now in self._steps for after in to(now)}
        self.now = {after for _, after in self._steps}

    def become(self, labels: set[str], *, firm: bool) -> None:
        self.move(lambda _: {(label, firm) for label in labels})

    def layer(self) -> Layer:
        return Layer(tuple(sorted(self.labels)), tuple(sorted({(before, after) for before, (after, _) in self._steps})))


class _State:
    """Reality and the belief of one person.

    expected: the label to which a change may come at any time. armed: the label that a mechanism will bring about, and
    who knows of it.
    """

    def __init__(self, asked: str) -> None:
        self.asked = asked
        self.world, self.belief = _Track(), _Track()
        self.expected: str | None = None
        self.armed: tuple[str, tuple[str, ...]] | None = None

    def learn(self, labels: set[str], *, firm: bool) -> None:
        self.belief.become(labels, firm=firm)
        self.expected = None

    def may_change(self, to: str) -> None:
        """The person may come to believe in the change that is counted on, or not yet."""
        self.belief.move(lambda now: {now, (to, now[1])})

    def apply(self, event: Event) -> None:
        concerned = self.asked in event.agents
        if event.verb == "world":
            self.world.become(set(event.labels), firm=True)
            if concerned:
                self.learn(self.world.labels, firm=True)
        elif event.verb == "arm":
            self.armed = (event.labels[0], event.agents)
        elif event.verb in ("pass", "stall"):
            if self.armed is None:
                raise ValueError(f"event {event.verb!r}: no mechanism was armed before")
            label, knowing = self.armed
            if event.verb == "pass":
                self.world.become({label}, firm=True)
            if concerned and self.asked in knowing:
                self.learn({label}, firm=True)
        elif concerned:
            self._person(event.verb, set(event.labels))

    def _person(self, verb: str, labels: set[str]) -> None:
        if verb == "see":
            self.learn(self.world.labels, firm=True)
        elif verb in ("tell", "infer"):
            self.learn(labels, firm=verb == "tell")
        elif verb == "forget":
            self.learn({UNKNOWN}, firm=False)
        elif verb == "doubt":
            self.belief.move(lambda now: {(now[0], False)})
        elif verb == "read":  # what is firm stays; somebody who may have seen the thing may believe either
            self.belief.move(lambda now: {now} if now[1] else {(label, False) for label in labels})
        elif verb == "hear":
            self.belief.move(lambda now: {now} if now[1] else {now, *((label, False) for label in labels)})
        elif verb == "view":
            seen = {(label, True) for label in self.world.labels}
            self.belief.move(lambda now: {now} | seen)
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
        if state.expected is not None:
            state.may_change(state.expected)
        lines.append(Line(state.world.layer(), state.belief.layer()))
    return lines
