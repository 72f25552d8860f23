"""The tables of the perturbation study as the paper counts (arXiv 2602.22072).

Items on which any strategy of the model failed are left out, every question counts as independent of the others, and
the intervals are the paper's own (see tomserve.stats.paper_formulas). All functions take rows as rows.prepared makes them,
or counts of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import polars as pl

from tomserve.stats import paper_formulas

from .rows import (
    CONTROL,
    METRICS,
    VANILLA,
    chained_pairs,
    in_order,
    pairs_of,
    subsets,
    with_chains,
    with_overall,
)

Counts = dict[tuple[str, str, str, str], tuple[int, int]]
"""By subset, model, strategy and class: how many questions are right, and how many were asked."""


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
    """The records of `faithfulness`: correlations of chain metrics with right answers on the false-belief subset.

    There are two samples: complete holds the items that every strategy answered, published all rows, failures among
    them as wrong answers without a chain.
    """
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
    """The records of `placebo`: the effect against vanilla by whether the chain was proper, with the paper's verdict.

    A gain with improper chains is the verdict placebo, one with proper chains is gain.
    """
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
