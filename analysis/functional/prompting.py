"""Whether reasoning step by step helps, by task, and the source's claim that it helps small and hurts large models."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import polars as pl

from tomserve.studies.contrasts import Record, effects_within

from .rows import Gathered, is_plain, size_of

FEWEST = 4
"""With fewer models of known size a slope over sizes has at most one degree of freedom, and no test is made."""
ALL = "all tasks"


def reasons(strategy: str) -> bool:
    """Whether a strategy asks for reasoning before the answer, by its name: cot, or one that ends so."""
    return strategy.endswith("cot")


def by_task(found: Gathered) -> Iterator[Record]:
    """The table `cot_by_task`: by model, benchmark and task, and over all tasks, reasoning against the answer alone on
    the same questions."""
    if found.asked is None:
        return
    named = pl.Series([one for one in found.asked.rows["strategy"].unique() if is_plain(one) or reasons(one)])
    rows = found.asked.rows.filter("mind", pl.col("strategy").is_in(named.implode()))
    every = rows.with_columns(task=pl.lit(ALL), benchmark=pl.lit(ALL))
    for part in (rows, every):
        keys = ("benchmark", "task")
        for row in effects_within(part.sort("model", *keys, maintain_order=True), keys):
            if reasons(str(row["treatment"])):
                yield {**row, "parameters": size_of(str(row["model"]))}


def claim(effects: pl.DataFrame) -> Iterator[Record]:
    """The table `cot_claim`: the slope of the effect of reasoning over the size of models, where it can be tested.

    effects: the table `cot_by_task`. Each model counts once, with its effect over all tasks; the slope is that of an
    ordinary regression on the logarithm of its parameters, with Student's t and n - 2 degrees of freedom, so that it
    speaks for further models like these. Sizes are read from the models' names.
    """
    if not effects.height:
        return
    own = effects.filter(pl.col("task") == ALL).unique("model", keep="first", maintain_order=True)
    known = own.filter(pl.col("parameters").is_not_null(), pl.col("risk_difference").is_not_null())
    row: Record = {"models": own.height, "of_known_size": known.height}
    row |= {"smallest": known["parameters"].min(), "largest": known["parameters"].max()}
    row |= {"small_effect": _at(known, "parameters", descending=False), "large_effect": _at(known, "parameters", True)}
    nothing = dict.fromkeys(("slope", "slope_low", "slope_high", "p"))
    x, y = np.log10(known["parameters"].to_numpy()), known["risk_difference"].to_numpy()
    if known.height < FEWEST or np.ptp(x) < 1e-9:
        models = f"{known.height} model{'s' * (known.height != 1)} of known size"
        said = f"cannot be tested with {models}; {FEWEST} of different size are needed"
        yield {**row, **nothing, "verdict": said}
        return
    from scipy.stats import linregress
    from scipy.stats import t as student

    fit = linregress(x, y)
    half = float(student.ppf(0.975, known.height - 2)) * float(fit.stderr)
    slope, p = float(fit.slope), float(fit.pvalue)
    low, high = slope - half, slope + half
    verdict = (
        "the effect of reasoning falls with size" if high < 0 else "it rises with size" if low > 0 else "not shown"
    )
    turns = row["small_effect"] > 0 > row["large_effect"]
    verdict += ", and helps the smallest and hurts the largest" if high < 0 and turns else ""
    yield {**row, "slope": slope, "slope_low": low, "slope_high": high, "p": None if math.isnan(p) else p,
           "verdict": verdict}  # fmt: skip


def _at(known: pl.DataFrame, column: str, descending: bool) -> float | None:
    """The effect in the smallest or the largest model."""
    ordered = known.sort(column, descending=descending)
    return float(ordered["risk_difference"][0]) if ordered.height else None
