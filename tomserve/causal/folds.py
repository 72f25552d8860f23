"""Which items are held out together: folds by scenario, and partners that are about another scenario."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tomserve.errors import ConfigError

Ints = NDArray[np.int64]

TRIES = 1000
"""How often two partners are exchanged at random before a rotation, which always works, is taken instead."""


def folds(clusters: ArrayLike, k: int = 5, seed: int = 0, families: Sequence[str] | None = None) -> Ints:
    """The fold, from 0 to k - 1, of every item [n]; the items of a scenario are all in the same fold.

    Scenarios are dealt in a random order, the larger ones first, each to the fold that so far has the fewest items of
    its family, and among those the fewest items. So the folds are about equally large, each holds about the same share
    of every family, and none is empty.

    clusters: the scenario of each item [n]. k: how many folds. seed: of the order. families: the family of each item
    [n], all one family unless given; a scenario belongs to the family of its first item.

    Raises ConfigError where there are fewer scenarios than folds.
    """
    names, first, index = np.unique(np.asarray(clusters), return_index=True, return_inverse=True)
    if len(names) < k:
        raise ConfigError(
            f"the items are about {len(names)} scenario{'s' * (len(names) != 1)}, and {k} folds by scenario need at "
            f"least {k}: give items about more scenarios, or ask for fewer folds"
        )
    of = np.zeros(index.size) if families is None else np.asarray(families)
    _, kinds = np.unique(of, return_inverse=True)
    sizes = np.bincount(index)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(names))
    order = order[np.argsort(-sizes[order], kind="stable")]
    held = np.zeros((kinds.max() + 1, k), dtype=np.int64)
    fold = np.empty(len(names), dtype=np.int64)
    for scenario in order:
        family = kinds[first[scenario]]
        chosen = int(np.lexsort((held.sum(axis=0), held[family]))[0])
        held[family, chosen] += sizes[scenario]
        fold[scenario] = chosen
    return np.asarray(fold[index])


def elsewhere(clusters: ArrayLike, rng: np.random.Generator) -> Ints:
    """A random permutation that gives every item another item, which is about another scenario [n].

    A random permutation in which items that got one of their own scenario exchange theirs with others at random; where
    that does not end, the items are put in order of their scenarios and shifted by the size of the largest one.

    clusters: the scenario of each item [n]. rng: what it is drawn from.

    Raises ConfigError where more than half of the items are about one scenario, so that there is no such permutation.
    """
    _, index, sizes = np.unique(np.asarray(clusters), return_inverse=True, return_counts=True)
    n = index.size
    if n and 2 * sizes.max() > n:
        raise ConfigError(
            f"{sizes.max()} of {n} items are about one scenario, so that not every item can be paired with one of "
            "another scenario: give items of which at most half are about the same scenario"
        )
    partner = rng.permutation(n)
    for _ in range(TRIES):
        wrong = np.flatnonzero(index[partner] == index)
        if not wrong.size:
            return np.asarray(partner, dtype=np.int64)
        one, other = wrong[0], int(rng.integers(n))
        if index[partner[other]] != index[one] and index[partner[one]] != index[other]:
            partner[[one, other]] = partner[[other, one]]
    order = np.argsort(rng.permutation(sizes.size)[index], kind="stable")
    partner[order] = np.roll(order, int(sizes.max()))
    return np.asarray(partner, dtype=np.int64)
