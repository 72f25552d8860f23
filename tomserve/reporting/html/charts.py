"""Charts of a report: points with intervals, heat maps and lines, each drawn in the width that it is given, and a panel
for each model."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Protocol

from markupsafe import Markup

from tomserve.reporting.drawing import (
    GRID,
    INK,
    MUTED,
    PALETTE,
    SHAPES,
    Anchor,
    Drawing,
    Group,
    Letters,
    Part,
    Path,
    cut,
    marker,
    rectangle,
    segment,
    spread,
    text_width,
    ticks,
    wrap,
)
from tomserve.studies.answer_rows import BASELINE
from tomserve.studies.presentation import (
    Context,
    Figure,
    Panel,
    Row,
    Tables,
    finite_or_none,
    one_line,
    readable_name,
)

LINE = 15.0  # from one line of letters to the next
MARGIN = 6.0  # to the left and right
LABEL = 230.0  # how long a label is at most
ROW = 64  # how many characters the name of a row has at most, in two lines
WIDER = 1.15  # how much wider the fonts of pages may be than that of printed figures


@dataclass(frozen=True, slots=True)
class Fit:
    """How a chart is made as wide as a column. axis: how long an axis is that may have any length; None for the chart's
    own. fields: how much is left of the width of fields and scales of colours, from 0 to 1. label: how long labels are
    at most. wider: how wide letters are, times those of the font of printed figures."""

    axis: float | None = None
    fields: float = 1.0
    label: float = LABEL
    wider: float = 1.0

    def width(self, text: str, size: float = 12.0) -> float:
        """How wide a line of letters is."""
        return self.wider * text_width(text, size)

    def longest(self, texts: Iterable[str]) -> float:
        """How wide the widest of these lines is."""
        return max(map(self.width, texts), default=0.0)

    def cut(self, text: str) -> str:
        """The label as far as there is room for it."""
        return cut(text, self.label / self.wider)

    def less(self, value: float, least: float) -> float:
        """How wide a field or a scale of colours becomes, but not below the least."""
        return max(min(value, least), value * self.fields)


PAGE = Fit(wider=WIDER)
PHONE = Fit(axis=155.0, label=130.0, wider=WIDER)


class Chart(Protocol):
    """What can be drawn in any width."""

    stretches: ClassVar[bool]  # whether its axis may have any length

    def drawing(self, fit: Fit) -> Drawing:
        """The chart with everything that stands around it."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart with its text alternative, as a page or a notebook shows it."""

    chart: Chart
    label: str

    def __html__(self) -> Markup:
        """The chart as an <svg role="img">."""
        return Markup(self.chart.drawing(PAGE).svg(self.label))

    @property
    def narrow(self) -> Markup:
        """The chart as wide as a phone; empty where its axis has a length of its own."""
        return Markup(self.chart.drawing(PHONE).svg(self.label) if self.chart.stretches else "")

    def __str__(self) -> str:
        return str(self.__html__())

    _repr_svg_ = __str__


@dataclass(frozen=True, slots=True)
class Key:
    """What a colour and a shape stand for."""

    name: str
    colour: str
    shape: str = "circle"


def keys_of(series: Sequence[str], first: int = 0, grey: str = "") -> list[Key]:
    """The keys of series by their names. first: the place of the first among colours and shapes. grey: the series
    without a colour."""
    places = range(first, first + len(series))
    colours = (*PALETTE, MUTED, INK, INK)
    looks = [(colours[place % len(colours)], SHAPES[place % len(SHAPES)]) for place in places]
    return [
        Key(name, MUTED if grey and name == grey else colour, shape)
        for name, (colour, shape) in zip(series, looks, strict=True)
    ]


