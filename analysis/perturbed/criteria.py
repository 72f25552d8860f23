"""The paper's criteria of the perturbation study: which classes are passed, and which are challenging."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import polars as pl

from . import published
from .rows import CONTROL, PERTURBED

Arm = tuple[str, str, str]
"""What the criteria are applied to: a subset of the questions, a model and a strategy."""


def counts_of(shares: pl.DataFrame) -> published.Counts:
    """How many questions are right and how many were asked, by subset, model, strategy and class.

    shares: the table `accuracy`.
    """
    rows = shares.select("subset", "model", "strategy", "perturbation", "correct", "total").iter_rows()
    return {(row[0], row[1], row[2], row[3]): (row[4], row[5]) for row in rows}


def criteria(counts: published.Counts, more: dict[Arm, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The records of the table `criteria`: two for each arm, by the rules strict (more than half) and lenient (at least
    half), which are applied to whole numbers, so that no rounding decides.

    counts: right and asked questions (see counts_of). more: further columns by arm.
    """
    for (subset, model, strategy), cells in published.arms(counts):
        for rule in ("strict", "lenient"):

            def above(name: str, cells: dict[str, tuple[int, int]] = cells, rule: str = rule) -> bool:
                correct, total = cells.get(name, (0, 0))
                return total > 0 and (2 * correct > total if rule == "strict" else 2 * correct >= total)

            passed = sum(map(above, PERTURBED))
            key = {"subset": subset, "model": model, "strategy": strategy, "rule": rule}
            verdicts = {"limited_robust": passed >= 5, "robust": passed == len(PERTURBED)}
            tested = sum(cells.get(name, (0, 0))[1] > 0 for name in PERTURBED)
            record = {**key, "ostensible": above(CONTROL), "classes_above": passed, **verdicts}
            yield {**record, "classes_tested": tested, **more.get((subset, model, strategy), {})}


def with_solved(tasks: pl.DataFrame, more: dict[Arm, dict[str, Any]]) -> dict[Arm, dict[str, Any]]:
    """`more` with how many tasks of the table `tasks` each model and strategy has solved."""
    for (model, strategy), part in tasks.group_by(["model", "strategy"]):
        for subset in ("all", "false_belief"):
            if (entry := more.get((subset, str(model), str(strategy)))) is not None:
                entry |= {"tasks_solved": int(part["solved"].fill_null(False).sum()), "tasks": part.height}
    return more


def exact_effects(counts: published.Counts) -> dict[Arm, dict[str, Fraction]]:
    """The effect of each class against the unperturbed stories, by arm, from counts."""
    effects = {}
    for arm, cells in published.arms(counts):
        k0, n0 = cells.get(CONTROL, (0, 0))
        counted = {name: cells[name] for name in PERTURBED if name in cells and cells[name][1] and n0}
        effects[arm] = {name: Fraction(k, n) - Fraction(k0, n0) for name, (k, n) in counted.items()}
    return effects


def estimated_effects(records: list[dict[str, Any]]) -> dict[Arm, dict[str, Fraction]]:
    """The same as exact_effects, from estimates: records of the table `perturbation_effects`, each with a finite
    effect."""
    effects: dict[Arm, dict[str, Fraction]] = {}
    for r in records:
        if r["perturbation"] in PERTURBED and math.isfinite(r["risk_difference"]):
            # Means of shares of few questions: the nearest such fraction undoes the rounding, so that ties are ties.
            effect = Fraction(r["risk_difference"]).limit_denominator(100_000)
            effects.setdefault((r["subset"], r["model"], r["strategy"]), {})[r["perturbation"]] = effect
    return effects


def challenging(effects: dict[Arm, dict[str, Fraction]]) -> Iterator[dict[str, Any]]:
    """The records of the table `challenging`: among the five lowest effects of how many models each class is, and
    whether these are at least two thirds of the models.

    effects: by arm and class. Classes that tie with the fifth count too. An effect of zero or more does not count, nor
    does any of a model with five classes or fewer.
    """
    low: dict[tuple[str, str, str], int] = {}
    models: dict[tuple[str, str, str], int] = {}
    for (subset, _, strategy), by_class in effects.items():
        fifth = sorted(by_class.values())[:5][-1:]
        for name, effect in by_class.items():
            key = (subset, strategy, name)
            models[key] = models.get(key, 0) + 1
            low[key] = low.get(key, 0) + (effect <= fifth[0] and effect < 0 and len(by_class) > 5)
    for (subset, strategy, name), total in models.items():
        count = low[subset, strategy, name]
        key_columns = {"subset": subset, "strategy": strategy, "perturbation": name}
        yield {**key_columns, "models_in_top_five": count, "models": total, "challenging": 3 * count >= 2 * total}
