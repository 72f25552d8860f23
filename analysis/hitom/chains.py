"""Belief chains of the Hi-ToM study: how good they are for the asked nesting, and whether the answer follows them."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tomserve.stats import association, leaveout
from tomserve.studies.contrasts import Record

from .rows import CHAIN_MEANS as MEANS
from .rows import arms, by, share_of

COLUMNS = (
    f"model strategy order total proper proper_share {' '.join(MEANS)} path_phi path_phi_low path_phi_high "
    "wrong_last followed followed_share followed_low followed_high"
)


def chains(rows: pl.DataFrame, intervals: str) -> Iterator[Record]:
    """Means over the questions with a gold chain, by order; a chain that is missing scores 0."""
    for model, strategy, part in arms(rows.filter(pl.col("chain_proper").is_not_null())):
        for order, some in by(part, "order"):
            means = {name: some[f"chain_{name}"].fill_null(0.0).mean() for name in MEANS}
            key = {"model": model, "strategy": strategy, "order": order, "total": some.height}
            proper = int(some["chain_proper"].sum())
            found = {**key, "proper": proper, "proper_share": proper / some.height, **means}
            yield {**found, **_path(some), **_followed(some, intervals)}


def _path(rows: pl.DataFrame) -> Record:
    """Phi of a right path with a right answer; its last state, which a proper chain shares with the answer, aside."""
    known = rows.filter(~pl.col("faulty") & pl.col("chain_path_proper").is_not_null() & pl.col("chain_length").gt(0))
    path, right = (known[name].cast(pl.Float64).to_numpy() for name in ("chain_path_proper", "correct"))
    clusters = known["cluster"].to_numpy()
    found = association.jackknife(
        lambda x, y: association.phi(x, y).phi, (path, right), clusters, without=leaveout.correlations
    )
    return {"path_phi": found.estimate, "path_phi_low": found.low, "path_phi_high": found.high}


def _followed(rows: pl.DataFrame, intervals: str) -> Record:
    """Of chains that end in a wrong belief, those whose answer is that belief: the answer follows what was written."""
    wrong = rows.filter(pl.col("answer_matches_last").is_not_null() & ~pl.col("chain_last_correct"))
    if wrong.is_empty():
        return {"wrong_last": 0, "followed": 0}
    share = share_of(wrong.with_columns(pl.col("answer_matches_last").alias("correct")), intervals)
    counts = {"wrong_last": wrong.height, "followed": share["correct"], "followed_share": share["accuracy"]}
    return {**counts, "followed_low": share["ci_low"], "followed_high": share["ci_high"]}
