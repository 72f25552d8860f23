"""Rows of types of task as a whole, beside those by dimension, since B counts each type once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import polars as pl

from tomserve.stats.accuracy import correct_for_chance
from tomserve.studies import baselines, tasks
from tomserve.studies.contrasts import Record

TABLE = "task_types"
"""The table of the study of behaviour to which rows are added."""
ALL = "all that B counts"
"""What stands in the column `dimension` of such a row."""
_KEYS = ("model", "strategy", "benchmark", "task")


def with_whole_tasks(tables: Mapping[str, pl.DataFrame], asked: tasks.Asked) -> dict[str, pl.DataFrame]:
    """The tables, with a row for each type of task that asks about several dimensions, after those of its dimensions.

    tables: of the study of behaviour. asked: the rows that they count.
    """
    made = dict(tables)
    rows = pl.DataFrame(list(_rows(asked)), infer_schema_length=None)
    if TABLE in made and rows.height:
        joined = pl.concat([made[TABLE], rows], how="diagonal_relaxed")
        made[TABLE] = joined.sort(_KEYS, maintain_order=True)
    return made


def _rows(asked: tasks.Asked) -> Iterator[Record]:
    counted = asked.rows.filter("mind").sort(_KEYS, maintain_order=True)
    for key, part in counted.group_by(_KEYS, maintain_order=True):
        if part["dimension"].n_unique() < 2:
            continue
        found = baselines.accuracy(part, asked.kinds, "recommended", brief=True)
        row: Record = {**dict(zip(_KEYS, key, strict=True)), "dimension": ALL}
        row |= {name: found[name] for name in ("correct", "total", "accuracy", "ci_low", "ci_high", "unread")}
        chance = None if part["chance"].null_count() else part["chance"].mean()
        row["chance"] = chance
        for name, share in (("corrected", "accuracy"), ("corrected_low", "ci_low"), ("corrected_high", "ci_high")):
            value = correct_for_chance(float(found[share]), float(chance)) if chance is not None else math.nan  # type: ignore[arg-type]
            row[name] = value if math.isfinite(value) else None
        yield {**row, "in_b": True}
