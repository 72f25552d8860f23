"""Small worlds written by hand: four people, a thing in one of three places, and a matter that goes well or badly."""

from collections.abc import Sequence
from typing import Any

from tomserve.benchmarks.worlds import rules
from tomserve.benchmarks.worlds.record import Person, Question, Scene, World
from tomserve.items import UNKNOWN

PEOPLE = {
    "P": Person(name="Ann", gender="woman", culture="Irish"),
    "Q": Person(name="Ben", gender="man", culture="Irish"),
    "R": Person(name="Cem", gender="man", culture="Turkish"),
    "S": Person(name="Dora", gender="woman", culture="Greek"),
}
FACTS = {"place": ("x", "y", "z"), "result": ("won", "lost"), "culprit": ("Q", "R", "chance")}
WORDS = {
    **{"x": "drawer", "y": "basket", "z": "chest", "won": "won", "lost": "lost", "chance": "nobody"},
    **{"open_x": "open the drawer", "open_y": "open the basket", "wait": "wait", "leave": "leave", "o": "key"},
    **rules.FEELINGS,
}
PLANS = {"place": {"x": "open_x", "y": "open_y", "z": "wait"}, "result": {"match": "wait", "mismatch": "leave"}}


def small(*lines: str | Sequence[str], **changed: Any) -> World:
    """A world in which these events happen, one or several in each line."""
    scenes = tuple(Scene(role="any", events=(line,) if isinstance(line, str) else tuple(line)) for line in lines)
    fields = {"people": PEOPLE, "words": WORDS, "facts": FACTS, "plans": PLANS, "scenes": scenes}
    return World(**{"family": "transfer", "name": "small", **fields, **changed})


def ask(kind: str, fact: str, *who: str, choices: Sequence[str] = (), **more: Any) -> Question:
    """A question; the choices are all values of the fact and "unknown" unless others are given."""
    return Question(kind=kind, fact=fact, who=who, choices=tuple(choices) or (*FACTS[fact], UNKNOWN), role=kind, **more)


def told(world: World, question: Question, at: int | None = None) -> str | None:
    """The right answer."""
    return rules.answer(world, question, at=at)
