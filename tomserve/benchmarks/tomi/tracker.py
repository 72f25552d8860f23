"""What people believe in a ToMi story: the answers that follow from its events.

Whoever is in the room of the object sees where it is put, and sees that all others there see it; whoever enters that
room sees where the object is then, because containers are open. Nobody sees anything of another room. The fixed file
says in which room a container is; the original does not, and there it is the room of whoever moves the object.

>>> story = ("Ann entered the hall.", "Ben entered the hall.", "The key is in the box.", "Ben exited the hall.",
...          "Ann moved the key to the bag.")
>>> question = "Where does Ann think that Ben searches for the key?"
>>> asked = Asked.of(question)
>>> Told.of(story, asked.object).answer(asked), Told.of(story, asked.object).places
('box', ('box', 'bag'))
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tomserve.beliefs import Trace, Update, together

QUESTIONS = {
    "memory": re.compile(r"Where was the (?P<object>\S+) at the beginning\?"),
    "reality": re.compile(r"Where is the (?P<object>\S+) really\?"),
    "first_order": re.compile(r"Where will (?P<a>\S+) look for the (?P<object>\S+)\?"),
    "second_order": re.compile(r"Where does (?P<a>\S+) think that (?P<b>\S+) searches for the (?P<object>\S+)\?"),
}
ORDERS = {"memory": 0, "reality": 0, "first_order": 1, "second_order": 2}
_GOES = re.compile(r"(\S+) (entered|exited) the (\S+?)\.?")
_IS = re.compile(r"(?!The )(\S+) is in the (\S+?)\.?")
_LIES = re.compile(r"The (\S+) is in the (\S+?)\.?")
_MOVES = re.compile(r"(\S+) moved the (\S+) to the (\S+?)\.?")


class Asked(NamedTuple):
    """What a question asks: its task (a key of QUESTIONS), the object, and whose belief, the outermost person first."""

    task: str
    object: str
    people: tuple[str, ...]

    @classmethod
    def of(cls, question: str) -> Asked:
        """The question's parts. Raises ValueError where it has none of the forms of QUESTIONS."""
        for task, form in QUESTIONS.items():
            if found := form.fullmatch(question):
                people = tuple(found[name] for name in ("a", "b") if name in form.groupindex)
                return cls(task, found["object"], people)
        raise ValueError(f"is {question!r:.80}; expected such as 'Where will Ann look for the key?'")


class Told(NamedTuple):
    """What a story tells of an object.

    places: its containers, in their order. trace: the updates of what people believe of it. roomed: whether the story
    says in which room these containers are.
    """

    places: tuple[str, ...]
    trace: Trace
    roomed: bool

    @classmethod
    def of(cls, story: Sequence[str], obj: str) -> Told:
        """Raises ValueError where the story does not say where the object is."""
        places: list[str] = []
        people: list[str] = []
        for line in story:
            if (found := _LIES.fullmatch(line)) and found[1] == obj:
                places.append(found[2])
            elif found := _MOVES.fullmatch(line):
                people.append(found[1])
                places += [found[3]] if found[2] == obj else []
            elif found := _GOES.fullmatch(line) or _IS.fullmatch(line):
                people.append(found[1])
        if not places:
            raise ValueError(f"does not say where the {obj} is")
        room, roomed = _room(story, obj, places)
        trace = Trace.of(len(story), people, lambda bits: _updates(story, obj, room, bits))
        return cls(tuple(dict.fromkeys(places)), trace, roomed)

    def answer(self, asked: Asked) -> str | None:
        """The right answer; None where it does not follow, as for somebody who never learns of the object.

        Raises ValueError where the same person is asked about twice.
        """
        if asked.task == "memory":
            return self.places[0]
        found = self.trace.belief(asked.people)
        return found.labels[-1] if found.firm else None


def _room(story: Sequence[str], obj: str, places: Sequence[str]) -> tuple[str | None, bool]:
    """The room of the object, and whether the story states it: that of its containers, or else of whoever moves it."""
    rooms = {found[1]: found[2] for line in story if (found := _LIES.fullmatch(line)) and found[1] != obj}
    for place in places:
        if place in rooms:
            return rooms[place], True
    where: dict[str, str | None] = {}
    for line in story:
        _walk(line, where)
        if (found := _MOVES.fullmatch(line)) and found[2] == obj and found[1] in where:
            return where[found[1]], False
    return None, False


def _walk(line: str, where: dict[str, str | None]) -> str | None:
    """Note in `where` who is in which room after a line; the room that somebody came into by it, if any."""
    if found := _GOES.fullmatch(line):
        where[found[1]] = found[3] if found[2] == "entered" else None
    elif found := _IS.fullmatch(line):
        where[found[1]] = found[2]
    else:
        return None
    return where[found[1]]


def _updates(story: Sequence[str], obj: str, room: str | None, bits: Mapping[str, int]) -> Iterator[Update]:
    where: dict[str, str | None] = {}
    box = None
    for number, line in enumerate(story):
        entered = _walk(line, where)
        if (found := _LIES.fullmatch(line)) and found[1] == obj:
            box = found[2]
        elif (found := _MOVES.fullmatch(line)) and found[2] == obj:
            box = found[3]
        elif entered != room or box is None or entered is None:
            continue
        assert box is not None
        yield Update(number, (box,), together(sum(bits[name] for name, at in where.items() if at == room)))
