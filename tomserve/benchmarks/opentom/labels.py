"""What a question of OpenToM asks, its classes, and whether its label contradicts the other labels of the narrative.

Replies are counted by class, because the macro-averaged F1 needs the same classes in all narratives: of a fine location
they are `original` and `new`, whatever the places are called.
"""

from __future__ import annotations

import difflib
import re
from typing import NamedTuple

from tomserve.benchmarks.opentom.reader import PARTS, Narrative, plain

CLASSES = {
    "location_coarse": ("Yes", "No"),
    "location_fine": ("original", "new"),
    "fullness": ("less full", "equally full", "more full"),
    "accessibility": ("less accessible", "equally accessible", "more accessible"),
    "attitude": ("positive", "neutral", "negative"),
}
"""The classes of each task's answers. A coarse location asks whether the object is where it was at first."""

_PERSPECTIVE = re.compile(r"From (.+?)'s perspective|As (.+?), what is your attitude")
_FULLNESS = re.compile(r"how does (?:\S+ think )?(.+?)'s fullness")
CLOSE = 0.6
"""How alike a place must be to one of the plot to be taken for it where it is spelt otherwise (0 to 1)."""


class Question(NamedTuple):
    """A question of a narrative.

    part: the file it is in. number: its place there, from 0. question: as the file has it. task: of CLASSES. order: 0
    for the narrator's, 1 for what somebody believes or feels, 2 for what somebody believes of the other. perspective:
    narrator, mover or observer. place: of a question on fullness, the place it asks about: original or new. right: its
    class. spelt: the places' names, that of the right answer as the answer spells it, without underscores.
    """

    part: str
    number: int
    question: str
    task: str
    order: int
    perspective: str
    place: str | None
    right: str


def places(told: Narrative) -> dict[str, str]:
    """The two places by class, as they are offered: with spaces for underscores, as narratives write them."""
    return dict(zip(CLASSES["location_fine"], (place.replace("_", " ") for place in told.places), strict=True))


def questions(told: Narrative) -> list[Question]:
    """The questions of a narrative, in the order of PARTS.

    Raises ValueError with the file, the place in it and the field, and what is wrong, for a question that has another
    form or answer.
    """
    found = []
    for part, (genre, order) in PARTS.items():
        for number, (question, answer) in enumerate(told.questions[part]):
            try:
                found.append(_question(told, part, number, genre, order, question, answer))
            except _WrongError as error:
                field = f"{told.key}[{number}].{error.field}"
                raise ValueError(f"{part}.json", field, error.reason) from None
    return found


class _WrongError(Exception):
    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field, self.reason = field, reason


def _question(told: Narrative, part: str, number: int, genre: str, order: int, question: str, answer: str) -> Question:
    who = _PERSPECTIVE.match(question)
    name = (who[1] or who[2]) if who else ""
    known = {"narrator": "narrator", told.mover: "mover", told.observer: "observer"}
    if name not in known:
        raise _WrongError("question", f"is {question!r:.80}; expected one from the perspective of {', '.join(known)}")
    task = genre
    if genre == "multihop":
        task = "fullness" if "fullness" in question else "accessibility"
    place = None
    if task == "fullness":
        of = _FULLNESS.search(question)
        place = _closest(told, of[1]) if of else None
        if place is None:
            raise _WrongError(
                "question", f"is {question!r:.80}; expected one on the fullness of {' or '.join(told.places)}"
            )
    if task == "location_fine":
        right = _closest(told, answer)
    else:
        right = next((one for one in CLASSES[task] if one.casefold() == answer.casefold()), None)
    if right is None:
        wanted = told.places if task == "location_fine" else CLASSES[task]
        raise _WrongError("answer", f"is {answer!r:.60}; expected {' or '.join(wanted)}")
    own = 0 if known[name] == "narrator" else order
    return Question(part, number, question, task, own, known[name], place, right)


def _closest(told: Narrative, text: str) -> str | None:
    """Which of the two places is meant; None where neither is nearly spelt so."""
    said, names = plain(text), {plain(place): kind for kind, place in places(told).items()}
    close = difflib.get_close_matches(said, names, n=1, cutoff=CLOSE)
    return names[close[0]] if close else None


def agreement(told: Narrative, asked: list[Question]) -> list[bool | None]:
    """For each question whether its label follows from the plot and from what the same person is said to believe in the
    coarse questions; None where that settles nothing.

    The mover knows that the object was moved, and so does the observer who saw it; the observer who did not takes it to
    be where it was, and takes the mover to think so. Whoever takes it to have been moved takes its first place to be
    less full and the other to be more full, and else both to be equally full, and it to be equally accessible.
    """
    coarse = {(one.order, one.perspective): one.right == "No" for one in asked if one.task == "location_coarse"}
    return [_follows(told, one, coarse) for one in asked]


def _follows(told: Narrative, one: Question, coarse: dict[tuple[int, str], bool]) -> bool | None:
    moved = coarse.get((one.order, one.perspective))
    if one.perspective == "narrator":
        return one.right == ("original" if "beginning" in one.question else "new")
    if one.task == "location_coarse":
        if one.order == 2 and one.perspective == "mover":
            return None
        knows = one.perspective == "mover" or told.observed
        return (one.right == "No") == knows
    if one.task == "accessibility":
        unmoved = one.perspective == "observer" and not told.observed
        return one.right == "equally accessible" if unmoved else None
    if moved is None or one.task == "attitude":
        return None
    if one.task == "location_fine":
        return (one.right == "new") == moved
    expected = {"original": "less full", "new": "more full"}[one.place or "new"] if moved else "equally full"
    return one.right == expected
