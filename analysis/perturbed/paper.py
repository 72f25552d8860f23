"""The tables of the perturbation study as the paper counts (arXiv 2602.22072), and its criteria: which classes are
passed, and which are challenging.

Items on which any strategy of the model failed are left out, every question counts as independent of the others, and
the intervals are the paper's own (see tomserve.stats.paper_formulas).
"""

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import polars as pl

from tomserve.stats import paper_formulas
from tomserve.studies import baselines

from .tables import (
    CONTROL,
    METRICS,
    PERTURBED,
    VANILLA,
    chained_pairs,
    in_order,
    pairs_of,
    subsets,
    with_chains,
    with_overall,
)

# By subset, model, strategy and class: how many questions are right, and how many were asked
Counts = dict[tuple[str, str, str, str], tuple[int, int]]


def accuracy(rows: pl.DataFrame) -> pl.DataFrame:
    """Accuracy by class over complete items; `dropped`: rows left out because an output of the item was faulty;
    `unread`: how many of all rows, the dropped ones included, hold a reply that could not be read."""
    keys = ["subset", "model", "strategy", "perturbation"]
    counted = (
        with_overall(subsets(rows))
        .group_by(keys, maintain_order=True)
        .agg(
            (pl.col("correct") & pl.col("complete")).sum().cast(pl.Int64).alias("correct"),
            pl.col("complete").sum().cast(pl.Int64).alias("total"),
            (~pl.col("complete")).sum().cast(pl.Int64).alias("dropped"),
            pl.col("unread").sum().cast(pl.Int64),
        )
    )
    return in_order(_shares(counted, "dropped", "unread"))


def _shares(counted: pl.DataFrame, *last: str) -> pl.DataFrame:
    """The counts with accuracy and its interval, which are nan where nothing was counted; the columns `last` stand
    last."""
    bounds = [paper_formulas.accuracy_interval(*pair) for pair in counted.select("correct", "total").iter_rows()]
    return counted.with_columns(
        (pl.col("correct") / pl.col("total")).alias("accuracy"),
        pl.Series("ci_low", [low for low, _ in bounds], pl.Float64),
        pl.Series("ci_high", [high for _, high in bounds], pl.Float64),
    ).select(pl.exclude(last), *last)


def arms(counts: Counts) -> Iterator[tuple[tuple[str, str, str], dict[str, tuple[int, int]]]]:
    """For each subset, model and strategy: the right and asked questions by class."""
    cells: dict[tuple[str, str, str], dict[str, tuple[int, int]]] = {}
    for (subset, model, strategy, name), pair in counts.items():
        cells.setdefault((subset, model, strategy), {})[name] = pair
    yield from cells.items()


def _contrast(treated: tuple[int, int], control: tuple[int, int]) -> dict[str, Any]:
    difference = paper_formulas.risk_difference(*treated, *control)
    ratio = paper_formulas.risk_ratio(*treated, *control)
    names = ("risk_difference", "rd_low", "rd_high", "relative_risk", "rr_low", "rr_high")
    return dict(zip(names, (*difference, *ratio), strict=True))


def perturbation_effects(counts: Counts) -> Iterator[dict[str, Any]]:
    """The records of `perturbation_effects`: each class against the unperturbed stories, as if the two were unrelated
    samples. The row overall has its control among its treated, as in the paper; overall_perturbed has not."""
    for (subset, model, strategy), cells in arms(counts):
        none = cells.get(CONTROL, (0, 0))
        overall = cells["overall"]
        perturbed = overall[0] - none[0], overall[1] - none[1]
        for name, cell in {**cells, "overall_perturbed": perturbed}.items():
            if name != CONTROL:
                note = "its own control is among the treated" if name == "overall" else None
                key = {"subset": subset, "model": model, "strategy": strategy, "perturbation": name}
                yield {**key, **_contrast(cell, none), "note": note}


