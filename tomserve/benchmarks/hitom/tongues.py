"""Tell a drawn story, as events or at once as sentences: the same lines in two tongues.

>>> SENTENCES.move("Ann", "pen", "red_box")
'Ann moved the pen to the red_box.'
>>> EVENTS.move("Ann", "pen", "red_box").text()
'Ann moved the pen to the red_box.'

Items need the sentences alone, and events take three times as long to make, so that they are made where somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from tomserve.benchmarks.hitom import sentences
from tomserve.benchmarks.hitom.events import WAITING_ROOM, Claim, Enter, Event, Exit, Move, Place, Stay, Tell
from tomserve.benchmarks.hitom.plot import Plot, Telling, Turns

T = TypeVar("T")


class Tongue(NamedTuple, Generic[T]):
    """What a story is told in: for each kind of line what makes it, of the same arguments in both tongues."""

    enter: Callable[[tuple[str, ...], str], T]
    place: Callable[[str, str], T]
    move: Callable[[str, str, str], T]
    stay: Callable[[str, str], T]
    exit: Callable[[str, str], T]
    claim: Callable[[str, str, str], T]
    tell: Callable[[str, str, str, str], T]


def _claim(speaker: str, thing: str, container: str) -> Event:
    return Claim(speaker, thing, container, the=True, now=True)


def _whisper(speaker: str, hearer: str, thing: str, container: str) -> Event:
    return Tell(speaker, hearer, thing, container, now=True)


def _claimed(speaker: str, thing: str, container: str) -> str:
    return sentences.claimed(speaker, thing, container, the=True, now=True)


def _whispered(speaker: str, hearer: str, thing: str, container: str) -> str:
    return sentences.told(speaker, hearer, thing, container, now=True)


EVENTS: Tongue[Event] = Tongue(Enter, Place, Move, Stay, Exit, _claim, _whisper)
SENTENCES: Tongue[str] = Tongue(
    sentences.entered, sentences.placed, sentences.moved, sentences.stayed, sentences.exited, _claimed, _whispered
)


def lines(plot: Plot, kind: str, tongue: Tongue[T]) -> list[T | None]:
    """The lines of the twin of that kind in that tongue; None for a line that only the other twins have."""
    names, _, agents, room, thing, containers, later = plot.scene
    named = dict(zip(agents, names, strict=True))
    turns = [(named[agent], moved) for agent, moved in plot.turns]
    found: list[T | None] = []
    _tell_chapter(found, tongue, (tuple(names), room), (thing, containers[0]), turns)
    at = 0
    for number in range(len(later) + 1):
        if number:
            chapter = later[number - 1]
            there = (chapter.members, chapter.room)
            _tell_chapter(found, tongue, there, (chapter.object, chapter.containers[0]), chapter.turns)
        while at < len(plot.told) and plot.told[at].after == number:
            found.append(_tell(tongue, plot.told[at], kind, thing, named))
            at += 1
    return found


def _tell_chapter(
    found: list[T | None],
    tongue: Tongue[T],
    there: tuple[tuple[str, ...], str],
    first: tuple[str, str],
    turns: Turns[str],
) -> None:
    """Add the lines of a chapter. there: who is there, and the room. first: the object, and where it is at first."""
    enter, place, move, stay, leave, _, _ = tongue
    members, room = there
    thing = first[0]
    found += (enter(members, room), place(*first))
    for name, moved in turns:
        if moved:
            for container in moved:
                found.append(move(name, thing, container))
        else:
            found.append(stay(name, room))
        found.append(leave(name, room))
    found.append(enter(members, WAITING_ROOM))


def _tell(tongue: Tongue[T], tell: Telling, kind: str, thing: str, named: dict[int, str]) -> T | None:
    if kind == "none":
        return None
    if kind == "filler":
        return tongue.stay(named[tell.speaker], WAITING_ROOM)
    if tell.public:
        return tongue.claim(named[tell.speaker], thing, tell.container(kind))
    return tongue.tell(named[tell.speaker], named[tell.hearers], thing, tell.container(kind))
