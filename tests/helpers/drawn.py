"""Outcomes drawn with known effects, for tests of the estimators."""

from __future__ import annotations

import numpy as np

Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def study(shares: list[tuple[float, float]], answers: int = 4) -> Columns:
    """One treated and one control task a stage, with these shares right: outcome, treated, task, stage."""
    y, arm, task, stage = [], [], [], []
    for index, (treated, control) in enumerate(shares):
        for name, share in (("t", treated), ("c", control)):
            right = round(share * answers)
            y += [1.0] * right + [0.0] * (answers - right)
            arm += [name == "t"] * answers
            task += [f"{index}/{name}"] * answers
            stage += [f"s{index}"] * answers
    return np.array(y), np.array(arm), np.array(task), np.array(stage)


def drawn(seed: int, effect: float, tasks: int = 9, answers: int = 16) -> Columns:
    """Seven stages, one control and `tasks` treated tasks each."""
    rng = np.random.default_rng(seed)
    arm = np.tile(np.repeat([False] + [True] * tasks, answers), 7)
    stage = np.repeat(np.arange(7), (tasks + 1) * answers)
    task = np.repeat(np.arange(7 * (tasks + 1)), answers)
    logit = 0.4 + rng.normal(0, 0.7, 7)[stage] + rng.normal(0, 0.5, task.max() + 1)[task] + effect * arm
    return (rng.random(task.size) < 1 / (1 + np.exp(-logit))).astype(float), arm, task, stage
