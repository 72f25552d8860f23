"""Shortcuts: how many questions of the perturbed benchmark are answered right by rules that follow nobody's belief.

    tomserve dataset audit

Each rule answers every item from features of the surface only. It is scored for each class, over all questions and over
the false-belief subset, and by the robustness criteria of arXiv 2602.22072. Where a constant or positional rule passes
them, the dataset is broken.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
from scipy.optimize import minimize

from tomserve.benchmarks.perturbed.stagefile import PERTURBATIONS, UNKNOWN, in_false_belief_subset
from tomserve.items import Item

LIMITS = {"maxiter": 200}
"""Options of the optimiser that fits the learned rules."""

Rule = Callable[[Item], str]
CONSTANT_OR_POSITIONAL = (
    "always classic",
    "always reality",
    "always unknown",
    "always label",
    "first mentioned",
    "last mentioned",
    "most mentioned",
)


def mentions(item: Item) -> list[str]:
    """The story's labels in order of mention, "unknown" left out."""
    labels = [choice for choice in item.choices if choice != UNKNOWN]
    pattern = "|".join(re.escape(label) for label in sorted(labels, key=len, reverse=True))
    by_fold = {label.casefold(): label for label in labels}
    return [by_fold[found.casefold()] for found in re.findall(rf"\b(?:{pattern})\b", " ".join(item.story), re.I)]


def _most(labels: Sequence[str]) -> str:
    return Counter(labels).most_common(1)[0][0] if labels else UNKNOWN


def _quoted(item: Item) -> str:
    """The last label in quotation marks, which a sign, a label or a speaker gives; else the first label mentioned."""
    quoted = " ".join(re.findall(r'"([^"]*)"', " ".join(item.story))).casefold()
    found = [label for label in mentions(item) if label.casefold() in quoted]
    return found[-1] if found else (mentions(item) or [UNKNOWN])[0]


def rules(items: Sequence[Item]) -> dict[str, dict[str, str]]:
    """The answers of every rule, as a label by item id by name of the rule."""
    world = {_story(item): item.answer for item in items if item.factors["question_kind"] == "reality"}
    simple: dict[str, Rule] = {
        "always classic": lambda item: str(item.factors["cue"]),
        "always reality": lambda item: world[_story(item)],
        "always unknown": lambda item: UNKNOWN,
        "always label": _quoted,
        "first mentioned": lambda item: (mentions(item) or [UNKNOWN])[0],
        "last mentioned": lambda item: (mentions(item) or [UNKNOWN])[-1],
        "most mentioned": lambda item: _most(mentions(item)),
    }
    found = {name: {item.id: rule(item) for item in items} for name, rule in simple.items()}
    found["question only"] = _learned(items, lambda item: [str(item.factors["question_kind"])])
    found["bag of words"] = _learned(items, _words)
    return found


def _story(item: Item) -> str:
    return f"{item.cluster}/{item.factors['scenario']}/{item.factors['swapped']}"


def _roles(item: Item) -> dict[str, str]:
    """Labels by a role that can be seen without knowing the gold: first mentioned, other, unknown."""
    first = (mentions(item) or [item.choices[0]])[0]
    others = [choice for choice in item.choices if choice not in (first, UNKNOWN)]
    return {"first": first, "other": others[0] if others else first, "unknown": UNKNOWN}


def _words(item: Item) -> list[str]:
    text = " ".join([*item.story, item.question]).casefold()
    for role, label in _roles(item).items():
        text = text.replace(label.casefold(), f"role_{role}")
    return [str(item.factors["question_kind"]), *re.findall(r"\w+", text)]


