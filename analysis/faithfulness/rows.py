"""The rows that the tables of faithfulness count, by whom they are about, and the outcomes of their answers.

An outcome is 1 or 0, or nan where the reply held no answer; what was left out was never asked, and is no outcome.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tomserve.errors import ConfigError
from tomserve.faithfulness.table import EDIT, FULL, HINT, LEFT_OUT, PARAPHRASE, PREDICTION, SCHEMA

Floats = npt.NDArray[np.float64]
Texts = npt.NDArray[np.object_]
Record = dict[str, Any]

WHO = ("model", "benchmark", "strategy")
"""The columns that tell apart whose chains were looked at."""
GROUP = (*WHO, "shown")
"""For edits, which are shown in two ways, the columns that tell groups apart."""


@dataclass(frozen=True)
class Group:
    """The rows of one kind about one model, benchmark and strategy, and for edits one way of showing chains.

    `key`: these by name. `rows`: what was asked; every item stands once in each condition.
    """

    key: Mapping[str, str]
    rows: pl.DataFrame

    @cached_property
    def asked(self) -> dict[str, pl.DataFrame]:
        """The rows of each condition, by item in a fixed order."""
        return {str(name): part.sort("item") for (name,), part in self.rows.group_by("condition", maintain_order=True)}

    def of(self, condition: str) -> pl.DataFrame:
        """The rows of a condition, none perhaps."""
        return self.asked.get(condition, self.rows.clear())

    def paired(self, treated: str, control: str, *, instead: str | None = None) -> pl.DataFrame:
        """The items that were asked under both conditions, with the answers `treated` and `control`, and what the
        treated row says of them.

        instead: the condition that serves as control for the items which lack it; `replaced` says where it does.
        """
        found = self.of(control).select("item", pl.col("answer").alias("control"), replaced=pl.lit(False))
        if instead is not None:
            other = self.of(instead).select("item", pl.col("answer").alias("control"), replaced=pl.lit(True))
            found = pl.concat([found, other.join(found, on="item", how="anti")])
        return self.of(treated).rename({"answer": "treated"}).join(found, on="item").sort("item")

    def against_paraphrase(self, condition: str) -> pl.DataFrame:
        """The items of a condition beside the paraphrased chain or, where there is none, the whole one."""
        return self.paired(condition, PARAPHRASE, instead=FULL)


def groups(scores: pl.DataFrame, kind: str) -> Iterator[Group]:
    """The groups of one kind of rows (EDIT, HINT or PREDICTION), in the order of their names, without what was left
    out."""
    names = {EDIT: GROUP, HINT: WHO, PREDICTION: (*WHO, "predictor")}[kind]
    rows = scores.filter(pl.col("kind") == kind, pl.col("status") != LEFT_OUT)
    for values in rows.select(names).unique().sort(names).iter_rows():
        key = dict(zip(names, values, strict=True))
        yield Group(key, rows.filter(pl.col(name) == value for name, value in key.items()))


def measured(scores: pl.LazyFrame) -> pl.DataFrame:
    """The table as the study counts it: names as text, every item in a unit, and no item twice in one condition.

    Raises ConfigError for a table that lacks a column, or that holds a question twice.
    """
    known = set(scores.collect_schema().names())
    if absent := [name for name in SCHEMA if name not in known]:
        raise ConfigError(f"measured table: column {absent[0]!r} is missing; expected a table of tomserve faithfulness")
    names = (*GROUP, "predictor")
    frame = scores.select(list(SCHEMA)).rename({"asked_by": "strategy", "outcome": "status"}).collect()
    frame = frame.with_columns(pl.col(*names, "kind", "condition").cast(pl.String))
    frame = frame.with_columns(
        *(pl.col(name).fill_null("") for name in names),
        pl.col("status").fill_null(""),
        unit=pl.coalesce("unit", "cluster", "item"),
    )
    key = [*names, "kind", "condition", "item"]
    if (twice := frame.filter(pl.struct(key).is_duplicated())).height:
        first = twice.sort(key).row(0, named=True)
        runs = sorted(twice.filter(model=first["model"])["run"].drop_nulls().unique())
        hint = " ".join(f"--label {run}=NAME" for run in runs)
        more = f"; tell the runs apart by {hint}" if len(runs) > 1 else ""
        raise ConfigError(
            f"measured table: item {first['item']!r} of model {first['model']!r} stands in it twice under "
            f"{first['condition']!r}{more}"
        )
    return frame.sort(key)


def same(answers: pl.Series, labels: pl.Series) -> Floats:
    """Whether each answer is the label beside it: 1 or 0, nan where there is no answer. A missing label is met by no
    answer."""
    given, wanted = _texts(answers), _texts(labels)
    pairs = zip(given, wanted, strict=True)
    met: Floats = np.array([one == other and other is not None for one, other in pairs], dtype=float)
    met[[place for place, one in enumerate(given) if one is None]] = np.nan
    return met


def guess(rows: pl.DataFrame) -> Floats:
    """How often a blind guess meets a label, one by the number of choices; nan where that is not known."""
    known = rows["choices"].cast(pl.Float64).to_numpy()
    found: Floats = np.divide(1.0, known, out=np.full(known.size, np.nan), where=known > 0)
    return found


def units(rows: pl.DataFrame) -> Texts:
    """The unit of each row."""
    return _texts(rows["unit"])


def share(outcomes: Floats) -> float | None:
    """The share of ones among the items asked, where a reply without an answer counts as 0; None for no items."""
    return float(np.nan_to_num(outcomes).mean()) if outcomes.size else None


def failures(answers: pl.Series) -> int:
    """How many replies held no answer."""
    return answers.null_count()


def frame(rows: Sequence[Record], schema: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """A table of these rows, undefined numbers as null."""
    made = pl.DataFrame(rows, schema, infer_schema_length=None)
    return made.fill_nan(None)


def _texts(column: pl.Series) -> Texts:
    found = np.empty(column.len(), dtype=object)
    found[:] = column.to_list()
    return found
