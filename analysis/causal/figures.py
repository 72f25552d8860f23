"""The report's figures of interventions: net effects by layer and cell, displacement, fit, and probes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from tomserve.causal.table import CONTROLS, FALSE, HELD_OUT, PATCH, PPT, SHUFFLED_PAIRS
from tomserve.reporting.html.charts import (
    AbsentError,
    Cell,
    Curve,
    Curves,
    Picture,
    Scale,
    Spot,
    draw_figure,
    heat_map,
    keys_of,
    panel,
    rows_by_arm,
    rows_of,
    values_of,
)
from tomserve.studies import Context, Figure, Panel
from tomserve.studies.presentation import Row, Tables, finite_or_none, readable_name
from tomserve.studies.texts import Texts

from .tables import ALL

TEXTS = Texts(__file__)


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
) -> Curves:
    """A chart of lines over layers; whatever lies beyond the axis is drawn at its end. marks: the values. series: their
    names in the order of the legend; the first is drawn thick and with its interval as a band, the others thin. domain:
    the ends of the axis. axis: its title. at: where a line of reference lies. least: how wide it is at least, in
    pixels."""
    curves: list[Curve] = []
    for key in keys_of(series):
        own = sorted((mark for mark in marks if mark.series == key.name), key=lambda mark: mark.layer)
        spots = tuple(Spot(mark.layer, mark.value, mark.low, mark.high, mark.in_words()) for mark in own)
        curves.append(Curve(key, spots, strong=not curves, band=not curves))
    layers = sorted({mark.layer for mark in marks})
    shown = layers[:: max(1, len(layers) // 12)]
    across = Scale("layer", (layers[0] - 0.3, layers[-1] + 0.3), tuple(shown), tuple(map(str, shown)))
    width, height = max(least, min(620, 26 * len(layers))), 240 if len(series) > 4 else 220
    return Curves(tuple(curves), across, Scale.round(axis, domain, 6), width, height, at)


NET = TEXTS.figure("causal-net")
CELLS = TEXTS.figure("causal-cells")
DISPLACEMENT = TEXTS.figure("causal-displacement")
ERROR = TEXTS.figure("causal-error")
PROBES = TEXTS.figure("causal-probes")


def figures(tables: Tables, context: Context) -> Sequence[Figure]:
    """All figures, each with a panel for every model and benchmark."""
    makers = (
        (NET, _net),
        (CELLS, partial(_heat, "net", CELLS)),
        (DISPLACEMENT, partial(_heat, "displacement", DISPLACEMENT)),
        (ERROR, _error),
        (PROBES, _probes),
    )
    return [draw_figure(figure, partial(make, tables)) for figure, make in makers]


def _marks(rows: Sequence[Row], series: str, value: str, low: str = "", high: str = "") -> list[Mark]:
    return [
        Mark(series, int(str(row["layer"])), number, finite_or_none(row.get(low)), finite_or_none(row.get(high)))
        for row in rows
        if (number := finite_or_none(row[value])) is not None
    ]


def _net(tables: Tables) -> Figure:
    rows = rows_of(tables, "net_by_layer", "model benchmark map layer net net_low net_high")
    panels: list[Panel] = []
    for title, own in rows_by_arm(rows):
        marks = []
        for name in (PPT, *CONTROLS, PATCH):
            marks += _marks(
                [row for row in own if row["map"] == name], readable_name(name), "net", "net_low", "net_high"
            )
        series = list(dict.fromkeys(mark.series for mark in marks))
        lowest = min([-0.1, *(mark.value for mark in marks)])
        chart = lines(marks, series, (max(-1.0, lowest), 1.0), "net effect", 0.0, least=380)
        panels.append(panel(NET, title, chart, map(Mark.in_words, marks)))
    return replace(NET, panels=tuple(panels))


def _heat(value: str, figure: Figure, tables: Tables) -> Figure:
    """A heat map over layers and strengths of the map and, for net effects, one of the largest control."""
    rows = [row for row in rows_of(tables, "cells", f"model benchmark map fitted layer alpha {value}")
            if row["fitted"] == HELD_OUT]  # fmt: skip
    panels: list[Panel] = []
    for title, own in rows_by_arm(rows):
        names = [PPT, *([control] if value == "net" and (control := _largest(tables, own[0])) else [])]
        for name in names:
            chosen = [row for row in own if row["map"] == name and finite_or_none(row[value]) is not None]
            numbers, across = _strengths(chosen)
            cells = [_cell(row, value, numbers) for row in chosen]
            down = [f"layer {layer}" for layer in sorted({int(str(row["layer"])) for row in chosen})]
            if cells:
                shown = f"{title}: {readable_name(name)}"
                label = f"{figure.title}, heat map: {shown}. " + "; ".join(cell.words for cell in cells) + "."
                chart = heat_map(cells, down, across, "alpha" if numbers is None else "strength, from the longest step")
                panels.append(Panel(shown, Picture(chart, label)))
    return replace(figure, panels=tuple(panels))


Places = dict[tuple[int, float], str]


def _strengths(rows: Sequence[Row]) -> tuple[Places | None, list[str]]:
    """The columns of a heat map, and which one is a strength's where each layer has its own; None where all share
    them."""
    of: dict[int, set[float]] = {}
    for row in rows:
        of.setdefault(int(str(row["layer"])), set()).add(float(str(row["alpha"])))
    if len({frozenset(alphas) for alphas in of.values()}) < 2:
        return None, [f"{alpha:g}" for alpha in sorted(set().union(*of.values()))]
    places = {(layer, alpha): str(n) for layer, own in of.items() for n, alpha in enumerate(sorted(own), start=1)}
    return places, [str(n) for n in range(1, max(map(len, of.values())) + 1)]


def _cell(row: Row, value: str, places: Places | None) -> Cell:
    number, alpha = finite_or_none(row[value]) or 0.0, float(str(row["alpha"]))
    at = f"{alpha:g}" if places is None else places[int(str(row["layer"])), alpha]
    layer = f"layer {row['layer']}"
    return Cell(layer, at, number, f"{readable_name(row['map'])}, {layer}, alpha {alpha:.3g}: {number:.2f}")


def _largest(tables: Tables, row: Row) -> str | None:
    """The control that was the largest most often, for the model and benchmark of the row."""
    for one in rows_of(tables, "headline", "model benchmark"):
        if one["model"] == row["model"] and one["benchmark"] == row["benchmark"] and one.get("control") in CONTROLS:
            return str(one["control"])
    return None


def _error(tables: Tables) -> Figure:
    rows = [
        row for row in rows_of(tables, "fits", "model benchmark map fitted layer error") if row["fitted"] == HELD_OUT
    ]
    panels: list[Panel] = []
    for title, own in rows_by_arm(rows):
        marks = []
        for name in (PPT, SHUFFLED_PAIRS):
            marks += _marks([row for row in own if row["map"] == name], readable_name(name), "error")
        if not marks:
            raise AbsentError("no map was fitted with a known error")
        series = list(dict.fromkeys(mark.series for mark in marks))
        chart = lines(marks, series, (0.0, 2.0), "leave-one-out error", 1.0)
        panels.append(panel(ERROR, title, chart, map(Mark.in_words, marks)))
    return replace(ERROR, panels=tuple(panels))


def _probes(tables: Tables) -> Figure:
    needed = "model benchmark probe told layer accuracy accuracy_low accuracy_high shuffled chance"
    rows = rows_of(tables, "probes", needed)
    panels: list[Panel] = []
    for title, arm in rows_by_arm(rows):
        for probe in values_of(arm, "probe"):
            told = FALSE if probe == "protagonist" and any(row["told"] == FALSE for row in arm) else ALL
            own = [row for row in arm if row["probe"] == probe and row["told"] == told]
            marks = _marks(own, "probe", "accuracy", "accuracy_low", "accuracy_high")
            marks += _marks(own, "shuffled labels", "shuffled") + _marks(own, "by frequency", "chance")
            if not marks:
                continue
            series = list(dict.fromkeys(mark.series for mark in marks))
            name = f"{title}: {readable_name(probe)}" + (", false-belief stories" if told == FALSE else "")
            chart = lines(marks, series, (0.0, 1.0), "share right")
            panels.append(panel(PROBES, name, chart, map(Mark.in_words, marks)))
    return replace(PROBES, panels=tuple(panels))
