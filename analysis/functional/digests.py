"""The table `inputs`: each run with what it holds, and a digest of whatever in it decides a number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from tomserve.causal.table import SCHEMA
from tomserve.content import digest
from tomserve.scoring.score import PEOPLE
from tomserve.studies import baselines, pairs, tasks
from tomserve.studies.contrasts import Record
from tomserve.studies.rows import with_columns

ITEMS = "items"
"""What stands for the benchmark where a table names none."""
ANSWERS, MEASUREMENT, ASKED_PEOPLE = "answers", "measurement", "people"
"""What a run holds."""
READ = tuple(dict.fromkeys((*tasks.READ, *pairs.READ, *PEOPLE, "run")))
"""The columns of answers that decide B or S; the columns of rules, which stand beside them, are digested as well."""


def benchmark_of(frame: pl.DataFrame) -> pl.Expr:
    """The benchmark of each row, ITEMS where none is named."""
    return pl.col("benchmark").fill_null(ITEMS) if "benchmark" in frame.columns else pl.lit(ITEMS)


def inputs(
    answers: pl.DataFrame,
    moved: pl.DataFrame,
    people: pl.DataFrame,
    plain: Mapping[tuple[str, str], str],
    known: Mapping[str, str],
) -> Iterator[Record]:
    """The rows of the table.

    answers, moved, people: of models, of measurements, and of people. plain: the strategy that is counted, by model
    and benchmark. known: the benchmark whose measurement is counted, by model.
    """
    for frame, what in ((answers, ANSWERS), (moved, MEASUREMENT), (people, ASKED_PEOPLE)):
        if not frame.height:
            continue
        run = pl.col("run").fill_null("") if "run" in frame.columns else pl.lit("")
        told = frame.with_columns(run=run, benchmark=benchmark_of(frame))
        keys = ("model", "run", "benchmark")
        for key, part in told.sort(keys, maintain_order=True).group_by(keys, maintain_order=True):
            model, _, benchmark = map(str, key)
            held = [*part["asked_by" if what == MEASUREMENT else "strategy"].drop_nulls().unique().sort()]
            asked = ", ".join(held) or None
            strategy = asked
            used = what == ASKED_PEOPLE or known.get(model) in (benchmark, "")
            if what == ANSWERS:
                strategy = plain.get((model, benchmark)) if plain.get((model, benchmark)) in held else None
                used = strategy is not None
            yield {
                **dict(zip(keys, map(str, key), strict=True)),
                **{"holds": what, "strategy": strategy, "asked": asked, "counted": used, "rows": part.height},
                "scenarios": part["cluster"].drop_nulls().n_unique() if "cluster" in part.columns else None,
                "digest": _digest(part, what),
            }


def _digest(part: pl.DataFrame, what: str) -> str:
    """A digest of the columns that are read, which neither the order of the rows changes nor what a table was combined
    with: a column that is empty throughout counts as one that is not there."""
    if what == MEASUREMENT:
        names: tuple[str, ...] = tuple(SCHEMA)
    else:
        names = (*READ, *baselines.Kinds.of(part.lazy()).columns)
        typed = {name: kind for name, kind in {**tasks.FACTORS, **pairs.OWN}.items() if name in part.columns}
        part = with_columns(part.lazy(), typed).collect()
    there = [name for name in names if name in part.columns and part[name].null_count() < part.height]
    kept = part.select(_text(part, name) for name in there)
    return digest(kept.sort(there).write_csv().encode())


def _text(part: pl.DataFrame, name: str) -> pl.Expr:
    if isinstance(part.schema[name], pl.List):
        return pl.col(name).list.eval(pl.element().cast(pl.String)).list.join(",", ignore_nulls=False)
    return pl.col(name).cast(pl.String)