def _sheet(parts: Sequence[Part], width: float, height: float, keys: Sequence[Key], fit: Fit) -> Drawing:
    """The parts with a legend of several keys below them, in as many lines as the width asks for."""
    legend: list[Part] = []
    x, y = MARGIN, height + LINE / 2 + 6
    for key in keys if len(keys) > 1 else ():
        name = cut(key.name, min(LABEL, width - 2 * MARGIN - 14) / fit.wider)
        if x > MARGIN and x + 14 + fit.width(name) > width - MARGIN:
            x, y = MARGIN, y + LINE + 3
        legend += [marker(key.shape, (x + 5, y), 70, key.colour), Letters((x + 14, y + 4), name)]
        x += 14 + fit.width(name) + 18
    return Drawing(width, y + 12 if legend else height, (*parts, *legend))


def _numbers(values: Sequence[float], step: float) -> list[str]:
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return [f"{value + 0.0:.{digits}f}".replace("-", "−") for value in values]


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis: its title, its ends, where it has numbers, and what these are called."""

    title: str
    ends: tuple[float, float]
    at: tuple[float, ...]
    names: tuple[str, ...]

    @classmethod
    def round(cls, title: str, ends: tuple[float, float], count: int = 5) -> Scale:
        """An axis with about so many round numbers."""
        at = ticks(*ends, count)
        return cls(title, ends, tuple(at), tuple(_numbers(at, at[1] - at[0] if len(at) > 1 else 1)))

    def share(self, value: float) -> float:
        """How far along the axis the value lies, from 0 to 1; what lies beyond, at its end."""
        low, high = self.ends
        return (min(max(value, low), high) - low) / (high - low)

    def below(self, left: float, top: float, length: float, height: float, *, grid: bool = True) -> Iterable[Part]:
        """The axis below a field that begins at left and top."""
        places = [left + self.share(value) * length for value in self.at]
        bottom = top + height
        if grid:
            yield Path(tuple(((x, top), (x, bottom)) for x in places), stroke=GRID, opacity=0.7)
        strokes = (((left, bottom), (left + length, bottom)), *(((x, bottom), (x, bottom + 5)) for x in places))
        yield Path(strokes, stroke=MUTED)
        yield from (Letters((x, bottom + 18), name, "middle") for x, name in zip(places, self.names, strict=True))
        yield Letters((left + length / 2, bottom + 35), self.title, "middle")

    def beside(self, left: float, top: float, length: float, height: float) -> Iterable[Part]:
        """The axis to the left of a field, with lines across it."""
        places = [top + (1 - self.share(value)) * height for value in self.at]
        yield Path(tuple(((left, y), (left + length, y)) for y in places), stroke=GRID, opacity=0.7)
        strokes = (((left, top), (left, top + height)), *(((left - 5, y), (left, y)) for y in places))
        yield Path(strokes, stroke=MUTED)
        yield from (Letters((left - 8, y + 4), name, "end") for y, name in zip(places, self.names, strict=True))
        yield Letters((MARGIN + 9, top + height / 2), self.title, "middle", turned=-90)

    def margin(self, fit: Fit) -> float:
        """How much room it takes to the left of a field."""
        return MARGIN + 18 + fit.longest(self.names) + 8


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


@dataclass(frozen=True, slots=True)
class Band:
    """An upright band behind all rows, with a line at its value, in the colour of a series."""

    low: float
    high: float
    at: float
    series: str
    words: str


@dataclass(frozen=True, slots=True)
class Points:
    """Points with their intervals, each in the row and the colour that it names (see `points`)."""

    stretches: ClassVar[bool] = True
    marks: tuple[Point, ...]
    rows: tuple[str, ...]
    keys: tuple[Key, ...]
    scale: Scale
    lines: tuple[Line, ...]
    width: float
    bands: tuple[Band, ...] = ()

    def drawing(self, fit: Fit) -> Drawing:
        """The chart with its labels, its axis and its legend."""
        labels = [wrap(name, fit.label / fit.wider) for name in self.rows]
        several = max(map(len, labels), default=1)
        step = max(22.0, 11.0 * len(self.keys) + 4, LINE * several + 4 if several > 1 else 0)
        length = fit.axis or self.width
        left = MARGIN + fit.longest(line for lines in labels for line in lines) + 8
        top = 20.0 if any(line.name for line in self.lines) else 6.0
        height = step * len(self.rows)
        edges = [top + step * place for place in range(len(self.rows) + 1)]
        parts: list[Part] = [Path(tuple(((left, y), (left + length, y)) for y in edges), stroke=GRID, opacity=0.45)]
        for lines, edge in zip(labels, edges, strict=False):
            begin = edge + step / 2 + 4 - LINE / 2 * (len(lines) - 1)
            parts += [Letters((left - 8, begin + LINE * k), line, "end") for k, line in enumerate(lines)]
        parts += self.scale.below(left, top, length, height)
        parts += self._behind(left, top, length, height)
        own, across = {key.name: (place, key) for place, key in enumerate(self.keys)}, len(self.keys) + 0.7
        rows = dict(zip(self.rows, edges, strict=False))
        for mark in self.marks:
            place, key = own[mark.series]
            share = (place + 0.85) / across if len(self.keys) > 1 else 0.5
            parts.append(self._mark(mark, key, left, length, rows[mark.row] + step * share))
        named = (line for line in self.lines if line.name and not line.left)
        ends = [self._x(line.at, 0, length) + fit.width(line.name, 11) for line in named]  # may stick out of the axis
        right = max([0.0, *(end - length for end in ends)])
        return _sheet(parts, left + length + MARGIN + right, top + height + 42, self.keys, fit)

    def _x(self, value: float, left: float, length: float) -> float:
        return left + length * self.scale.share(value)

    def _behind(self, left: float, top: float, length: float, height: float) -> Iterable[Part]:
        """The bands, and the lines of reference with their names."""
        colours = {key.name: key.colour for key in self.keys}
        for band in self.bands:
            ends = [self._x(value, left, length) for value in (band.low, band.high, band.at)]
            area = rectangle(ends[0], top, ends[1] - ends[0], height, colours[band.series], opacity=0.16)
            middle = (((ends[2], top), (ends[2], top + height)),)
            line = Path(middle, stroke=colours[band.series], dash=(3, 2), opacity=0.8)
            yield Group((area, line), words=band.words)
        for one in self.lines:
            x = self._x(one.at, left, length)
            colour, dash = (INK, ()) if one.dash == (0, 0) else (MUTED, one.dash)
            yield Path((((x, top), (x, top + height)),), stroke=colour, width=1.2, dash=dash)
            if one.name:
                at = (x + 2, top - 4) if one.left else (x - 2, top - 4)
                yield Letters(at, one.name, "end" if one.left else "start", 11, MUTED)

    def _mark(self, mark: Point, key: Key, left: float, length: float, y: float) -> Part:
        parts: list[Part] = []
        if mark.other is not None:
            x = self._x(mark.other, left, length)
            parts.append(segment((x, y - 6.5), (x, y + 6.5), key.colour, 2))
        if mark.low is not None and mark.high is not None:
            low, high = (self._x(end, left, length) for end in (mark.low, mark.high))
            parts.append(segment((low, y), (high, y), key.colour, 2))
        parts.append(marker(key.shape, (self._x(mark.value, left, length), y), 62, key.colour))
        return Group(tuple(parts), words=mark.in_words())


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
    bands: Sequence[Band] = (),
) -> Points:
    """A chart of points with their intervals, each in the row and the colour that it names. marks: the points; whatever
    lies beyond the axis is drawn at its end. rows: the names of the rows from top to bottom. series: the names of the
    series, which differ in colour and shape. domain: the ends of the axis. lines: vertical lines of reference. axis:
    the title of the axis. width: of the axis, in pixels. first: the place of the first series among colours and shapes,
    so that a strategy looks the same in every figure. grey: the series that is drawn without a colour. bands: upright
    ones behind the points."""
    keys, scale = tuple(keys_of(list(dict.fromkeys(series)), first, grey)), Scale.round(axis, domain)
    return Points(tuple(marks), tuple(dict.fromkeys(rows)), keys, scale, tuple(lines), width, tuple(bands))


CELL_LIGHT, CELL_DARK = "#10151c", "#ffffff"
# The colours of shares in a heat map, from light for 0 to dark for 1
BLUES = ("#f3f7fc", "#c9dcee", "#86b4d8", "#3d80b6", "#08417c")
# The colours of differences in a heat map, from orange for a loss to violet for a gain
LOSS_GAIN = ("#b35806", "#e08b34", "#f9d0a0", "#f6f6f6", "#c3c5e3", "#8073ac", "#4b2d82")
FIELD = 25.0  # how high a field of a heat map is
STEPS = 32  # of a scale of colours
# The narrowest field of a map, the shortest scale of colours, and the least room between maps
_NARROW, _SHORT, _APART = 34.0, 72.0, 10.0


@dataclass(frozen=True, slots=True)
class Cell:
    """One field of a heat map: its row and column, its value, and the same in words for readers who cannot see it."""

    row: str
    column: str
    value: float
    words: str


@dataclass(frozen=True, slots=True)
class HeatMap:
    """One of several maps side by side (see `heat_map`)."""

    cells: tuple[Cell, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    title: str
    difference: float | None
    chance: float | None
    names: bool

    def field(self, fit: Fit) -> float:
        """How wide a field is."""
        return fit.less({1: 92.0, 2: 74.0, 3: 64.0}.get(len(self.columns), 46.0), _NARROW)

    def above(self, fit: Fit) -> float:
        """How much room the names of columns take above the fields."""
        if len(self.columns) < 2:
            return 0.0
        longest = fit.longest(map(fit.cut, self.columns))
        return 20 + (longest * math.sin(math.radians(40)) if self._turned(fit) else 0.0)

    def _turned(self, fit: Fit) -> bool:
        return fit.longest(self.columns) + 4 > self.field(fit)

    def parts(self, top: float, fit: Fit) -> tuple[list[Part], float, float]:
        """What the map is drawn with, its fields from that height on, and how wide and high it is."""
        step = self.field(fit)
        labels = [fit.cut(name) for name in self.rows] if self.names else []
        left = fit.longest(labels) + 8 if labels else 0.0
        places = {name: left + step * k for k, name in enumerate(self.columns)}
        down = {name: top + FIELD * k for k, name in enumerate(self.rows)}
        wide = step * len(self.columns)
        half = fit.width(self.title, 13) / 2
        parts: list[Part] = [Letters((max(left + wide / 2, half), 15), self.title, "middle", 13, heading=True)]
        right = max(left + wide, left + wide / 2 + half, 2 * half)
        for place, name in enumerate(self.columns if len(self.columns) > 1 else ()):
            text, x = fit.cut(name), left + step * (place + 0.5)
            if self._turned(fit):
                parts.append(Letters((x, top - 6), text, turned=-40))
                right = max(right, x + fit.width(text) * math.cos(math.radians(40)) + 4)
            else:
                parts.append(Letters((x, top - 6), text, "middle"))
        parts += [Letters((left - 6, y + 17), name, "end") for name, y in zip(labels, down.values(), strict=False)]
        parts += [self._field(cell, places[cell.column], down[cell.row], step) for cell in self.cells]
        bottom = top + FIELD * len(self.rows) + 8
        length = fit.less(max(110.0, wide), _SHORT)
        parts += self._colours(left, bottom, length)
        return parts, max(right, left + length + 8), bottom + 26

    def _share(self, value: float) -> float:
        return value if self.difference is None else (value / self.difference + 1) / 2

    def _field(self, cell: Cell, x: float, y: float, width: float) -> Part:
        colour = spread(BLUES if self.difference is None else LOSS_GAIN, self._share(cell.value))
        form = ".2f" if self.difference is None else "+.2f"
        number = f"{round(cell.value, 2) + 0.0:{form}}".replace("-", "−")
        ink = CELL_DARK if _is_dark(cell.value, self.difference) else CELL_LIGHT
        parts = (
            rectangle(x, y, width, FIELD, colour, stroke=GRID),
            Letters((x + width / 2, y + 17), number, "middle", fill=ink),
        )
        return Group(parts, words=cell.words)

    def _colours(self, left: float, top: float, length: float) -> Iterable[Part]:
        """The scale of colours with its numbers. Each step reaches to the end, so that none shows a seam."""
        colours = BLUES if self.difference is None else LOSS_GAIN
        for place in range(STEPS):
            x = left + length * place / STEPS
            yield rectangle(x, top, left + length - x, 9, spread(colours, place / (STEPS - 1)))
        marks = [0.0, 0.5, 1.0] if self.difference is None else [-self.difference, 0.0, self.difference]
        if self.chance is not None and self.difference is None and abs(self.chance - 0.5) > 0.05:
            close = abs(self.chance - 0.5) * length < 34  # pixels that two numbers need beside each other
            marks = [0.0, self.chance, 1.0] if close else sorted([*marks, self.chance])
        for mark in marks:
            name = f"{mark:.2f}".rstrip("0").rstrip(".").replace("-", "−")
            share = self._share(mark)
            anchor: Anchor = "start" if share <= 0 else "end" if share >= 1 else "middle"
            yield Letters((left + length * share, top + 22), name, anchor)


def _is_dark(value: float, difference: float | None) -> bool:
    """Whether white reads better than black on the colour of a cell (by the luminance of the two palettes)."""
    if difference is None:
        return value > 0.78
    return value > 0.72 * difference or value < -0.93 * difference


@dataclass(frozen=True, slots=True)
class HeatMaps:
    """Heat maps side by side, each with its own scale of colours."""

    stretches: ClassVar[bool] = False
    maps: tuple[HeatMap, ...]

    def drawing(self, fit: Fit) -> Drawing:
        """The maps, their fields at one height."""
        top = 26 + max(one.above(fit) for one in self.maps)
        x, low, found = MARGIN, 0.0, list[Part]()
        for one in self.maps:
            parts, width, height = one.parts(top, fit)
            found.append(Group(tuple(parts), (x, 0.0)))
            x, low = x + width + fit.less(22.0, _APART), max(low, height)
        return Drawing(x - fit.less(22.0, _APART) + MARGIN, low + 4, tuple(found))


def heat_map(
    cells: Sequence[Cell],
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    *,
    difference: float | None = None,
    chance: float | None = None,
    names: bool = True,
) -> HeatMaps:
    """A heat map whose fields show their numbers. cells: the fields. rows, columns: their names in order. title: stands
    above the map. difference: the largest absolute difference that the colours tell apart; None for a map of shares
    from 0 to 1. chance: a guesser's share, marked on the scale of colours where it is not close to one half. names:
    whether the rows are named (only the leftmost of several maps side by side needs to)."""
    return HeatMaps((HeatMap(tuple(cells), tuple(rows), tuple(columns), title, difference, chance, names),))


def side_by_side(maps: Sequence[HeatMaps]) -> HeatMaps:
    """Heat maps side by side, each with its own colours."""
    return HeatMaps(tuple(one for several in maps for one in several.maps))


@dataclass(frozen=True, slots=True)
class Spot:
    """A value over a number, the ends of its interval (None where there is none), and the same in words."""

    x: float
    y: float
    low: float | None
    high: float | None
    words: str


@dataclass(frozen=True, slots=True)
class Curve:
    """Values of one series from left to right. band: whether its intervals are joined to a band. strong: whether it is
    drawn thick, and its intervals with it."""

    key: Key
    spots: tuple[Spot, ...]
    strong: bool = True
    band: bool = False


@dataclass(frozen=True, slots=True)
class Curves:
    """Lines over a number. at: the height of a line of reference. width, height: of the field, in pixels."""

    curves: tuple[Curve, ...]
    across: Scale
    up: Scale
    width: float
    height: float
    at: float | None = None
    stretches: ClassVar[bool] = True

    def drawing(self, fit: Fit) -> Drawing:
        """The lines with both axes and the legend."""
        length, left, top = fit.axis or self.width, self.up.margin(fit), 8.0
        parts = [*self.up.beside(left, top, length, self.height)]
        parts += self.across.below(left, top, length, self.height, grid=False)

        def place(x: float, y: float) -> tuple[float, float]:
            return left + length * self.across.share(x), top + self.height * (1 - self.up.share(y))

        if self.at is not None:
            parts.append(segment(place(self.across.ends[0], self.at), place(self.across.ends[1], self.at), INK, 1.2))
        for curve in sorted(self.curves, key=lambda one: one.strong):
            colour, known = curve.key.colour, [one for one in curve.spots if one.low is not None]
            ends = [place(one.x, one.low or 0.0) for one in known], [place(one.x, one.high or 0.0) for one in known]
            if curve.band and len(known) > 1:
                parts.append(Path(((*ends[0], *ends[1][::-1]),), fill=colour, opacity=0.16))
            through = tuple(place(one.x, one.y) for one in curve.spots)
            parts.append(Path((through,), stroke=colour, width=2.2 if curve.strong else 1.2))
            for spot in curve.spots:
                inner: list[Part] = []
                if curve.strong and spot.low is not None and spot.high is not None:
                    inner.append(segment(place(spot.x, spot.low), place(spot.x, spot.high), colour, 2, 0.75))
                size = 60 if curve.strong else 26
                inner.append(marker(curve.key.shape, place(spot.x, spot.y), size, colour))
                parts.append(Group(tuple(inner), words=spot.words))
        keys = [curve.key for curve in self.curves]
        return _sheet(parts, left + length + MARGIN, top + self.height + 42, keys, fit)


@dataclass(frozen=True, slots=True)
class Freehand:
    """Parts of one's own on a field of that size, with a legend of their keys below."""

    parts: tuple[Part, ...]
    width: float
    height: float
    keys: tuple[Key, ...] = ()
    stretches: ClassVar[bool] = False

    def drawing(self, fit: Fit) -> Drawing:
        """The parts as they are."""
        return _sheet(self.parts, self.width, self.height, self.keys, fit)


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


