"""Draws the two kinds of picture that a report has: heat maps, and points with intervals on a fixed axis.

A study's figures are made of them, with the panels of tomserve.reporting.html.panels around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tomserve.reporting.html.svg import GRID, INK, MUTED, PALETTE, SHAPES
from tomserve.reporting.html.vegalite import Spec, field, layer, layered

CELL_LIGHT, CELL_DARK = "#10151c", "#ffffff"
BLUES = ["#f3f7fc", "#c9dcee", "#86b4d8", "#3d80b6", "#08417c"]
"""The colours of shares in a heat map, from light for 0 to dark for 1."""
LOSS_GAIN = ["#b35806", "#e08b34", "#f9d0a0", "#f6f6f6", "#c3c5e3", "#8073ac", "#4b2d82"]
"""The colours of differences in a heat map, from orange for a loss to violet for a gain."""


@dataclass(frozen=True, slots=True)
class Point:
    """One mark: its row and series, its value with the ends of its interval (None where there is none), and `other`, a
    second value that is drawn as an upright stroke."""

    row: str
    series: str
    value: float
    low: float | None
    high: float | None
    other: float | None = None

    def in_words(self) -> str:
        """The point as a text alternative says it."""
        interval = "" if self.low is None or self.high is None else f" [{self.low:.2f}, {self.high:.2f}]"
        stroke = "" if self.other is None else f", upright stroke at {self.other:.2f}"
        return f"{self.row}, {self.series}: {self.value:.2f}{interval}{stroke}"


@dataclass(frozen=True, slots=True)
class Line:
    """A vertical line of reference with its name; `left`: the name stands left of it."""

    at: float
    name: str
    dash: tuple[int, int] = (0, 0)
    left: bool = False


def points(
    marks: Sequence[Point],
    rows: Sequence[str],
    series: Sequence[str],
    domain: tuple[float, float],
    lines: Sequence[Line],
    axis: str,
    *,
    width: int = 250,
    first: int = 0,
) -> Spec:
    """A chart of points with their intervals, each in the row and the colour that it names.

    marks: the points; whatever lies beyond the axis is drawn at its end. rows: the names of the rows from top to
    bottom. series: the names of the series, which differ in colour and shape. domain: the ends of the axis. lines:
    vertical lines of reference. axis: the title of the axis. width: of the axis, in pixels. first: the place of the
    first series among colours and shapes, so that a strategy looks the same in every figure.
    """
    low, high = domain
    data = [
        {
            "row": mark.row,
            "series": mark.series,
            "value": min(max(mark.value, low), high),
            "low": None if mark.low is None else min(max(mark.low, low), high),
            "high": None if mark.high is None else min(max(mark.high, low), high),
            "other": mark.other,
            "words": mark.in_words(),
        }
        for mark in marks
    ]
    several = len(series) > 1
    ends = {"domain": list(domain), "nice": False}
    x = field("value:Q", scale=ends, title=axis, axis={"tickCount": 5, "format": ".1f", "gridOpacity": 0.7})
    lines_of_rows = {"domain": False, "ticks": False, "labelPadding": 8, "grid": True, "gridOpacity": 0.45}
    base = {"y": field("row:N", sort=None, scale={"domain": list(rows)}, title=None,
                       axis={**lines_of_rows, "tickBand": "extent"})}  # fmt: skip
    if several:
        base["yOffset"] = field("series:N", sort=list(series), scale={"paddingOuter": 0.35})
    key = {"title": None, "orient": "bottom", "columns": 4, "columnPadding": 14, "offset": 6} if several else None
    scale = {"domain": list(series), "range": list(PALETTE[first:])}
    base["color"] = field("series:N", scale=scale, sort=None, legend=key)
    shape = field("series:N", scale={**scale, "range": list(SHAPES[first:])}, sort=None, legend=key)
    words = {"description": field("words:N")}
    layers: list[Spec] = []
    if any(mark.other is not None for mark in marks):
        layers.append(layer("tick", data, {**base, "x": field("other:Q")}, thickness=2, size=13, opacity=1))
    for line in lines:
        named, at = [{"at": line.at, "name": line.name}], {"x": field("at:Q")}
        colour = INK if line.dash == (0, 0) else MUTED
        layers.append(layer("rule", named, at, color=colour, strokeDash=list(line.dash), size=1.2))
        if line.name:
            side = {"align": "right", "dx": 2} if line.left else {"align": "left", "dx": -2}
            text = {**at, "y": {"value": 0}, "text": field("name:N")}
            layers.append(layer("text", named, text, baseline="bottom", dy=-3, fontSize=11, color=MUTED, **side))
    interval = {**base, **words, "x": field("low:Q"), "x2": {"field": "high"}}
    layers.append(layer("rule", data, interval, strokeWidth=2))
    layers.append(layer("point", data, {**base, **words, "x": x, "shape": shape}, filled=True, size=62, opacity=1))
    return layered(layers, width, {"step": max(22, 11 * len(series) + 4), "for": "position"})


@dataclass(frozen=True, slots=True)
class Cell:
    """One field of a heat map: its row and column, its value, and the same in words for readers who cannot see it."""

    row: str
    column: str
    value: float
    words: str


def heat(
    cells: Sequence[Cell],
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    *,
    difference: float | None = None,
    chance: float | None = None,
    names: bool = True,
) -> Spec:
    """A heat map whose fields show their numbers.

    cells: the fields. rows, columns: their names in order. title: stands above the map. difference: the largest
    absolute difference that the colours tell apart; None for a map of shares from 0 to 1. chance: a guesser's share,
    marked on the scale of colours where it is not close to one half. names: whether the rows are named (only the
    leftmost of several maps side by side needs to).
    """
    scale: Spec = (
        {"domain": [0, 1], "range": BLUES, "clamp": True}
        if difference is None
        else {"domain": [-difference, difference], "range": LOSS_GAIN}
    )
    marks = [0.0, 0.5, 1.0] if difference is None else [-difference, 0.0, difference]
    step = {1: 92, 2: 74, 3: 64}.get(len(columns), 46)
    length = max(110, step * len(columns))
    if chance is not None and difference is None and abs(chance - 0.5) > 0.05:
        close = abs(chance - 0.5) * length < 34  # pixels that two numbers need beside each other
        marks = [0.0, chance, 1.0] if close else sorted([*marks, chance])
    dark = [_is_dark(cell.value, difference) for cell in cells]
    data = [
        {
            "row": cell.row,
            "column": cell.column,
            "value": cell.value,
            "words": cell.words,
            "text": f"{round(cell.value, 2) + 0.0:{'.2f' if difference is None else '+.2f'}}".replace("-", "−"),
            "ink": CELL_DARK if is_dark else CELL_LIGHT,
        }
        for cell, is_dark in zip(cells, dark, strict=True)
    ]
    turned = any(8 * len(column) > step for column in columns)
    legend = {"title": None, "orient": "bottom", "direction": "horizontal", "values": marks, "format": ".2~f",
              "gradientThickness": 9, "gradientLength": length, "offset": 8}  # fmt: skip
    down = {"domain": False, "ticks": False, "labelPadding": 6} if names else None
    above = {"orient": "top", "domain": False, "ticks": False, "labelPadding": 5, "labelAngle": -40 if turned else 0}
    above["labels"] = len(columns) > 1
    base = {
        "y": field("row:N", sort=None, scale={"domain": list(rows)}, title=None, axis=down),
        "x": field("column:N", sort=None, scale={"domain": list(columns)}, title=None, axis=above),
    }
    colour = {"color": field("value:Q", scale=scale, legend=legend), "description": field("words:N")}
    fields = layer("rect", data, {**base, **colour}, stroke=GRID, strokeWidth=1)
    numbers = [
        layer("text", [row for row in data if row["ink"] == ink], {**base, "text": field("text:N")}, fontSize=12,
              color=ink)
        for ink in (CELL_LIGHT, CELL_DARK)
    ]  # fmt: skip
    heading = {"text": title, "anchor": "middle", "fontSize": 13, "offset": 8}
    return layered([fields, *numbers], {"step": step}, {"step": 25}, title=heading)


def _is_dark(value: float, difference: float | None) -> bool:
    """Whether white reads better than black on the colour of a cell (by the luminance of the two palettes)."""
    if difference is None:
        return value > 0.78
    return value > 0.72 * difference or value < -0.93 * difference


def side_by_side(maps: Sequence[Spec]) -> Spec:
    """Heat maps side by side, each with its own colours."""
    apart = {"scale": {"color": "independent", "y": "independent"}}
    return {"hconcat": list(maps), "spacing": 22, "resolve": apart}
