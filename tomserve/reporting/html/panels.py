"""Helps studies to make figures: it picks the rows of a table, shortens names, and draws a panel for each model.

>>> short_names(["a_model"])
{'a_model': 'a_model'}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tomserve.reporting.html.charts import Line, Point, points
from tomserve.reporting.html.svg import draw
from tomserve.studies.answer_rows import BASELINE
from tomserve.studies.presentation import Figure, Panel, Row, Tables, finite_or_none, one_line, readable_name


class AbsentError(Exception):
    """A table or a column that a figure needs is missing or empty; the message says which, as a reader of the report
    reads it."""


def rows_of(tables: Tables, name: str, needed: str, keys: str = "") -> list[Row]:
    """Rows of a table as mappings, the first for each combination of values of the columns `keys`.

    Raises AbsentError where the table is missing or empty, or lacks one of the columns `needed`.
    """
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


def drawn(figure: Figure, make: Callable[[], Figure]) -> Figure:
    """The figure that `make` draws, or where there is nothing to draw `figure` without pictures, with the reason."""
    try:
        made = make()
    except AbsentError as absent:
        return replace(figure, missing=f"Not drawn: {absent}.")
    return (
        made if made.panels or made.exhibits or made.missing else replace(made, missing="Not drawn: no defined values.")
    )


def _no_lines(part: str) -> Sequence[Line]:
    del part
    return ()


@dataclass(frozen=True, slots=True)
class Axis:
    """The axis that the panels of a figure share: its title, its ends, and lines of reference for a part of the
    questions. `first`: the place of the first series among colours and shapes (see charts.points)."""

    title: str
    domain: tuple[float, float]
    lines: Callable[[str], Sequence[Line]] = field(default=_no_lines)
    first: int = 0


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
                label = f"{figure.title}: {title}. " + "; ".join(mark.in_words() for mark in marks) + "."
                panels.append(Panel(title, draw(chart, label, f"{figure.name}-{len(panels)}")))
    return replace(figure, panels=tuple(panels))


def _points(rows: Sequence[Row], row: str, series: str, value: str, low: str, high: str) -> list[Point]:
    return [
        Point(
            readable_name(one[row]),
            readable_name(one[series]),
            number,
            finite_or_none(one.get(low)),
            finite_or_none(one.get(high)),
            finite_or_none(one.get("other")),
        )
        for one in rows
        if (number := finite_or_none(one[value])) is not None
    ]


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
    del part
    return [Line(0, "")]
