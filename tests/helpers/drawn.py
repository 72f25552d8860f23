"""Outcomes, layers of a model and people that are drawn with known effects, for tests of the estimators."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from tomserve.stats.functional import Behaviour, Stability
from tomserve.stats.power import Spread

Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def study(shares: list[tuple[float, float]], answers: int = 4) -> Columns:
    """One treated and one control task a stage, with these shares right: outcome, treated, task, stage."""
    rows = [
        (float(place < round(share * answers)), name == "t", f"{index}/{name}", f"s{index}")
        for index, pair in enumerate(shares)
        for name, share in zip("tc", pair, strict=True)
        for place in range(answers)
    ]
    y, arm, task, stage = (np.array(column) for column in zip(*rows, strict=True))
    return y, arm, task, stage


def drawn(seed: int, effect: float, tasks: int = 9, answers: int = 16) -> Columns:
    """Seven stages, one control and `tasks` treated tasks each."""
    rng = np.random.default_rng(seed)
    arm = np.tile(np.repeat([False] + [True] * tasks, answers), 7)
    stage = np.repeat(np.arange(7), (tasks + 1) * answers)
    task = np.repeat(np.arange(7 * (tasks + 1)), answers)
    logit = 0.4 + rng.normal(0, 0.7, 7)[stage] + rng.normal(0, 0.5, task.max() + 1)[task] + effect * arm
    return (rng.random(task.size) < 1 / (1 + np.exp(-logit))).astype(float), arm, task, stage


KINDS = ("T1", "T2", "T3", "T4")
M = 60
"""How many scenarios there are unless a test says otherwise."""


def names(count: int = M, each: int = 1) -> np.ndarray:
    """The names of scenarios, each so many times in a row."""
    return np.array([f"s{number:03d}" for number in range(count)]).repeat(each)


def behaviour(share: float = 0.8, seed: int = 0, count: int = M) -> Behaviour:
    """Two questions of two tasks a scenario; chance is 1/2 in one task and 1/4 in the other."""
    right = np.random.default_rng(seed).random(2 * count) < share
    return Behaviour(right, np.tile([0.5, 0.25], count), np.tile(["a", "b"], count), names(count, 2))


def stability(kept: float = 0.9, seed: int = 1, count: int = M, kinds: tuple[str, ...] = KINDS) -> Stability:
    """A variant of each kind a scenario, so large a share of which is answered like the original."""
    same = np.random.default_rng(seed).random(len(kinds) * count) < kept
    return Stability(same, np.tile(kinds, count), names(count, len(kinds)), KINDS)


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
    rows, turn = [], rng.permutation(people)
    for person, arm, place in product(range(people), (0, 1), range(answers)):
        task = (turn[person] * answers + place) % tasks
        chance = middle + effect / 2 * (1 - 2 * arm) + who[person] + taste[person, arm] + hard[arm, task]
        rows.append((rng.random() < chance, person, arm * tasks + task, arm == 1, said[arm, task]))
    right, person_, task_, treated, other = (np.array(column) for column in zip(*rows, strict=True))
    return Crowd(right.astype(float), person_, task_, treated, other)
