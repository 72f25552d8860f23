"""How the grades of two runs differ on the same questions, where grades are more than right or wrong.

Another tool may grade a reply by a number, such as the overlap with a reference; then its mean says more than how many
replies reach a threshold. Where questions were asked several times, the share of right replies to each is such a grade.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tomserve.stats.clustered import clustered_mean
from tomserve.stats.clusters import unit_means
from tomserve.stats.paired import mean_interval, t_p
from tomserve.stats.proportions import Interval, tango
from tomserve.studies.contrasts import codes

Floats = npt.NDArray[np.float64]
TABLE = "values"
"""Name of the table."""

GRADES, SAMPLES = "grades", "samples"
"""What is compared, in the column `of`: grades that another tool gave, or the share of a question's replies that are
right."""

ABOUT = (
    "Grades that are more than right or wrong, on the same questions: the mean of each run, and their difference with "
    "its 95% t interval over units (clusters, or stages where the questions name them) and the p of that interval. "
    "value_a and value_b are means of the units' means, of which the difference is that of the two; mean_a and mean_b "
    "are means over questions. of: what is compared, grades that the tool gave or, where questions were asked several "
    "times (samples), the share of a question's replies that are right. A reply that failed or has no grade (failed) "
    "counts as 0 where all grades lie between 0 and 1; elsewhere its question is left out, since nothing says what "
    "failing is worth, and n is less."
)
"""What a reader must know of it."""


@dataclass(frozen=True)
class Valued:
    """The grades of two runs by one strategy.

    strategy: its name. kind: GRADES or SAMPLES. a, b: the means of the units [units]. means: the means of these.
    whole: the means over questions. worst_a, worst_b: the means of the units if each failure had the grade 1 [units];
    what a and b are where none failed. bounded: whether all grades lie between 0 and 1. unit: what the units are.
    failed: how many questions lack a grade on a side. n: how many questions count.
    """

    strategy: str
    kind: str
    a: Floats
    b: Floats
    whole: tuple[float, float]
    worst_a: Floats
    worst_b: Floats
    bounded: bool
    unit: str
    failed: int
    n: int

    @property
    def means(self) -> tuple[float, float]:
        """The means of the units' means, of A and of B."""
        return float(self.a.mean()), float(self.b.mean())

    @property
    def differences(self) -> Floats:
        """B minus A by unit."""
        return self.b - self.a

    def intervals(self) -> Callable[[float], Interval]:
        """The interval of the mean difference by the level: a t interval over units. Where no unit differs from
        another it is undefined, but for grades between 0 and 1 Tango's interval for as many pairs as there are units.
        """

        def interval(level: float) -> Interval:
            if not self.bounded:
                found = clustered_mean(self.differences, np.arange(self.a.size), level)
                return Interval(found.estimate, found.low, found.high, f"t, {self.a.size - 1} df")
            moved, m = float(self.differences.mean()), float(self.a.size)
            gained, lost = (m * max(0.0, by) for by in (moved, -moved))
            return mean_interval(self.differences, level, tango(gained, lost, m, level))

        return interval

    def worst(self) -> tuple[float, float]:
        """The least and the greatest difference that failures leave possible; undefined where grades have no bounds and
        something failed."""
        if self.failed and not self.bounded:
            return math.nan, math.nan
        return float((self.b - self.worst_a).mean()), float((self.worst_b - self.a).mean())

    def row(self) -> dict[str, Any]:
        """The row of the table."""
        found = self.intervals()(0.95)
        return {
            **{"strategy": self.strategy, "of": self.kind, "value_a": self.means[0], "value_b": self.means[1]},
            **{"difference": found.estimate, "low": found.low, "high": found.high, "p": t_p(self.differences)},
            **{"mean_a": self.whole[0], "mean_b": self.whole[1], "failed": self.failed, "n": self.n},
            **{"unit": self.unit, "units": self.a.size, "method": found.method},
        }


def valued(pairs: pl.DataFrame, tables: Sequence[pl.DataFrame], chosen: Sequence[str | None]) -> list[Valued]:
    """The grades of the paired questions, for each strategy; none where grades are only right or wrong.

    pairs: what contrasts.pair makes, with `strategy`, `item`, `cluster` and, where all questions have one, `stage`.
    tables: the score tables of A and of B. chosen: the strategy of each that is compared, None for all that both have.
    """
    found = []
    for kind, column in ((GRADES, "graded_value"), (SAMPLES, "correct_mean")):
        if any(column not in table.columns or table[column].is_null().all() for table in tables):
            continue
        if kind == SAMPLES and any("people" in table.columns for table in tables):
            continue  # people are compared in a table of their own (tomserve.studies.people)
        if all(table[column].drop_nulls().is_in([0.0, 1.0]).all() for table in tables):
            continue
        one, other = (_grades(*side, column) for side in zip(tables, chosen, strict=True))
        joined = pairs.join(one.rename({"value": "a"}), on=["item", "strategy"], how="left").join(
            other.rename({"value": "b"}), on=["item", "strategy"], how="left"
        )
        for (strategy,), part in joined.group_by(["strategy"], maintain_order=True):
            if (made := _valued(str(strategy), kind, part)) is not None:
                found.append(made)
    return found


def _grades(table: pl.DataFrame, strategy: str | None, column: str) -> pl.DataFrame:
    """The grades of a side as `item`, `strategy`, `value`; of a chosen strategy the name is left out."""
    if strategy is not None:
        table = table.filter(pl.col("strategy") == strategy).with_columns(strategy=pl.lit(""))
    return table.select("item", "strategy", pl.col(column).cast(pl.Float64).alias("value"))


def _valued(strategy: str, kind: str, part: pl.DataFrame) -> Valued | None:
    """The grades of one strategy; None where no question has one on both sides."""
    lacks = part["a"].is_null() | part["b"].is_null()
    known = pl.concat([part["a"].drop_nulls(), part["b"].drop_nulls()])
    if lacks.all():
        return None
    bounded = bool(known.is_between(0, 1).all())
    part = part if bounded else part.filter(~lacks)
    staged = part["stage"].null_count() == 0
    clusters = codes(part["cluster"])
    units = codes(part["stage"]) if staged else clusters

    def by_unit(side: str, failure: float) -> Floats:
        return np.asarray(unit_means(part[side].fill_null(failure).to_numpy(), clusters, units)[0])

    a, b = by_unit("a", 0.0), by_unit("b", 0.0)
    own = "questions" if a.size == part.height else "clusters"
    whole = tuple(float(part[side].fill_null(0.0).to_numpy().mean()) for side in "ab")
    worst = by_unit("a", 1.0), by_unit("b", 1.0)
    unit = "stages" if staged else own
    return Valued(strategy, kind, a, b, (whole[0], whole[1]), *worst, bounded, unit, int(lacks.sum()), part.height)


def table(rows: Sequence[Valued]) -> pl.DataFrame:
    """The table of these grades; without rows where there are none."""
    return (
        pl.DataFrame([one.row() for one in rows], infer_schema_length=None).fill_nan(None) if rows else pl.DataFrame()
    )


def shown(table: pl.DataFrame) -> pl.DataFrame:
    """The columns that the terminal shows."""
    strategy = ["strategy"] if table["strategy"].str.len_chars().max() else []
    named: Mapping[str, str] = {"value_a": "A", "value_b": "B", "difference": "B - A"}
    own = [pl.col(name).alias(named.get(name, name)) for name in ("value_a", "value_b", "difference", "low", "high")]
    return table.select(*strategy, "of", *own, "p", "n")