def _learned(items: Sequence[Item], features: Callable[[Item], list[str]], penalty: float = 1.0) -> dict[str, str]:
    """Answers by multinomial logistic regression on counts of features; each stage is predicted from the others.

    What is predicted is the role of the answer (see `_roles`), because the labels differ between stages. penalty: the
    strength of the quadratic penalty on the weights.
    """
    names = ["first", "other", "unknown"]
    answers: dict[str, str] = {}
    counted = [Counter(features(item)) for item in items]
    target = []
    for item in items:
        by_label = {label: role for role, label in _roles(item).items()}
        target.append(names.index(by_label.get(item.answer, "other")))
    stages = [str(item.factors["stage"]) for item in items]
    for held_out in sorted(set(stages)):
        train = [i for i, stage in enumerate(stages) if stage != held_out]
        test = [i for i, stage in enumerate(stages) if stage == held_out]
        if not train:
            continue
        # A word that occurs in one stage alone cannot help to predict another.
        places: dict[str, set[str]] = {}
        for i in train:
            for word in counted[i]:
                places.setdefault(word, set()).add(stages[i])
        vocabulary = {word: j for j, word in enumerate(sorted(w for w, where in places.items() if len(where) > 1))}
        x, y = _matrix(counted, train, vocabulary), np.eye(3)[[target[i] for i in train]]
        weights = _fit(x, y, penalty)
        chosen = (_matrix(counted, test, vocabulary) @ weights).argmax(axis=1)
        answers |= {items[i].id: _roles(items[i])[names[role]] for i, role in zip(test, chosen, strict=True)}
    return answers


def _matrix(counted: Sequence[Counter[str]], rows: Sequence[int], vocabulary: dict[str, int]) -> np.ndarray:
    x = np.zeros((len(rows), len(vocabulary) + 1))
    x[:, -1] = 1.0
    for row, i in enumerate(rows):
        for word, count in counted[i].items():
            if word in vocabulary:
                x[row, vocabulary[word]] = count
    return x


def _fit(x: np.ndarray, y: np.ndarray, penalty: float) -> np.ndarray:
    """Weights (features x 3) that minimise the penalised log-loss of counts `x` (items x features) and roles `y`."""
    shape = (x.shape[1], y.shape[1])

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(shape)
        scores = x @ weights
        scores -= scores.max(axis=1, keepdims=True)
        normal = np.exp(scores).sum(axis=1, keepdims=True)
        value = float((np.log(normal) - (scores * y).sum(axis=1, keepdims=True)).sum())
        gradient = x.T @ (np.exp(scores) / normal - y) + penalty * weights
        return value + 0.5 * penalty * float((weights**2).sum()), gradient.ravel()

    return np.asarray(
        minimize(loss, np.zeros(shape[0] * shape[1]), jac=True, method="L-BFGS-B", options=LIMITS).x
    ).reshape(shape)


def audit(items: Sequence[Item]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The accuracy of every rule by class, and the robustness criteria that it meets, as two tables.

    Both are computed over all questions and over the false-belief subset. The criteria are those of arXiv 2602.22072:
    "ostensible" is more than half right in the class `none`; "limited robust" also in at least five of the ten classes
    of perturbation; "robust" in all ten.
    """
    rows = [
        {"rule": rule, "item": item, "right": answers[item.id] == item.answer}
        for rule, answers in rules(items).items()
        for item in items
        if item.id in answers
    ]
    frame = pl.DataFrame(
        {
            "rule": [row["rule"] for row in rows],
            "perturbation": [row["item"].factors["perturbation"] for row in rows],  # type: ignore[attr-defined]
            "subset": ["false_belief" if in_false_belief_subset(row["item"].factors) else "rest" for row in rows],  # type: ignore[attr-defined]
            "right": [row["right"] for row in rows],
        }
    )
    both = pl.concat([frame.with_columns(subset=pl.lit("all")), frame.filter(pl.col("subset") == "false_belief")])
    table = (
        pl.concat([both, both.with_columns(perturbation=pl.lit("overall"))])
        .group_by("subset", "rule", "perturbation", maintain_order=True)
        .agg(right=pl.col("right").sum().cast(pl.Int64), total=pl.len().cast(pl.Int64))
    )
    over = pl.col("right") * 2 > pl.col("total")
    classes = pl.col("perturbation").is_in([name for name in PERTURBATIONS if name != "none"])
    criteria = table.group_by("subset", "rule", maintain_order=True).agg(
        ostensible=(over & (pl.col("perturbation") == "none")).any(),
        classes_above=(over & classes).sum().cast(pl.Int64),
    )
    return table, criteria.with_columns(
        limited_robust=pl.col("ostensible") & (pl.col("classes_above") >= 5),
        robust=pl.col("ostensible") & (pl.col("classes_above") >= 10),
    )
