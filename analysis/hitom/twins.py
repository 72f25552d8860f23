"""The table `twins` of the Hi-ToM study: stories that differ only in some lines, compared question by question.

A tell is a line in which somebody says where something is. A story has twins with deceptive tells (lies), with truthful
ones, with filler lines that say nothing, or with none of these.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tomserve.studies.contrasts import Record, pair

from .rows import arms, by, effect_of

TWINS = (
    ("deceptive", "filler"),
    ("deceptive", "truthful"),
    ("deceptive", "none"),
    ("truthful", "filler"),
    ("filler", "none"),
)
"""Pairs of treatment and control. The first is the primary comparison: lines that lie against lines that say
nothing."""


def twins(rows: pl.DataFrame) -> Iterator[Record]:
    """The records of `twins`: each pair of TWINS compared on the same question of the same order in one group of twins.

    rows: as rows.prepared makes them. Both accuracies are means of the means of the groups, so that their difference
    is the risk difference. Whether the tells matter (tell_relevant) is read off the treated twin. Raises ValueError
    where two items of one kind of twin ask the same question.
    """
    stories = rows.filter(pl.col("twin").is_not_null() & pl.col("twin_kind").is_not_null())
    keys = ["twin", "order", "question"]
    stories = stories.with_columns(pl.col("question").fill_null(""))
    for model, strategy, part in arms(stories):
        for place, (treatment, control) in enumerate(TWINS):
            treated, other = part.filter(twin_kind=treatment), part.filter(twin_kind=control)
            for name, side in ((treatment, treated), (control, other)):
                if (double := side.filter(pl.struct(keys).is_duplicated())).height:
                    raise ValueError(f"twins {double['twin'][0]!r}: two {name} items ask one question")
            pairs = pair(treated, other, on=keys)
            chosen = [("all", order, some) for order, some in by(pairs, "order") if order == "all" or place == 0]
            chosen += [(str(on).lower(), "all", pairs.filter(tell_relevant=on)) for on in (True, False)]
            for relevant, order, some in chosen:
                if some.height:
                    by_family = some.group_by("cluster", maintain_order=True).agg(pl.col("correct", "control").mean())
                    key = {"model": model, "strategy": strategy, "treatment": treatment, "control": control}
                    means = {"accuracy": by_family["correct"].mean(), "control_accuracy": by_family["control"].mean()}
                    yield {**key, "tell_relevant": relevant, "order": order, **means, **effect_of(some)}
