"""Put the sentences of a Hi-ToM story that do not depend on each other in another order.

>>> lines = ["Ann and Bo entered the den.", "The pen is in the red_box.", "Ann exited the den.",
...          "Bo made no movements and stayed in the den for 1 minute.", "Bo exited the den."]
>>> for sentence in reordered(Story.parse(lines), Dice("1")).sentences():
...     print(sentence)
Ann and Bo entered the den.
The pen is in the red_box.
Bo made no movements and stayed in the den for 1 minute.
Ann exited the den.
Bo exited the den.

What somebody sees, loses or likes may stand anywhere after the first sentence, but not between entering a room and what
lies there. That somebody stays may stand anywhere while this agent is there and does nothing else. Two agents who leave
one after the other may change places where nobody tells anything, since trust goes by who left later. All else keeps
its order; so nobody sees or hears anything else, or with others, than before, which is checked.
"""

from __future__ import annotations

from collections.abc import Sequence

from tomserve.benchmarks.hitom.dice import Dice
from tomserve.benchmarks.hitom.events import Claim, Distractor, Enter, Event, Exit, Place, Stay, Story, Tell, agents_of
from tomserve.benchmarks.hitom.tracker import trace
from tomserve.errors import InapplicableError
from tomserve.stability.making import CHANGES_TRUTH

FIXED = "no sentence can change its place"
_TRIES = 8
"""How often an order is drawn before the story counts as one that has no other."""


def reordered(story: Story, dice: Dice) -> Story:
    """The story in another order, with the same beliefs of everybody about everything at its end.

    Raises InapplicableError where there is none.
    """
    events = [event for event in story.events if not isinstance(event, Distractor)]
    others = [event for event in story.events if isinstance(event, Distractor)]
    after = _after(events)
    for _ in range(_TRIES):
        found = Story(tuple(_strewn(_drawn(events, after, dice), others, dice)))
        if found.events != story.events:
            if not same_beliefs(story, found):
                raise InapplicableError(CHANGES_TRUTH)
            return found
    raise InapplicableError(FIXED)


def same_beliefs(one: Story, other: Story) -> bool:
    """Whether everything is seen and said of every object in the same order by and to the same agents, with the same
    trust, so that all beliefs of any order end alike under either semantics."""
    for obj in one.objects:
        first, second = trace(one, obj), trace(other, obj)
        if first.bits != second.bits or [m[1:] for m in first.mentions] != [m[1:] for m in second.mentions]:
            return False
    return True


def _after(events: Sequence[Event]) -> list[list[int]]:
    """For each event the places (from 0) of the earlier ones that it has to follow."""
    tells = any(isinstance(event, Claim | Tell) for event in events)
    return [
        [before for before in range(place) if not _free(events[before], event, tells)]
        for place, event in enumerate(events)
    ]


def _free(one: Event, other: Event, tells: bool) -> bool:
    """Whether two events may change places. tells: whether anything is told in the story."""
    if not isinstance(one, Stay):
        one, other = other, one
    if isinstance(one, Stay):
        return not isinstance(other, Enter | Place) and one.agent not in agents_of(other)
    return isinstance(one, Exit) and isinstance(other, Exit) and one.agent != other.agent and not tells


def _drawn(events: Sequence[Event], after: list[list[int]], dice: Dice) -> list[Event]:
    """An order of the events in which each follows those that it has to follow, drawn step by step."""
    waits = [len(before) for before in after]
    followers: list[list[int]] = [[] for _ in events]
    for place, listed in enumerate(after):
        for before in listed:
            followers[before].append(place)
    ready = [place for place, count in enumerate(waits) if not count]
    found = []
    while ready:
        place = ready.pop(dice.below(len(ready)))
        found.append(events[place])
        for follower in followers[place]:
            waits[follower] -= 1
            if not waits[follower]:
                ready.append(follower)
    return found


def _strewn(events: list[Event], others: Sequence[Event], dice: Dice) -> list[Event]:
    """The events with the others among them, each in a gap drawn for it."""
    gaps = [
        place
        for place in range(1, len(events) + 1)
        if not (isinstance(events[place - 1], Enter) and isinstance((*events, None)[place], Place))
    ] or [len(events)]
    drawn = sorted((dice.pick(gaps), at) for at in range(len(others)))
    found: list[Event] = []
    for place in range(len(events) + 1):
        found += [others[at] for gap, at in drawn if gap == place]
        found += events[place : place + 1]
    return found
