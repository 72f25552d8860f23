"""Charts of a report as static SVG, drawn by Vega-Lite: heat maps, points with intervals, and a panel for each model.

What Vega draws is parsed again, and only known elements and attributes are kept. One thread draws while others go on
computing. A specification is a plain mapping (https://vega.github.io/vega-lite/docs/), which altair writes as well.
"""

from __future__ import annotations

import dataclasses
import os
import re
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any, Protocol

from markupsafe import Markup

from tomserve.errors import ConfigError
from tomserve.studies.answer_rows import BASELINE
from tomserve.studies.presentation import Figure, Panel, Row, Tables, finite_or_none, one_line, readable_name

INK, MUTED, GRID = "#1c2430", "#5b6675", "#d9dee5"
# Okabe and Ito's colours, told apart by the colour-blind; shapes say the same once more
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#785ef0")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")

# Called with every chart before it is drawn. Tests hold it against the schema of Vega-Lite here, which takes as long
# as to draw it; nothing that a run holds decides what a chart is made of, so that users need not wait for that.
CHECK: Callable[[dict[str, Any]], object] | None = None

SVG = "http://www.w3.org/2000/svg"
_ELEMENTS = frozenset(("svg", "g", "path", "rect", "line", "text", "defs", "clipPath", "linearGradient", "stop"))
_ATTRIBUTES = frozenset(
    (
        *("width", "height", "viewBox", "transform", "d", "x", "y", "x1", "x2", "y1", "y2", "id", "offset"),
        *("fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-miterlimit"),
        *("opacity", "text-anchor", "font-size", "font-weight", "font-style", "clip-path", "display", "pointer-events"),
        *("stop-color", "gradientUnits", "class"),
    )
)
_LABEL = {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
CONFIG: dict[str, Any] = {
    "background": "transparent",
    "font": "sans-serif",
    "padding": {"left": 22, "top": 4, "right": 14, "bottom": 4},
    "view": {"stroke": None, "continuousWidth": 300, "continuousHeight": 300},
    "axis": {**_LABEL, "gridColor": GRID, "domainColor": MUTED, "tickColor": MUTED, "labelLimit": 230},
    "legend": {**_LABEL, "labelLimit": 230, "symbolSize": 70, "symbolStrokeWidth": 0},
    "title": {"color": INK, "fontSize": 13, "fontWeight": "bold", "anchor": "start"},
    "text": {"color": INK},
    "rule": {"color": MUTED},
}


class Chart(Protocol):
    """A chart of altair, or anything else that can be written as a specification of Vega-Lite."""

    def to_dict(self) -> dict[str, Any]:
        """The specification."""


class Drawing:
    """A picture that may still be being drawn; whoever asks for its HTML waits for it."""

    def __init__(self, specification: Mapping[str, Any], label: str, prefix: str) -> None:
        self.specification = {**specification}
        """The chart in the language of Vega-Lite, for who draws it elsewhere."""
        self._text = _queue_drawing({**specification})
        self._label, self._prefix = label, prefix
        self._drawn: Markup | None = None

    def __html__(self) -> Markup:
        """The picture as an <svg role="img">. Raises ConfigError for a chart that Vega cannot draw."""
        if self._drawn is None:
            try:
                text = self._text.result()
            except ValueError as error:
                said = re.search(r"Error: (.+)", str(error))  # above and below it is where in Vega that was
                why = said[1] if said is not None else " ".join(str(error).split())
                raise ConfigError(f"the figure {self._prefix} cannot be drawn: {why}") from None
            self._drawn = _picture(text, self._label, self._prefix)
        return self._drawn

    def __str__(self) -> str:
        return str(self.__html__())


def draw(chart: Mapping[str, Any] | Chart, label: str, prefix: str) -> Drawing:
    """The chart, a specification of Vega-Lite or a chart of altair, as a picture with that text alternative. prefix:
    begins the ids of its parts, so that they are unique in a page; the name of the figure and a number will do. A chart
    of altair is checked and drawn at once, so that a mistake in it is told where it was made."""
    specification = chart if isinstance(chart, Mapping) else chart.to_dict()
    if CHECK is not None:
        CHECK({**specification})
    drawing = Drawing(specification, label, prefix)
    if not isinstance(chart, Mapping):
        drawing.__html__()
    return drawing


def start_drawing() -> None:
    """Start what draws, which takes it most of a second, while the caller has other things to do."""
    _queue_drawing({"mark": "point", "data": {"values": []}})


class _DrawingThread:
    """The thread that draws. It ends with the program, also in the middle of a picture."""

    def __init__(self) -> None:
        self.orders: SimpleQueue[tuple[Future[str], dict[str, Any]]] = SimpleQueue()
        self.process = os.getpid()
        threading.Thread(target=self._work, name="drawing", daemon=True).start()

    def _work(self) -> None:
        import vl_convert  # a study is loaded, and prints its tables, without what draws

        while True:
            drawn, specification = self.orders.get()
            try:
                drawn.set_result(vl_convert.vegalite_to_svg(specification, config=CONFIG, allowed_base_urls=[]))
            except BaseException as error:  # whoever waits for the picture is told
                drawn.set_exception(error)


_drawing_thread: _DrawingThread | None = None


def _queue_drawing(specification: dict[str, Any]) -> Future[str]:
    """What Vega will have drawn. A process that was forked has none of its parent's threads and gets its own."""
    global _drawing_thread
    if _drawing_thread is None or _drawing_thread.process != os.getpid():
        _drawing_thread = _DrawingThread()
    drawn: Future[str] = Future()
    _drawing_thread.orders.put((drawn, specification))
    return drawn


def _picture(text: str, label: str, prefix: str) -> Markup:
    """What Vega drew, with nothing but what may stand in a page."""
    root = _safe_copy(ElementTree.fromstring(text))
    assert root is not None
    rename_ids(root, prefix)
    root.set("role", "img")
    root.set("aria-label", label)
    root.set("xmlns", SVG)
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _safe_copy(element: ElementTree.Element) -> ElementTree.Element | None:
    """A copy of the element without parts that are not known, not visible or empty; None where nothing is left."""
    name = element.tag.removeprefix(f"{{{SVG}}}")
    if name not in _ELEMENTS or element.get("display") == "none":
        return None
    kept = ElementTree.Element(name, {key: value for key, value in element.items() if key in _ATTRIBUTES})
    if name != "svg":
        kept.attrib.pop("class", None)
    if name == "text":
        kept.text = element.text
    elif kept.get("d") == "" or (kept.get("d", "").startswith("M0,0h0v0h0Z")):
        return None
    if (note := element.get("aria-label")) and "graphics-symbol" in element.get("role", "") and name != "g":
        title = ElementTree.SubElement(kept, "title")
        title.text = note
    kept.extend(child for inner in element if (child := _safe_copy(inner)) is not None)
    if name in ("g", "defs") and not len(kept):
        return None
    return kept


def rename_ids(root: ElementTree.Element, prefix: str) -> None:
    """Give all parts ids that are unique in the page and the same each time; Vega's own count up through the
    process."""
    named = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
    names = {old: f"{prefix}-{place}" for place, old in enumerate(named)}
    for element in root.iter():
        for key, value in element.attrib.items():
            if key == "id":
                element.set(key, names[value])
            elif found := re.fullmatch(r"url\(#(.+)\)", value):
                element.set(key, f"url(#{names[found[1]]})")


Spec = dict[str, Any]  # a specification of a chart, or a part of one

_TYPES = {"Q": "quantitative", "N": "nominal"}


def field(name: str, **more: Any) -> Spec:
    """A column and what is done with it, such as its axis, scale or legend. name: of the column and, behind a colon,
    its type: Q for numbers, N for names."""
    column, _, kind = name.partition(":")
    return {"field": column, "type": _TYPES[kind], **more}


def layer(mark: str, rows: Iterable[Mapping[str, Any]], encoding: Mapping[str, Spec], **style: Any) -> Spec:
    """Marks of one kind, one for each row of data, with the columns that decide where they are and how they look."""
    return {"mark": {"type": mark, **style}, "data": {"values": [dict(row) for row in rows]}, "encoding": {**encoding}}


def layer_chart(layers: Iterable[Spec], width: int | Spec, height: int | Spec, **more: Any) -> Spec:
    """A chart of layers, from the lowest to the topmost, of that size in pixels or in steps."""
    return {"layer": list(layers), "width": width, "height": height, **more}


CELL_LIGHT, CELL_DARK = "#10151c", "#ffffff"
# The colours of shares in a heat map, from light for 0 to dark for 1
BLUES = ["#f3f7fc", "#c9dcee", "#86b4d8", "#3d80b6", "#08417c"]
# The colours of differences in a heat map, from orange for a loss to violet for a gain
LOSS_GAIN = ["#b35806", "#e08b34", "#f9d0a0", "#f6f6f6", "#c3c5e3", "#8073ac", "#4b2d82"]


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
    """A vertical line of reference with its name."""

    at: float
    name: str
    dash: tuple[int, int] = (0, 0)
    left: bool = False  # whether the name stands left of it


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
    grey: str = "",
) -> Spec:
    """A chart of points with their intervals, each in the row and the colour that it names. marks: the points; whatever
    lies beyond the axis is drawn at its end. rows: the names of the rows from top to bottom. series: the names of the
    series, which differ in colour and shape. domain: the ends of the axis. lines: vertical lines of reference. axis:
    the title of the axis. width: of the axis, in pixels. first: the place of the first series among colours and shapes,
    so that a strategy looks the same in every figure. grey: the series that is drawn without a colour."""
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
    scale = {"domain": list(series), "range": list(SHAPES[first:])}
    shape = field("series:N", scale=scale, sort=None, legend=key)
    colours = [MUTED if name == grey else colour for name, colour in zip(series, PALETTE[first:], strict=False)]
    colours += PALETTE[first + len(colours) :]
    base["color"] = field("series:N", scale={**scale, "range": colours}, sort=None, legend=key)
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
    return layer_chart(layers, width, {"step": max(22, 11 * len(series) + 4), "for": "position"})