Draw = Callable[[Figure, Tables, Mapping[str, float]], Figure]  # Figure, tables, what a guesser gets right


def draw_figures(
    figure_of: Callable[[str], Figure], makers: Mapping[str, Draw], tables: Tables, context: Context
) -> list[Figure]:
    """The figures of a study, by their names, in this order. figure_of: gives each without pictures (Texts.figure)."""
    named = ((figure_of(name), make) for name, make in makers.items())
    return [draw_figure(figure, partial(make, figure, tables, context.chance)) for figure, make in named]


def panel(figure: Figure, title: str, chart: Chart, words: Iterable[str]) -> Panel:
    """A panel of a figure, whose text alternative says every mark. words: of each mark (see Point.in_words)."""
    return Panel(title, Picture(chart, f"{figure.title}: {title}. {'; '.join(words)}."))


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


@dataclass(frozen=True, slots=True)
class Axis:
    """The axis that the panels of a figure share: its title, its ends, and lines of reference for a part of the
    questions."""

    title: str
    domain: tuple[float, float]
    lines: Callable[[str], Sequence[Line]] = dataclasses.field(default=lambda part: ())
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
            names = [readable_name(name, ROW) for name in values_of(chosen, columns[0])]
            title = ", ".join(filter(None, (short, (parts or {}).get(part, readable_name(part)))))
            if marks:
                chart = points(marks, names, series, axis.domain, axis.lines(part), axis.title, width=width,
                               first=axis.first)  # fmt: skip
                panels.append(panel(figure, title, chart, map(Point.in_words, marks)))
    return replace(figure, panels=tuple(panels))


def _points(rows: Sequence[Row], row: str, series: str, value: str, low: str, high: str) -> list[Point]:
    named = ((readable_name(one[row], ROW), readable_name(one[series]), one) for one in rows)
    found = (point_of(one, name, own, value, (low, high)) for name, own, one in named)
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
