"""Fit a rule to the right answers of the other stages: multinomial logistic regression on counts of features.

It takes scipy, which is slow to import, and so is imported only where something is fitted.

>>> def item(stage, word, answer):
...     return Item(id=stage + word, story=[f"There is {word} tea."], question="Which tea?", choices=["red", "black"],
...                 answer=answer, factors={"stage": stage})
>>> items = [item(stage, word, answer) for stage in "AB" for word, answer in (("hot", "red"), ("old", "black"))]
>>> held_out(items, lambda item: item.story[0].split(), lambda item: {"first": "red", "second": "black"})
{'Ahot': 'red', 'Aold': 'black', 'Bhot': 'red', 'Bold': 'black'}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from tomserve.items import Item

if TYPE_CHECKING:
    import numpy as np
    from scipy import sparse

LIMITS = {"maxiter": 200}
"""Options of the optimiser that fits the rules."""

Features = Callable[[Item], list[str]]
"""A function that lists the features of an item, each as often as it counts."""

Roles = Callable[[Item], dict[str, str]]
"""A function that gives an item's labels by role: which label stands for what is predicted."""


def held_out(
    items: Sequence[Item], features: Features, roles: Roles, only: Collection[str] | None = None, penalty: float = 1.0
) -> dict[str, str]:
    """Answers by item id, by multinomial logistic regression on counts of features; each stage from the others.

    What is predicted is the role of the answer, because the labels differ between stages. roles: the labels by role;
    all items have the same roles, and an answer that has none counts as the second of them. only: the stages that are
    answered, None for all; each is learned from all others. penalty: the strength of the quadratic penalty on the
    weights.
    """
    labels = [roles(item) for item in items]
    names = list(labels[0])
    counted = [Counter(features(item)) for item in items]
    by_label = [{label: role for role, label in one.items()} for one in labels]
    target = [names.index(one.get(item.answer, names[1])) for item, one in zip(items, by_label, strict=True)]
    stages = [str(item.factors["stage"]) for item in items]
    answers: dict[str, str] = {}
    for left_out in sorted(set(stages) if only is None else set(stages) & set(only)):
        train = [i for i, stage in enumerate(stages) if stage != left_out]
        test = [i for i, stage in enumerate(stages) if stage == left_out]
        if not train:
            continue
        # A word that occurs in one stage alone cannot help to predict another.
        places: dict[str, set[str]] = {}
        for i in train:
            for word in counted[i]:
                places.setdefault(word, set()).add(stages[i])
        vocabulary = {word: j for j, word in enumerate(sorted(w for w, where in places.items() if len(where) > 1))}
        weights = _fit(*_distinct([(counted[i], target[i]) for i in train], vocabulary, len(names)), penalty)
        chosen = (_matrix([counted[i] for i in test], vocabulary) @ weights).argmax(axis=1)
        answers |= {items[i].id: labels[i][names[role]] for i, role in zip(test, chosen, strict=True)}
    return answers


def _distinct(
    rows: Sequence[tuple[Counter[str], int]], vocabulary: Mapping[str, int], roles: int
) -> tuple[sparse.csr_array, np.ndarray]:
    """The different counts among `rows` (distinct x words), and how many rows with them have each role (distinct x
    roles): the two versions of a story with labels exchanged often count alike, which halves the work."""
    import numpy as np  # imported here, because scoring imports modules that import this one, and needs no fit

    places: dict[frozenset[tuple[str, int]], int] = {}
    kept: list[Counter[str]] = []
    told: list[list[int]] = []
    for counts, role in rows:
        place = places.setdefault(frozenset(counts.items()), len(kept))
        if place == len(kept):
            kept.append(counts)
            told.append([0] * roles)
        told[place][role] += 1
    return _matrix(kept, vocabulary), np.array(told, dtype=float)


def _matrix(rows: Sequence[Counter[str]], vocabulary: Mapping[str, int]) -> sparse.csr_array:
    """Counts of the words of the vocabulary (rows x words), with a last column of ones."""
    from scipy import sparse

    data, columns, starts = [], [], [0]
    for counts in rows:
        known = [(vocabulary[word], count) for word, count in counts.items() if word in vocabulary]
        columns += [column for column, _ in known] + [len(vocabulary)]
        data += [float(count) for _, count in known] + [1.0]
        starts.append(len(data))
    return sparse.csr_array((data, columns, starts), shape=(len(starts) - 1, len(vocabulary) + 1))


def _fit(x: sparse.csr_array, y: np.ndarray, penalty: float) -> np.ndarray:
    """Weights (words x roles) that minimise the penalised log-loss.

    x: different counts of words (distinct x words). y: how many items with these counts have each role (distinct x
    roles).
    """
    import numpy as np
    from scipy.optimize import minimize

    shape = (x.shape[1], y.shape[1])
    turned, every = x.T.tocsr(), y.sum(axis=1, keepdims=True)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(shape)
        scores = x @ weights
        scores -= scores.max(axis=1, keepdims=True)
        odds = np.exp(scores)
        normal = odds.sum(axis=1, keepdims=True)
        value = float((every * np.log(normal)).sum() - (scores * y).sum())
        gradient = turned @ (every * odds / normal - y) + penalty * weights
        return value + 0.5 * penalty * float((weights**2).sum()), gradient.ravel()

    found = minimize(loss, np.zeros(shape[0] * shape[1]), jac=True, method="L-BFGS-B", options=LIMITS)
    return np.asarray(found.x).reshape(shape)
