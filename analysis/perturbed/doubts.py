"""What the perturbation study warns of: comparisons that failures, or unequal questions, may explain."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tomserve.studies import baselines
from tomserve.studies.contrasts import NEW
from tomserve.studies.families import failures_may_explain
from tomserve.studies.showing import Row, Tables
from tomserve.studies.words import finite, p_value, percent, readable, signed, worst

from .rows import OVERALL, SUBSETS

NAMED = 3
"""How many classes a warning names; the table has them all (its columns p_failure, worst_low and worst_high)."""

UNPERTURBED = "the unperturbed tasks of the same stages"


def warnings(tables: Tables) -> list[str]:
    """One line for each reason to doubt a number: two strategies were asked different items, the two sides of a
    comparison failed so differently that this can look like an effect, or there are no baselines to compare with."""
    missing = baselines.missing(tables)
    if "p_failure" not in tables["perturbation_effects"].columns:
        return missing  # published intervals: items that failed are left out
    doubts = dict.fromkeys(_asked_otherwise(tables))
    doubts |= dict.fromkeys(_strategies_lost(tables["prompting_effects"]))
    doubts |= dict.fromkeys(_classes_lost(tables["perturbation_effects"], "strategy"))
    doubts |= dict.fromkeys(_classes_lost(tables["prompting_effects"], "treatment"))
    return [*doubts, *missing]


def _asked_otherwise(tables: Tables) -> Iterator[str]:
    totals = tables["accuracy"].filter(perturbation=OVERALL).select("subset", "model", "strategy", "total")
    asked = {tuple(row[:3]): row[3] for row in totals.iter_rows()}
    for row in tables["prompting_effects"].filter(perturbation=OVERALL).iter_rows(named=True):
        subset, model, treatment, control = (row[name] for name in ("subset", "model", "treatment", "control"))
        most = max(asked.get((subset, model, strategy), 0) for strategy in (treatment, control))
        if row["n"] < most:
            both = f"({SUBSETS[subset]}): {row['n']} of {most} compare"
            yield f"{model}: {treatment} and {control} were asked different items {both}"


def _strategies_lost(effects: pl.DataFrame) -> Iterator[str]:
    for row in effects.filter(perturbation=OVERALL, target=NEW).iter_rows(named=True):
        p = finite(row["p_failure"])
        if p is not None and p <= 0.05:
            treatment, control = row["treatment"], row["control"]
            failed = f"{percent(row['failed_treated'])} against {percent(row['failed_control'])}"
            yield (
                f"{row['model']}: {treatment} and {control} did not fail equally often ({failed} of "
                f"{SUBSETS[row['subset']]}, {p_value(p)}), so that their difference, {signed(row['risk_difference'])} "
                f"points, may come from the failures: {worst(row)}"
            )


def _classes_lost(effects: pl.DataFrame, arm: str) -> Iterator[str]:
    """A line for each strategy of which classes failed so often that failures may explain their effects; a class that
    is named for all questions is not named again for a part of them."""
    named: set[tuple[object, ...]] = set()
    by_class = effects.filter(~pl.col("perturbation").str.starts_with(OVERALL))
    for (subset, model, strategy), part in by_class.group_by(["subset", "model", arm], maintain_order=True):
        doubtful = [
            row
            for row in part.iter_rows(named=True)
            if failures_may_explain(row) and (model, strategy, row["perturbation"]) not in named
        ]
        named |= {(model, strategy, row["perturbation"]) for row in doubtful}
        if doubtful:
            whose = f"{model}, {strategy}, {SUBSETS[str(subset)]}"
            worst_first = sorted(doubtful, key=lambda row: -abs(row["failed_treated"] - row["failed_control"]))
            more = len(doubtful) - NAMED
            others = f"; and of {more} more class{'es' * (more > 1)}" if more > 0 else ""
            yield f"{whose}: failures may explain the effect of {'; '.join(map(_lost, worst_first[:NAMED]))}{others}"


def _lost(row: Row) -> str:
    name, share = readable(row["perturbation"]), percent(row["failed_treated"])
    against = f"of {row['control']}" if "control" in row else f"of {UNPERTURBED}"
    failed = f"{share} failed, {against} {percent(row['failed_control'])}"
    return f"{name} ({failed}; the difference is {signed(row['risk_difference'])} points; {worst(row)})"
