"""Draws lines over layers: a value with its interval for each layer, in one colour and shape for each series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tomserve.reporting.html.svg import INK, MUTED, PALETTE, SHAPES
from tomserve.reporting.html.vegalite import Spec, field, layer, layered


@dataclass(frozen=True, slots=True)
class Mark:
    """One value: its series and layer, and the ends of its interval (None where there is none)."""

    series: str
    layer: int
    value: float
    low: float | None = None
    high: float | None = None

    def in_words(self) -> str:
        """The value as a text alternative says it."""
        ends = "" if self.low is None or self.high is None else f" [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.series}, layer {self.layer}: {self.value:.2f}{ends}"


def lines(
    marks: Sequence[Mark],
    series: Sequence[str],
    domain: tuple[float, float],
    axis: str,
    at: float | None = None,
    *,
    least: int = 300,
) -> Spec:
    """A chart of lines over layers; whatever lies beyond the axis is drawn at its end.

    marks: the values. series: their names in the order of the legend; the first is drawn thick and with its interval as
    a band, the others thin. domain: the ends of the axis. axis: its title. at: where a line of reference lies.
    least: how wide it is at least, in pixels.
    """
    low, high = domain
    data = [
        {
            "series": mark.series,
            "layer": mark.layer,
            "value": _within(mark.value, domain),
            "low": None if mark.low is None else _within(mark.low, domain),
            "high": None if mark.high is None else _within(mark.high, domain),
            "words": mark.in_words(),
        }
        for mark in sorted(marks, key=lambda mark: (series.index(mark.series), mark.layer))
    ]
    colours = [*PALETTE, MUTED, INK, INK][: len(series)]
    shapes = [*SHAPES, "triangle-left", "circle", "square"][: len(series)]
    columns = 3 if len(series) > 4 else 2
    key = {"title": None, "orient": "bottom", "columns": columns, "columnPadding": 26, "offset": 6}
    legend = key if len(series) > 1 else None
    colour = field("series:N", scale={"domain": list(series), "range": colours}, sort=None, legend=legend)
    shape = field("series:N", scale={"domain": list(series), "range": shapes}, sort=None, legend=legend)
    layers = sorted({mark.layer for mark in marks})
    ticks = {"values": layers[:: max(1, len(layers) // 12)], "format": "d", "grid": False}
    across = {"domain": [layers[0] - 0.3, layers[-1] + 0.3], "nice": False}
    x = {"x": field("layer:Q", title="layer", scale=across, axis=ticks)}
    up = {"domain": [low, high], "nice": False}
    y = {"y": field("value:Q", title=axis, scale=up, axis={"tickCount": 6, "gridOpacity": 0.6})}
    words = {"description": field("words:N")}
    first = [row for row in data if row["series"] == series[0]]
    known = [row for row in first if row["low"] is not None]
    band = {**x, "y": field("low:Q"), "y2": {"field": "high"}}
    parts: list[Spec] = []
    if at is not None:
        parts.append(layer("rule", [{"at": at}], {"y": field("at:Q")}, color=INK, size=1.2))
    parts.append(layer("area", known, band, color=PALETTE[0], opacity=0.16))
    parts.append(layer("rule", known, {**band, **words}, color=PALETTE[0], opacity=0.75, strokeWidth=2))
    for chosen, width in (([row for row in data if row["series"] != series[0]], 1.2), (first, 2.6)):
        base = {**x, **y, "color": colour}
        parts.append(layer("line", chosen, base, strokeWidth=width))
        size = 26 if width < 2 else 60
        parts.append(layer("point", chosen, {**base, **words, "shape": shape}, filled=True, size=size, opacity=1))
    return layered(parts, max(least, min(620, 26 * len(layers))), 240 if len(series) > 4 else 220)


def _within(value: float, domain: tuple[float, float]) -> float:
    return min(max(value, domain[0]), domain[1])
