"""Learned shortcut baselines: multinomial logistic regression on features, and answers shipped in a file.

Each stage is answered by a fit to the others. Fitting takes scipy, which is imported only there; scoring reads the
file.

    >>> def item(stage, word, answer):
    ...     return Item(id=stage + word, story=[f"There is {word} tea."], question="Which tea?",
    ...                 choices=["red", "black"], answer=answer, factors={"stage": stage})
    >>> items = [item(stage, word, answer) for stage in "ABC" for word, answer in (("hot", "red"), ("old", "black"))]
    >>> predict_held_out(items, lambda item: item.story[0].split(), lambda item: {"first": "red", "second": "black"})
    {'Ahot': 'red', 'Aold': 'black', 'Bhot': 'red', 'Bold': 'black', 'Chot': 'red', 'Cold': 'black'}
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from tomserve.content import files
from tomserve.items import Item, items_digest
from tomserve.scoring.baselines import Baseline

if TYPE_CHECKING:
    import numpy as np
    from scipy import sparse


LIMITS = {"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-3}
"""Options of the optimiser that fits the rules: it stops where the gradient is small, long before the other two."""

BOUND = 0.25
"""By how much of its counts a story bends the loss, at most, taken for all stories alike: a scale of the search, which
has no influence on what is found."""

Features = Callable[[Item], list[str]]
"""A function that lists the features of an item, each as often as it counts."""

Roles = Callable[[Item], dict[str, str]]
"""A function that gives an item's labels by role: which label stands for what is predicted."""


def predict_held_out(
    items: Sequence[Item], features: Features, roles: Roles, only: Collection[str] | None = None
) -> dict[str, str]:
    """Answers by item id, by multinomial logistic regression on counts of features; each stage from the others.

    What is predicted is the role of the answer, because the labels differ between stages. roles: the labels by role; an
    answer that has none counts as the second. only: the stages that are answered, None for all.
    """
    import numpy as np  # imported here, because scoring imports modules that import this one, and needs no fit
    from scipy import sparse

    labels, counts = [roles(item) for item in items], [Counter(features(item)) for item in items]
    names, stages = list(labels[0]), np.array([str(item.factors["stage"]) for item in items])
    by_label = [{label: role for role, label in one.items()} for one in labels]
    target = [names.index(one.get(item.answer, names[1])) for item, one in zip(items, by_label, strict=True)]
    told = np.eye(len(names))[target]
    vocabulary = {word: place for place, word in enumerate(sorted({word for one in counts for word in one}))}
    entries = [(row, vocabulary[word], count) for row, one in enumerate(counts) for word, count in sorted(one.items())]
    rows, columns, data = zip(*entries, strict=True) if entries else ((), (), ())
    shape = (len(items), len(vocabulary))
    words = sparse.csr_array((np.array(data, dtype=float), (rows, columns)), shape=shape)
    occurs = {stage: (words[stages == stage].sum(axis=0) > 0).astype(int) for stage in set(stages)}
    answers: dict[str, str] = {}
    for left_out in sorted(set(stages) if only is None else set(stages) & set(only)):
        test = stages == left_out
        if test.all():
            continue
        # A word that occurs in one stage alone cannot help to predict another.
        known = sum(one for stage, one in occurs.items() if stage != left_out) > 1
        x = sparse.csr_array(sparse.hstack([words[:, np.flatnonzero(known)], np.ones((len(items), 1))], format="csr"))
        chosen = (x[test] @ _fit(x[~test], told[~test])).argmax(axis=1)
        for row, role in zip(np.flatnonzero(test), chosen, strict=True):
            answers[items[row].id] = labels[row][names[role]]
    return answers


