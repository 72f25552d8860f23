"""Linear probes: whether a label can be read out of states by a classifier that has not seen their scenarios.

The classifier is least squares on one column for each label, with a ridge penalty and an intercept; the label whose
column is largest is the answer. The control task (Hewitt and Liang, EMNLP 2019) gives every state the label of a state
of another scenario: what a probe still gets right is not read out of the states.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tomserve.causal.fitting import Ridge
from tomserve.causal.folds import Ints, elsewhere
from tomserve.causal.projection import Floats
from tomserve.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Probed:
    """What a probe got right, for every state [m], from a probe that was trained without its fold.

    right: whether the label was read rightly, None where there is no label or nothing to learn from. shuffled: the same
    in the control task, where the label is that of a state of another scenario. chance: the share of the most frequent
    label among those the probe was trained on, NaN where `right` is None.
    """

    right: tuple[bool | None, ...]
    shuffled: tuple[bool | None, ...]
    chance: Floats


def probe(states: Floats, labels: Ints, folds: Ints, groups: Ints, seed: int) -> Probed:
    """Probe every state, by its fold's probe.

    The penalty is chosen inside the training folds, by exactly leaving out one scenario at a time (see
    `tomserve.causal.fitting.Ridge`), as the one with the least squared error; the probe of the control task chooses
    its own. States are not standardised, and there is no nonlinearity: a probe says what is there for a linear reader.

    states: [m, d]. labels: int64 [m], whole numbers that stand for labels; a negative one stands for an unknown label,
    and its state takes no part. folds: int64 [m]. groups: int64 [m], the scenario of each state. seed: of the control
    task, whose labels are the same for every layer.

    Raises ValueError where a scenario lies in two folds, since then nothing is held out.
    """
    known = labels >= 0
    for group in np.unique(groups):
        if np.unique(folds[groups == group]).size > 1:
            raise ValueError(f"scenario {group} lies in {np.unique(folds[groups == group]).size} folds: expected 1")
    m = labels.size
    right, shuffled = np.full(m, -1), np.full(m, -1)
    chance = np.full(m, np.nan)
    mixed = labels.copy()
    mixed[known] = _mixed(labels[known], groups[known], seed)
    for fold in np.unique(folds[known]):
        train, test = known & (folds != fold), known & (folds == fold)
        if np.unique(labels[train]).size < 2 or np.unique(groups[train]).size < 2:
            continue
        ridge = Ridge(states[train], groups[train], intercept=True)
        for truth, found in ((labels, right), (mixed, shuffled)):
            found[test] = _read(ridge, truth[train], states[test]) == truth[test]
        chance[test] = np.unique(labels[train], return_counts=True)[1].max() / train.sum()
    return Probed(_answers(right), _answers(shuffled), chance)


def _mixed(labels: Ints, groups: Ints, seed: int) -> Ints:
    """The labels of other scenarios' states; of any other states where one scenario has more than half of them."""
    rng = np.random.default_rng(seed)
    try:
        return labels[elsewhere(groups, rng)]
    except ConfigError:
        return rng.permutation(labels)


def _read(ridge: Ridge, labels: Ints, states: Floats) -> Ints:
    """The labels of states, read by a classifier of those that the ridge was made with."""
    names, code = np.unique(labels, return_inverse=True)
    hot = np.eye(names.size)[code]
    centred = hot - hot.mean(axis=0)
    penalty, _ = ridge.chosen(centred)
    weights = ridge.right @ (ridge.shrunk(penalty)[:, None] * (ridge.left.T @ centred))
    scores = (states - ridge.centre) @ weights + hot.mean(axis=0)
    return np.asarray(names[scores.argmax(axis=1)], dtype=np.int64)


def _answers(found: NDArray[np.int64]) -> tuple[bool | None, ...]:
    return tuple(None if one < 0 else bool(one) for one in found)
