"""The sentences of a Hi-ToM story, in the words of the released generator: one function for each kind of event.

>>> entered(("Ann", "Bo", "Cy"), "den"), moved("Ann", "pen", "red_box")
('Ann, Bo and Cy entered the den.', 'Ann moved the pen to the red_box.')

They are apart from the events (events.py), whose `text` they write, because a generator that only wants the sentences
of a story it has drawn need not make the events first, which takes three times as long.
"""

from __future__ import annotations

from collections.abc import Sequence


def entered(agents: Sequence[str], room: str) -> str:
    """Agents come into a room together."""
    *others, last = agents
    return f"{', '.join(others)}{' and ' if others else ''}{last} entered the {room}."


def placed(thing: str, container: str) -> str:
    """An object lies in a container."""
    return f"The {thing} is in the {container}."


def moved(agent: str, thing: str, container: str) -> str:
    """An agent moves an object."""
    return f"{agent} moved the {thing} to the {container}."


def stayed(agent: str, room: str) -> str:
    """An agent does nothing."""
    return f"{agent} made no movements and stayed in the {room} for 1 minute."


def exited(agent: str, room: str) -> str:
    """An agent leaves a room."""
    return f"{agent} exited the {room}."


def claimed(speaker: str, thing: str, container: str, *, the: bool = False, now: bool = False) -> str:
    """An agent says before everybody where an object is."""
    return (
        f"{speaker} publicly claimed that {'the ' if the else ''}{thing} is in the {container}{' now' if now else ''}."
    )


def told(speaker: str, hearer: str, thing: str, container: str, *, now: bool = False) -> str:
    """An agent says to one other alone where an object is."""
    return f"{speaker} privately told {hearer} that the {thing} is in the {container}{' now' if now else ''}."


def remarked(agent: str, verb: str, thing: str) -> str:
    """Something that has nothing to do with the object."""
    return f"{agent} {verb} {thing}."
