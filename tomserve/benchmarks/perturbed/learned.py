"""Rules that are fitted to the right answers of the other stages, and what they answer to the questions of the dataset.

    python -c "from tomserve.benchmarks.perturbed import learned, load; learned.write(list(load()))"

fits them anew, which takes some seconds, and writes their answers to ``learned.json`` beside this module, where scoring
finds them. They stand there by the question's id with a digest of what it says, so that a question that was changed, or
one of other stage files, has no answer rather than a wrong one. `tomserve dataset audit` compares the file with a fit.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from tomserve.benchmarks.perturbed.stagefile import UNKNOWN
from tomserve.items import Item
from tomserve.scoring.rules import mentions

if TYPE_CHECKING:
    import numpy as np
    from scipy import sparse

NAMES = ("question only", "bag of words")
"""The names of the rules, in the order of their answers in the file."""

FILE = Path(__file__).with_name("learned.json")

LIMITS = {"maxiter": 200}
"""Options of the optimiser that fits the rules."""

TOLERATED = 5
"""In how many answers of a rule a fit may differ from the file: another machine rounds in another way, and where two
answers are nearly as likely that decides."""


def shipped(place: int) -> Callable[[Item], str | None]:
    """The answer of a rule, given by its place in NAMES, as the file has it; None for a question that it lacks."""

    def answer(item: Item) -> str | None:
        line = _lines().get(item.id)
        if line is None or not line.startswith(_digest(item)):
            return None
        return item.choices[int(line.split(" ")[1][place])]

    return answer


@cache
def _lines() -> Mapping[str, str]:
    answers: dict[str, str] = orjson.loads(FILE.read_bytes())["answers"]
    return answers


def _digest(item: Item) -> str:
    text = "\x1f".join((*item.story, item.question, *item.choices))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def fitted(items: Sequence[Item]) -> dict[str, dict[str, str]]:
    """The answers of the rules of NAMES, each fitted to the other stages, as a label by item id by name of the rule.

    items: all items of at least two stages; of one stage alone nothing can be learned.
    """
    return {
        NAMES[0]: held_out(items, lambda item: [str(item.factors["question_kind"])], _roles),
        NAMES[1]: held_out(items, _words, _roles),
    }


def differing(items: Sequence[Item], answers: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
    """To how many of these questions the file has another answer than a fit, or none, by name of the rule.

    answers: as `fitted` gives them.
    """
    return {
        name: sum(shipped(place)(item) != answers[name].get(item.id) for item in items)
        for place, name in enumerate(NAMES)
    }


def _roles(item: Item) -> dict[str, str]:
    """Labels by a role that can be seen without knowing the gold: first mentioned, other, unknown."""
    first = (mentions(item) or item.choices)[0]
    others = [choice for choice in item.choices if choice not in (first, UNKNOWN)]
    return {"first": first, "other": others[0] if others else first, "unknown": UNKNOWN}


def _words(item: Item) -> list[str]:
    text = " ".join([*item.story, item.question]).casefold()
    for role, label in _roles(item).items():
        text = text.replace(label.casefold(), f"role_{role}")
    return [str(item.factors["question_kind"]), *re.findall(r"\w+", text)]


Features = Callable[[Item], list[str]]
"""A function that lists the features of an item, each as often as it counts."""

Roles = Callable[[Item], dict[str, str]]
"""A function that gives an item's labels by role: which label stands for what is predicted."""


def held_out(items: Sequence[Item], features: Features, roles: Roles, penalty: float = 1.0) -> dict[str, str]:
    """Answers by item id, by multinomial logistic regression on counts of features; each stage from the others.

    What is predicted is the role of the answer, because the labels differ between stages. roles: the labels by role;
    all items have the same roles, and an answer that has none counts as the second of them. penalty: the strength of
    the quadratic penalty on the weights.
    """
    import numpy as np  # imported here, because scoring imports this module and needs no fit

    labels = [roles(item) for item in items]
    names = list(labels[0])
    answers: dict[str, str] = {}
    counted = [Counter(features(item)) for item in items]
    by_label = [{label: role for role, label in one.items()} for one in labels]
    target = [names.index(one.get(item.answer, names[1])) for item, one in zip(items, by_label, strict=True)]
    stages = [str(item.factors["stage"]) for item in items]
    for left_out in sorted(set(stages)):
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
        x, y = _matrix(counted, train, vocabulary), np.eye(len(names))[[target[i] for i in train]]
        weights = _fit(x, y, penalty)
        chosen = (_matrix(counted, test, vocabulary) @ weights).argmax(axis=1)
        answers |= {items[i].id: labels[i][names[role]] for i, role in zip(test, chosen, strict=True)}
    return answers


def _matrix(counted: Sequence[Counter[str]], rows: Sequence[int], vocabulary: dict[str, int]) -> sparse.csr_array:
    """Counts of the words of the vocabulary (rows x words), with a last column of ones."""
    from scipy import sparse

    data, columns, starts = [], [], [0]
    for i in rows:
        known = [(vocabulary[word], count) for word, count in counted[i].items() if word in vocabulary]
        columns += [column for column, _ in known] + [len(vocabulary)]
        data += [float(count) for _, count in known] + [1.0]
        starts.append(len(data))
    return sparse.csr_array((data, columns, starts), shape=(len(rows), len(vocabulary) + 1))


def _fit(x: sparse.csr_array, y: np.ndarray, penalty: float) -> np.ndarray:
    """Weights (features x 3) that minimise the penalised log-loss of counts `x` (items x features) and roles `y`."""
    import numpy as np
    from scipy.optimize import minimize

    shape = (x.shape[1], y.shape[1])
    turned = x.T.tocsr()

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(shape)
        scores = x @ weights
        scores -= scores.max(axis=1, keepdims=True)
        normal = np.exp(scores).sum(axis=1, keepdims=True)
        value = float((np.log(normal) - (scores * y).sum(axis=1, keepdims=True)).sum())
        gradient = turned @ (np.exp(scores) / normal - y) + penalty * weights
        return value + 0.5 * penalty * float((weights**2).sum()), gradient.ravel()

    return np.asarray(
        minimize(loss, np.zeros(shape[0] * shape[1]), jac=True, method="L-BFGS-B", options=LIMITS).x
    ).reshape(shape)


def write(items: Sequence[Item], path: Path = FILE) -> None:
    """Fit the rules to these items and write their answers to the file: by id a digest of the question, and for each
    rule of NAMES the place of its answer among the choices."""
    found = fitted(items)
    answers = {
        item.id: f"{_digest(item)} {''.join(str(item.choices.index(found[name][item.id])) for name in NAMES)}"
        for item in items
    }
    path.write_text(json.dumps({"schema": 1, "rules": NAMES, "answers": answers}, indent=0) + "\n", encoding="utf-8")
    _lines.cache_clear()
