"""The courses of events of the family valley: drawn until one has the right answers that were drawn for it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise

from tomserve.benchmarks.worlds.record import Key

VALUES = ("w", "x", "y", "z")
MOODS, REPLIES = ("glad", "sad"), ("match", "mismatch")
Place = tuple[Key, int]
"""Somebody in a scene, which is counted from 0."""


@dataclass(frozen=True)
class Course:
    """What happens. real: the decisions. told: what is said in scenes 2 to 4. hears, tellers: who hears the decision,
    and who tells the other something, in those scenes. beliefs: of P and Q after scenes 1 to 4. wishes: of P and Q."""

    real: list[Key]
    told: list[Key]
    hears: list[Key]
    tellers: list[Key]
    beliefs: dict[Key, list[Key]]
    wishes: dict[Key, Key]

    def glad(self, place: Place) -> bool:
        """Whether the person believes to have got the wish."""
        return self.beliefs[place[0]][place[1]] == self.wishes[place[0]]

    def event(self, place: Place, heard: bool) -> Key:
        """The event of a scene: what the person, or the other one, heard from whoever decides, or was told."""
        k = place[1]
        return f"fact_{self.real[k]}" if heard else f"{self.tellers[k - 1]}_{self.told[k - 1]}"


def course(rng: random.Random, wish: int) -> Course | None:
    """A course of events drawn at random; None where it does not fit. wish: P's is the decision of this scene."""
    named = [*VALUES, *VALUES]
    rng.shuffle(named)
    real, told = named[:5], named[5:]
    hears, tellers = rng.choices("PQ", k=3), rng.choices("RS", k=3)
    if any(one == two for one, two in pairwise(real)):
        return None
    beliefs = {"P": real[:1], "Q": real[:1]}
    for now, said, hearer, teller in zip(real[1:4], told, hears, tellers, strict=True):
        other = beliefs["Q" if hearer == "P" else "P"]
        beliefs[hearer].append(now)
        if said == other[-1]:
            return None
        other.append(said if teller == "R" else other[-1])
    if beliefs["P"][3] != real[3]:
        return None
    wishes = {"P": real[wish]}
    wishes["Q"] = rng.choice([value for value in VALUES if value != wishes["P"]])
    return Course(real, told, hears, tellers, beliefs, wishes)


@dataclass(frozen=True)
class Aims:
    """What the right answers are to be: booleans that say, by question, whether a belief is true or a person glad."""

    true: tuple[bool, bool, bool]
    glad: tuple[bool, bool]
    stays: bool
    moods: tuple[tuple[bool, bool], tuple[bool, bool]]
    heard: tuple[bool, bool]
    scene: tuple[bool, bool]


def aims(rng: random.Random) -> Aims:
    """Uniform over the choices, but that beliefs before scene 5 are rarely true: there half of them are by design."""
    coin = [rng.random() < 0.5 for _ in range(10)]
    rare = [rng.random() < 1 / 8 for _ in range(3)]
    return Aims(
        true=(rare[0], rare[1], False),
        glad=(coin[0], coin[1]),
        stays=rng.random() < 1 / 4,
        moods=((coin[2], coin[3]), (coin[4], coin[5])),
        heard=(coin[6], coin[7]),
        scene=(coin[8], coin[9]),
    )


def places(rng: random.Random, told: Course, aim: Aims) -> dict[str, Place] | None:
    """Who is asked about in which scene, for each question; None where this course has no answer as it is wanted."""
    every = [(who, k) for who in "PQ" for k in (1, 2, 3)]
    rng.shuffle(every)
    belief = {place: told.beliefs[place[0]][place[1]] for place in every}
    stays = {place: belief[place] == told.beliefs[place[0]][place[1] - 1] for place in every}
    glad = {place: (told.glad((place[0], place[1] - 1)), told.glad(place)) for place in every}
    heard = {place: told.hears[place[1] - 1] == place[0] for place in every}
    true = {place: belief[place] == told.real[place[1]] for place in every}
    wanted = {
        "whether_emotion": [place for place in every if glad[place] == aim.moods[0]],
        "whether_intention": [place for place in every if glad[place] == aim.moods[1]],
        "why_emotion": [place for place in every if len({*glad[place]}) == 2 and heard[place] == aim.heard[1]],
        "why_belief": [place for place in every if not stays[place] and heard[place] == aim.heard[0]],
        "influence_emotion": [place for place in every if glad[place][1] == aim.glad[0]],
        "influence_intention": [place for place in every if glad[place][1] == aim.glad[1]],
        "how_emotion": [place for place in every if place[0] == "P" and glad[place][1] == aim.scene[0]],
        "how_belief": [place for place in every if place[0] == "P" and true[place] == aim.scene[1]],
        "whether_belief": [place for place in every if stays[place] == aim.stays],
        "action": [place for place in every if true[place] == aim.true[2]],
        "belief1": [place for place in every if true[place] == aim.true[0]],
        "belief2": [place for place in reversed(every) if true[place] == aim.true[1]],
    }
    found: dict[str, Place] = {}
    for name, fitting in wanted.items():
        if not fitting:
            return None
        unused = [place for place in fitting if place not in found.values()]
        found[name] = (unused or fitting)[0]
    return found if found["belief1"] != found["belief2"] and len({*told.told}) > 1 else None
