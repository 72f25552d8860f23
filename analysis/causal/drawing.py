"""Draws lines over layers: a value with its interval for each layer, in one colour and shape for each series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from tomserve.reporting.html.svg import INK, MUTED, PALETTE, SHAPES


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
    marks: Sequence[Mark], series: Sequence[str], domain: tuple[float, float], axis: str, at: float | None = None
) -> alt.LayerChart:
    """A chart of lines over layers; whatever lies beyond the axis is drawn at its end.

    marks: the values. series: their names in the order of the legend; the first is drawn thick and with its interval as
    a band, the others thin. domain: the ends of the axis. axis: its title. at: where a line of reference lies.
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
    colours = [*PALETTE, MUTED, INK][: len(series)]
    shapes = [*SHAPES, "triangle-left", "circle"][: len(series)]
    key = alt.Legend(title=None, orient="bottom", columns=3, columnPadding=26, offset=6) if len(series) > 1 else None
    colour = alt.Color("series:N", scale=alt.Scale(domain=list(series), range=colours), sort=None).legend(key)
    shape = alt.Shape("series:N", scale=alt.Scale(domain=list(series), range=shapes), sort=None).legend(key)
    layers = sorted({mark.layer for mark in marks})
    step = max(1, len(layers) // 12)
    x = alt.X("layer:Q", title="layer", scale=alt.Scale(domain=[layers[0] - 0.3, layers[-1] + 0.3], nice=False))
    x = x.axis(values=layers[::step], format="d", grid=False)
    y = alt.Y("value:Q", title=axis, scale=alt.Scale(domain=[low, high], nice=False)).axis(tickCount=6, gridOpacity=0.6)
    first = [row for row in data if row["series"] == series[0]]
    band = alt.Chart(alt.InlineData(values=[row for row in first if row["low"] is not None])).encode(x=x, y2="high:Q")
    ends = band.mark_rule(color=PALETTE[0], opacity=0.75, strokeWidth=2)
    parts: list[alt.Chart] = []
    if at is not None:
        rule = alt.Chart(alt.InlineData(values=[{"at": at}])).mark_rule(color=INK, size=1.2)
        parts.append(rule.encode(y=alt.Y("at:Q")))
    parts.append(band.mark_area(color=PALETTE[0], opacity=0.16).encode(y=alt.Y("low:Q")))
    parts.append(ends.encode(y=alt.Y("low:Q"), description="words:N"))
    for chosen, width in (([row for row in data if row["series"] != series[0]], 1.2), (first, 2.6)):
        base = alt.Chart(alt.InlineData(values=chosen)).encode(x=x, y=y, color=colour)
        parts.append(base.mark_line(strokeWidth=width))
        dots = base.mark_point(filled=True, size=26 if width < 2 else 60, opacity=1)
        parts.append(dots.encode(shape=shape, description="words:N"))
    return alt.LayerChart(layer=parts, width=max(300, min(620, 26 * len(layers))), height=220)


def _within(value: float, domain: tuple[float, float]) -> float:
    return min(max(value, domain[0]), domain[1])
