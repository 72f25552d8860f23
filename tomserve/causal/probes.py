"""Linear probes: whether a label can be read out of states by a classifier that has not seen their scenarios.

The classifier is least squares on one column for each label, with a ridge penalty and an intercept; of the labels that
a state is offered, the one whose column is largest is the answer. The control task (Hewitt and Liang, EMNLP 2019) gives
every state the label of a state of another scenario of its fold, with what that one was offered: what a probe still
gets right is not read out of the states, but known from how often each label is right in the other folds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tomserve.causal.fitting import Ridge
from tomserve.causal.folds import Ints, elsewhere
from tomserve.causal.projection import Floats
from tomserve.errors import ConfigError

Mask = NDArray[np.bool_]
UNSEEN = -1e300
"""The score of a label that no state in training has: below that of any which some state has."""


@dataclass(frozen=True, slots=True)
class Probed:
    """What a probe got right, for every state [m], from a probe that was trained without its fold.

    right: whether the label was read rightly, None where there is no label, and where no state in training has it, so
    that there was nothing to learn from. shuffled: the same
    in the control task, where the label is that of a state of another scenario. chance: the share of its fold that a
    reader gets right who knows only how often each label was right in training, NaN where `right` is None.
    """

    right: tuple[bool | None, ...]
    shuffled: tuple[bool | None, ...]
    chance: Floats


def probe(states: Floats, labels: Ints, folds: Ints, groups: Ints, seed: int, offered: Mask | None = None) -> Probed:
    """Probe every state, by its fold's probe.

    The penalty is chosen inside the training folds, by exactly leaving out one scenario at a time (see
    `tomserve.causal.fitting.Ridge`), as the one with the least squared error; the probe of the control task chooses
    its own. States are not standardised, and there is no nonlinearity: a probe says what is there for a linear reader.

    states: [m, d]. labels: int64 [m], whole numbers that stand for labels; a negative one stands for an unknown label,
    and its state takes no part. folds: int64 [m]. groups: int64 [m], the scenario of each state. seed: of the control
    task, whose labels are the same for every layer. offered: bool [m, labels], which labels each state may be given,
    all of them unless it is told. A label that no state in training has is never given before one that some state has,
    and no state with such a label is counted.

    Raises ValueError where a scenario lies in two folds, since then nothing is held out, and where a state is not
    offered its own label.
    """
    known = labels >= 0
    if offered is None:
        offered = np.ones((labels.size, int(labels.max(initial=0)) + 1), dtype=bool)
    if not offered[known, labels[known]].all():
        raise ValueError("a state is not offered its own label: expected it among those that the state may be given")
    for group in np.unique(groups):
        if np.unique(folds[groups == group]).size > 1:
            raise ValueError(f"scenario {group} lies in {np.unique(folds[groups == group]).size} folds: expected 1")
    m = labels.size
    right, shuffled = np.full(m, -1), np.full(m, -1)
    chance = np.full(m, np.nan)
    taken = np.arange(m)
    rng = np.random.default_rng(seed)
    for fold in np.unique(folds[known]):
        own = np.flatnonzero(known & (folds == fold))
        taken[own] = own[_mixed(groups[own], rng)]
    for fold in np.unique(folds[known]):
        train, test = known & (folds != fold), known & (folds == fold)
        if np.unique(labels[train]).size < 2 or np.unique(groups[train]).size < 2:
            continue
        ridge = Ridge(states[train], groups[train], intercept=True)
        for of, found in ((np.arange(m), right), (taken, shuffled)):
            read = _read(ridge, labels[of][train], states[test], offered[of][test])
            learnt = np.isin(labels[of][test], labels[of][train])
            found[test] = np.where(learnt, read == labels[of][test], -1)
        often = np.bincount(labels[train], minlength=offered.shape[1])
        learnt = often[labels[test]] > 0
        if learnt.any():
            guessed = np.where(offered[test], often, -1).argmax(axis=1) == labels[test]
            chance[test] = np.where(learnt, guessed[learnt].mean(), np.nan)
    return Probed(_answers(right), _answers(shuffled), chance)


def _mixed(groups: Ints, rng: np.random.Generator) -> Ints:
    """For each state one of another scenario; any one where a scenario has more than half of them."""
    try:
        return elsewhere(groups, rng)
    except ConfigError:
        return rng.permutation(groups.size)


def _read(ridge: Ridge, labels: Ints, states: Floats, offered: Mask) -> Ints:
    """The labels of states, each of those offered, read by a classifier of those that the ridge was made with."""
    names, code = np.unique(labels, return_inverse=True)
    hot = np.eye(names.size)[code]
    centred = hot - hot.mean(axis=0)
    penalty, _ = ridge.chosen(centred)
    weights = ridge.right @ (ridge.shrunk(penalty)[:, None] * (ridge.left.T @ centred))
    scores = np.full(offered.shape, UNSEEN)
    scores[:, names] = (states - ridge.centre) @ weights + hot.mean(axis=0)
    return np.asarray(np.where(offered, scores, -np.inf).argmax(axis=1), dtype=np.int64)


def _answers(found: NDArray[np.int64]) -> tuple[bool | None, ...]:
    return tuple(None if one < 0 else bool(one) for one in found)
