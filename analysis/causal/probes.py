"""The table of probes: what a linear reader finds in the states of items that it was not trained on."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tomserve.causal.table import FALSE, PROBES, TRUE_LABELS, TWIN, Outcomes, Record
from tomserve.stats.clustered import clustered_mean, new_units_share

ALL = "all"
"""All tellings whose states were probed: the false-belief story and its true-belief twin."""


def probes(found: Outcomes) -> Iterator[Record]:
    """The table `probes`: accuracy with the labels as they are and with shuffled ones, by layer, holder and telling.

    Selectivity is the mean over items of right with true labels minus right with shuffled ones (Hewitt and Liang,
    EMNLP 2019), with a t interval over scenarios."""
    key = ["probe", "layer", "told", "item"]
    true = pl.col("labels") == TRUE_LABELS
    rows = found.probes.filter(pl.col("right").is_not_null()).with_columns(pl.col("probe", "told").cast(pl.String))
    if rows.is_empty():
        return
    paired = (
        rows.group_by(key)
        .agg(
            pl.col("cluster").first(),
            right=pl.col("right").filter(true).cast(pl.Float64).mean(),
            shuffled=pl.col("right").filter(~true).cast(pl.Float64).mean(),
            chance=pl.col("chance").cast(pl.Float64).max(),
        )
        .filter(pl.col("right").is_not_null())
        .sort("cluster", "item", "told")
    )
    for probe in PROBES:
        for layer in sorted(paired["layer"].unique()):
            own = paired.filter(probe=probe, layer=layer)
            for told in (ALL, FALSE, TWIN):
                part = own if told == ALL else own.filter(told=told)
                if part.height:
                    yield {**found.arm, "probe": probe, "told": told, "layer": layer, **_accuracy(part)}


def _accuracy(part: pl.DataFrame) -> Record:
    scenario = part["cluster"].to_numpy()
    share = new_units_share(part["right"].to_numpy(), scenario)
    gain = clustered_mean((part["right"] - part["shuffled"]).to_numpy(), scenario)
    return {
        **{"items": part["item"].n_unique(), "scenarios": part["cluster"].n_unique()},
        **{"accuracy": share.estimate, "accuracy_low": share.low, "accuracy_high": share.high},
        **{"shuffled": part["shuffled"].mean(), "chance": part["chance"].mean()},
        **{"selectivity": gain.estimate, "selectivity_low": gain.low, "selectivity_high": gain.high},
    }
