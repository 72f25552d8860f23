"""The macro-averaged F1 of OpenToM's tasks: as it is recommended, and as the authors' program counts it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from tomserve.stats.accuracy import constant_f1, guessed_f1, macro_f1, macro_f1_interval
from tomserve.stats.effects import FEW
from tomserve.studies.contrasts import Record, codes

CLASSES = {
    "location_coarse": ("Yes", "No"),
    "location_fine": ("original", "new"),
    "fullness": ("less full", "equally full", "more full"),
    "accessibility": ("less accessible", "equally accessible", "more accessible"),
    "attitude": ("positive", "neutral", "negative"),
}
"""The classes of each task's answers."""

MULTIHOP = {
    **{"less full": "1", "more full": "2", "equally full": "3"},
    **{"more accessible": "1", "less accessible": "2", "equally accessible": "3"},
}
"""Which classes the authors' program takes together for both multihop tasks: by their numbers, and so "less full" with
"more accessible"."""

UNREAD = "unread"
"""What the column metric_official says of a reply that the authors leave out."""


def scored(rows: pl.DataFrame, keys: Sequence[str]) -> Iterator[Record]:
    """A record for each value of the keys, `task` among them: the macro-averaged F1 with its 95% interval over
    narratives; every failure counts as no class. rows: prepared rows."""
    for key, part in rows.sort(keys, maintain_order=True).group_by(list(keys), maintain_order=True):
        named = dict(zip(keys, key, strict=True))
        classes = CLASSES[str(named["task"])]
        right = [classes.index(label) for label in part["label"]]
        said = part.select(pl.when(~pl.col("faulty")).then("metric_class"))["metric_class"]
        given = [classes.index(one) if one in classes else None for one in said]
        interval = macro_f1_interval(right, given, codes(part["cluster"]))
        best, constant = constant_f1(right)
        narratives = part["cluster"].n_unique()
        yield {
            **named,
            **{"questions": part.height, "f1": interval.estimate, "f1_low": interval.low, "f1_high": interval.high},
            **{"accuracy": part.select(pl.col("correct").mean()).item(), "unread": int(part["unread"].sum())},
            **{"constant": classes[best], "constant_f1": constant, "guess_f1": guessed_f1(right, len(classes))},
            **{"narratives": narratives, "few_narratives": narratives < FEW, "method": interval.method},
        }


def official(rows: pl.DataFrame, arms: Sequence[str]) -> Iterator[Record]:
    """The rows that the authors' program prints, by its reading of all replies: for each arm and order the locations,
    both multihop tasks and the two together, and the attitude. Fine locations are with those that the narrator is asked
    about. rows: prepared rows; of a reply without text, as of one that it cannot read, nothing is counted."""
    known = rows.with_columns(
        order=pl.when(pl.col("order") == 0).then(1).otherwise("order"), said=pl.col("metric_official").fill_null(UNREAD)
    )
    both = known.filter(pl.col("task").is_in(["fullness", "accessibility"])).with_columns(
        task=pl.lit("multihop"),
        label=pl.col("label").replace(MULTIHOP),
        said=pl.col("said").replace(MULTIHOP),
    )
    keys = [*arms, "task", "order"]
    every = pl.concat([known, both]).sort(keys, maintain_order=True)
    for key, part in every.group_by(keys, maintain_order=True):
        read = part.filter(pl.col("said") != UNREAD)
        names = sorted({*read["label"], *read["said"]})
        right, given = ([names.index(one) for one in read[column]] for column in ("label", "said"))
        f1 = macro_f1(right, given) if right else None
        accuracy = sum(map(int.__eq__, right, given)) / len(right) if right else None
        yield {
            **dict(zip(keys, key, strict=True)),
            **{"questions": part.height, "left_out": 1 - read.height / part.height, "f1": f1, "accuracy": accuracy},
        }
