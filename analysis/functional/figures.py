"""The report's figures: the layers side by side, by dimension, variant and layer of the network, and the weights."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from tomserve.causal.table import CONTROLS, PATCH, PPT
from tomserve.reporting.drawing import INK, Letters, Part, marker
from tomserve.reporting.html.charts import (
    AbsentError,
    Axis,
    Draw,
    Freehand,
    Line,
    Picture,
    Point,
    keys_of,
    panel,
    point_of,
    points,
    rows_of,
    short_names,
    small_multiples,
    values_of,
)
from tomserve.studies import Figure, Panel
from tomserve.studies.presentation import Row, Tables, finite_or_none, readable_name

# Each part with the titles of its panel and of its axis
PARTS = {
    "b": ("behaviour B", "corrected for chance"),
    "c": ("mechanism C", "share of the ceiling"),
    "s": ("stability S", "answered alike"),
    "ftom": ("FToM", "weighted sum of B, C and S"),
    "ftom_bs": ("FToM_BS", "B and S, no mechanism"),
}
UNCOUNTED = "measured, not counted"  # the series of a C that its verdict does not let count
MOST_LAYERS = 24  # so many layers of a network are drawn; of more, these are spread evenly
STEP = 24  # the triangle is drawn with so many points to a side


def _layers(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    """A panel for each part, with a row for each model."""
    rows = rows_of(tables, "score", "model b c s ftom ftom_bs c_measured")
    names = short_names(values_of(rows, "model"))
    panels: list[Panel] = []
    for place, (part, (title, axis)) in enumerate(PARTS.items()):
        counted = [point_of(row, names[str(row["model"])], title, part) for row in rows]
        others = [point_of(row, names[str(row["model"])], UNCOUNTED, "c_measured") for row in rows
                  if part == "c" and finite_or_none(row["c"]) is None]  # fmt: skip
        if marks := [mark for mark in (*counted, *others) if mark is not None]:
            series = list(dict.fromkeys(mark.series for mark in marks))
            chart = points(marks, list(names.values()), series, (0.0, 1.0), [], axis, first=place, grey=UNCOUNTED)
            panels.append(panel(figure, title, chart, map(Point.in_words, marks)))
    return replace(figure, panels=tuple(panels))


def _dimensions(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    rows = rows_of(tables, "by_dimension", "model strategy dimension benchmark corrected")
    several = len({row["benchmark"] for row in rows}) > 1
    parts = [
        {**row, "subset": row["benchmark"] if several else ""}
        for row in rows
        if finite_or_none(row["corrected"]) is not None
    ]
    columns = ("dimension", "strategy", "corrected", "corrected_low", "corrected_high")
    return small_multiples(figure, parts, columns, Axis("corrected for chance", (0.0, 1.0)))


def _variants(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    rows = rows_of(tables, "by_variant", "model strategy variant short s s_low s_high")
    kinds = [{**row, "variant": f"{row['short']} {row['variant']}", "subset": row["benchmark"]} for row in rows
             if not str(row["short"]).startswith("T1-")]  # fmt: skip
    one = len({row["benchmark"] for row in rows}) == 1
    shown = [{**row, "subset": ""} if one else row for row in kinds]
    columns = ("variant", "strategy", "s", "s_low", "s_high")
    return small_multiples(figure, shown, columns, Axis("answered alike", (0.0, 1.0)))


def _network(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    rows = rows_of(tables, "by_layer", "model benchmark map layer net net_low net_high")
    names = short_names(values_of(rows, "model"))
    series = [readable_name(PPT), "largest control", readable_name(PATCH)]
    panels: list[Panel] = []
    for model, short in names.items():
        own = [row for row in rows if row["model"] == model]
        for benchmark in values_of(own, "benchmark"):
            part = [row for row in own if row["benchmark"] == benchmark]
            every = sorted({int(str(row["layer"])) for row in part})
            kept = [every[k] for k in np.unique(np.linspace(0, len(every) - 1, MOST_LAYERS).round().astype(int))]
            marks = [mark for layer in kept for mark in _at(part, layer, series)]
            lowest = min([-0.1, *(mark.value for mark in marks)])
            chart = points(marks, [f"layer {layer}" for layer in kept], series, (max(-1.0, lowest), 1.0), [Line(0, "")],
                           "net effect", width=330)  # fmt: skip
            title = f"{short}, {readable_name(benchmark)}"
            panels.append(panel(figure, title, chart, map(Point.in_words, marks)))
    return replace(figure, panels=tuple(panels))


def _at(rows: Sequence[Row], layer: int, series: Sequence[str]) -> list[Point]:
    """The map, the largest control and the patch in one layer."""
    here = {str(row["map"]): row for row in rows if row["layer"] == layer}
    controls = [row for name, row in here.items() if name in CONTROLS and finite_or_none(row["net"]) is not None]
    largest = max(controls, key=lambda row: finite_or_none(row["net"]) or 0.0, default=None)
    drawn = zip(series, (here.get(PPT), largest, here.get(PATCH)), strict=True)
    marks = (point_of(row, f"layer {layer}", name, "net") for name, row in drawn if row is not None)
    return [mark for mark in marks if mark is not None]


def _weights(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    """The triangle of weights; each point has the colour and the shape of the model that is first there."""
    ranked = {str(row["model"]) for row in tables.get("ranking", pl.DataFrame()).to_dicts() if row["score"] == "ftom"}
    needed = "model b c s w_b w_c w_s"
    rows = [row for row in rows_of(tables, "score", needed) if str(row["model"]) in ranked]
    if len(rows) < 2:
        raise AbsentError("fewer than two models have all three layers and can be compared")
    names = short_names([str(row["model"]) for row in rows])
    parts = np.array([[finite_or_none(row[name]) or 0.0 for name in "bcs"] for row in rows])
    data = []
    for i in range(STEP + 1):
        for j in range(STEP + 1 - i):
            weights = np.array([STEP - i - j, i, j]) / STEP
            first = list(names.values())[int((parts @ weights).argmax())]
            data.append({**_place(weights.tolist()), "first": first})
    said = {name: sum(row["first"] == name for row in data) for name in names.values()}
    of_formula = [float(str(rows[0][f"w_{name}"])) for name in "bcs"]
    chart = _triangle(data, [name for name, count in said.items() if count], of_formula)
    label = f"{figure.title}. " + "; ".join(f"{name} is first at {count} of {len(data)} points"
                                             for name, count in said.items()) + "."  # fmt: skip
    told = ", ".join(np.format_float_positional(w, unique=True, min_digits=1).removeprefix("0") for w in of_formula)
    caption = figure.caption.replace("those of the formula", f"those of the formula ({told})")
    return replace(figure, caption=caption, panels=(Panel("weights", Picture(chart, label)),))


def _place(weights: Sequence[float]) -> Mapping[str, float]:
    """Where weights of B, C and S lie in the triangle."""
    _, c, s = weights
    return {"x": s + c / 2, "y": c}


def _triangle(data: Sequence[Mapping[str, Any]], series: Sequence[str], cross_at: Sequence[float]) -> Freehand:
    """The chart. data: the points with the model that is first. cross_at: the formula's weights of B, C and S."""
    width, height = 360.0, 312.0
    keys = keys_of(series)
    own = {key.name: key for key in keys}

    def place(at: Mapping[str, Any]) -> tuple[float, float]:
        return width * (at["x"] + 0.1) / 1.2, height * (1.1 - at["y"]) / 1.22

    parts: list[Part] = []
    for row in data:
        key = own[row["first"]]
        parts.append(marker(key.shape, place(row), 46, key.colour, 0.9))
    for size, colour in ((270, "#ffffff"), (170, INK)):
        parts.append(marker("cross", place(_place(cross_at)), size, colour))
    for name, weights, shift in (
        ("behaviour", (1, 0, 0), 18),
        ("mechanism", (0, 1, 0), -10),
        ("stability", (0, 0, 1), 18),
    ):
        x, y = place(_place(weights))
        parts.append(Letters((x, y + shift), name, "middle"))
    return Freehand(tuple(parts), width, height, tuple(keys))


MAKERS: Mapping[str, Draw] = {
    "functional-layers": _layers,
    "functional-weights": _weights,
    "functional-dimensions": _dimensions,
    "functional-variants": _variants,
    "functional-network": _network,
}