@dataclass(frozen=True, slots=True)
class Cell:
    """One field of a heat map: its row and column, its value, and the same in words for readers who cannot see it."""

    row: str
    column: str
    value: float
    words: str


def heat_map(
    cells: Sequence[Cell],
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    *,
    difference: float | None = None,
    chance: float | None = None,
    names: bool = True,
) -> Spec:
    """A heat map whose fields show their numbers. cells: the fields. rows, columns: their names in order. title: stands
    above the map. difference: the largest absolute difference that the colours tell apart; None for a map of shares
    from 0 to 1. chance: a guesser's share, marked on the scale of colours where it is not close to one half. names:
    whether the rows are named (only the leftmost of several maps side by side needs to)."""
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
    return layer_chart([fields, *numbers], {"step": step}, {"step": 25}, title=heading)


def _is_dark(value: float, difference: float | None) -> bool:
    """Whether white reads better than black on the colour of a cell (by the luminance of the two palettes)."""
    if difference is None:
        return value > 0.78
    return value > 0.72 * difference or value < -0.93 * difference


def side_by_side(maps: Sequence[Spec]) -> Spec:
    """Heat maps side by side, each with its own colours."""
    apart = {"scale": {"color": "independent", "y": "independent"}}
    return {"hconcat": list(maps), "spacing": 22, "resolve": apart}


