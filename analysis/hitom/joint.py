"""The table `joint_accuracy` of the Hi-ToM study: whether a story's questions are right at all orders up to one.

The paper counts a question of order k as right only where the story's questions of all lower orders are right too. That
share falls with the order by itself, so the table sets beside it what it would be if the orders were independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import polars as pl

from tomserve.studies.contrasts import Record

from .rows import arms, by, by_deception, share_of


def joint_accuracy(rows: pl.DataFrame, intervals: str) -> Iterator[Record]:
    """The records of `joint_accuracy`, by model, strategy, deception, length and order.

    rows: as rows.prepared makes them. intervals: the way to count, recommended or published.
    """
    for model, strategy, part in arms(rows):
        for deception, some in by_deception(part):
            for length, of_length in by(some, "length"):
                key = {"model": model, "strategy": strategy, "deception": deception, "length": length}
                for record in _cumulative(of_length, intervals):
                    yield {**key, **record}


def _cumulative(rows: pl.DataFrame, intervals: str) -> Iterator[Record]:
    """A record for each order that was asked, from the lowest up.

    `accuracy` is that of all questions of the order. All else is over the stories that were asked every order up to
    this one (of the orders that any of these stories was asked). Of several questions of one order all have to be
    right.
    """
    columns = ["story", "cluster"]
    asked = rows.group_by(*columns, "order").agg(pl.col("correct").all(), pl.col("faulty").any()).sort("story", "order")
    stories = asked.select(columns).unique(maintain_order=True).with_columns(joint=pl.lit(True), product=pl.lit(1.0))
    total = stories.height
    orders = asked["order"].drop_nulls().unique().sort().to_list()
    for place, order in enumerate(orders):
        own = asked.filter(order=order).select("story", "correct", "faulty")
        stories = stories.join(own, on="story", maintain_order="left").with_columns(
            pl.col("joint") & pl.col("correct"), pl.col("correct").alias(f"right_{order}")
        )
        record: Record = {
            "order": str(order),
            "stories": stories.height,
            "accuracy": rows.filter(order=order)["correct"].mean(),
            "incomplete": total - stories.height,
        }
        if stories.height:
            share = share_of(stories.with_columns(pl.col("joint").alias("correct")), intervals)
            record |= {"joint": share["accuracy"], "joint_low": share["ci_low"], "joint_high": share["ci_high"]}
            record |= {"few_stories": share.get("few_stories"), "method": share.get("method")}
            marginals: list[float] = [stories.select(pl.col(f"right_{k}").mean()).item() for k in orders[: place + 1]]
            record["product"] = math.prod(marginals)
        if place:
            for value, name in ((True, "after_right"), (False, "after_wrong")):
                after = stories.filter(pl.col(f"right_{orders[place - 1]}") == value)
                record |= {name: after.select(pl.col("correct").mean()).item(), f"{name}_n": after.height}
        yield record
        stories = stories.drop("correct", "faulty")
