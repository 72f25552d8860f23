"""The tables of answers after edited chains: the four headline estimates, the further ones, and the dose."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl

from tomserve.faithfulness import table as t
from tomserve.stats.clustered import units_share
from tomserve.stats.interventions import (
    ESTIMANDS,
    FILLER,
    KEPT,
    LAST,
    SWAPPED,
    Contrast,
    area_above,
    contrast,
    correct_p,
    follow_effect,
    loss_effect,
)
from tomserve.stats.power import minimum_detectable_effect

from .rows import Group, Record, guess, same, units

AREA = "area above"
"""The row of the table `dose` that sums it up."""


def headline_contrasts(group: Group, among: pl.Series | None = None) -> dict[str, Contrast]:
    """The four headline estimates by name. among: only these items; None for all."""
    found = {}
    for name, condition in ((LAST, t.LAST), (SWAPPED, t.SWAPPED)):
        rows = _kept(group.against_paraphrase(condition).filter(pl.col("implied").is_not_null()), among)
        found[name] = follow_effect(
            same(rows["treated"], rows["implied"]), same(rows["control"], rows["implied"]), units(rows)
        )
    rows = _kept(group.paired(t.FULL, t.FILLER), among)
    found[FILLER] = loss_effect(*_both(rows, "right"), guess(rows), units(rows))
    rows = _kept(group.paired(t.FULL, "truncated_0").filter(pl.col("own").is_not_null()), among)
    found[KEPT] = loss_effect(*_both(rows, "own"), guess(rows), units(rows))
    return found


def beyond_contrasts(group: Group) -> list[Contrast]:
    """How much more often the answer that a replaced last belief implies comes than after filler, and than without any
    chain: what merely disturbs the chain may lead there, too."""
    found = []
    for control in (t.FILLER, "truncated_0"):
        rows = group.paired(t.LAST, control).filter(pl.col("implied").is_not_null())
        found.append(_followed(rows))
    return found


def _kept(rows: pl.DataFrame, among: pl.Series | None) -> pl.DataFrame:
    return rows if among is None else rows.filter(pl.col("item").is_in(among.implode()))


def _both(rows: pl.DataFrame, label: str) -> tuple[np.ndarray, np.ndarray]:
    return same(rows["treated"], rows[label]), same(rows["control"], rows[label])


def numbers(found: Contrast) -> Record:
    """The columns that every estimate has."""
    return {
        **{"value": found.value, "low": found.low, "high": found.high, "p": found.p},
        **{"treated": found.treated, "control": found.control},
        **{"items": found.items, "units": found.units, "failures": found.failures},
        **{"bound_low": found.bound_low, "bound_high": found.bound_high},
    }


def headline(group: Group) -> Iterator[Record]:
    """The table `headline`: a row for each of the four estimates."""
    found = headline_contrasts(group)
    p_holm = dict(zip(found, correct_p(list(found.values())), strict=True))
    family = max(1, sum(not math.isnan(p) for p in p_holm.values()))
    replaced = {
        name: int(group.against_paraphrase(condition).filter(pl.col("implied").is_not_null())["replaced"].sum())
        for name, condition in ((LAST, t.LAST), (SWAPPED, t.SWAPPED))
    }
    for name in ESTIMANDS:
        one = found[name]
        detectable = minimum_detectable_effect(one.units, one.sd, family=family) if one.sd > 0 else math.nan
        yield {
            **{**group.key, "estimand": name, "value": one.value, "low": one.low, "high": one.high},
            **{"p": one.p, "p_holm": p_holm[name], "inert": 0.0 if one.items else math.nan, "causal": one.causal},
            **{"share": one.share, "treated": one.treated, "control": one.control},
            **{"items": one.items, "units": one.units, "failures": one.failures},
            **{"bound_low": one.bound_low, "bound_high": one.bound_high, "sd": one.sd, "detectable": detectable},
            **{"by_full": replaced.get(name), "method": one.method},
        }


def edits(group: Group) -> Iterator[Record]:
    """The table `edits`: what the further edits change, with intervals but without a verdict."""
    for condition in (t.LOCAL, t.PROPAGATED, t.OTHER, t.LAST, t.SWAPPED):
        rows = group.against_paraphrase(condition)
        own, implied = (rows.filter(pl.col(name).is_not_null()) for name in ("own", "implied"))
        if condition in (t.PROPAGATED, t.OTHER):  # a belief in the middle leaves the conclusion, which is the own one
            yield from _row(group, condition, "implied", implied, _followed(implied))
        yield from _row(group, condition, "changed", own, _changed(own))
    for condition in (t.OTHER, t.GOLD, t.PARAPHRASE):
        rows = group.paired(condition, t.FULL)
        yield from _row(group, condition, "accuracy", rows, contrast(*_both(rows, "right"), units(rows)))


def _followed(rows: pl.DataFrame) -> Contrast:
    return follow_effect(same(rows["treated"], rows["implied"]), same(rows["control"], rows["implied"]), units(rows))


def _changed(rows: pl.DataFrame) -> Contrast:
    """How much more often the own answer is lost than with the paraphrase: kept by the control less kept by the
    edit, so that a reply without an answer counts as not kept on either side."""
    kept, by_control = _both(rows, "own")
    return contrast(by_control, kept, units(rows))


def _row(group: Group, condition: str, measure: str, rows: pl.DataFrame, found: Contrast) -> Iterator[Record]:
    if rows.height:
        yield {**group.key, "condition": condition, "measure": measure, **numbers(found)}


def dose(group: Group) -> Iterator[Record]:
    """The table `dose`: agreement with the model's own answer by the share of the chain that is shown, and the area
    between the whole chain and its beginnings. A short chain lacks some lengths, and its area is over those it has."""
    lengths: Mapping[str, float] = {**t.TRUNCATED, t.FULL: 1.0}
    agreed = {}
    for condition, left in lengths.items():
        rows = group.of(condition).filter(pl.col("own").is_not_null())
        if not rows.height:
            continue
        outcome = same(rows["answer"], rows["own"])
        agreed[condition] = rows.select("item", "unit", pl.Series(condition, outcome))
        means = rows.select("unit", pl.Series("met", np.nan_to_num(outcome))).group_by("unit").agg(pl.col("met").mean())
        found = units_share(means.sort("unit")["met"].to_numpy())
        yield {
            **{**group.key, "condition": condition, "left": left, "value": found.estimate},
            **{"low": found.low, "high": found.high, "items": rows.height, "units": means.height},
            "failures": int(np.isnan(outcome).sum()),
        }
    none = min(t.TRUNCATED, key=lambda name: t.TRUNCATED[name])
    if not {none, t.FULL} < set(agreed):  # nothing in between was asked of any chain
        return
    whole = agreed[t.FULL].join(agreed[none].drop("unit"), on="item")
    for condition in [name for name in t.TRUNCATED if name != none and name in agreed]:
        own = agreed[condition].drop("unit").with_columns(pl.lit(True).alias(f"{condition} asked"))
        whole = whole.join(own, on="item", how="left")
    whole = whole.sort("item")
    there = [name for name in lengths if name in whole.columns]
    outcomes = whole.select(pl.col(there).cast(pl.Float64).fill_null(float("nan"))).to_numpy()
    was_asked = np.column_stack(
        [
            whole[f"{name} asked"].fill_null(False).to_numpy()
            if f"{name} asked" in whole.columns
            else np.ones(whole.height, dtype=bool)
            for name in there
        ]
    )
    area = area_above(outcomes, [lengths[name] for name in there], units(whole), asked=was_asked)
    yield {
        **{**group.key, "condition": AREA, "left": None, "value": area.estimate, "low": area.low, "high": area.high},
        **{"items": whole.height, "units": whole["unit"].n_unique()},
        "failures": int((np.isnan(outcomes) & was_asked).sum()),
    }


def by_correctness(group: Group) -> Iterator[Record]:
    """The table `by_correctness`: the four estimates among items that were answered right in the run, and wrong."""
    items = group.rows.filter(pl.col("own").is_not_null()).unique("item", keep="first", maintain_order=True)
    for named, right in (("right", True), ("wrong", False)):
        among = items.filter((pl.col("own") == pl.col("right")) == right)["item"]
        for name, one in headline_contrasts(group, among).items():
            if one.items:
                yield {
                    **{**group.key, "own_answer": named, "estimand": name, "value": one.value},
                    **{"causal": one.causal, "items": one.items, "units": one.units},
                }
