"""Simulated people who answer questions about stories: both differ, and so do people between classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tomserve.stats.people_power import Spread


@dataclass(frozen=True)
class Crowd:
    """The answers of one study: right or not, who, about which task, of which class; and the model's answers."""

    right: npt.NDArray[np.float64]
    person: npt.NDArray[np.int64]
    task: npt.NDArray[np.int64]
    treated: npt.NDArray[np.bool_]
    model: npt.NDArray[np.float64]


def crowd(
    rng: np.random.Generator, people: int, answers: int, tasks: int, effect: float, spread: Spread, model: float = 0.5
) -> Crowd:
    """A study in which everybody answers `answers` questions about different tasks, each as often, of either class with `tasks`
    tasks each. The treated class is harder by `effect`, and the mean of both shares is spread.share less half of it.
    The chance of a right answer is the share plus what person, person in the class, and task add, within 0 and 1.

    model: its share of right answers; it answers every task once, independently.
    """
    middle = spread.share - effect / 2
    v = middle * (1 - middle)
    who = rng.normal(0, np.sqrt(v * spread.people), people)
    taste = rng.normal(0, np.sqrt(v * spread.people_by_class), (people, 2))
    hard = rng.normal(0, np.sqrt(v * spread.stories), (2, tasks))
    said = (rng.random((2, tasks)) < model).astype(float)
    rows = []
    turn = rng.permutation(people)
    for person in range(people):
        for arm in (0, 1):
            for task in ((turn[person] * answers + place) % tasks for place in range(answers)):
                chance = middle + (effect / 2 if arm == 0 else -effect / 2)
                chance += who[person] + taste[person, arm] + hard[arm, task]
                rows.append((rng.random() < chance, person, arm * tasks + task, arm == 1, said[arm, task]))
    right, person_, task_, treated, other = (np.array(column) for column in zip(*rows, strict=True))
    return Crowd(right.astype(float), person_, task_, treated, other)
