"""The type of a family of worlds, and the draft that it fills with people, words, scenes and questions."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tomserve.benchmarks.worlds.lexicon import Lexicon
from tomserve.benchmarks.worlds.record import Gender, Key, Part, Person, Question, Scene, World
from tomserve.benchmarks.worlds.rules import FEELINGS
from tomserve.errors import ContentError

DIMENSIONS = {"belief_from_act": "belief", "desire_from_act": "desire"} | dict.fromkeys(
    ("feeling", "surprise", "seen_feeling", "face", "blame"), "emotion"
)
"""What questions of a kind are about, where that is not what the kind is called."""

TRIES = 10_000
"""So often is a name drawn before the lists are said to have too few."""


def by_slot(names: Iterable[str], keys: Iterable[Key]) -> dict[str, Key]:
    """For each slot of a phrasing, one after the other, its key."""
    return dict(zip(names, keys, strict=True))


class Draft:
    """What has been drawn of a world so far. lexicon: the words and phrasings. family, name: of the world; the name
    seeds `rng`. rng: the source of all random choices."""

    def __init__(self, lexicon: Lexicon, family: str, name: str) -> None:
        self.lexicon, self.family, self.name = lexicon, family, name
        self.rng = random.Random(name)
        self.people: dict[Key, Person] = {}
        self.words: dict[Key, str] = {}
        self.facts: dict[str, tuple[Key, ...]] = {}
        self.plans: dict[str, dict[str, Key]] = {}
        self.prospects: tuple[str, ...] = ()
        self.scenes: list[Scene] = []
        self.questions: list[Question] = []
        self._used: dict[str, set[int]] = defaultdict(set)

    def cast(self, keys: Sequence[Key]) -> None:
        """Give people to these keys: names from several cultures, all of which begin with different letters."""
        for key in keys:
            taken = {person.name[0] for person in self.people.values()}
            for _ in range(TRIES):
                block = self.rng.choice(self.lexicon.words["names"])
                gender: Gender = "woman" if self.rng.random() < 0.5 else "man"
                name = self.rng.choice(block["women" if gender == "woman" else "men"])
                if name[0] not in taken:
                    break
            else:
                raise ContentError("names: too few that begin with different letters", path=self.lexicon.words_file)
            self.people[key] = Person(name=name, gender=gender, culture=block["culture"])

    def scene(self, role: str, slots: Mapping[str, Key] | None = None, *events: str, part: Part = "plain") -> None:
        """Add a scene (see Scene) at the end. Its phrasing is one that no scene of this role has yet, while there is
        one. Every role has a random generator of its own for its phrasings, so that a scene more in one of two twins
        leaves the other scenes as they are."""
        count = len(self.lexicon.phrasings(self.family, role))
        number = self._phrasing(role, count)
        self.scenes.append(Scene(role=role, slots=dict(slots or {}), events=events, phrasing=number, part=part))

    def ask(
        self,
        kind: str,
        fact: str,
        choices: Sequence[Key],
        who: Sequence[Key] = (),
        *,
        role: str | None = None,
        at: int | None = None,
        slots: dict[str, Key] | None = None,
        **factors: str | bool | int | None,
    ) -> None:
        """Add a question (see Question); its choices are shown in random order. role: which phrasings ask it, by
        default those named like its kind, as is the factor `task`; the factor `dimension` is by default what such a
        question is about."""
        if not {"dimension", "task"} <= factors.keys():
            factors = {"dimension": DIMENSIONS.get(kind, kind), "task": kind, **factors}
        role = role or kind
        number = self._phrasing(f"? {role}", len(self.lexicon.phrasings(self.family, role, "questions")))
        order = list(choices)
        self.rng.shuffle(order)
        self.words |= {key: FEELINGS[key] for key in order if key in FEELINGS and key not in self.words}
        asked: dict[str, Any] = {"kind": kind, "fact": fact, "choices": tuple(order), "role": role, "at": at}
        given = {"A": who[-1], **({"B": who[0]} if len(who) > 1 else {})} if who else {}
        self.questions.append(
            Question(**asked, who=tuple(who), slots=given | (slots or {}), phrasing=number, factors=factors)
        )

    def world(self, **design: str | bool | int | None) -> World:
        """The finished record. design: the factors of the design that all questions share."""
        return World(
            family=self.family,
            name=self.name,
            design=design,
            people=self.people,
            words=self.words,
            facts=self.facts,
            plans=self.plans,
            prospects=self.prospects,
            scenes=tuple(self.scenes),
            questions=tuple(self.questions),
        )

    def _phrasing(self, role: str, count: int) -> int:
        used = self._used[role]
        rng = random.Random(f"{self.name}/{role}/{len(used)}")
        if len(used) >= count:
            used.clear()
        number = rng.choice([number for number in range(count) if number not in used])
        used.add(number)
        return number


@dataclass(frozen=True)
class Family:
    """A family of worlds."""

    name: str  # what items, files of phrasings and options call it
    draw: Callable[[Draft, str], World]  # of a new draft and a scenario: the finished world
    versions: tuple[
        tuple[str, ...], ...
    ]  # groups of scenarios; a world is told in all of one, worlds take them in turn
    # for scenarios in which the protagonist misses something, those of the twin, in which the protagonist notices or is
    # told; worlds take them in turn
    twins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # scenarios, of the story or of its twin, in which a surface cue parts from the belief (counterfactuals.PARTED)
    parted: tuple[str, ...] = ()
    protagonist: str = "P"
    most: int = 6  # how many questions of a telling are asked, the same in all scenarios of a world
    # by task and reader: up to which share one who follows nobody's mind may do well in a class, and why (see audit.py)
    reasons: Mapping[tuple[str, str], tuple[float, str]] = field(default_factory=dict)

    @property
    def scenarios(self) -> tuple[str, ...]:
        """All scenarios, each once."""
        return tuple(dict.fromkeys(scenario for group in self.versions for scenario in group))

    def twin(self, name: str, scenario: str) -> str | None:
        """The scenario of the twin of a world of that name; None where that scenario has none."""
        twins = self.twins.get(scenario, (None,))
        return twins[name[-1:] in tuple("13579") and len(twins) > 1]

    def world(self, lexicon: Lexicon, name: str, scenario: str) -> World:
        """The world of that name in that scenario; the same arguments give the same world everywhere."""
        return self.draw(Draft(lexicon, self.name, name), scenario)
