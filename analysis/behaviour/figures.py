"""The report's figures of behaviour: B by benchmark, and shares corrected for chance by dimension of mind."""

from __future__ import annotations

from collections.abc import Sequence

from tomserve.reporting.html.panels import Axis, drawn, rows_of, small_multiples
from tomserve.studies import Context, Figure, Section
from tomserve.studies.showing import Row, Tables
from tomserve.studies.words import finite

from .rows import is_mean

SECTION = Section("behaviour", "Across benchmarks", "Across benchmarks")
BENCHMARKS = Figure(
    "behaviour",
    "B by benchmark",
    SECTION,
    "Each point is B: the mean over types of task of the share right, corrected for chance, so that 0 is a guesser "
    "and 1 somebody who is always right; each line is its 95% interval over stories or templates. The upright stroke "
    "is the B of the best rule that follows nobody's mind, chosen on the same questions: what does not lie right of "
    "it shows nothing that the rule could not do. The last row counts every benchmark once.",
    ("behaviour", "human_figures"),
)
DIMENSIONS = Figure(
    "behaviour-dimensions",
    "By dimension of mind",
    SECTION,
    "Each point is the share right of the questions about one dimension in one benchmark, corrected for chance, each "
    "line its 95% interval over stories or templates. What questions about the world need is memory, and nobody's "
    "mind. The upright stroke is what the best simple rule has right, corrected in the same way.",
    ("dimensions",),
)


def figures(tables: Tables, context: Context) -> Sequence[Figure]:
    """The figures of B by benchmark and of shares by dimension.

    tables: by name. context: what a guesser scores, for which all shares are corrected already.
    """
    del context
    return [drawn(BENCHMARKS, lambda: _benchmarks(tables)), drawn(DIMENSIONS, lambda: _dimensions(tables))]


def _benchmarks(tables: Tables) -> Figure:
    rows = rows_of(tables, "behaviour", "model strategy benchmark b b_low b_high constant_b surface_b")
    data: list[Row] = [{**row, "other": _greater(row, "constant_b", "surface_b")} for row in rows]
    columns = ("benchmark", "strategy", "b", "b_low", "b_high")
    return small_multiples(BENCHMARKS, data, columns, Axis("B, corrected for chance", (0, 1)))


def _dimensions(tables: Tables) -> Figure:
    rows = rows_of(tables, "dimensions", "model strategy benchmark dimension corrected corrected_low corrected_high")
    single = [row for row in rows if not is_mean(row["benchmark"])]
    several = len({row["benchmark"] for row in single}) > 1
    data: list[Row] = []
    for row in single:
        name = f"{row['dimension']}, {row['benchmark']}" if several else row["dimension"]
        data.append({**row, "row": name, "other": _corrected(_greater(row, "constant", "surface"), row)})
    columns = ("row", "strategy", "corrected", "corrected_low", "corrected_high")
    return small_multiples(DIMENSIONS, data, columns, Axis("share right, corrected for chance", (0, 1)))


def _greater(row: Row, *names: str) -> float | None:
    return max((value for name in names if (value := finite(row.get(name))) is not None), default=None)


def _corrected(share: float | None, row: Row) -> float | None:
    chance = finite(row.get("chance"))
    return (
        None if share is None or chance is None or chance >= 1 else min(1.0, max(0.0, (share - chance) / (1 - chance)))
    )
