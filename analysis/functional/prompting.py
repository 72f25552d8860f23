"""Whether reasoning step by step helps, by task, and the source's claim that it helps small and hurts large models."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl

from tomserve.stats.distributions import t_quantile
from tomserve.studies import asking
from tomserve.studies.contrasts import Record, contrast, pair

from .rows import Gathered, size_of

FEWEST = 4
"""With fewer models of known size a slope over sizes has at most one degree of freedom, and no test is made."""
ALL = "all tasks"


def by_task(found: Gathered) -> Iterator[Record]:
    """The table `cot_by_task`: by model, benchmark and task, reasoning against the answer alone on the same questions;
    then a row for each model over all tasks of all benchmarks, in each of which the two were asked the same questions.

    The answer alone is the strategy that B counts. Where a benchmark was asked by several ways of reasoning, the one
    that goes with it stands for the benchmark in the row over all tasks: letters_cot where letters is counted.
    """
    if found.asked is None:
        return
    rows = found.asked.rows.filter("mind")
    arms = list(_arms(rows, found.plain))
    for model, benchmark, control, treatments, part in arms:
        for (task,), own in part.sort("task", maintain_order=True).group_by(["task"], maintain_order=True):
            for treatment in treatments:
                pairs = _pairs(own, treatment, control)
                if pairs.height:
                    yield _row(model, (benchmark, str(task)), (treatment, control), pairs)
    for model in dict.fromkeys(arm[0] for arm in arms):
        own_arms = [(benchmark, control, treatments[0], part) for who, benchmark, control, treatments, part in arms
                    if who == model]  # fmt: skip
        parts = [_pairs(part, treatment, control) for _, control, treatment, part in own_arms]
        asked = [arm for arm, pairs in zip(own_arms, parts, strict=True) if pairs.height]
        if asked:
            without, reasoning = (", ".join(dict.fromkeys(str(arm[place]) for arm in asked)) for place in (1, 2))
            yield _row(model, (ALL, ALL), (reasoning, without), pl.concat(parts))


def _arms(
    rows: pl.DataFrame, plain: Mapping[tuple[str, str], str]
) -> Iterator[tuple[str, str, str, list[str], pl.DataFrame]]:
    """Each model and benchmark that was asked in both ways: the strategy without reasoning, those with it, the partner
    of the former first, and the rows."""
    keys = ("model", "benchmark")
    for key, part in rows.sort(keys, maintain_order=True).group_by(keys, maintain_order=True):
        model, benchmark = map(str, key)
        control = plain.get((model, benchmark))
        if control is None:
            continue
        own = asking.partner(control)
        found = sorted(filter(asking.is_cot, part["strategy"].unique()), key=lambda name: (name != own, name))
        if found:
            yield model, benchmark, control, found, part


def _pairs(rows: pl.DataFrame, treatment: str, control: str) -> pl.DataFrame:
    """The same questions in both ways; a story or task is one of its benchmark."""
    named = rows.with_columns(cluster=pl.format("{}: {}", "benchmark", "cluster"))
    return pair(named.filter(strategy=treatment), named.filter(strategy=control))


def _row(model: str, where: tuple[str, str], ways: tuple[str, str], pairs: pl.DataFrame) -> Record:
    told = dict(zip(("benchmark", "task", "treatment", "control"), (*where, *ways), strict=True))
    return {"model": model, **told, **contrast(pairs), "parameters": size_of(model)}


def claim(effects: pl.DataFrame) -> Iterator[Record]:
    """The table `cot_claim`: the slope of the effect of reasoning over the size of models, where it can be tested.

    effects: the table `cot_by_task`. Each model counts once, with its effect over all tasks; the slope is that of an
    ordinary regression on the logarithm of its parameters, with Student's t and n - 2 degrees of freedom, so that it
    speaks for further models like these. Sizes are read from the models' names. That reasoning helps the smallest model
    and hurts the largest is said only where the intervals of their effects lie above 0 and below 0.
    """
    if not effects.height:
        return
    own = effects.filter(pl.col("task") == ALL).unique("model", keep="first", maintain_order=True)
    known = own.filter(pl.col("parameters").is_not_null(), pl.col("risk_difference").is_not_null())
    row: Record = {"models": own.height, "of_known_size": known.height}
    row |= {"smallest": known["parameters"].min(), "largest": known["parameters"].max()}
    small, large = _ends(known)
    row |= {"small_effect": small.get("risk_difference"), "large_effect": large.get("risk_difference")}
    nothing = dict.fromkeys(("slope", "slope_low", "slope_high", "p"))
    x, y = np.log10(known["parameters"].to_numpy()), known["risk_difference"].to_numpy()
    if known.height < FEWEST or np.ptp(x) < 1e-9:
        models = f"{known.height} model{'s' * (known.height != 1)} of known size"
        said = f"cannot be tested with {models}; {FEWEST} of different size are needed"
        yield {**row, **nothing, "verdict": said}
        return
    from scipy.stats import linregress

    fit = linregress(x, y)
    slope, p = float(fit.slope), float(fit.pvalue)
    half = t_quantile(0.975, known.height - 2) * float(fit.stderr)
    low, high = slope - half, slope + half
    verdict = (
        "the effect of reasoning falls with size" if high < 0 else "it rises with size" if low > 0 else "not shown"
    )
    if high < 0:
        turns = _above(small, "rd_low") and _above(large, "rd_high", -1)
        verdict += ", and helps the smallest and hurts the largest" if turns else (
            "; that it helps the smallest and hurts the largest is not shown")  # fmt: skip
    yield {**row, "slope": slope, "slope_low": low, "slope_high": high, "p": None if math.isnan(p) else p,
           "verdict": verdict}  # fmt: skip


def _ends(known: pl.DataFrame) -> tuple[Record, Record]:
    """The rows of the smallest and of the largest model; empty where there is none."""
    ordered = known.sort("parameters", "model").to_dicts()
    return (ordered[0], ordered[-1]) if ordered else ({}, {})


def _above(row: Record, name: str, sign: int = 1) -> bool:
    """Whether an end of an interval is known and lies above 0, or below it where the sign is -1."""
    value = row.get(name)
    return value is not None and sign * float(value) > 0