def _pair_counts(part: pl.DataFrame) -> tuple[tuple[int, int], tuple[int, int]]:
    return (int(part["correct"].sum()), part.height), (int(part["control"].sum()), part.height)


def prompting_effects(rows: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """The records of `prompting_effects`: each strategy against vanilla by class, as if they had answered different
    items."""
    for model, strategy, pairs in pairs_of(rows.filter("complete")):
        parts = with_overall(subsets(pairs)).group_by(["subset", "perturbation"], maintain_order=True)
        for (subset, name), part in parts:
            treated, control = _pair_counts(part)
            note = None
            if treated[0] == 0 < control[0]:
                note = "the paper's table prints 1 [0, inf] in such cells"
            elif control[0] == 0 < treated[0]:
                note = "the paper's table prints 1 [1, 1] in such cells"
            key = {"subset": subset, "model": model, "perturbation": name, "treatment": strategy, "control": VANILLA}
            yield {**key, **_contrast(treated, control), "n": part.height, "note": note}


def faithfulness(rows: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """The records of `faithfulness`: correlations of chain metrics with right answers on the false-belief subset. There
    are two samples: complete holds the items that every strategy answered, published all rows, failures among them as
    wrong answers without a chain."""
    chosen = with_chains(rows.filter("false_belief"))
    for (model, strategy), every in chosen.group_by(["model", "strategy"], maintain_order=True):
        for sample, part in (("complete", every.filter("complete")), ("published", every)):
            for metric in METRICS:
                right, values = part["correct"].to_list(), part[metric].to_list()
                if metric == "chain_proper":
                    both = list(zip(right, values, strict=True))
                    kind, (value, p) = "phi", paper_formulas.phi(*(both.count(cell) for cell in _CELLS))
                else:
                    kind, (value, p) = "point_biserial", paper_formulas.point_biserial(right, values)
                low, high = paper_formulas.correlation_interval(value, part.height)
                correlated = None if math.isnan(value) else value >= 0.4 and p <= 0.05
                key = {"model": model, "strategy": strategy, "sample": sample, "metric": metric, "coefficient": kind}
                estimate = {"value": value, "ci_low": low, "ci_high": high, "p_value": p, "n": part.height}
                yield {**key, **estimate, "correlated": correlated}


_CELLS = ((True, True), (True, False), (False, True), (False, False))


def placebo(rows: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """The records of `placebo`: the effect against vanilla by whether the chain was proper, with the paper's verdict. A
    gain with improper chains is the verdict placebo, one with proper chains is gain."""
    chosen = rows.filter("false_belief")
    for model, strategy, name, part in chained_pairs(chosen, chosen.filter("complete")):
        for chain, wanted in (("proper", True), ("improper", False)):
            split = part.filter(pl.col("chain_proper").fill_null(False) == wanted)
            effect, low, high = paper_formulas.risk_difference(*(v for pair in _pair_counts(split) for v in pair))
            verdict = "none"
            if not split.height:
                verdict = "undefined"
            elif low > 0:
                verdict = "gain" if wanted else "placebo"
            elif high < 0:
                verdict = "loss"
            key = {"model": model, "strategy": strategy, "perturbation": name, "chain": chain}
            estimate = {"risk_difference": effect, "rd_low": low, "rd_high": high, "n": split.height}
            yield {**key, **estimate, "verdict": verdict, "subset": "false_belief"}


Arm = tuple[str, str, str]  # what the criteria are applied to: a subset of the questions, a model and a strategy


def counts_of(shares: pl.DataFrame) -> Counts:
    """How many questions are right and how many were asked, by subset, model, strategy and class. shares: the table
    `accuracy`."""
    rows = shares.select("subset", "model", "strategy", "perturbation", "correct", "total").iter_rows()
    return {(row[0], row[1], row[2], row[3]): (row[4], row[5]) for row in rows}


def criteria_records(counts: Counts, more: dict[Arm, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The records of the table `criteria`: two for each arm, by the rules strict (more than half) and lenient (at least
    half), which are applied to whole numbers, so that no rounding decides. counts: right and asked questions (see
    counts_of). more: further columns by arm."""
    for (subset, model, strategy), cells in arms(counts):
        for rule in ("strict", "lenient"):
            key = {"subset": subset, "model": model, "strategy": strategy, "rule": rule}
            tested = sum(cells.get(name, (0, 0))[1] > 0 for name in PERTURBED)
            known = dict(more.get((subset, model, strategy), {}))
            simple = known.pop(RULES, {})
            yield {**key, **_met(cells, rule), "classes_tested": tested, **known, **simple.get(rule, {})}


LIMITED = 5  # so many classes make limited robust Theory of Mind


def _met(cells: Mapping[str, tuple[int, int]], rule: str) -> dict[str, Any]:
    """Which criteria these right and asked questions by class meet. rule: strict or lenient."""

    def above(name: str) -> bool:
        correct, total = cells.get(name, (0, 0))
        return total > 0 and (2 * correct > total if rule == "strict" else 2 * correct >= total)

    passed = sum(map(above, PERTURBED))
    verdicts = {"limited_robust": passed >= LIMITED, "robust": passed == len(PERTURBED)}
    return {"ostensible": above(CONTROL), "classes_above": passed, **verdicts}


# Under this name with_rules adds to the further columns of an arm what it says of each rule of counting
RULES = "rules"


def with_rules(
    rows: pl.DataFrame, kinds: baselines.RuleKinds, more: dict[Arm, dict[str, Any]]
) -> dict[Arm, dict[str, Any]]:
    """`more` with the names of the baselines that meet the same criteria on the same questions as each arm. They become
    the columns rules_robust and rules_limited_robust, names separated by commas: rules that have more than half right
    (strict; lenient: at least half) on unperturbed stories and in all, or in five, of the classes of perturbation.
    Empty texts where no rule does; nothing is added where the table has no rules."""
    keys = ["subset", "model", "strategy"]
    for (subset, model, strategy), part in subsets(rows).group_by(keys, maintain_order=True):
        classes = {str(name): some for (name,), some in part.group_by(["perturbation"], maintain_order=True)}
        cells: dict[str, dict[str, tuple[int, int]]] = {}
        for name, some in classes.items():
            for one in baselines.count_rules(some, kinds):
                cells.setdefault(one["rule"], {})[name] = (one["right"], one["total"])
        found: dict[str, dict[str, str]] = {}
        for rule in ("strict", "lenient") if cells else ():
            met = {name: _met(by_class, rule) for name, by_class in sorted(cells.items())}
            for column in ("robust", "limited_robust"):
                named = [name for name, one in met.items() if one["ostensible"] and one[column]]
                found.setdefault(rule, {})[f"rules_{column}"] = ", ".join(named)
        more.setdefault((str(subset), str(model), str(strategy)), {})[RULES] = found
    return more


def add_solved_tasks(tasks: pl.DataFrame, more: dict[Arm, dict[str, Any]]) -> dict[Arm, dict[str, Any]]:
    """`more` with how many tasks of the table `tasks` each model and strategy has solved, of those asked whole."""
    for (model, strategy), every in tasks.group_by(["model", "strategy"]):
        part = every.filter(pl.col("subtasks") == pl.col("questions"))
        for subset in ("all", "false_belief"):
            if (entry := more.get((subset, str(model), str(strategy)))) is not None:
                entry |= {"tasks_solved": int(part["solved"].sum()), "tasks": part.height}
    return more


def exact_effects(counts: Counts) -> dict[Arm, dict[str, Fraction]]:
    """The effect of each class against the unperturbed stories, by arm, from counts."""
    effects = {}
    for arm, cells in arms(counts):
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
    whether these are at least two thirds of the models. effects: by arm and class. Classes that tie with the fifth
    count too. An effect of zero or more does not count, nor does any of a model with five classes or fewer."""
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
