"""The paper's criteria of the perturbation study: which classes are passed, and which are challenging."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import polars as pl

from tomserve.studies import baselines

from . import published
from .rows import CONTROL, PERTURBED, subsets

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
            key = {"subset": subset, "model": model, "strategy": strategy, "rule": rule}
            tested = sum(cells.get(name, (0, 0))[1] > 0 for name in PERTURBED)
            known = dict(more.get((subset, model, strategy), {}))
            simple = known.pop(RULES, {})
            yield {**key, **_met(cells, rule), "classes_tested": tested, **known, **simple.get(rule, {})}


def _met(cells: Mapping[str, tuple[int, int]], rule: str) -> dict[str, Any]:
    """Which criteria these right and asked questions by class meet. rule: strict or lenient."""

    def above(name: str) -> bool:
        correct, total = cells.get(name, (0, 0))
        return total > 0 and (2 * correct > total if rule == "strict" else 2 * correct >= total)

    passed = sum(map(above, PERTURBED))
    verdicts = {"limited_robust": passed >= 5, "robust": passed == len(PERTURBED)}
    return {"ostensible": above(CONTROL), "classes_above": passed, **verdicts}


RULES = "rules"
"""Under this name with_rules adds to the further columns of an arm what it says of each rule of counting."""


def with_rules(
    rows: pl.DataFrame, kinds: baselines.Kinds, more: dict[Arm, dict[str, Any]]
) -> dict[Arm, dict[str, Any]]:
    """`more` with the names of the baselines that meet the same criteria on the same questions as each arm.

    They become the columns rules_robust and rules_limited_robust, names separated by commas: rules that have more than
    half right (strict; lenient: at least half) on unperturbed stories and in all, or in five, of the classes of
    perturbation. Empty texts where no rule does; nothing is added where the table has no rules.
    """
    keys = ["subset", "model", "strategy"]
    for (subset, model, strategy), part in subsets(rows).group_by(keys, maintain_order=True):
        classes = {str(name): some for (name,), some in part.group_by(["perturbation"], maintain_order=True)}
        cells: dict[str, dict[str, tuple[int, int]]] = {}
        for name, some in classes.items():
            for one in baselines.counted(some, kinds):
                cells.setdefault(one["rule"], {})[name] = (one["right"], one["total"])
        found: dict[str, dict[str, str]] = {}
        for rule in ("strict", "lenient") if cells else ():
            met = {name: _met(by_class, rule) for name, by_class in sorted(cells.items())}
            for column in ("robust", "limited_robust"):
                named = [name for name, one in met.items() if one["ostensible"] and one[column]]
                found.setdefault(rule, {})[f"rules_{column}"] = ", ".join(named)
        more.setdefault((str(subset), str(model), str(strategy)), {})[RULES] = found
    return more


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
