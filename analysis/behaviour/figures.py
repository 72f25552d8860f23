"""The report's figures of behaviour: B by benchmark, and shares corrected for chance by dimension of mind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tomserve.reporting.html.panels import Axis, drawn, rows_of, small_multiples, zero_line
from tomserve.studies import Context, Figure, Section
from tomserve.studies.showing import Row, Tables
from tomserve.studies.tasks import is_mean
from tomserve.studies.words import finite, readable

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

STRATEGIES = Figure(
    "behaviour-strategies",
    "What a way of asking changes",
    SECTION,
    "Each point is a strategy's share right minus that of the strategy that asks for the answer alone, on the same "
    "questions of one type of task, each line its 95% interval over stories or templates. Right of the line at zero "
    "more is right. Many tests stand here, which are not adjusted for that.",
    ("prompting_effects",),
)


def figures(tables: Tables, context: Context) -> Sequence[Figure]:
    """The figures of B by benchmark, of shares by dimension and, where strategies can be compared, of their effects.

    tables: by name. context: what a guesser scores, for which all shares are corrected already.
    """
    del context
    made = [drawn(BENCHMARKS, lambda: _benchmarks(tables)), drawn(DIMENSIONS, lambda: _dimensions(tables))]
    return [*made, *([drawn(STRATEGIES, lambda: _strategies(tables))] if "prompting_effects" in tables else [])]


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


def _strategies(tables: Tables) -> Figure:
    names = "model benchmark task dimension treatment risk_difference rd_low rd_high"
    rows = rows_of(tables, "prompting_effects", names)
    told = [name for name in ("task", "dimension", "benchmark") if len({row[name] for row in rows}) > 1] or ["task"]
    data: list[Row] = [{**row, "row": ", ".join(readable(row[name]) for name in told)} for row in rows]
    axis = Axis("difference", (-1, 1), zero_line, first=1)
    only = {readable(row["treatment"]) for row in rows}  # with several, a legend names them
    figure = replace(STRATEGIES, title=f"{STRATEGIES.title}: {only.pop()}") if len(only) == 1 else STRATEGIES
    return small_multiples(figure, data, ("row", "treatment", "risk_difference", "rd_low", "rd_high"), axis)


def _greater(row: Row, *names: str) -> float | None:
    return max((value for name in names if (value := finite(row.get(name))) is not None), default=None)


def _corrected(share: float | None, row: Row) -> float | None:
    chance = finite(row.get("chance"))
    return (
        None if share is None or chance is None or chance >= 1 else min(1.0, max(0.0, (share - chance) / (1 - chance)))
    )
