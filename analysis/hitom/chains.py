"""The table `chains` of the Hi-ToM study: how right the written belief chains are, and whether answers follow them.

A belief chain is what a reply says is believed as the story goes on, after every sentence or wherever it changes; here
it is the belief that the nested question asks about.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tomserve.stats import association
from tomserve.studies.contrasts import Record

from .rows import CHAIN_MEANS as MEANS
from .rows import arms, by, share_of

COLUMNS = (
    f"model strategy order total proper proper_share {' '.join(MEANS)} path_phi path_phi_low path_phi_high "
    "wrong_last followed followed_share followed_low followed_high"
)


def chains(rows: pl.DataFrame, intervals: str) -> Iterator[Record]:
    """The records of `chains`: means over the questions with a gold chain, by order; a chain that is missing scores 0.

    rows: as rows.prepared makes them. intervals: the way to count, recommended or published.
    """
    for model, strategy, part in arms(rows.filter(pl.col("chain_proper").is_not_null())):
        for order, some in by(part, "order"):
            means = {name: some[f"chain_{name}"].fill_null(0.0).mean() for name in MEANS}
            key = {"model": model, "strategy": strategy, "order": order, "total": some.height}
            proper = int(some["chain_proper"].sum())
            counts = {**key, "proper": proper, "proper_share": proper / some.height, **means}
            yield {**counts, **_path(some), **_followed(some, intervals)}


def _path(rows: pl.DataFrame) -> Record:
    """Phi, the correlation of a right path with a right answer, with its interval from leaving out one story at a time.

    The last state is left aside, because a proper chain shares it with the answer.
    """
    known = rows.filter(~pl.col("faulty") & pl.col("chain_path_proper").is_not_null() & pl.col("chain_length").gt(0))
    path, right = (known[name].cast(pl.Float64).to_numpy() for name in ("chain_path_proper", "correct"))
    clusters = known["cluster"].to_numpy()
    interval = association.jackknife(
        lambda x, y: association.phi(x, y).phi, (path, right), clusters, without=association.correlations
    )
    return {"path_phi": interval.estimate, "path_phi_low": interval.low, "path_phi_high": interval.high}


def _followed(rows: pl.DataFrame, intervals: str) -> Record:
    """How often the answer is the last belief of its chain, among chains that end in a wrong belief.

    Where it is, the answer follows what was written, even into an error.
    """
    wrong = rows.filter(pl.col("answer_matches_last").is_not_null() & ~pl.col("chain_last_correct"))
    if wrong.is_empty():
        return {"wrong_last": 0, "followed": 0}
    share = share_of(wrong.with_columns(pl.col("answer_matches_last").alias("correct")), intervals)
    counts = {"wrong_last": wrong.height, "followed": share["correct"], "followed_share": share["accuracy"]}
    return {**counts, "followed_low": share["ci_low"], "followed_high": share["ci_high"]}
