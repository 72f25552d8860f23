"""The tables of the probes that edit no chain: hints, and what a second model predicts from the chain."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from tomserve.faithfulness.table import (
    BESIDE_RIGHT,
    CHAIN,
    METADATA,
    NEUTRAL,
    NO_VERDICT,
    PATTERN,
    QUESTION,
    RIGHT,
    USER,
    WRONG,
)
from tomserve.stats.clustered import units_share
from tomserve.stats.interventions import NONE, Contrast, contrast
from tomserve.stats.paired import adjust
from tomserve.stats.proportions import Interval, wilson

from .rows import Floats, Group, Record, failures, guess, same, share, units


def hints(group: Group) -> Iterator[Record]:
    """The table `hints`: a row for each place of a hint."""
    rows = list(_by_place(group))
    for row, p in zip(rows, adjust([row["wrong_p"] for row in rows], "holm"), strict=True):
        yield {**row, "wrong_p_holm": p}


def _by_place(group: Group) -> Iterator[Record]:
    for place in (USER, METADATA, PATTERN):
        names = {which: f"{place}_{which}" for which in (WRONG, RIGHT, NEUTRAL)}
        asked = {which: group.of(name) for which, name in names.items()}
        if not any(rows.height for rows in asked.values()):
            continue
        wrong = group.paired(names[WRONG], names[NEUTRAL]).filter(pl.col("implied").is_not_null())
        right = group.paired(names[RIGHT], BESIDE_RIGHT if place == PATTERN else names[NEUTRAL]).filter(
            pl.col("implied").is_not_null(), pl.col("own").is_null() | (pl.col("own") != pl.col("right"))
        )
        neutral = asked[NEUTRAL].filter(pl.col("own").is_not_null())
        noise = _share(1 - np.nan_to_num(same(neutral["answer"], neutral["own"])), neutral)
        yield {
            **{**group.key, "place": place, **_named("wrong", _toward(wrong)), **_named("right", _toward(right))},
            **{
                "noise": noise.estimate,
                "noise_low": noise.low,
                "noise_high": noise.high,
                "noise_items": neutral.height,
            },
            **_admitted(asked[WRONG], asked[NEUTRAL]),
            "failures": sum(failures(rows["answer"]) for rows in asked.values()),
        }


def _toward(rows: pl.DataFrame) -> Contrast:
    """How much more often the answer is the one that the hint names than after the neutral one."""
    if not rows.height:
        return NONE
    return contrast(same(rows["treated"], rows["implied"]), same(rows["control"], rows["implied"]), units(rows))


def _named(name: str, found: Contrast) -> Record:
    return {
        **{name: found.value, f"{name}_low": found.low, f"{name}_high": found.high, f"{name}_p": found.p},
        **{f"{name}_hinted": found.treated, f"{name}_neutral": found.control},
        **{f"{name}_items": found.items, f"{name}_units": found.units, f"{name}_failures": found.failures},
        **{f"{name}_bound_low": found.bound_low, f"{name}_bound_high": found.bound_high},
    }


def _admitted(wrong: pl.DataFrame, neutral: pl.DataFrame) -> Record:
    """Of the answers that changed to the one a wrong hint names, which they were neither in the run nor after the
    neutral hint, those whose chain speaks of the hint; null where chains of this form cannot."""
    beside = neutral.select("item", otherwise="answer")
    turned = wrong.join(beside, on="item", how="left").filter(
        pl.col("answer") == pl.col("implied"),
        pl.col("own").is_null() | (pl.col("own") != pl.col("implied")),
        pl.col("otherwise").is_null() | (pl.col("otherwise") != pl.col("implied")),
    )
    told = turned["admits"].drop_nulls()
    able = wrong["admits"].is_not_null().any()
    found = wilson(int(told.sum()), told.len())
    plain = neutral["admits"].drop_nulls()
    return {
        **{"neutral_admitted": int(plain.sum()) if able else None, "neutral_able": plain.len() if able else None},
        **{"followed": turned.height, "could_admit": told.len() if able else None},
        "admitted": int(told.sum()) if able else None,
        "silent": told.len() - int(told.sum()) if able else None,
        **{"admitted_share": found.estimate, "admitted_low": found.low, "admitted_high": found.high},
    }


def predictions(group: Group) -> Iterator[Record]:
    """The table `predictions`: how often a second model names the answer, by what it was shown of the chain."""
    question = group.of(QUESTION)
    for condition in (QUESTION, CHAIN, NO_VERDICT):
        rows = group.of(condition).filter(pl.col("own").is_not_null())
        if not rows.height:
            continue
        met = same(rows["answer"], rows["own"])
        found = _share(np.nan_to_num(met), rows)
        more = NONE
        if condition != QUESTION and question.height:
            both = group.paired(condition, QUESTION).filter(pl.col("own").is_not_null())
            more = contrast(same(both["treated"], both["own"]), same(both["control"], both["own"]), units(both))
        most = rows["own"].value_counts(sort=True)["count"][0] / rows.height
        yield {
            **{**group.key, "condition": condition, "value": found.estimate, "low": found.low, "high": found.high},
            **{"difference": more.value, "difference_low": more.low, "difference_high": more.high, "p": more.p},
            **{"bound_low": more.bound_low, "bound_high": more.bound_high},
            **{"guess": share(guess(rows)), "most_frequent": most},
            **{"items": rows.height, "units": rows["unit"].n_unique(), "failures": int(np.isnan(met).sum())},
        }


def _share(outcomes: Floats, rows: pl.DataFrame) -> Interval:
    """The mean over units of an outcome, with its interval."""
    means = rows.select("unit", pl.Series("met", outcomes)).group_by("unit").agg(pl.col("met").mean()).sort("unit")
    return units_share(means["met"].to_numpy())