class AbsentError(Exception):
    """A table or a column that a figure needs is missing or empty; the message says which, as a reader of the report
    reads it."""


def rows_of(tables: Tables, name: str, needed: str, keys: str = "") -> list[Row]:
    """Rows of a table as mappings, the first for each combination of values of the columns `keys`. Raises AbsentError
    where the table is missing or empty, or lacks one of the columns `needed`."""
    frame = tables.get(name)
    if frame is None:
        raise AbsentError(f"this study has no table {name}")
    if absent := [column for column in needed.split() if column not in frame.columns]:
        raise AbsentError(f"the table {name} has no column {absent[0]}")
    if not frame.height:
        raise AbsentError(f"the table {name} is empty")
    return frame.unique(keys.split() or None, keep="first", maintain_order=True).to_dicts()


def values_of(rows: Sequence[Row], column: str) -> list[str]:
    """The values of a column, each once, as they come; of strategies the baseline first."""
    values = list(dict.fromkeys(str(row[column]) for row in rows))
    return sorted(values, key=lambda name: name != BASELINE) if column == "strategy" else values


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Each name as a chart shows it, at most 24 characters; two that would look alike get a number."""
    short: dict[str, str] = {}
    for name in names:
        text, number = one_line(name, 24), 2
        while text in short.values():
            text, number = f"{one_line(name, 20)} ({number})", number + 1
        short[name] = text
    return short


def draw_figure(figure: Figure, make: Callable[[], Figure]) -> Figure:
    """The figure that `make` draws, or where there is nothing to draw `figure` without pictures, with the reason."""
    try:
        made = make()
    except AbsentError as absent:
        return replace(figure, missing=f"Not drawn: {absent}.")
    return (
        made if made.panels or made.exhibits or made.missing else replace(made, missing="Not drawn: no defined values.")
    )


def panel(figure: Figure, title: str, chart: Spec, words: Iterable[str], place: int) -> Panel:
    """A panel of a figure, whose text alternative says every mark. words: of each mark (see Point.in_words). place:
    which panel of the figure it is."""
    label = f"{figure.title}: {title}. {'; '.join(words)}."
    return Panel(title, draw(chart, label, f"{figure.name}-{place}"))


def rows_by_arm(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """The rows of each model and benchmark under a title, which names the benchmark where there are several."""
    models, several = short_names(values_of(rows, "model")), len(values_of(rows, "benchmark")) > 1
    found = []
    for model, short in models.items():
        of_model = [row for row in rows if row["model"] == model]
        for benchmark in values_of(of_model, "benchmark"):
            title = f"{short}, {readable_name(benchmark)}" if several else short
            found.append((title, [row for row in of_model if str(row["benchmark"]) == benchmark]))
    return found


def _no_lines(part: str) -> Sequence[Line]:
    return ()


@dataclass(frozen=True, slots=True)
class Axis:
    """The axis that the panels of a figure share: its title, its ends, and lines of reference for a part of the
    questions."""

    title: str
    domain: tuple[float, float]
    lines: Callable[[str], Sequence[Line]] = dataclasses.field(default=_no_lines)
    first: int = 0  # the place of the first series among colours and shapes (see charts.points)


def small_multiples(
    figure: Figure,
    rows: Sequence[Row],
    columns: tuple[str, str, str, str, str],
    axis: Axis,
    parts: Mapping[str, str] | None = None,
) -> Figure:
    """The figure with a panel for each part of the questions (column `subset`) and each model: points with intervals.
    figure: its name, title and caption. rows: of a table. columns: the names of the columns that hold row, series,
    value, and the lower and upper end of the interval. axis: shared by all panels. parts: what readers call the parts.
    """
    panels: list[Panel] = []
    series = [readable_name(name) for name in values_of(rows, columns[1])]
    models = short_names(values_of(rows, "model"))
    width = 330 if len(models) == 1 else 250
    for part in list(dict.fromkeys(str(row.get("subset", "")) for row in rows)):
        for model, short in models.items():
            chosen = [row for row in rows if str(row.get("subset", "")) == part and row["model"] == model]
            marks = _points(chosen, *columns)
            names = [readable_name(name) for name in values_of(chosen, columns[0])]
            title = ", ".join(filter(None, (short, (parts or {}).get(part, readable_name(part)))))
            if marks:
                chart = points(marks, names, series, axis.domain, axis.lines(part), axis.title, width=width,
                               first=axis.first)  # fmt: skip
                panels.append(panel(figure, title, chart, map(Point.in_words, marks), len(panels)))
    return replace(figure, panels=tuple(panels))


def _points(rows: Sequence[Row], row: str, series: str, value: str, low: str, high: str) -> list[Point]:
    found = (point_of(one, readable_name(one[row]), readable_name(one[series]), value, (low, high)) for one in rows)
    return [point for point in found if point is not None]


def point_of(row: Row, name: str, series: str, value: str, ends: tuple[str, str] | None = None) -> Point | None:
    """The mark of a row of a table, in that row and series of the chart; None where it has no value. value, ends: the
    columns that hold the value and the ends of its interval, by default `value` with _low and _high."""
    if (number := finite_or_none(row[value])) is None:
        return None
    low, high = (finite_or_none(row.get(end)) for end in ends or (f"{value}_low", f"{value}_high"))
    return Point(name, series, number, low, high, finite_or_none(row.get("other")))


def chance_lines(chance: Mapping[str, float], part: str) -> list[Line]:
    """Lines at one half and at a guesser's share right, of that part of the questions or else of all."""
    at = chance.get(part, chance.get("all"))
    half = Line(0.5, "half", (2, 3))
    if at is None:
        return [half]
    if abs(at - 0.5) < 0.02:
        return [Line(at, f"chance {at:.2f}, half", (5, 3))]
    return [Line(at, f"chance {at:.2f}", (5, 3), left=at < 0.5), Line(0.5, "half", (2, 3), left=at > 0.5)]


def zero_line(part: str) -> list[Line]:
    """The line of no difference, for any part of the questions."""
    return [Line(0, "")]
