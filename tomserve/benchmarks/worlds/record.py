"""The record of a world: people, words, what happens, who perceives what, and what is asked about it.

A world is a value. Everything that a reader sees follows from it: the sentences, the questions, the choices, and with
the rules the right answers. To tell the same story with another person, another object, in the second person, or as if
the protagonist had noticed, one changes the record and renders it again (tomserve.benchmarks.worlds.variants).

>>> ann = Person(name="Ann", gender="woman", culture="Irish")
>>> ann.pronouns["his"], Scene(role="put", slots={"A": "P"}, events=("fact place=x seen P",)).events
('her', ('fact place=x seen P',))
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any, Literal

from pydantic import Field, model_validator

from tomserve.content.validation import Strict
from tomserve.items import UNKNOWN

Key = str
"""The short name of a person, a word or a value within one world, such as "P" or "x"."""

Part = Literal["plain", "cause", "percept", "filler"]
"""What a scene does in its story (see Scene)."""

Gender = Literal["woman", "man"]
"""The genders that pronouns are chosen by."""

PRONOUNS = {
    "woman": {"he": "she", "him": "her", "his": "her", "himself": "herself"},
    "man": {"he": "he", "him": "him", "his": "his", "himself": "himself"},
    "you": {"he": "you", "him": "you", "his": "your", "himself": "yourself"},
    "I": {"he": "I", "him": "me", "his": "my", "himself": "myself"},
}
"""Pronouns by gender, and those of whoever is called "you" or "I", each under the form that phrasings name it by."""


def refuse_others(keys: Iterable[Key], known: Container[Key], before: str, after: str) -> None:
    """Raise ValueError for the first key that is not known. before, after: what is said around it."""
    if strange := [key for key in keys if key not in known]:
        raise ValueError(f"{before} {strange[0]!r}{after}".strip())


class Person(Strict):
    """Somebody in a world. culture: where the given name is used, as the list of names says."""

    name: str = Field(min_length=1, max_length=40)
    gender: Gender
    culture: str = ""

    @property
    def pronouns(self) -> dict[str, str]:
        """The pronouns by the form that phrasings name them by."""
        return PRONOUNS[self.gender]


class Scene(Strict):
    """What will be one sentence."""

    role: str  # which phrasings say it
    slots: dict[str, Key] = Field(default_factory=dict)  # the key behind each slot; one not listed stands for itself
    events: tuple[str, ...] = ()  # what happens, in the notation of rules.py
    phrasing: int = 0  # which of the role's phrasings is used, counted over and over
    # "cause" changes the world, "percept" says who noticed that or did not, a "filler" can be left out without a change
    # of any answer, "plain" is all else
    part: Part = "plain"
    told: Literal["full", "short"] = "full"  # "short" where the phrasing is one of the brief ones


class Question(Strict):
    """What is asked about a world."""

    kind: str  # which rule answers it: a key of rules.KINDS
    who: tuple[Key, ...] = ()  # whose mind, the outermost person first; empty for what is really so
    fact: str
    choices: tuple[Key, ...] = Field(min_length=2)  # in the order in which they are shown
    role: str  # which phrasings ask it
    slots: dict[str, Key] = Field(default_factory=dict)
    phrasing: int = 0
    at: int | None = None  # after which line (0-based) the answer is wanted; None for the end
    factors: dict[str, str | bool | int | None] = Field(default_factory=dict)  # beside those of the world


class World(Strict):
    """A world and its questions."""

    family: str
    name: str  # the same wherever it is drawn again
    design: dict[str, str | bool | int | None] = Field(default_factory=dict)  # factors that all its questions share
    people: dict[Key, Person]
    words: dict[Key, str]  # the text of every other key
    facts: dict[str, tuple[Key, ...]]  # the values of each
    # for each fact that decides what to do, the act by what is believed of it, or by whether that is what is wanted
    # ("match", "mismatch")
    plans: dict[str, dict[str, Key]] = Field(default_factory=dict)
    prospects: tuple[str, ...] = ()  # facts that lie ahead, which people can only hope for or fear
    scenes: tuple[Scene, ...] = Field(min_length=1)
    questions: tuple[Question, ...] = ()
    second: Key | None = None  # whom the story calls "you"

    @model_validator(mode="after")
    def _check(self) -> World:
        known, neither = {*self.people, *self.words, UNKNOWN}, ", which is neither a word nor a person"
        nobody, listed = ", who is nobody of this world", ", ".join(self.facts)
        refuse_others(sorted(set(self.people) & set(self.words)), (), "the key", " is both a person's and a word's")
        for fact, values in self.facts.items():
            refuse_others(values, known, f"fact {fact!r} has the value", neither)
        facts = (*self.plans, *self.prospects, *(question.fact for question in self.questions))
        refuse_others(facts, self.facts, "", f" is no fact of this world; it has {listed}")
        for fact, plan in self.plans.items():
            refuse_others(plan.values(), known, f"the plan for {fact!r} has the act", ", which is no word")
        for scene in self.scenes:
            refuse_others(scene.slots.values(), known, f"the scene {scene.role!r} has a slot for", neither)
        refuse_others(() if self.second is None else (self.second,), self.people, "the story is told to", nobody)
        for question in self.questions:
            refuse_others(question.who, self.people, "a question asks about", nobody)
            refuse_others(question.choices, known, "a question has the choice", neither)
            refuse_others(question.slots.values(), known, f"the question {question.role!r} has a slot for", neither)
            if not question.who and question.kind != "reality":
                raise ValueError(f"a question of the kind {question.kind!r} asks about nobody")
            if len(set(question.choices)) < len(question.choices):
                raise ValueError(f"a question offers a choice twice: {', '.join(question.choices)}")
            if question.at is not None and not 0 <= question.at < len(self.scenes):
                raise ValueError(f"a question is about line {question.at + 1}; there are {len(self.scenes)}")
        return self

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON has it, without what has its default value."""
        return self.model_dump(mode="json", exclude_defaults=True)
