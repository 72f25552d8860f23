"""Makes the two spreadsheets of the study "Is the new model worse?": 240 sums of arithmetic, and two made examinees.

    python docs/gallery/make_exam.py FOLDER

Nobody was asked. The replies are drawn at random with known chances, so that a reader can hold what the tables say
against the truth: over all questions, the first examinee is right with chance .70 and the second with .68. Questions
that belong to one sheet share a difficulty, so that they go together, as questions about one text do.
"""

from __future__ import annotations

import csv
import math
import random
import sys
from pathlib import Path
from typing import NamedTuple

SHEETS, SEED = 60, 20261124
CHANCES = {"old": 0.70, "new": 0.68}
"""The chance of a right reply over all questions, by the examinee."""

SUBJECTS = {
    "addition": "{name} has {a} {things} and gets {b} more. How many {things} does {name} have now?",
    "sharing": "{name} puts {product} {things} into {b} equal boxes. How many {things} are in each box?",
    "rates": "{name} packs {a} {things} an hour. How many {things} does {name} pack in {b} hours?",
    "change": "{name} had {total} {things} and gave {b} away. How many {things} are left?",
}
"""What is asked on every sheet, by the subject."""

NAMES = ("Ada", "Bo", "Cem", "Dia", "Eli", "Fay", "Gus", "Hua", "Ivo", "Jin", "Kim", "Lea")
THINGS = ("apples", "books", "coins", "cups", "keys", "pens", "plates", "stamps", "tiles", "tickets")


class Question(NamedTuple):
    """A sum: its id, the sheet it stands on, its subject, its text and the right number."""

    id: str
    sheet: str
    subject: str
    text: str
    target: int


def questions(chance: random.Random) -> list[Question]:
    """All questions, four to a sheet."""
    made = []
    for number in range(SHEETS):
        name, things = chance.choice(NAMES), chance.choice(THINGS)
        for subject, text in SUBJECTS.items():
            a, b = chance.randint(12, 60), chance.randint(3, 9)
            shown = text.format(name=name, things=things, a=a, b=b, product=a * b, total=a + b)
            target = {"addition": a + b, "sharing": a, "rates": a * b, "change": a}[subject]
            made.append(Question(f"{number:02}-{subject}", f"sheet {number:02}", subject, shown, target))
    return made


def difficulties(chance: random.Random, asked: list[Question]) -> dict[str, float]:
    """How easy each question is, by its id, on the scale of log odds: what its sheet adds, and what is its own."""
    sheets = {one.sheet: chance.gauss(0, 1) for one in asked}
    own = {one.id: chance.gauss(0, 1) for one in asked}
    return {one.id: sheets[one.sheet] + own[one.id] for one in asked}


def said(chance: random.Random, one: Question, odds: float) -> tuple[int, bool]:
    """The number that an examinee replies, and whether it is right. odds: the log odds that it is."""
    right = chance.random() < 1 / (1 + math.exp(-odds))
    return one.target if right else one.target + chance.choice((-10, -2, -1, 1, 2, 10)), right


def write(folder: Path) -> None:
    """Write old.csv and new.csv into the folder."""
    chance = random.Random(SEED)
    asked = questions(chance)
    easy = difficulties(chance, asked)  # the same for both examinees
    for name, share in CHANCES.items():
        level = offset(share)
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["question", "sheet", "subject", "prompt", "reply", "read", "target", "mark"])
            for one in asked:
                number, right = said(chance, one, level + easy[one.id])
                reply = f"Let me see. The answer is {number}."
                rows.writerow([*one[:4], reply, number, one.target, int(right)])


def offset(share: float) -> float:
    """The log odds that give this share of right replies on average over difficulties that spread normally with
    variance 2; by halving an interval."""
    low, high = -5.0, 5.0
    steps = [-6 + 0.01 * i for i in range(1201)]
    weights = [math.exp(-z * z / 2) for z in steps]
    for _ in range(60):
        middle = (low + high) / 2
        mean = sum(w / (1 + math.exp(-(middle + math.sqrt(2) * z))) for w, z in zip(weights, steps, strict=True))
        low, high = (middle, high) if mean / sum(weights) < share else (low, middle)
    return low


if __name__ == "__main__":
    write(Path(sys.argv[1]))