def _fit(x: sparse.csr_array, y: np.ndarray) -> np.ndarray:
    """Weights (words x roles) that minimise the log-loss and half of their squares.

    x: counts (items x words). y: 1 for the role of each item's answer, else 0 (items x roles). The best
    weights are a mixture of the rows of x, so that they are searched for in as many dimensions as there are rows, or
    words if these are fewer: x stands there as `z`, with z @ z.T = x @ x.T, scaled so that loss and penalty together
    bend about alike in all directions (m), without which the search takes ten times as long.
    """
    import numpy as np
    from scipy.linalg import cholesky, solve_triangular
    from scipy.optimize import minimize

    count, width = x.shape
    if width <= count:
        z = x.toarray()
    else:
        products = (x @ x.T).toarray()
        # Rows may depend on each other; so little more on the diagonal changes no answer.
        z = cholesky(products + 1e-9 * products.trace() / count * np.eye(count), lower=True)
    scale = cholesky(BOUND * z.T @ z + np.eye(z.shape[1]))
    m = solve_triangular(scale, z.T, trans="T").T
    turned = np.ascontiguousarray(m.T)

    # einsum does here what @ does, on one processor: many short products are slow where others are busy on the rest.
    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        found = flat.reshape(y.shape[1], -1)
        raw = np.einsum("ij,kj->ik", m, found)
        scores = raw - raw.max(axis=1, keepdims=True)
        odds = np.exp(scores)
        normal = odds.sum(axis=1, keepdims=True)
        value = float(np.log(normal).sum() - (scores * y).sum())
        # By the choice of `scale`, the squares of `found` are the penalty and BOUND times the squares of the scores.
        penalised = float((found**2).sum() - BOUND * (raw**2).sum())
        residual = np.ascontiguousarray((odds / normal - BOUND * raw - y).T)
        gradient = np.einsum("ij,kj->ki", turned, residual) + found
        return value + 0.5 * penalised, gradient.ravel()

    start = np.zeros(y.shape[1] * z.shape[1])
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options=LIMITS).x.reshape(y.shape[1], -1)
    weights = solve_triangular(scale, best.T)
    return np.asarray(weights if width <= count else x.T @ solve_triangular(z, weights, lower=True, trans="T"))


TOLERATED = 5
"""In how many answers of a rule a fit may differ from the file: another machine rounds in another way, and where two
answers are nearly as likely that decides."""

Answers = Mapping[str, Mapping[str, str]]
"""Answers as labels by the question's id, by name of the rule."""


@dataclass(frozen=True)
class ShippedAnswers:
    """The answers of some rules in one file."""

    names: tuple[str, ...]  # of the rules, in the order of their answers in the file
    file: Path
    command: str  # that fits the rules to the dataset as it is and writes the file again

    @property
    def rules(self) -> tuple[Baseline, ...]:
        """The rules, which answer what the file holds and say nothing of any other question."""
        return tuple(
            Baseline(name, lambda item, place=place: self.answer(item, place), "learned")  # type: ignore[misc]
            for place, name in enumerate(self.names)
        )

    def answer(self, item: Item, place: int) -> str | None:
        """The answer of the rule at that place of `names`; None for a question that is not in the file."""
        line: str | None = self._content["answers"].get(item.id)
        if line is None or not line.startswith(_digest(item)):
            return None
        return item.choices[int(line.split(" ")[1][place])]

    @cached_property
    def _content(self) -> Mapping[str, Any]:
        content: dict[str, Any] = orjson.loads(files.read_own(self.file)) if self.file.is_file() else {"answers": {}}
        return content

    def fitted_to(self, items: Sequence[Item]) -> bool:
        """Whether the answers in the file were fitted to just these questions, with these right answers."""
        return bool(self._content.get("questions") == items_digest(items))

    def problems(self, items: Sequence[Item], answers: Answers) -> Iterator[str]:
        """A sentence for each rule whose answers in the file are not those of a fit to these questions; one alone where
        the file was fitted to other questions, which explains them all."""
        again = f"write it again with: {self.command}"
        if not self.fitted_to(items):
            lacking = sum(self.answer(item, 0) is None for item in items)
            yield (
                f"The learned rules in {self.file.name} of {self.file.parent.name} were fitted to other questions than "
                f"these, {lacking} of which have no answer there (of {len(items)}); {again}"
            )
            return
        for rule, count in self.differing(items, answers).items():
            if count > TOLERATED:
                yield (
                    f"The score tables hold {count} answers of the rule {rule!r} that a fit does not give "
                    f"({self.file.name} of {self.file.parent.name}); {again}"
                )

    def differing(self, items: Sequence[Item], answers: Answers) -> dict[str, int]:
        """To how many of these questions the file has another answer than a fit, or none, by name of the rule."""
        return {
            name: sum(self.answer(item, place) != answers[name].get(item.id) for item in items)
            for place, name in enumerate(self.names)
        }

    def write(self, items: Sequence[Item], answers: Answers) -> None:
        """Write the file: the digest of all questions, and by id one of the question, with the place of each rule's
        answer among the choices. items: questions that every rule answers."""
        lines = {}
        for item in items:
            places = [item.choices.index(answers[name][item.id]) for name in self.names]
            lines[item.id] = f"{_digest(item)} {''.join(map(str, places))}"
        content = {"schema": 1, "rules": self.names, "questions": items_digest(items), "answers": lines}
        self.file.write_text(json.dumps(content, indent=0) + "\n", encoding="utf-8")
        self.__dict__.pop("_content", None)


def _digest(item: Item) -> str:
    text = "\x1f".join((*item.story, item.question, *item.choices))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
