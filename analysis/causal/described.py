"""The tables that describe a measurement: answers before anything was moved, cells, references, and fits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from tomserve.causal.table import (
    FALSE,
    HELD_OUT,
    IN_SAMPLE,
    NO_OP,
    OWN,
    PPT,
    REFERENCES,
    REPLACE,
    TOLD,
    Outcomes,
    Record,
)
from tomserve.stats.clustered import new_units_share

MEANT = {FALSE: "false", OWN: "false"}
"""The choice that is right in a telling: that of the false belief where the protagonist missed the change."""

FIXED = tuple(name for name in REFERENCES if name != REPLACE)
"""The references that have no strength."""


def answers(found: Outcomes) -> Iterator[Record]:
    """The table `answers`: what the model said before anything was moved, by telling and order of the choices."""
    for told in TOLD:
        own = found.answers.filter(pl.col("told") == told)
        for order in (0, 1):
            part = own.filter(pl.col("order") == order)
            if not part.height:
                continue
            read = part.filter("strict")["role"].cast(pl.String)
            meant = MEANT.get(told, "true")
            right = (part["strict"] & (part["role"].cast(pl.String) == meant)).fill_null(value=False)
            said = new_units_share(right.to_numpy(), part["cluster"].to_numpy())
            yield {
                **{**found.arm, "told": told, "order": order, "items": part.height},
                **{f"share_{role}": (read == role).sum() / part.height for role in ("false", "true", "other")},
                "unread": 1 - read.len() / part.height,
                **{"right": said.estimate, "right_low": said.low, "right_high": said.high},
            }


def cells(found: Outcomes) -> Iterator[Record]:
    """The table `cells`: the flips of the eligible items in every layer and strength, for every map that has one."""
    eligible = found.items.filter("eligible").select("item")
    counted = (
        found.moves.filter(pl.col("alpha").is_not_null(), pl.col("fitted").is_in([HELD_OUT, IN_SAMPLE]))
        .join(eligible, on="item", how="semi")
        .group_by("map", "fitted", "layer", "alpha")
        .agg(
            items=pl.len(),
            flip_true=pl.col("strict_true").sort().mean(),
            flip_false=pl.col("strict_false").sort().mean(),
            displacement=pl.col("displacement_true").median(),
        )
        .with_columns(net=pl.col("flip_true") - pl.col("flip_false"))
        .sort("map", "fitted", "layer", "alpha")
    )
    for row in counted.iter_rows(named=True):
        yield {**found.arm, **row}


def references(found: Outcomes) -> Iterator[Record]:
    """The table `references`: what no map moves, in every layer, counted over the eligible items."""
    eligible = found.items.filter("eligible").select("item")
    counted = (
        found.moves.filter(pl.col("map").is_in(FIXED))
        .join(eligible, on="item", how="semi")
        .group_by("map", "layer")
        .agg(
            items=pl.len(),
            flip_true=pl.col("strict_true").sort().mean(),
            flip_false=pl.col("strict_false").sort().mean(),
            changed=pl.col("changed_true").sort().mean(),
            displacement=pl.col("displacement_true").median(),
        )
        .with_columns(net=pl.col("flip_true") - pl.col("flip_false"))
        .sort(pl.col("map").replace_strict(dict(zip(FIXED, range(len(FIXED)), strict=True))), "layer")
    )
    for row in counted.iter_rows(named=True):
        yield {**found.arm, **row}


def no_op_changes(found: Outcomes) -> tuple[float, int]:
    """Of the moves that add nothing, over all items, the share that changed an answer, and their number."""
    own = found.moves.filter(pl.col("map") == NO_OP)["changed_true"].drop_nulls()
    return (float(np.mean(np.sort(own.to_numpy()))), own.len()) if own.len() else (0.0, 0)


def fits(found: Outcomes) -> Iterator[Record]:
    """The table `fits`: how well the maps of every layer fit, as means over folds; the penalty as its median."""
    counted = (
        found.maps.with_columns(pl.col("map").cast(pl.String))
        .group_by("map", "fitted", "layer")
        .agg(
            folds=pl.len(),
            error=pl.col("error").sort().mean(),
            worst_error=pl.col("error").max(),
            penalty=pl.col("penalty").median(),
            rank=pl.col("rank").median(),
            gain=pl.col("gain").sort().mean(),
            norm=pl.col("norm").sort().mean(),
        )
        .sort(pl.col("map") != PPT, "map", pl.col("fitted") != HELD_OUT, "fitted", "layer")
    )
    for row in counted.iter_rows(named=True):
        yield {**found.arm, **row}
