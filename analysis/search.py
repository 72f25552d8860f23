"""The study of searches: the cells in which a model was found weakest, each confirmed on fresh questions.

tomserve search mymodel
tomserve analyze search-worlds-mymodel --study search
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from tomserve.reporting.html import charts
from tomserve.studies import Study, baselines
from tomserve.studies.answer_rows import REQUIRED, split_by
from tomserve.studies.presentation import (
    BAD,
    OPEN,
    Card,
    Context,
    Excerpt,
    Figure,
    Panel,
    Tables,
    Verdict,
    capitalize_first,
    cell_of,
    interval_cell,
    percent,
    several,
)
from tomserve.studies.study import accuracy_marks, frames_of, tables_by_model
from tomserve.studies.texts import Texts
from tomserve.weakness.design import find_design, parse_cell
from tomserve.weakness.estimate import Record, estimate_cells, estimate_surface, level_rows
from tomserve.weakness.rounds import CELL, PART, RANDOM, ROUND, SEARCH

TEXTS = Texts(__file__)


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """The tables: random questions as a whole, the cells, the rounds, and the surface over two factors."""
    kinds = baselines.RuleKinds.of(scores)
    rows = scores.sort("model", "strategy", "item").collect()
    own: dict[str, list[Record]] = {"cells": [], "surface": [], "rounds": []}
    for key, part in split_by(rows, _WHO):
        factors = find_design(str(key["benchmark"])).factors
        levels = level_rows(part, factors)
        found = estimate_cells(levels, factors, kinds.columns)
        own["cells"] += [{**key, **one, "finding": _finding(one)} for one in found]
        if found:
            surface = estimate_surface(levels, factors, parse_cell(found[0]["cell"]))
            own["surface"] += [{**key, **one} for one in surface]
        own["rounds"] += [{**key, **one} for one in _rounds(levels)]
    # While a search is not finished, those of its first round alone were drawn without a look at any answer.
    drawn = pl.col(PART) == RANDOM
    first = (pl.col(ROUND).cast(pl.Int64) == 0) & (pl.col(PART) == SEARCH)
    asked, _ = baselines.rows_with_rules(rows.filter(drawn | (first & ~drawn.any().over(_WHO))).lazy(), {})
    return frames_of({"accuracy": baselines.shares_by(asked, (), kinds, intervals, brief=False), **own})


def _finding(row: Mapping[str, Any]) -> str:
    """A cell in one sentence."""
    shares = f"{percent(row['confirmed'])} [{100 * row['ci_low']:.0f}, {100 * row['ci_high']:.0f}]"
    beside = f", against {percent(row['elsewhere'])} elsewhere" if row["elsewhere"] is not None else ""
    weaker = "is weaker, but no more than guesses explain," if row["diff_high"] < 0 else "is not clearly weaker"
    begins = "fails" if row["weak"] else weaker
    return f"{begins} {row['where']}: {shares}{beside}"


_WHO = ("benchmark", "model", "strategy")


def summary(tables: Tables) -> list[Excerpt]:
    """What the terminal prints: the cells and the rounds."""
    found = []
    if (frame := tables.get("cells", pl.DataFrame())).height:
        named = {"searched": "search", "elsewhere": "others", "best_rule_accuracy": "baseline", "twin": "twin"}
        search, *beside = (cell_of(name, short) for name, short in named.items())
        columns = (pl.col("cell"), search, interval_cell("confirmed", "ci_low", "ci_high", "fresh [95%]"), *beside)
        shown = frame.select(*several(frame, *_WHO), *columns)
        found.append(Excerpt("weakest cells, on fresh questions", shown, ("cells",)))
    if (frame := tables.get("rounds", pl.DataFrame())).height:
        shown = frame.select(*several(frame, *_WHO), "round", "questions", cell_of("accuracy"))
        found.append(Excerpt("rounds", shown, ("rounds",)))
    return found


def _rounds(rows: pl.DataFrame) -> Iterator[Record]:
    """How often each round of the search was answered right."""
    searched = rows.filter(pl.col(PART) == SEARCH)
    for key, part in split_by(searched, (ROUND,)):
        yield {**key, "questions": part.height, "accuracy": part["correct"].mean()}


def verdicts(tables: Tables, context: Context) -> Sequence[Verdict]:
    """For each model where it breaks."""
    found = []
    for model, own in tables_by_model(tables):
        rows = own["cells"].to_dicts() if "cells" in own else []
        weak = [row for row in rows if row["weak"]]
        more = len({row["cell"] for row in weak}) - 1  # which several strategies may fail
        said = weak[0]["finding"].removeprefix("fails ") if weak else "Nowhere clearly" if rows else "Not known yet"
        said = f"{capitalize_first(said)}{f'; and in {more} more' if more > 0 else ''}"
        grounds = tuple((row["strategy"], f"{row['finding']}; {_beside(row)}.") for row in rows)
        card = Card("Where does it break?", said, BAD if weak else OPEN, grounds, TEXTS["about"])
        lead = tuple(row["finding"] for row in weak) or (TEXTS["nothing"] if rows else TEXTS["unfinished"],)
        found.append(Verdict(model, lead, (card,), accuracy_marks(own["accuracy"])))
    return found


def _beside(row: Mapping[str, Any]) -> str:
    """What stands beside the accuracy of a cell."""
    parts = [f"{percent(row['searched'])} while it was searched"] if row["searched"] is not None else []
    if row["twin"] is not None:
        parts.append(f"{percent(row['twin'])} of their twins")
    if row["best_rule"] is not None:
        parts.append(f"the rule “{row['best_rule']}” has {percent(row['best_rule_accuracy'])}")
    if row["random_needed"] is not None:
        parts.append(f"random questions would have taken {row['random_needed']:,}, these were {row['asked']:,}")
    return "; ".join(parts)


def _draw_cells(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    shown = []
    for row in charts.rows_of(tables, "cells", "model where confirmed ci_low ci_high elsewhere searched"):
        name = str(row["where"]).removeprefix("where ")
        shown.append({**row, "row": name, "series": "confirmed", "value": row["confirmed"]})
        for series in ("elsewhere", "searched"):
            shown.append({**row, "row": name, "series": series, "value": row[series], "ci_low": None, "ci_high": None})
    axis = charts.Axis("share right", (0.0, 1.0))
    return charts.small_multiples(figure, shown, ("row", "series", "value", "ci_low", "ci_high"), axis)


def _draw_surface(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    panels: list[Panel] = []
    needed = "model strategy factor level other other_level expected questions"
    rows = charts.rows_of(tables, "surface", needed)
    for model in charts.values_of(rows, "model"):
        own = [row for row in rows if row["model"] == model]
        cells = [
            charts.Cell(
                str(row["level"]),
                str(row["other_level"]),
                float(str(row["expected"])),
                f"{row['level']}, {row['other_level']}: {percent(row['expected'])} of {row['questions']} questions",
            )
            for row in own
        ]
        title = f"{model}: {own[0]['factor']} by {own[0]['other']}"
        names = (sorted({cell.row for cell in cells}), sorted({cell.column for cell in cells}))
        chart = charts.heat_map(cells, *names, title)
        panels.append(charts.panel(figure, title, chart, [cell.words for cell in cells]))
    return replace(figure, panels=tuple(panels))


MAKERS: Mapping[str, charts.Draw] = {"search-cells": _draw_cells, "search-surface": _draw_surface}

STUDY = Study(
    name="search",
    tables=tables,
    required=(*REQUIRED, "benchmark", PART, ROUND, CELL),
    intervals=("recommended",),
    notes=TEXTS.notes,
    warnings=baselines.missing_warnings,
    summary=summary,
    verdicts=verdicts,
    figures=partial(charts.draw_figures, TEXTS.figure, MAKERS),
    labels={CELL: "cell", PART: "part of the search"},
)
