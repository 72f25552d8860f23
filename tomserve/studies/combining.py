"""Makes one score table of several, and says in words which runs are counted as one model.

>>> of_one, of_other = pl.DataFrame({"item": ["a"], "level": [1]}), pl.DataFrame({"item": ["b"], "level": ["high"]})
>>> combined([of_one, of_other])["level"].to_list()
['1', 'high']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tomserve.studies.differing import differences
from tomserve.studies.loading import ANSWERED, measured_studies
from tomserve.studies.together import KIND, split


def combined(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The rows of all tables under the union of their columns; a column that a table lacks is empty in its rows.

    A column whose values are of kinds that have nothing in common (a number here, a text there) becomes text. Where
    some tables hold answers and others measurements, a factor `kind` of the answers is left out, so that only rows of
    measurements have a `kind` (see tomserve.studies.together).
    """
    if len({ANSWERED.isdisjoint(table.columns) for table in tables}) > 1 and any(map(measured_studies, tables)):
        tables = [table if ANSWERED.isdisjoint(table.columns) else table.drop(KIND, strict=False) for table in tables]
    if len(tables) == 1:
        return tables[0]  # not a copy of it
    try:
        return pl.concat(tables, how="diagonal_relaxed")
    except pl.exceptions.PolarsError:
        kinds: dict[str, set[pl.DataType]] = {}
        for table in tables:
            for name, kind in table.schema.items():
                kinds.setdefault(name, set()).add(kind)
        mixed = [name for name, found in kinds.items() if len(found - {pl.Null()}) > 1]
        return pl.concat([_as_text(table, mixed) for table in tables], how="diagonal_relaxed")


def _as_text(table: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    there = [name for name in names if name in table.columns]
    nested = [name for name in there if table.schema[name].is_nested()]
    table = table.with_columns(
        pl.Series(name, [None if cell is None else str(cell) for cell in table[name].to_list()], dtype=pl.String)
        for name in nested
    )
    return table.with_columns(pl.col(name).cast(pl.String) for name in there)


def as_one(scores: pl.DataFrame, manifests: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A sentence for each model that several runs are of: that they are counted as one model with all their strategies,
    and in what else these runs differ, since that may be behind a difference of their strategies.

    scores: a score table. manifests: those of its runs that are at hand, by the run's name.
    """
    if not {"run", "model", "strategy"} <= set(scores.columns):
        return []
    said = []
    scores = split(scores).answers
    keys = ["model", *(["benchmark"] if "benchmark" in scores.columns else [])]  # benchmarks are never counted as one
    scores = scores.select(*keys, "run", "strategy")  # what is not read is not copied for each model
    for model, part in scores.group_by(keys, maintain_order=True):
        runs = list(part["run"].drop_nulls().unique(maintain_order=True))
        if len(runs) < 2:
            continue
        strategies = ", ".join(part["strategy"].unique(maintain_order=True))
        text = f"the runs {', '.join(runs)} are counted as one model, {model[0]}, with the strategies {strategies}"
        first, *others = [manifests.get(run) for run in runs]
        fields: dict[str, None] = {}
        for other in others:
            if first is not None and other is not None:
                fields |= {
                    one.field: None for one in differences(first, other) if not one.name.startswith("strategies.")
                }
        known = all(manifests.get(run) is not None for run in runs)
        if fields:
            text += f"; besides their strategies the runs differ in: {', '.join(fields)}"
        elif known:
            text += "; besides their strategies the runs do not differ"
        else:
            text += "; whether the runs differ in anything else is not known from score tables"
        said.append(f"{text}.")
    return said
