"""The record of a world: people, words, what happens, who perceives what, and what is asked about it.

A world is a value. Everything that a reader sees follows from it: the sentences, the questions, the choices, and with
the rules the right answers. To tell the same story with another person, another object, in the second person, or as if
the protagonist had noticed, one changes the record and renders it again (tomserve.benchmarks.worlds.variants).

>>> ann = Person(name="Ann", gender="woman", culture="Irish")
>>> ann.pronouns["his"], Scene(role="put", slots={"A": "P"}, events=("fact place=x seen P",)).events
('her', ('fact place=x seen P',))
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

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


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Person(_Part):
    """Somebody in a world. culture: where the given name is used, as the list of names says."""

    name: str = Field(min_length=1, max_length=40)
    gender: Gender
    culture: str = ""

    @property
    def pronouns(self) -> dict[str, str]:
        """The pronouns by the form that phrasings name them by."""
        return PRONOUNS[self.gender]


class Scene(_Part):
    """What will be one sentence.

    role: which phrasings say it. slots: for slots of the phrasing, the key of the person or word that fills it; a slot
    that is not listed stands for the key of its own name. events: what happens, in the notation of
    tomserve.benchmarks.worlds.rules. phrasing: which of the role's phrasings is used, counted over and over. part:
    what it does in the story: "cause" changes the world, "percept" says who noticed that or did not, a "filler" can be
    left out without a change of any answer, "plain" is all else. told: "full" as worlds are drawn, "short" where the
    phrasing is one of the brief ones.
    """

    role: str
    slots: dict[str, Key] = Field(default_factory=dict)
    events: tuple[str, ...] = ()
    phrasing: int = 0
    part: Part = "plain"
    told: Literal["full", "short"] = "full"


class Question(_Part):
    """What is asked about a world.

    kind: which rule answers it (see tomserve.benchmarks.worlds.rules). who: keys of the people whose mind is asked
    about, the outermost first; empty for what is really so. fact: the fact that it is about. choices: keys of the
    values to choose from, in the order in which they are shown. role: which phrasings ask it. at: after which line
    (0-based) the answer is wanted; None for the end. factors: what the item's factors say besides those of the world,
    such as the dimension and the task.
    """

    kind: str
    who: tuple[Key, ...] = ()
    fact: str
    choices: tuple[Key, ...] = Field(min_length=2)
    role: str
    slots: dict[str, Key] = Field(default_factory=dict)
    phrasing: int = 0
    at: int | None = None
    factors: dict[str, str | bool | int | None] = Field(default_factory=dict)


class World(_Part):
    """A world and its questions.

    family: the name of its family. name: of the world, the same wherever it is drawn again. design: the factors of the
    experimental design that all its questions share. people: by key. words: the text of every other key. facts: for
    each fact the keys of its values. plans: for each fact that decides what to do, the act by what is believed of it
    (a value of the fact), or by whether that is what is wanted ("match", "mismatch"). prospects: facts that lie ahead,
    which people can only hope for or fear. scenes: what happens, in the order of the story. questions: what is asked.
    second: the key of the person whom the story calls "you", None for nobody.
    """

    family: str
    name: str
    design: dict[str, str | bool | int | None] = Field(default_factory=dict)
    people: dict[Key, Person]
    words: dict[Key, str]
    facts: dict[str, tuple[Key, ...]]
    plans: dict[str, dict[str, Key]] = Field(default_factory=dict)
    prospects: tuple[str, ...] = ()
    scenes: tuple[Scene, ...] = Field(min_length=1)
    questions: tuple[Question, ...] = ()
    second: Key | None = None

    @model_validator(mode="after")
    def _check(self) -> World:
        known = {*self.people, *self.words, UNKNOWN}
        if both := sorted(set(self.people) & set(self.words)):
            raise ValueError(f"the key {both[0]!r} is both a person's and a word's")
        for fact, values in self.facts.items():
            if strange := [key for key in values if key not in known]:
                raise ValueError(f"fact {fact!r} has the value {strange[0]!r}, which is neither a word nor a person")
        for fact in (*self.plans, *self.prospects, *(question.fact for question in self.questions)):
            if fact not in self.facts:
                raise ValueError(f"{fact!r} is no fact of this world; it has {', '.join(self.facts)}")
        for fact, plan in self.plans.items():
            if strange := [act for act in plan.values() if act not in known]:
                raise ValueError(f"the plan for {fact!r} has the act {strange[0]!r}, which is no word")
        for scene in self.scenes:
            if strange := [key for key in scene.slots.values() if key not in known]:
                raise ValueError(
                    f"the scene {scene.role!r} has a slot for {strange[0]!r}, which is neither a word nor a person"
                )
        if self.second is not None and self.second not in self.people:
            raise ValueError(f"the story is told to {self.second!r}, who is nobody of this world")
        for question in self.questions:
            self._check_question(question, known)
        return self

    def _check_question(self, question: Question, known: set[Key]) -> None:
        if strange := [key for key in question.who if key not in self.people]:
            raise ValueError(f"a question asks about {strange[0]!r}, who is nobody of this world")
        if not question.who and question.kind != "reality":
            raise ValueError(f"a question of the kind {question.kind!r} asks about nobody")
        if strange := [key for key in question.choices if key not in known]:
            raise ValueError(f"a question has the choice {strange[0]!r}, which is neither a word nor a person")
        if len(set(question.choices)) < len(question.choices):
            raise ValueError(f"a question offers a choice twice: {', '.join(question.choices)}")
        if strange := [key for key in question.slots.values() if key not in known]:
            raise ValueError(
                f"the question {question.role!r} has a slot for {strange[0]!r}, which is neither a word nor a person"
            )
        if question.at is not None and not 0 <= question.at < len(self.scenes):
            raise ValueError(f"a question is about line {question.at + 1}; there are {len(self.scenes)}")

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON has it, without what has its default value."""
        return self.model_dump(mode="json", exclude_defaults=True)
