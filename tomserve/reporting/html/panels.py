"""What the figures share: panels, one a model and part of the questions, and the names that readers see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl
from markupsafe import Markup

from tomserve.reporting.html.charts import Line, Point, finite, points
from tomserve.reporting.html.svg import draw, plain

Tables = Mapping[str, pl.DataFrame]
Row = dict[str, object]
SUBSETS = {"all": "all questions", "false_belief": "false-belief subset"}
CONTROL, VANILLA = "none", "vanilla"


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture of a figure."""

    title: str
    svg: Markup


@dataclass(frozen=True, slots=True)
class Figure:
    """Pictures with what a reader must know. missing: why there are none. tables: where the numbers stand.

    wide: each picture needs a line of its own.
    """

    name: str
    title: str
    caption: str
    tables: tuple[str, ...]
    panels: tuple[Panel, ...] = ()
    missing: str = ""
    caveat: str = ""
    wide: bool = False


class AbsentError(Exception):
    """A column or a table that a figure needs is not there."""


def rows_of(tables: Tables, name: str, needed: str, keys: str = "") -> list[Row]:
    """Rows of a table, the first for each value of `keys`. Raises AbsentError where a needed column is not there."""
    frame = tables.get(name)
    if frame is None:
        raise AbsentError(f"this study has no table {name}")
    if absent := [column for column in needed.split() if column not in frame.columns]:
        raise AbsentError(f"the table {name} has no column {absent[0]}")
    if not frame.height:
        raise AbsentError(f"the table {name} is empty")
    return frame.unique(keys.split() or None, keep="first", maintain_order=True).to_dicts()


def said(value: object) -> str:
    """A name of the design as a reader says it: transparent container."""
    text = plain(value).replace("_", " ")
    return f"{text} (control)" if text == CONTROL else text


def order(rows: Sequence[Row], column: str) -> list[str]:
    found = list(dict.fromkeys(str(row[column]) for row in rows))
    return sorted(found, key=lambda name: name != VANILLA) if column == "strategy" else found


def unique(names: Sequence[str]) -> dict[str, str]:
    """Each name as a chart shows it; two that look alike stay two."""
    shown: dict[str, str] = {}
    for name in names:
        text, number = plain(name, 24), 2
        while text in shown.values():
            text, number = f"{plain(name, 20)} ({number})", number + 1
        shown[name] = text
    return shown


def _points(rows: Sequence[Row], row: str, series: str, value: str, low: str, high: str) -> list[Point]:
    return [
        Point(said(r[row]), said(r[series]), number, finite(r.get(low)), finite(r.get(high)), finite(r.get("other")))
        for r in rows
        if (number := finite(r[value])) is not None
    ]


def _text(title: str, marks: Sequence[Point]) -> str:
    return f"{title}. " + "; ".join(mark.told() for mark in marks) + "."


def with_panels(figure: Figure, panels: Sequence[Panel]) -> Figure:
    return replace(figure, panels=tuple(panels))


def small_multiples(
    figure: Figure,
    rows: Sequence[Row],
    columns: tuple[str, str, str, str, str],
    domain: tuple[float, float],
    lines: Callable[[str], Sequence[Line]],
    axis: str,
    first: int = 0,
) -> Figure:
    """A panel for each subset and model. columns: row, series, value, low, high; first: see charts.points."""
    panels: list[Panel] = []
    series = [said(name) for name in order(rows, columns[1])]
    models = unique(order(rows, "model"))
    width = 330 if len(models) == 1 else 250
    for subset in list(dict.fromkeys(str(row.get("subset", "")) for row in rows)):
        for model, shown in models.items():
            part = [row for row in rows if str(row.get("subset", "")) == subset and row["model"] == model]
            marks = _points(part, *columns)
            names = [said(name) for name in order(part, columns[0])]
            title = ", ".join(filter(None, (shown, SUBSETS.get(subset, said(subset)))))
            if marks:
                chart = points(marks, names, series, domain, lines(subset), axis, width=width, first=first)
                label = _text(f"{figure.title}: {title}", marks)
                panels.append(Panel(title, draw(chart, label, f"{figure.name}-{len(panels)}")))
    return with_panels(figure, panels)
