"""The report's figures of interventions: net effects by layer and cell, displacement, fit, and probes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from tomserve.causal.table import CONTROLS, FALSE, HELD_OUT, PATCH, PPT, SHUFFLED_PAIRS
from tomserve.reporting.html.charts import (
    AbsentError,
    Cell,
    Curve,
    Curves,
    Draw,
    Picture,
    Scale,
    Spot,
    heat_map,
    keys_of,
    panel,
    rows_by_arm,
    rows_of,
    values_of,
)
from tomserve.studies import Figure, Panel
from tomserve.studies.presentation import Row, Tables, finite_or_none, readable_name

from .tables import ALL


def lines(
    drawn: Mapping[str, Sequence[Spot]],
    domain: tuple[float, float],
    axis: str,
    at: float | None = None,
    *,
    least: int = 300,
) -> Curves:
    """A chart of lines over layers; whatever lies beyond the axis is drawn at its end. drawn: the values by series, in
    the order of the legend; the first is drawn thick and with its interval as a band, the others thin. domain: the ends
    of the axis. axis: its title. at: where a line of reference lies. least: how wide it is at least, in pixels."""
    curves: list[Curve] = []
    for key in keys_of(list(drawn)):
        spots = sorted(drawn[key.name], key=lambda spot: spot.x)
        curves.append(Curve(key, tuple(spots), strong=not curves, band=not curves))
    layers = sorted({spot.x for spots in drawn.values() for spot in spots})
    shown = layers[:: max(1, len(layers) // 12)]
    across = Scale("layer", (layers[0] - 0.3, layers[-1] + 0.3), tuple(shown), tuple(map(str, shown)))
    width, height = max(least, min(620, 26 * len(layers))), 240 if len(drawn) > 4 else 220
    return Curves(tuple(curves), across, Scale.round(axis, domain, 6), width, height, at)


def _spots(rows: Sequence[Row], series: str, value: str, low: str = "", high: str = "") -> list[Spot]:
    """The values of one series, each over its layer."""
    found = []
    for row in rows:
        if (number := finite_or_none(row[value])) is not None:
            least, most = finite_or_none(row.get(low)), finite_or_none(row.get(high))
            ends = "" if least is None or most is None else f" [{least:.2f}, {most:.2f}]"
            words = f"{series}, layer {row['layer']}: {number:.2f}{ends}"
            found.append(Spot(int(str(row["layer"])), number, least, most, words))
    return found


def _panel(figure: Figure, title: str, drawn: Mapping[str, Sequence[Spot]], chart: Curves) -> Panel:
    return panel(figure, title, chart, (spot.words for spots in drawn.values() for spot in spots))


def _net(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    rows = rows_of(tables, "net_by_layer", "model benchmark map layer net net_low net_high")
    panels: list[Panel] = []
    for title, own in rows_by_arm(rows):
        drawn = {}
        for name in (PPT, *CONTROLS, PATCH):
            chosen, shown = [row for row in own if row["map"] == name], readable_name(name)
            if spots := _spots(chosen, shown, "net", "net_low", "net_high"):
                drawn[shown] = spots
        lowest = min([-0.1, *(spot.y for spots in drawn.values() for spot in spots)])
        chart = lines(drawn, (max(-1.0, lowest), 1.0), "net effect", 0.0, least=380)
        panels.append(_panel(figure, title, drawn, chart))
    return replace(figure, panels=tuple(panels))


def _heat(figure: Figure, tables: Tables, chance: Mapping[str, float], *, value: str) -> Figure:
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


def _error(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    rows = [
        row for row in rows_of(tables, "fits", "model benchmark map fitted layer error") if row["fitted"] == HELD_OUT
    ]
    panels: list[Panel] = []
    for title, own in rows_by_arm(rows):
        named = {readable_name(name): [row for row in own if row["map"] == name] for name in (PPT, SHUFFLED_PAIRS)}
        drawn = {name: spots for name, of in named.items() if (spots := _spots(of, name, "error"))}
        if not drawn:
            raise AbsentError("no map was fitted with a known error")
        panels.append(_panel(figure, title, drawn, lines(drawn, (0.0, 2.0), "leave-one-out error", 1.0)))
    return replace(figure, panels=tuple(panels))


def _probes(figure: Figure, tables: Tables, chance: Mapping[str, float]) -> Figure:
    needed = "model benchmark probe told layer accuracy accuracy_low accuracy_high shuffled chance"
    rows = rows_of(tables, "probes", needed)
    series = {"probe": "accuracy", "shuffled labels": "shuffled", "by frequency": "chance"}
    panels: list[Panel] = []
    for title, arm in rows_by_arm(rows):
        for probe in values_of(arm, "probe"):
            told = FALSE if probe == "protagonist" and any(row["told"] == FALSE for row in arm) else ALL
            own = [row for row in arm if row["probe"] == probe and row["told"] == told]
            found = {name: _spots(own, name, of, f"{of}_low", f"{of}_high") for name, of in series.items()}
            if drawn := {name: spots for name, spots in found.items() if spots}:
                name = f"{title}: {readable_name(probe)}" + (", false-belief stories" if told == FALSE else "")
                panels.append(_panel(figure, name, drawn, lines(drawn, (0.0, 1.0), "share right")))
    return replace(figure, panels=tuple(panels))


# Each with a panel for every model and benchmark
MAKERS: Mapping[str, Draw] = {
    "causal-net": _net,
    "causal-cells": partial(_heat, value="net"),
    "causal-displacement": partial(_heat, value="displacement"),
    "causal-error": _error,
    "causal-probes": _probes,
}
